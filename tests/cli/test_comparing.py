"""Samples one after the other: what is not asked again, when it ends, and sources that hang."""

import time
from dataclasses import replace

import pytest

from lab import counted
from lab.mac import macs
from lab.machine import with_counters
from rdmadiag.cli.comparing import Sampler, over
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.counters import CounterSource, Wanted
from rdmadiag.sources import sampling
from rdmadiag.view.select import NoSuchDevice

HW = "/sys/class/infiniband/mlx5_0/ports/1/hw_counters"


class Recorded:
    """A host whose out_of_sequence rises with each pause, and that notes what is asked."""

    def __init__(self, host):
        self.host = host
        self.rises = []

    def sleep(self, seconds):
        self.rises.append(seconds)
        value = 100 * len(self.rises)
        self.host.recording.files[f"{HW}/out_of_sequence"] = f"{value}\n".encode()


@pytest.fixture
def host(roce, host_in_memory):
    return host_in_memory(with_counters(roce).recording())


def test_each_sample_is_compared_with_the_one_before_it(host):
    rising = Recorded(host)
    found = list(over(Sampler(host), 0.5, 3, sleep=rising.sleep))
    assert len(rising.rises) == 3
    rises = [
        [(each.name, each.difference) for each in compared.changes if each.source == "hw"]
        for compared in found
    ]
    assert rises == [[("out_of_sequence", 100)]] * 3


def test_the_pause_is_from_sample_to_sample_not_from_end_to_begin(host):
    rising = Recorded(host)
    list(over(Sampler(host), 30.0, 2, sleep=rising.sleep))
    assert 29.0 < rising.rises[0] <= 30.0
    assert 58.0 < rising.rises[1] <= 60.0  # nobody slept: the second is due at 60


def test_sets_of_both_tasks_are_in_one_sample(host, soon):
    facts = sampling.sample(host, soon)
    assert {each.source for each in facts.sets} == {
        *(CounterSource.PORT, CounterSource.HW, CounterSource.NLDEV),
        *(CounterSource.NETDEV, CounterSource.PAUSE, CounterSource.FEC, CounterSource.PHY),
    }
    assert facts.failed == ()


def test_a_refusal_is_remembered_through_all_samples(host):
    refused = Missing(Why.UNSUPPORTED, f"{HW}/np_cnp_sent: EINVAL")
    host.recording.refuse("read", f"{HW}/np_cnp_sent", refused)
    rising = Recorded(host)

    def sleep(seconds):
        rising.sleep(seconds)
        # From the second sample on it would answer: it must not be asked.
        host.recording.refused["read"].pop(f"{HW}/np_cnp_sent", None)

    for compared in over(Sampler(host), 0.1, 3, sleep=sleep):
        (found,) = [
            each
            for each in compared.sample.sets
            if each.key == (CounterSource.HW, "mlx5_0", 1, None)
        ]
        assert found.refused == {"np_cnp_sent": refused}
        assert "np_cnp_sent" not in found.values


@pytest.mark.slow
@pytest.mark.usefixtures("in_children")
def test_a_source_that_hangs_is_killed_and_not_asked_again(roce, host_in_memory):
    class Stuck(host_in_memory):
        def attributes(self, path, spared):
            time.sleep(60)

    stuck = Stuck(with_counters(roce).recording())
    began = time.monotonic()
    (only,) = over(Sampler(stuck, timeout=0.5), 0.1, None)
    assert time.monotonic() - began < 10
    assert isinstance(only.changes, Missing)
    assert only.verdict.status == "unknown"
    assert only.sample.failed[0].why is Why.TIMEOUT


@pytest.mark.usefixtures("in_children")
def test_a_source_that_hangs_later_ends_the_watch_with_what_it_says(roce, host_in_memory):
    class Later(host_in_memory):
        stuck = False

        def attributes(self, path, spared):
            if self.stuck:
                time.sleep(60)
            return super().attributes(path, spared)

    host = Later(with_counters(roce).recording())

    def sleep(seconds):
        host.stuck = True

    (only,) = over(Sampler(host, timeout=0.5), 0.1, None, sleep=sleep)
    assert only.verdict.status == "unknown"


@pytest.mark.usefixtures("in_children")
def test_netdevs_that_hang_cost_no_counter_of_the_port(roce, host_in_memory):
    class Stuck(host_in_memory):
        def netlink(self, name, protocol, request, deadline):
            if name == "route-getlink":
                time.sleep(60)
            return super().netlink(name, protocol, request, deadline)

    facts = sampling.sample(Stuck(with_counters(roce).recording()), time.monotonic() + 1.0)
    assert [each.why for each in facts.failed] == [Why.TIMEOUT]
    assert {each.source for each in facts.sets} >= {CounterSource.PORT, CounterSource.HW}


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"mlx5_9": None}, "no RDMA device 'mlx5_9'; there are: mlx5_0, mlx5_1"),
        ({"mlx5_0": frozenset({3})}, "no port 3 on 'mlx5_0'"),
    ],
)
def test_what_is_asked_for_and_not_there_is_said(wanted, said, host):
    with pytest.raises(NoSuchDevice, match=said):
        Sampler(host, Wanted(wanted)).first()


def test_a_saved_sample_can_be_narrowed(host):
    whole = Sampler(host).first()
    found = Sampler(whole, Wanted({"mlx5_1": None})).first()
    assert {each.device for each in found.sets} == {"mlx5_1"}
    assert [each.name for each in found.devices] == ["mlx5_1"]


def test_other_systems_have_no_counters_and_no_tracked_objects(host, soon):
    host.identity = replace(host.identity, platform="unknown")
    facts = sampling.sample(host, soon)
    assert facts.failed[0].why is Why.UNSUPPORTED
    assert sampling.resources(host, soon).why is Why.UNSUPPORTED
    assert sampling.sampled("unknown") == ()
    assert host.asked == []


def test_a_mac_is_asked_for_its_links(soon):
    facts = sampling.sample(macs()["mac-ready"][0].host(), soon)
    assert {each.source for each in facts.sets} == {CounterSource.REGISTRY}


def test_resources_are_those_that_netlink_shows(roce, host_in_memory, soon):
    machine = with_counters(roce).with_device(0, held=counted.job(4711))
    found = sampling.resources(host_in_memory(machine.recording()), soon)
    assert len(found.device("mlx5_0").queue_pairs) == 8
    assert found.device("none") is None
