"""Which port an attempt would use: permitted before forbidden, then the one that is near."""

import time
from dataclasses import replace
from typing import Any

import pytest

from lab.mac import Mac, ready_mac
from lab.machine import Machine
from lab.netdevs import NetDev
from lab.rdma_devices import Device, Port, roce_rows
from lab.samples import infiniband_host, roce_host
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import DriverId, GidType, LinkLayer, PortState, QpType
from rdmadiag.host.recorded import open_snapshot
from rdmadiag.preflight.candidate import LEAST_MTU, Candidate, Wanted, candidates
from rdmadiag.preflight.safety import Reason
from rdmadiag.sources.run import gather
from rdmadiag.view.reconcile import Protocol
from rdmadiag.view.select import NoSuchDevice, Selector

WANTED = Wanted(payload_bytes=64, iterations=100)
UNKNOWN = Missing(Why.NOT_COLLECTED, "x")


def evidence_of(subject: Machine | Mac | Evidence) -> Evidence:
    if isinstance(subject, Evidence):
        return subject
    if isinstance(subject, Mac):
        return gather(subject.host(), time.monotonic() + 20)
    return subject.evidence()


def ranked(
    subject: Machine | Mac | Evidence, *selectors: Selector, near: str | None = None, **wanted: Any
) -> tuple[Candidate, ...]:
    return candidates(evidence_of(subject), replace(WANTED, **wanted), selectors, near=near)


def names(found: tuple[Candidate, ...]) -> list[str]:
    return [f"{each.end.device}/{each.end.port}" for each in found]


def two_roce_ports(*addresses: str) -> Machine:
    """mlx5_0, mlx5_1, …, each with one address."""
    made = [roce_host(address) for address in addresses]
    netdevs, devices = [], []
    for at, machine in enumerate(made):
        netdev = replace(machine.netdevs[0], name=f"eth{at}")
        rows = {
            index: replace(row, netdev=netdev.name)
            for index, row in machine.devices[0].ports[0].gids.items()
        }
        port = replace(machine.devices[0].ports[0], gids=rows, netdev=netdev.name)
        devices.append(
            replace(
                machine.devices[0],
                name=f"mlx5_{at}",
                ports=(port,),
                pci_address=f"0000:0{at}:00.0",
                uverbs=at,
            )
        )
        netdevs.append(netdev)
    return Machine("many", tuple(devices), tuple(netdevs))


# --- the order ---------------------------------------------------------------------------

THREE = two_roce_ports("192.0.2.1", "192.0.2.2", "192.0.2.3")


def test_of_equal_ports_the_first_is_the_best() -> None:
    assert names(ranked(THREE)) == ["mlx5_0/1", "mlx5_1/1", "mlx5_2/1"]


def test_a_permitted_port_comes_before_a_forbidden_one() -> None:
    machine = THREE.with_port(0, state=PortState.DOWN)
    assert names(ranked(machine)) == ["mlx5_1/1", "mlx5_2/1", "mlx5_0/1"]


def test_of_the_permitted_the_one_with_the_address_of_the_connection_is_the_best() -> None:
    assert names(ranked(THREE, near="192.0.2.2")) == ["mlx5_1/1", "mlx5_0/1", "mlx5_2/1"]


def test_near_and_forbidden_comes_after_permitted() -> None:
    machine = THREE.with_port(1, state=PortState.DOWN)
    assert names(ranked(machine, near="192.0.2.2"))[-1] == "mlx5_1/1"


def test_of_the_forbidden_the_one_with_fewer_reasons_is_the_best() -> None:
    machine = THREE.with_port(0, state=PortState.DOWN, gids={})
    machine = machine.with_port(1, state=PortState.DOWN).with_port(2, state=PortState.DOWN)
    assert names(ranked(machine)) == ["mlx5_1/1", "mlx5_2/1", "mlx5_0/1"]


@pytest.mark.parametrize(
    "near",
    [
        "192.0.2.2",
        "2001:db8::2",
        "2001:DB8:0:0::2",
        "2001:db8::2%eth1",
        "::ffff:192.0.2.2",
    ],
)
def test_near_is_an_address_however_it_is_spelled(near: str) -> None:
    machine = THREE.with_port(
        1, gids=roce_rows("eth1", "0c:42:a1:00:00:01", "192.0.2.2", "2001:db8::2")
    )
    assert names(ranked(machine, near=near))[0] == "mlx5_1/1"


