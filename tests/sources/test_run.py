"""The sources side by side: one that fails or hangs costs only itself."""

import errno
import os
import time
from dataclasses import replace

import pytest

from lab.mac import ready_mac
from lab.netdevs import NetDev
from rdmadiag.facts import Missing, NetDevFacts, Why
from rdmadiag.facts.evidence import (
    LINUX_ONLY,
    LINUX_SOURCES,
    MACOS_ONLY,
    MACOS_SOURCES,
    Evidence,
)
from rdmadiag.sources.run import _named, cheap_sources, gather, unavailable
from rdmadiag.sources.table import BY_NAME


@pytest.mark.usefixtures("in_children")
def test_a_healthy_machine_gives_all_evidence(memory_host, soon):
    found = gather(memory_host, soon)
    assert [device.name for device in found.sysfs.devices] == ["mlx5_0", "mlx5_1"]
    assert [device.name for device in found.nldev.devices] == ["mlx5_0", "mlx5_1"]
    assert [netdev.name for netdev in found.netdev.netdevs] == ["eth0"]
    assert found.process.uid == 0
    assert [device.name for device in found.verbs.devices] == ["mlx5_0", "mlx5_1"]
    assert {getattr(found, name) for name in set(MACOS_SOURCES) - {"verbs"}} == {MACOS_ONLY}


@pytest.mark.usefixtures("in_children")
def test_a_mac_gives_all_its_evidence_and_is_asked_nothing_of_linux(host_in_memory, soon):
    host = host_in_memory(ready_mac().recording(), platform="darwin")
    found = gather(host, soon)
    assert not [name for name in MACOS_SOURCES if isinstance(getattr(found, name), Missing)]
    assert {getattr(found, name) for name in set(LINUX_SOURCES) - {"verbs"}} == {LINUX_ONLY}


@pytest.mark.usefixtures("in_children")
def test_the_log_of_a_mac_is_read_after_the_provider_was_asked(host_in_memory):
    """Opening and closing a context is what makes a healthy driver write a line."""
    order = []

    class Noting(host_in_memory):
        def _answer(self, question, store, subject):
            if question == "verbs":
                time.sleep(0.5)
            if question == "verbs" or "log_show" in subject:
                os.write(writer, f"{question} ".encode())
            return super()._answer(question, store, subject)

    reader, writer = os.pipe()
    gather(Noting(ready_mac().recording(), platform="darwin"), time.monotonic() + 20)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        order = pipe.read().split()
    assert order == ["verbs", "run"]


@pytest.fixture
def no_fork(monkeypatch):
    """A process that cannot fork: EAGAIN, as over its limit."""

    def refused():
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr("os.fork", refused)


@pytest.mark.usefixtures("no_fork")
def test_a_recorded_host_is_read_without_a_fork(roce, soon):
    found = gather(roce.host(), soon)
    assert not [name for name in LINUX_SOURCES if isinstance(getattr(found, name), Missing)]


@pytest.mark.usefixtures("no_fork", "in_children")
def test_a_host_that_can_hang_is_read_by_children_alone(memory_host, soon):
    found = gather(memory_host, soon)
    assert {getattr(found, name).why for name in LINUX_SOURCES} == {Why.EXHAUSTED}
    assert memory_host.asked == []


def test_sources_that_nobody_asked_for_are_not_collected(memory_host, soon):
    found = gather(memory_host, soon, cheap_sources("linux"))
    assert len(found.sysfs.devices) == 2
    assert found.process.uid == 0
    assert found.nldev == found.netdev == Missing(Why.NOT_COLLECTED, "not asked for")


def test_no_sources_are_no_evidence(memory_host, soon):
    found = gather(memory_host, soon, ())
    assert all(isinstance(getattr(found, name), Missing) for name in Evidence.__slots__)


@pytest.fixture
def fails(monkeypatch):
    """Lets the reader of one source fail."""

    def failing(source, how):
        module, _, function = BY_NAME["linux", source].reader.partition(":")
        reader = f"rdmadiag.sources.{module}.{function}"
        monkeypatch.setattr(reader, lambda *_, **__: how())

    return failing


def bug():
    raise RuntimeError("of ours")


def hang():
    time.sleep(60)


