"""Whether a short text is source or a manual, and no log: no program has printed what it names.

>>> is_source(["qp = ibv_create_qp(pd, &attr);", "if (!qp) {", '    fail("create_qp");', "}"])
True
>>> is_source(["[0] NCCL WARN ibv_create_qp failed;", "[0] init.cc:9 -> 2;", "[0] net.cc:7 -> 2;"])
False
"""

import re
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
    if not any(map(_HEAD.search, lines)):
        if headings.isdisjoint(_SYNOPSIS) or headings.isdisjoint(_BELOW):
            return False
    elif sum(1 for each in headings if _HEADING.fullmatch(each)) < FEWEST - 1:
        return False
    return not any(_LOG.search(each) for each in lines)


def is_page(lines: Sequence[str]) -> bool:
    """Whether it is of a page of the manual and nothing else: headings or options, what is indented
    below, and a question of what it means.
    """
    said = [each for each in lines if not _asks_what_it_means(each)]
    if any(_LOG.search(each.lstrip()) for each in said):
        return False
    if len(said) >= len(lines) - 1 and is_manual(said):
        return all(_IN_A_PAGE.match(each) or _HEADING.fullmatch(each) for each in said)
    return _are_options(lines)


def _are_options(lines: Sequence[str]) -> bool:
    """Whether it is options at the margin, each with sentences that are indented below it."""
    several = [each for each in lines if each.strip()]
    options = [at for at, each in enumerate(several) if _OPTION.fullmatch(each)]
    described = all(at + 1 < len(several) and _INDENTED.match(several[at + 1]) for at in options)
    rest = (each for at, each in enumerate(several) if at not in options)
    return len(options) >= FEWEST and described and all(map(_INDENTED.match, rest))


def _asks_what_it_means(line: str) -> bool:
    """Whether it asks about the words above, and not about a failure of its own."""
    left = _QUOTED.sub("", line)
    return _MEANS.match(left) is not None and _OF_ONES_OWN.search(left) is None


_QUOTED: Final = late(r"\"[^\"]*\"")
_MEANS: Final = late(r"(?:Does|Do|What does|Is it)\b.*\bmeans?\b.*\?")
_OF_ONES_OWN: Final = late(
    r"\b(?:my|our|us|we|gets?|got|sees?|fail\w*|errors?|hosts?|nodes?|jobs?)\b", re.IGNORECASE
)
_OPTION: Final = late(r"--?\w[\w-]*(?:[ =]<?[\w|-]+>?)?(?:, --?\w[\w-]*(?:[ =]<?[\w|-]+>?)?)*")
_INDENTED: Final = late(r"\s{3,}\S")
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
