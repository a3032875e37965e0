"""A short text is read whole, where no line of it was understood by the vocabulary's words.

What people paste of a log is a few lines, and those of a stack that nobody here has seen have none
of its words. Of a long log such lines are passed over: there, one line in a hundred that sounds
like trouble would be one too many.
"""

from typing import TYPE_CHECKING, Final

from rdmadiag.explain.causes import Known
from rdmadiag.explain.log.catalogue import is_healthy
from rdmadiag.explain.log.fields import cleaned, fields
from rdmadiag.explain.log.identifiers import without_counters
from rdmadiag.explain.log.in_words import likeliest, weights
from rdmadiag.explain.log.kind import OF_RDMA, Kind
from rdmadiag.explain.log.meaning import MOST_CAUSES, Meaning
from rdmadiag.explain.log.printed import is_output
from rdmadiag.explain.log.recognise import TEXT_LIMIT, of_identifiers
from rdmadiag.explain.log.trouble import may_tell, names_rdma

if TYPE_CHECKING:
    from rdmadiag.explain.log.account import Collector
    from rdmadiag.explain.log.learned.trouble import Weights

MOST_LINES: Final = 60
"""Lines of a text that counts as short."""
SHOWN: Final = 3
"""Lines that are shown, those of most weight."""


def read_whole(collector: "Collector", text: bytes, learned: "Weights | None" = None) -> None:
    """Look at every line of it, unless what failed is known, or that nothing did.

    With these learned weights, where they are given, else the package's.
    """
    if collector.says_trouble or collector.talk.has_result:
        return
    lines = [
        without_counters(cleaned(line)) for line in text.decode("utf-8", "replace").splitlines()
    ]
    if len(lines) > MOST_LINES:
        return
    told = [
        (number, line[:TEXT_LIMIT])
        for number, line in enumerate(lines, 1)
        if is_output(line) and may_tell(line) and not is_healthy(line)
    ]
    if any(names_rdma(line) for line in lines):
        for number, line in told:
            if meaning := of_identifiers(fields(line)):
                collector.add(number, meaning)
    if collector.says_trouble:
        return
    from rdmadiag.explain.log.learned.trouble import LEAST, shipped

    weighed = (learned or shipped()).weights("\n".join(lines))
    heavy = {number: weight for weight, number, _ in weighed if weight >= LEAST}
    several = sorted((each for each in told if each[0] in heavy), key=lambda e: -heavy[e[0]])
    for number, line in sorted(several[:SHOWN]):
        # What is noted names a cause already.
        causes = () if collector.is_explained else _causes(line, "\n".join(lines))
        collector.add(number, Meaning(Kind.AFTERMATH, OF_RDMA, fields(line), causes, ()))


def _causes(line: str, text: str) -> tuple[Known, ...]:
    return likeliest(weights(line) + weights(text), MOST_CAUSES)
