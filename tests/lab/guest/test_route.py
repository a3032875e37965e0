"""`route` beside what rping really uses, in topologies of rxe and siw, with a peer next door.

The peer is a network namespace of this kernel; both ends are Debian's rping. Device, port and
addresses are those of `rdma res show cm_id`; the GID index is that of the address vector that
rping hands to ibv_modify_qp (sgid_log.c).

Where the kernel has no devices in namespaces the peer has addresses and none of them: rping then
waits for an answer to its request, of a device and an address that are chosen, and of no GID.
"""

import errno
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lab.attempt import until
from lab.command import run as run_command
from lab.resources import queue_pair_states
from lab.rxe import is_tentative

Call = Callable[..., tuple[int, Any]]

SECONDS = 60.0
FAR = ("ip", "netns", "exec", "far")
PORT = "7471"

IN_NAMESPACES = os.uname().release.startswith("7.")
"""Whether the peer can have a device."""


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
        "a gateway of another subnet, on the link",
        "203.0.113.2",
        (*ONE[0], "ip route add 203.0.113.0/24 via 198.51.100.2 dev near0 onlink", RXE0),
        (
            *ONE[1],
            "ip address add 198.51.100.2/32 dev far0",
            "ip address add 203.0.113.2/32 dev far0",
            RXE9,
        ),
        gids=(("rxe9", "203.0.113.2"),),
    ),
    Topology(
        "an IPv6 gateway of an IPv4 route",
        "203.0.113.2",
        (
            *ONE[0],
            "ip address add fe80::8/64 dev near0 nodad",
            "ip route add 203.0.113.0/24 via inet6 fe80::9 dev near0",
            RXE0,
        ),
        (
            *ONE[1],
            "ip address add fe80::9/64 dev far0 nodad",
            "ip address add 203.0.113.2/32 dev far0",
            RXE9,
        ),
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
        "IPv6 on one link",
        "fe80::9%near0",
        (*ONE[0], "ip address add fe80::8/64 dev near0 nodad", RXE0),
        (*ONE[1], "ip address add fe80::9/64 dev far0 nodad", RXE9),
        server="fe80::9%far0",
        gids=(("rxe0", "fe80::8"), ("rxe9", "fe80::9")),
    ),
    Topology(
        "a rule for UDP, which rdma_cm's own look at the routes is not",
        "203.0.113.2",
        (
            *ONE[0],
            *TWO[0],
            "ip route add 203.0.113.0/24 dev near0",
            "ip route add 203.0.113.0/24 dev near1 table 77",
            "ip rule add to 203.0.113.0/24 ipproto udp table 77 priority 100",
            RXE0,
            RXE1,
        ),
        (*ONE[1], *TWO[1], "ip address add 203.0.113.2/32 dev far0", RXE9, RXE8),
        gids=(("rxe9", "203.0.113.2"),),
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
        # Devices last: soft iWARP of 6.1 stays DOWN where the carrier comes after it.
        for of_rdma in (False, True):
            for command in topology.near:
                if command.startswith("rdma ") is of_rdma:
                    do(command)
            for command in topology.far:
                if command.startswith("rdma ") is of_rdma and (IN_NAMESPACES or not of_rdma):
                    do(command, *FAR)
        assert until(lambda: ready(topology), SECONDS), topology.name
        # Duplicate address detection ends, where it has begun: a source is chosen among the others.
        until(lambda: not any(map(is_tentative, os.listdir("/sys/class/net"))), 5.0)
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
        packed(address) in gids(device)
        for device, address in topology.gids
        if (folder / device).exists()
    )


def gids(device: str) -> list[str]:
    rows = sorted(os.listdir(f"/sys/class/infiniband/{device}/ports/1/gids"), key=int)
    return [gid_at(device, int(row)) for row in rows]


