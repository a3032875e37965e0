"""devlink: replies by the kernel's own names, of described drivers, and damaged ones."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from lab.linked import Devlink
from lab.machine import Machine
from lab.samples import roce_host
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.devlink import (
    DevlinkDevice,
    DevlinkFacts,
    EswitchMode,
    Info,
    ParamMode,
    ParamValue,
    Reporter,
    ReporterState,
    Version,
)
from rdmadiag.host import netlink
from rdmadiag.sources.devlink import (
    parse_eswitch,
    parse_info,
    parse_param,
    parse_reporters,
    read_devlink,
)
from tests.conftest import MemoryHost
from tests.verbs.conftest import compile_c  # noqa: F401  # a fixture

PCI = "0000:08:00.0"
PARSERS = (parse_reporters, parse_info, parse_param, parse_eswitch)


def read(machine: Machine) -> DevlinkFacts:
    found = read_devlink(machine.host(), time.monotonic() + 5)
    assert isinstance(found, DevlinkFacts)
    return found


def only(devlink: Devlink | Missing) -> DevlinkDevice:
    (device,) = read(roce_host().change(devlink={PCI: devlink})).devices
    return device


# --- messages ----------------------------------------------------------------------------


def test_replies_by_the_kernels_names_are_read_field_by_field(
    compile_c: Callable[..., Path],  # noqa: F811  # the fixture
) -> None:
    oracle = compile_c(Path(__file__).with_name("devlink_oracle.c"))
    raw = subprocess.run([oracle], capture_output=True, check=True).stdout
    replies = [raw[each.offset : each.offset + each.length] for each in netlink.messages(raw)]
    reporters, info, param, eswitch = (
        parse(reply) for parse, reply in zip(PARSERS, replies, strict=True)
    )
    assert reporters == {
        ("pci", PCI): (Reporter("tx", 1, ReporterState.ERROR, errors=7, recoveries=6),)
    }
    assert info == Info(
        "mlx5_core",
        fixed=(Version("fw.psid", "MT_1"),),
        running=(Version("fw.version", "1.2.3"), Version("fw", "1.2.3")),
        stored=(Version("fw.version", "1.2.4"),),
    )
    assert "secret" not in str(info), "a serial number is in no report"
    assert param == (ParamValue(ParamMode.RUNTIME, True), ParamValue(ParamMode.DRIVERINIT, False))
    assert eswitch is EswitchMode.SWITCHDEV


def test_a_parameter_that_is_a_number_is_malformed() -> None:
    value = netlink.attribute(80, netlink.attribute(83, b"\3"))
    body = netlink.GENERIC_HEADER.pack(38, 1, 0) + value
    assert parse_param(netlink.request(22, 0, body)) == Missing(
        Why.MALFORMED, "a parameter that is no flag"
    )


@given(st.binary(max_size=300), st.sampled_from([80, 100, 114]))
def test_no_bytes_raise(raw: bytes, kind: int) -> None:
    for body in (raw, netlink.attribute(1, b"pci\0") + netlink.attribute(kind, raw)):
        for parse in PARSERS:
            parse(raw)
            parse(netlink.request(22, 0, netlink.GENERIC_HEADER.pack(52, 1, 0) + body))


@given(
    st.lists(
        st.tuples(
            st.text("abc_", min_size=1, max_size=8),
            st.integers(0, 1),
            st.integers(0, 2**64 - 1),
            st.integers(0, 2**64 - 1),
        )
    )
)
def test_what_is_written_is_read_back(rows: list[tuple[str, int, int, int]]) -> None:
    found = parse_reporters(Devlink(reporters=tuple(rows)).listed(PCI))
    assert not isinstance(found, Missing)
    assert [
        (each.name, getattr(each.state, "number", None), each.errors, each.recoveries)
        for each in found.get(("pci", PCI), ())
    ] == rows


# --- reading -----------------------------------------------------------------------------


def test_a_pci_function_is_read_and_what_its_driver_refuses_is_unsupported() -> None:
    found = only(Devlink(iwarp=None, eswitch=None))
    assert (found.bus, found.name, found.devices) == ("pci", PCI, ("mlx5_0",))
    assert found.enable_roce == (ParamValue(ParamMode.DRIVERINIT, True),)
    for value in (found.enable_iwarp, found.eswitch):
        assert isinstance(value, Missing)
        assert value.why is Why.UNSUPPORTED
    assert isinstance(found.reporters, tuple)
    assert [each.name for each in found.reporters] == ["fw", "fw_fatal"]


def test_of_the_dump_only_the_reporters_of_rdma_devices_are_kept() -> None:
    recording = roce_host().change(devlink={PCI: Devlink(reporters=())}).recording()
    recording.netlink["devlink-health-reporters"] = Devlink().listed("0000:99:00.0")
    found = read_devlink(MemoryHost(recording), time.monotonic() + 5)
    assert isinstance(found, DevlinkFacts)
    assert found.devices[0].reporters == ()


def test_a_kernel_without_devlink_is_unsupported() -> None:
    recording = roce_host().change(devlink={}).recording()
    recording.netlink["genl-families"] = b""
    host = MemoryHost(recording)
    found = read_devlink(host, time.monotonic() + 5)
    assert isinstance(found, DevlinkFacts)
    assert found.devices[0].reporters == Missing(Why.UNSUPPORTED, "no devlink netlink")
    assert ("netlink", "devlink-health-reporters") not in host.asked


def test_software_stands_on_what_its_netdev_stands_on() -> None:
    machine = roce_host().with_device(parent="ens1f0np0").change(devlink={})
    assert read(machine).devices == ()
    recording = machine.recording()
    folder = "/sys/class/net/ens1f0np0/device"
    recording.links[folder] = "../../../mlx5_core.sf.2"
    recording.links[f"{folder}/subsystem"] = "../../../../bus/auxiliary"
    found = read_devlink(MemoryHost(recording), time.monotonic() + 5)
    assert isinstance(found, DevlinkFacts)
    (device,) = found.devices
    assert (device.bus, device.name) == ("auxiliary", "mlx5_core.sf.2")
    assert device.devices == ("mlx5_0",)


def test_a_host_without_a_device_has_nothing_to_read() -> None:
    assert read_devlink(Machine("host").host(), time.monotonic() + 5) == DevlinkFacts(())
