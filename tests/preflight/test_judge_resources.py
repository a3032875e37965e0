"""Who holds what, beside which limit: a healthy host and one change."""

from dataclasses import replace

import pytest

from lab import counted
from lab.counted import Held
from lab.hardware import but
from lab.mac import macs
from lab.machine import with_counters
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.cm import CmState
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import KernelQpType, QpState
from rdmadiag.facts.resources import KINDS
from rdmadiag.preflight.judge_resources import judge
from rdmadiag.preflight.rules.resources import RULES
from rdmadiag.preflight.thresholds import Thresholds
from rdmadiag.sources.ioreg import read_ioreg
from rdmadiag.sources.nldev import read_nldev
from rdmadiag.sources.resources import read_resources
from rdmadiag.sources.verbs import read_verbs
from rdmadiag.view.reconcile import devices
from rdmadiag.view.resource_usage import HolderKind

JOB = counted.job(4711)


def looked(machine, soon, thresholds=None, change=lambda facts: facts):
    host = machine.host()
    evidence = Evidence(nldev=read_nldev(host, soon), verbs=read_verbs(host, soon))
    facts = change(read_resources(host, soon))
    return judge(devices(evidence), facts, evidence, thresholds or Thresholds())


def said(verdict):
    return [(each.rule, each.severity.value) for each in verdict.findings]


@pytest.fixture
def host(roce):
    def made(*held, **changes):
        machine = with_counters(roce).change(commands={4711: "python3", 4712: "nccl"}, **changes)
        few = but("MT4125", max_qp=1024, max_mr=1024)
        return machine.with_device(0, held=(*counted.KERNEL_OWN, *held), answers=few)

    return made


def test_of_a_running_job_nothing_is_said(host, soon):
    (first, second), verdict = looked(host(*JOB), soon)
    assert (verdict.status, verdict.findings) == ("ok", ())
    assert [each.kind for each in first.uses] == list(KINDS)
    assert {each.kind: each.current for each in first.uses}["qp"] == 9
    assert {each.kind: (each.maximum, each.limit_from) for each in first.uses}["qp"] == (
        1024,
        "verbs",
    )
    assert isinstance({each.kind: each.maximum for each in first.uses}["cm_id"], Missing)
    job, kernel = first.holders
    assert (job.kind, job.pid, job.command) == (HolderKind.PROCESS, 4711, "python3")
    assert job.held == {"ctx": 1, "pd": 1, "cq": 2, "qp": 8, "mr": 4}
    assert job.memory_bytes == 4 << 30
    assert (kernel.kind, kernel.command) == (HolderKind.KERNEL, "ib_core")
    assert [each.command for each in second.holders] == ["ib_core"]


def test_queue_pairs_are_grouped_by_type_and_state(host, soon):
    (first, _), _ = looked(host(*JOB), soon)
    rows = [(row.type, row.state, row.count, row.command) for row in first.queue_pairs]
    assert rows == [
        (KernelQpType.RC, QpState.RTS, 8, "python3"),
        (KernelQpType.GSI, QpState.RTS, 1, "ib_core"),
    ]
    assert first.queue_pairs[0].numbers == tuple(range(100, 108))


PILES = {
    "four in ERR": (Held("qp", 4, 4712, state=QpState.ERR), "queue-pairs-in-error"),
    "three in ERR": (Held("qp", 3, 4712, state=QpState.ERR), None),
    "datagrams in ERR": (
        Held("qp", 4, 4712, state=QpState.ERR, type=KernelQpType.UD),
        "queue-pairs-in-error",
    ),
    "sixteen in RTR": (Held("qp", 16, 4712, state=QpState.RTR), "queue-pairs-stay-in-rtr"),
    "fifteen in RTR": (Held("qp", 15, 4712, state=QpState.RTR), None),
    "datagrams in RTR": (Held("qp", 16, 4712, state=QpState.RTR, type=KernelQpType.UD), None),
    "the kernel's own": (
        Held("qp", 20, kernel="ib_core", state=QpState.ERR, type=KernelQpType.GSI),
        None,
    ),
}


