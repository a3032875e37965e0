"""What `diff` says of two records, with one change planted between them."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.linked import Devlink, Ethtool
from lab.machine import Machine
from lab.netdevs import Dcb, NetDev
from lab.rdma_devices import roce_rows
from lab.routing import Way
from lab.samples import gpu_host, infiniband_host, roce_host
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import PhysState, PortState
from rdmadiag.facts.modules import ModuleFacts
from rdmadiag.fleet.changed import ChangeKind, Folded, Sameness, Which
from rdmadiag.fleet.record_diff import Judged, differences
from rdmadiag.fleet.record_sides import Side
from rdmadiag.preflight.verdict import Severity
from tests.fleet.record_pairs import Planted, between, judged, other_host, said


def netdev(**changes: object) -> Planted:
    return lambda host: host.change(netdevs=(replace(host.netdevs[0], **changes),))  # type: ignore[arg-type]


def port(device: int = 0, **changes: object) -> Planted:
    return lambda host: host.with_port(device, 0, **changes)


def device(number: int = 0, **changes: object) -> Planted:
    return lambda host: host.with_device(number, **changes)


def host(**changes: object) -> Planted:
    return lambda machine: machine.change(**changes)


def ethtool(**changes: object) -> Planted:
    return host(ethtool={"ens1f0np0": replace(Ethtool(), **changes)})  # type: ignore[arg-type]


def renumbered(machine: Machine) -> Machine:
    """One adapter gone, and the names of the others moved up."""
    devices = [replace(each, name=f"mlx5_{at}") for at, each in enumerate(machine.devices[1:])]
    return machine.change(devices=tuple(devices))


def readdressed(machine: Machine) -> Machine:
    moved = replace(machine.netdevs[0], addresses=("192.0.2.77/24", "fe80::e42:a1ff:fe00:1/64"))
    rows = roce_rows(moved.name, moved.mac, "192.0.2.77")
    return machine.change(netdevs=(moved,)).with_port(gids=rows)


def unaddressed(machine: Machine) -> Machine:
    bare = replace(machine.netdevs[0], addresses=("fe80::e42:a1ff:fe00:1/64",))
    rows = {
        at: row for at, row in machine.devices[0].ports[0].gids.items() if "ffff" not in row.gid
    }
    return machine.change(netdevs=(bare,)).with_port(gids=rows)


PULLED = {"state": PortState.DOWN, "phys": PhysState.POLLING, "lid": 0, "sm_lid": 0}
SET = {"NCCL_IB_GID_INDEX": "3"}
TABLE = "0: roce_v1 link-local, 1: roce_v2 link-local, 2: roce_v1 IPv4, 3: roce_v2 IPv4"
BASES = {
    "roce": roce_host().change(
        ethtool={"ens1f0np0": Ethtool()},
        dcb={"ens1f0np0": Dcb()},
        devlink={"0000:08:00.0": Devlink()},
    ),
    "ib": infiniband_host(),
    "gpus": gpu_host(),
}
PLANTED: dict[str, tuple[str, Planted, list[str], list[str]]] = {
    "link down": (
        "roce",
        port(state=PortState.DOWN, phys=PhysState.DISABLED),
        ["link-not-up", "mlx5_0/1 phys_state: link_up > disabled", "mlx5_0/1 state: active > down"],
        [],
    ),
    "cable pulled": (
        "ib",
        port(1, **PULLED),
        [
            "link-not-up",
            "mlx5_1/1 lid: 18 > 0",
            "mlx5_1/1 phys_state: link_up > polling",
            "mlx5_1/1 sm_lid: 1 > 0",
            "mlx5_1/1 state: active > down",
        ],
        [],
    ),
    "no subnet manager": (
        "ib",
        port(0, state=PortState.INIT, lid=0, sm_lid=0),
        [
            "mlx5_0/1 lid: 17 > 0",
            "mlx5_0/1 sm_lid: 1 > 0",
            "mlx5_0/1 state: active > init",
            "no-subnet-manager",
        ],
        [],
    ),
    "another LID": ("ib", port(0, lid=0x31), [], ["mlx5_0/1 lid: 17 > 49"]),
    "another subnet manager": ("ib", port(0, sm_lid=9), [], ["mlx5_0/1 sm_lid: 1 > 9"]),
    "slower": (
        "ib",
        port(0, rate="100 Gb/sec (4X EDR)"),
        ["mlx5_0/1 rate: 200 Gb/sec (4X HDR) > 100 Gb/sec (4X EDR)", "rate-below-siblings"],
        [],
    ),
    "half the lanes": (
        "ib",
        port(0, rate="100 Gb/sec (2X HDR)"),
        ["mlx5_0/1 rate: 200 Gb/sec (4X HDR) > 100 Gb/sec (2X HDR)", "rate-below-siblings"],
        [],
    ),
    "a partition key more": (
        "ib",
        port(0, pkeys=(0xFFFF, 0x8001)),
        [],
        ["mlx5_0/1 pkeys: 0: 0xffff > 0: 0xffff, 1: 0x8001"],
    ),
    "limited member": (
        "ib",
        port(0, pkeys=(0x7FFF,)),
        ["mlx5_0/1 pkeys: 0: 0xffff > 0: 0x7fff", "no-usable-pkey"],
        [],
    ),
    "no default partition": (
        "ib",
        port(0, pkeys=(0x8001,)),
        [],
        ["mlx5_0/1 pkeys: 0: 0xffff > 0: 0x8001"],
    ),
    "firmware": (
        "ib",
        device(1, firmware="20.43.1014"),
        ["firmware-differs", "mlx5_1 firmware: 20.35.2000 > 20.43.1014"],
        [],
    ),
    "one firmware on both": (
        "ib",
        lambda m: device(1, firmware="20.43.1014")(device(0, firmware="20.43.1014")(m)),
        [],
        ["mlx5_0 firmware: 20.35.2000 > 20.43.1014", "mlx5_1 firmware: 20.35.2000 > 20.43.1014"],
    ),
    "board": (
        "ib",
        device(0, board_id="MT_0000000999"),
        [],
        ["mlx5_0 board_id: MT_0000000223 > MT_0000000999"],
    ),
    "adapter replaced": (
        "ib",
        device(1, node_guid="0c42:a103:0000:0077"),
        [],
        [
            "mlx5_1 node_guid: 0c42:a103:0000:0002 > 0c42:a103:0000:0077",
            "mlx5_1 system_guid: 0c42:a103:0000:0002 > 0c42:a103:0000:0077",
        ],
    ),
    "adapter gone": (
        "ib",
        lambda m: m.change(devices=m.devices[:1]),
        [],
        ["mlx5_1 adapter: there > not there"],
    ),
    "first adapter gone, others renamed": (
        "ib",
        renumbered,
        [],
        [
            "mlx5_0 adapter: there > not there",
            "mlx5_0 name: mlx5_1 > mlx5_0",
            "mlx5_0 node_desc: mlx5_1 HCA > mlx5_0 HCA",
        ],
    ),
    "adapter new": (
        "ib",
        lambda m: m.change(
            devices=(
                *m.devices,
                replace(
                    m.devices[1],
                    name="mlx5_2",
                    pci_address="0000:d8:00.0",
                    node_guid="0c42:a103:0000:0003",
                    uverbs=2,
                ),
            )
        ),
        [],
        ["mlx5_2 adapter: not there > there"],
    ),
    "renamed": (
        "ib",
        device(1, name="ibp175s0"),
        [],
        ["ibp175s0 name: mlx5_1 > ibp175s0", "ibp175s0 node_desc: mlx5_1 HCA > ibp175s0 HCA"],
    ),
    "PCI lanes": (
        "ib",
        device(0, link=("16.0 GT/s PCIe", "8")),
        ["mlx5_0 pci.width: 16 > 8", "pcie-link-degraded"],
        [],
    ),
    "PCI speed": (
        "ib",
        device(0, link=("8.0 GT/s PCIe", "16")),
        ["mlx5_0 pci.speed: 16.0 GT/s PCIe > 8.0 GT/s PCIe", "pcie-link-degraded"],
        [],
    ),
    "NUMA node": ("ib", device(0, numa_node=1), [], ["mlx5_0 pci.numa_node: 0 > 1"]),
    "IOMMU": ("ib", device(0, iommu_domain="DMA"), [], ["mlx5_0 pci.iommu_domain: identity > DMA"]),
    "uverbs node missing": (
        "roce",
        host(nodes={}),
        [
            "mlx5_0 limits: {…} > (none)",
            "mlx5_0 node.gid: 0 > (none)",
            "mlx5_0 node.mode: crw-rw-rw- > (none)",
            "mlx5_0 node.openable: yes > (none)",
            "mlx5_0 node.uid: 0 > (none)",
            "mlx5_0/1 active_mtu: 4096 > (none)",
            "mlx5_0/1 max_mtu: 4096 > (none)",
            "uverbs-node-missing",
        ],
        [],
    ),
    "node closed": (
        "roce",
        host(openable=False, uid=1000, capabilities=0, nodes={"uverbs0": 0o600}),
        [
            "mlx5_0 node.mode: crw-rw-rw- > crw-------",
            "mlx5_0 node.openable: yes > no",
            "uverbs-node-not-openable",
        ],
        [],
    ),
    "module unloaded": (
        "roce",
        host(modules=("ib_core", "ib_uverbs", "mlx5_ib")),
        [],
        ["modules: ib_core, ib_uverbs, mlx5_ib, rdma_cm, rdma_ucm > ib_core, ib_uverbs, mlx5_ib"],
    ),
    "memlock": (
        "roce",
        host(memlock="65536", uid=1000, capabilities=0),
        ["memlock-too-low", "memlock.hard: unlimited > 65536", "memlock.soft: unlimited > 65536"],
        [],
    ),
    "variable set": ("roce", host(environ=SET), [], ["variable.NCCL_IB_GID_INDEX: (not set) > 3"]),
    "container": ("roce", host(container="/.dockerenv"), [], ["container: (none) > /.dockerenv"]),
    "libraries gone": (
        "roce",
        host(libraries=False),
        [
            "verbs-library-missing",
            "verbs.configured: {…} > (none)",
            "verbs.libraries: /usr/lib/x86_64-linux-gnu/libibverbs.so.1 > (none)",
            "verbs.providers: {…} > {…}",
        ],
        [
            "mlx5_0 limits: {…} > (none)",
            "mlx5_0/1 active_mtu: 4096 > (none)",
            "mlx5_0/1 max_mtu: 4096 > (none)",
            "verbs.loaded: libibverbs.so.1 > (none)",
        ],
    ),
    "cpus": ("roce", host(cpus_online="0-15"), [], ["cpus_online: 0-31 > 0-15"]),
    "netns mode": (
        "roce",
        host(netns_mode=0),
        [],
        ["netns-exclusive", "rdma_namespaces: shared > exclusive"],
    ),
    "MTU 1500": (
        "roce",
        lambda m: port(active_mtu=1024)(netdev(mtu=1500)(m)),
        [],
        ["jumbo-not-used", "mlx5_0/1 active_mtu: 4096 > 1024", "mlx5_0/1 netdev.mtu: 9000 > 1500"],
    ),
    "netdev down": (
        "roce",
        netdev(up=False),
        [
            "mlx5_0/1 netdev.admin_up: yes > no",
            "mlx5_0/1 netdev.carrier: yes > no",
            "mlx5_0/1 netdev.operstate: up > down",
            "route-netdev-down",
        ],
        ["routing.routes[]: {…} > (none)"],
    ),
    "address removed": (
        "roce",
        unaddressed,
        [
            "gid-link-local-only",
            "mlx5_0/1 gid_index: 3 > 1",
            f"mlx5_0/1 gid_table: {TABLE} > 0: roce_v1 link-local, 1: roce_v2 link-local",
            "mlx5_0/1 netdev.addresses[192.0.2.10/24]: {…} > (none)",
            "mlx5_0/1 route_gid: ::ffff:192.0.2.10 > fe80::e42:a1ff:fe00:1",
        ],
        ["routing.routes[]: {…} > (none)"],
    ),
    "another address": (
        "roce",
        readdressed,
        [],
        [
            "mlx5_0/1 gids[2].gid: ::ffff:192.0.2.10 > ::ffff:192.0.2.77",
            "mlx5_0/1 gids[3].gid: ::ffff:192.0.2.10 > ::ffff:192.0.2.77",
            "mlx5_0/1 netdev.addresses[192.0.2.10/24]: {…} > (none)",
            "mlx5_0/1 netdev.addresses[192.0.2.77/24]: (none) > {…}",
            "mlx5_0/1 route_gid: ::ffff:192.0.2.10 > ::ffff:192.0.2.77",
            "routing.routes[].destination: 192.0.2.10/32 > 192.0.2.77/32",
            "routing.routes[].source: 192.0.2.10 > 192.0.2.77",
        ],
    ),
    "empty table": (
        "roce",
        lambda m: port(gids={})(netdev(addresses=())(m)),
        [
            "mlx5_0/1 gid_index: 3 > (none)",
            f"mlx5_0/1 gid_table: {TABLE} > (none)",
            "mlx5_0/1 netdev.addresses[192.0.2.10/24]: {…} > (none)",
            "mlx5_0/1 netdev.addresses[fe80::e42:a1ff:fe00:1/64]: {…} > (none)",
            "mlx5_0/1 route_gid: ::ffff:192.0.2.10 > (none)",
            "no-usable-gid",
        ],
        ["routing.routes[]: {…} > (none)"],
    ),
    "v2 rows gone": (
        "roce",
        lambda m: port(
            gids={at: row for at, row in m.devices[0].ports[0].gids.items() if "v2" not in row.kind}
        )(m),
        [
            "gid-v1-only",
            "mlx5_0/1 gid_index: 3 > 2",
            f"mlx5_0/1 gid_table: {TABLE} > 0: roce_v1 link-local, 2: roce_v1 IPv4",
        ],
        [],
    ),
    "rp_filter": ("roce", host(rp_filter=1), [], ["rp_filter: 0 > 1"]),
    "arp_ignore": ("roce", host(arp_ignore=1), [], ["arp_ignore: 0 > 1"]),
    "MAC": (
        "roce",
        netdev(mac="0c:42:a1:00:00:55"),
        [],
        ["mlx5_0/1 netdev.mac: 0c:42:a1:00:00:01 > 0c:42:a1:00:00:55"],
    ),
    "PFC on 3": (
        "roce",
        host(dcb={"ens1f0np0": Dcb(pfc=(3,))}),
        [],
        ["mlx5_0/1 lossless.pfc: (none) > 3"],
    ),
    "no DCB": ("roce", host(dcb={"ens1f0np0": Missing(Why.UNSUPPORTED, "EOPNOTSUPP")}), [], []),
    "firmware pending": (
        "roce",
        host(
            devlink={
                "0000:08:00.0": replace(
                    Devlink(), stored=(("fw.version", "22.43.1000"), ("fw", "22.43.1000"))
                )
            }
        ),
        [],
        ["firmware-waits-for-reset", "mlx5_0 devlink.stored: {…} > {…}"],
    ),
    "health": (
        "roce",
        host(
            devlink={
                "0000:08:00.0": replace(
                    Devlink(), reporters=(("fw", 1, 3, 0), ("fw_fatal", 0, 0, 0))
                )
            }
        ),
        ["device-health-error"],
        [],
    ),
    "GPU gone": (
        "gpus",
        lambda m: m.change(cards=m.cards[1:]),
        [],
        ["gpu 0000:1b:00.0: there > not there"],
    ),
    "another netdev": ("roce", lambda m: m.change(netdevs=(*m.netdevs, NetDev("docker0"))), [], []),
    "route": (
        "roce",
        host(ways=(Way("0.0.0.0/0", "ens1f0np0", "192.0.2.1"),)),
        [],
        ["routing.routes[]: (none) > {…}"],
    ),
    "kernel log": (
        "roce",
        host(kernel_log=("mlx5_core 0000:08:00.0: firmware fatal error",)),
        ["device-unhealthy-in-log"],
        [],
    ),
    "both at once": (
        "ib",
        lambda m: port(1, **PULLED)(device(0, board_id="MT_0000000999")(m)),
        [
            "link-not-up",
            "mlx5_1/1 lid: 18 > 0",
            "mlx5_1/1 phys_state: link_up > polling",
            "mlx5_1/1 sm_lid: 1 > 0",
            "mlx5_1/1 state: active > down",
        ],
        ["mlx5_0 board_id: MT_0000000223 > MT_0000000999"],
    ),
    "rings": (
        "roce",
        ethtool(rings=(2048, 1024, 8192, 8192)),
        [],
        ["mlx5_0/1 link.rings.rx: 1024 > 2048"],
    ),
    "pause frames": (
        "roce",
        ethtool(pause=(True, True)),
        [],
        ["mlx5_0/1 link.pause.rx: no > yes", "mlx5_0/1 link.pause.tx: no > yes"],
    ),
    "another speed": (
        "roce",
        ethtool(speed=25_000, lanes=1),
        [
            "below-what-both-can",
            "mlx5_0/1 link.lanes: 4 > 1",
            "mlx5_0/1 link.speed_mbps: 100000 > 25000",
        ],
        [],
    ),
    "FEC off": ("roce", ethtool(fec_active="None"), [], ["mlx5_0/1 link.fec: rs > off"]),
    "no autonegotiation": ("roce", ethtool(autoneg=False), [], ["mlx5_0/1 link.autoneg: yes > no"]),
    "trust DSCP": ("roce", host(dcb={"ens1f0np0": Dcb(trust=(5,))}), [], []),
    "verbs silent": (
        "roce",
        host(rejected=("mlx5_0",)),
        [
            "device-not-in-verbs",
            "mlx5_0 limits: {…} > (none)",
            "mlx5_0/1 active_mtu: 4096 > (none)",
            "mlx5_0/1 max_mtu: 4096 > (none)",
        ],
        [],
    ),
}
"""Name → the base, what is changed in it, what is then newly wrong, and what else changed.

