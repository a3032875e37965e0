"""What a short text shows of the job by the way, in lines that may be of anything.

>>> sorted(observed("step 120 | loss 2.1\\nLink type       : IB"))
['has-worked', 'on-infiniband']
"""

import re
from collections.abc import Sequence
from typing import Final

from rdmadiag.explain.log.recognition.settings import ON_INFINIBAND, ON_ROCE
from rdmadiag.explain.log.text.source import is_manual
from rdmadiag.late import late

HAS_WORKED: Final = "has-worked"
"""The job has done steps of its work: how it was set up was right until then."""
RECOVERS: Final = "recovers"
"""What was lost is connected once more by itself."""
RESOLVED: Final = "resolved"
"""rdma_cm has found a neighbour and a path."""
COMPLAINT: Final = "complaint"
"""Somebody says that it is slower than it should be."""
MANUAL: Final = "manual"
"""It is a page of the manual, or has one in it."""
GID_INDEX_0: Final = "gid-index-0"
"""Row 0 of a RoCE port is used, which is RoCE v1 and link-local."""

_OBSERVED: Final = {
    # whole.lines_of has a blank in place of a device's name
    ON_INFINIBAND: late(
        r"(?:\bmlx\d_\d+:\d|\s)/IB\b|^\s*Link type\s+: IB$"
        # Adapters of iWARP have the LID 1, and a GID of their MAC.
        r"|^\s*(?:local|remote) address:\s+LID (?:0x)?0*[1-9a-f](?:(?!GID).)*(?:GID ::)?\s*$"
        # The GID of an adapter's GUID, with 03:00 behind the maker's number: mlx5 makes no other.
        r"|\b(?:local|remote)Gids? ?fe80::[0-9a-f]{1,4}:[0-9a-f]{1,2}03:[0-9a-f]{1,2}:[0-9a-f]+"
    ),
    ON_ROCE: late(r"(?:\bmlx\d_\d+:\d|\s)/RoCE\b|^\s*Link type\s+: Ethernet$"),
    # of UCX, Mooncake and NCCL
    GID_INDEX_0: late(
        r"\bsgix 0 dgid fe80:|\bLID: 0, GID: \(GID_Index 0\) fe:80:"
        r"|\bNET/IB ?: Dev \d+ Port \d+ qpn \d+ mtu \d GID 0 \(80FE/"
    ),
    HAS_WORKED: late(
        r"\b(?:time)?_?(?:step|iter(?:ation)?)\b[ :=#\[/]{0,4}\d\d.{0,400}"
        r"(?:loss[ :=]+-?\d|\bdt[ :=]+\d|\d ?it/s|\btok(?:en)?s?/s)"
        r"|\bSeqNum=\d{4,}|\b(?:loss|lm_loss)[ :=]+\d+\.\d+.{0,40}\bstep[ :=]+\d{2,}"
        r"|\b(?:epoch|train(?:ing)?|steps?)\b.{0,60}\| *\d{3,}/\d{3,} \[\d+:\d\d"
        r"|\biteration \d{2,}/\d+ \|"  # NeMo
        # VASP, WRF, OpenFOAM, MLX
        r"|^(?:DAV|RMM): +\d+ +-?0\.\d|^Timing for main: time |^Time = \d.{0,40}\bdeltaT\b"
        r"|\bPrompt processing progress: [1-9]\d*/",
        re.IGNORECASE,
    ),
    RESOLVED: late(r"\bRDMA_CM_EVENT_ROUTE_RESOLVED\b|\brdma_resolve_route successful\b"),
    COMPLAINT: late(
        r"\b(?:dropped|fell|went|down) from .{0,40}\d|\b(?:expect(?:ed|ing)?|should be) ?~? ?\d"
        r"|\b(?:is|are|was|so|too|very|much|why|runs?) (?:very |so |too |this )?slow(?:er)?\b"
        r"|\bslower than\b|\bslow (?:after|since|compared)\b"
        r"|\bthroughput (?:falls|fell|drops|dropped|is (?:low|bad|poor))\b"
        r"|\binstead of (?:the )?(?:usual |expected )?~?\d[\d.]* ?(?:[GM]i?[Bb]|samples|tok)"
        r"|\d ?[GM]i?[Bb](?:it)?(?:/s|ps)? instead of ~?\d"
        r"|\bonly (?:get|gets|getting|seeing?) ~?\d|\bgives? \d[\d.]* (?:samples|tok|[GM]B)"
        r"|\b(?:other|rest)\b.{0,40}\bgives? \d"
        r"|\bon the (?:old|other) (?:cluster|nodes?|hosts?)\b.{0,40}\bdid \d",
        re.IGNORECASE,
    ),
}