@pytest.mark.parametrize("near", [None, "192.0.2.9", "far.example", ""])
def test_an_address_that_no_port_has_changes_nothing(near: str | None) -> None:
    assert names(ranked(THREE, near=near)) == ["mlx5_0/1", "mlx5_1/1", "mlx5_2/1"]


def test_near_needs_a_table_that_could_be_read() -> None:
    evidence = replace(infiniband_host().evidence(), sysfs=UNKNOWN, verbs=UNKNOWN)
    assert names(ranked(evidence, near="192.0.2.2")) == ["mlx5_0/1", "mlx5_1/1"]


def test_selectors_leave_only_what_they_name() -> None:
    assert names(ranked(THREE, Selector("mlx5_2"), near="192.0.2.2")) == ["mlx5_2/1"]
    with pytest.raises(NoSuchDevice, match="there are: mlx5_0, mlx5_1, mlx5_2"):
        ranked(THREE, Selector("mlx5_3"))


def test_a_host_without_a_port_has_no_candidate() -> None:
    assert ranked(Machine("bare")) == ()


# --- reasons -----------------------------------------------------------------------------


def test_a_healthy_port_has_nothing_against_it() -> None:
    (best,) = ranked(roce_host())
    assert (best.reasons, best.blocking, best.protocol) == ((), (), Protocol.ROCE)
    assert best.route_reason == "RoCE v2 with an IPv4 address"


def test_what_is_accepted_is_listed_and_blocks_nothing() -> None:
    machine = roce_host().change(nodes={}).with_port(state=PortState.DOWN)
    against = (Reason.PORT_NOT_ACTIVE, Reason.UVERBS_NODE_MISSING)
    for accepted in ((), against[:1], against, tuple(Reason)):
        (best,) = ranked(machine, accepted=frozenset(accepted))
        assert best.reasons == against
        assert best.blocking == tuple(each for each in against if each not in accepted)


@pytest.mark.parametrize(
    ("changes", "reason", "protocol"),
    [
        ({"node_type": "4: RNIC", "protocol": "iw"}, Reason.IWARP_NEEDS_RDMA_CM, Protocol.IWARP),
        (
            {"node_type": "7: unspecified", "pci_driver": "efa", "driver": DriverId.EFA},
            Reason.EFA_HAS_NO_RC,
            Protocol.EFA,
        ),
        (
            {"node_type": "6: usNIC UDP", "protocol": "usnic"},
            Reason.USNIC_HAS_NO_RC,
            Protocol.USNIC,
        ),
    ],
    ids=["iWARP", "EFA", "usNIC"],
)
def test_what_has_no_manual_rtr_is_refused(
    changes: dict[str, Any], reason: Reason, protocol: Protocol
) -> None:
    (best,) = ranked(roce_host().with_device(**changes))
    assert (best.blocking, best.protocol) == ((reason,), protocol)


# --- what each end tells the other -------------------------------------------------------


def test_a_roce_endpoint() -> None:
    (best,) = ranked(roce_host())
    end = best.end
    assert (end.device, end.port, end.link_layer) == ("mlx5_0", 1, LinkLayer.ETHERNET)
    assert (end.state, end.permitted, end.lid) == (PortState.ACTIVE, True, 0)
    assert (end.gid_index, str(end.gid)) == (3, "::ffff:192.0.2.10")
    assert (end.gid_type, end.prefix_length) == (GidType.ROCE_V2, 24)
    assert (end.qp_type, end.payload_bytes, end.iterations) == (QpType.RC, 64, 100)


@pytest.mark.parametrize("qp_type", [QpType.RC, QpType.UC])
def test_the_queue_pair_type_that_was_asked_for_is_in_the_end(qp_type: QpType) -> None:
    assert ranked(roce_host(), qp_type=qp_type)[0].end.qp_type is qp_type


def test_the_mtu_is_the_ports_or_what_was_asked_for_or_what_every_port_has() -> None:
    evidence = roce_host().evidence()
    for found, wanted, active, asked in (
        (evidence, None, 4096, 4096),
        (evidence, 512, 4096, 512),
        (replace(evidence, verbs=UNKNOWN), None, None, LEAST_MTU),
        (replace(evidence, verbs=UNKNOWN), 256, None, 256),
    ):
        end = ranked(found, mtu=wanted)[0].end
        assert (end.active_mtu, end.mtu) == (active, asked)


