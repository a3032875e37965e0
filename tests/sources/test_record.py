"""Recorded and read back, every source says the same; also after a second recording."""

import dataclasses
import time

import pytest

from lab.mac import ready_mac
from lab.machine import big_host
from rdmadiag.facts import Identity, Missing, Why
from rdmadiag.facts.evidence import LINUX_SOURCES
from rdmadiag.host.live import LiveHost
from rdmadiag.host.recorded import open_snapshot
from rdmadiag.host.recording import documents, write_folder
from rdmadiag.sources.record import record
from rdmadiag.sources.run import gather, read, sources_of


def facts(host, deadline):
    """What each source reads of a host, in this process."""
    own = sources_of(host.identity.platform)
    return {name: read(name, host, deadline) for name in own}


def again(host, deadline):
    """The files of a recording of `host`."""
    recording, late = record(host, deadline)
    return documents(recording, host.identity, late)


@pytest.fixture
def troubled(roce):
    """The healthy machine with one refusal of each kind."""
    recording = roce.recording()
    port = "/sys/class/infiniband/mlx5_0/ports/1"
    for question, subject, why, name in (
        ("read", f"{port}/gid_attrs/ndevs/0", Why.UNSUPPORTED, "EINVAL"),
        ("read", f"{port}/gids/1", Why.DENIED, "EACCES"),
        ("read", "/proc/modules", Why.DENIED, "EACCES"),
        ("list", "/sys/class/infiniband/mlx5_1/ports", Why.DENIED, "EACCES"),
        ("readlink", "/proc/1/ns/net", Why.DENIED, "EACCES"),
        ("stat", "/dev/infiniband/uverbs1", Why.DENIED, "EACCES"),
        ("can_open", "/dev/infiniband/uverbs0", Why.DENIED, "EPERM"),
        ("netlink", "nldev-res-get-0", Why.UNSUPPORTED, "EINVAL"),
        ("netlink", "route-getaddr", Why.TIMEOUT, "late"),
    ):
        recording.refuse(question, subject, Missing(why, f"{subject}: {name}"))
    return recording


@pytest.mark.usefixtures("in_children")
def test_a_healthy_machine_is_read_back_as_it_was(memory_host, roce, save, soon):
    healthy = facts(memory_host, soon)
    once = save(again(memory_host, soon), "once")
    assert facts(once, soon) == healthy
    twice = save(again(once, soon), "twice")
    assert facts(twice, soon) == healthy
    assert facts(save(roce.snapshot(), "described"), soon) == healthy
    assert not [name for name, found in healthy.items() if isinstance(found, Missing)]


@pytest.mark.usefixtures("in_children")
def test_a_mac_is_read_back_as_it_was(host_in_memory, save, soon):
    mac = host_in_memory(ready_mac().recording(), platform="darwin")
    healthy = facts(mac, soon)
    once = save(again(mac, soon), "once")
    assert facts(once, soon) == healthy
    assert facts(save(ready_mac().snapshot(), "described"), soon) == healthy
    assert not [name for name, found in healthy.items() if isinstance(found, Missing)]


@pytest.mark.usefixtures("in_children")
def test_refusals_are_read_back_as_they_were(troubled, host_in_memory, save, soon):
    first = facts(host_in_memory(troubled), soon)
    once = save(again(host_in_memory(troubled), soon), "once")
    assert facts(once, soon) == first
    assert facts(save(again(once, soon), "twice"), soon) == first
    assert "EACCES" in repr(first["sysfs"])
    assert first["netdev"] == Missing(Why.TIMEOUT, "route-getaddr: late")


def test_a_big_machine_is_read_back_as_it_was(host_in_memory, save, soon):
    host = host_in_memory(big_host(hcas=4).recording())
    files = again(host, soon)
    assert facts(save(files), soon)["sysfs"] == facts(host, soon)["sysfs"]
    assert len(files) < 4 * 256


def test_a_second_recording_holds_the_same_files(roce, save, soon):
    once = save(roce.snapshot(), "once")
    first = again(once, soon)
    twice = again(save(first, "twice"), soon)
    assert {**first, "meta.json": b""} == {**twice, "meta.json": b""}


def test_this_machine_is_read_back_as_it_is(save, soon):
    live = LiveHost()
    recording, late = record(live, soon)
    host = save(documents(recording, live.identity, late))
    assert late == {}
    assert host.identity == dataclasses.replace(live.identity, recorded=True)
    found = facts(host, soon)
    now = facts(live, soon)
    assert found["sysfs"] == now["sysfs"]
    assert found["nldev"] == now["nldev"]
    assert [each.name for each in found["netdev"].netdevs] == [
        each.name for each in now["netdev"].netdevs
    ]
    assert found["process"].library == now["process"].library
    assert found["process"].memlock == now["process"].memlock


def test_what_a_host_lacks_is_lacked_by_its_recording(tmp_path, roce, soon):
    roce.write_sysfs(str(tmp_path / "bare"))
    bare = open_snapshot(str(tmp_path / "bare"))
    recording, late = record(bare, soon)
    write_folder(documents(recording, bare.identity, late), str(tmp_path / "again"))
    host = open_snapshot(str(tmp_path / "again"))
    assert host.lacks == bare.lacks == late
    assert set(late) == set(LINUX_SOURCES) - {"sysfs"}
    assert gather(host, soon).sysfs == gather(bare, soon).sysfs


@pytest.mark.slow
@pytest.mark.usefixtures("in_children")
def test_a_source_that_was_late_is_late_in_the_replay(roce, host_in_memory, save):
    class Stuck(host_in_memory):
        def netlink(self, name, protocol, request, deadline):
            if name.startswith("nldev"):
                time.sleep(60)
            return super().netlink(name, protocol, request, deadline)

    stuck = Stuck(roce.recording())
    recording, late = record(stuck, time.monotonic() + 1.5)
    assert set(late) == {
        *("nldev", "dcb", "ethtool", "programs", "counters", "netdev_counters", "resources")
    }
    host = save(documents(recording, stuck.identity, late))
    evidence = gather(host, time.monotonic() + 20)
    assert evidence.nldev == late["nldev"]
    assert evidence.nldev.why is Why.TIMEOUT
    assert len(evidence.sysfs.devices) == 2
    assert evidence.netdev.netdev("eth0").mtu == 1500


def test_a_host_of_another_platform_records_nothing(roce, host_in_memory, soon):
    host = host_in_memory(roce.recording(), platform="unknown")
    recording, late = record(host, soon)
    assert recording.files == {}
    assert set(late) == set(LINUX_SOURCES)
    assert {missing.why for missing in late.values()} == {Why.UNSUPPORTED}
    assert host.asked == []


def test_the_name_of_the_recorded_host_is_kept_through_a_second_recording(roce, save, soon):
    once = save(roce.snapshot(), "once")
    twice = save(again(once, soon), "twice")
    assert once.identity == twice.identity == Identity("roce", "linux", "6.1.0", "x86_64", True)
