"""Tracked objects: who made them, in which state they are, and whom one may not see."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab import counted
from lab.counted import Held as Made
from lab.machine import with_counters
from lab.nldev_msg import decoded
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.ib import KernelQpType, QpState
from rdmadiag.facts.resources import Held, Owner
from rdmadiag.host import netlink
from rdmadiag.sources import resources
from rdmadiag.sources.nldev import parse_resources
from rdmadiag.sources.resources import read_resources

MADE = (
    *counted.KERNEL_OWN,
    *counted.job(4711, pairs=3),
    Made("qp", 2, 4712, state=QpState.ERR, first=200, type=KernelQpType.UD),
    Made("srq", 1, 4712),
    Made("cm_id", 5, 4712),
    Made("qp", 1),
)


GONE = "RDMA device 0 was deleted while it was being read"


@pytest.fixture
def host(roce, host_in_memory):
    machine = with_counters(roce).with_device(0, held=MADE).change(commands={4711: "python3"})
    return host_in_memory(machine.recording())


@pytest.fixture
def device(host, soon):
    return read_resources(host, soon).device("mlx5_0")


def test_queue_pairs_have_their_type_state_and_owner(device):
    rows = [
        (each.type, each.state, each.owner.pid, each.owner.kernel) for each in device.queue_pairs
    ]
    assert rows == [
        (KernelQpType.GSI, QpState.RTS, None, "ib_core"),
        *[(KernelQpType.RC, QpState.RTS, 4711, None)] * 3,
        *[(KernelQpType.UD, QpState.ERR, 4712, None)] * 2,
        (KernelQpType.RC, QpState.RTS, None, None),
    ]
    assert [each.number for each in device.queue_pairs][:4] == [1, 100, 101, 102]
    assert [each.peer for each in device.queue_pairs][1] == 5000
    assert device.queue_pairs[0].peer.why is Why.ABSENT, "a GSI queue pair has no peer"


def test_a_device_that_is_deleted_meanwhile_is_gone(host, soon):
    refused = Missing(Why.UNSUPPORTED, "netlink: EINVAL")
    for name in ("nldev-res-get-0", "nldev-res-qp-get-0", "nldev-get-0-again"):
        host.recording.refuse("netlink", name, refused)
    found = read_resources(host, soon).device("mlx5_0")
    assert found.counts == found.queue_pairs == Missing(Why.ABSENT, GONE)
    host.recording.refuse("netlink", "nldev-get-0-again", Missing(Why.NOT_COLLECTED))
    assert read_resources(host, soon).device("mlx5_0").counts == refused, "an older kernel"


def test_other_objects_are_counted_by_owner_with_their_memory(device):
    job, kernel = Owner(4711, None), Owner(None, "ib_core")
    assert device.held["mr"] == (Held(job, 4, 4 << 30),)
    assert device.held["cq"] == (Held(job, 2), Held(kernel, 1))
    assert device.held["cm_id"] == (Held(Owner(4712, None), 5),)
    assert device.held["ctx"] == (Held(job, 1),)
    assert set(device.held) == {"pd", "cq", "mr", "cm_id", "ctx", "srq"}


def test_processes_are_named_where_that_may_be_known(host, soon):
    facts = read_resources(host, soon)
    assert facts.commands[4711] == "python3"
    assert facts.commands[4712].why is Why.ABSENT
    assert facts.initial_pidns is True


def test_another_pid_namespace_is_found(host, soon):
    host.recording.links["/proc/self/ns/pid"] = "pid:[4026532001]"
    assert read_resources(host, soon).initial_pidns is False


def test_counts_are_those_that_pyroute2_reads(host, device):
    summary = decoded(host.recording.netlink["nldev-res-get-0"]).get_attr(
        "RDMA_NLDEV_ATTR_RES_SUMMARY"
    )
    theirs = {
        entry.get_attr("RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME"): entry.get_attr(
            "RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR"
        )
        for _, entry in summary["attrs"]
    }
    assert {name: count.current for name, count in device.counts.items()} == theirs
    assert device.counts["qp"].current == 7


def test_a_dump_that_is_refused_costs_no_other(host, soon):
    refused = Missing(Why.UNSUPPORTED, "netlink nldev-res-ctx-get-0: EOPNOTSUPP")
    host.recording.refuse("netlink", "nldev-res-ctx-get-0", refused)
    device = read_resources(host, soon).device("mlx5_0")
    assert device.held["ctx"] == refused
    assert len(device.queue_pairs) == 7


def test_a_dump_that_was_interrupted_is_asked_for_once_more(host, soon):
    whole = host.recording.netlink["nldev-res-qp-get-0"]
    torn = bytearray(whole)
    torn[6:8] = (netlink.NLM_F_MULTI | netlink.NLM_F_DUMP_INTR).to_bytes(2, "little")
    host.recording.netlink["nldev-res-qp-get-0"] = bytes(torn)
    host.recording.netlink["nldev-res-qp-get-0-again"] = whole
    assert len(read_resources(host, soon).device("mlx5_0").queue_pairs) == 7
    del host.recording.netlink["nldev-res-qp-get-0-again"]
    assert isinstance(read_resources(host, soon).device("mlx5_0").queue_pairs, Missing)


def test_without_a_device_netlink_is_not_opened(roce, host_in_memory, soon):
    host = host_in_memory(roce.change(devices=()).recording())
    assert read_resources(host, soon).why is Why.ABSENT
    assert not [each for each in host.asked if each[0] == "netlink"]


def test_a_netlink_that_refuses_is_the_reason(host, soon):
    refused = Missing(Why.DENIED, "EPERM")
    host.recording.refuse("netlink", "nldev-get", refused)
    assert read_resources(host, soon) == refused


def test_a_type_and_a_state_that_nobody_knows_are_malformed():
    entry = netlink.attribute(26, b"\x63") + netlink.attribute(27, b"\x63")
    reply = netlink.request(5130, 0, netlink.attribute(19, netlink.attribute(20, entry)))
    (pair,) = resources.parse_queue_pairs(reply)
    assert (pair.type.why, pair.state.why) == (Why.MALFORMED, Why.MALFORMED)


def test_a_pid_of_0_is_a_process_that_cannot_be_seen():
    entry = netlink.attribute(28, bytes(4))
    reply = netlink.request(5130, 0, netlink.attribute(19, netlink.attribute(20, entry)))
    assert resources.parse_queue_pairs(reply)[0].owner == Owner(None, None)


DUMPS = counted.dumps(0, MADE)


@given(
    kind=st.sampled_from(("qp", "cq", "mr", "pd", "ctx", "srq", "cm_id")),
    data=st.data(),
)
def test_any_bytes_are_objects_or_missing(kind, data):
    raw = bytearray(DUMPS[f"nldev-res-{kind.replace('_', '-')}-get-0"])
    for _ in range(data.draw(st.integers(0, 6))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(raw[: data.draw(st.integers(0, len(raw)))])
    if kind == "qp":
        found = resources.parse_queue_pairs(cut)
        assert isinstance(found, tuple | Missing)
    else:
        found = resources.parse_held(cut, kind)
        assert isinstance(found, Missing) or all(each.count > 0 for each in found)
    assert isinstance(parse_resources(cut), dict | Missing)
