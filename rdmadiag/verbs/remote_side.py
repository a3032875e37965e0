"""The side of a cell that another host holds: its calls are sent there, and served there.

What may be called is side_calls.VOCABULARY. The end that drives has a RemoteSide in place
of a Side; the end that listens serves its own Side, one call at a time, until the peer
sends that no more cells come. Whatever the peer says or does, what was made is destroyed.
"""

import inspect
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, Final

from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.exercise import Via, Wanted
from rdmadiag.verbs.bounds import Interrupted, Late
from rdmadiag.verbs.bringup import RemoteQueuePair
from rdmadiag.verbs.lib import CallFailed
from rdmadiag.verbs.peer import Peer, PeerFailed, PeerLost
from rdmadiag.verbs.protocol import End, ProtocolError, path_mtu
from rdmadiag.verbs.records import CellBegan, CellEnded, EndName, Record
from rdmadiag.verbs.side import Side
from rdmadiag.verbs.side_calls import (
    BEGIN,
    BY_HAND,
    CM_VOCABULARY,
    CONCLUDE,
    OVER,
    VOCABULARY,
    Ended,
    Refused,
    answer,
    call,
    read_answer,
    read_call,
    refusal,
    unconnected,
)
from rdmadiag.verbs.work import Completed, NotConnected

SILENT_SECONDS: Final = 15.0
"""In which the peer says nothing, after which it is lost: more than any call or wait of a cell."""

RECORDED_MOST: Final = 8_000
"""Calls of one run that may write to the transcript, which is bounded."""

_DO: Final = "do"
_DONE: Final = "did"


_TRANSITIONS: Final = ("to_init", "to_rtr", "to_rts", "accept", "established")
_BEFORE: Final = {"requested": "open", "open": "more"}
"""What comes first, and what then."""


class PeerCallFailed(CallFailed):
    """A call that the other host's library refused."""


class PeerNotConnected(NotConnected):
    """An event that did not come at the other host."""


