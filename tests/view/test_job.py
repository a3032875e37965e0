"""What a job moved, and what of it may be claimed: a healthy base plus one change."""

from dataclasses import replace
from typing import Any

import pytest

from lab.machine import Machine
from rdmadiag.facts import Address, Missing, NetDev, NetDevFacts, Why
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import KernelQpType, NetnsMode, QpState
from rdmadiag.facts.job import (
    AskedJob,
    Extent,
    JobFacts,
    JobProcess,
    JobSample,
    PortTraffic,
    TcpSocket,
    TcpState,
    TrafficUnit,
)
from rdmadiag.facts.libraries import MappedLibrary
from rdmadiag.facts.resources import DeviceResources, Held, Owner, QueuePair, ResourceFacts
from rdmadiag.view.job import (
    Bound,
    ConnectedPair,
    JobView,
    foreign,
    job_view,
    narrowed,
    ports_of,
    sampled,
)
from rdmadiag.view.job_tcp import TcpPath
from rdmadiag.view.reconcile import devices

NETNS = "net:[4026531840]"
OTHER = "net:[4026532999]"
LATE = Missing(Why.TIMEOUT, "late")
UNKNOWN = Missing(Why.ABSENT, "none")
MINE, OTHERS, KERNEL, NOBODY = (
    Owner(4711, None),
    Owner(9, None),
    Owner(None, "ib_core"),
    Owner(None, None),
)
ABSENT = Missing(Why.ABSENT, "no RDMA device is registered")


def process(**changes: Any) -> JobProcess:
    made = JobProcess(
        pid=4711,
        command="python3",
        environment={},
        libraries=(
            MappedLibrary("ibverbs", "/usr/lib/libibverbs.so.1.14.50.0", "1.14.50.0"),
            MappedLibrary("nccl", "/usr/lib/libnccl.so.2.27.3", "2.27.3"),
        ),
        nodes=("uverbs0",),
        netns=NETNS,
    )
    return replace(made, **changes)


FACTS = JobFacts(AskedJob(4711, Extent.PROCESS), (process(),), NETNS, None)


def pair(number: int, owner: Owner = MINE, **changes: Any) -> QueuePair:
    made = QueuePair(number, 5000, 1, KernelQpType.RC, QpState.RTS, owner)
    return replace(made, **changes)


def held(*pairs: QueuePair, **changes: Any) -> ResourceFacts:
    """Of mlx5_0; mlx5_1 has what manages it alone."""
    own = pair(1, KERNEL, type=KernelQpType.GSI, peer=UNKNOWN)
    rows = {"ctx": (Held(MINE, 1),)}
    first = DeviceResources(0, "mlx5_0", {}, (own, *pairs), rows)
    second = DeviceResources(1, "mlx5_1", {}, (own,), {})
    made = ResourceFacts((first, second), {4711: "python3"}, True)
    return replace(made, **changes)


def socket(inode: int, sent: int | Missing, received: int | Missing, **changes: Any) -> TcpSocket:
    made = TcpSocket(
        *(inode, TcpState.ESTABLISHED, "192.0.2.1", 40112, "192.0.2.2", 5001, sent, received)
    )
    return replace(made, **changes)


def traffic(sent: int | Missing, received: int | Missing, **changes: Any) -> PortTraffic:
    made = PortTraffic("mlx5_0", 1, TrafficUnit.BYTES, sent, received, "counters/port_xmit_data")
    return replace(made, **changes)


def sample(seconds: float, *sockets: TcpSocket, ports: tuple[PortTraffic, ...]) -> JobSample:
    return JobSample(seconds, sockets, {}, ports)


BEFORE = sample(10.0, socket(1, 1000, 0), ports=(traffic(5000, 0),))
AFTER = sample(12.0, socket(1, 1900, 100), ports=(traffic(8000, 6000),))
NETDEVS = NetDevFacts(
    tuple(
        NetDev(
            *(name, index, True, "up", True, 0, 1500, "", UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN),
            (Address(address, 24, "global"),),
        )
        for index, (name, address) in enumerate([("lo", "127.0.0.1"), ("eth0", "192.0.2.1")], 1)
    )
)
QUEUE_PAIRS = (pair(100), pair(101))


@pytest.fixture(scope="module")
def evidence(roce: Machine) -> Evidence:
    return roce.evidence()


