"""`route` beside what rping really uses, in topologies of rxe and siw, with a peer next door.

The peer is a network namespace of this kernel; both ends are Debian's rping. Device, port and
addresses are those of `rdma res show cm_id`; the GID index is that of the address vector that
rping hands to ibv_modify_qp (sgid_log.c).
"""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lab.attempt import until
from lab.command import run as run_command
from lab.resources import queue_pair_states

Call = Callable[..., tuple[int, Any]]

SECONDS = 60.0
FAR = ("ip", "netns", "exec", "far")
PORT = "7471"

pytestmark = pytest.mark.needs("rxe in namespaces")


def do(command: str, *prefix: str) -> None:
    done = run_command([*prefix, *command.split()], timeout=SECONDS)
    assert done.returncode == 0, f"{command}: {done.stderr}"


@dataclass(frozen=True)
class Topology:
    """Commands that build it, by `ip` but for `rdma`; `far` ones in the peer's namespace."""

    name: str
    peer: str
    near: tuple[str, ...]
    far: tuple[str, ...] = ()
    source: str | None = None
    server: str | None = None  # the address that the peer listens on, where it is not `peer`
    gids: tuple[tuple[str, str], ...] = ()  # device and address that is to be in its table
    listens: tuple[str, ...] = FAR
    late: tuple[str, ...] = ()  # commands once the devices are ready
    tags: tuple[str, ...] = field(default=())


def cable(number: int, near: str, far: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """near<N> and far<N>, with addresses, up."""
    here = (
        f"ip link add near{number} type veth peer name far{number} netns far",
        f"ip address add {near} dev near{number}",
        f"ip link set near{number} up",
    )
    there = (f"ip address add {far} dev far{number}", f"ip link set far{number} up")
    return here, there


ONE = cable(0, "192.0.2.1/24", "192.0.2.2/24")
TWO = cable(1, "198.51.100.1/24", "198.51.100.2/24")
RXE0 = "rdma link add rxe0 type rxe netdev near0"
RXE1 = "rdma link add rxe1 type rxe netdev near1"
RXE9 = "rdma link add rxe9 type rxe netdev far0"
RXE8 = "rdma link add rxe8 type rxe netdev far1"
SAME = (
    "ip link add near0 type veth peer name leg0 netns far",
    "ip link add near1 type veth peer name leg1 netns far",
    "ip address add 192.0.2.1/24 dev near0",
    "ip address add 192.0.2.3/24 dev near1",
    "ip link set near0 up",
    "ip link set near1 up",
    "sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2",
    RXE0,
    RXE1,
)
SAME_FAR = (
    "ip link add far0 type bridge",
    "ip link set leg0 master far0 up",
    "ip link set leg1 master far0 up",
    "ip address add 192.0.2.2/24 dev far0",
    "ip link set far0 up",
    RXE9,
)

CONNECTED = (
    Topology("one netdev", "192.0.2.2", (*ONE[0], RXE0), (*ONE[1], RXE9)),
    Topology(
        "two subnets",
        "198.51.100.2",
        (*ONE[0], *TWO[0], RXE0, RXE1),
        (*ONE[1], *TWO[1], RXE9, RXE8),
    ),
    Topology("two netdevs in one subnet", "192.0.2.2", SAME, SAME_FAR),
    Topology("the other of two by its source", "192.0.2.2", SAME, SAME_FAR, source="192.0.2.3"),
    Topology(
        "a policy rule for the destination",
        "203.0.113.2",
        (
            *ONE[0],
            *TWO[0],
            "ip route add 203.0.113.0/24 dev near0",
            "ip route add 203.0.113.0/24 dev near1 table 77",
            "ip rule add to 203.0.113.0/24 table 77 priority 100",
            RXE0,
            RXE1,
        ),
        (*ONE[1], *TWO[1], "ip address add 203.0.113.2/32 dev far1", RXE9, RXE8),
        gids=(("rxe8", "203.0.113.2"),),
    ),
    Topology(
        "a gateway",
        "203.0.113.2",
        (*ONE[0], "ip route add 203.0.113.0/24 via 192.0.2.2", RXE0),
        (*ONE[1], "ip address add 203.0.113.2/32 dev far0", RXE9),
        gids=(("rxe9", "203.0.113.2"),),
    ),
    Topology(
        "a VLAN",
        "203.0.113.2",
        (
            *ONE[0],
            "ip link add link near0 name near0.5 type vlan id 5",
            "ip address add 203.0.113.1/24 dev near0.5",
            "ip link set near0.5 up",
            RXE0,
        ),
        (
            *ONE[1],
            "ip link add link far0 name far0.5 type vlan id 5",
            "ip address add 203.0.113.2/24 dev far0.5",
            "ip link set far0.5 up",
            RXE9,
        ),
        gids=(("rxe0", "203.0.113.1"), ("rxe9", "203.0.113.2")),
    ),
    Topology(
        "a bond",
        "192.0.2.2",
        (
            "ip link add near0 type bond mode active-backup miimon 100",
            "ip link add leg0 type veth peer name far0 netns far",
            "ip link set leg0 master near0",
            "ip address add 192.0.2.1/24 dev near0",
            "ip link set near0 up",
            RXE0,
        ),
        (*ONE[1], RXE9),
    ),
    Topology(
        "a macvlan",
        "192.0.2.2",
        (
            "ip link add below type veth peer name far0 netns far",
            "ip link set below up",
            "ip link add link below name near0 type macvlan mode bridge",
            "ip address add 192.0.2.1/24 dev near0",
            "ip link set near0 up",
            RXE0,
        ),
        (*ONE[1], RXE9),
    ),
    Topology(
        "IPv6",
        "2001:db8::2",
        (*ONE[0], "ip address add 2001:db8::1/64 dev near0 nodad", RXE0),
        (*ONE[1], "ip address add 2001:db8::2/64 dev far0 nodad", RXE9),
        gids=(("rxe0", "2001:db8::1"), ("rxe9", "2001:db8::2")),
    ),
    Topology(
        "this host itself", "192.0.2.1", (*ONE[0], RXE0), ONE[1], server="192.0.2.1", listens=()
    ),
    Topology(
        "soft iWARP",
        "192.0.2.2",
        (*ONE[0], "rdma link add siw0 type siw netdev near0"),
        (*ONE[1], "rdma link add siw9 type siw netdev far0"),
    ),
    Topology(
        "soft iWARP by its source",
        "192.0.2.2",
        (*ONE[0], *TWO[0], *(f"rdma link add siw{n} type siw netdev near{n}" for n in (0, 1))),
        (*ONE[1], *TWO[1], "rdma link add siw9 type siw netdev far0"),
        source="192.0.2.1",
    ),
)


@contextmanager
def built(topology: Topology) -> Iterator[None]:
    """The netdevs and devices; they go with the block."""
    try:
        do("ip netns add far")
        do("ip -n far link set lo up")
        for command in topology.near:
            do(command)
        for command in topology.far:
            do(command, *FAR)
        assert until(lambda: ready(topology), SECONDS), topology.name
        for command in topology.late:
            do(command)
        yield
    finally:
        devices = os.listdir("/sys/class/infiniband")
        for name in devices:
            run_command(["rdma", "link", "del", name], timeout=SECONDS)
        for name in ("near0", "near1", "below", "leg0"):
            if os.path.exists(f"/sys/class/net/{name}"):
                run_command(["ip", "link", "del", name], timeout=SECONDS)
        for version in ("-4", "-6"):
            run_command(["ip", version, "rule", "del", "priority", "100"], timeout=SECONDS)
        run_command(["sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=0"], timeout=SECONDS)
        run_command(["ip", "netns", "del", "far"], timeout=SECONDS)


def ready(topology: Topology) -> bool:
    """Whether every port is active, and the addresses are in the tables."""
    folder = Path("/sys/class/infiniband")
    states = [each.read_text() for each in folder.glob("*/ports/1/state")]
    return all("ACTIVE" in state for state in states) and all(
        packed(address) in gids(device) for device, address in topology.gids
    )


def gids(device: str) -> list[str]:
    rows = Path(f"/sys/class/infiniband/{device}/ports/1/gids").iterdir()
    return [row.read_text().strip().replace(":", "") for row in rows]


def packed(address: str) -> str:
    import ipaddress

    found = ipaddress.ip_address(address)
    return found.packed.hex() if found.version == 6 else f"{'0' * 20}ffff{found.packed.hex()}"


@dataclass(frozen=True)
class Used:
    """What rping used."""

    device: str
    port: int
    source: str
    index: int | None


@contextmanager
def rping(argv: list[str], log: Path, **env: str) -> Iterator[subprocess.Popen[bytes]]:
    with (
        log.open("w") as out,
        subprocess.Popen(
            ["stdbuf", "-oL", "timeout", "120", *argv],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **env},
            start_new_session=True,
        ) as end,
    ):
        try:
            yield end
        finally:
            if end.poll() is None:
                os.killpg(end.pid, 9)


