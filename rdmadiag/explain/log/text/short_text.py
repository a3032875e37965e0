"""A short text is read whole, where no failure in it is known by the vocabulary's words.

What people paste of a log is a few lines, and those of a stack that nobody here has seen have none
of its words; while trouble of another program has some. What was learned of such texts decides
whether a line is shown that no rule took up, and whether one stays that no rule understood.
Of a long log such lines are passed over: there, one line in a hundred that sounds like trouble
would be one too many.
"""

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from rdmadiag.explain.causes import Known
from rdmadiag.explain.log.kind import DISK_FAILED, NOT_STARTED, OF_NO_RDMA, OF_RDMA, Found, Kind
from rdmadiag.explain.log.line.fields import cleaned, fields
from rdmadiag.explain.log.line.identifiers import without_counters
from rdmadiag.explain.log.line.printed import is_head, is_output
from rdmadiag.explain.log.meaning import MOST_CAUSES, Meaning
from rdmadiag.explain.log.recognition.catalogue import is_healthy, message_of
from rdmadiag.explain.log.recognition.in_words import likeliest, weights
from rdmadiag.explain.log.recognition.links import is_of_links
from rdmadiag.explain.log.recognition.of_the_job import is_of_the_job
from rdmadiag.explain.log.recognition.recognise import TEXT_LIMIT, of_identifiers, recognise
from rdmadiag.explain.log.recognition.signs import AFTERMATH, sign_of
from rdmadiag.explain.log.recognition.trouble import may_tell, names_rdma
from rdmadiag.explain.log.text.source import is_page, is_source
from rdmadiag.explain.pasted.ethernet import is_of_ethernet
from rdmadiag.late import late

if TYPE_CHECKING:
    from rdmadiag.explain.log.collector import Collector
    from rdmadiag.explain.log.ranking.learned.trouble import Weights

MOST_LINES: Final = 60
"""Lines of a text that counts as short."""
SHOWN: Final = 3
"""Lines that are shown, those of most weight."""

_OF_NO_RDMA: Final = OF_NO_RDMA | {NOT_STARTED, DISK_FAILED}

Numbered = tuple[int, str]


def read_whole(collector: "Collector", text: bytes, learned: "Weights | None" = None) -> None:
    """Look at every line of it, unless what failed is known, or that nothing did.

    With these learned weights, where they are given, else the package's.
    """
    _take_bare(collector, text)
    lines = lines_of(text)
    collector.whole = "\n".join(line for _, line in lines)
    read = text.decode("utf-8", "replace")
    if is_page(read.splitlines()):
        collector.forget_all()
        return
    collector.is_of_ethernet = bool(lines) and is_of_ethernet(read)
    if not lines or not needs_look(collector, lines):
        return
    said = [line for _, line in lines]
    if is_source(said):
        collector.forget_what_is_not_understood()
        return
    from rdmadiag.explain.log.ranking.learned import trouble

    weighed = (learned or trouble.shipped()).weights(said, collector.found)
    if collector.says_trouble:
        if max(weighed) < trouble.LEAST and not any(
            AFTERMATH.search(each) or is_of_the_job(each) or _INSISTS.search(each) for each in said
        ):
            collector.forget_what_is_not_understood()
        return
    heavy = [(w, *each) for w, each in zip(weighed, lines, strict=True) if w > trouble.LEAST]
    passed = _of_healthy(lines) | _noted(lines) | _of_others(lines) | _heads(lines)
    several = sorted(
        (each for each in heavy if each[1] not in passed and _may_be_told(each[2])),
        key=lambda each: -each[0],
    )
    for _, number, line in sorted(several[:SHOWN], key=lambda each: each[1]):
        # What is noted names a cause already.
        causes = () if collector.is_explained else _causes(line, "\n".join(said))
        collector.add(number, Meaning(Kind.AFTERMATH, OF_RDMA, fields(line), causes, ()))


_INSISTS: Final = late(r"\bNCCL WARN NET/(?:IB|OFI)\b.{0,200}\b(?i:fail|error|invalid|bad|corrupt)")
"""A transport of RDMA itself calls it trouble: that is not weighed against the lines around."""
_LONGEST: Final = 80
_CONSTANT: Final = late(
    r"IBV_WC_(?!SUCCESS)\w+|RDMA_CM_EVENT_\w*(?:ERROR|REJECTED|UNREACHABLE|REMOVAL)"
    r"|IBV_EVENT_\w*(?:ERR|FATAL)"
)
_NUMBERED: Final = late(
    r"((?:ibv_|rdma_(?:accept|bind|connect|create|get|listen|reg|resolve)_?)\w*)\W{1,5}([1-9]\d{0,2})"
)


