"""What the identifiers of a line say once they are taken apart: stage, errno and status.

A program gives its own names to what it calls, and takes their words from the verbs:
`rnic_modify_qp`, `WcStatus::RetryExcErr`, `registerLocalMemory`.

>>> said = plain("rnic_modify_qp(RTR) returned -22")
>>> said, str(stage_in(said)), errno_in(said)
('rnic modify qp(rtr) returned -22', 'rtr', 22)
>>> status_in(plain("Transfer failed with WcStatus::RetryExcErr"))
12
"""

from typing import Final

from rdmadiag.explain.completions import statuses
from rdmadiag.facts.attempt import Stage
from rdmadiag.late import late

_HUMP: Final = late(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_+|(?<=[a-z])-(?=[a-z])")


def plain(text: str) -> str:
    """In small letters, with a space where a part of a name ends."""
    return _HUMP.sub(" ", text).lower()


_QP: Final = r"(?:qps?|queue ?pairs?|qpairs?|srq)"
_MAKE: Final = r"(?:creat\w*|mak\w+|alloc\w*|new|init\w*|set ?up|setting up)"
_STAGES: Final = tuple(
    (stage, late(pattern))
    for stage, pattern in (
        (Stage.RTS, rf"\b{_QP}\b.{{0,40}}\b(?:rts|ready to send)\b|\brtr ?(?:2|to|->) ?rts\b"),
        (
            Stage.RTR,
            (
                rf"\b{_QP}\b.{{0,40}}\b(?:rtr|ready to rec\w+)\b"
                r"|\b(?:rtr|ready to rec\w+)\b.{0,20}\bqp"
                rf"|\bmodify\w* (?:\w+ ){{0,2}}{_QP}\b|\b{_QP} modify\b"
                rf"|\bbring\w* (?:the )?{_QP} up\b"
                rf"|\b{_QP}\b.{{0,12}}\bup\b"
            ),
        ),
        (
            Stage.REG_MR,
            (
                r"\b(?:reg|register\w*|registration|pin|pinning|map)\b.{0,24}"
                r"\b(?:mrs?|mem|memory|buffers?|bytes|regions?|mkey)\b"
                r"|\b(?:mrs?|mem|memory|buffer)\b.{0,8}\b(?:reg|register|registration)\b"
            ),
        ),
        (Stage.CREATE_CQ, rf"\b{_MAKE}\b.{{0,16}}\b(?:cq|completion queue)\b|\bcq {_MAKE}\b"),
        (Stage.CREATE_QP, rf"\b{_MAKE}\b.{{0,16}}\b{_QP}\b|\b{_QP} {_MAKE}\b"),
        (Stage.ALLOC_PD, rf"\b{_MAKE}\b.{{0,16}}\b(?:pd|protection domain)\b|\bpd {_MAKE}\b"),
        (
            Stage.OPEN,
            (
                r"\bopen\w*\b.{0,24}\b(?:device|hca|nic|rnic|context|uverbs\d*|infiniband)\b"
                r"|\b(?:device|hca|rnic) open\b|\bdev/infiniband\b"
            ),
        ),
        (
            Stage.DATA,
            (
                r"\bpost\w* (?:\w+ ){0,2}(?:send|recv|receive|read|write|wr)\b"
                r"|\bpoll\w* (?:\w+ )?(?:cq|completion)"
            ),
        ),
        (
            Stage.CONNECT,
            (
                r"\b(?:cm|rdma)\b.{0,24}\b(?:connect|resolve|accept|listen|bind)\w*\b"
                r"|\b(?:connect|resolve|accept|listen|bind)\w*\b.{0,24}\b(?:cm|rdma)\b"
            ),
        ),
    )
)


def stage_in(said: str) -> Stage | None:
    """Where in the life of a queue pair; of plain text."""
    return next((stage for stage, pattern in _STAGES if pattern.search(said)), None)


_RETURNED: Final = late(
    r"(?:\b(?:ret(?:urn(?:ed|s|ing)?|val| val)?|rc|res(?:ult)?|err(?:or|no)?(?: code)?|code"
    r"|os error|status|fail\w*|with)|[)\w])\s?[ :=(,]{1,3}\(?-(\d{1,3})\b(?![.\d])"
    r"|\b(?:ret(?:urned|val)?|rc|errno|os error|error code)[ :=(]{1,3}(\d{1,3})\b(?![.\d])"
    r"|\bfail\w*.{0,60}[(\[](\d{1,3})[)\]]"
)


def errno_in(said: str) -> int | None:
    """What a call returned, below 0 or after a word that says so; of plain text."""
    for found in _RETURNED.finditer(said):
        number = int(next(each for each in found.groups() if each))
        if 0 < number < _MOST:
            return number
    return None


_MOST: Final = 134


_COUNTER: Final = late(
    r"(?<![\w-])[a-z][a-z0-9]*(?:_[a-z0-9]+)+\b[\"']?(?:\{[^}]*\})?\s*(?:[:=,|]\s*)?\b\d+\b"
)
"""A name with a count behind it, as `rdma statistic`, ethtool -S and exporters print them."""


def without_counters(text: str) -> str:
    """What is left of a line when its counters are taken out.

    >>> without_counters("link rxe0/1 retry_exceeded_err 0 send_err 0")
    'link rxe0/1    '
    """
    return _COUNTER.sub(" ", text)


def _status_pattern(name: str) -> str:
    parts = name.lower().split("_")
    return r"\b" + r"[a-z]* ?".join(parts)


_STATUSES: Final = tuple(
    (late(_status_pattern(row.name)), row.number)
    for row in sorted(statuses(), key=lambda row: -len(row.name))
    if row.number and row.name.count("_") >= 2
)
"""RETRY_EXC_ERR as "retry exceeded error" and "retryexcerr"; two words are too few."""


def status_in(said: str) -> int | None:
    """The status of a completion by its name; of plain text."""
    return next((number for pattern, number in _STATUSES if pattern.search(said)), None)
