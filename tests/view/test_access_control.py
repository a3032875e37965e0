"""ACS of bridges: bits and masks are those of rdma-core's rdma_topo, compute_acs."""

from dataclasses import replace

import pytest

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.pci import ACS_BITS, Acs, AcsBit, PciConfig, PciFacts, Role
from rdmadiag.facts.topology import Place
from rdmadiag.view.access_control import AccessControl, Layout, Wanted, access_control

NONE = Missing(Why.ABSENT, "no such capability")
NO_CPU = Missing(Why.UNSUPPORTED, "")
ISOLATED, OPEN, REDIRECTED = 0x1D, 0x00, 0x04
GRACE, VERA = ("0x10de", "0x22b1"), ("0x10de", "0x2f95")
SWITCH, NIC, GPU = ("0x15b3", "0x197c"), ("0x15b3", "0x1023"), ("0x10de", "0x2941")
PLX, INTEL = ("0x1000", "0xc030"), ("0x8086", "0x352a")
DATA_DIRECT = ("0x15b3", "0x2100")


def acs(control: int) -> Acs:
    return Acs(ACS_BITS, tuple(bit for at, bit in enumerate(ACS_BITS) if control >> at & 1))


def function(
    address: str,
    ids: tuple[str, str],
    *above: str,
    role: Role = Role.BRIDGE,
    control: int | Missing = NONE,
    ats: bool | Missing = NONE,
    group: str | Missing = NONE,
) -> PciConfig:
    bits = control if isinstance(control, Missing) else acs(control)
    return PciConfig(address, role, Place("pci", above), *ids, NONE, bits, ats, group)


def judged(*functions: PciConfig) -> AccessControl:
    return access_control(PciFacts(functions, NO_CPU))


def masks(found: AccessControl) -> dict[str, str]:
    return {each.bridge.address: each.wanted.text for each in found.bridges}


def with_acs(functions: tuple[PciConfig, ...], **controls: int) -> tuple[PciConfig, ...]:
    """The same functions, of some of which ACS is another."""
    return tuple(
        replace(each, acs=acs(controls[each.address])) if each.address in controls else each
        for each in functions
    )


# --- below the switch of another maker -------------------------------------------------------


def below_a_switch(control: int, ats: bool | Missing = NONE) -> tuple[PciConfig, ...]:
    return (
        function("gpu", GPU, "rp", "usp", "dsp1", role=Role.GPU, ats=ats),
        function("nic", NIC, "rp", "usp", "dsp0", role=Role.ADAPTER, ats=ats),
        function("rp", INTEL, control=ISOLATED),
        function("usp", PLX, "rp"),
        function("dsp0", PLX, "rp", "usp", control=control),
        function("dsp1", PLX, "rp", "usp", control=control),
    )


def test_ports_that_redirect_are_named_and_the_root_port_above_them_is_not() -> None:
    found = judged(*below_a_switch(ISOLATED))
    assert found.layout is Layout.SWITCH
    assert masks(found) == {"dsp0": "xxx00xx", "dsp1": "xxx00xx"}
    assert found.bridges[0].wanted.value_and_mask == (0x0000, 0x000C)
    assert found.bridges[0].excess == (AcsBit.REQUEST_REDIRECT, AcsBit.COMPLETION_REDIRECT)


@pytest.mark.parametrize("control", [OPEN, 0x01, 0x11], ids=["none", "SV", "SV UF"])
def test_ports_that_do_not_redirect_are_right(control: int) -> None:
    assert judged(*below_a_switch(control)).bridges == ()


def test_translated_requests_that_may_pass_are_not_redirected() -> None:
    assert judged(*below_a_switch(ISOLATED | 0x40, ats=True)).bridges == ()
    assert len(judged(*below_a_switch(ISOLATED | 0x40, ats=False)).bridges) == 2
    assert len(judged(*below_a_switch(ISOLATED, ats=True)).bridges) == 2


def test_each_end_is_judged_by_its_own_port() -> None:
    functions = with_acs(below_a_switch(OPEN), dsp1=REDIRECTED)
    assert set(masks(judged(*functions))) == {"dsp1"}


def test_of_switches_behind_each_other_the_ports_of_the_shared_one_count() -> None:
    found = judged(
        function("gpu", GPU, "rp", "usp", "dsp1", "usp2", "dsp2", role=Role.GPU),
        function("nic", NIC, "rp", "usp", "dsp0", role=Role.ADAPTER),
        *(function(name, PLX, control=ISOLATED) for name in ("rp", "dsp0", "dsp1", "dsp2")),
    )
    assert set(masks(found)) == {"dsp0", "dsp1"}


