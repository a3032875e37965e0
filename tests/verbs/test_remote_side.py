"""A side of another host: what is asked arrives there, and nothing outlives the connection."""

import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdmadiag.facts.attempt import Outcome, PeerFailure, Stage
from rdmadiag.facts.exercise import CellState, Operation, Via, Wanted
from rdmadiag.facts.ib import QpState
from rdmadiag.verbs import remote_side
from rdmadiag.verbs.bounds import Bounds
from rdmadiag.verbs.bringup import RemoteQueuePair
from rdmadiag.verbs.lib import CallFailed
from rdmadiag.verbs.peer import Peer, PeerFailed, PeerLost
from rdmadiag.verbs.protocol import ProtocolError
from rdmadiag.verbs.records import CellBegan, CellEnded, EndName, Record
from rdmadiag.verbs.remote_side import Driver, PeerCallFailed, PeerNotConnected, RemoteSide, Served
from rdmadiag.verbs.side_calls import call
from rdmadiag.verbs.work import Completed, NotConnected, Target, Work
from tests.verbs.attempts import HERE, THERE, deadline, together

CELL = Wanted(Operation.WRITE, "rc", Via.POLL)
OTHER = Wanted(Operation.SEND, "uc", Via.CHANNEL)
VERIFIED = CellEnded(state=CellState.VERIFIED, stage=Stage.DATA)


class Stub:
    """What a Side would be, without a device: it notes what it is to do."""

    def __init__(self, cell: Wanted) -> None:
        self.cell = cell
        self.calls: list[Any] = []
        self.closed = 0
        self.refuses: dict[str, int] = {}
        self.unconnected = ""

    def _do(self, name: str, *given: Any) -> None:
        self.calls.append((name, *given))
        if name in self.refuses:
            raise CallFailed(f"ibv_{name}", self.refuses[name])

    def stage(self, stage: Stage) -> None:
        self.last_stage = stage

    def open(self) -> int:
        self._do("open")
        return 17

    def close(self) -> None:
        self.closed += 1

    def to_init(self) -> None:
        self._do("to_init")

    def to_rtr(self, remote: RemoteQueuePair) -> None:
        self._do("to_rtr", remote)

    def to_rts(self, psn: int) -> None:
        self._do("to_rts", psn)

    def write(self, offset: int, content: bytes) -> None:
        self._do("write", offset, content)

    def read(self, offset: int, length: int) -> bytes:
        self._do("read", offset, length)
        return bytes(length + self.refuses.get("as much as was read", 0))

    def target(self, offset: int = 4096) -> Target:
        self._do("target", offset)
        return Target(offset, 5)

    def receives(self, *buffers: Any) -> None:
        self._do("receives", *buffers)

    def post(self, *works: Work) -> None:
        self._do("post", *works)

    def poll(self) -> tuple[Completed, ...]:
        self._do("poll")
        return (Completed(is_receive=True, status=0, length=256),)

    def arm(self, *, solicited_only: bool = False) -> None:
        self._do("arm", solicited_only)

    def async_events(self) -> tuple[int, ...]:
        return ()

    def event(self, seconds: float) -> bool:
        raise AssertionError

    def end(self, after: QpState) -> None:
        self._do("end", after)

    def requested(self) -> None:
        self._do("requested")

    def accept(self) -> None:
        self._do("accept")

    def established(self) -> None:
        self._do("established")
        if self.unconnected:
            raise NotConnected(self.unconnected)


class Host:
    """The one that listens."""

    def __init__(
        self,
        peer: Peer,
        cells: tuple[Wanted, ...] = (CELL, OTHER),
        *,
        by_cm: bool = False,
        unconnected: str = "",
    ) -> None:
        self.unconnected = unconnected
        self.sides: list[Stub] = []
        self.records: list[Record] = []
        self.refuses: dict[str, int] = {}
        self._peer = peer
        ends = (HERE, THERE)
        self.served = Served(peer, cells, ends, self._make, self.records.append, by_cm=by_cm)

    def _make(self, cell: Wanted) -> Any:
        self.sides.append(Stub(cell))
        self.sides[-1].refuses = self.refuses
        self.sides[-1].unconnected = self.unconnected
        return self.sides[-1]

    def serve(self) -> None:
        with closing(self._peer):  # else the one that drives waits for an answer
            self.served.serve()


@contextmanager
def both(bounds: Bounds, **how: Any) -> Iterator[tuple[Peer, Host]]:
    one, other = (Peer(each, bounds, "exercise") for each in socket.socketpair())
    with closing(one), closing(other), deadline(bounds, 20):
        yield one, Host(other, **how)


