"""docs/explain.md: what `explain --json` prints, and every label of a cause."""

from rdmadiag.explain.causes import CAUSES

_HEAD = """\
# explain: names that programs rely on

Generated from the code by `make docs`.

## A log

`rdmadiag explain --log FILE --json` prints one document:

| name | what it is |
|---|---|
| `host` | the host whose report ranked the causes; null without `--from`, `--sample`, `--here` |
| `log.name`, `log.lines`, `log.bytes` | what was read |
| `first` | the first of `failures`, else of `consequences`; null if there is none |
| `failures[]` | groups of lines by device, stage and number; what failed first is first |
| `consequences[]` | what follows an earlier failure: flush errors, disconnects |
| `notes[]` | worth knowing, no failure by itself |
| `unknown[]` | `line`, `text`, `count`: of RDMA and of trouble, and not understood |
| `unknown_next[]` | what to look at where there is any of them |
| `aftermath`, `aftermath_lines` | lines of watchdogs and aborts, how many and where |
| `dropped` | lines that were recognised, and of more groups than are kept |

Each of `failures`, `consequences` and `notes`:

| name | what it is |
|---|---|
| `kind` | `failure`, `consequence` or `note` |
| `what` | `errno`, `completion`, `call`, or the word of an event (`port-error`, `no-device`, ...) |
| `tool`, `call`, `stage` | who says it, of which call, how far the queue pair was |
| `errno` | `number`, `name`, `text`, `platform`; null without one |
| `completion` | `number`, `name`, `text`, `vendor_error`; null without one |
| `platform` | whose errno: `linux` or `darwin` |
| `device`, `port`, `gid_index`, `local_gid`, `remote_gid`, `peers`, `speakers` | as in the lines |
| `count`, `lines`, `last_line` | how many lines, the numbers of the first, and of the last |
| `text` | the first of them |
| `causes[]` | `label`, `text`, `standing` (`confirmed`, `possible`, `contradicted`), `evidence` |
| `next[]` | lines to paste; advice behind `#` |
| `device_in_report` | whether the report has the device; null without a report, or a name |

`what` is `words` where nothing but the words of a line tells of it: its causes are then a guess.

Exit codes: 0 nothing of RDMA failed in the log, 2 a failure was found, 3 a line names RDMA
and trouble and is not understood, or only by its words, or the log is empty, 64 usage.

Lines are grouped, and kept to 200 groups, ten line numbers and eight ranks or peers of each: what
is beyond is counted. Of a line longer than 4 KiB, the part around its words is looked at.

## A word

`rdmadiag explain WHAT --json`: `asked`, and `answers[]`, each with its `subject`: `errno`, `wc`,
`state`, `env`, `constant`, `rule`, `reason` or `cause`.

## Labels of causes

A label stays when its sentence is worded anew. `rdmadiag explain LABEL` says where it is known
from.

| label | cause |
|---|---|
"""


def explain_page() -> str:
    """The page."""
    rows = (f"| `{label}` | {CAUSES[label].text} |\n" for label in sorted(CAUSES))
    return _HEAD + "".join(rows)