@pytest.mark.parametrize(
    "gpu_above", [("rp2",), ("rp",), ()], ids=["two root ports", "one root port", "no bridge"]
)
def test_without_a_shared_switch_there_is_nothing_to_say(gpu_above: tuple[str, ...]) -> None:
    found = judged(
        function("gpu", GPU, *gpu_above, role=Role.GPU),
        function("nic", NIC, "rp", role=Role.ADAPTER),
        function("rp", INTEL, control=ISOLATED),
        function("rp2", INTEL, control=ISOLATED),
    )
    assert found.bridges == ()


def test_a_bridge_that_was_not_read_is_not_judged() -> None:
    denied = Missing(Why.DENIED, "for root")
    functions = tuple(replace(each, acs=denied) for each in below_a_switch(ISOLATED))
    assert judged(*functions).bridges == ()


# --- ConnectX-8 and Grace: data direct -------------------------------------------------------


def data_direct(group: str = "1", other: str | Missing = "1") -> tuple[PciConfig, ...]:
    """The healthy host: masks in rdma_topo are xx110x1, xx101x1 and xx111x0, others xx111x1."""
    nested = ("rp", "usp", "dsp1", "usp2", "dsp2")
    return (
        function("dma", DATA_DIRECT, "rp", "usp", "dsp0", role=Role.DATA_DIRECT, group=group),
        function("gpu", GPU, *nested, role=Role.GPU, group=other),
        function("nic", NIC, "rp2", role=Role.ADAPTER, group="9"),
        function("rp", GRACE, control=0b0011100),
        function("rp2", GRACE, control=ISOLATED),
        function("usp", SWITCH, "rp"),
        function("dsp0", SWITCH, "rp", "usp", control=0b0011001),
        function("dsp1", SWITCH, "rp", "usp", control=0b0010101),
        function("usp2", SWITCH, *nested[:3]),
        function("dsp2", SWITCH, *nested[:4], control=ISOLATED),
    )


def test_data_direct_as_it_must_be() -> None:
    found = judged(*data_direct())
    assert found == AccessControl(Layout.DATA_DIRECT, (), ())


def test_data_direct_with_all_of_acs_cleared_is_wrong_everywhere() -> None:
    bridges = ("rp", "rp2", "dsp0", "dsp1", "dsp2")
    found = judged(*with_acs(data_direct(), **dict.fromkeys(bridges, OPEN)))
    assert masks(found) == {
        "rp": "xx111x0",
        "rp2": "xx111x1",
        "dsp0": "xx110x1",
        "dsp1": "xx101x1",
        "dsp2": "xx111x1",
    }


def test_data_direct_as_the_kernel_sets_it_by_itself() -> None:
    bridges = ("rp", "rp2", "dsp0", "dsp1", "dsp2")
    found = judged(*with_acs(data_direct(), **dict.fromkeys(bridges, ISOLATED)))
    assert {each.bridge.address: each.excess for each in found.bridges} == {
        "rp": (AcsBit.SOURCE_VALIDATION,),
        "dsp0": (AcsBit.REQUEST_REDIRECT,),
        "dsp1": (AcsBit.COMPLETION_REDIRECT,),
    }


@pytest.mark.parametrize("other", ["2", NONE], ids=["two groups", "one has none"])
def test_gpu_and_data_direct_function_must_share_a_group(other: str | Missing) -> None:
    (found,) = judged(*data_direct(other=other)).groups
    assert found.must_share
    assert [each.address for each in found.functions] == ["dma", "gpu"]


def test_groups_that_were_not_read_are_not_judged() -> None:
    unread = Missing(Why.NOT_COLLECTED, "")
    assert judged(*data_direct(other=unread)).groups == ()


def test_data_direct_in_an_unknown_place_is_not_judged() -> None:
    functions = with_acs(data_direct(), dsp0=OPEN)
    second = function("gpu2", GPU, "rp", "usp", "dsp1", "usp2", "dsp3", role=Role.GPU)
    assert judged(*functions, second) == AccessControl(Layout.DATA_DIRECT, (), ())


# --- GPUs below the switch of a ConnectX -----------------------------------------------------


def inline(
    ats: bool | Missing, control: int, nic_control: int | None = None, **groups: str
) -> tuple[PciConfig, ...]:
    nested = ("rp", "usp", "dsp1", "usp2", "dsp2")
    own = control if nic_control is None else nic_control
    nic, gpu = groups.get("nic", "1"), groups.get("gpu", "1")
    return (
        function("gpu", GPU, *nested, role=Role.GPU, group=gpu),
        function("nic", NIC, "rp", "usp", "dsp0", role=Role.ADAPTER, ats=ats, group=nic),
        function("rp", INTEL, control=control),
        function("usp", SWITCH, "rp"),
        function("dsp0", SWITCH, "rp", "usp", control=own),
        function("dsp1", SWITCH, "rp", "usp", control=control),
        function("usp2", SWITCH, *nested[:3]),
        function("dsp2", SWITCH, *nested[:4], control=control),
    )


