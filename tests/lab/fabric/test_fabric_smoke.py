"""The fabric is what it says: many hosts, one subnet manager, cables that can be pulled."""

import re

from lab.fabric import Fabric


def state(fabric: Fabric, host: str) -> tuple[str, str]:
    """The state of the host's port as its sysfs has it and as ibstat prints it."""
    port = fabric.tree(host) / "sys/class/infiniband/ibsim0/ports/1"
    printed = re.search(r"^\s+State: (\w+)$", fabric.ibstat(host), re.MULTILINE)
    assert printed is not None
    return (port / "state").read_text().strip(), printed[1]


def test_every_host_waits_for_the_subnet_manager_and_is_active_after_it() -> None:
    with Fabric(64) as fabric:
        hosts = fabric.hosts()
        assert len(hosts) == 64

        assert {state(fabric, host) for host in hosts} == {("2: INIT", "Initializing")}
        fabric.sweep(deadline=60.0)
        assert {state(fabric, host) for host in hosts} == {("4: ACTIVE", "Active")}


def test_an_active_host_has_a_lid_of_its_own_and_knows_the_subnet_manager(fabric: Fabric) -> None:
    fabric.sweep(deadline=60.0)
    ports = [fabric.tree(host) / "sys/class/infiniband/ibsim0/ports/1" for host in fabric.hosts()]
    lids = {int((port / "lid").read_text(), 16) for port in ports}

    assert len(lids) == len(ports)
    assert 0 not in lids
    assert {int((port / "sm_lid").read_text(), 16) for port in ports} <= lids


def test_a_host_whose_cable_is_pulled_is_down_until_the_next_sweep_after_it_is_back(
    fabric: Fabric,
) -> None:
    fabric.sweep(deadline=60.0)
    host, other = fabric.hosts()[-2:]

    fabric.unlink(host, 1)
    assert state(fabric, host) == ("1: DOWN", "Down")
    assert state(fabric, other) == ("4: ACTIVE", "Active")

    fabric.relink(host, 1)
    assert state(fabric, host) == ("2: INIT", "Initializing")
    fabric.sweep(deadline=60.0)
    assert state(fabric, host) == ("4: ACTIVE", "Active")


def test_two_fabrics_do_not_meet(fabric: Fabric) -> None:
    fabric.sweep(deadline=60.0)
    with Fabric(2) as other:
        assert state(other, "Hca2") == ("2: INIT", "Initializing")
        assert state(fabric, "Hca2") == ("4: ACTIVE", "Active")
