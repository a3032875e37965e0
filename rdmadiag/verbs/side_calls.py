"""What one host may have the other's side do in an exercise, as it travels; pure.

A row of VOCABULARY for each method of `Side`: what each argument may be and what comes back,
all of it bounded. A call is `{"call": NAME, "stage": STAGE, "arguments": {…}}`, its answer
`{"value": …}` or `{"refused": CALL, "errno": N}`. Nothing outside the row is read.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from enum import Enum
from ipaddress import ip_address
from typing import Any, Final

from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.exercise import CellState, Operation, Via, Wanted
from rdmadiag.facts.gid import IPV4_MAPPED
from rdmadiag.facts.ib import GID_BYTES, QpState
from rdmadiag.frozen import dataclass
from rdmadiag.verbs.matrix import LENGTH, QP_TYPES, SGE
from rdmadiag.verbs.protocol import ProtocolError, shown
from rdmadiag.verbs.work import (
    AREA,
    AS_INLINE,
    BIND_MW,
    CMP_SWAP,
    FENCE,
    FETCH_ADD,
    LOCAL_INV,
    MEMORY,
    MESSAGE_INV,
    SIGNALED,
    SOLICITED,
    WRITE,
    Completed,
    NotConnected,
    Target,
    Work,
)

CELLS_MOST: Final = 512
REQUESTS_MOST: Final = 16  # of one post, and receives of one
ENTRIES_MOST: Final = 256  # of a completion queue
EVENT_SECONDS: Final = 5.0  # that a side waits for an event of its channel
_TEXT: Final = 200  # characters
_CALL: Final = re.compile("[a-z][a-z0-9_]{0,47}")


@dataclass(frozen=True, slots=True)
class Field:
    """One value: `plain` makes it JSON, `read` takes it back or raises ProtocolError."""

    read: Callable[[Any], Any]
    plain: Callable[[Any], Any] = lambda value: value


def _refused(value: object) -> ProtocolError:
    return ProtocolError(f"the peer's call makes no sense: {shown(value)}")


def number(low: int, high: int) -> Field:
    """A whole number within these, both of them included."""

    def read(value: Any) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        raise _refused(value)

    return Field(read)


def _real(low: float, high: float) -> Field:
    def read(value: Any) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high:
            return float(value)
        raise _refused(value)

    return Field(read)


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise _refused(value)


def _content(value: Any) -> bytes:
    """Bytes, in hexadecimal."""
    if isinstance(value, str) and len(value) <= 2 * MEMORY:
        try:
            return bytes.fromhex(value)
        except ValueError:
            pass
    raise _refused(value)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value[:_TEXT].encode("utf-8", "backslashreplace").decode()
    raise _refused(value)


def _call(value: Any) -> str:
    if isinstance(value, str) and _CALL.fullmatch(value):
        return value
    raise _refused(value)


def _nothing(value: Any) -> None:
    if value is not None:
        raise _refused(value)


def optional(field: Field) -> Field:
    """The same field, which may be None."""
    return Field(
        lambda value: None if value is None else field.read(value),
        lambda value: None if value is None else field.plain(value),
    )


def many(field: Field, most: int) -> Field:
    """At most so many, as a tuple."""

    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) > most:
            raise _refused(value)
        return tuple(field.read(each) for each in value)

    return Field(read, lambda value: [field.plain(each) for each in value])


def _words(members: type[Enum] | tuple[Enum, ...]) -> Field:
    known = {each.value: each for each in members}

    def read(value: Any) -> Enum:
        if isinstance(value, str) and value in known:
            return known[value]
        raise _refused(value)

    return Field(read, lambda value: value.value)


def _record(kind: type, **each: Field) -> Field:
    """A dataclass, as a list in the order of its fields."""
    names = [field.name for field in fields(kind)]
    assert list(each) == names

    def read(value: Any) -> Any:
        if not isinstance(value, list) or len(value) != len(names):
            raise _refused(value)
        return kind(*(field.read(one) for field, one in zip(each.values(), value, strict=True)))

    return Field(
        read, lambda value: [field.plain(getattr(value, name)) for name, field in each.items()]
    )


def _fixed(*each: Field) -> Field:
    """A tuple of just these."""

    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) != len(each):
            raise _refused(value)
        return tuple(field.read(one) for field, one in zip(each, value, strict=True))

    return Field(
        read,
        lambda value: [field.plain(one) for field, one in zip(each, value, strict=True)],
    )


def where(field: Field, holds: Callable[[Any], bool]) -> Field:
    """A value of which more must hold."""

    def read(value: Any) -> Any:
        found = field.read(value)
        if not holds(found):
            raise _refused(value)
        return found

    return Field(read, field.plain)


NOTHING: Final = Field(_nothing)
_BOOL: Final = Field(_truth)
_BYTES: Final = Field(_content, bytes.hex)
_OFFSET: Final = number(0, MEMORY)
_WORD: Final = number(0, (1 << 64) - 1)
_HALF: Final = number(0, (1 << 32) - 1)
_PSN: Final = number(0, (1 << 24) - 1)

_PIECE: Final = where(_fixed(_OFFSET, _OFFSET), lambda piece: sum(piece) <= MEMORY)
"""Inside the memory of a side."""

_PIECES: Final = many(_PIECE, SGE)
_TARGET: Final = _record(Target, address=_WORD, rkey=_HALF)


def _fits(work: Work) -> bool:
    """What a provider that copies inline data, or takes eight bytes, may rely on."""
    if work.opcode == BIND_MW:  # `bind` alone knows the window
        return False
    if work.opcode in (LOCAL_INV, MESSAGE_INV) and work.invalidate is None:
        return False
    length = sum(length for _, length in work.pieces)
    atomic = work.opcode in (CMP_SWAP, FETCH_ADD)
    if atomic is (work.operands is None):
        return False
    if atomic:
        return work.target is not None and length == _ATOMIC
    return not work.flags & AS_INLINE or length <= LENGTH


def _is_group(raw: bytes) -> bool:
    """A multicast group as multicast.drawn draws it: of the local scope, of nobody else."""
    return len(raw) == GID_BYTES and raw.startswith((_LOCAL_IPV4, _TRANSIENT_LINK))


_LOCAL_IPV4: Final = IPV4_MAPPED + bytes((239, 255))
_TRANSIENT_LINK: Final = b"\xff\x12"
_ATOMIC: Final = 8  # bytes

_WORK: Final = where(
    _record(
        Work,
        opcode=number(WRITE, MESSAGE_INV),
        pieces=_PIECES,
        flags=number(0, FENCE | SIGNALED | SOLICITED | AS_INLINE),
        immediate=_HALF,
        target=optional(_TARGET),
        operands=optional(_fixed(_WORD, _WORD)),
        invalidate=optional(_HALF),
        srq=_HALF,
    ),
    _fits,
)
_COMPLETED: Final = _record(
    Completed,
    is_receive=_BOOL,
    status=number(0, 255),
    length=_HALF,
    immediate=optional(_HALF),
    source=number(0, (1 << 24) - 1),
    invalidated=optional(_HALF),
    vendor_error=_HALF,
)
WANTED: Final = _record(
    Wanted,
    operation=_words(Operation),
    qp_type=where(Field(_text), lambda kind: kind in QP_TYPES),
    via=_words(Via),
)


@dataclass(frozen=True, slots=True)
class Ended:
    """What the end that drives found of a cell."""

    state: CellState
    stage: Stage
    text: str
    call: str | None
    errno: int
    status: int | None
    vendor_error: int
    at_peer: bool  # of the end that drives: the failed call or bad completion was at this one


_GROUP: Final = where(_BYTES, _is_group)
_STAGE: Final = _words(Stage)
_ERRNO: Final = number(0, 4095)
ENDED: Final = _record(
    Ended,
    state=_words(CellState),
    stage=_STAGE,
    text=Field(_text),
    call=optional(Field(_call)),
    errno=_ERRNO,
    status=optional(number(0, 255)),
    vendor_error=_HALF,
    at_peer=_BOOL,
)


@dataclass(frozen=True, slots=True)
class Refused:
    """A call of the library that failed at the other host; 0: it gave no errno."""

    call: str
    errno: int


@dataclass(frozen=True, slots=True)
class Row:
    """One call: its arguments by name, and its answer."""

    arguments: Mapping[str, Field]
    answer: Field = NOTHING
    recorded: bool = True  # it may write to the transcript, which is bounded
    fits: Callable[[Mapping[str, Any]], bool] = lambda arguments: True


def _row(answer: Field = NOTHING, **arguments: Field) -> Row:
    return Row(arguments, answer)


def _quiet(
    answer: Field,
    fits: Callable[[Mapping[str, Any]], bool] = lambda arguments: True,
    **arguments: Field,
) -> Row:
    return Row(arguments, answer, recorded=False, fits=fits)


BEGIN: Final = "begin"
CONCLUDE: Final = "conclude"
OVER: Final = "over"

SESSION: Final[Mapping[str, Row]] = {
    BEGIN: _row(cell=WANTED),
    CONCLUDE: _row(ended=ENDED),
    OVER: _row(),
}
"""What is said beside the calls of a side: a cell begins, what came of it, no more of them."""

VOCABULARY: Final[Mapping[str, Row]] = {
    "open": _row(number(1, 0xFFFFFE)),
    "to_init": _row(),
    "to_rtr": _row(remote=_fixed(number(2, 0xFFFFFE), _PSN)),  # the rest is what both agreed on
    "to_rts": _row(psn=_PSN),
    "end": _row(after=_words((QpState.ERR, QpState.RESET))),
    "close": _row(),
    "write": _quiet(
        NOTHING,
        lambda given: given["offset"] + len(given["content"]) <= MEMORY,
        offset=_OFFSET,
        content=_BYTES,
    ),
    "read": _quiet(
        _BYTES,
        lambda given: given["offset"] + given["length"] <= MEMORY,
        offset=_OFFSET,
        length=_OFFSET,
    ),
    "srq_number": _row(_HALF),
    "drain": _row(),
    "resume": _row(),
    "load_path": _row(),
    "migrate": _row(),
    "migration": _row(number(0, 255)),
    "window": _row(kind=number(1, 2)),
    "bind": Row(
        {"offset": _OFFSET, "length": _OFFSET},
        _HALF,
        fits=lambda given: given["offset"] + given["length"] <= MEMORY,
    ),
    "close_window": _row(),
    "join": _row(group=_GROUP),
    "leave": _row(),
    "address_group": _row(group=_GROUP),
    "target": _quiet(_TARGET, offset=_OFFSET),
    "receives": _row(buffers=where(many(_PIECES, REQUESTS_MOST), bool)),
    "post": _row(works=where(many(_WORK, REQUESTS_MOST), bool)),
    "answer": _row(grh=number(0, MEMORY - AREA)),
    "poll": _quiet(many(_COMPLETED, ENTRIES_MOST)),
    "arm": _row(solicited_only=_BOOL),
    "event": _quiet(_BOOL, seconds=_real(0.0, EVENT_SECONDS)),
    "async_events": _quiet(many(number(0, 255), ENTRIES_MOST)),
    "limit_srq": _row(requests=number(0, REQUESTS_MOST)),
    "resize_cq": _row(entries=number(1, ENTRIES_MOST)),
}
"""By the name of the method of Side."""

CM_VOCABULARY: Final[Mapping[str, Row]] = {
    "requested": _row(),
    "accept": _row(),
    "established": _row(),
}
"""Of CmSide beside those, in place of BY_HAND."""

BY_HAND: Final = frozenset(("to_init", "to_rtr", "to_rts", "load_path", "migrate", "migration"))
"""What the connection manager does itself."""

_ROWS: Final = {**SESSION, **VOCABULARY, **CM_VOCABULARY}


def call(name: str, stage: Stage, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The message of a call, with all of its arguments and what it is made for."""
    row = _ROWS[name]
    assert list(arguments) == list(row.arguments), (name, list(arguments))
    plain = {each: field.plain(arguments[each]) for each, field in row.arguments.items()}
    return {"call": name, "stage": stage.value, "arguments": plain}