def gid_at(device: str, index: int) -> str:
    row = Path(f"/sys/class/infiniband/{device}/ports/1/gids/{index}")
    return row.read_text().strip().replace(":", "")


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
    log_of_client = folder / "client"
    with rping([*topology.listens, *server], folder / "server"):
        assert until(lambda: cm_ids("LISTEN"), SECONDS), (folder / "server").read_text()
        with rping(client, log_of_client, LD_PRELOAD=preload, SGID_LOG=str(log)) as end:

            def mine() -> list[dict[str, Any]]:
                return [row for row in cm_ids("CONNECT") if row["dst-addr"].endswith(f":{PORT}")]

            def connected() -> bool:
                devices = {row["ifname"] for row in mine()}
                states = [queue_pair_states(each) for each in devices]
                return any("RTS" in each for each in states) or end.poll() is not None

            assert until(connected, SECONDS)
            found = mine()
            assert found, log_of_client.read_text()
    (row,) = found[:1]
    vectors = [line.split() for line in log.read_text().splitlines()]
    indexes = {int(each[2]) for each in vectors if each[1] == "1"}
    assert len(indexes) <= 1
    return Used(
        row["ifname"],
        row["port"],
        _host(row["src-addr"]),
        min(indexes, default=None),
    )


def chosen(peer: str, source: str | None, folder: Path) -> Used:
    """What a client chose that waits for a peer without a device; no GID index yet."""
    client = ["rping", "-c", "-a", peer, "-p", PORT, "-C", "1"]
    client += ["-I", source] if source else []
    said = folder / "client"
    # Soft iWARP connects by TCP first, to one that accepts and then says nothing.
    silent = [*FAR, sys.executable, "-S", "-c", SILENT, PORT]
    with rping(silent, folder / "silent"), rping(client, said) as end:
        assert until(lambda: bool(cm_ids("CONNECT")) or end.poll() is not None, SECONDS)
        found = cm_ids("CONNECT")
    assert found, said.read_text()
    (row,) = found
    return Used(row["ifname"], row["port"], _host(row["src-addr"]), None)


def _host(address: str) -> str:
    return address.rpartition(":")[0].strip("[]")


SILENT = """
import socket, sys, time
one = socket.socket(socket.AF_INET6)
one.bind(("::", int(sys.argv[1])))
one.listen()
time.sleep(600)
"""


def said(document: Any) -> Used:
    route = document["route"]
    taken = route["taken"]
    assert taken, document["verdict"]
    return Used(taken["device"], taken["port"], route["source"], taken["gid_index"])


@pytest.mark.sampled(6)
@pytest.mark.parametrize("topology", CONNECTED, ids=lambda each: each.name)
def test_route_says_what_rping_uses(
    topology: Topology, rdmadiag_json: Call, preload: str, tmp_path: Path
) -> None:
    options = ("--source", topology.source) if topology.source else ()
    with built(topology):
        code, document = rdmadiag_json("route", topology.peer, *options)
        found = said(document)
        if IN_NAMESPACES or not topology.listens:
            assert found == used(topology, preload, tmp_path)
        else:
            assert replace(found, index=None) == chosen(topology.peer, topology.source, tmp_path)
            if found.index is not None:
                assert gid_at(found.device, found.index) == packed(found.source)
        assert code in (0, 1), document["verdict"]


# --- several hops ---------------------------------------------------------------------------------

GATEWAYS = ("2001:db8:1::2", "2001:db8:2::2")
HOPS = Topology(
    "several IPv6 hops",
    "",
    (
        *ONE[0],
        *TWO[0],
        "ip address add 2001:db8:1::1/64 dev near0 nodad",
        "ip address add 2001:db8:2::1/64 dev near1 nodad",
        RXE0,
        RXE1,
    ),
    (
        *ONE[1],
        *TWO[1],
        "ip address add 2001:db8:1::2/64 dev far0 nodad",
        "ip address add 2001:db8:2::2/64 dev far1 nodad",
        *(f"ip address add 2001:db8:9::{number}/128 dev lo" for number in range(1, 7)),
    ),
    gids=(("rxe0", "2001:db8:1::1"), ("rxe1", "2001:db8:2::1")),
)
LONGEST = ("--timeout", "30")  # for a busy machine


def resolve(address: str) -> None:
    """A neighbour entry for it."""
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as one:
        one.sendto(b"", (address, 9))
    show = ["ip", "neigh", "show", address]
    assert until(lambda: "lladdr" in run_command(show, timeout=SECONDS).stdout, SECONDS)