def cm_ids(state: str) -> list[dict[str, Any]]:
    found = run_command(["rdma", "-j", "res", "show", "cm_id"], timeout=SECONDS)
    rows: list[dict[str, Any]] = json.loads(found.stdout or "[]")
    return [row for row in rows if row.get("state") == state]


def used(topology: Topology, preload: str, folder: Path) -> Used:
    """Both ends, and the client's id while the connection is there."""
    log = folder / "vectors"
    log.write_text("")
    server = ["rping", "-s", "-a", topology.server or topology.peer, "-p", PORT]
    client = ["rping", "-c", "-a", topology.peer, "-p", PORT, "-C", "100000000"]
    client += ["-I", topology.source] if topology.source else []
    said = folder / "client"
    with rping([*topology.listens, *server], folder / "server"):
        assert until(lambda: cm_ids("LISTEN"), SECONDS), (folder / "server").read_text()
        with rping(client, said, LD_PRELOAD=preload, SGID_LOG=str(log)) as end:

            def mine() -> list[dict[str, Any]]:
                return [row for row in cm_ids("CONNECT") if row["dst-addr"].endswith(f":{PORT}")]

            def connected() -> bool:
                devices = {row["ifname"] for row in mine()}
                states = [queue_pair_states(each) for each in devices]
                return any("RTS" in each for each in states) or end.poll() is not None

            assert until(connected, SECONDS)
            found = mine()
            assert found, said.read_text()
    (row,) = found[:1]
    vectors = [line.split() for line in log.read_text().splitlines()]
    indexes = {int(each[2]) for each in vectors if each[1] == "1"}
    assert len(indexes) <= 1
    return Used(
        row["ifname"],
        row["port"],
        row["src-addr"].rpartition(":")[0].strip("[]"),
        min(indexes, default=None),
    )


@pytest.mark.parametrize("topology", CONNECTED, ids=lambda each: each.name)
def test_route_says_what_rping_uses(
    topology: Topology, rdmadiag_json: Call, preload: str, tmp_path: Path
) -> None:
    options = ("--source", topology.source) if topology.source else ()
    with built(topology):
        code, document = rdmadiag_json("route", topology.peer, *options)
        really = used(topology, preload, tmp_path)
        taken = document["route"]["taken"]
        assert taken, document["verdict"]
        said = Used(taken["device"], taken["port"], document["route"]["source"], taken["gid_index"])
        assert said == really
        assert code in (0, 1), document["verdict"]
