"""Looking changes nothing: each reading command, watched by strace and by probes in the kernel."""

import json
import os
import re
import shutil
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab import pci_bus
from lab.device_requests import Sent, available, probes
from lab.rxe import Rxe
from lab.samples import roce_host

Rdmadiag = Callable[..., tuple[int, str, str]]
Run = Callable[..., Any]

CALLS = (
    "open,openat,openat2,creat,socket,send,sendto,sendmsg,sendmmsg,ioctl,unlink,unlinkat,rename,"
    "renameat,renameat2,mkdir,mkdirat,symlink,symlinkat,chmod,fchmod,fchmodat,chown,mount,"
    "init_module,finit_module,delete_module,bind,setns,unshare,truncate,ftruncate,execve"
)
STRACE = ("strace", "-f", "--seccomp-bpf", "-qq", "-s", "128", "-e", f"trace={CALLS}", "-o")
WRITES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND")
CHANGES = re.compile(
    r"\b(creat|unlink\w*|rename\w*|mkdir\w*|symlink\w*|f?chmod\w*|chown|mount|init_module|"
    r"finit_module|delete_module|setns|unshare|f?truncate)\("
)
# Relative to a folder that was opened on the way to what the user named: rdmadiag/host/target.py.
OWN = r'\d+, "\.rdmadiag\.[0-9a-f]{16}\.tmp[/"]'
NODE = re.compile(r'open\w*\(.*"/dev/infiniband/(\w+)"')
SOCKET = re.compile(r" socket\(AF_NETLINK, [A-Z_|]+, (NETLINK_\w+)")
OPENED = re.compile(r"\bsocket(?:\(AF_NETLINK.*| resumed>)\)\s+= (\d+)$")
SENDS = re.compile(r"\bsend\w*\((\d+),.*nlmsg_type=")
# linux/rtnetlink.h, rdma/rdma_netlink.h. That generic netlink's families, numbered from 16 on,
# get lists of families and the GETs of GENERIC_READS alone is what rdmadiag's own netlink module
# refuses to send otherwise.
RTM_NEWLINK, RTM_GETLINK, RTM_GETADDR = 16, 18, 22
RTM_GETROUTE, RTM_GETNEIGH, RTM_GETRULE, RTM_GETDCB = 26, 30, 34, 78
RTM_GETQDISC, RTM_GETTFILTER, RTM_GETNEIGHTBL, RTM_GETADDRLABEL = 38, 46, 66, 74
SOCK_DIAG_BY_FAMILY = 20  # linux/sock_diag.h
NFT_GETCHAIN, NFT_GETRULE = 10 << 8 | 4, 10 << 8 | 7  # linux/netfilter/nf_tables.h
NFT_GETSET, NFT_GETSETELEM = 10 << 8 | 10, 10 << 8 | 13
GENERIC = range(16, 64)
NAMED = {"RTM_NEWLINK": RTM_NEWLINK, "RTM_GETLINK": RTM_GETLINK, "RTM_GETADDR": RTM_GETADDR}
NAMED |= {"RTM_GETROUTE": RTM_GETROUTE, "RTM_GETNEIGH": RTM_GETNEIGH, "RTM_GETRULE": RTM_GETRULE}
NAMED |= {"RTM_GETQDISC": RTM_GETQDISC, "RTM_GETTFILTER": RTM_GETTFILTER}
NAMED |= {"RTM_GETNEIGHTBL": RTM_GETNEIGHTBL, "RTM_GETADDRLABEL": RTM_GETADDRLABEL}
NAMED |= {"RTM_GETDCB": RTM_GETDCB, "SOCK_DIAG_BY_FAMILY": SOCK_DIAG_BY_FAMILY}
NAMED |= {"nlctrl": 16, "ethtool": 17}
NAMED |= {"NFNL_SUBSYS_NFTABLES<<8|NFT_MSG_GETCHAIN": NFT_GETCHAIN}
NAMED |= {"NFNL_SUBSYS_NFTABLES<<8|NFT_MSG_GETRULE": NFT_GETRULE}
NAMED |= {"NFNL_SUBSYS_NFTABLES<<8|NFT_MSG_GETSET": NFT_GETSET}
NAMED |= {"NFNL_SUBSYS_NFTABLES<<8|NFT_MSG_GETSETELEM": NFT_GETSETELEM}
NETLINK_READS = {
    "NETLINK_ROUTE": {
        *(RTM_GETLINK, RTM_GETADDR, RTM_GETROUTE, RTM_GETNEIGH, RTM_GETRULE, RTM_GETDCB),
        *(RTM_GETQDISC, RTM_GETTFILTER, RTM_GETNEIGHTBL, RTM_GETADDRLABEL),
    },
    "NETLINK_RDMA": {(5 << 10) + op for op in (1, 5, 6, *range(9, 16), 17, 22, 23, 24)},
    "NETLINK_GENERIC": set(GENERIC),
    "NETLINK_SOCK_DIAG": {SOCK_DIAG_BY_FAMILY},
    "NETLINK_NETFILTER": {NFT_GETCHAIN, NFT_GETRULE, NFT_GETSET, NFT_GETSETELEM},
}

