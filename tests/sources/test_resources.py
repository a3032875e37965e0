"""Tracked objects: who made them, in which state they are, and whom one may not see."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab import counted
from lab.counted import Held as Made
from lab.machine import with_counters
from lab.nldev_msg import decoded
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.cm import CmState
from rdmadiag.facts.ib import KernelQpType, QpState
from rdmadiag.facts.resources import CmId, Held, Owner, QueuePair
from rdmadiag.host import netlink
from rdmadiag.sources import resources
from rdmadiag.sources.nldev import parse_resources
from rdmadiag.sources.resources import (
    Makers,
    held,
    parse_port_range,
    parse_thread_group,
    queue_pair,
    read_resources,
)

MADE = (
    *counted.KERNEL_OWN,
    *counted.job(4711, pairs=3),
    Made("qp", 2, 4712, state=QpState.ERR, first=200, type=KernelQpType.UD),
    Made("srq", 1, 4712),
    Made("cm_id", 5, 4712),
    Made("qp", 1),
)


GONE = "RDMA device 0 was deleted while it was being read"


NOBODY = Makers({}, lambda thread: None)


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


# One process, 4711, with threads 4712 and 4713, of which the second has ended; and one that has
# nothing left but its context.
THREADED = (
    Made("ctx", 1, 4711, context=1),
    Made("pd", 1, 4712, context=1, pd=7),
    Made("cq", 2, context=1),
    Made("qp", 3, 4712, pd=7),
    Made("qp", 2, pd=7, first=200),
    Made("mr", 1, pd=7, length=4096),
    Made("ctx", 1, context=2),
    Made("pd", 1, context=2, pd=8),
)


@pytest.fixture
def threaded(roce, host_in_memory):
    host = host_in_memory(with_counters(roce).with_device(0, held=THREADED).recording())
    files = host.recording.files
    for thread in (4711, 4712):
        files[f"/proc/{thread}/status"] = b"Name:\tworker\nTgid:\t4711\nPid:\t%d\n" % thread
    files |= {"/proc/4711/comm": b"python3\n", "/proc/4712/comm": b"worker\n"}
    return host


def test_threads_are_their_process_and_what_an_ended_one_made_is_its_contexts(threaded, soon):
    facts = read_resources(threaded, soon)
    device = facts.device("mlx5_0")
    process, nobody = Owner(4711, None), Owner(None, None)
    assert {each.owner for each in device.queue_pairs} == {process}
    assert device.held["cq"] == (Held(process, 2),)
    assert device.held["mr"] == (Held(process, 1, 4096),)
    assert device.held["pd"] == (Held(process, 1), Held(nobody, 1))
    assert device.held["ctx"] == (Held(process, 1), Held(nobody, 1))
    assert facts.commands == {4711: "python3"}


def test_where_proc_is_hidden_a_thread_is_all_that_is_known(threaded, soon):
    for thread in (4711, 4712):
        del threaded.recording.files[f"/proc/{thread}/status"]
    pairs = read_resources(threaded, soon).device("mlx5_0").queue_pairs
    assert {each.owner.pid for each in pairs} == {4712, None}


def test_the_process_of_a_thread_is_read_from_its_status():
    assert parse_thread_group(b"Name:\tTgid:\nTgid:\t17\nNgid:\t0\nPid:\t18\n") == 17
    assert parse_thread_group(b"Name:\tx\n").why is Why.MALFORMED


@given(st.binary(max_size=80))
def test_any_bytes_are_a_process_or_missing(raw):
    assert isinstance(parse_thread_group(raw), int | Missing)


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
    (entry,) = resources.parse_entries(reply, "qp")
    pair = queue_pair(entry, NOBODY)
    assert (pair.type.why, pair.state.why) == (Why.MALFORMED, Why.MALFORMED)


def test_a_pid_of_0_is_a_process_that_cannot_be_seen():
    entry = netlink.attribute(28, bytes(4))
    reply = netlink.request(5130, 0, netlink.attribute(19, netlink.attribute(20, entry)))
    (entry,) = resources.parse_entries(reply, "qp")
    assert queue_pair(entry, NOBODY).owner == Owner(None, None)


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
    found = resources.parse_entries(cut, kind)
    if not isinstance(found, Missing):
        makers = Makers({kind: found}, lambda thread: thread)
        assert sum(each.count for each in held(found, kind, makers)) == len(found)
        assert all(isinstance(queue_pair(each, makers), QueuePair) for each in found)
    assert isinstance(parse_resources(cut), dict | Missing)


# --- ids of the connection manager -----------------------------------------------------------


def test_an_id_has_its_state_its_port_and_its_owner(roce, host_in_memory, soon):
    ids = (
        Made("cm_id", 2, 4711, cm_state=CmState.DISCONNECT, local_port=40000),
        Made("cm_id", 1, kernel="nvmet_rdma", cm_state=CmState.LISTEN, local_port=4420),
        Made("cm_id", 1, 4711, cm_state=CmState.IDLE),
    )
    machine = with_counters(roce).with_device(0, held=(*counted.KERNEL_OWN, *ids))
    facts = read_resources(host_in_memory(machine.recording()), soon)
    found = facts.device("mlx5_0").cm_ids
    assert [(each.state, each.local_port, each.owner) for each in found] == [
        (CmState.DISCONNECT, 40000, Owner(4711, None)),
        (CmState.DISCONNECT, 40001, Owner(4711, None)),
        (CmState.LISTEN, 4420, Owner(None, "nvmet_rdma")),
        (CmState.IDLE, Missing(Why.ABSENT, "RDMA_NLDEV_ATTR_RES_SRC_ADDR"), Owner(4711, None)),
    ]
    assert isinstance(found[0], CmId)
    assert facts.local_ports == (32768, 60999)


@pytest.mark.parametrize("raw", [b"", b"1", b"a b", b"1 2 3", b"32768 609999999"])
def test_other_text_is_no_range_of_ports(raw: bytes) -> None:
    assert isinstance(parse_port_range(raw), Missing)
