"""Whether a job is on RDMA as it ought to be: one answer for each state of the evidence."""

from dataclasses import replace
from typing import Any

import pytest

from lab.machine import Machine
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import PortState
from rdmadiag.facts.job import AskedJob, Extent, JobFacts, JobProcess
from rdmadiag.facts.libraries import MappedLibrary
from rdmadiag.preflight.judge_job import (
    Because,
    CauseKind,
    JobReason,
    JobVerdict,
    because,
    bytes_text,
    judge,
    judge_both,
    percent,
)
from rdmadiag.preflight.verdict import Status
from rdmadiag.view.job import Bound, ConnectedPair, JobPort, JobView, Transport
from rdmadiag.view.job_peer import BothEnds, JobPeer
from rdmadiag.view.job_tcp import TcpPath
from rdmadiag.view.reconcile import DeviceView, devices

LATE = Missing(Why.TIMEOUT, "the dump is late")
MANY = 10**9
NO = Missing(Why.ABSENT, "none")
NCCL = MappedLibrary("nccl", "/usr/lib/libnccl.so.2.27.3", "2.27.3")
UCX = MappedLibrary("ucp", "/usr/lib/libucp.so.0.0.0", NO)
VERBS = MappedLibrary("ibverbs", "/usr/lib/libibverbs.so.1.14.50.0", "1.14.50.0")


def transport(rdma: int | Missing, tcp: int | Missing, bound: Bound = Bound.COUNTED) -> Transport:
    share: float | Missing = LATE
    if isinstance(rdma, int) and isinstance(tcp, int):
        share = rdma / (rdma + tcp) if rdma + tcp else NO
    claimed = share if bound is not Bound.AT_MOST else LATE
    return Transport(10.0, 1.0, rdma, bound, tcp, claimed, share)


def path(netdev: str = "eth0", count: int = 3, moved: int | Missing = 1000) -> TcpPath:
    return TcpPath(netdev, False, count, moved, moved)


PORT = JobPort("mlx5_0", 1, "active", (), 0, MANY, Bound.COUNTED, "", 3, "::1", ())
HEALTHY = JobView(
    transport=transport(MANY, 1000),
    ports=(PORT,),
    unused=(),
    tcp=(path(),),
    queue_pairs=16,
    states={"rts": 16},
    opened=("mlx5_0",),
    hidden=0,
)
WITHOUT = replace(
    HEALTHY,
    transport=transport(0, MANY),
    ports=(),
    tcp=(path(moved=MANY),),
    queue_pairs=0,
    states={},
    opened=(),
)


def process(**changes: Any) -> JobProcess:
    return replace(
        JobProcess(4711, "python3", {}, (VERBS, NCCL), ("uverbs0",), "net:[1]"), **changes
    )


def job(*processes: JobProcess) -> JobFacts:
    return JobFacts(AskedJob(4711, Extent.PROCESS), processes or (process(),), "net:[1]", None)