def view(
    evidence: Evidence,
    facts: JobFacts = FACTS,
    resources: ResourceFacts | Missing | None = None,
    before: JobSample | Missing = BEFORE,
    after: JobSample | Missing | None = AFTER,
    netdevs: NetDevFacts | Missing = NETDEVS,
) -> JobView:
    found = held(*QUEUE_PAIRS) if resources is None else resources
    return job_view(facts, found, devices(evidence), evidence, netdevs, before, after)


def why(value: object) -> Why:
    assert isinstance(value, Missing), value
    return value.why


def test_a_job_alone_on_its_port_has_a_share(evidence: Evidence) -> None:
    found = view(evidence)
    transport = found.transport
    assert transport.began == 10.0
    assert (transport.seconds, transport.rdma_bytes, transport.tcp_bytes) == (2.0, 9000, 1000)
    assert (transport.rdma_bound, transport.share_rdma) == (Bound.COUNTED, 0.9)
    assert (found.queue_pairs, found.states) == (2, {"rts": 2})
    (port,) = found.ports
    assert (port.device, port.port, port.state, port.others) == ("mlx5_0", 1, "active", 0)
    assert [(row.type, row.state, row.count) for row in port.queue_pairs] == [("rc", "rts", 2)]
    assert (port.route_gid_index, port.route_gid) == (3, "::ffff:192.0.2.1")
    assert [(each.stack, each.index) for each in port.picks] == [("nccl", 3)]
    assert found.unused == ("mlx5_1/1",)
    assert found.tcp == (TcpPath("eth0", False, 1, 1000, 2000),)
    assert found.opened == ("mlx5_0", "uverbs0")


def test_connected_queue_pairs_are_listed_with_both_numbers(evidence: Evidence) -> None:
    pairs = (
        pair(100, peer=700),
        pair(101, peer=701, state=QpState.ERR),
        pair(102, peer=0),
        pair(103, state=QpState.INIT),
        pair(104, peer=UNKNOWN),
        pair(105, OTHERS),
    )
    found = view(evidence, resources=held(*pairs)).connected
    assert found == (
        ConnectedPair("mlx5_0", 100, 700, "rts"),
        ConnectedPair("mlx5_0", 101, 701, "err"),
    )
    assert view(evidence, resources=LATE).connected == LATE


@pytest.mark.parametrize(
    "others",
    [
        (pair(200, OTHERS),),
        (pair(200, OTHERS, port=UNKNOWN, state=QpState.RESET),),
        (pair(200, Owner(None, "nvme_rdma")),),
        (pair(200, NOBODY),),
    ],
    ids=["another process", "one that has no port yet", "a kernel module", "nobody that is seen"],
)
def test_with_others_on_the_port_a_share_is_not_claimed(
    evidence: Evidence, others: tuple[QueuePair, ...]
) -> None:
    found = view(evidence, resources=held(*QUEUE_PAIRS, *others)).transport
    assert found.rdma_bound is Bound.AT_MOST
    assert why(found.share_rdma) is Why.UNSUPPORTED
    assert found.share_rdma_at_most == 0.9


def test_others_on_another_port_do_not_count(evidence: Evidence) -> None:
    resources = held(*QUEUE_PAIRS, pair(200, OTHERS, port=2))
    assert view(evidence, resources=resources).transport.share_rdma == 0.9


@pytest.mark.parametrize("initial", [False, Missing(Why.DENIED, "EACCES")])
def test_from_another_pid_namespace_others_cannot_be_excluded(
    evidence: Evidence, initial: bool | Missing
) -> None:
    found = view(evidence, resources=held(*QUEUE_PAIRS, initial_pidns=initial))
    assert found.transport.rdma_bound is Bound.AT_MOST
    assert why(found.ports[0].others) is Why.DENIED


def test_packets_are_taken_as_full_and_said_to_be_an_estimate(evidence: Evidence) -> None:
    packets = {"unit": TrafficUnit.PACKETS, "source": "hw_counters/sent_pkts", "packet_bytes": 1024}
    before = sample(10.0, ports=(traffic(0, 0, **packets),))
    after = sample(11.0, ports=(traffic(64, 1, **packets),))
    found = view(evidence, before=before, after=after).transport
    assert (found.rdma_bytes, found.rdma_bound) == (65 * 1024, Bound.ESTIMATE)
    sizeless = replace(after, ports=(traffic(64, 1, **packets | {"packet_bytes": UNKNOWN}),))
    assert view(evidence, before=before, after=sizeless).transport.rdma_bytes == UNKNOWN


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (traffic(LATE, 0), traffic(1, 1)),
        (traffic(1, 1), traffic(1, LATE)),
        (traffic(9, 0), traffic(8, 0)),
        (traffic(1, 1, port=2), traffic(2, 2)),
        (traffic(1, 1, source=""), traffic(2, 2)),
    ],
    ids=["the first is late", "the second is", "it fell", "it was read once", "another counter"],
)
def test_a_port_whose_counters_are_not_both_there_moved_an_unknown_number(
    evidence: Evidence, before: PortTraffic, after: PortTraffic
) -> None:
    found = view(
        evidence, before=replace(BEFORE, ports=(before,)), after=replace(AFTER, ports=(after,))
    )
    assert isinstance(found.transport.rdma_bytes, Missing)
    assert isinstance(found.transport.share_rdma, Missing)


