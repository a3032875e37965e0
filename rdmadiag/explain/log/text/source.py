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
    below = _BELOW if not any(map(_HEAD.search, lines)) else headings
    if headings.isdisjoint(_SYNOPSIS) or headings.isdisjoint(below):
        return False
    return not any(_LOG.search(each) for each in lines)


def is_page(lines: Sequence[str]) -> bool:
    """Whether it is a page of the manual, or a part of one: headings or options, and below them
    sentences that are indented. A question of what a sentence of it means may stand beside.
    Or a commit that git shows.
    """
    if any(is_it(lines) for is_it in (_is_commit, _is_patch, _are_answers, _explains_statuses)):
        return True
    asked = [each for each in lines if _asks_what_it_means(each, lines) or _asks(each)]
    said = [each for each in lines if each not in asked]
    bare = [each.lstrip() for each in said]
    if len(asked) > 1 or any(_LOG.search(each) or _PRINTED.search(each) for each in bare):
        return False
    if _are_options(said):
        return True
    fits = all(_IN_A_PAGE.match(each) or _HEADING.fullmatch(each) for each in said)
    return fits and (is_manual(said) or _is_below_a_head(said))


def _is_patch(lines: Sequence[str]) -> bool:
    """Whether it is a mail with a patch: what failed stands there as the reason for it."""
    is_mail = any(_PATCH.match(each) for each in lines)
    return is_mail and any(each.startswith(("diff --git ", "@@ ")) for each in lines)


_PATCH: Final = late(r"Subject: (?:Re: )?\[(?:\w+ )*PATCH\b")


def _are_answers(lines: Sequence[str]) -> bool:
    """Whether it is questions that are often asked, each with its answer below."""
    several = [each for each in lines if each.strip()]
    asks = several[:1] != [] and several[0].startswith("Q: ")
    return asks and any(each.startswith("A: ") for each in several)


def _explains_statuses(lines: Sequence[str]) -> bool:
    """Whether names of statuses are headings in it, each above sentences that are indented, and
    nothing stands there that a program has printed.
    """
    several = [each for each in lines if each.strip()]
    heads = [at for at, each in enumerate(several[:-1]) if _STATUS.fullmatch(each)]
    rest = [e for at, e in enumerate(several) if at not in heads and not _HEAD.search(e)]
    printed = (_LOG, _PRINTED, _OWN, _OF_A_RUN, _NUMBER)
    if len(heads) < FEWEST - 1 or any(each.search(line) for each in printed for line in rest):
        return False
    return all(_is_below(several[at], several[at + 1]) for at in heads)


def _is_below(head: str, line: str) -> bool:
    """Whether it is a sentence that stands further to the right."""
    return _EXPLAINED.match(line) is not None and _indent(line) > _indent(head)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


_NUMBER: Final = late(r"\d")
_STATUS: Final = late(r"\s*(?:IBV_WC|IB_WC|RDMA_CM_EVENT|FI_E)_?\w+(?: \(\d+\))?:?\s*")
_EXPLAINED: Final = late(r"\s{2,}[A-Z][a-z]+ [\w ]+(?:[:,.(]| [a-z]+ )?.*$")


def _is_commit(lines: Sequence[str]) -> bool:
    """Whether it is what `git show` and `git log` print of one that somebody has signed, or whose
    files they list, and nobody says that his hosts fail.
    """
    several = [each for each in lines if each.strip()]
    if len(several) < FEWEST or not _COMMIT.match(several[0]) or several[1][:8] != "Author: ":
        return False
    is_one = all(map(_OF_A_COMMIT.match, several[1:])) and any(map(_SIGNED.match, several))
    said = [each.strip() for each in several if each.startswith("    ")]
    return is_one and not any(_OWN.search(each) or _TYPED.match(each) for each in said)


_COMMIT: Final = late(r"commit [0-9a-f]{7,40}(?: \([^)]*\))?$")
_OF_A_COMMIT: Final = late(
    r"commit [0-9a-f]{7,40}\b"
    r"|(?:Author|AuthorDate|Commit|CommitDate|Date|Merge): | {4}| \S.* \| +(?:\d+ [+-]*|Bin .*)$"
    r"| \d+ files? changed"
)
_SIGNED: Final = late(r" {4}Signed-off-by: | \d+ files? changed")
_TYPED: Final = late(r"[\w-]+@[\w-]+[:#$]|\$ ")
_OWN: Final = late(
    r"\b(?:[Ww]e see|[Mm]ine|[Oo]urs|(?:[Mm]y|[Oo]ur) (?:host|node|cluster|server|job)s?)\b"
)


def _is_below_a_head(lines: Sequence[str]) -> bool:
    """Whether it has the head of a page, headings, and sentences alone below them."""
    headings = sum(1 for each in lines if _HEADING.fullmatch(each))
    first = next((each for each in lines if each.strip()), "")
    return _HEAD.search(first) is not None and headings >= FEWEST - 1 and _are_sentences(lines)