_OF_A_RATE: Final = late(
    r"\b(?:others?|rest)\b.{0,40}\b(?:gives?|gets?|are at|reach(?:es)?) ~?\d"
    r"|\b(?:drops?|dropped|falls?|fell) to "
    r"(?:(?:an? )?(?:third|half|quarter|tenth)\b|(?:only |about |just )?~?\d)"
    r"|\bgets? (?:~|about )?\d+ ?% (?:less|lower) than\b|\b\d+ ?% slower than\b"
    r"|\bnever (?:goes|gets|went|got) (?:over|above|beyond) ~?\d"
    r"|\bthe slow(?:est)? (?:one|node|host|pair)\b",
    re.IGNORECASE,
)
"""A complaint, where it is of a rate: memory, samples and learning rates fall, too."""
_CONNECTION: Final = late(r"\b(?:nvme\d+(?=: )|connection\d+:\d+|VERBS RDMA .*? to \S+)")
_LOST: Final = late(r"\btransport retry counter exceeded\b|\bIBV_WC_RETRY_EXC_ERR\b")
_RECOVERED: Final = late(
    r"\bSuccessfully reconnected\b|\bis operational after recovery\b|\bVERBS RDMA connected to \S"
)


def _recovers(lines: Sequence[str]) -> bool:
    """Whether one was lost, came back and was lost again. A loss that names none is of the only one
    that came back.
    """
    back = {_of_which(line) for line in lines if _RECOVERED.search(line)}
    steps = dict.fromkeys(back, 0)
    for line in lines:
        of = _of_which(line)
        several = (of,) if of or len(back) != 1 else back
        for each in several:
            if _RECOVERED.search(line) and steps.get(each) == 1:
                steps[each] = 2
            elif _LOST.search(line) and steps.get(each) in (0, 2):
                steps[each] += 1
    return 3 in steps.values()


def _of_which(line: str) -> str:
    found = _CONNECTION.search(line)
    return found[0].split()[-1] if found else ""


_OF_SPEED: Final = late(
    r"\ball[_ ]?reduce|\bbus ?bw\b|\bbandwidth\b|\bthroughput\b|\bspeed\b|\bstep time\b"
    r"|\d ?[GMT]i?(?:B|b|bit)?(?:/s|ps)?\b|\bsamples\b|\btok(?:en)?s?/s|\bper step\b",
    re.IGNORECASE,
)
_MEASURED: Final = late(
    r"\bbusbw\b|\bBW (?:peak|average)\[|^ *65536 +\d+ +\d+\.\d+ +\d+\.\d+\s"
    r"|^# ?OSU .*Bandwidth|\(ns/day\)"
)
"""The head of a table of what a benchmark of the network has measured."""
_LABELLED: Final = late(r"\s*[\w-]+: ")  # "ranks: 2, expected 2"
_PRINTED: Final = late(
    r"\bNCCL\b|warn|\bINFO\b|\bepoch\b|\bloss\b|^\W{0,2}\[|\bPASS(?:ED)?\b", re.IGNORECASE
)


_RATE: Final = late(
    r"\ball[_ ]?reduce|\bbus ?bw\b|\bbandwidth\b|\bthroughput\b|\d ?[GMT]i?(?:B|b|bit)?(?:/s|ps)\b",
    re.IGNORECASE,
)


def _complains(line: str, *, is_measured: bool) -> bool:
    """Whether somebody says in it that it is slow; beside a benchmark's table without a unit."""
    if _PRINTED.search(line) or (is_measured and _LABELLED.match(line)):
        return False
    if _OF_A_RATE.search(line):
        return is_measured or _RATE.search(line) is not None
    found = _OBSERVED[COMPLAINT].search(line) is not None
    return found and (is_measured or _OF_SPEED.search(line) is not None)


def observed(text: str) -> frozenset[str]:
    """Words of these, of a text of few lines."""
    lines = text.splitlines()
    is_measured = any(map(_MEASURED.search, lines))
    found = {word for word, each in _OBSERVED.items() if any(map(each.search, lines))}
    if not any(_complains(line, is_measured=is_measured) for line in lines):
        found -= {COMPLAINT}
    else:
        found |= {COMPLAINT}
    whole = {MANUAL: is_manual, RECOVERS: _recovers}
    return frozenset(found) | {word for word, holds in whole.items() if holds(lines)}