def test_one_sample_compares_nothing_and_knows_what_connections_moved_since(
    evidence: Evidence,
) -> None:
    found = view(evidence, after=None)
    assert why(found.transport.seconds) is Why.NOT_COLLECTED
    assert why(found.transport.rdma_bytes) is Why.NOT_COLLECTED
    assert found.tcp == (
        TcpPath(
            "eth0", False, 1, Missing(Why.NOT_COLLECTED, "one sample: nothing is compared"), 1000
        ),
    )


@pytest.mark.parametrize("place", ["before", "after"])
def test_a_sample_that_failed_is_the_reason(evidence: Evidence, place: str) -> None:
    found = view(evidence, **{place: LATE})  # type: ignore[arg-type]
    assert found.transport.rdma_bytes == LATE
    assert isinstance(found.transport.tcp_bytes, Missing)
    assert isinstance(found.transport.seconds, Missing)


# --- TCP ------------------------------------------------------------------------------------


def test_what_stays_on_the_host_is_not_in_the_share(evidence: Evidence) -> None:
    local = [
        socket(2, 5000, 5000, local="127.0.0.1", remote="127.0.0.1"),
        socket(3, 1, 1, local="192.0.2.1", remote="192.0.2.1"),
        socket(4, 1, 1, local="::1", remote="::1"),
    ]
    found = view(evidence, after=replace(AFTER, sockets=(*AFTER.sockets, *local)))  # type: ignore[misc]
    assert found.transport.tcp_bytes == 1000
    assert found.tcp == (
        TcpPath("eth0", False, 1, 1000, 2000),
        TcpPath("lo", True, 3, 10004, 10004),
    )


def test_a_connection_that_is_new_moved_all_that_it_did(evidence: Evidence) -> None:
    after = replace(AFTER, sockets=(socket(7, 500, 20),))
    assert view(evidence, after=after).transport.tcp_bytes == 520


@pytest.mark.parametrize(
    "after",
    [
        replace(AFTER, sockets=(socket(1, LATE, 0),)),
        replace(AFTER, sockets=(socket(1, 0, LATE),)),
        replace(AFTER, sockets=LATE),
        replace(AFTER, unread={4712: LATE}),
    ],
    ids=["sent", "received", "all", "those of one process"],
)
def test_connections_of_unknown_bytes_leave_tcp_and_the_share_unknown(
    evidence: Evidence, after: JobSample
) -> None:
    found = view(evidence, after=after).transport
    assert isinstance(found.tcp_bytes, Missing)
    assert isinstance(found.share_rdma, Missing)
    assert found.rdma_bytes == 9000


def test_a_first_sample_without_connections_leaves_the_interval_unknown(evidence: Evidence) -> None:
    found = view(evidence, before=replace(BEFORE, sockets=LATE))
    assert why(found.transport.tcp_bytes) is Why.NOT_COLLECTED


def test_a_netdev_that_is_not_known_is_said_to_be(evidence: Evidence) -> None:
    (path,) = view(evidence, netdevs=LATE).tcp  # type: ignore[misc]
    assert path.netdev == LATE
    moved = replace(AFTER, sockets=(socket(1, 1900, 100, local="203.0.113.7"),))
    (path,) = view(evidence, after=moved).tcp  # type: ignore[misc]
    assert why(path.netdev) is Why.ABSENT


def test_nothing_moved_is_no_share(evidence: Evidence) -> None:
    found = view(evidence, after=replace(BEFORE, seconds=11.0)).transport
    assert (found.rdma_bytes, found.tcp_bytes, why(found.share_rdma)) == (0, 0, Why.ABSENT)


# --- queue pairs that are not seen ----------------------------------------------------------


def test_a_host_without_a_device_has_no_queue_pair_for_certain(evidence: Evidence) -> None:
    facts = replace(FACTS, processes=(process(nodes=()),))
    found = view(evidence, facts, ABSENT)
    assert (found.queue_pairs, found.transport.rdma_bytes) == (0, 0)
    assert found.transport.share_rdma == 0.0


