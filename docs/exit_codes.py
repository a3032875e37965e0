"""docs/exit_codes.md: every profile."""

from rdmadiag.cli import exits

_HEAD = """\
# Exit codes

Generated from the code by `make docs`.

What `preflight` exits with, by its verdict and by `--profile`:

| profile | ok | warn | critical | unknown | usage | a bug of ours | not written | not permitted |
|---|---|---|---|---|---|---|---|---|
"""

_TAIL = """
- **nagios**: the Monitoring Plugins' codes; what is no answer is UNKNOWN. The form is `nagios`.
- **slurm**: a Prolog that fails drains its node, so nothing but a critical verdict does; a mistake
  in a file that all nodes read would drain them all. It is said on stderr.
- **npd**: node-problem-detector's custom plugins: 0 is no problem, 1 a problem, others unknown.
- **k8s**: an exec probe; everything but 0 fails.

**Not written** (74): stdout, `--output` or a snapshot takes no more: a full disk, a descriptor that
is open for reading alone. With a profile, a verdict that has a code other than 0 keeps it: a full
disk makes no node good. A closed pipe is no failure, and an unwritable stderr changes no code.
**Not permitted** (77): this user may not do what was asked for: read the file that `--from`,
`--log` or `--expect` names, the variables of another user's process, write to that folder.
What the host refuses while it is read is no failure of the command: it is `unknown` in the verdict.
**A path at which there is nothing** is a mistake in the command line (64) in every command but
`diff` and `compat`, which exit 3 where a side could not be read, for whatever reason.
Too little memory, or too few files or processes (`ulimit`), to come to a verdict is `unknown` (3);
in a profile as a mistake is.

`--fail-on` names the mildest status that counts: `warn` counts unknown and critical too, `unknown`
counts critical too. `--exit-zero` lets none count. No RDMA device is `unknown`; where a number of
devices is expected (`--expect-devices`), it is `critical`.

With `--json` a mistake prints `{"error": {"message", "exit_code"}}` on stdout, and its line on
stderr; with `--format nagios` and `github` the line is theirs. A mistake with `--format nagios`
exits 3 without a profile too.

The other commands exit 0 (what was asked for), 2 or 3 as their help says, 64 (usage), 70, 74 and
77.
"""


def exit_codes_page() -> str:
    """The page."""
    rows = [_row("(none)", exits.PLAIN)]
    rows += [_row(f"`{name}`", profile) for name, profile in exits.PROFILES.items()]
    return _HEAD + "".join(rows) + _TAIL


def _row(name: str, profile: exits.Profile) -> str:
    codes = [profile.code(status, None) for status in ("ok", "warn", "critical", "unknown")]
    failed = profile.failed
    own = [exits.USAGE, exits.BUG, exits.NOT_WRITTEN, exits.NOT_PERMITTED]
    codes += own if failed is None else [failed] * len(own)
    return f"| {name} | {' | '.join(map(str, codes))} |\n"
