"""docs/exit_codes.md: every profile."""

from rdmadiag.cli import exits

_HEAD = """\
# Exit codes

Generated from the code by `make docs`.

What `preflight` exits with, by its verdict and by `--profile`:

| profile | ok | warn | critical | unknown | usage | a bug of ours |
|---|---|---|---|---|---|---|
"""

_TAIL = """
- **nagios**: the Monitoring Plugins' codes; what is no answer is UNKNOWN. The form is `nagios`.
- **slurm**: a Prolog that fails drains its node, so nothing but a critical verdict does; a mistake
  in a file that all nodes read would drain them all. It is said on stderr.
- **npd**: node-problem-detector's custom plugins: 0 is no problem, 1 a problem, others unknown.
- **k8s**: an exec probe; everything but 0 fails.

`--fail-on` names the mildest status that counts: `warn` counts unknown and critical too, `unknown`
counts critical too. `--exit-zero` lets none count. No RDMA device is `unknown`; where a number of
devices is expected (`--expect-devices`), it is `critical`.

With `--json` a mistake prints `{"error": {"message", "exit_code"}}` on stdout, and its line on
stderr; with `--format nagios` and `github` the line is theirs. A mistake with `--format nagios`
exits 3 without a profile too.

The other commands exit 0 (what was asked for), 2 or 3 as their help says, 64 (usage) and 70.
"""


def exit_codes_page() -> str:
    """The page."""
    rows = [_row("(none)", exits.PLAIN)]
    rows += [_row(f"`{name}`", profile) for name, profile in exits.PROFILES.items()]
    return _HEAD + "".join(rows) + _TAIL


def _row(name: str, profile: exits.Profile) -> str:
    codes = [profile.code(status, None) for status in ("ok", "warn", "critical", "unknown")]
    failed = profile.failed
    codes += [exits.USAGE, exits.BUG] if failed is None else [failed, failed]
    return f"| {name} | {' | '.join(map(str, codes))} |\n"
