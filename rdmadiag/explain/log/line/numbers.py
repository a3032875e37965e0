"""The errno in a line, or in those below it."""

import re
from typing import Final

from rdmadiag.facts.errnos import ERRNOS, Platform
from rdmadiag.late import late

_ERRNO: Final = late(r"\berrno(?:\s+is|\s+code)?[ =:(]*-?(\d{1,3})\b", re.IGNORECASE)
_ENAME: Final = late(r"(?<![\w])(E[A-Z0-9]{3,14})\b")
_BEFORE: Final = late(r"(?:^|[ (\[=:-])(\d{1,3})[\])]?[ :=,(-]{1,3}$")
_RETURNED: Final = late(
    r"\b(?:closed|failed \((?=-\d{1,3}\))|setup_qp failed"
    r"|failed with(?: error| status| code| rc| ret)*"
    r"|os error|ret(?:urn(?:ed|s)?|val)?(?: (?:value|code))?|\brc"
    r"|\berr(?:or)?(?: code)?|status|result)"
    r"[ =:(]*-?(\d{1,3})\b(?![-:/.]\w)",  # a date, or a process, that a record begins with
    re.IGNORECASE,
)
_OF_UCX: Final = late(r"\buc[pst]_|\bUCX|\bnixl", re.IGNORECASE)
"""Its negative numbers are ucs_status_t."""
_NEGATIVE_LAST: Final = late(
    r"\b(?:fail\w*|can'?t|cannot|unable|error|device\([^)]*\))[^:]{0,60}[:,]? -(\d{1,3})\b",
    re.IGNORECASE,
)
_LONE: Final = late(r"(?!^)(?<!\d )[\[(]-?(\d{1,3})[\])]")  # BeeGFS begins with a level: "(2) "
_OF_SOCKET: Final = late(r"\breturned (\d{1,3})\([A-Z].{0,40}\) errno \d")
"""NCCL's socketPollConnect: what SO_ERROR has, and then an errno of an earlier call."""
_OF_NVSHMEM: Final = late(r"\bnon-zero status: (\d{1,3})\b")
_MOST_OF_NVSHMEM: Final = 7
"""NVSHMEMX_ERROR_INTERNAL: numbers up to it are nvshmemx_status, in nvshmem_common.cuh."""


def _texts(platform: str) -> dict[str, int]:
    return {
        text.lower(): number
        for number, (_, text) in ERRNOS[platform].items()
        if len(text) > 8 and text != "Reserved"
    }


_TEXTS: Final = {platform: _texts(platform) for platform in ERRNOS}
_TEXT: Final = {
    platform: late(
        "|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True)), re.IGNORECASE
    )
    for platform, texts in _TEXTS.items()
}
_NUMBERS: Final = {
    platform: {name: number for number, (name, _) in rows.items()}
    for platform, rows in ERRNOS.items()
}


_REJECTED: Final = late(r"RDMA_CM_EVENT_REJECTED|\bconnect rejected\b", re.IGNORECASE)
"""Its number is a reason of the CM, enum ib_cm_rej_reason; of iWARP an errno below 0."""
_OF_UD: Final = late(
    r"RDMA_CM_EVENT_UNREACHABLE\b.*?\b(?:status|err(?:or)?)[ =:(]+[1-5]\b", re.IGNORECASE
)
"""A status of service id resolution, enum ib_cm_sidr_status."""
_NEGATIVE: Final = late(r"\b(?:status|err(?:or)?)[ =:(]+-(\d{1,3})\b", re.IGNORECASE)
_OF_EFA: Final = late(r":efa:.*\b(?:err: \d|prov_err)|\bNET/OFI .*\bRC: \d")
"""EFA's own numbers: enum efa_io_comp_status, and texts that take them for errnos."""

_OF_PSM: Final = late(r"PSM\d? can't open \w+ unit: .*\(err=23\)", re.IGNORECASE)
"""Of psm2_error_t 23 is PSM2_EP_DEVICE_FAILURE, whatever failed (psm2.h)."""


_OF_CREDITS: Final = late(r"\bc: \d+, oc: \d+, rc: \d+")
"""Of LNet's o2iblnd: credits, outstanding ones, and those that are reserved."""
_OF_A_UNIT: Final = late(r"\b(?:HFI|hfi|nic) unit: -1\b(?!.*\berr)")
"""Of PSM: any unit."""


def is_of_efa(text: str) -> bool:
    """Whether the number in the line is neither an errno nor a completion status."""
    return _OF_EFA.search(text) is not None


def errno_of(text: str, after: str, platform: Platform, call: str | None) -> int | None:
    """By number, name or text, whichever the tool gives; 0 is no failure."""
    if is_of_efa(text):
        return None
    if (found := _OF_NVSHMEM.search(text)) and int(found[1]) <= _MOST_OF_NVSHMEM:
        return None
    if any(each.search(text) for each in (_OF_UD, _OF_PSM, _OF_CREDITS, _OF_A_UNIT)):
        return None
    if _REJECTED.search(text):
        found = _NEGATIVE.search(text)
        return int(found[1]) if found else None
    return _stated(text, platform, call) or _errno_below(after, platform)


def _stated(text: str, platform: Platform, call: str | None) -> int | None:
    """In the line itself."""
    if found := _OF_SOCKET.search(text):
        return int(found[1])
    if found := _ERRNO.search(text):
        return int(found[1]) or None
    for name in _ENAME.findall(text):
        if name in _NUMBERS[platform]:
            return _NUMBERS[platform][name]
    if found := _TEXT[platform].search(text):
        return _TEXTS[platform][found[0].lower()]
    if found := _RETURNED.search(text):
        return int(found[1]) or None
    if not _OF_UCX.search(text) and (found := _NEGATIVE_LAST.search(text)):
        return int(found[1]) or None
    if call and (lone := _LONE.findall(text)):
        return int(lone[-1]) or None
    return None


_ERRNO_ALONE: Final = late(
    # The next line may be a failure of its own: its errno is not this line's.
    r"\s*(?!.*(?:fail|error|could|cannot|unable))(?:.*\b)?errno[ =:]+-?(\d{1,3})\s*$",
    re.IGNORECASE,
)


def _errno_below(after: str, platform: Platform) -> int | None:
    """What perftest and others print on a line of its own."""
    for line in after.splitlines()[:3]:
        if found := _ERRNO_ALONE.match(line):
            return int(found[1]) or None
        if found := re.match(r"\s*ERRNO: (.+?)\.?\s*$", line):
            return _TEXTS[platform].get(found[1].lower())
    return None
