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
| `similar[]` | with `--similar`, else null: `address`, `causes`, `found`, `line`, `likeness` |
| `dropped` | lines that were recognised, and of more groups than are kept |

Each of `failures`, `consequences` and `notes`:

| name | what it is |
|---|---|
| `kind` | `failure`, `consequence` or `note` |
| `what` | `errno`, `completion`, `call`, `message`, or the word of an event (`port-error`, ...) |
| `tool`, `call`, `stage` | who says it, of which call, how far the queue pair was |
| `errno` | `number`, `name`, `text`, `platform`; null without one |
| `completion` | `number`, `name`, `text`, `vendor_error`; null without one |
| `platform` | whose errno: `linux` or `darwin` |
| `device`, `port`, `gid_index`, `local_gid`, `remote_gid`, `peers`, `speakers` | as in the lines |
| `count`, `lines`, `last_line` | how many lines, the numbers of the first, and of the last |
| `text` | the first of them |
| `causes[]` | `label`, `text`, `standing` (`confirmed`, `possible`, `contradicted`), `evidence` |
| `next[]` | lines to paste; advice behind `#` |
| `rests_on` | the first cause: `both` (a rule, and its words), `rule`, `words`; null: neither |
| `probability` | how often such a first cause was right, 0 to 1; null: too few readings to say |
| `tells_apart` | a line to paste that separates the first causes, where none is likely; else null |
| `message` | when a stack prints the line (`stack`, `about`); null: no more than the causes |
| `device_in_report` | whether the report has the device; null without a report, or a name |

The words of a log are weighed for each cause, by a table that was learned of public threads.
`rests_on` and `probability` are counted on threads of which nothing had been learned. A report that
confirms or reorders causes makes both null.
`similar[]` are such threads, from a table in the package: nothing is asked of a network.

`what` is `message` where nothing but a stack's own message shows it, which is in a table with its
causes, and `words` where nothing but the words of a line does: its causes are then a guess.

A log may be packed by gzip, bzip2 or xz, or be UTF-16. Of lines that `clush`, `pdsh`, `srun -l`,
`kubectl logs --prefix` or Ansible have marked, or that stand below headings of `clubak -b`, each
host's are read by themselves where the text has 64 KiB or less: `speakers` has the hosts.

A text of 64 KiB or less is also read as what somebody pastes of a terminal: commands at prompts of
one or several hosts, and what they printed. Counters that rise between two readings, MTUs and rows
of GIDs that differ between two hosts, a link slower than its adapter, alarms of modules, a filter
that drops UDP 4791, what lsmod does not list, ports in a Mac's bridge and the like are failures
whose `what` is `shown`: they come before what failed by them. Where it may be meant so (one port of
many without a link, ACS), it is `shown-perhaps`, which counts where nothing failed (exit 3).

Exit codes: 0 no line says that RDMA failed, 2 a failure was found, 3 a line names RDMA, or what a
job stands on, and trouble and is not understood, or only by its words, or the log is empty, 64
usage. `other` is a line that says how a program ended, of whatever: the answer is then `OTHER`, not
`OK`. It is looked for in the last 8 KiB.

Lines are grouped, and kept to 200 groups, ten line numbers and eight ranks or peers of each: what
is beyond is counted. Of a line longer than 4 KiB, the part around its words is looked at.

## A job

Several logs (`--log` again, a folder, a pattern in quotes), or one with `--job`, are one story:
`rdmadiag explain --log 'logs/*' --from reports/ --json` prints one document. Beside logs, files
are known by what is in them: answers of `ncclras` (text, JSON; of RCCL, too), dumps of PyTorch's
flight recorder (JSON, or pickles of plain containers: one that would run code is refused), lines
of NCCL Inspector. `--from` takes a folder with reports of `preflight --json`, documents of
`counters --json` and snapshots, one a host. A file says what it says alone: what its listings show
is its failure, and what a program did without is none. A log that could not be read leaves it
unknown whether anything failed (exit 3).

| name | what it is |
|---|---|
| `answer` | the first line of the text |
| `first` | what failed first: `who`, `whom`, `at`, `where`, `line`, `failure` |
| `first.is_ordered` | whether all clocks compare: else others may have failed before it |
| `who`, `whom` | `rank`, `host`, `device`, `port`, `gid_index`, `gid`, `address`; null: not known |
| `common_end` | the host that most of the pairs of the first minute share, or whose port failed |
| `failed_after` | ranks that failed, or heard of it, after the first |
| `wavefront[]` | `after_s`, `until_s`, `ranks`, `hosts`, `what`: each rank once |
| `failures[]`, `consequences[]` | lines of all ranks that say the same: how many, of whom, where |
| `silent[]` | `host`, `ranks`, `why`: from `no-log` to RAS's `dead`, in words |
| `behind[]` | `ranks` that did not enter what `waiting` others are in |
| `ended[]` | what ended a process, or a GPU, and is not RDMA |
| `other` | what ended a program by itself, and may have come first; null without one |
| `clocks[]` | those that were set (`offset_s`, `basis`), or cannot be |
| `not_understood[]` | lines of RDMA and of trouble |
| `ranks`, `world_size`, `hosts` | who was heard, and how many there ought to be |
| `reports[]`, `unused_reports[]`, `sources[]` | what was read, and what was not, with why |

Times are put on one scale by what several clocks saw: operations that end, and communicators
that begin, at once for all their ranks; lines that name two clocks; and roughly, where nothing
else sets a clock, both ends of a broken connection. Wall clocks less than two seconds apart are
taken as they are.

Exit codes: 2 a failure was found, 3 a rank or a host is silent, ranks wait, or a line is not
understood, and no failure was found, 0 none of these.

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