def read_call(message: Mapping[str, Any]) -> tuple[str, Stage, dict[str, Any]]:
    """The name of a call, its stage and its arguments; raises ProtocolError."""
    name, given = message.get("call"), message.get("arguments")
    if not isinstance(name, str) or name not in _ROWS:
        raise ProtocolError(f"the peer wants what no side does: {shown(name)}")
    row = _ROWS[name]
    if not isinstance(given, dict) or given.keys() != row.arguments.keys():
        raise _refused(given)
    found = {each: field.read(given[each]) for each, field in row.arguments.items()}
    if not row.fits(found):
        raise ProtocolError(f"the peer's {name} is beyond the memory")
    return name, _STAGE.read(message.get("stage")), found


def answer(name: str, value: Any) -> dict[str, Any]:
    """The message that answers a call."""
    return {"value": _ROWS[name].answer.plain(value)}


def refusal(refused: Refused) -> dict[str, Any]:
    """The message that answers one that the library refused."""
    return {"refused": refused.call, "errno": refused.errno}


def unconnected(text: str) -> dict[str, Any]:
    """The message that answers one for which the connection manager gave another event."""
    return {"unconnected": text[:_TEXT]}


def read_answer(name: str, message: Mapping[str, Any]) -> Any:
    """What a call gave, or a Refused; raises ProtocolError and NotConnected."""
    if "unconnected" in message:
        raise NotConnected(_text(message["unconnected"]))
    if "refused" in message:
        return Refused(_call(message["refused"]), _ERRNO.read(message.get("errno")))
    return _ROWS[name].answer.read(message.get("value"))


