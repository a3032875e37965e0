"""safe_to_attempt_rtr: permitted on a healthy port, and one reason for each thing that is not."""

from dataclasses import replace

import pytest

from lab.machine import Machine
from lab.samples import infiniband_host, roce_host
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.ib import DriverId, LinkLayer, PhysState, PortState
from rdmadiag.preflight.judge import judge
from rdmadiag.preflight.safety import FOR_LACK_OF_EVIDENCE, REASON_TEXT, Reason
from rdmadiag.preflight.verdict import Verdict


def reasons(subject: Machine | Evidence) -> list[Reason]:
    evidence = subject.evidence() if isinstance(subject, Machine) else subject
    return list(judge(evidence).ports[0].reasons)


@pytest.mark.parametrize("machine", [roce_host(), infiniband_host()], ids=["RoCE", "InfiniBand"])
def test_a_healthy_host_may_attempt_rtr_on_every_port(machine: Machine) -> None:
    verdict = judge(machine.evidence())
    assert verdict.safe_to_attempt_rtr is True
    assert all(port.safe_to_attempt_rtr and not port.reasons for port in verdict.ports)


DOWN_NETDEV = tuple(replace(each, up=False) for each in roce_host().netdevs)


@pytest.mark.parametrize(
    ("machine", "reason"),
    [
        pytest.param(
            roce_host().with_port(state=PortState.DOWN, phys=PhysState.POLLING),
            Reason.PORT_NOT_ACTIVE,
            id="a port that is down",
        ),
        pytest.param(
            infiniband_host().with_port(state=PortState.INIT),
            Reason.PORT_NOT_ACTIVE,
            id="a port in INIT",
        ),
        pytest.param(infiniband_host().with_port(lid=0), Reason.NO_LID, id="InfiniBand, no LID"),
        pytest.param(
            infiniband_host().with_port(lid=0xFFFF), Reason.NO_LID, id="InfiniBand, permissive LID"
        ),
        pytest.param(
            infiniband_host().with_port(pkeys=(0, 0x8001)),
            Reason.NO_PKEY,
            id="InfiniBand, no partition key at index 0",
        ),
        pytest.param(roce_host().with_port(gids={}), Reason.NO_ROUTE_GID, id="an empty GID table"),
        pytest.param(
            roce_host().change(netdevs=DOWN_NETDEV),
            Reason.ROUTE_NETDEV_DOWN,
            id="a netdev that is down",
        ),
        pytest.param(
            roce_host().change(netdevs=(), netns_mode=None),
            Reason.ROUTE_NETDEV_ABSENT,
            id="a netdev in another namespace, where the kernel does not route",
        ),
        pytest.param(
            roce_host().with_device(node_type="4: RNIC", protocol="iw"),
            Reason.IWARP_NEEDS_RDMA_CM,
            id="iWARP",
        ),
        pytest.param(
            roce_host().with_device(
                node_type="7: unspecified", pci_driver="efa", driver=DriverId.EFA
            ),
            Reason.EFA_HAS_NO_RC,
            id="EFA",
        ),
        pytest.param(
            roce_host().with_device(node_type="6: usNIC UDP", protocol="usnic"),
            Reason.USNIC_HAS_NO_RC,
            id="usNIC",
        ),
        pytest.param(
            roce_host().change(nodes={}), Reason.UVERBS_NODE_MISSING, id="no character device"
        ),
        pytest.param(
            roce_host().change(openable=False),
            Reason.UVERBS_NODE_NOT_OPENABLE,
            id="a character device that may not be opened",
        ),
        pytest.param(
            roce_host().change(libraries=False), Reason.VERBS_LIBRARY_MISSING, id="no libibverbs"
        ),
        pytest.param(
            roce_host().with_device(driver=DriverId.ERDMA),
            Reason.PROVIDER_LIBRARY_MISSING,
            id="no provider library",
        ),
        pytest.param(
            roce_host().change(memlock="65536", capabilities=0),
            Reason.MEMLOCK_TOO_LOW,
            id="hardly any locked memory",
        ),
        pytest.param(
            roce_host().with_port(nldev_state=PortState.DOWN),
            Reason.WITNESSES_DISAGREE,
            id="sources that disagree",
        ),
    ],
)
def test_one_change_is_one_reason(machine: Machine, reason: Reason) -> None:
    assert reasons(machine) == [reason]
    assert judge(machine.evidence()).ports[0].safe_to_attempt_rtr is False


def test_one_ready_port_is_enough_for_the_host() -> None:
    verdict = judge(infiniband_host().with_port(0, 0, state=PortState.DOWN).evidence())
    assert [port.safe_to_attempt_rtr for port in verdict.ports] == [False, True]
    assert verdict.safe_to_attempt_rtr is True


def test_the_partition_key_that_an_attempt_uses_is_in_the_verdict() -> None:
    machine = infiniband_host().with_port(0, 0, pkeys=(0x7FFF, 0x8001))
    ports = judge(machine.evidence()).ports
    assert [(port.pkey_index, port.pkey) for port in ports] == [(0, "0x7fff"), (0, "0xffff")]
    (roce,) = judge(roce_host().evidence()).ports
    assert (roce.pkey_index, roce.pkey) == (None, None)


