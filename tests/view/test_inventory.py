"""Devices by witness, and why one is not seen."""

import time
from dataclasses import replace

import pytest

from lab.mac import ready_mac
from lab.machine import Machine
from lab.samples import infiniband_host, roce_host
from rdmadiag.facts import Missing, Why, present
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import NetnsMode
from rdmadiag.sources.run import gather
from rdmadiag.view.discovery_path import Stage
from rdmadiag.view.inventory import DeviceRow, inventory
from rdmadiag.view.reconcile import devices


def rows(subject: Machine | Evidence) -> tuple[DeviceRow, ...]:
    evidence = subject.evidence() if isinstance(subject, Machine) else subject
    return inventory(devices(evidence), evidence)


def test_a_device_seen_everywhere_needs_no_explanation() -> None:
    (row,) = rows(roce_host())
    assert (row.seen_by.sysfs, row.seen_by.nldev, row.seen_by.uverbs_node) == (True, True, True)
    assert row.why_not == ()
    assert row.discovery
    assert row.discovery.fails_at is None
    assert (row.driver, row.firmware, row.numa_node) == ("mlx5_core", "22.31.1014", 0)
    (port,) = row.ports
    assert (port.netdev, port.netdev_index, port.rate_gbps) == ("ens1f0np0", 2, 100.0)


def test_the_index_of_nldev_is_a_devices_identity() -> None:
    (row,) = rows(roce_host())
    assert (row.uverbs, row.index) == ("uverbs0", 0)
    (row,) = rows(replace(roce_host().evidence(), nldev=Missing(Why.TIMEOUT, "late")))
    assert row.index == Missing(Why.TIMEOUT, "late")


def test_verbs_that_were_not_queried_are_missing() -> None:
    (row,) = rows(replace(roce_host().evidence(), verbs=Missing(Why.NOT_COLLECTED)))
    assert isinstance(row.seen_by.verbs, Missing)
    assert row.seen_by.verbs.why is Why.NOT_COLLECTED


def test_a_node_that_is_not_there_is_explained() -> None:
    (row,) = rows(roce_host().change(nodes={}))
    assert row.seen_by.uverbs_node is False
    assert row.why_not == (
        "the verbs library does not list it",
        "no character device: udev has not made /dev/infiniband/uverbs0",
    )
    assert row.discovery
    assert row.discovery.fails_at is Stage.NODE


def test_in_a_container_the_node_is_not_mounted() -> None:
    (row,) = rows(roce_host().change(nodes={}, container="/run/.containerenv"))
    assert "is not mounted into the container" in row.why_not[-1]


def test_without_ib_uverbs_there_can_be_no_node() -> None:
    (row,) = rows(roce_host().with_device(uverbs=None))
    assert row.uverbs is None
    assert "ib_uverbs is not loaded" in row.why_not[0]


def test_a_node_that_may_not_be_opened_is_explained() -> None:
    (row,) = rows(roce_host().change(nodes={"uverbs0": 0o600}, openable=False))
    assert row.why_not == (
        "the verbs library cannot open it",
        "this user may not open /dev/infiniband/uverbs0 (crw-------)",
    )


def test_where_dev_may_not_be_listed_the_node_is_not_called_missing() -> None:
    evidence = roce_host().evidence()
    process = replace(evidence.process, nodes=Missing(Why.DENIED, "EACCES"))  # type: ignore[type-var]
    (row,) = rows(replace(evidence, process=process))
    assert isinstance(row.seen_by.uverbs_node, Missing)
    assert row.why_not == ()


def test_a_device_that_sysfs_hides_keeps_what_nldev_knows() -> None:
    evidence = infiniband_host().evidence()
    sysfs = replace(evidence.sysfs, devices=())  # type: ignore[type-var]
    first, second = rows(replace(evidence, sysfs=sysfs))
    assert (first.seen_by.sysfs, first.seen_by.nldev) == (False, True)
    assert first.why_not[0].startswith("sysfs does not show it")
    assert (first.firmware, first.node_guid) == ("20.35.2000", "0c42:a103:0000:0001")
    assert [port.port for port in second.ports] == [1]


