"""docs/rules.md: every rule and every reason against RTR, from the catalogue."""

from rdmadiag.preflight.rules import CATALOGUE
from rdmadiag.preflight.safety import CAVEAT, FOR_LACK_OF_EVIDENCE, REASON_TEXT
from rdmadiag.preflight.thresholds import DEFAULT, Thresholds

_HEAD = """\
# Rules

Generated from the code by `make docs`. A rule has a stable code; its findings have a severity,
the evidence (source, exact file or netlink attribute, value) and a remedy to paste, with this
host's own names in it. Below, words in capitals stand for them, and where lines differ a comment
says when they are the ones.

| severity | means | status of the verdict | exit code |
|---|---|---|---|
| info | worth knowing | ok | 0 |
| warn | may hurt, or may be meant so | warn | 1 |
| unknown | a question that could not be answered | unknown | 3 |
| critical | will fail | critical | 2 |

The verdict's status is that of its worst finding: ok < warn < unknown < critical.

A rule needs certain things to have been read. Where one of them could not be, it is skipped, on
the whole host or at the device or port that it is missing of: it finds nothing there, and does
not pass either (JUnit: skipped; Prometheus: `rdmadiag_checks_skipped`, and no status).
Where it could have been read and was not (timeout, denied, malformed, or exhausted: no process,
descriptor or memory was left), the verdict is unknown, or critical by what else was found.
So with less evidence

- a verdict is what it would have been, or unknown: an ok or a warning never becomes critical, and
  what is critical or unknown never becomes ok or a warning;
- a finding is what it would have been, unknown, or not there: never milder, never graver. Where
  witnesses contradict each other, the one that is left is believed as if it were alone.

It is how the host is, and no failure, that something is absent or unsupported, that nobody was
to look (a record of sysfs alone), and that the kernel's log, PCI bridges or panic reports are not
for an ordinary user: that is counted too, and leaves the verdict alone.

On what each rule was seen to have a finding, live, recorded or built, is in [shown.md](shown.md).
"""


def rules_page() -> str:
    """The page."""
    parts = [_HEAD]
    for rule in CATALOGUE.values():
        parts.append(f"\n## {rule.code}\n\n**{rule.title}** ({rule.severity}). {rule.meaning}\n")
        if rule.needs:
            parts.append(f"\nNeeds: {', '.join(rule.needs)}.\n")
        if rule.remedy:
            parts.append("\n```\n" + "".join(f"{line}\n" for line in rule.remedy) + "```\n")
        if rule.references:
            parts.append("\n" + "".join(f"- <{each}>\n" for each in rule.references))
    parts.append(
        "\n# Reasons against RTR\n\n"
        "`safe_to_attempt_rtr` is true for a port when there is no reason against one bounded\n"
        f"attempt. It is {CAVEAT}: it proves neither the path nor its speed. For the host it is\n"
        "true when it is true for one port or more.\n\n"
        "| reason | means | kind |\n|---|---|---|\n"
    )
    for reason, text in REASON_TEXT.items():
        kind = "cannot tell" if reason in FOR_LACK_OF_EVIDENCE else "will fail"
        parts.append(f"| `{reason}` | {text} | {kind} |\n")
    parts.append(_thresholds())
    return "".join(parts)


def _thresholds() -> str:
    """Names and defaults, for --threshold."""
    rows = (f"| `{name}` | {getattr(DEFAULT, name):g} |\n" for name in Thresholds.names())
    return (
        "\n# Thresholds\n\nFrom where on a rule of `counters` or `resources` has a finding: "
        "`--threshold NAME=NUMBER`.\nCounts are rises between two samples; where a name has a "
        "`_per_second` beside it, both\nmust be reached.\n\n| name | default |\n|---|---|\n"
        + "".join(rows)
    )