WATCHED = str(os.getpid())
READING = {
    "preflight": [
        "preflight",
        "--json",
        "--exit-zero",
        "--timeout",
        "30",
        "--pid",
        str(os.getpid()),
    ],
    "gids": ["gids", "--json", "--timeout", "30"],
    "devices": ["devices", "--json", "--timeout", "30"],
    "snapshot": ["snapshot", "OUT", "--timeout", "30"],
    "counters": ["counters", "--json", "--interval", "1", "--timeout", "30"],
    "resources": ["resources", "--json", "--timeout", "30"],
    "expect": ["expect", "--json", "--timeout", "30"],
    # The other end of the cable is in this namespace too: the way to it leads back here.
    "route": ["route", "192.0.2.2", "--source", "192.0.2.1", "--json", "--timeout", "30"],
    # veth has no DCB: the answer is "unknown".
    "lossless": ["lossless", "--json", "--exit-zero", "--timeout", "30"],
    # This kernel has soft devices alone, and perhaps no PCI: nothing is proposed.
    "topology": ["topology", "--json", "--exit-zero", "--timeout", "30"],
    # The process that tests: it has no queue pair, and `traced` opens a connection.
    "job": ["job", WATCHED, "--children", "--json", "--exit-zero", "--timeout", "30"],
    # Until its time is over: what it asks before it listens, and the groups that it joins.
    "watch": ["watch", "--json", "--for", "3", "--counters", "1"],
    "textfile": ["preflight", "-o", "prometheus", "--output", "OUT/x.prom", "--timeout", "30"],
}
# On a busy machine a traced command may not be done within the 30 s that it allows itself: that
# shows nothing, and it is run again.
ATTEMPTS, UNKNOWN = 4, 3
LOGGED = ("preflight", "snapshot", "expect", "textfile", "watch")  # these look at the kernel's log
SILENT = (
    "gids",
    "counters",
    "route",
    "lossless",
    "topology",
    "job",
    "watch",
)  # these ask no library
ASKING = [command for command in READING if command not in SILENT]
ROUTE = [command for command in READING if command not in ("gids", "resources")]
# The filters of a netdev are asked for where it has a place for them.
TABLES = {RTM_GETROUTE, RTM_GETRULE, RTM_GETNEIGH, RTM_GETNEIGHTBL, RTM_GETQDISC}
TABLES |= {RTM_GETADDRLABEL}
OF_ROUTE = {
    "counters": {RTM_GETLINK},
    "devices": {RTM_GETLINK, RTM_GETADDR},
    "topology": {RTM_GETLINK, RTM_GETADDR, *TABLES},
    "job": {RTM_GETLINK, RTM_GETADDR},
    "snapshot": {RTM_GETLINK, RTM_GETADDR, RTM_GETDCB, *TABLES},
    "route": {RTM_GETLINK, RTM_GETADDR, *TABLES},
    "watch": {RTM_GETLINK},
}


# --- who opens one ---------------------------------------------------------------------


def verbs_children(lines: list[str]) -> dict[int, int]:
    """Process → the line at which it became the program of the verbs query."""
    return {
        _pid(line): at
        for at, line in enumerate(lines)
        if " execve(" in line and "rdmadiag.verbs.query" in line
    }


def opened_nodes(lines: list[str]) -> tuple[set[str], list[str]]:
    """The nodes that a verbs child opened, and the lines where another process opened one."""
    children = verbs_children(lines)
    ours, foreign = set(), []
    for at, line in enumerate(lines):
        if node := NODE.search(line):
            if children.get(_pid(line), at) < at:
                ours.add(node[1])
            else:
                foreign.append(line)
    return ours, foreign


def _pid(line: str) -> int:
    return int(line.split(maxsplit=1)[0])


@dataclass(frozen=True)
class Traced:
    """One command: its own output folder, strace's lines, and what reached device nodes."""

    out: Path
    lines: list[str]
    sent: list[Sent]  # nothing where the kernel has no probes