def test_the_hosts_reason_is_that_nothing_is_against_it() -> None:
    assert judge(roce_host().evidence()).reasons == (Reason.READ_ONLY_PREFLIGHT,)


def test_where_no_port_may_the_host_has_the_reasons_of_each() -> None:
    machine = infiniband_host().with_port(0, 0, state=PortState.DOWN).with_port(1, 0, lid=0)
    verdict = judge(machine.evidence())
    assert verdict.safe_to_attempt_rtr is False
    assert verdict.reasons == (Reason.PORT_NOT_ACTIVE, Reason.NO_LID)


UNREAD = Missing(Why.TIMEOUT, "late")


@pytest.mark.parametrize(
    ("evidence", "reasons"),
    [
        (Machine("bare").evidence(), (Reason.NO_RDMA_PORT,)),
        (replace(Machine("bare").evidence(), sysfs=UNREAD), (Reason.PORTS_UNKNOWN,)),
        (roce_host().with_device(ports=()).evidence(), (Reason.PORTS_UNKNOWN,)),
        (
            roce_host().change(nodes={}).with_device(ports=()).evidence(),
            (Reason.UVERBS_NODE_MISSING, Reason.PORTS_UNKNOWN),
        ),
    ],
    ids=["no device", "sysfs not read", "a device without a port", "one without a node too"],
)
def test_a_host_without_ports_may_attempt_nothing_and_says_why(
    evidence: Evidence, reasons: tuple[Reason, ...]
) -> None:
    verdict = judge(evidence)
    assert (verdict.safe_to_attempt_rtr, verdict.reasons) == (False, reasons)


def port_with(evidence: Evidence, **changes: object) -> Evidence:
    """The same evidence by sysfs alone, its one port changed."""
    assert not isinstance(evidence.sysfs, Missing)
    device = evidence.sysfs.devices[0]  # type: ignore[index]
    port = replace(device.ports[0], **changes)
    sysfs = replace(evidence.sysfs, devices=(replace(device, ports=(port,)),))
    nobody = Missing(Why.NOT_COLLECTED)
    return replace(evidence, sysfs=sysfs, nldev=nobody, verbs=nobody)


@pytest.mark.parametrize(
    ("evidence", "reason"),
    [
        pytest.param(
            port_with(roce_host().evidence(), state=Missing(Why.DENIED)),
            Reason.STATE_UNKNOWN,
            id="the state",
        ),
        pytest.param(
            port_with(roce_host().evidence(), gids=Missing(Why.TIMEOUT)),
            Reason.GID_TABLE_UNKNOWN,
            id="the GID table",
        ),
        pytest.param(
            port_with(infiniband_host().evidence(), lid=Missing(Why.MALFORMED)),
            Reason.LID_UNKNOWN,
            id="the LID",
        ),
        pytest.param(
            port_with(roce_host().evidence(), link_layer=LinkLayer.UNSPECIFIED),
            Reason.LINK_LAYER_UNKNOWN,
            id="the link layer",
        ),
        pytest.param(
            port_with(roce_host().evidence(), link_layer=Missing(Why.DENIED)),
            Reason.LINK_LAYER_UNKNOWN,
            id="the link layer, refused",
        ),
    ],
)
def test_what_could_not_be_read_is_a_reason_of_its_own(evidence: Evidence, reason: Reason) -> None:
    assert reasons(evidence) == [reason]
    assert reason in FOR_LACK_OF_EVIDENCE


def test_a_table_with_no_readable_row_is_not_called_empty() -> None:
    evidence = roce_host().evidence()
    table = evidence.sysfs.devices[0].ports[0].gids  # type: ignore[union-attr, index]
    unread = replace(table, entries=(), unreadable={0: Missing(Why.DENIED)})
    assert reasons(port_with(evidence, gids=unread)) == [Reason.GID_TABLE_UNKNOWN]


def test_what_was_not_looked_at_beyond_the_port_does_not_forbid() -> None:
    # An unknown node or limit makes an attempt fail before RTR, and harms nothing.
    evidence = replace(infiniband_host().evidence(), process=Missing(Why.NOT_COLLECTED))
    assert reasons(evidence) == []


def test_thunderbolt_refuses_index_0() -> None:
    evidence = port_with(roce_host().evidence(), link_layer=LinkLayer.THUNDERBOLT)
    table = evidence.sysfs.devices[0].ports[0].gids  # type: ignore[union-attr, index]
    first = replace(table, entries=table.entries[:1])
    assert Reason.NO_ROUTE_GID in reasons(port_with(evidence, gids=first))
    assert Reason.NO_ROUTE_GID not in reasons(evidence)


def test_every_reason_has_a_sentence() -> None:
    assert set(REASON_TEXT) == set(Reason)
    assert all(code == code.lower() and " " not in code for code in Reason)


def test_a_verdict_cannot_contradict_itself() -> None:
    machines = (roce_host(), roce_host().with_port(gids={}), infiniband_host().with_port(lid=0))
    for machine in machines:
        verdict: Verdict = judge(machine.evidence())
        for port in verdict.ports:
            assert port.safe_to_attempt_rtr is (not port.reasons)
        permitted = any(port.safe_to_attempt_rtr for port in verdict.ports)
        assert verdict.safe_to_attempt_rtr is permitted
        assert permitted is (verdict.reasons == (Reason.READ_ONLY_PREFLIGHT,))