def test_an_mtu_that_the_library_does_not_name_is_not_known() -> None:
    evidence = roce_host().evidence()
    (device,) = evidence.verbs.devices  # type: ignore[union-attr]
    port = replace(device.ports[0], active_mtu=Missing(Why.MALFORMED, "9"))  # type: ignore[index]
    verbs = replace(evidence.verbs, devices=(replace(device, ports=(port,)),))  # type: ignore[type-var]
    end = ranked(replace(evidence, verbs=verbs))[0].end
    assert (end.active_mtu, end.mtu) == (None, LEAST_MTU)


def test_an_explicit_index_is_used_where_it_names_an_entry() -> None:
    end = ranked(roce_host(), gid_index=0)[0].end
    assert (end.gid_index, str(end.gid)) == (0, "fe80::e42:a1ff:fe00:1")
    assert (end.gid_type, end.prefix_length) == (GidType.ROCE_V1, 64)


@pytest.mark.parametrize("index", [99, 255, 65535])
def test_an_explicit_index_without_an_entry_blocks_and_is_used_where_that_is_accepted(
    index: int,
) -> None:
    (best,) = ranked(roce_host(), gid_index=index)
    assert best.blocking == (Reason.NO_ROUTE_GID,)
    (best,) = ranked(roce_host(), gid_index=index, accepted=frozenset({Reason.NO_ROUTE_GID}))
    assert (best.blocking, best.end.gid_index) == ((), index)
    assert best.end.gid == Gid(bytes(16))
    assert (best.end.gid_type, best.end.prefix_length) == (None, None)


def test_a_port_without_a_gid_has_none_to_tell() -> None:
    (best,) = ranked(roce_host().with_port(gids={}))
    end = best.end
    assert best.blocking == (Reason.NO_ROUTE_GID,)
    assert (end.gid_index, end.gid, end.gid_type, end.prefix_length) == (None, None, None, None)


@pytest.mark.parametrize(
    ("address", "length"), [("192.0.2.10/28", 28), ("192.0.2.10/32", 32), ("192.0.2.11/24", None)]
)
def test_the_prefix_is_that_of_the_address_in_the_gid(address: str, length: int | None) -> None:
    machine = roce_host().change(netdevs=(NetDev("ens1f0np0", addresses=(address,)),))
    assert ranked(machine)[0].end.prefix_length == length


def test_the_prefix_is_not_made_up() -> None:
    evidence = roce_host().evidence()
    for changed in (
        replace(evidence, netdev=UNKNOWN),
        roce_host().change(netdevs=()).evidence(),
        roce_host()
        .with_port(
            gids={
                index: replace(row, netdev=None)
                for index, row in roce_host().devices[0].ports[0].gids.items()
            }
        )
        .evidence(),
    ):
        assert ranked(changed)[0].end.prefix_length is None


# --- InfiniBand --------------------------------------------------------------------------


def test_infiniband_goes_by_lid() -> None:
    first, second = ranked(infiniband_host())
    assert (first.protocol, first.blocking) == (Protocol.INFINIBAND, ())
    assert (first.end.lid, second.end.lid) == (0x11, 0x12)
    for end in (first.end, second.end):
        assert (end.gid_index, end.gid, end.gid_type) == (None, None, None)
        assert (end.link_layer, end.qp_type) == (LinkLayer.INFINIBAND, QpType.RC)


def test_infiniband_uses_a_gid_where_one_is_asked_for() -> None:
    end = ranked(infiniband_host(), gid_index=0)[0].end
    assert (end.gid_index, str(end.gid)) == (0, "fe80::c42:a103:0:1")


def test_infiniband_without_the_gid_that_is_asked_for_is_refused_as_roce_is() -> None:
    assert ranked(infiniband_host(), gid_index=5)[0].blocking == (Reason.NO_ROUTE_GID,)


