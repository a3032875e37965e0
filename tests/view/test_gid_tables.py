"""Which devices have a GID table that a program may choose from."""

from dataclasses import replace

from lab.machine import Machine
from lab.samples import infiniband_host
from rdmadiag.facts import Missing, Why
from rdmadiag.view.gid_tables import openable
from rdmadiag.view.reconcile import devices


def names(machine: Machine) -> list[str]:
    """Without RDMA netlink, which `rdmadiag gids` does not read."""
    evidence = replace(machine.evidence(), nldev=Missing(Why.NOT_COLLECTED))
    return [each.name for each in openable(devices(evidence), evidence)]


def two(**change: object) -> Machine:
    """A device, and a second one of the same PCI function."""
    (device, _) = infiniband_host().devices
    second = replace(device, name="smi1", **change)  # type: ignore[arg-type]
    return infiniband_host().change(devices=(device, second))


def test_a_device_that_no_program_opens_beside_one_of_its_function_is_left_out() -> None:
    assert names(two(uverbs=None)) == ["mlx5_0"]


def test_a_device_of_another_function_stays_without_a_node() -> None:
    (device, other) = infiniband_host().devices
    machine = infiniband_host().change(devices=(device, replace(other, uverbs=None)))
    assert names(machine) == [device.name, other.name]


def test_devices_of_one_function_that_have_nodes_or_have_none_all_of_them_stay() -> None:
    assert names(two(uverbs=7)) == ["mlx5_0", "smi1"]
    (device, _) = infiniband_host().devices
    closed = replace(device, uverbs=None)
    machine = infiniband_host().change(devices=(closed, replace(closed, name="mlx5_9")))
    assert names(machine) == ["mlx5_0", "mlx5_9"]