@pytest.fixture(scope="class")
def traced(
    rxe_pair: tuple[Rxe, Rxe],
    rdmadiag: Rdmadiag,
    run: Run,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Traced]:
    """By command; once for all tests here."""
    folder = tmp_path_factory.mktemp("strace")
    before = resources(run)
    traces = {}
    with (
        probes() if available() else nullcontext(list[Sent]) as taken,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()),
    ):
        for name, arguments in READING.items():
            out = folder / f"{name}-out"
            argv = [each.replace("OUT", str(out)) for each in arguments]
            log = folder / f"{name}.strace"
            for _ in range(ATTEMPTS):
                taken()
                if "--output" in arguments:
                    out.mkdir()
                code, document, err = rdmadiag(*argv, prefix=(*STRACE, str(log)), timeout=300)
                lines = log.read_text().splitlines()
                late = code == UNKNOWN or (name in ASKING and not opened_nodes(lines)[0])
                if not late:
                    break
                shutil.rmtree(out, ignore_errors=True)
            assert code == 0, err or document
            traces[name] = Traced(out, lines, taken())
    assert resources(run) == before, "a resource was left"
    return traces


def resources(run: Run) -> tuple[str, str]:
    """Counts of each device, and the user contexts."""
    contexts = run(["rdma", "-j", "res", "show", "ctx"], timeout=30)
    return run(["rdma", "-j", "res"], timeout=30).stdout, contexts.stdout


class TestSystemCalls:
    @pytest.mark.other_kernels(8)
    @pytest.mark.parametrize("command", list(READING))
    def test_opens_nothing_for_writing_but_its_own_output_and_what_verbs_opens(
        self, command: str, traced: dict[str, Traced]
    ) -> None:
        out, lines = traced[command].out, traced[command].lines
        opened = [line for line in lines if "open" in line and WRITES.search(line)]
        known = re.compile(rf'{OWN}|"({re.escape(str(out))}/.*|/dev/null|/dev/infiniband/\w+)"')
        foreign = [line for line in opened if not known.search(line)]
        assert any("/sys/class/infiniband" in line for line in lines), "strace saw nothing"
        assert foreign == []

    @pytest.mark.parametrize("command", list(READING))
    def test_makes_and_removes_no_file_loads_no_module_enters_no_namespace(
        self, command: str, traced: dict[str, Traced]
    ) -> None:
        changed = [line for line in traced[command].lines if CHANGES.search(line)]
        if command == "textfile":  # of a descriptor: no other is open for writing, as shown above
            (mode,) = [line for line in changed if " fchmod(" in line]
            assert ", 0644)" in mode
            changed.remove(mode)
        own = re.compile(rf'{OWN}|"{re.escape(str(traced[command].out))}')
        assert [line for line in changed if not own.search(line)] == []

    @pytest.mark.parametrize("command", SILENT)
    def test_opens_no_device_node_and_asks_no_library(
        self, command: str, traced: dict[str, Traced]
    ) -> None:
        lines = traced[command].lines
        assert opened_nodes(lines) == (set(), [])
        assert verbs_children(lines) == {}

    @pytest.mark.needs("kprobes")
    @pytest.mark.parametrize("command", SILENT)
    def test_nothing_of_these_reaches_a_device_node(
        self, command: str, traced: dict[str, Traced]
    ) -> None:
        assert traced[command].sent == []

    @pytest.mark.parametrize(
        "command",
        ["preflight", "gids", "devices", "resources", "expect", "route", "lossless", "job"],
    )
    def test_counters_are_opened_by_those_alone_that_count(
        self, command: str, traced: dict[str, Traced]
    ) -> None:
        def counted(name: str) -> list[str]:
            return [line for line in traced[name].lines if "/hw_counters" in line]

        assert counted(command) == []
        assert counted("counters")

    @pytest.mark.parametrize("command", list(READING))
    def test_the_kernels_log_is_opened_for_reading_alone_and_configuration_space_not_at_all(
        self, command: str, traced: dict[str, Traced]
    ) -> None:
        lines = traced[command].lines
        log = [line for line in lines if '"/dev/kmsg"' in line]
        assert len(log) == (1 if command in LOGGED else 0)
        assert all("O_RDONLY|O_NONBLOCK" in line for line in log)
        assert [line for line in lines if "/config" in line and "/sys/bus/pci" in line] == []

    @pytest.mark.parametrize("command", ASKING)
    def test_the_verbs_child_alone_opens_device_nodes(
        self, command: str, traced: dict[str, Traced]
    ) -> None:
        lines = traced[command].lines
        assert len(verbs_children(lines)) == 1
        assert opened_nodes(lines) == ({"uverbs0", "uverbs1"}, [])

    @pytest.mark.needs("kprobes")
    @pytest.mark.parametrize("command", ASKING)
    def test_what_reaches_a_device_node_asks_and_makes_no_object(
        self, command: str, traced: dict[str, Traced]
    ) -> None:
        sent = traced[command].sent
        assert [each.text for each in sent if each.query is None] == []
        assert {each.pid for each in sent} == set(verbs_children(traced[command].lines))
        queries = [each.query for each in sent]
        for query in ("GET_CONTEXT", "QUERY_DEVICE", "QUERY_PORT", "QUERY_GID_TABLE"):
            assert queries.count(query) >= 2, f"no {query} of both devices"

    @pytest.mark.parametrize("command", list(READING))
    def test_sends_no_netlink_message_that_is_not_a_get(
        self, command: str, traced: dict[str, Traced]
    ) -> None:
        lines = traced[command].lines
        sent = netlink_sent(lines)
        assert [each for each in sent if each[1] not in NETLINK_READS[each[0]]] == []
        sends = [line for line in lines if re.search(r"\bsend\w*\(", line)]
        assert all("nlmsg_type" in line or "sun_path" in line for line in sends)
        if command in ROUTE:
            kinds = {kind for family, kind in sent if family == "NETLINK_ROUTE"}
            assert kinds == OF_ROUTE.get(command, {RTM_GETLINK, RTM_GETADDR, RTM_GETDCB, *TABLES})
        if command != "gids":
            assert any(family == "NETLINK_RDMA" for family, _ in sent), "nldev was not asked"
        # Of connections job alone asks, where that loads no module.
        about_tcp = [each for each in sent if each[0] == "NETLINK_SOCK_DIAG"]
        assert len(about_tcp) == (4 if command == "job" and has_tcp_diag() else 0)