@pytest.mark.long
def test_of_several_hops_the_kernels_choice_is_known_and_a_records_is_not(
    rdmadiag: Any, rdmadiag_json: Call, tmp_path: Path
) -> None:
    peers = [f"2001:db8:9::{number}" for number in range(1, 41)]
    record = str(tmp_path / "record")
    with built(HOPS):
        for gateway in GATEWAYS:
            resolve(gateway)
        hops = " ".join(f"nexthop via {each}" for each in GATEWAYS)
        do(f"ip -6 route add 2001:db8:9::/64 {hops}")
        rdmadiag("snapshot", record, *LONGEST)
        devices: set[str] = set()
        for tried, peer in enumerate(peers):
            if tried >= 6 and len(devices) == 2:  # the hash is the kernel's: at most 40
                break
            code, document = rdmadiag_json("route", peer, *LONGEST)
            found = replace(said(document), index=None)
            assert found == chosen(peer, None, tmp_path), peer
            assert {each["netdev"] for each in document["route"]["choices"]} == {"near0", "near1"}
            devices.add(found.device)
        # Without their entries each look takes the other one in turn, ours and rping's.
        do("ip -6 neigh flush all")
        code, unknown = rdmadiag_json("route", peers[0], *LONGEST)
        assert (code, unknown["route"]["taken"]) == (3, None)
    assert devices == {"rxe0", "rxe1"}, "the addresses are too few"
    code, recorded = rdmadiag_json("route", peers[0], "--from", record)
    assert (code, recorded["route"]["taken"]) == (3, None)
    assert {each["netdev"] for each in recorded["route"]["choices"]} == {"near0", "near1"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "name", ["the other of two by its source", "a policy rule for the destination", "a VLAN"]
)
def test_a_record_says_the_same_by_its_tables(
    name: str, rdmadiag: Any, rdmadiag_json: Call, tmp_path: Path
) -> None:
    topology = next(each for each in CONNECTED if each.name == name)
    options = ("--source", topology.source) if topology.source else ()
    record = str(tmp_path / "record")
    with built(topology):
        _, live = rdmadiag_json("route", topology.peer, *options)
        assert rdmadiag("snapshot", record, *LONGEST)[0] == 0
    _, recorded = rdmadiag_json("route", topology.peer, *options, "--from", record)
    witnesses = (live["route"]["witness"], recorded["route"]["witness"])
    assert witnesses == ("kernel", "tables")
    for name in ("netdev", "source", "taken", "vlan_id", "path_mtu"):
        assert live["route"][name] == recorded["route"][name], name
    assert live["route"]["tables_netdev"] is None


BOTH = Topology(
    "two IPv6 networks",
    "2001:db8::2",
    (
        *ONE[0],
        "ip address add 2001:db8::1/64 dev near0 nodad",
        "ip address add fd00:17::1/64 dev near0 nodad",
        RXE0,
    ),
    (*ONE[1], "ip address add 2001:db8::2/64 dev far0 nodad"),
)
LABELS = ("prefix 2001:db8::2/128 label 117", "prefix fd00:17::/64 label 117")
AN_HOUR = "ip address change 2001:db8::1/64 dev near0 valid_lft 3600 preferred_lft"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("changes", "labels", "source"),
    [
        pytest.param((), (), "2001:db8::1", id="as they are"),
        pytest.param((f"{AN_HOUR} 0",), (), "fd00:17::1", id="one is deprecated"),
        pytest.param((), LABELS, "fd00:17::1", id="labels of a site"),
        pytest.param((), LABELS[:1], "2001:db8::1", id="a label of the peer alone"),
    ],
)
def test_the_ipv6_source_of_a_record_is_the_kernels(
    changes: tuple[str, ...],
    labels: tuple[str, ...],
    source: str,
    rdmadiag: Any,
    rdmadiag_json: Call,
    tmp_path: Path,
) -> None:
    record = str(tmp_path / "record")
    with ExitStack() as undone:
        undone.enter_context(built(BOTH))
        for each in changes:
            do(each)
        for each in labels:
            do(f"ip addrlabel add {each}")
            undone.callback(do, f"ip addrlabel del {each}")
        _, live = rdmadiag_json("route", BOTH.peer)
        assert rdmadiag("snapshot", record, *LONGEST)[0] == 0
    _, recorded = rdmadiag_json("route", BOTH.peer, "--from", record)
    assert (live["route"]["witness"], live["route"]["source"]) == ("kernel", source)
    assert (recorded["route"]["witness"], recorded["route"]["source"]) == ("tables", source)


# --- what stops rdma_cm -------------------------------------------------------------------------


@dataclass(frozen=True)
class Refused:
    """A peer that rping comes to no connection with, and what it prints."""

    name: str
    peer: str
    printed: str
    rule: str
    call: str
    errno: str
    near: tuple[str, ...] = ()
    source: str | None = None


