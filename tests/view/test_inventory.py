"""Devices by witness, and why one is not seen."""

from dataclasses import replace

from lab.machine import Machine
from lab.samples import infiniband_host, roce_host
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import NetnsMode
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