# --- which cells -------------------------------------------------------------------------


def cells_message(cells: Iterable[tuple[Wanted, str | None]]) -> list[Any]:
    """The cells of this end, each with why its device cannot."""
    return [[WANTED.plain(cell), why and why[:_TEXT]] for cell, why in cells]


def read_cells(value: Any) -> dict[Wanted, str | None]:
    """The cells of the peer, each with why its device cannot; raises ProtocolError.

    One that this version does not know is none that both can try.
    """
    if not isinstance(value, list) or len(value) > CELLS_MOST:
        raise ProtocolError("the peer's cells make no sense")
    found = {}
    for row in value:
        if not isinstance(row, list) or len(row) != 2:
            raise ProtocolError("the peer's cells make no sense")
        try:
            cell = WANTED.read(row[0])
        except ProtocolError:
            continue
        found[cell] = optional(Field(_text)).read(row[1])
    return found


# --- by the connection manager -----------------------------------------------------------

RUN_BYTES: Final = 16
_RUN: Final = where(_BYTES, lambda found: len(found) == RUN_BYTES)
_PORT: Final = number(1, 65535)


@dataclass(frozen=True, slots=True)
class Managed:
    """What an end says of the connection manager in a run."""

    run: bytes = b""  # of the end that connects: what its requests are known by
    address: str = ""  # of the one that listens
    port: int = 0

    def message(self) -> dict[str, Any]:
        """As it travels."""
        return {"run": _RUN.plain(self.run), "address": self.address, "port": self.port}


def read_managed(value: Mapping[str, Any], *, listens: bool) -> Managed:
    """Of the other end, which `listens` or does not; raises ProtocolError."""
    if not listens:
        return Managed(run=_RUN.read(value.get("run")))
    address = _text(value.get("address"))
    try:
        found = ip_address(address)
    except ValueError as error:
        raise _refused(address) from error
    if found.is_unspecified or found.is_multicast:
        raise _refused(address)
    return Managed(address=str(found), port=_PORT.read(value.get("port")))