REFUSED = (
    Refused(
        "no device",
        "198.18.0.2",
        "RDMA_CM_EVENT_ADDR_ERROR, error -19",
        "cm-no-device",
        "RDMA_CM_EVENT_ADDR_ERROR",
        "ENODEV",
        (
            "ip link add below type dummy",
            "ip address add 198.18.0.1/24 dev below",
            "ip link set below up",
        ),
    ),
    Refused(
        "no route",
        "203.0.113.9",
        "rdma_resolve_addr: Network is unreachable",
        "cm-no-way",
        "rdma_resolve_addr",
        "ENETUNREACH",
    ),
    *(
        Refused(
            kind,
            "203.0.113.9",
            f"rdma_resolve_addr: {text}",
            "cm-no-way",
            "rdma_resolve_addr",
            errno,
            (f"ip route add {kind} 203.0.113.0/24",),
        )
        for kind, text, errno in (
            ("prohibit", "Permission denied", "EACCES"),
            ("blackhole", "Invalid argument", "EINVAL"),
            ("unreachable", "No route to host", "EHOSTUNREACH"),
        )
    ),
    Refused(
        "a source of no netdev",
        "192.0.2.2",
        "rdma_resolve_addr: Cannot assign requested address",
        "cm-source-unfit",
        "rdma_bind_addr",
        "EADDRNOTAVAIL",
        source="192.0.2.77",
    ),
    Refused(
        "a loopback address",
        "127.0.0.1",
        "rdma_resolve_route: No such device",
        "cm-loopback-address",
        "rdma_resolve_route",
        "ENODEV",
    ),
)


@pytest.fixture(scope="class")
def refusing() -> Iterator[None]:
    """One host with rxe0 on near0, and its peer."""
    with built(Topology("refusals", "", (*ONE[0], RXE0), (*ONE[1], RXE9))):
        yield


@pytest.mark.usefixtures("refusing")
class TestRefused:
    @pytest.mark.parametrize("case", REFUSED, ids=lambda each: each.name)
    def test_route_says_what_rping_prints(
        self, case: Refused, rdmadiag_json: Call, tmp_path: Path
    ) -> None:
        options = ("--source", case.source) if case.source else ()
        bound = ("-I", case.source) if case.source else ()
        for command in case.near:
            do(command)
        try:
            code, document = rdmadiag_json("route", case.peer, *options)
            argv = ["timeout", "60", "rping", "-c", "-a", case.peer, "-p", PORT, "-C", "1", *bound]
            done = run_command(argv, timeout=SECONDS + 30)
        finally:
            for command in reversed(case.near):
                if "route add" in command:
                    do(command.replace("route add", "route del"))
                if "link add" in command:
                    do("ip link del below")
        printed = done.stdout + done.stderr
        assert case.printed in printed
        stop = document["route"]["stop"]
        assert (stop["call"], stop["name"]) == (case.call, case.errno)
        found = document["verdict"]["findings"]
        assert (code, found[0]["rule"]) == (2, case.rule)

    def test_a_peer_that_does_not_answer_is_a_neighbour_that_failed(
        self, rdmadiag_json: Call
    ) -> None:
        peer = "192.0.2.200"
        argv = ["timeout", "60", "rping", "-c", "-a", peer, "-p", PORT, "-C", "1"]
        done = run_command(argv, timeout=SECONDS + 30)
        assert "RDMA_CM_EVENT_ADDR_ERROR, error -110" in done.stdout + done.stderr
        code, document = rdmadiag_json("route", peer)
        assert (code, document["verdict"]["status"]) == (1, "warn")
        (found,) = document["verdict"]["findings"]
        assert found["rule"] == "cm-neighbour-failed"
        assert document["route"]["next_hop"]["entry"]["state"] in ("failed", "incomplete")

    @pytest.mark.needs("rxe in namespaces")
    def test_another_device_than_the_one_asked_for_is_said(self, rdmadiag_json: Call) -> None:
        code, document = rdmadiag_json("route", "192.0.2.2", "--device", "rxe9")
        assert code == 2
        assert "cm-other-device" in [each["rule"] for each in document["verdict"]["findings"]]
        code, document = rdmadiag_json("route", "192.0.2.2", "--device", "rxe0")
        assert document["route"]["taken"]["device"] == "rxe0"
        assert code in (0, 1)

    def test_a_mode_that_was_set_is_read_where_its_folder_is(self, rdmadiag_json: Call) -> None:
        _, document = rdmadiag_json("route", "192.0.2.2")
        assert document["route"]["roce_mode"]["why"] == "absent"
        if not Path("/sys/kernel/config").exists():
            pytest.skip("this kernel has no configfs")
        do("mount -t configfs none /sys/kernel/config")
        folder = Path("/sys/kernel/config/rdma_cm/rxe0")
        folder.mkdir()
        try:
            _, document = rdmadiag_json("route", "192.0.2.2")
            assert document["route"]["roce_mode"] == "roce_v2"
        finally:
            folder.rmdir()
            do("umount /sys/kernel/config")


