"""What of a line a program printed: no source, patch or manual; and what it wrapped."""

import re
from typing import Final

from rdmadiag.explain.log.line.fields import cleaned
from rdmadiag.late import late

QUOTED: Final = late(r"(?:[-*>] |\d+\. )?[\"']?`([^`]+)`[\"']?[.,;]?")
"""A line of a log that a page shows, and nothing else beside it."""

NOT_OUTPUT: Final = late(
    r"^(?:diff --git|[+-]{3} [ab]/|@@ |commit [0-9a-f]{7,40}\b"
    r"|(?=\w*\d)(?=\w*[a-f])[0-9a-f]{7,40} \S|Author: )"
    r"|^[+-]\s.*[;{}(]\s*$"  # a line of a patch
    r"|^\s*(?://|/\*|\*\s(?!\[ *\d)"  # a remark, and no list of what the kernel said
    r"|#include\b|#define\b|def |class |return\b|raise\b|throw\b|if ?\(|assert)"
    # Python, Rust, C and Go
    r"|^\s*(?:from [\w.]+ import\b|import [\w.]+(?: as \w+)?$|(?:pub )?(?:fn|impl|mod|use|let) \w"
    r"|(?:static |const |unsigned |extern )*(?:int|void|struct|char|bool|u?int\d+_t|size_t) \*?\w+"
    r"(?:\(|\[|;| = |$)|(?:while|for|elif|else if) ?\(?.*[:{]$|\w+(?:, \w+)* :?= [\w.]+\(.*\)?$"
    r"|(?:v?[fs]n?)?print(?:f|ln)?!?\(|(?:Ok|Err|Some)\(.*=>)"
    r"|;\s*/\*.*\*/\s*$|^\s*\[[A-Z][A-Z0-9_]+\]\s*= \"[^\"]*\",?$"
    # what a command is for, of a list of them, and the terms of a licence
    r"|^\s*# (?:Check|List|Verify|Use|Run|Make sure|Ensure|See|Install|Show|Get) [\w ]+"
    r"|^\s*(?:\./|kubectl |docker |sudo |ssh )\S.* (?:#|--) [\w ]+"
    r"|^(?:THE SOFTWARE IS PROVIDED|Permission is hereby granted)|\bCLAIM, DAMAGES OR OTHER\b"
    r"|%[sdiuxm]\b|%l+[udx]|\{[a-z_.!:]*\}.{0,3}[\"'`]"  # a format, not what it gave
    r"|[;{]\s*$|^(?:el)?if .*:$|^(?:IBV|RDMA_CM)_\w+(?: ?= ?\w+)?,?$"
    r"|^\s*(?:[A-Z][A-Z0-9]+_){2,}[A-Z0-9]+ *= *(?:0x)?\w+,"  # an enumeration
    # a pattern of grep, of a rule or of a filter, and not what it matches
    r"|\((?![A-Z_|]+\))\??:?\w[\w .]*(?:\|[\w ./]+){2,}\)|\w\.\*[\w(]"
    r"|^\s*(?:- )?(?:summary|expected|expr|alert|pattern|regex): [\"'|>]|^\s*Keywords: "
    r"|^\s*\(?\"[^\"]+\", \"\w+\"\)?,?$|^\*\*[^`]*`[^`]+`\*\*$"
    # what a constant is, or leads to, and of what counters have the number
    r"|^\s*(?:IBV|IB|RDMA_CM)_\w+(?:, (?:IBV|IB|RDMA_CM)_\w+)* +-> |^\s*[01]{5} [a-z ]+-> "
    r"|\b[Tt]he number of (?:times|received|packets|transmitted|drops)\b"
    # somebody asks what might be
    r"|^(?:> ?)?(?:[\w.-]+: )?(?:[Aa]nd |[Bb]ut |[Ss]o )?(?:[Ww]hat )?[Ii]f \S.*\bfails?\b.*\?"
    r"|\b[Ww]hat (?:would|does) (?:it|that) mean if\b|^> ?(?:Does|Would|Is) .{0,200}\bmean\b"
    # configure, CMake, gcc and nm; and the name of a file alone
    r"|^-- (?:Looking for|Checking|Performing|Check if)\b"
    r"|^checking .*\.\.\. |: In (?:member )?function ['\N{LEFT SINGLE QUOTATION MARK}]"
    r"|^[0-9a-f]{16} [A-Za-z] \w+$|^\s*(?:[\w.-]+/)*[\w.-]+\.(?:cc?|cpp|h|hpp|o|go|rs|py)$"
    r"|^(?:PLAY|TASK|RUNNING HANDLER) \[.*\] \*{3,}$"  # of Ansible: what it is about to do
    r"|^\s*\|[^|]*`[^`|]+`[^|]*\|[^|]+\|"  # a table of a page, of several columns
    r"|`[^`]{0,200}\b(?:fail|error|cannot)[^`]{0,200}`"  # a page about what is printed
    r"|\b(?:docker|podman|srun|sbatch|mpirun|kubectl|torchrun|deepspeed) .*--\w"
    r"|^\s*(?:IBV|IB|RDMA_CM)_\w+(?: \(\d+\))?(?::| [-\N{EN DASH}]) (?:[\w ]{0,60}: )?"
    r"(?:The|This|Generated|Indicates) [a-z]|\bvalue can be (?:increased|changed|set)\b"
    r"|^\s*\d{1,2} {1,4}(?:IBV|IB|RDMA_CM)_\w+ {2,}[a-zA-Z][a-zA-Z ]*$"  # an enumeration
    r"|\bfor example,? if\b|\b[Ii]f you (?:ever )?see\b"  # somebody explains
    r"|^\s*case \w+:$|(?:\|\||&&) (?:fail|die|warn|error) [\"']"  # C, and a shell's script
    r"|^\[ {5}INFO \] < "  # what a test of UCX expects
    r"|^\s*Start +\d+: \S+$|\bTest +#\d+: \S+ \.+ +Passed\b"  # of ctest
    # notes of a release
    r"|(?:^\d{5,8}:?|(?:^|\| )Description:) Fixed (?:an?|the) |^\d{5,8}: (?:When|If) "
    # what unittest of Python says of a test
    r"|^test_\w+ \([\w.]+\)$"
    r"|^(?:test_\w+ \([\w.]+\)|(?!.*\b(?:failed|errno)\b)(?:[A-Z]|test )[^:]{0,200}) \.\.\. "
    r"(?:ok|expected failure|skipped '.*')$"
    r"|^\s*(?:IBV|IB|RDMA_CM)_\w+ \(\d+\) {2,}[a-zA-Z]|^\s*\"[^\"]{1,200}\" +[-=]> \w"
    r"|^\s*(?:-\w, )?--[a-z][\w-]+(?:=<|,? {2}|=\[)"  # a list of options
    r"|^\s*(?:\$|#|>>>|\+\+?) ?\w*(?:export|env|docker|mpirun|srun|torchrun|python|grep|git)\b"
    # what was typed at a prompt: bash's of Red Hat and of Debian, zsh's of a Mac
    r"|^\s*(?:\[[\w.-]+@[\w.-]+ [^\]]{1,80}\]|[\w.-]+@[\w.-]+:[~/][^#$ ]{0,80})[#$] "
    r"|^\s*[\w.-]+@[\w.-]+ [~/]\S{0,80} % "
    r"|^PS [A-Z]:\\[^>]{0,80}> "  # and that of PowerShell
)
"""Source, patches, history, manuals and command lines: they name failures without any."""