def has_tcp_diag() -> bool:
    built_in = Path("/lib/modules", os.uname().release, "modules.builtin")
    there = Path("/sys/module/tcp_diag").exists()
    return there or (built_in.exists() and "/tcp_diag.ko\n" in built_in.read_text())


class TestConfigurationSpace:
    """Of a bus that has some, which soft devices have not: see lab.pci_bus."""

    @pytest.mark.needs("PCI Express")
    def test_it_is_opened_for_reading_of_adapters_gpus_and_bridges_and_where_capabilities_are(
        self, rdmadiag: Rdmadiag, run: Run, tmp_path: Path
    ) -> None:
        assert run(["modprobe", "ib_core"], timeout=60).returncode == 0
        adapter, gpu = pci_bus.functions(*pci_bus.ETHERNET)
        log = tmp_path / "strace"
        strace = ("strace", "-f", "-qq", "-y", "-e", f"trace=pread64,pwrite64,{CALLS}", "-o")
        with pci_bus.laid_over(roce_host(), adapter, gpu, tmp_path):
            before = registers(adapter)
            rdmadiag("preflight", "--timeout", "30", prefix=(*strace, str(log)), timeout=300)
            assert registers(adapter) == before
        lines = log.read_text().splitlines()
        opened = [line for line in lines if re.search(r'open\w*\(.*/config"', line)]
        bridges = {*pci_bus.above(adapter), *pci_bus.above(gpu)}
        assert {re.findall(r'devices/([^/"]+)/config"', line)[0] for line in opened} == {
            *(adapter, gpu, *bridges)
        }
        assert len(opened) == len(bridges) + 2
        assert [line for line in opened if WRITES.search(line)] == []
        assert [line for line in lines if " pwrite64(" in line] == []
        reads = [line for line in lines if " pread64(" in line and "/config>" in line]
        whole = [re.search(r", (\d+), \d+\) += \d+$", line) for line in reads]
        sizes = {int(found[1]) for found in whole if found}  # others are "unfinished"
        assert sizes
        assert sizes <= {64, 2, 10, 4, 8}
        assert [line for line in lines if '/vpd"' in line] == []


def registers(address: str) -> bytes:
    """The first 256 bytes: header and capabilities."""
    return (pci_bus.DEVICES / address / "config").read_bytes()[:256]


