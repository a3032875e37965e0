"""Configuration space of adapters, GPUs and bridges; expected values are of linux/pci_regs.h."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.gpus import Card
from lab.machine import Machine
from lab.pci import DOWNSTREAM, UPSTREAM, Space, bridge, gpu
from lab.samples import gpu_host, roce_host
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.pci import ACS_BITS, Acs, AcsBit, Cpu, Express, Part, PortKind, Role
from rdmadiag.facts.topology import Place
from rdmadiag.host.live import LiveHost
from rdmadiag.sources import pci
from rdmadiag.sources.pci import read_pci

DEVICE = "/sys/bus/pci/devices"
AT = "0000:08:00.0"
ROOT = "0000:00:01.0"


def configuration(*capabilities: tuple[int, int, bytes], express: bytes = b"") -> bytes:
    """A header, PCI Express at 0x70, and extended capabilities: (offset, id, bytes behind)."""
    space = bytearray(4096)
    struct.pack_into("<HHHH", space, 0, 0x15B3, 0x1021, 0, 0x0010 if express else 0)
    space[0x34], space[0x70:0x72] = 0x70, b"\x10\x00"
    space[0x72 : 0x72 + len(express)] = express
    following = [at for at, *_ in capabilities[1:]] + [0]
    for (at, number, behind), after in zip(capabilities, following, strict=False):
        struct.pack_into("<I", space, at, number | 1 << 16 | after << 20)
        space[at + 4 : at + 4 + len(behind)] = behind
    return bytes(space)


def express(flags: int, can: int, control: int) -> bytes:
    return configuration(express=struct.pack("<HIH", flags, can, control))


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(
            express(0x0002, 0x00008FE2, 0x5930),
            Express(PortKind.ENDPOINT, 512, 256, 4096, True, True, True),
            id="an endpoint with 4096 bytes",
        ),
        pytest.param(
            express(0x0142, 0x00008001, 0x0000),
            Express(PortKind.ROOT_PORT, 256, 128, 128, False, False, False),
            id="a root port with nothing set",
        ),
        pytest.param(
            express(0x0052, 0, 0x2810),
            Express(PortKind.UPSTREAM_PORT, 128, 128, 512, True, True, False),
            id="as after reset",
        ),
        pytest.param(
            express(0x0062, 0, 0x0100),
            Express(PortKind.DOWNSTREAM_PORT, 128, 128, 128, False, False, True),
            id="extended tags alone",
        ),
    ],
)
def test_what_device_control_says(raw: bytes, expected: Express) -> None:
    assert pci.parse_express(raw) == expected


def test_sizes_and_kinds_that_the_specification_has_not_are_malformed() -> None:
    found = pci.parse_express(express(0x00F2, 0x7, 0x70E0))
    values = (found.kind, found.payload_supported, found.payload, found.read_request)
    assert [each.why for each in values] == [Why.MALFORMED] * 4


@pytest.mark.parametrize("number", range(7))
def test_each_bit_of_access_control_has_its_name(number: int) -> None:
    behind = struct.pack("<HH", 1 << number, 0x7F ^ 1 << number)
    found = pci.parse_acs(configuration((0x100, 0xD, behind), express=bytes(8)))
    others = tuple(bit for bit in ACS_BITS if bit is not ACS_BITS[number])
    assert found == Acs((ACS_BITS[number],), others)


def test_the_numbers_of_the_bits_are_those_of_the_register() -> None:
    assert [ACS_BITS.index(bit) for bit in AcsBit] == list(range(7))
    assert ACS_BITS[2] is AcsBit.REQUEST_REDIRECT
    assert ACS_BITS[6] is AcsBit.DIRECT_TRANSLATED


@pytest.mark.parametrize(
    ("raw", "parse", "expected"),
    [
        pytest.param(bytes(4096), pci.parse_express, Why.ABSENT, id="conventional PCI"),
        pytest.param(express(2, 0, 0), pci.parse_acs, Why.ABSENT, id="no ACS"),
        pytest.param(express(2, 0, 0)[:256], pci.parse_ats, Why.ABSENT, id="256 bytes, no ATS"),
        pytest.param(express(2, 0, 0)[:64], pci.parse_express, Why.DENIED, id="a user, Express"),
        pytest.param(express(2, 0, 0)[:64], pci.parse_acs, Why.DENIED, id="a user, ACS"),
        pytest.param(bytes(64), pci.parse_acs, Why.ABSENT, id="a user, no capability at all"),
        pytest.param(b"\xff" * 4096, pci.parse_express, Why.MALFORMED, id="it does not answer"),
        pytest.param(b"\xff" * 64, pci.parse_acs, Why.MALFORMED, id="the same, of a user"),
        pytest.param(b"", pci.parse_express, Why.MALFORMED, id="nothing"),
        pytest.param(express(2, 0, 0)[:0x78], pci.parse_express, Why.MALFORMED, id="cut off"),
        pytest.param(
            configuration((0xFFC, 0xD, b""), express=bytes(8))[:0x104],
            pci.parse_acs,
            Why.ABSENT,
            id="a list that is cut off",
        ),
    ],
)
def test_what_is_not_there_says_why(raw: bytes, parse, expected: Why) -> None:
    found = parse(raw)
    assert isinstance(found, Missing)
    assert found.why is expected


@pytest.mark.parametrize(("control", "enabled"), [(0x8000, True), (0x0005, False)])
def test_address_translation(control: int, enabled: bool) -> None:
    behind = struct.pack("<HH", 0x20, control)
    raw = configuration((0x100, 1, b""), (0x150, 0xF, behind), express=bytes(8))
    assert pci.parse_ats(raw) is enabled


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"cpu:type:x86,ven0002fam0019mod0001:feature:,0000\n", Cpu(2, 0x19, 1)),
        (b"cpu:type:x86,ven0000fam0006mod00CF:feature:,0000\n", Cpu(0, 6, 0xCF)),
        (b"cpu:type:aarch64:feature:,0000\n", Why.UNSUPPORTED),
        (b"cpu:type:x86,ven2\n", Why.MALFORMED),
        (b"", Why.MALFORMED),
    ],
)
def test_which_processor_it_is(raw: bytes, expected: Cpu | Why) -> None:
    found = pci.parse_cpu(raw)
    assert (found.why if isinstance(found, Missing) else found) == expected


@given(st.binary(max_size=600) | st.binary(max_size=64).map(lambda raw: (raw * 64)[:4096]))
def test_any_configuration_space_is_an_answer(raw: bytes) -> None:
    assert isinstance(pci.parse_express(raw), Express | Missing)
    assert isinstance(pci.parse_acs(raw), Acs | Missing)
    assert isinstance(pci.parse_ats(raw), bool | Missing)
    assert isinstance(pci.parse_cpu(raw), Cpu | Missing)


@given(
    st.integers(0, 0x7F),
    st.sampled_from([128 << code for code in range(6)]),
    st.sampled_from([128 << code for code in range(6)]),
    st.booleans(),
    st.booleans(),
)
def test_what_was_written_down_is_read_back(
    control: int, payload: int, request: int, relaxed: bool, ats: bool
) -> None:
    space = Space(
        payload=payload, read_request=request, relaxed_ordering=relaxed, acs=control, ats=ats
    )
    raw = space.content()
    found = pci.parse_express(raw)
    assert (found.payload, found.read_request) == (payload, request)
    assert found.relaxed_ordering is relaxed
    bits = tuple(bit for number, bit in enumerate(ACS_BITS) if control >> number & 1)
    assert pci.parse_acs(raw).enabled == bits
    assert pci.parse_ats(raw) is ats


# --- reading ---------------------------------------------------------------------------------


def configs(host) -> list[str]:
    return [path for question, path in host.asked if question == "pci_config"]


def by_address(machine: Machine):
    return {each.address: each for each in read_pci(machine.host()).functions}


def test_the_adapter_and_what_is_above_it_are_read(host_in_memory) -> None:
    host = host_in_memory(roce_host().with_pci().recording())
    adapter, root = read_pci(host).functions
    assert (adapter.role, adapter.address, adapter.vendor) == (Role.ADAPTER, AT, "0x15b3")
    assert adapter.place == Place("pci0000:00", (ROOT,))
    assert (root.role, root.express.kind) == (Role.BRIDGE, PortKind.ROOT_PORT)
    assert root.place == Place("pci0000:00", ())
    assert adapter.iommu_group == AT
    assert configs(host) == [f"{DEVICE}/{AT}/config", f"{DEVICE}/{ROOT}/config"]


def test_gpus_and_each_bridge_are_read_once(host_in_memory) -> None:
    host = host_in_memory(gpu_host().with_pci().recording())
    found = read_pci(host).functions
    assert len(configs(host)) == len(set(configs(host))) == len(found)
    roles = [each.role for each in found]
    # Of each of four rails a GPU, a root port, and a switch's port up and two down; and the
    # adapter for management below a root port of its own.
    assert (roles.count(Role.GPU), roles.count(Role.ADAPTER)) == (4, 5)
    assert roles.count(Role.BRIDGE) == 4 * 4 + 1


def test_a_host_without_an_adapter_on_the_bus_is_not_read(host_in_memory) -> None:
    recording = gpu_host().with_pci().recording()
    recording.listings["/sys/class/infiniband"] = ()
    host = host_in_memory(recording)
    assert read_pci(host).functions == ()
    assert configs(host) == []


@pytest.mark.parametrize("state", ["suspended", "suspending"])
def test_what_is_suspended_is_not_woken(state: str, host_in_memory) -> None:
    recording = gpu_host().with_pci().recording()
    asleep = "0000:1b:00.0"
    recording.files[f"{DEVICE}/{asleep}/power/runtime_status"] = f"{state}\n".encode()
    host = host_in_memory(recording)
    found = {each.address: each for each in read_pci(host).functions}[asleep]
    assert found.express == found.acs == found.ats
    assert found.express == Missing(Why.NOT_COLLECTED, f"{asleep} is {state}, and is not woken")
    assert (found.vendor, found.role) == ("0x10de", Role.GPU)
    assert f"{DEVICE}/{asleep}/config" not in configs(host)


def test_what_is_below_a_suspended_bridge_is_not_read_which_would_wake_the_bridge(
    host_in_memory,
) -> None:
    recording = roce_host().with_pci().recording()
    recording.files[f"{DEVICE}/{ROOT}/power/runtime_status"] = b"suspended\n"
    host = host_in_memory(recording)
    adapter, root = read_pci(host).functions
    assert adapter.express.detail == root.express.detail == f"{ROOT} is suspended, and is not woken"
    assert configs(host) == []


def test_where_it_is_not_known_whether_it_sleeps_it_is_not_read(host_in_memory) -> None:
    recording = roce_host().with_pci().recording()
    denied = Missing(Why.DENIED, "EACCES")
    recording.refuse("read", f"{DEVICE}/{AT}/power/runtime_status", denied)
    host = host_in_memory(recording)
    assert read_pci(host).functions[0].express is denied
    del recording.refused["read"]
    del recording.files[f"{DEVICE}/{AT}/power/runtime_status"]  # a kernel without CONFIG_PM
    assert isinstance(read_pci(host_in_memory(recording)).functions[0].express, Express)


def test_a_user_is_given_the_header_alone_which_is_not_off() -> None:
    found = by_address(roce_host().with_pci(adapter=Space().content()[:64]))[AT]
    assert (found.express.why, found.acs.why, found.ats.why) == (Why.DENIED,) * 3


def test_an_older_record_has_not_collected_it() -> None:
    found = by_address(roce_host().change(pci={}))[AT]
    assert (found.express.why, found.acs.why) == (Why.NOT_COLLECTED,) * 2


def test_of_a_virtual_function_the_physical_one_is_read(host_in_memory) -> None:
    recording = roce_host().with_pci(adapter=Space(read_request=4096)).recording()
    recording.links["/sys/class/infiniband/mlx5_0/device"] = "../../../0000:08:00.2"
    recording.links[f"{DEVICE}/0000:08:00.2"] = f"../../../devices/pci0000:00/{ROOT}/0000:08:00.2"
    recording.links[f"{DEVICE}/0000:08:00.2/physfn"] = f"../{AT}"
    host = host_in_memory(recording)
    own = read_pci(host).functions[0]
    assert (own.address, own.express.read_request) == (AT, 4096)
    assert f"{DEVICE}/0000:08:00.2/config" not in configs(host)


GRACE = "0001:00:00.0"


def data_direct() -> Machine:
    """Grace: the adapter below a root port, its data direct function below that of the GPU."""
    usp, port, nested = "0001:01:00.0", "0001:02:00.0", "0001:02:01.0"
    below = (GRACE, usp, nested, "0001:04:00.0", "0001:05:00.0")
    cards = (
        Card("0001:06:00.0", root="pci0001:00", bridges=below),
        Card("0001:03:00.0", ("0x15b3", "0x2100", "0x080100"), 0, "pci0001:00", (GRACE, usp, port)),
    )
    switch = Space(vendor=0x15B3, device=0x197C, acs=0x1D)
    machine = roce_host().change(cards=cards)
    return machine.with_pci(
        bridge=switch,
        _0001_00_00_0=bridge(vendor=0x10DE, device=0x22B1, acs=0x1C),
        _0001_03_00_0=Space(device=0x2100),
        _0001_06_00_0=gpu(),
        _0001_01_00_0=bridge(UPSTREAM, None, vendor=0x15B3, device=0x197C),
        _0001_02_00_0=bridge(DOWNSTREAM, 0x19, vendor=0x15B3, device=0x197C),
    )


def test_data_direct_is_looked_for_below_the_root_ports_of_grace() -> None:
    found = by_address(data_direct())
    assert found[GRACE].part is Part.GRACE_ROOT_PORT
    own = found["0001:03:00.0"]
    assert (own.role, own.part) == (Role.DATA_DIRECT, Part.DATA_DIRECT)
    assert own.place.bridges[-1] == "0001:02:00.0"
    assert found["0001:02:00.0"].role is Role.BRIDGE
    assert list(found).count("0001:01:00.0") == 1


def test_this_machine_can_be_read() -> None:
    found = read_pci(LiveHost())
    assert isinstance(found.functions, tuple | Missing)


def test_a_record_says_what_the_host_said(save) -> None:
    machine = data_direct()
    assert read_pci(save(machine.snapshot())) == read_pci(machine.host())