def test_without_address_translation_all_is_open() -> None:
    assert judged(*inline(NONE, OPEN)) == AccessControl(Layout.INLINE, (), ())
    found = judged(*inline(NONE, ISOLATED))
    assert masks(found) == dict.fromkeys(("rp", "dsp0", "dsp1", "dsp2"), "xx000x0")


def test_with_address_translation_all_is_isolated_and_translated_requests_pass() -> None:
    healthy = inline(True, ISOLATED, ISOLATED | 0x40, gpu="2")
    assert judged(*healthy) == AccessControl(Layout.INLINE_VIRTUAL, (), ())
    found = judged(*inline(False, OPEN, gpu="2"))
    isolated = dict.fromkeys(("rp", "dsp1", "dsp2"), "xx111x1")
    assert masks(found) == isolated | {"dsp0": "1x111x1"}


def test_whether_groups_must_differ_is_by_address_translation() -> None:
    (shared,) = judged(*inline(True, ISOLATED, ISOLATED | 0x40)).groups
    (apart,) = judged(*inline(NONE, OPEN, gpu="2")).groups
    assert (shared.must_share, apart.must_share) == (False, True)


def test_with_adapters_of_both_kinds_nothing_is_said() -> None:
    first = inline(NONE, ISOLATED)
    second = tuple(
        replace(
            each,
            address=f"b-{each.address}",
            place=Place("pci", tuple(f"b-{at}" for at in each.place.bridges)),
            ats=True if each.role is Role.ADAPTER else each.ats,
        )
        for each in first
    )
    assert judged(*first, *second).bridges == ()


# --- right below root ports of Grace or Vera -------------------------------------------------


@pytest.mark.parametrize(
    ("ids", "right", "text"), [(GRACE, 0x1D, "xx111x1"), (VERA, 0x15, "xx101x1")]
)
def test_root_ports_are_isolated(ids: tuple[str, str], right: int, text: str) -> None:
    functions = (
        function("gpu", GPU, "rp", role=Role.GPU, group="1"),
        function("nic", NIC, "rp2", role=Role.ADAPTER, group="2"),
        function("rp", ids, control=right),
        function("rp2", ids, control=right),
    )
    assert judged(*functions) == AccessControl(Layout.ROOT_PORTS, (), ())
    assert masks(judged(*with_acs(functions, rp2=OPEN))) == {"rp2": text}


def test_a_mask_is_written_as_the_kernel_takes_it() -> None:
    wanted = Wanted(on=(AcsBit.DIRECT_TRANSLATED,), off=(AcsBit.SOURCE_VALIDATION,))
    assert wanted.text == "1xxxxx0"
    assert wanted.value_and_mask == (0x40, 0x41)


def below_root_ports(**changes: dict[str, object]) -> tuple[PciConfig, ...]:
    made = (
        function("gpu", GPU, "rp", role=Role.GPU, group="1"),
        function("nic", NIC, "rp2", role=Role.ADAPTER, group="2"),
        function("rp", GRACE, control=ISOLATED),
        function("rp2", GRACE, control=ISOLATED),
    )
    return tuple(replace(each, **changes.get(each.address, {})) for each in made)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("group", "wrong"), [("1", ["nic", "gpu"]), (NONE, ["nic"])], ids=["shared", "none"]
)
def test_below_root_ports_each_is_in_a_group_of_its_own(
    group: str | Missing, wrong: list[str]
) -> None:
    (found,) = judged(*below_root_ports(nic={"iommu_group": group})).groups
    assert not found.must_share
    assert [each.address for each in found.functions] == wrong


def test_below_root_ports_groups_that_were_not_read_are_not_judged() -> None:
    unread = {"iommu_group": Missing(Why.DENIED, "")}
    assert judged(*below_root_ports(nic=unread, gpu=unread)).groups == ()


@pytest.mark.parametrize("ats", [True, False], ids=["on", "off"])
def test_below_root_ports_an_adapter_must_have_no_address_translation(ats: bool) -> None:
    (found,) = judged(*below_root_ports(nic={"ats": ats})).translating
    assert found.address == "nic"


def test_address_translation_that_was_not_read_is_not_judged() -> None:
    unread = {"ats": Missing(Why.DENIED, "")}
    assert judged(*below_root_ports(nic=unread)).translating == ()