def _are_options(lines: Sequence[str]) -> bool:
    """Whether it is options at the margin, each with sentences that are indented below it."""
    several = [each for each in lines if each.strip()]
    options = [at for at, each in enumerate(several) if _OPTION.fullmatch(each)]
    if len(options) < FEWEST or not any("--" in several[at] for at in options):
        return False
    described = all(at + 1 < len(several) and _INDENTED.match(several[at + 1]) for at in options)
    rest = (each for at, each in enumerate(several) if at not in options)
    return described and all(map(_INDENTED.match, rest)) and _are_sentences(lines)


def _are_sentences(lines: Sequence[str]) -> bool:
    """Whether each indented block ends as one, and none is of what a program did on a host."""
    for line, below in zip(lines, (*lines[1:], ""), strict=True):
        is_last = _INDENTED.match(line) and not _INDENTED.match(below)
        ends = line.rstrip().endswith((".", ":", ")")) or _CONSTANT.match(line)
        if _OF_A_RUN.search(line) or (is_last and not ends):
            return False
    return True


def _asks(line: str) -> bool:
    """Whether it asks what to do, and of nothing that has happened."""
    happened = _HAPPENED.search(line) or _NUMBER.search(line)
    return _QUESTION.fullmatch(line) is not None and not happened


_QUESTION: Final = late(
    r"(?:do|does|should|can|must|may|when|why|how) [\w ,'-]{3,160}\?", re.IGNORECASE
)
_HAPPENED: Final = late(
    r"\b(?:my|our|we|got|get|getting|seen?|saw|fail\w*|hang\w*|hung|crash\w*|dies?|died|errors?"
    r"|breaks?|broken|wrong|stuck|slow|lost|tim(?:e|es|ed|ing)[ -]?outs?|timeouts?|reject\w*"
    r"|refus\w*|unreach\w*|drop\w*|stop\w*|end(?:s|ed)?)\b|[A-Z]{2,}_",
    re.IGNORECASE,
)


def _asks_what_it_means(line: str, lines: Sequence[str]) -> bool:
    """Whether it quotes another of the lines and asks what that means, and says nothing else."""
    quoted = _QUOTED.findall(line)
    if not quoted or not _MEANS.match(_QUOTED.sub("", line)):
        return False
    page = " ".join(" ".join(each.split()) for each in lines if each != line)
    return all(each.strip('"') in page for each in quoted)


_QUOTED: Final = late(r'"[^"]{3,200}"')
_MEANS: Final = late(
    r"(?:(?:Does|What does) {1,2}means?(?: (?:E[A-Z]{2,12}|here|exactly))?"
    r"|Does {1,2}mean (?:(?!\b(?:fail|error|my|our|we)\b)[^.?!]){1,120})\?"
    r"(?: Just asking\b[^.?!]{0,60}\.)?$"
)
_CONSTANT: Final = late(r"\s{3,}(?:IBV|IB|RDMA_CM)(?:_[A-Z]+)+ [A-Z]")
"""What one means, which needs no full stop."""
_OPTION: Final = late(
    r"--?\w[\w-]*(?:[ =](?:<[\w|-]+>|[A-Z_]+))?(?:, --?\w[\w-]*(?:[ =](?:<[\w|-]+>|[A-Z_]+))?)*"
)
"""What it takes is between <> or in capitals: an option with a value is of a command."""
_INDENTED: Final = late(r"\s{3,}\S")
_PRINTED: Final = late(
    r"^[a-z][\w./-]*(?:\[\d+\])?: .*\b(?i:fail|error|can(?:no|')t|could ?n|unable|no )"
)
"""A program, and what it says of trouble."""
_OF_A_RUN: Final = late(
    r": (?:Connection|Operation|Permission|Cannot|Invalid|Address|No|Device|Resource|Network|Input"
    r"|Bad|Protocol|Transport|Too|Remote|File|Out|Function|Value)\b"
    r"(?: [\w/-]+){1,5}(?: \(\d+\))?\.?$"
    r"|\b[Ff]ailed status \d|\bRDMA_CM_EVENT_(?!ESTABLISHED)\w|\bstatus[ =:]+-?[1-9]"
    r"|\berrno[ =:]+\d|\bwith error at (?:client|server)\b|\bgave up\b"
    r"|\b(?:mlx[45]_|bnxt_re|irdma|rxe|siw|hfi1_|efa_|hns_|qedr|erdma_|(?:ib|roce|rocep)p?)\d"
    r"|\bIBV_WC_(?!SUCCESS)|(?<![-\w])(?:[Mm]y|[Oo]ur|[Ww]e|I|[Mm]ine)\b"
)
"""What strerror(3) and tests print, a device, and somebody of his own hosts."""
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