def test_exclusive_mode_explains_a_device_that_nldev_hides() -> None:
    evidence = infiniband_host().evidence()
    assert not isinstance(evidence.nldev, Missing)
    nldev = replace(evidence.nldev, devices=(), netns_mode=NetnsMode.EXCLUSIVE)
    row, _ = rows(replace(evidence, nldev=nldev))
    assert row.why_not[0].startswith("nldev does not show it: netns mode is exclusive")


def test_a_device_without_ports_says_so() -> None:
    nobody = Missing(Why.NOT_COLLECTED)
    evidence = replace(roce_host().evidence(), nldev=nobody, verbs=nobody)
    device = evidence.sysfs.devices[0]  # type: ignore[union-attr, index]
    sysfs = replace(evidence.sysfs, devices=(replace(device, ports=()),))  # type: ignore[type-var]
    (row,) = rows(replace(evidence, sysfs=sysfs))
    assert row.why_not[0].startswith("no port can be read")
    assert row.ports == ()


def test_without_nldev_the_netdev_comes_from_the_gids() -> None:
    evidence = replace(roce_host().evidence(), nldev=Missing(Why.NOT_COLLECTED))
    (row,) = rows(evidence)
    assert row.ports[0].netdev == "ens1f0np0"
    assert isinstance(row.seen_by.nldev, Missing)


# --- a Mac ------------------------------------------------------------------------------------


def mac_row(evidence: Evidence | None = None) -> DeviceRow:
    evidence = evidence or gather(ready_mac().host(), time.monotonic() + 20)
    return inventory(devices(evidence), evidence)[0]


def test_rate_and_width_of_a_mac_are_the_querys_and_the_guid_is_the_registrys() -> None:
    row = mac_row()
    (port,) = row.ports
    # The query of lab/transcript.py: eight lanes of QDR; node_guid is zero there.
    assert (port.rate, port.rate_gbps, port.width) == ("80 Gb/sec (8X QDR)", 80.0, 8)
    assert row.node_guid == "0000:364d:04ea:4e40"


def test_a_guid_of_the_query_comes_before_the_registrys() -> None:
    evidence = gather(ready_mac().host(), time.monotonic() + 20)
    assert not isinstance(evidence.verbs, Missing)
    first = replace(evidence.verbs.devices[0], node_guid="f09c:1571:e751:ac05")
    verbs = replace(evidence.verbs, devices=(first,))
    assert mac_row(replace(evidence, verbs=verbs)).node_guid == "f09c:1571:e751:ac05"


def test_what_a_mac_does_not_have_is_unsupported_there() -> None:
    row = mac_row()
    missing = {
        name: value
        for shown in (row, row.ports[0])
        for name in shown.__dataclass_fields__
        if isinstance(value := getattr(shown, name), Missing)
    }
    assert set(missing) == {
        "board_id",
        "driver",
        "firmware",
        "index",
        "netdev_index",
        "numa_node",
        "pci",
        "sys_image_guid",
    }
    assert {str(each) for each in missing.values()} == {"unsupported: on macOS"}


@pytest.mark.parametrize(
    ("width", "speed", "rate"),
    [
        (1, 1, "2.5 Gb/sec (1X)"),
        (2, 32, "100 Gb/sec (4X EDR)"),
        (2, 64, "200 Gb/sec (4X HDR)"),
        (2, 16, "56 Gb/sec (4X FDR)"),
        (16, 128, "200 Gb/sec (2X NDR)"),
        (8, 2, "60 Gb/sec (12X DDR)"),
    ],
)
def test_a_rate_of_the_query_is_written_as_sysfs_writes_it(
    width: int, speed: int, rate: str
) -> None:
    evidence = gather(ready_mac().host(), time.monotonic() + 20)
    assert not isinstance(evidence.verbs, Missing)
    port = next(present(evidence.verbs.devices[0].ports))
    assert replace(port, active_width=width, active_speed=speed).rate == rate
    unknown = replace(port, active_width=width, active_speed=0).rate  # XDR: beyond 8 bits
    assert isinstance(unknown, Missing)