def run(bounds: Bounds, drive: Callable[[Peer], Any], **how: Any) -> tuple[Host, Any, Any]:
    """The host that listens, what became of it, and of the one that drives."""
    refuses = how.pop("refuses", {})
    with both(bounds, **how) as (peer, host):
        host.refuses = refuses

        def drives() -> Any:
            with closing(peer):
                return drive(peer)

        served, drove = together(host.serve, drives)
    return host, served, drove


def a_cell(driver: Driver, cell: Wanted = CELL) -> RemoteSide:
    side = driver.side(cell, THERE)
    side.stage(Stage.CREATE_QP)
    assert side.open() == 17
    return side


def test_what_is_asked_is_done_there_and_what_it_gave_comes_back(bounds: Bounds) -> None:
    def drive(peer: Peer) -> Any:
        driver = Driver(peer)
        side = a_cell(driver)
        side.to_init()
        side.to_rtr(RemoteQueuePair(33, 9, 77, None, 256))
        side.stage(Stage.DATA)
        side.write(4096, b"abc")
        side.receives([(4096, 256)], [])
        side.post(Work(0, target=Target(7, 8)), Work())
        side.arm(solicited_only=True)
        side.end(QpState.ERR)
        found = side.poll(), side.read(0, 4), side.target(), side.target(8)
        driver.conclude(replace(VERIFIED, end=EndName.REMOTE))
        side.close()
        driver.over()
        return found

    host, served, found = run(bounds, drive, cells=(CELL,))
    assert served is None
    completed = Completed(is_receive=True, status=0, length=256)
    assert found == ((completed,), bytes(4), Target(4096, 5), Target(8, 5))
    (side,) = host.sides
    # Where the peer is both ends agreed on before: its number and PSN are all that it may say.
    assert side.calls == [
        ("open",),
        ("to_init",),
        ("to_rtr", RemoteQueuePair(33, 9, THERE.lid, THERE.gid, 1024)),
        ("write", 4096, b"abc"),
        ("receives", ((4096, 256),), ()),
        ("post", Work(0, target=Target(7, 8)), Work()),
        ("arm", True),
        ("end", QpState.ERR),
        ("poll",),
        ("read", 0, 4),
        ("target", 4096),
        ("target", 8),
    ]
    assert (side.closed, side.last_stage) == (1, Stage.TEARDOWN)
    assert host.records == [CellBegan(cell=CELL), VERIFIED]


def a_connected_cell(driver: Driver) -> RemoteSide:
    side = driver.side(CELL, THERE)
    side.requested()
    assert side.open() == 17
    side.accept()
    return side


def test_by_the_connection_manager_the_other_end_waits_makes_accepts_and_is_established(
    bounds: Bounds,
) -> None:
    def drive(peer: Peer) -> None:
        driver = Driver(peer)
        side = a_connected_cell(driver)
        side.established()
        driver.conclude(VERIFIED)
        side.close()
        driver.over()

    host, served, drove = run(bounds, drive, cells=(CELL,), by_cm=True)
    assert (served, drove) == (None, None)
    names = [name for (name,) in host.sides[0].calls]
    assert names == ["requested", "open", "accept", "established"]


def test_an_event_that_did_not_come_there_is_one_of_the_peer_and_ends_the_cell_alone(
    bounds: Bounds,
) -> None:
    def drive(peer: Peer) -> Any:
        driver = Driver(peer)
        side = a_connected_cell(driver)
        with pytest.raises(PeerNotConnected) as caught:
            side.established()
        driver.conclude(VERIFIED)
        side.close()
        driver.over()
        return str(caught.value)

    found = run(
        bounds, drive, cells=(CELL,), by_cm=True, unconnected="no RDMA_CM_EVENT_ESTABLISHED came"
    )
    assert found[1:] == (None, "no RDMA_CM_EVENT_ESTABLISHED came")
    assert [each.closed for each in found[0].sides] == [1]


def test_a_call_that_the_library_refuses_there_is_one_of_the_peer(bounds: Bounds) -> None:
    def drive(peer: Peer) -> None:
        driver = Driver(peer)
        side = driver.side(CELL, THERE)
        try:
            side.open()
        finally:
            side.close()
            driver.over()

    host, _, failed = run(bounds, drive, refuses={"open": 12})
    assert isinstance(failed, PeerCallFailed)
    assert (failed.call, failed.errno) == ("ibv_open", 12)
    assert [each.closed for each in host.sides] == [1]