@pytest.mark.parametrize(("held", "rule"), PILES.values(), ids=PILES)
def test_a_pile_of_queue_pairs_is_said_with_its_holder(held, rule, host, soon):
    _, verdict = looked(host(*JOB, held), soon)
    assert said(verdict) == ([(rule, "warn")] if rule else [])
    for finding in verdict.findings:
        assert "nccl (4712)" in finding.summary
        assert any("4712" in line for line in finding.remedy)


def test_a_pile_is_one_holders(host, soon):
    """Three of two processes each are not six of one."""
    each = [Held("qp", 3, pid, state=QpState.ERR) for pid in (4711, 4712)]
    assert said(looked(host(*each), soon)[1]) == []
    assert (
        said(looked(host(*each), soon, Thresholds(error_queue_pairs=3))[1])
        == [("queue-pairs-in-error", "warn")] * 2
    )


@pytest.mark.parametrize(
    ("count", "expected"),
    [(900, []), (921, [("limit-reached", "warn")]), (1023, [("limit-reached", "critical")])],
)
def test_a_limit_that_is_near_is_said_with_the_largest_holder(count, expected, host, soon):
    """1024 are allowed; the kernel has one, and 0.9 of 1024 is 921.6."""
    _, verdict = looked(host(Held("qp", count, 4712)), soon)
    assert said(verdict) == expected
    for finding in verdict.findings:
        assert "nccl (4712)" in finding.summary


def test_a_holder_of_other_things_is_not_blamed_for_a_limit(host, soon):
    """Who has the memory regions could not be read; whoever has queue pairs is not to be killed."""

    def without_owners(facts):
        first = facts.devices[0]
        held = {**first.held, "mr": Missing(Why.UNSUPPORTED, "EOPNOTSUPP")}
        return replace(facts, devices=(replace(first, held=held), *facts.devices[1:]))

    held = (*JOB, Held("mr", 1024, 4712))
    (finding,) = looked(host(*held), soon, change=without_owners)[1].findings
    assert finding.rule == "limit-reached"
    assert "most by" not in finding.summary
    assert not any("kill" in line for line in finding.remedy)


def test_where_no_limit_is_known_none_is_said_to_be_far(host, soon):
    machine = host(*JOB).host()
    nldev, facts = read_nldev(machine, soon), read_resources(machine, soon)
    evidence = Evidence(nldev=nldev, verbs=Missing(Why.TIMEOUT, "ibv_query_device: late"))
    (first, _), verdict = judge(devices(evidence), facts, evidence)
    assert said(verdict) == [("limits-unknown", "unknown")] * 2
    assert "ibv_query_device: late" in verdict.findings[0].summary
    assert {each.kind: each.maximum for each in first.uses}["qp"] == evidence.verbs


def test_a_limit_of_the_kernels_comes_before_that_of_the_library(host, soon):
    def narrow(facts):
        first = facts.devices[0]
        counts = {**first.counts, "qp": replace(first.counts["qp"], maximum=9)}
        return replace(facts, devices=(replace(first, counts=counts), *facts.devices[1:]))

    (first, _), verdict = looked(host(*JOB), soon, change=narrow)
    assert said(verdict) == [("limit-reached", "critical")]
    assert {each.kind: each.limit_from for each in first.uses}["qp"] == "nldev"


def test_holders_that_may_not_be_named_are_hidden_and_counted(host, soon):
    (first, _), verdict = looked(host(*JOB, Held("qp", 2), Held("cq", 3, 5555)), soon)
    kinds = [(each.kind, each.pid) for each in first.holders]
    assert (HolderKind.HIDDEN, None) in kinds
    assert (HolderKind.PROCESS, 5555) in kinds
    assert said(verdict) == [("holders-hidden", "info")]
    assert "5 objects" in verdict.findings[0].summary
    assert verdict.status == "ok"


def test_another_pid_namespace_is_found(host, soon):
    _, verdict = looked(host(*JOB), soon, change=lambda f: replace(f, initial_pidns=False))
    assert said(verdict) == [("holders-hidden", "info")]


def test_what_could_not_be_dumped_is_unknown(host, soon):
    late = Missing(Why.TIMEOUT, "resources: late")
    (first, _), verdict = looked(host(*JOB), soon, change=lambda facts: late)
    assert said(verdict) == [("no-resources", "unknown")] * 2
    assert first.holders == late
    assert first.uses, "the counts of nldev's own reading are there still"