@pytest.fixture(scope="module")
def healthy(roce, host_in_memory):
    """What is found in this process."""
    return gather(host_in_memory(roce.recording()), time.monotonic() + 20)


@pytest.mark.usefixtures("in_children")
@pytest.mark.parametrize("source", LINUX_SOURCES)
def test_a_source_with_a_bug_is_missing_and_the_others_are_whole(
    healthy, memory_host, soon, fails, source
):
    fails(source, bug)
    found = gather(memory_host, soon)
    assert getattr(found, source) == Missing(
        Why.MALFORMED, f"{source}: a bug of rdmadiag: RuntimeError('of ours')"
    )
    others = set(LINUX_SOURCES) - {source, "netdev"}
    assert all(getattr(found, name) == getattr(healthy, name) for name in others)


@pytest.mark.slow
@pytest.mark.usefixtures("in_children")
@pytest.mark.parametrize("source", LINUX_SOURCES)
def test_a_source_that_hangs_is_missing_at_the_deadline_and_the_others_are_whole(
    memory_host, fails, source
):
    fails(source, hang)
    began = time.monotonic()
    found = gather(memory_host, began + 2)
    assert time.monotonic() - began < 20
    missing = getattr(found, source)
    assert missing.why is Why.TIMEOUT
    assert missing.detail.startswith(f"{source}: no answer before the deadline; process ")
    others = set(LINUX_SOURCES) - {source}
    assert not [name for name in others if isinstance(getattr(found, name), Missing)]


def test_a_host_of_another_platform_is_not_asked(roce, host_in_memory, soon):
    host = host_in_memory(roce.recording(), platform="unknown")
    found = gather(host, soon)
    assert {getattr(found, name) for name in LINUX_SOURCES} == {LINUX_ONLY}
    assert host.asked == []


def test_what_a_host_lacks_is_not_asked_for(memory_host, soon):
    reason = Missing(Why.NOT_COLLECTED, "the snapshot holds sysfs files alone")
    memory_host.lacks = {"nldev": reason}
    assert unavailable(memory_host, LINUX_SOURCES) == {"nldev": reason}
    found = gather(memory_host, soon)
    assert found.nldev == reason
    assert len(found.sysfs.devices) == 2


# --- which netdevs are kept ----------------------------------------------------------------


def test_a_netdev_that_no_rdma_device_names_is_left_out(roce, host_in_memory, soon):
    machine = roce.change(netdevs=(*roce.netdevs, NetDev("wlan0")))
    found = gather(host_in_memory(machine.recording()), soon)
    assert [netdev.name for netdev in found.netdev.netdevs] == ["eth0"]


def test_a_netdev_that_nldev_alone_names_is_kept(roce, host_in_memory, soon):
    machine = roce.with_port(gids={})
    found = gather(host_in_memory(machine.recording()), soon)
    assert found.sysfs.netdevs == ()
    assert [netdev.name for netdev in found.netdev.netdevs] == ["eth0"]


def test_the_parent_of_a_software_device_is_kept(roce, host_in_memory, soon):
    recording = roce.with_port(gids={}, netdev=None).recording()
    recording.files["/sys/class/infiniband/mlx5_0/parent"] = b"eth0\n"
    found = gather(host_in_memory(recording), soon)
    assert [netdev.name for netdev in found.netdev.netdevs] == ["eth0"]


def test_netdevs_above_and_below_a_named_one_and_all_legs_of_a_bond_are_kept(memory_host, soon):
    whole = gather(memory_host, soon)
    (eth0,) = whole.netdev.netdevs

    def netdev(name, **changes):

        return replace(eth0, name=name, **changes)

    netdevs = (
        netdev("eth0", master="bond0", lower="veth0"),
        netdev("bond0", kind="bond"),
        netdev("veth0", master="br0"),
        netdev("wlan0", master="br0"),
        netdev("eth1", master="bond0"),
        netdev("br0", kind="bridge"),
    )
    found = _named(NetDevFacts(netdevs), {"sysfs": whole.sysfs})
    assert [each.name for each in found.netdevs] == ["eth0", "bond0", "veth0", "eth1", "br0"]


def test_without_any_source_that_names_netdevs_none_is_kept(memory_host, soon):
    found = gather(memory_host, soon, ("netdev",))
    assert found.netdev == NetDevFacts((), 0, 0, bonds=())