@pytest.mark.parametrize(
    ("facts", "resources"),
    [
        (FACTS, LATE),
        (replace(FACTS, processes=(process(netns=OTHER),)), ABSENT),
        (FACTS, held(pair(200, NOBODY))),
        (
            FACTS,
            ResourceFacts((DeviceResources(0, "mlx5_0", {}, LATE, {}),), {}, True),
        ),
    ],
    ids=[
        "RDMA netlink is late",
        "no device here, and the job is elsewhere",
        "one that nobody is named of",
        "the dump of a device failed",
    ],
)
def test_less_evidence_is_never_no_queue_pair(
    evidence: Evidence, facts: JobFacts, resources: ResourceFacts | Missing
) -> None:
    found = view(evidence, facts, resources)
    assert isinstance(found.queue_pairs, Missing)
    assert isinstance(found.transport.rdma_bytes, Missing)


def test_in_another_network_namespace_devices_may_be_hidden_but_in_the_shared_mode(
    evidence: Evidence,
) -> None:
    facts = replace(FACTS, processes=(process(netns=OTHER, nodes=()),))
    without = held(
        devices=tuple(replace(each, held={}) for each in held().devices),
    )
    nldev = evidence.nldev
    assert not isinstance(nldev, Missing)
    for mode, expected in ((NetnsMode.SHARED, 0), (NetnsMode.EXCLUSIVE, None), (LATE, None)):
        seen = replace(evidence, nldev=replace(nldev, netns_mode=mode))
        count = view(seen, facts, without).queue_pairs
        assert (None if isinstance(count, Missing) else count) == expected


def test_a_device_that_is_open_without_a_queue_pair_in_the_list_may_have_some(
    evidence: Evidence,
) -> None:
    found = view(evidence, resources=held())
    assert found.queue_pairs == 0
    assert isinstance(found.transport.rdma_bytes, Missing)
    assert "DevX" in found.transport.rdma_bytes.detail


def test_a_process_that_may_not_be_looked_into_is_known_by_what_netlink_counts(
    evidence: Evidence,
) -> None:
    facts = replace(FACTS, processes=(process(nodes=LATE),))
    assert view(evidence, facts).opened == ("mlx5_0",)
    assert view(evidence, facts, LATE).opened == LATE
    none = held(devices=tuple(replace(each, held={}) for each in held().devices))
    assert view(evidence, facts, none).opened == ()


@pytest.mark.parametrize(
    ("state", "expected"), [(QpState.INIT, 0), (QpState.RTS, None)], ids=["init", "rts"]
)
def test_queue_pairs_without_a_port_moved_nothing_before_they_are_connected(
    evidence: Evidence, state: QpState, expected: int | None
) -> None:
    resources = held(pair(100, port=UNKNOWN, state=state))
    found = view(evidence, resources=resources).transport.rdma_bytes
    assert (None if isinstance(found, Missing) else found) == expected


# --- what to look at ------------------------------------------------------------------------


def test_a_sample_looks_at_the_jobs_processes_and_ports() -> None:
    resources = held(*QUEUE_PAIRS, pair(200, OTHERS, port=2))
    assert ports_of(FACTS, resources) == (("mlx5_0", 1),)
    wanted = sampled(FACTS, resources)
    assert (wanted.pids, wanted.ports, wanted.foreign) == ((4711,), (("mlx5_0", 1),), None)
    assert ports_of(FACTS, LATE) == ()


def test_a_namespace_is_another_one_where_both_are_known() -> None:
    elsewhere = replace(FACTS, processes=(process(), process(pid=4712, netns=OTHER)))
    assert foreign(elsewhere) == 4712
    assert foreign(replace(elsewhere, netns=LATE)) is None
    assert foreign(replace(FACTS, processes=(process(netns=LATE),))) is None


def test_ports_of_no_interest_are_left_out_and_the_bytes_stay(evidence: Evidence) -> None:
    whole = view(evidence)
    found = narrowed(whole, {"mlx5_1/1"})
    assert (found.ports, found.unused) == ((), ("mlx5_1/1",))
    assert found.transport == whole.transport


def test_a_port_that_no_witness_shows_is_still_a_port(evidence: Evidence) -> None:
    resources = held(pair(100, port=7))
    (port,) = view(evidence, resources=resources).ports
    assert isinstance(port.state, Missing)
    assert port.picks == ()
    assert isinstance(port.bytes, Missing), "its counters were not read"