def test_one_kind_that_could_not_be_dumped_is_unknown_and_one_that_is_not_offered_is_plain(
    host, soon
):
    def lacking(why):
        def change(facts):
            first = facts.devices[0]
            held = {**first.held, "mr": Missing(why, "x")}
            return replace(facts, devices=(replace(first, held=held), *facts.devices[1:]))

        return change

    assert said(looked(host(*JOB), soon, change=lacking(Why.DENIED))[1]) == [
        ("no-resources", "unknown")
    ]
    assert said(looked(host(*JOB), soon, change=lacking(Why.UNSUPPORTED))[1]) == []


def test_without_a_device_nothing_is_known(roce, soon):
    _, verdict = looked(roce.change(devices=()), soon)
    assert said(verdict) == [("no-resources", "unknown")]


def test_a_mac_without_a_device_has_no_finding_on_linux():
    from rdmadiag.facts.evidence import LINUX_ONLY

    _, verdict = judge((), LINUX_ONLY, Evidence(sysfs=LINUX_ONLY, nldev=LINUX_ONLY))
    assert verdict.findings[0].summary == "no RDMA device"


@pytest.mark.parametrize(
    ("name", "rules"),
    [("mac-ready", []), ("mac-queue-pairs-exhausted", ["queue-pairs-exhausted"])],
)
def test_a_mac_is_judged_by_what_its_registry_counts(name, rules, soon):
    from rdmadiag.facts.evidence import LINUX_ONLY

    host = macs()[name][0].host()
    evidence = Evidence(
        sysfs=LINUX_ONLY,
        nldev=LINUX_ONLY,
        verbs=read_verbs(host, soon),
        ioreg=read_ioreg(host, soon),
    )
    usages, verdict = judge(devices(evidence), LINUX_ONLY, evidence)
    assert [each.rule for each in verdict.findings if each.severity == "critical"] == rules
    uses = {each.kind: each for each in usages[0].uses}
    assert uses["qp"].maximum == 10, "of 11 that are reported"
    if rules:
        assert uses["qp"].share == 1
        assert usages[0].holders


def test_the_codes_of_rules_are_distinct_and_say_what_they_mean():
    codes = [rule.code for rule in RULES]
    assert len(codes) == len(set(codes)) == 8


# --- ids of the connection manager -----------------------------------------------------------


def test_ids_whose_connection_has_ended_are_a_warning(host, soon):
    ended = {"pid": 4711, "cm_state": CmState.DISCONNECT}
    (usage, _), verdict = looked(host(Held("cm_id", 64, **ended)), soon)
    assert said(verdict) == [("connections-not-destroyed", "warn")]
    assert "kill 4711" in verdict.findings[0].remedy[1]
    assert [(each.state, each.count) for each in usage.cm_ids] == [(CmState.DISCONNECT, 64)]
    assert said(looked(host(Held("cm_id", 63, **ended)), soon)[1]) == []
    assert said(looked(host(Held("cm_id", 64, 4711)), soon)[1]) == []  # they are connected
    few = Thresholds(ended_connections=3)
    assert said(looked(host(Held("cm_id", 3, **ended)), soon, few)[1])


@pytest.mark.parametrize(
    ("count", "severity"), [(8, None), (9, "warn"), (10, "critical"), (20, "critical")]
)
def test_local_ports_that_are_nearly_used_up_are_said(count, severity, host, soon):
    def of_ten(facts):
        return replace(facts, local_ports=(40000, 40009))

    ids = Held("cm_id", count, 4711, local_port=40000)
    _, verdict = looked(host(ids), soon, change=of_ten)
    assert said(verdict) == ([("cm-ports-near-limit", severity)] if severity else [])


def test_ports_that_a_program_chose_itself_are_not_counted(host, soon):
    ids = Held("cm_id", 20, 4711, local_port=7000)
    _, verdict = looked(
        host(ids), soon, change=lambda facts: replace(facts, local_ports=(40000, 40009))
    )
    assert said(verdict) == []