def _take_bare(collector: "Collector", text: bytes) -> None:
    """A constant, or a call and a number, is in source and manuals too: here it is all there is."""
    line = text.strip()
    if collector.is_explained or len(line) > _LONGEST or b"\n" in line:
        return
    bare = cleaned(line.decode("utf-8", "replace"))
    if _CONSTANT.fullmatch(bare):
        said = f"error: {bare}"
    elif found := _NUMBERED.fullmatch(bare):
        said = f"{found[1]} failed with errno {found[2]}"
    else:
        return
    if meaning := recognise(said.encode()):
        number = text[: text.find(line)].count(b"\n") + 1
        collector.add(number, replace(meaning, fields=replace(meaning.fields, text=bare)))


def lines_of(text: bytes) -> list[Numbered]:
    """Those that are not empty, each with its number; none of a longer text."""
    lines = text.decode("utf-8", "replace").splitlines()
    if len(lines) > MOST_LINES:
        return []
    several = ((n, without_counters(cleaned(line))) for n, line in enumerate(lines, 1))
    return [(number, line[:TEXT_LIMIT]) for number, line in several if line.strip()]


def needs_look(collector: "Collector", lines: list[Numbered]) -> bool:
    """Whether no failure is known, nor by the names of calls that the lines have."""
    if _is_known(collector) or collector.benchmark.has_result:
        return False
    if not collector.says_trouble and any(names_rdma(line) for _, line in lines):
        for number, line in lines:
            if _may_be_told(line) and (meaning := of_identifiers(fields(line))):
                collector.add(number, meaning)
    return not _is_known(collector)


def _is_known(collector: "Collector") -> bool:
    return collector.found is Found.FAILURE


def _may_be_told(line: str) -> bool:
    passed = is_healthy(line) or is_of_links(line) or _OF_HYDRA.match(line)
    return is_output(line) and may_tell(line) and not passed


def _of_healthy(lines: list[Numbered]) -> set[int]:
    """Numbers of the lines into which a message is wrapped that healthy hosts print, too.

    Help texts of Open MPI go on for paragraphs: they end at a line of a log, or of dashes, or at
    one that is known for something else.
    """
    found: set[int] = set()
    last = 0
    for number, line in lines:
        message = message_of(line)
        if message is not None:
            goes_on = message.is_healthy and not _OF_A_LOG.match(line)
        else:
            goes_on = bool(last) and number <= last + _EMPTY_LINES + 1 and _goes_on(line)
        if goes_on:
            found.add(number)
        last = number if goes_on else 0
    return found


def _noted(lines: list[Numbered]) -> set[int]:
    """Numbers of the lines that are a note already, where they are not about all there is.

    Whoever quotes such a line alone asks about it.
    """
    found = ((number, message_of(line)) for number, line in lines)
    notes = {number: e.labels for number, e in found if e and e.kind is Kind.NOTE}
    if len(lines) < _AROUND_A_NOTE:
        return {number for number, labels in notes.items() if labels[:1] == _USUAL}
    return {*notes}


def _heads(lines: list[Numbered]) -> set[int]:
    """Numbers of the lines that are the heads of tables."""
    return {number for (number, line), (_, below) in pairwise(lines) if is_head(line, below)}


def _of_others(lines: list[Numbered]) -> set[int]:
    """Numbers of the lines whose cause is none of RDMA's, whatever they name."""
    found = ((number, message_of(line)) for number, line in lines)
    return {
        number
        for number, message in found
        if message and message.is_other and _OF_NO_RDMA.issuperset(message.labels[:1])
    }


def _goes_on(line: str) -> bool:
    return not (_OF_A_LOG.match(line) or _BEGINS.match(line) or sign_of(line, "linux"))


_OF_HYDRA: Final = late(
    r"=   (?:BAD TERMINATION OF |RANK |EXIT CODE: |KILLED BY SIGNAL: (?!7\b)|CLEANING UP "
    r"|YOU CAN IGNORE)"
)
"""The box in which it says how a process ended, by whatever but a bus error."""
_AROUND_A_NOTE: Final = 6
_USUAL: Final = ("register-refused",)
"""What hosts that have nothing print at each start, and whenever somebody reads a module."""
_EMPTY_LINES: Final = 1
"""Between two paragraphs of one text."""
_OF_A_LOG: Final = late(r"\s*[\[(<]|.{0,80}\d\d:\d\d:\d\d|\S+:\d+:\d+|\s*-{4}")
_BEGINS: Final = late(r"(?!NOTE: )(?:\d{4}-|[A-Z]{4,}\b|[A-Z]+\d|\S+ ?[:=] \S)")


def _causes(line: str, text: str) -> tuple[Known, ...]:
    return likeliest(weights(line) + weights(text), MOST_CAUSES)