A code is of a finding; a fact in the first list goes with one."""

NAMED_ANEW = ("first adapter gone, others renamed", "renamed")
LESS = ("no DCB", "trust DSCP", "node closed")
"""One side could not look at a part."""


def swapped(every: set[str]) -> set[str]:
    """Facts the other way round."""
    return {re.sub(r"^(.*?: )(.*) > (.*)$", r"\1\3 > \2", each) for each in every}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_change_is_what_is_said_and_nothing_else(name: str) -> None:
    base, plant, worse, changed = PLANTED[name]
    before, after = judged(BASES[base]), judged(plant(BASES[base]))
    found = differences(before, after)
    assert found.hosts.is_same
    assert said(found, ChangeKind.WORSE) == set(worse)
    assert said(found, ChangeKind.CHANGED) == set(changed)
    assert said(found, ChangeKind.BETTER) == set()
    assert bool(found.not_compared) is (name in LESS)
    if name not in NAMED_ANEW:  # the second record's names are shown
        back = differences(after, before)
        assert said(back, ChangeKind.BETTER) == swapped(set(worse))
        assert said(back, ChangeKind.CHANGED) == swapped(set(changed))
        assert said(back, ChangeKind.WORSE) == set()


def test_there_are_forty_of_them() -> None:
    assert len(PLANTED) > 40


@pytest.mark.parametrize("name", BASES)
def test_a_record_is_the_same_as_itself(name: str) -> None:
    one = judged(BASES[name])
    found = differences(one, one)
    assert (found.changes, found.not_compared, found.folded) == ((), (), Folded())
    assert found.is_whole
    assert found.equal > 60


@pytest.mark.parametrize("name", BASES)
def test_of_two_hosts_alike_names_guids_and_addresses_are_no_difference(name: str) -> None:
    found = between(BASES[name], other_host(BASES[name]))
    assert found.hosts == Sameness(False, "their node GUIDs")
    assert (found.changes, found.not_compared) == ((), ())
    assert found.folded.identity > 3


def test_of_one_host_they_are() -> None:
    found = between(BASES["roce"], other_host(BASES["roce"]), same=True)
    assert "hostname: roce > roce-2" in said(found, ChangeKind.CHANGED)
    assert found.hosts.by == "as was said"


def test_noise_is_folded() -> None:
    """Numbers of a boot: of interfaces, of devices, of changes of the carrier."""
    base = BASES["roce"]
    lines = host(kernel_log=("mlx5_core 0000:08:00.0: E-Switch: Total vports 1",))
    noisy = device(0, index=7)(netdev(carrier_changes=14)(lines(base)))
    found = between(base, noisy)
    assert (found.changes, found.not_compared) == ((), ())
    assert found.folded.noise >= 2


def test_two_hosts_differ_by_their_own_places() -> None:
    """Buses shifted by a card in another slot: the order of adapters stands."""
    base = BASES["ib"]
    shifted = other_host(base)
    for at, address in enumerate(("0000:5e:00.0", "0000:d8:00.0")):
        shifted = shifted.with_device(at, pci_address=address)
    other = other_host(device(1, firmware="20.43.1014")(base))
    facts = said(between(base, other), ChangeKind.WORSE)
    assert facts == {"firmware-differs", "mlx5_1 firmware: 20.35.2000 > 20.43.1014"}
    assert "mlx5_1 pci.address: 0000:af:00.0 > 0000:d8:00.0" in said(
        between(base, shifted), ChangeKind.CHANGED
    )


def test_another_kernel() -> None:
    one = judged(BASES["ib"])
    document = dict(one.side.document)
    document["host"] = dict(document["host"]) | {"kernel": "6.12.1"}
    found = differences(one, Judged(Side.of(document), one.verdict))
    assert said(found, ChangeKind.CHANGED) == {"kernel: 6.1.0 > 6.12.1"}


@pytest.mark.parametrize("source", ["sysfs", "nldev", "netdev", "process", "verbs", "system"])
def test_what_one_side_could_not_look_at_is_no_change(source: str) -> None:
    base = BASES["roce"]
    evidence = base.evidence()
    late = replace(evidence, **{source: Missing(Why.TIMEOUT, "no answer before the deadline")})
    found = differences(judged(base), judged(base, late))
    assert found.changes == ()
    assert found.not_compared
    assert {each.unknown_in for each in found.not_compared} == {Which.AFTER}
    assert not found.is_whole
    back = differences(judged(base, late), judged(base))
    assert back.changes == ()
    assert {each.unknown_in for each in back.not_compared} == {Which.BEFORE}


READ = [
    name
    for name in Evidence.__dataclass_fields__
    if not isinstance(getattr(BASES["roce"].evidence(), name), Missing)
    and name not in ("kernel_log", "libraries", "modules")  # noise; not asked for
]


@pytest.mark.parametrize("source", READ)
def test_a_source_that_one_side_could_not_read_is_not_known_whatever_the_other_has(
    source: str,
) -> None:
    """Where the other has nothing of it, no fact of it is unknown: the source itself is."""
    base = BASES["roce"]
    late = Missing(Why.DENIED, "EACCES")
    without = judged(base, replace(base.evidence(), **{source: late}))
    for found, which in (
        (differences(judged(base), without), Which.AFTER),
        (differences(without, judged(base)), Which.BEFORE),
    ):
        assert found.changes == ()
        assert not found.is_whole
        assert {each.unknown_in for each in found.not_compared} == {which}


def changed_evidence(base: Machine, change: Callable[[dict[str, Any]], None]) -> Judged:
    """The record with a change in its document."""
    one = judged(base)
    document = json.loads(json.dumps(one.side.document))
    change(document["evidence"])
    return Judged(Side.of(document), one.verdict)


def test_the_node_of_the_connection_manager_is_of_no_adapter() -> None:
    def without(evidence: dict[str, Any]) -> None:
        nodes = evidence["process"]["nodes"]
        evidence["process"]["nodes"] = [each for each in nodes if each["name"] != "rdma_cm"]

    base = BASES["roce"]
    with_node = {"name": "rdma_cm", "mode": "crw-rw-rw-", "uid": 0, "gid": 0, "openable": True}
    there = changed_evidence(base, lambda found: found["process"]["nodes"].append(with_node))
    (fact,) = said(differences(there, changed_evidence(base, without)), ChangeKind.CHANGED)
    assert fact == "process.nodes[rdma_cm]: {…} > (none)"


def test_a_limit_of_the_cgroup_is_a_change_and_what_is_in_use_is_noise() -> None:
    def limited(objects: int | None, used: int = 0) -> Judged:
        row = {"folder": f"/job{used}", "device": "mlx5_0", "most_handles": None}
        row |= {"most_objects": objects, "handles": used, "objects": used}
        return changed_evidence(
            BASES["roce"], lambda found: found["system"]["limits"].update(rdma_cgroups=[row])
        )

    free = judged(BASES["roce"])
    (added,) = said(differences(free, limited(2)), ChangeKind.CHANGED)
    assert "rdma_cgroups" in added
    assert differences(limited(2), limited(2, used=7)).changes == ()
    (fewer,) = said(differences(limited(9), limited(2)), ChangeKind.CHANGED)
    assert fewer.endswith("most_objects: 9 > 2")


def test_an_interface_that_answers_no_arp_is_a_change() -> None:
    def without_arp(evidence: dict[str, Any]) -> None:
        evidence["routing"]["links"][-1]["no_arp"] = True

    base = BASES["roce"]
    (fact,) = said(
        differences(judged(base), changed_evidence(base, without_arp)), ChangeKind.CHANGED
    )
    assert fact.endswith("no_arp: no > yes")


def namesake(machine: Machine, **changes: object) -> Machine:
    """The port's netdev is another network namespace's; this one has another of that name."""
    own = NetDev(machine.netdevs[0].name, mac="02:00:00:00:00:01", addresses=("203.0.113.1/24",))
    return machine.with_port(netdev=None).change(netdevs=(replace(own, **changes),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [{"mtu": 1400}, {"up": False}, {"addresses": ("203.0.113.2/24",)}],
    ids=["its MTU", "its state", "its address"],
)
def test_what_changed_at_a_netdev_of_the_same_name_is_not_of_the_port(
    changes: dict[str, object],
) -> None:
    base = BASES["roce"]
    found = between(namesake(base), namesake(base, **changes), same=True)
    assert [each for each in found.changes if each.device is not None] == []
    of_port = between(base, netdev(**changes)(base), same=True)
    assert any(each.device == "mlx5_0" for each in of_port.changes), "its own netdev's are"


def test_what_changed_at_the_port_is_still_said_beside_a_netdev_of_the_same_name() -> None:
    base = BASES["roce"]
    found = between(namesake(base), port(phys=PhysState.POLLING)(namesake(base)), same=True)
    assert "mlx5_0/1" in {f"{each.device}/{each.port}" for each in found.changes}


def test_a_gid_that_nobody_could_look_for_is_not_gone() -> None:
    base = BASES["roce"]
    late = Missing(Why.TIMEOUT, "no answer before the deadline")
    found = differences(
        judged(base), judged(base, replace(base.evidence(), sysfs=late, verbs=late))
    )
    assert found.changes == ()
    assert not found.is_whole


def test_a_finding_where_the_other_side_could_not_look_is_not_newly_wrong() -> None:
    base = BASES["ib"]
    down = port(0, state=PortState.DOWN, phys=PhysState.POLLING)(base)
    late = Missing(Why.TIMEOUT, "no answer before the deadline")
    blind = judged(base, replace(base.evidence(), sysfs=late, nldev=late, verbs=late))
    found = differences(blind, judged(down))
    assert "link-not-up" not in said(found, ChangeKind.WORSE)
    assert "link-not-up" in {each.rule for each in found.not_compared}
    gone = differences(judged(down), blind)
    assert said(gone, ChangeKind.BETTER) == set()


def test_what_was_not_asked_for_is_not_missed() -> None:
    base = BASES["roce"]
    with_modules = judged(base, replace(base.evidence(), modules=ModuleFacts(())))
    found = differences(with_modules, judged(base))
    assert found.changes == ()
    assert found.is_whole


def test_a_finding_on_a_device_that_is_gone_is_not_mended() -> None:
    base = port(1, **PULLED)(BASES["ib"])
    found = between(base, base.change(devices=base.devices[:1]))
    assert said(found, ChangeKind.BETTER) == set()
    (change,) = (each for each in found.changes if each.rule == "link-not-up")
    assert (change.kind, change.after) == (ChangeKind.CHANGED, "mlx5_1 is not there")


def test_a_port_or_gpu_that_is_new_is_one_change() -> None:
    base = BASES["ib"]
    ports = base.devices[0].ports
    dual = base.with_device(0, ports=(*ports, replace(ports[0], lid=0x20)))
    assert said(between(base, dual), ChangeKind.CHANGED) == {"mlx5_0/2 port: not there > there"}
    one = BASES["gpus"]
    less = one.change(cards=one.cards[1:])
    assert said(between(less, one), ChangeKind.CHANGED) == {"gpu 0000:1b:00.0: not there > there"}


def test_on_a_device_that_has_another_name_now_it_is() -> None:
    base = port(1, **PULLED)(BASES["ib"])
    found = between(base, device(1, name="ibp175s0")(BASES["ib"]))
    assert "link-not-up" in said(found, ChangeKind.BETTER)


@pytest.mark.parametrize(
    ("names", "guids", "wanted"),
    [
        (("a", "a"), False, Sameness(True, "the name a")),
        (("a", "b"), False, Sameness(False, "their names")),
        (("localhost", "localhost"), False, Sameness(False, "nothing that both have in common")),
        (("a", "b"), True, Sameness(True, "node GUID 0c42:a103:0000:0001")),
    ],
    ids=["one name", "two names", "no name", "two names and one GUID"],
)
def test_what_tells_one_host_from_two(
    names: tuple[str, str], guids: bool, wanted: Sameness
) -> None:
    bare = roce_host() if guids else Machine("bare")
    assert between(*(bare.change(hostname=each) for each in names)).hosts == wanted


def test_what_is_newly_wrong_says_what_to_do() -> None:
    found = between(BASES["ib"], port(1, **PULLED)(BASES["ib"]))
    first = found.changes[0]
    assert (first.rule, first.severity_before, first.severity_after) == (
        "link-not-up",
        None,
        Severity.WARN,
    )
    assert "ibstat mlx5_1 1" in first.remedy
    assert [each.rule for each in found.changes] == ["link-not-up"] * len(found.changes)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda each: st.lists(each) | st.dictionaries(st.text(), each),
        max_leaves=20,
    )
)
def test_of_any_document_something_is_said(value: Any) -> None:
    one = judged(BASES["roce"])
    odd = dict(one.side.document) | {"evidence": value, "host": value}
    strange = Judged(Side.of(odd), one.verdict)
    differences(one, strange)
    differences(strange, one)


@pytest.mark.slow
def test_lists_of_a_hostile_record_end() -> None:
    one = judged(BASES["roce"])
    evidence = dict(one.side.document["evidence"])
    evidence["routing"] = {"rules": [{"action": str(at)} for at in range(30_000)]}
    differences(one, Judged(Side.of(dict(one.side.document) | {"evidence": evidence}), one.verdict))
