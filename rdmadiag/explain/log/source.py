"""Whether a short text is source or a manual, and no log: no program has printed what it names.

>>> is_source(["qp = ibv_create_qp(pd, &attr);", "if (!qp) {", '    fail("create_qp");', "}"])
True
>>> is_source(["[0] NCCL WARN ibv_create_qp failed;", "[0] init.cc:9 -> 2;", "[0] net.cc:7 -> 2;"])
False
"""

from collections.abc import Sequence
from typing import Final

from rdmadiag.late import late

FEWEST: Final = 3
SHARE: Final = 0.4
"""Of its lines, those that look like source: others are arguments, comments and texts."""

_SOURCE: Final = late(
    r"[;{]\s*$|^\s*[})\]]+[;,)]*\s*$|^\s*(?:///?|/\*|\*/)"
    r"|^\s*(?:from \S+ import\b|import \w|def \w|class \w|let |fn |pub |async |await |@\w+$"
    r"|return\b)"
    r"|^\s*(?:if|for|while|else|try|except|with)\b.*:\s*$"
    r"|^\s*[\w.\[\],][\w.\[\], ]* :?= (?:await )?[\w.]+\(|^\s*\w+ ?= ?[^\s,]+,(?:\s*#.*)?$"
)
_LOG: Final = late(
    r"\d\d:\d\d:\d\d|^\W{0,2}\[[^\]]*\d[^\]]*\]|^\S+:\d+:\d+|\b(?:WARN|ERROR|INFO|FATAL)\b"
    r"|Traceback|^\s*File \"|\b\w+Error: |\berror stack\b|^\s*#\d+ |0x[0-9a-f]{6}"
    r"|^[\w-]+@[\w-]+[:#$]|^\$ "
)
"""A clock, a rank, a severity, a stack of calls, an address, a prompt: some of it was printed."""

_HEAD: Final = late(r"^([A-Z][\w.-]+)\((\d)\w?\) .* \1\(\2\w?\)$")
"""What man(1) prints above a page, and below."""
_SYNOPSIS: Final = frozenset({"SYNOPSIS"})
_BELOW: Final = frozenset({"DESCRIPTION", "OPTIONS"})


def is_manual(lines: Sequence[str]) -> bool:
    """Whether headings of man(7) stand in it, and no line as a log has them."""
    headings = {each for each in lines if each.isupper()}
    below = _BELOW if not any(map(_HEAD.search, lines)) else headings
    if headings.isdisjoint(_SYNOPSIS) or headings.isdisjoint(below):
        return False
    return not any(_LOG.search(each) for each in lines)


def is_page(lines: Sequence[str]) -> bool:
    """Whether it is a page of the manual and nothing else: headings, and what is indented below."""
    if not is_manual(lines) or any(_LOG.search(each.lstrip()) for each in lines):
        return False
    return all(_IN_A_PAGE.match(each) or _HEADING.fullmatch(each) for each in lines)


_IN_A_PAGE: Final = late(r"\s*$|\s{3}|[A-Z][\w.-]+\(\d\w?\) ")
_HEADING: Final = late(
    r"NAME|SYNOPSIS|CONFIGURATION|DESCRIPTION|OPTIONS|EXIT STATUS|RETURN VALUES?|ERRORS|ENVIRONMENT"
    r"|FILES|ARGUMENTS|ATTRIBUTES|VERSIONS|STANDARDS|CONFORMING TO|NOTES|BUGS|EXAMPLES?|AUTHORS?"
    r"|REPORTING BUGS|COPYRIGHT|HISTORY|CAVEATS|SEE ALSO"
)
"""Of man-pages(7)."""


def is_source(lines: Sequence[str]) -> bool:
    """Whether a good part of them is source, and none is of a log."""
    if len(lines) < FEWEST or any(_LOG.search(each) for each in lines):
        return False
    found = sum(1 for each in lines if _SOURCE.search(each))
    return found >= FEWEST and found >= SHARE * len(lines)