@pytest.mark.parametrize(
    ("fixture", "permitted"),
    [("ibsim-after-sweep", True), ("ibsim-no-subnet-manager", False)],
)
def test_a_recorded_fabric(fixture: str, permitted: bool, request: pytest.FixtureRequest) -> None:
    host = open_snapshot(str(request.config.rootpath / "tests" / "fixtures" / fixture))
    best = ranked(gather(host, time.monotonic() + 20))[0]
    assert best.protocol is Protocol.INFINIBAND
    assert (best.end.lid not in (0, 0xFFFF)) is permitted
    assert (Reason.NO_LID not in best.blocking) is permitted


# --- Thunderbolt -------------------------------------------------------------------------


def test_a_ready_mac_goes_by_its_ipv4_gid_and_uc() -> None:
    best, other = ranked(ready_mac())
    assert (best.protocol, best.blocking) == (Protocol.THUNDERBOLT, ())
    end = best.end
    assert (end.device, end.link_layer, end.qp_type) == (
        "rdma_en1",
        LinkLayer.THUNDERBOLT,
        QpType.UC,
    )
    assert (end.gid_index, str(end.gid), end.gid_type) == (1, "::ffff:169.254.205.255", None)
    assert (other.end.device, Reason.PORT_NOT_ACTIVE in other.blocking) == ("rdma_en2", True)


def test_rc_is_in_the_end_where_it_was_asked_for() -> None:
    assert ranked(ready_mac(), qp_type=QpType.RC)[0].end.qp_type is QpType.RC


def both_up() -> Mac:
    """A Mac with two peers; the second port has its only GID at index 0."""
    ready = ready_mac()
    return ready.with_cable(1, peer=ready.cables[0].peer)


def test_what_x_rdma_says_against_one_port_holds_for_every_port() -> None:
    for each in ranked(both_up()):
        own = Reason.ANOTHER_PORT_HAS_NO_ROUTE if each.end.device == "rdma_en1" else None
        assert each.blocking == (own or Reason.NO_ROUTE_GID,)


def test_a_port_that_is_named_is_decided_alone() -> None:
    (best,) = ranked(both_up(), Selector("rdma_en1"))
    assert best.blocking == ()
    (other,) = ranked(both_up(), Selector("rdma_en2"))
    assert other.blocking != ()


def test_index_0_that_was_asked_for_is_refused_on_thunderbolt() -> None:
    (best,) = ranked(ready_mac(), Selector("rdma_en1"), gid_index=0)
    assert best.blocking == (Reason.ROUTE_GID_INDEX_ZERO,)


def test_the_partition_key_is_that_of_index_0_or_of_the_index_that_was_asked_for() -> None:
    machine = infiniband_host().with_port(0, 0, pkeys=(0x7FFF, 0x8001, 0))
    found = [ranked(machine, Selector("mlx5_0"), pkey_index=index)[0] for index in range(3)]
    assert [each.pkey for each in found] == [0x7FFF, 0x8001, 0]
    assert [each.blocking for each in found] == [(), (), (Reason.NO_PKEY,)]


def test_a_reason_against_the_host_is_given_once() -> None:
    failed = ready_mac().change(log=("2026-05-21 10:15:04.31-0700 Failed INIT->RTR qp 3",))
    best = ranked(failed)[0]
    assert best.reasons.count(Reason.RECENT_RTR_FAILURE) == 1


@pytest.mark.parametrize("machine", [ready_mac(), roce_host()], ids=["Mac", "RoCE"])
def test_an_earlier_failure_is_a_reason_against_thunderbolt_alone(machine: Machine | Mac) -> None:
    best = candidates(evidence_of(machine), WANTED, against=[Reason.PRIOR_RTR_FAILURE])[0]
    on_thunderbolt = best.protocol is Protocol.THUNDERBOLT
    assert best.blocking == ((Reason.PRIOR_RTR_FAILURE,) if on_thunderbolt else ())


def test_a_port_of_which_nothing_is_known_is_refused_and_has_an_endpoint() -> None:
    machine = Machine("odd", (Device("mlx5_0", (Port(layer=None),), protocol=""),))
    evidence = replace(machine.evidence(), sysfs=UNKNOWN, verbs=UNKNOWN)
    (best,) = ranked(evidence)
    assert Reason.LINK_LAYER_UNKNOWN in best.blocking
    assert best.end.link_layer is LinkLayer.UNSPECIFIED