@pytest.mark.parametrize(
    ("view", "status", "reason", "answer"),
    [
        (
            HEALTHY,
            *(Status.OK, JobReason.ON_RDMA),
            "more than 99 % of its bytes go by RDMA over mlx5_0/1",
        ),
        (
            replace(HEALTHY, transport=transport(MANY, MANY // 10, Bound.ESTIMATE)),
            *(Status.OK, JobReason.ON_RDMA),
            "about 91 % of its bytes go by RDMA over mlx5_0/1",
        ),
        (
            replace(HEALTHY, transport=transport(MANY, 24 * MANY)),
            *(Status.WARN, JobReason.MIXED),
            "96 % of its bytes go by TCP over eth0",
        ),
        (WITHOUT, Status.WARN, JobReason.TCP, "all its bytes go by TCP over eth0"),
        (
            replace(WITHOUT, queue_pairs=LATE),
            *(Status.UNKNOWN, JobReason.RDMA_UNKNOWN),
            "cannot tell whether it is on RDMA: the dump is late; 1 GB went by TCP over eth0",
        ),
        (
            replace(WITHOUT, transport=transport(LATE, 0)),
            *(Status.UNKNOWN, JobReason.RDMA_UNKNOWN),
            "cannot tell: the dump is late",
        ),
        (
            replace(WITHOUT, tcp=LATE),
            *(Status.UNKNOWN, JobReason.TCP_UNKNOWN),
            "it has no queue pair, and its TCP connections are not known: the dump is late",
        ),
        (
            replace(WITHOUT, tcp=()),
            *(Status.UNKNOWN, JobReason.SILENT),
            "it has no queue pair and no TCP connection: it may not have begun",
        ),
        (
            replace(WITHOUT, tcp=(replace(path(), within_host=True),)),
            *(Status.UNKNOWN, JobReason.SILENT),
            "it has no queue pair, and TCP within this host alone: it may not have begun",
        ),
        (
            replace(WITHOUT, tcp=(path(moved=LATE),)),
            *(Status.WARN, JobReason.TCP),
            (
                "it has no queue pair, and 3 TCP connections over eth0 of unknown bytes: "
                "the dump is late"
            ),
        ),
        (
            replace(WITHOUT, tcp=(path(count=1, moved=900),), transport=transport(0, 900)),
            *(Status.UNKNOWN, JobReason.IDLE),
            (
                "it has no queue pair, and 1 TCP connection that moved 900 B since they were "
                "opened: it may not have begun"
            ),
        ),
        (
            replace(HEALTHY, states={"err": 2, "rts": 13, "sqe": 1}),
            *(Status.CRITICAL, JobReason.QUEUE_PAIRS_IN_ERROR),
            "3 of its 16 queue pairs are in the error state; 1 kB went by TCP over eth0",
        ),
        (
            replace(HEALTHY, states={"init": 15, "reset": 1}),
            *(Status.WARN, JobReason.QUEUE_PAIRS_NOT_READY),
            "none of its 16 queue pairs is connected: 15 init, 1 reset; 1 kB went by TCP over eth0",
        ),
        (
            replace(HEALTHY, transport=replace(transport(NO, NO), seconds=LATE)),
            *(Status.UNKNOWN, JobReason.ONE_SAMPLE),
            "it has 16 queue pairs on mlx5_0/1; what they carry was not compared over time",
        ),
        (
            replace(HEALTHY, transport=transport(MANY, LATE)),
            *(Status.UNKNOWN, JobReason.TCP_UNKNOWN),
            (
                "it has 16 queue pairs on mlx5_0/1, by which it moved 1 GB; its bytes by TCP are "
                "not known: the dump is late"
            ),
        ),
        (
            replace(HEALTHY, transport=transport(LATE, LATE)),
            *(Status.UNKNOWN, JobReason.TCP_UNKNOWN),
            "it has 16 queue pairs on mlx5_0/1; its bytes by TCP are not known: the dump is late",
        ),
        (
            replace(HEALTHY, transport=transport(LATE, 1000)),
            *(Status.OK, JobReason.NO_TCP),
            "it has 16 queue pairs on mlx5_0/1, and no traffic by TCP",
        ),
        (
            replace(HEALTHY, transport=transport(LATE, MANY)),
            *(Status.UNKNOWN, JobReason.RDMA_UNKNOWN),
            (
                "it has 16 queue pairs on mlx5_0/1, whose bytes are not known (the dump is late), "
                "beside 1 GB by TCP"
            ),
        ),
        (
            replace(HEALTHY, transport=transport(0, 0)),
            *(Status.UNKNOWN, JobReason.IDLE),
            "it has 16 queue pairs on mlx5_0/1, and moved nothing in the interval",
        ),
        (
            replace(HEALTHY, transport=transport(MANY, 0, Bound.AT_MOST)),
            *(Status.OK, JobReason.NO_TCP),
            "it has 16 queue pairs on mlx5_0/1, which others use too, and no traffic by TCP",
        ),
        (
            replace(HEALTHY, transport=transport(MANY, MANY, Bound.AT_MOST)),
            *(Status.WARN, JobReason.MIXED),
            "at least 50 % of its bytes go by TCP over eth0",
        ),
        (
            replace(HEALTHY, transport=transport(MANY, MANY // 100, Bound.AT_MOST)),
            *(Status.UNKNOWN, JobReason.SHARED_PORT),
            (
                "it has 16 queue pairs on mlx5_0/1, which others use too: at most 99 % of its "
                "bytes go by RDMA"
            ),
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_each_state_of_the_evidence_has_its_answer(
    view: JobView, status: Status, reason: JobReason, answer: str
) -> None:
    found = judge(job(), view, ())
    assert (found.status, found.reasons[0], found.answer) == (status, reason, answer)


def test_missing_evidence_never_says_that_there_is_no_rdma() -> None:
    for view in (HEALTHY, WITHOUT):
        full = judge(job(), view, ()).status
        for change in (
            {"queue_pairs": LATE},
            {"tcp": LATE, "transport": replace(view.transport, tcp_bytes=LATE, share_rdma=LATE)},
            {"transport": replace(view.transport, rdma_bytes=LATE, share_rdma=LATE)},
        ):
            found = judge(job(), replace(view, **change), ())  # type: ignore[arg-type]
            assert found.status in (full, Status.UNKNOWN)
            if view is HEALTHY:
                assert found.status is not Status.WARN


def test_netdevs_and_ports_are_named_the_one_with_most_first_and_few_of_many() -> None:
    paths = (path("eth1", moved=1), path("eth0", moved=5 * MANY), path("eth2", moved=2))
    ports = tuple(replace(PORT, port=number) for number in range(1, 7))
    view = replace(HEALTHY, tcp=paths, ports=ports, transport=transport(1, 5 * MANY))
    assert judge(job(), view, ()).answer.endswith("by TCP over eth0, eth2, eth1")
    ready = replace(view, transport=transport(MANY, 0))
    assert judge(job(), ready, ()).answer.endswith(
        "mlx5_0/1, mlx5_0/2, mlx5_0/3, mlx5_0/4 and 2 more"
    )


def test_the_cause_is_in_the_answer_and_one_that_is_not_certain_says_perhaps() -> None:
    cause = Because(CauseKind.VARIABLE, "UCX_TLS=tcp: no rc", "UCX_TLS=tcp", True, (1,), ())
    answer = "all its bytes go by TCP over eth0, {}because UCX_TLS=tcp"
    assert judge(job(), WITHOUT, [cause]).answer == answer.format("")
    unsure = replace(cause, certain=False)
    assert judge(job(), WITHOUT, [unsure]).answer == answer.format("perhaps ")
    assert "because" not in judge(job(), HEALTHY, [cause]).answer


def test_what_shows_more_is_said_for_the_same_processes() -> None:
    children = replace(job(), asked=AskedJob(4711, Extent.CHILDREN))
    idle = replace(HEALTHY, transport=transport(0, 0))
    assert judge(children, idle, ()).next == ("rdmadiag job 4711 --children --interval 10",)
    denied = replace(WITHOUT, tcp=Missing(Why.DENIED, "EACCES"))
    (line,) = judge(job(), denied, ()).next
    assert line.startswith("sudo rdmadiag job 4711   # ")
    assert judge(job(process(environment=Missing(Why.DENIED))), HEALTHY, ()).next == ()
    (line,) = judge(job(), WITHOUT, ()).next
    assert line.startswith("rdmadiag preflight --env-from 4711   # ")


# --- causes ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def evidence(roce: Machine) -> Evidence:
    return roce.evidence()


@pytest.fixture(scope="module")
def views(evidence: Evidence) -> tuple[DeviceView, ...]:
    return devices(evidence)


def causes(
    facts: JobFacts, view: JobView, views: tuple[DeviceView, ...]
) -> list[tuple[str, str, bool]]:
    return [(each.kind, each.short, each.certain) for each in because(facts, view, views)]


@pytest.mark.parametrize(
    ("name", "value", "library", "certain"),
    [
        ("UCX_TLS", "tcp", UCX, True),
        ("UCX_TLS", "tcp", NCCL, False),
        ("NCCL_IB_DISABLE", "1", NCCL, True),
        ("NCCL_NET", "Socket", NCCL, True),
        ("UCX_TLS", "tcp,new", UCX, False),
    ],
)
def test_a_variable_that_keeps_rdma_out_is_a_cause_where_its_stack_is_mapped(
    name: str, value: str, library: MappedLibrary, certain: bool, views: tuple[DeviceView, ...]
) -> None:
    facts = job(process(environment={name: value}, libraries=(VERBS, library)))
    assert causes(facts, HEALTHY, views) == [("variable", f"{name}={value}", certain)]


@pytest.mark.parametrize(
    ("value", "found"),
    [("mlx5_9", True), ("^mlx5_0,mlx5_1", True), ("mlx5_0", False), ("^mlx5_1", False)],
)
def test_a_list_that_leaves_out_every_active_port_is_one(
    value: str, found: bool, views: tuple[DeviceView, ...]
) -> None:
    facts = job(process(environment={"NCCL_IB_HCA": value}))
    expected = [("device_list", f"NCCL_IB_HCA={value}", True)] if found else []
    assert causes(facts, HEALTHY, views) == expected


def test_a_value_of_several_processes_is_one_cause_and_names_them(
    views: tuple[DeviceView, ...],
) -> None:
    off = {"NCCL_IB_DISABLE": "1"}
    facts = job(
        process(environment=off),
        process(pid=4712, environment=off),
        process(pid=4713, environment=LATE),
        process(pid=4714),
    )
    (only,) = because(facts, HEALTHY, views)
    assert only.pids == (4711, 4712)


def test_without_a_device_or_an_active_port_that_is_the_cause(
    roce: Machine, views: tuple[DeviceView, ...]
) -> None:
    assert causes(job(), WITHOUT, ()) == [("no_device", "this host has no RDMA device", True)]
    unknown = replace(WITHOUT, transport=transport(LATE, MANY))
    assert causes(job(), unknown, ()) == []
    down = tuple(
        replace(
            each,
            ports=tuple(
                replace(port, sysfs=replace(port.sysfs, state=PortState.DOWN))
                for port in each.ports
                if port.sysfs
            ),
        )
        for each in views
    )
    assert causes(job(), WITHOUT, down)[0][0] == "no_active_port"


def test_a_process_that_maps_no_verbs_or_opens_no_device_says_why(
    views: tuple[DeviceView, ...],
) -> None:
    assert causes(job(process(libraries=(NCCL,))), WITHOUT, views) == [
        ("no_library", "it has mapped no libibverbs", True)
    ]
    assert causes(job(), WITHOUT, views) == [("not_opened", "it has opened no RDMA device", True)]
    assert causes(job(process(libraries=LATE)), replace(WITHOUT, opened=LATE), views) == []
    assert causes(job(process(libraries=())), HEALTHY, views) == [], "it has queue pairs"


def test_a_certain_cause_stands_before_one_that_is_not(views: tuple[DeviceView, ...]) -> None:
    facts = job(process(libraries=(), environment={"UCX_TLS": "tcp"}))
    assert [each[0] for each in causes(facts, WITHOUT, views)] == ["no_library", "variable"]


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        *((0.0, "0 %"), (0.001, "less than 1 %"), (0.96, "96 %")),
        *((0.999, "more than 99 %"), (1.0, "100 %")),
    ],
)
def test_a_share_is_never_rounded_to_all_or_to_nothing(share: float, expected: str) -> None:
    assert percent(share) == expected


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (1_250_000, "1.25 MB"), (10**12, "1e+03 GB")],
)
def test_bytes_have_a_unit(count: int, expected: str) -> None:
    assert bytes_text(count) == expected


# --- both parts ---------------------------------------------------------------------------------

OWN = JobVerdict(Status.OK, (JobReason.ON_RDMA,), "all of its bytes go by RDMA", ())
BOTH = JobPeer(16, (), 16, (), ())
RTS = ConnectedPair("mlx5_0", 100, 700, "rts")
BROKEN_THERE = BothEnds(RTS, ConnectedPair("mlx5_4", 700, 100, "err"))
BROKEN_HERE = BothEnds(replace(RTS, state="err"), ConnectedPair("mlx5_4", 700, 100, "rts"))
ALL_TCP = JobVerdict(Status.WARN, (JobReason.TCP,), "all its bytes go by TCP over eth0", ())
IN_ERROR = JobVerdict(
    *(Status.CRITICAL, (JobReason.QUEUE_PAIRS_IN_ERROR,), "1 of its 1 is in the error state", ())
)


@pytest.mark.parametrize(
    ("own", "there", "peer", "status", "reason", "answer"),
    [
        (OWN, OWN, BOTH, Status.OK, JobReason.ON_RDMA, OWN.answer),
        (
            *(OWN, OWN, replace(BOTH, halves=(BROKEN_THERE,)), Status.CRITICAL),
            JobReason.PEER_QUEUE_PAIRS_IN_ERROR,
            "at node2 the other ends of 1 of its 16 queue pairs are in the error state",
        ),
        (
            *(IN_ERROR, OWN, replace(BOTH, halves=(BROKEN_HERE,)), Status.CRITICAL),
            *(JobReason.QUEUE_PAIRS_IN_ERROR, IN_ERROR.answer),
        ),
        (
            *(OWN, ALL_TCP, BOTH, Status.WARN, JobReason.PEER),
            "at node2 all its bytes go by TCP over eth0",
        ),
        (ALL_TCP, OWN, BOTH, Status.WARN, JobReason.TCP, ALL_TCP.answer),
        (
            *(OWN, OWN, replace(BOTH, joined=0), Status.UNKNOWN, JobReason.NOT_JOINED),
            "all of its bytes go by RDMA, but none of its queue pairs leads to that job of node2",
        ),
        (
            *(OWN, OWN, replace(BOTH, joined=LATE), Status.UNKNOWN, JobReason.NOT_JOINED),
            f"{OWN.answer}; whether its queue pairs lead to node2 is not known: the dump is late",
        ),
        (
            *(OWN, OWN, replace(BOTH, joined=0, connected=0), Status.OK, JobReason.ON_RDMA),
            OWN.answer,
        ),
    ],
    ids=[
        "both well",
        "queue pairs broken there",
        "broken here goes first",
        "worse there",
        "worse here",
        "they lead to others",
        "it is not known where they lead",
        "datagrams alone, which lead nowhere",
    ],
)
def test_both_parts_of_a_job(
    own: JobVerdict,
    there: JobVerdict,
    peer: JobPeer,
    status: Status,
    reason: JobReason,
    answer: str,
) -> None:
    found = judge_both(own, there, peer, "node2")
    assert (found.status, found.reasons[0], found.answer) == (status, reason, answer)