_DASHES: Final = late(r" *(-{3,}(?: +-{3,})+)[ \r]*(?:\n|$)")
"""Below the head of a table of PowerShell, Slurm, psql and pip."""


def is_head(text: str, below: str) -> bool:
    """Whether it is the head of a table: names alone, each above a group of dashes."""
    found = _DASHES.match(below)
    if found is None or any(each.isdigit() for each in text):
        return False
    return len(text.split()) == len(found[1].split())


OF_LAUNCHERS: Final = (
    r"\[[^\]]{1,80}\](?:<std(?:out|err|diag)>)?:? ?|\([^)]{1,80}\) ?| {0,5}\d{1,6}: "
)
"""What Open MPI, srun -l, kubectl, torchrun and Ray put before what a rank printed."""
_LAUNCHER: Final = late(rf"^(?:{OF_LAUNCHERS}){{1,3}}")


def by_itself(text: str) -> str:
    """The line without what a launcher put before it."""
    return _LAUNCHER.sub("", text)


def is_output(text: str) -> bool:
    """Whether a program may have printed it, and not as a detail."""
    return not (NOT_OUTPUT.search(text) or _DETAIL.search(text))


_CUT_OFF: Final = late(
    rb"(?:\bwith|\binsufficient|\berr(?:or|no)?|\bfailed|\bstatus|,|\blocal|\bremote|\bgid|\bindex|\bstate|\bnext"
    rb"|\bvendor|\bopcode|\blen|\bdev|\bconnection|\bnetwork is|\bno such|\bcannot(?: allocate)?"
    rb"|\binvalid|\btransport|\bretry(?: counter)?|\boperation not|\bbad|\bpermission|\bno route to"
    rb"|\bprotocol not|\bno data|\bcompletion)\s*$",
    re.IGNORECASE,
)
_BEGINS: Final = late(
    r"^\s*(?:\[|\w[\w.-]*:\d+:\d+|\d{4}-|\d\d:\d\d|[IWEF]\d{4}|[A-Z]\w* *[:\[]|\w+\(|at |File "
    r"|[a-z][\w.-]{1,20}: (?:error|warning|fatal)\b)"
)
_REST: Final = 240


def is_cut_off(line: bytes) -> bool:
    """Whether it ends where no sentence does: a page or a terminal wrapped it."""
    return _CUT_OFF.search(line[-64:]) is not None


def with_rest(text: str, after: bytes) -> str:
    """The line and the one below it, unless that is a line of its own."""
    rest = after[:_REST].decode("utf-8", "replace").partition("\n")[0]
    return text if not rest.strip() or _BEGINS.match(rest) else f"{text} {cleaned(rest)}"


_DETAIL: Final = late(
    r"\bUCX  ?(?:TRACE|DATA|REQ|FUNC|DEBUG(?!.*error (?:handler|callback) called))\b"
    r"|^libfabric:\S*<(?:debug|trace)>|\bNCCL TRACE\b"
    r"|\bNCCL INFO dlvsym failed\b|<info> fi_getinfo: provider \w+ returned"
    r"|\bfi_getinfo: provider (?:tcp|udp|sockets|shm|sm2|net|lnx|usnic|psm\d?|opx|gni|bgq|mlx"
    r"|netdir|ofi_\w+) returned"
)
"""What is tried in vain on healthy hosts too, and said to be a detail."""
