"""One of two connected hosts, and how it meets the other: both run the same tests in one order."""

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lab.attempt import Attempt, Attempts
from lab.rendezvous import Parted, Rendezvous
from lab.resources import unchanged
from lab.rxe import Rxe, add, wait_ready
from lab.two import ALLOWED, MACS, ROCE, device

MEET_SECONDS = 300.0  # one host may boot much slower than the other
EXCHANGE_SECONDS = 120.0
COMMAND_SECONDS = 30.0


@pytest.fixture(scope="session")
def role() -> str:
    """left or right."""
    return os.environ["RDMADIAG_LAB_ROLE"]


@pytest.fixture(scope="session")
def rxe(role: str) -> Rxe:
    """This host's device, on the interface that leads to the other host."""
    for netdev in os.listdir("/sys/class/net"):
        with open(f"/sys/class/net/{netdev}/address") as address:
            if address.read().strip() == MACS[role]:
                mine = device(role, netdev)
                add(mine)
                wait_ready(mine)
                return mine
    pytest.fail(f"no interface has the address {MACS[role]}")


@pytest.fixture(scope="session")
def peer(role: str) -> Rxe:
    """The other host's device; its netdev is not known here."""
    other = next(name for name in MACS if name != role)
    return device(other, "")


@pytest.fixture(scope="session")
def rendezvous(role: str, rxe: Rxe, peer: Rxe) -> Iterator[Rendezvous]:
    if role == "left":
        meeting = Rendezvous.listen(rxe.ipv4, MEET_SECONDS)
    else:
        meeting = Rendezvous.connect(peer.ipv4, MEET_SECONDS)
    yield meeting
    with contextlib.suppress(Parted):  # do not power off while the other host may need this one
        meeting.exchange("session", "over", None, EXCHANGE_SECONDS)
    meeting.close()


@pytest.fixture
def exchange(
    rendezvous: Rendezvous, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Any]]:
    """`exchange(name, value, timeout=120)`: give a JSON value, get the other host's."""
    test = request.node.nodeid

    def call(name: str, value: Any, timeout: float = EXCHANGE_SECONDS) -> Any:
        return rendezvous.exchange(test, name, value, timeout)

    yield call
    rendezvous.leave(test)


@pytest.fixture
def barrier(exchange: Callable[..., Any]) -> Callable[..., None]:
    """`barrier(name, timeout=120)`: wait until the other host is here too."""

    def call(name: str, timeout: float = EXCHANGE_SECONDS) -> None:
        exchange(name, None, timeout)

    return call


@pytest.fixture
def nothing_left(rxe: Rxe, attempts: Attempts) -> Iterator[None]:
    """After the test the kernel counts what it counted before, and no process has a device."""
    with unchanged():
        yield


@pytest.fixture
def do(run: Callable[..., Any]) -> Callable[[str], None]:
    """Runs a command that must succeed."""

    def call(command: str) -> None:
        done = run(command.split(), timeout=COMMAND_SECONDS)
        assert done.returncode == 0, f"{command}: {done.stderr}"

    return call


@pytest.fixture
def start(
    role: str, rxe: Rxe, peer: Rxe, attempts: Attempts, exchange: Callable[..., Any]
) -> Callable[..., Attempt]:
    """`start(*options, deadline=…, command=…)`: this host's end; the left one listens."""

    def call(*options: str, deadline: float = 40.0, command: str = "pingpong") -> Attempt:
        how: Any = {"deadline": deadline, "command": command}
        if role == "left":
            attempt, port = attempts.listen(rxe.ipv4, *ALLOWED, *options, **how)
            exchange("listening", port)
            return attempt
        port = exchange("listening", None)
        return attempts.start(*ALLOWED, *options, f"{peer.ipv4}:{port}", **how)

    return call


@pytest.fixture
def netem(
    rxe: Rxe, do: Callable[[str], None]
) -> Callable[..., contextlib.AbstractContextManager[None]]:
    """`with netem("loss 100%", which)`: of what this host sends, `which` alone fares so."""

    @contextlib.contextmanager
    def call(how: str, which: str = ROCE) -> Iterator[None]:
        # Bands 1 to 3 are what the default map uses; band 4 gets what the filter puts there.
        do(f"tc qdisc add dev {rxe.netdev} root handle 1: prio bands 4")
        try:
            do(f"tc qdisc add dev {rxe.netdev} parent 1:4 handle 4: netem {how}")
            do(f"tc filter add dev {rxe.netdev} parent 1: protocol ip u32 {which} flowid 1:4")
            yield
        finally:
            do(f"tc qdisc del dev {rxe.netdev} root")

    return call