@pytest.mark.parametrize(
    ("by_cm", "steps"),
    [
        (True, ["open"]),
        (True, ["accept"]),
        (True, ["requested", "requested"]),
        (True, ["requested", "open", "to_init"]),
        (True, ["requested", "open", "open"]),
        (False, ["requested"]),
        (False, ["open", "accept"]),
        (False, ["open", "established"]),
    ],
)
def test_neither_way_takes_a_step_of_the_other_or_out_of_its_turn(
    bounds: Bounds, by_cm: bool, steps: list[str]
) -> None:
    def drive(peer: Peer) -> None:
        for name, arguments in [Begin, *((each, {}) for each in steps)]:
            do(peer, name, **arguments)

    host, served, _ = run(bounds, drive, by_cm=by_cm)
    assert isinstance(served, ProtocolError)
    assert [each.closed for each in host.sides] == [1]
    assert len(host.sides[0].calls) == len(steps) - 1


def test_one_cell_after_another_has_a_side_of_its_own(bounds: Bounds) -> None:
    def drive(peer: Peer) -> None:
        driver = Driver(peer)
        for cell in (CELL, OTHER):
            side = a_cell(driver, cell)
            driver.conclude(VERIFIED)
            side.close()
        driver.over()

    host, served, drove = run(bounds, drive)
    assert (served, drove) == (None, None)
    assert [(each.cell, each.closed) for each in host.sides] == [(CELL, 1), (OTHER, 1)]


@pytest.mark.parametrize("more", [-256, -1, 1])
def test_another_length_than_was_read_is_no_answer(more: int, bounds: Bounds) -> None:
    def drive(peer: Peer) -> None:
        a_cell(Driver(peer)).read(4096, 256)

    _, _, failed = run(bounds, drive, refuses={"as much as was read": more})
    assert isinstance(failed, ProtocolError)


def test_a_peer_that_ends_it_before_the_last_cell_has_not_tried_them_all(bounds: Bounds) -> None:
    def drive(peer: Peer) -> None:
        driver = Driver(peer)
        side = a_cell(driver)
        driver.conclude(VERIFIED)
        side.close()
        driver.over()

    host, served, _ = run(bounds, drive)
    assert isinstance(served, ProtocolError)
    assert [each.closed for each in host.sides] == [1]
    assert run(bounds, drive, cells=(CELL,))[1] is None


@pytest.mark.parametrize(
    ("ended", "end"),
    [
        (CellEnded(state=CellState.FAILED, stage=Stage.DATA, text="silent"), EndName.LOCAL),
        (CellEnded(state=CellState.FAILED, stage=Stage.DATA, status=12), EndName.REMOTE),
        (
            CellEnded(state=CellState.FAILED, stage=Stage.DATA, status=12, end=EndName.REMOTE),
            EndName.LOCAL,
        ),
        (CellEnded(state=CellState.REFUSED, stage=Stage.RTR, call="ibv_modify_qp"), EndName.REMOTE),
    ],
    ids=["nobody's", "the driver's completion", "a completion here", "the driver's call"],
)
def test_what_failed_is_at_the_end_that_it_failed_at(
    ended: CellEnded, end: EndName, bounds: Bounds
) -> None:
    def drive(peer: Peer) -> None:
        driver = Driver(peer)
        side = a_cell(driver)
        driver.conclude(ended)
        side.close()
        driver.over()

    host, _, _ = run(bounds, drive, cells=(CELL,))
    assert host.records == [CellBegan(cell=CELL), replace(ended, end=end)]


def do(peer: Peer, name: str, **arguments: Any) -> None:
    peer.send("do", **call(name, Stage.DATA, arguments))
    peer.receive("did")


Begin = ("begin", {"cell": CELL})
Open: tuple[str, dict[str, Any]] = ("open", {})
Close: tuple[str, dict[str, Any]] = ("close", {})
Poll: tuple[str, dict[str, Any]] = ("poll", {})
Conclude = (
    "conclude",
    {"ended": remote_side.Ended(CellState.VERIFIED, Stage.DATA, "", None, 0, None, 0, False)},
)