class Driver:
    """The end that says what is done, towards the one that serves."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self.is_there = True
        """Whether it answers: not after it did not, or was not waited for."""

    def side(self, cell: Wanted, facts: End) -> "RemoteSide":
        """The far side of a cell that is about to begin; raises what `do` raises."""
        self.do(BEGIN, Stage.CREATE_QP, cell=cell)
        return RemoteSide(cell, facts, self)

    def conclude(self, ended: CellEnded) -> None:
        """What came of the cell that is under way."""
        found = Ended(
            ended.state,
            ended.stage,
            ended.text,
            ended.call,
            ended.errno,
            ended.status,
            ended.vendor_error,
            at_peer=ended.end is EndName.REMOTE,
        )
        self.do(CONCLUDE, ended.stage, ended=found)

    def over(self) -> None:
        """No more cells come."""
        self.do(OVER, Stage.TEARDOWN)

    def do(self, name: str, stage: Stage, **arguments: Any) -> Any:
        """The answer of the peer.

        Raises PeerCallFailed, PeerNotConnected, PeerLost, PeerFailed, ProtocolError.
        """
        there, self.is_there = self.is_there, False
        if not there:
            raise PeerLost("the peer did not answer before")
        self._peer.send(_DO, **call(name, stage, arguments))
        try:
            found = read_answer(name, self._peer.receive(_DONE, SILENT_SECONDS))
        except NotConnected as error:
            self.is_there = True
            raise PeerNotConnected(*error.args) from error
        self.is_there = True
        if isinstance(found, Refused):
            raise PeerCallFailed(found.call, found.errno)
        return found


class RemoteSide:
    """A Side of another host: the same methods, each a call over the connection."""

    def __init__(self, cell: Wanted, facts: End, driver: Driver) -> None:
        self.facts = facts
        self.sent: list[Completed] = []
        self.arrived: list[Completed] = []
        self.has_channel = cell.via is Via.CHANNEL
        self._driver = driver
        self._stage = Stage.CREATE_QP

    def stage(self, stage: Stage) -> None:
        """What the calls that follow are made for; it goes with each."""
        self._stage = stage

    def to_rtr(self, remote: RemoteQueuePair) -> None:
        """INIT → RTR: where this host is, both ends have agreed on before."""
        self._driver.do("to_rtr", self._stage, remote=(remote.queue_pair, remote.psn))

    def read(self, offset: int, length: int) -> bytes:
        """What stands there; raises ProtocolError for more or less than that."""
        found: bytes = self._driver.do("read", self._stage, offset=offset, length=length)
        if len(found) != length:
            raise ProtocolError(f"the peer gave {len(found)} bytes of its memory, not {length}")
        return found

    def close(self) -> None:
        """Have everything destroyed; a peer that is gone, or is not waited for, does so itself."""
        if self._driver.is_there:
            with suppress(PeerLost, PeerFailed, ProtocolError, Late, Interrupted):
                self._driver.do("close", self._stage)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name in CM_VOCABULARY:
            return lambda: self._driver.do(name, self._stage)
        if name not in VOCABULARY:
            raise AttributeError(name)
        signature = inspect.signature(getattr(Side, name))

        def ask(*given: Any, **named: Any) -> Any:
            bound = signature.bind(self, *given, **named)
            bound.apply_defaults()
            arguments = dict(bound.arguments)
            del arguments["self"]
            return self._driver.do(name, self._stage, **arguments)

        return ask


class Served:
    """The side of this host, for as long as the peer drives."""

    def __init__(
        self,
        peer: Peer,
        cells: Collection[Wanted],
        ends: tuple[End, End],
        make: Callable[[Wanted], Side],
        write: Callable[[Record], None],
        *,
        by_cm: bool = False,
    ) -> None:
        """`cells` are those that both ends want, `ends` this host's and the peer's."""
        self._first = "requested" if by_cm else "open"
        self._never = BY_HAND if by_cm else CM_VOCABULARY.keys()
        self._peer = peer
        self._left = set(cells)
        self._ends = ends
        self._make = make
        self._write = write
        self._side: Side | None = None
        self._expects = self._first
        self._concluded = True
        self._recorded = 0
        self._over = False

    def serve(self) -> None:
        """Until the peer says that it is over.

        Raises PeerLost, PeerFailed, ProtocolError, and what Bounds raises.
        """
        try:
            while not self._over:
                message = self._peer.receive(_DO, SILENT_SECONDS)
                self._peer.send(_DONE, **self._answered(*read_call(message)))
        finally:
            self._close()
        if self._left or not self._concluded:
            raise ProtocolError("the peer ended it before all cells that were agreed on")

    def _answered(self, name: str, stage: Stage, arguments: dict[str, Any]) -> dict[str, Any]:
        session: dict[str, Callable[..., None]] = {
            BEGIN: self._begin,
            CONCLUDE: self._conclude,
            OVER: self._end,
        }
        row = VOCABULARY.get(name) or CM_VOCABULARY.get(name)
        if row is None or row.recorded:
            self._recorded += 1
            if self._recorded > RECORDED_MOST:
                raise ProtocolError(f"the peer made more than {RECORDED_MOST} calls")
        try:
            if row is None:
                session[name](**arguments)
                return answer(name, None)
            return answer(name, self._call(name, stage, arguments))
        except CallFailed as failed:
            return refusal(Refused(failed.call, failed.errno))
        except NotConnected as error:
            return unconnected(str(error))

    # --- one cell ------------------------------------------------------------------------

    def _begin(self, cell: Wanted) -> None:
        if self._side or not self._concluded:
            raise ProtocolError("the peer began a cell within another")
        if cell not in self._left:
            raise ProtocolError("the peer began a cell that was not agreed on")
        self._left.remove(cell)
        self._write(CellBegan(cell=cell))
        self._side, self._expects, self._concluded = self._make(cell), self._first, False

    def _conclude(self, ended: Ended) -> None:
        if self._concluded:
            raise ProtocolError("the peer concluded a cell that it had not begun")
        self._concluded = True
        # What is there for the one that drives is here. What is wrong without a call or a
        # completion is of neither end.
        is_theirs = not ended.at_peer and (ended.call is not None or ended.status is not None)
        self._write(
            CellEnded(
                state=ended.state,
                stage=ended.stage,
                text=ended.text,
                call=ended.call,
                errno=ended.errno,
                status=ended.status,
                vendor_error=ended.vendor_error,
                end=EndName.REMOTE if is_theirs else EndName.LOCAL,
            )
        )

    def _end(self) -> None:
        self._over = True

    def _call(self, name: str, stage: Stage, arguments: dict[str, Any]) -> Any:
        side = self._side
        if side is None:
            raise ProtocolError(f"the peer's {name!r} is of no cell")
        if name == "close":
            self._close()
            return None
        if name in self._never or self._expects != (name if name in _BEFORE else "more"):
            raise ProtocolError(f"the peer's {name!r} came at the wrong time")
        side.stage(stage)
        if name in _BEFORE:
            self._expects = "close"  # as long as it has not succeeded
            given = getattr(side, name)()
            self._expects = _BEFORE[name]
            return given
        if name == "to_rtr":
            arguments = {"remote": self._remote(*arguments["remote"])}
        try:
            return _spread(getattr(side, name), arguments)
        except (CallFailed, NotConnected):
            if name in _TRANSITIONS:
                self._expects = "close"  # no peer has it tried again
            raise
        except AssertionError as error:
            raise ProtocolError(f"the peer's {name!r} is none of such a cell") from error

    def _remote(self, number: int, psn: int) -> RemoteQueuePair:
        """Where the peer is was found to fit before; it has no say in that any more."""
        ours, theirs = self._ends
        return RemoteQueuePair(number, psn, theirs.lid, theirs.gid, path_mtu(ours, theirs))

    def _close(self) -> None:
        """Once; what refuses is in the transcript."""
        side, self._side = self._side, None
        if side:
            side.stage(Stage.TEARDOWN)
            with suppress(CallFailed):
                side.async_events()  # what nobody waited for is written down
            with suppress(CallFailed):
                side.close()


def _spread(method: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """Call it with arguments by name, of which one may be all of its positional ones."""
    bound = inspect.signature(method).bind_partial()
    bound.arguments.update(arguments)
    return method(*bound.args, **bound.kwargs)