def test_a_loopback_address_is_refused_over_soft_iwarp(rdmadiag_json: Call) -> None:
    """cma_bind_loopback asks for a partition key, which iWARP has none of."""
    siw = "rdma link add siw0 type siw netdev near0"
    with built(Topology("loopback", "", (*ONE[0], siw), ONE[1])):
        code, document = rdmadiag_json("route", "127.0.0.1")
        argv = ["timeout", "60", "rping", "-c", "-a", "127.0.0.1", "-p", PORT, "-C", "1"]
        done = run_command(argv, timeout=SECONDS + 30)
    assert "rdma_resolve_addr: Invalid argument" in done.stdout + done.stderr
    stop = document["route"]["stop"]
    assert (code, stop["call"], stop["name"]) == (2, "rdma_resolve_addr", "EINVAL")


# --- rules of preflight ---------------------------------------------------------------------------


def rules_of(document: Any) -> dict[str, str | None]:
    return {each["rule"]: each["device"] for each in document["verdict"]["findings"]}


def test_strict_rp_filter_drops_what_preflight_says_it_does(rdmadiag_json: Call) -> None:
    topology = next(each for each in CONNECTED if each.name == "two netdevs in one subnet")
    knobs = [f"net.ipv4.conf.{name}.rp_filter" for name in ("all", "near0", "near1")]
    # Nobody listens: what arrives, and comes back, is refused.
    connect = "import socket,sys; s=socket.socket(); s.settimeout(5); sys.exit(s.connect_ex(AT))"
    argv = [*FAR, sys.executable, "-S", "-c", connect.replace("AT", "('192.0.2.3', 9)")]

    def refused() -> bool:
        return run_command(argv, timeout=SECONDS).returncode == errno.ECONNREFUSED

    with built(topology):
        try:
            do(f"sysctl -qw {' '.join(f'{knob}=0' for knob in knobs)}")
            _, loose = rdmadiag_json("preflight")
            assert refused()
            do("sysctl -qw net.ipv4.conf.all.rp_filter=1")
            _, strict = rdmadiag_json("preflight")
            assert not refused()
            do("ip route add 192.0.2.0/24 dev near1 src 192.0.2.3 table 77")
            do("ip rule add from 192.0.2.3 table 77 priority 100")
            _, mended = rdmadiag_json("preflight")
            assert refused()
            do("sysctl -qw net.ipv4.conf.all.rp_filter=0")
            do("ip route replace 192.0.2.0/24 dev near0 table 77")
            _, astray = rdmadiag_json("preflight")
        finally:
            do("sysctl -qw net.ipv4.conf.all.rp_filter=0")
    assert rules_of(astray).get("no-rule-for-this-nic") == "rxe1"
    assert not {"reverse-path-filter", "no-rule-for-this-nic"} & set(rules_of(loose))
    assert rules_of(strict).get("reverse-path-filter") == "rxe1"
    assert not {"reverse-path-filter", "no-rule-for-this-nic"} & set(rules_of(mended))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("way", "leads"),
    [
        ("", False),
        ("ip route add 198.18.0.0/24 dev near0", True),
        ("ip route add unreachable 198.18.0.1/32", False),
        ("ip route add prohibit 198.18.0.0/16", False),
    ],
)
def test_a_master_address_without_a_way_is_one_that_ip_finds_no_way_to(
    way: str, leads: bool, rdmadiag_json: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASTER_ADDR", "198.18.0.1")
    with built(next(each for each in CONNECTED if each.name == "two netdevs in one subnet")):
        try:
            if way:
                do(way)
            found = run_command(["ip", "route", "get", "198.18.0.1"], timeout=SECONDS)
            _, document = rdmadiag_json("preflight")
        finally:
            run_command(["ip", "route", "flush", "root", "198.18.0.0/16"], timeout=SECONDS)
    assert (found.returncode == 0) is leads
    assert ("master-address-unfit" not in rules_of(document)) is leads


def test_a_node_that_is_closed_is_said_and_rping_fails(rdmadiag_json: Call) -> None:
    node = "/dev/infiniband/rdma_cm"
    siw = "rdma link add siw0 type siw netdev near0"
    before = os.stat(node).st_mode & 0o777
    become = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    rping_ = [*become, "timeout", "60", "rping", "-c", "-a", "192.0.2.2", "-C", "1"]
    with built(Topology("closed", "", (*ONE[0], siw), ONE[1])):
        try:
            os.chmod(node, 0o666)
            _, opened = rdmadiag_json("preflight", user=65534)
            os.chmod(node, 0o600)
            _, closed = rdmadiag_json("preflight", user=65534)
            done = run_command(rping_, timeout=SECONDS + 30)
        finally:
            os.chmod(node, before)
    assert "rdma-cm-node" not in rules_of(opened)
    assert "rdma-cm-node" in rules_of(closed)
    assert "iwarp-port-mapper-absent" not in rules_of(closed)  # soft iWARP needs none
    # rdma-core 44 says of a closed one that there is none.
    assert "failed to create RDMA CM event channel" in done.stdout + done.stderr


def test_a_port_mapper_that_runs_is_seen(rdmadiag_json: Call) -> None:
    siw = "rdma link add siw0 type siw netdev near0"
    with built(Topology("mapper", "", (*ONE[0], siw), ONE[1])):
        _, without = rdmadiag_json("preflight")
        with subprocess.Popen(["iwpmd", "-n"], stdin=subprocess.DEVNULL) as mapper:
            try:
                assert until(lambda: ":0F5F " in Path("/proc/net/udp").read_text(), SECONDS)
                _, beside = rdmadiag_json("preflight")
            finally:
                mapper.kill()
    assert without["evidence"]["routing"]["port_mapper"] is False
    assert beside["evidence"]["routing"]["port_mapper"] is True


def ended_or_more(end: subprocess.Popen[bytes], given: Callable[[], set[str]], held: int) -> bool:
    return end.poll() is not None or len(given()) > held


@pytest.mark.needs("rxe in namespaces")
@pytest.mark.long
def test_local_ports_that_are_used_up_are_said_and_no_id_gets_one(
    rdmadiag_json: Call, tmp_path: Path
) -> None:
    knob = "net.ipv4.ip_local_port_range"
    before = run_command(["sysctl", "-n", knob], timeout=SECONDS).stdout.split()
    client = ["rping", "-c", "-a", "192.0.2.2", "-p", PORT, "-C", "100000000"]
    server = [*FAR, "rping", "-s", "-P", "-a", "192.0.2.2", "-p", PORT]

    def given() -> set[str]:
        rows = [row for row in cm_ids("CONNECT") if row["ifname"] == "rxe0"]
        return {row["src-addr"].rpartition(":")[2] for row in rows}

    with (
        built(Topology("ports", "", (*ONE[0], RXE0), (*ONE[1], RXE9))),
        rping(server, tmp_path / "server"),
    ):
        try:
            assert until(lambda: bool(cm_ids("LISTEN")), SECONDS), (tmp_path / "server").read_text()
            assert not run_command(["sysctl", "-qw", f"{knob}=40000 40003"], timeout=9).returncode
            with ExitStack() as clients:
                # One may be left: cma_alloc_any_port does not give the port that it gave last.
                refused = tmp_path / "client"
                for number in range(5):
                    refused = tmp_path / f"client{number}"
                    held = len(given())
                    end = clients.enter_context(rping(client, refused))
                    ended = partial(ended_or_more, end, given, held)
                    assert until(ended, SECONDS)
                    if end.poll() is not None:
                        break
                printed = refused.read_text()
                options = ("--threshold", "limit_share=0.5", "--timeout", "30")
                _, document = rdmadiag_json("resources", *options)
        finally:
            run_command(["sysctl", "-qw", f"{knob}={' '.join(before)}"], timeout=SECONDS)
    assert "Cannot assign requested address" in printed
    assert "cm-ports-near-limit" in rules_of(document)
    ids = [
        row for each in document["devices"] if each["device"] == "rxe0" for row in each["cm_ids"]
    ]
    connected = [row["command"] for row in ids if row["state"] == "connect"]
    assert connected in (["rping"] * 3, ["rping"] * 4)