@pytest.mark.parametrize(
    "steps",
    [
        [Poll],
        [Conclude],
        [("begin", {"cell": Wanted(Operation.READ, "rc", Via.POLL)})],
        [Begin, Begin],
        [Begin, Poll],
        [Begin, Open, Open],
        [Begin, Open, ("event", {"seconds": 1.0})],
        [Begin, Open, Close, Poll],
        [Begin, Open, Close, ("begin", {"cell": OTHER})],
        [Begin, Conclude, Conclude],
        [Begin, Open, Conclude, Close, Begin],
    ],
    ids=[
        "a call before any cell",
        "the end of none",
        "a cell that was not agreed on",
        "a cell within another",
        "a call before the queue pair is made",
        "everything made twice",
        "an event where there is no channel",
        "a call of a cell that is closed",
        "the next cell before the end of this one",
        "two ends of one cell",
        "the same cell again",
    ],
)
def test_what_is_out_of_turn_ends_it_and_nothing_is_left(
    steps: list[tuple[str, dict[str, Any]]], bounds: Bounds
) -> None:
    def drive(peer: Peer) -> None:
        for name, arguments in steps:
            do(peer, name, **arguments)

    with both(bounds) as (peer, host):

        def serves() -> None:
            with closing(host.served._peer):
                host.serve()

        served, drove = together(serves, lambda: drive(peer))
    assert isinstance(served, ProtocolError), served
    assert isinstance(drove, PeerLost)
    assert [each.closed for each in host.sides] == [1] * len(host.sides)


def test_after_what_could_not_be_made_only_its_end_is_taken(bounds: Bounds) -> None:
    def drive(peer: Peer) -> None:
        do(peer, *["begin"], cell=CELL)
        do(peer, "open")
        do(peer, "poll")

    host, served, _ = run(bounds, drive, refuses={"open": 12})
    assert isinstance(served, ProtocolError)
    assert [(each.calls, each.closed) for each in host.sides] == [([("open",)], 1)]


@pytest.mark.parametrize("name", ["to_init", "to_rts"])
def test_a_transition_that_failed_is_not_tried_again_for_a_peer(name: str, bounds: Bounds) -> None:
    more = {"psn": 5} if name == "to_rts" else {}

    def drive(peer: Peer) -> None:
        do(peer, "begin", cell=CELL)
        do(peer, "open")
        do(peer, name, **more)
        do(peer, name, **more)

    host, served, _ = run(bounds, drive, refuses={name: 110})
    assert isinstance(served, ProtocolError)
    (side,) = host.sides
    assert ([each[0] for each in side.calls].count(name), side.closed) == (1, 1)


@settings(max_examples=25, deadline=None)
@given(sent=st.integers(0, 12), cut=st.integers(1, 40), says=st.booleans())
def test_a_peer_that_goes_at_any_moment_leaves_nothing(
    sent: int, cut: int, says: bool, bounds: Bounds
) -> None:
    def drive(peer: Peer) -> None:
        steps = [Begin, Open, Poll, Conclude, Close, ("begin", {"cell": OTHER}), Open]
        steps += [Poll, Conclude, Close, ("over", {})]
        for name, arguments in steps[:sent]:
            do(peer, name, **arguments)
        if says:
            peer.send_failure(PeerFailure("data", "its deadline came", Outcome.LATE))
        else:
            peer._push(peer._framed("do", call("poll", Stage.DATA, {}))[:cut])

    host, served, _ = run(bounds, drive)
    if sent >= 11:
        assert served is None
    else:
        assert isinstance(served, PeerFailed if says else PeerLost)
    assert all(each.closed == 1 for each in host.sides)


def test_a_peer_that_says_nothing_is_not_waited_for(
    bounds: Bounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_side, "SILENT_SECONDS", 0.3)
    with both(bounds) as (peer, host):
        driver = Driver(peer)

        def drives() -> None:
            a_cell(driver)

        served, _ = together(host.serve, drives)
        assert str(served) == "the peer said nothing for 0.3 s"
        assert [each.closed for each in host.sides] == [1]
        with pytest.raises(PeerLost):
            driver.do("poll", Stage.DATA)
        # It is not waited for once more: its side is its own to destroy.
        RemoteSide(CELL, THERE, driver).close()
        with pytest.raises(PeerLost, match="before"):
            driver.do("poll", Stage.DATA)


def test_calls_are_counted(bounds: Bounds, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_side, "RECORDED_MOST", 5)

    def drive(peer: Peer) -> None:
        do(peer, "begin", cell=CELL)
        do(peer, "open")
        for _ in range(20):
            do(peer, "poll")  # writes nothing down
        for _ in range(4):
            do(peer, "to_init")

    host, served, _ = run(bounds, drive)
    assert isinstance(served, ProtocolError)
    assert "more than 5 calls" in str(served)
    assert [each.calls.count(("to_init",)) for each in host.sides] == [3]
