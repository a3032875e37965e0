"""TCP listeners and processes with an RDMA device open, as the kernel shows them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.counted import Held
from lab.machine import with_counters
from lab.samples import roce_host
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.job import TcpState
from rdmadiag.facts.programs import Listener, ProgramFacts, RdmaProgram, Unacknowledged, Untaken
from rdmadiag.sources.programs import (
    parse_cgroup_events,
    parse_freezer_state,
    parse_state,
    parse_tcp,
    parse_wrong_checksums,
    read_programs,
)

HEAD = (
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout"
    " inode\n"
)
# proc_net_tcp.txt of the kernel: addresses as words of the host, states and queues hexadecimal
LISTEN = (
    "   0: 00000000:4853 00000000:0000 0A 00000000:00000002 00:00000000 00000000     0        0 9\n"
)
BUSY = (
    "   1: 020200C0:4853 010200C0:9CB0 01 00000000:00000000 00:00000000 00000000     0        0 7\n"
)
WAITS = BUSY.replace(" 7\n", " 0\n")
GIVEN_UP = WAITS.replace(" 01 ", " 08 ")
OTHER_PORT = WAITS.replace("020200C0:4853", "020200C0:0016")
AGAIN = BUSY.replace(
    "00000000:00000000 00:00000000 00000000", "0000006D:00000000 01:000002C0 {:08X}"
)
TCP = "/proc/self/net/tcp"
SNMP = "/proc/self/net/snmp"
# Documentation/networking/snmp_counter.rst; tcp_ipv4.c counts in TCP_MIB_CSUMERRORS
COUNTERS = (
    "Ip: Forwarding DefaultTTL\nIp: 2 64\n"
    "Tcp: RtoAlgorithm InErrs OutRsts InCsumErrors\nTcp: 1 9 3 {}\n"
    "Udp: InDatagrams InCsumErrors\nUdp: 4 77\n"
)
ONE = (Listener("0.0.0.0", 18515, 2),)
PEER = ("192.0.2.2", 18515, "192.0.2.1", 40112)


@pytest.mark.parametrize(
    ("rows", "untaken"),
    [
        ("", ()),
        (BUSY, ()),
        (WAITS, (Untaken(*PEER, TcpState.ESTABLISHED),)),
        (GIVEN_UP, (Untaken(*PEER, TcpState.CLOSE_WAIT),)),
        (OTHER_PORT, ()),  # nobody listens there: it is no connection that waits for a program
    ],
    ids=["none", "of a program", "waits", "given up", "of another port"],
)
def test_a_connection_without_an_inode_waits_for_its_listener(
    rows: str, untaken: tuple[Untaken, ...]
) -> None:
    assert parse_tcp((HEAD + LISTEN + rows).encode()) == (ONE, untaken, ())


def test_of_a_listener_at_which_nothing_waits_no_connection_does() -> None:
    idle = LISTEN.replace("00000002", "00000000")
    assert parse_tcp((HEAD + idle + WAITS).encode()) == ((Listener("0.0.0.0", 18515, 0),), (), ())


@pytest.mark.parametrize(
    ("row", "found"),
    [
        (AGAIN.format(6), (Unacknowledged(*PEER, TcpState.ESTABLISHED, 109, 6),)),
        (
            AGAIN.format(10).replace(" 01 0000006D", " 04 0000006D"),
            (Unacknowledged(*PEER, TcpState.FIN_WAIT1, 109, 10),),
        ),
        (AGAIN.format(0), ()),  # sent, and it may be acknowledged yet
        (AGAIN.format(6).replace(" 01:0", " 02:0"), ()),  # keepalive
    ],
    ids=["six times", "after its program ended", "once", "keepalive"],
)
def test_what_is_sent_again_and_again_is_not_answered(
    row: str, found: tuple[Unacknowledged, ...]
) -> None:
    assert parse_tcp((HEAD + row).encode()) == ((), (), found)


@pytest.mark.parametrize("raw", [b"", b"nothing\n", f"{HEAD}fish\n".encode()])
def test_another_table_is_malformed(raw: bytes) -> None:
    found = parse_tcp(raw)
    assert isinstance(found, Missing)
    assert found.why is Why.MALFORMED


def test_the_words_of_the_kernel_about_what_does_not_run() -> None:
    assert parse_state(b"Name:\tx\nState:\tT (stopped)\nTgid:\t7\n") == "T"
    assert parse_cgroup_events(b"populated 1\nfrozen 1\n") is True
    assert parse_cgroup_events(b"populated 1\nfrozen 0\n") is False
    assert isinstance(parse_cgroup_events(b"populated 1\n"), Missing)
    assert [parse_freezer_state(each) for each in (b"FROZEN\n", b"THAWED\n")] == [True, False]
    assert isinstance(parse_freezer_state(b"cold\n"), Missing)
    assert isinstance(parse_state(b"Name:\tx\n"), Missing)


def read(**files: str) -> ProgramFacts:
    machine = with_counters(roce_host()).with_device(0, held=(Held("ctx", 1, 4711),))
    status = "Name:\tserver\nState:\tS (sleeping)\nTgid:\t4711\n"
    more = {TCP: HEAD, "/proc/4711/status": status, **files}
    return read_programs(machine.change(files=more).host(), 1e12)


GROUP = "/proc/4711/cgroup"


@pytest.mark.parametrize(
    ("files", "state", "frozen"),
    [
        ({GROUP: "0::/\n"}, "S", False),
        ({GROUP: "0::/job7\n", "/sys/fs/cgroup/job7/cgroup.events": "frozen 1\n"}, "S", True),
        ({GROUP: "0::/job7\n", "/sys/fs/cgroup/job7/cgroup.events": "frozen 0\n"}, "S", False),
        (
            {
                GROUP: "4:freezer:/job7\n0::/job7\n",
                "/sys/fs/cgroup/freezer/job7/freezer.state": "FROZEN\n",
            },
            "S",
            True,
        ),
        (
            {
                GROUP: "0::/\n",
                "/proc/4711/status": "Name:\tserver\nState:\tT (stopped)\nTgid:\t4711\n",
            },
            "T",
            False,
        ),
    ],
    ids=["of the root", "frozen", "not frozen", "frozen, version 1", "stopped"],
)
def test_a_process_that_has_a_device_open_runs_or_not(
    files: dict[str, str], state: str, frozen: bool
) -> None:
    found = read(**files)
    assert found.holders == (RdmaProgram("mlx5_0", 4711, "server", state, frozen),)
    assert found.holders[0].is_still is (state == "T" or frozen)


def test_what_could_not_be_looked_at_is_missing() -> None:
    found = read(**{GROUP: "0::/../job7\n"})
    assert not isinstance(found.holders, Missing)
    assert isinstance(found.holders[0].frozen, Missing)
    assert not found.holders[0].is_still


def test_a_record_from_before_has_no_sockets() -> None:
    found = read_programs(roce_host().host(), 1e12)
    assert isinstance(found.listeners, Missing)
    assert isinstance(found.untaken, Missing)


@given(st.binary(max_size=300))
def test_any_bytes_are_sockets_or_missing(raw: bytes) -> None:
    assert isinstance(parse_tcp(raw), tuple | Missing)
    assert isinstance(parse_tcp(HEAD.encode() + raw), tuple | Missing)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (COUNTERS.format(6), 6),
        (COUNTERS.format(0), 0),
        (COUNTERS.format(6).replace("OutRsts InCsumErrors", "OutRsts OutSegs"), Why.UNSUPPORTED),
        (COUNTERS.format("x"), Why.MALFORMED),
        (COUNTERS.format(""), Why.MALFORMED),
        ("Udp: InDatagrams InCsumErrors\nUdp: 4 77\n", Why.MALFORMED),
        ("", Why.MALFORMED),
    ],
)
def test_segments_with_wrong_checksums_are_those_of_tcp(text: str, expected: int | Why) -> None:
    found = parse_wrong_checksums(text.encode())
    assert (found.why if isinstance(found, Missing) else found) == expected


@given(st.binary())
def test_any_bytes_are_counters_of_tcp_or_missing(raw: bytes) -> None:
    assert isinstance(parse_wrong_checksums(raw), int | Missing)