def netlink_sent(lines: list[str]) -> list[tuple[str, int]]:
    """Family and type of each message.

    strace itself names both where the kernel has netlink_diag. The family is that of the socket,
    which the process that sends has opened.
    """
    families: dict[tuple[int, int], str] = {}
    opening: dict[int, str] = {}
    sent = []
    for line in lines:
        pid = _pid(line)
        if opened := SOCKET.search(line):
            opening[pid] = opened[1]
        if number := OPENED.search(line):
            families[pid, int(number[1])] = opening.pop(pid)
        if message := SENDS.search(line):
            family = families[pid, int(message[1])]
            kinds = re.findall(r"nlmsg_type=([A-Za-z_0-9]+(?:<<8\|[A-Z_]+)?)", line)
            sent += [(family, NAMED[kind] if kind in NAMED else int(kind, 0)) for kind in kinds]
    return sent


class TestNetlinkOfStrace:
    def test_the_family_is_that_of_the_socket_named_or_not(self) -> None:
        lines = [
            "9 socket(AF_NETLINK, SOCK_RAW|SOCK_CLOEXEC, NETLINK_ROUTE <unfinished ...>",
            "8 socket(AF_NETLINK, SOCK_RAW|SOCK_CLOEXEC, NETLINK_RDMA) = 5",
            "9 <... socket resumed>)             = 5",
            "9 sendto(5, [{nlmsg_len=24, nlmsg_type=0x16 /* ? */, nlmsg_flags=0}], 24, 0) = 24",
            "8 sendmsg(5, {msg_iov=[{iov_base={nlmsg_len=16, nlmsg_type=0x1401 /* ? */}}]}) = 16",
            "9 sendto(5, [{nlmsg_len=24, nlmsg_type=RTM_NEWLINK, nlmsg_flags=0}], 24, 0) = 24",
        ]
        route, rdma, refused = netlink_sent(lines)
        assert (route, rdma) == (("NETLINK_ROUTE", RTM_GETADDR), ("NETLINK_RDMA", 0x1401))
        assert refused[1] not in NETLINK_READS[refused[0]]


class TestControls:
    """What is watched above can fail."""

    @pytest.mark.smoke
    @pytest.mark.needs("kprobes")
    def test_a_program_with_a_queue_pair_is_refused(
        self, rxe_pair: tuple[Rxe, Rxe], run: Run, tmp_path: Path
    ) -> None:
        log = tmp_path / "strace"
        program = ("timeout", "10", "ibv_rc_pingpong", "-d", "rxe0", "-g", "1")
        with probes() as taken:
            run([*STRACE, str(log), *program], timeout=60)
            sent = taken()
        refused = {each.text.partition(" attr=")[0] for each in sent if each.query is None}
        makes_cq, makes_qp = "ioctl object=3 method=0", "ioctl object=4 method=0"
        assert {makes_cq, makes_qp} <= refused
        assert {each.query for each in sent} >= {"GET_CONTEXT", "QUERY_PORT"}
        allocates_pd, registers_mr = 3, 9
        for command in (allocates_pd, registers_mr):
            assert any(each.text.endswith(f"value={command}") for each in sent)
        ours, foreign = opened_nodes(log.read_text().splitlines())
        assert ours == set()
        assert "/dev/infiniband/uverbs0" in "".join(foreign)

    @pytest.mark.smoke
    @pytest.mark.needs("kprobes")
    def test_a_command_that_is_written_is_seen(self, rxe_pair: tuple[Rxe, Rxe], run: Run) -> None:
        allocate_pd, query_port = 3, 2
        script = (
            "import os, sys; os.write(os.open(sys.argv[1], os.O_RDWR), bytes.fromhex(sys.argv[2]))"
        )
        with probes() as taken:
            for command in (allocate_pd, query_port):
                header = struct.pack("=IHH", command, 2, 0).hex()
                argv = [sys.executable, "-c", script, "/dev/infiniband/uverbs0", header]
                assert run(argv, timeout=30).returncode != 0, "the kernel took a command of 8 bytes"
            sent = taken()
        assert [(each.query, each.text) for each in sent] == [
            (None, "write command=3"),
            ("QUERY_PORT", "write command=2"),
        ]

    def test_a_queue_pair_made_meanwhile_would_have_been_seen(
        self, rxe_pair: tuple[Rxe, Rxe], run: Run
    ) -> None:
        before = json.loads(run(["rdma", "-j", "res"], timeout=30).stdout)
        program = "timeout 20 ibv_rc_pingpong -d rxe0 -g 1"
        script = f"{program} >/dev/null & sleep 3; rdma -j res; kill $!; wait"
        during = json.loads(run(["bash", "-c", script], timeout=60).stdout)
        assert during[0]["qp"] == before[0]["qp"] + 1
