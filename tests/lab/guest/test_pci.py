"""Configuration space of QEMU's root ports, switch and functions, beside `lspci -vv`.

Which of them is the adapter, and which the GPU, is laid over the bus: see lab.pci_bus.
"""

import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab import pci_bus
from lab.attempt import until
from lab.pci_bus import DEVICES, setpci
from lab.samples import roce_host
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.pci import ACS_BITS, AcsBit, PciConfig, PortKind, Role
from rdmadiag.host.live import LiveHost
from rdmadiag.preflight.judge import judge
from rdmadiag.preflight.rules import access_control, pci
from rdmadiag.preflight.verdict import Finding
from rdmadiag.sources.pci import parse_acs, parse_ats, parse_express, read_pci
from rdmadiag.sources.run import read
from tests.lab.outcomes import note

pytestmark = pytest.mark.needs("PCI Express")

Run = Callable[..., Any]
SECONDS = 30.0
SOURCES = ("sysfs", "process", "system", "topology", "pci")
CODES = {each.code for each in (*pci.RULES, *access_control.RULES)}
KINDS = {
    "Endpoint": PortKind.ENDPOINT,
    "Legacy Endpoint": PortKind.LEGACY_ENDPOINT,
    "Root Port": PortKind.ROOT_PORT,
    "Upstream Port": PortKind.UPSTREAM_PORT,
    "Downstream Port": PortKind.DOWNSTREAM_PORT,
    "Root Complex Integrated Endpoint": PortKind.ROOT_COMPLEX_ENDPOINT,
}
ACS_WORDS = (
    *("SrcValid", "TransBlk", "ReqRedir", "CmpltRedir"),
    *("UpstreamFwd", "EgressCtrl", "DirectTrans"),
)
AFTER_RESET = "CAP_EXP+8.w=2810"  # relaxed ordering, no snoop, requests of 512 bytes


@dataclass(frozen=True)
class Bus:
    """The functions that are looked at."""

    adapter: str
    gpu: str
    translating: str  # virtio-net with ATS


@pytest.fixture(scope="module")
def bus(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bus]:
    """mlx5_0 on an Ethernet function below the switch, and a GPU on the other."""
    assert run(["modprobe", "ib_core"], timeout=SECONDS).returncode == 0
    adapter, gpu = pci_bus.functions(*pci_bus.ETHERNET)
    (translating,) = pci_bus.functions("0x1af4", "0x1041")
    with pci_bus.laid_over(roce_host(), adapter, gpu, tmp_path_factory.mktemp("over")):
        yield Bus(adapter, gpu, translating)


@pytest.fixture
def adapter(bus: Bus, tmp_path: Path) -> Iterator[str]:
    """The adapter with registers that can be set, as after reset."""
    with pci_bus.settable(bus.adapter, tmp_path):
        setpci(bus.adapter, AFTER_RESET)
        yield bus.adapter


def evidence() -> Evidence:
    host, deadline = LiveHost(), time.monotonic() + SECONDS
    return Evidence(**{name: read(name, host, deadline) for name in SOURCES})


def findings() -> list[Finding]:
    made = [each for each in judge(evidence()).findings if each.rule in CODES]
    note(each.rule for each in made)
    return made


def found(address: str) -> PciConfig:
    functions = read_pci(LiveHost()).functions
    assert not isinstance(functions, Missing)
    (own,) = [each for each in functions if each.address == address]
    return own


# --- lspci ------------------------------------------------------------------------------------


def shown(run: Run, address: str) -> dict[str, Any]:
    """What `lspci -vv` says of a function, by our names."""
    text = run(["lspci", "-vv", "-s", address], timeout=SECONDS).stdout
    express = re.search(r"Express \(v\d\) ([A-Za-z ]+?)(?: \(Slot[+-]\))?, MSI", text)
    said: dict[str, Any] = {"kind": KINDS[express[1]] if express else None}
    if express:
        can = re.search(r"DevCap:\tMaxPayload (\d+) bytes", text)
        now = re.search(r"MaxPayload (\d+) bytes, MaxReadReq (\d+) bytes", text)
        assert can
        assert now
        said |= {"can": int(can[1]), "payload": int(now[1]), "request": int(now[2])}
        for word in ("RlxdOrd", "NoSnoop", "ExtTag"):
            sign = re.search(rf"DevCtl:.*?\b{word}([+-])", text, re.DOTALL)
            said[word] = sign is not None and sign[1] == "+"
    for line in ("ACSCap", "ACSCtl"):
        bits = re.search(rf"{line}:\t(.*)", text)
        said[line] = bits and tuple(
            bit
            for word, bit in zip(ACS_WORDS, ACS_BITS, strict=True)
            if f"{word}+" in bits[1].split()
        )
    enabled = re.search(r"ATSCtl:\tEnable([+-])", text)
    said["ats"] = enabled and enabled[1] == "+"
    return said


def ours(address: str) -> dict[str, Any]:
    """The same by our reader and parsers."""
    raw = LiveHost().pci_config(f"{DEVICES}/{address}/config")
    assert not isinstance(raw, Missing)
    express, acs, ats = parse_express(raw), parse_acs(raw), parse_ats(raw)
    said: dict[str, Any] = {"kind": None}
    if not isinstance(express, Missing):
        said = {
            "kind": express.kind,
            "can": express.payload_supported,
            "payload": express.payload,
            "request": express.read_request,
            "RlxdOrd": express.relaxed_ordering,
            "NoSnoop": express.no_snoop,
            "ExtTag": express.extended_tags,
        }
    bits = (None, None) if isinstance(acs, Missing) else (acs.supported, acs.enabled)
    said["ACSCap"], said["ACSCtl"] = bits
    said["ats"] = None if isinstance(ats, Missing) else ats
    for each in (express, acs, ats):
        assert not isinstance(each, Missing) or each.why is Why.ABSENT
    return said


def test_each_function_of_the_bus_is_read_as_lspci_reads_it(bus: Bus, run: Run) -> None:
    every = sorted(os.listdir(DEVICES))
    assert {address: ours(address) for address in every} == {
        address: shown(run, address) for address in every
    }
    kinds = {ours(address)["kind"] for address in every}
    ports = {PortKind.ROOT_PORT, PortKind.UPSTREAM_PORT, PortKind.DOWNSTREAM_PORT}
    assert kinds >= {None, PortKind.ENDPOINT} | ports
    assert ours(bus.translating)["ats"] is True, "the kernel enables it for the IOMMU"


def test_each_value_that_is_set_is_read_back_as_lspci_reads_it(
    bus: Bus, adapter: str, run: Run
) -> None:
    root = pci_bus.above(bus.translating)[0]
    for address, register, values in (
        (adapter, "CAP_EXP+8.w", ("0000", "5930", "2810", "0110", "4820", "3000", "1000")),
        (root, "ECAP_ACS+6.w", ("0000", "0001", "0004", "0008", "0010", "0040", "001d")),
    ):
        for value in values:
            setpci(address, f"{register}={value}")
            assert ours(address) == shown(run, address)
    assert (ours(adapter)["request"], ours(adapter)["RlxdOrd"]) == (256, False)
    assert ours(root)["ACSCtl"] == (
        AcsBit.SOURCE_VALIDATION,
        AcsBit.REQUEST_REDIRECT,
        AcsBit.COMPLETION_REDIRECT,
        AcsBit.UPSTREAM_FORWARDING,
    )


# --- the source and its rules ----------------------------------------------------------------


def test_adapter_gpu_and_the_bridges_above_them_are_read(bus: Bus) -> None:
    functions = read_pci(LiveHost()).functions
    assert not isinstance(functions, Missing)
    roles = {each.address: each.role for each in functions}
    bridges = {*pci_bus.above(bus.adapter), *pci_bus.above(bus.gpu)}
    assert roles == {bus.adapter: Role.ADAPTER, bus.gpu: Role.GPU} | dict.fromkeys(
        bridges, Role.BRIDGE
    )
    group = os.readlink(DEVICES / bus.adapter / "iommu_group").rpartition("/")[2]
    assert found(bus.adapter).iommu_group == group


def test_registers_that_are_reserved_say_nothing(bus: Bus) -> None:
    """As those of a virtual function, and of QEMU's own."""
    own = found(bus.adapter).express
    assert not isinstance(own, Missing)
    assert own.is_reserved
    assert findings() == []


def test_a_healthy_adapter_has_no_finding(adapter: str) -> None:
    assert findings() == []


@pytest.mark.parametrize(
    ("register", "rule"),
    [
        ("CAP_EXP+8.w=2800", "relaxed-ordering-off"),
        ("CAP_EXP+8.w=0810", "max-read-request-small"),
        ("CAP_EXP+8.w=1810", "max-read-request-small"),
    ],
)
def test_the_remedy_of_a_finding_ends_it(adapter: str, run: Run, register: str, rule: str) -> None:
    setpci(adapter, register)
    (finding,) = findings()
    assert (finding.rule, finding.device) == (rule, "mlx5_0")
    (line,) = [each for each in finding.remedy if "setpci" in each]
    words = shlex.split(line, comments=True)[1:]
    assert run(words, timeout=SECONDS).returncode == 0
    assert findings() == []
    assert ours(adapter) == shown(run, adapter)


def test_a_payload_above_that_of_the_switch_is_found(adapter: str) -> None:
    setpci(adapter, "CAP_EXP+8.w=2830")
    (finding,) = findings()
    assert (finding.rule, finding.severity.value) == ("max-payload-differs", "warn")


def test_a_port_that_redirects_is_found_until_it_does_not(bus: Bus) -> None:
    """QEMU's switch has no ACS: the registers of a root port stand where its port's would."""
    root = pci_bus.above(bus.translating)[0]
    port = pci_bus.above(bus.gpu)[-1]
    with ExitStack() as undo:
        pci_bus.mount(DEVICES / root / "config", DEVICES / port / "config", undo)
        setpci(root, "ECAP_ACS+6.w=001d")
        (finding,) = findings()
        assert (finding.rule, finding.severity.value) == ("acs-for-this-topology", "warn")
        (line,) = [each for each in finding.remedy if "setpci" in each]
        assert shlex.split(line, comments=True)[3] == port
        setpci(root, shlex.split(line, comments=True)[4])
        assert findings() == []
        setpci(root, "ECAP_ACS+6.w=001d")


# --- who may look, and what is left alone ----------------------------------------------------


AS_A_USER = """
from rdmadiag.host.live import LiveHost
from rdmadiag.sources.pci import read_pci
for each in read_pci(LiveHost()).functions:
    print(each.address, each.express.why, each.ats.why)
"""


def test_a_user_is_denied_what_is_behind_the_header(bus: Bus, run: Run) -> None:
    become = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    done = run([*become, sys.executable, "-c", AS_A_USER], timeout=120)
    assert done.returncode == 0, done.stderr
    said = [line.split() for line in done.stdout.splitlines()]
    assert bus.adapter in {address for address, *_ in said}
    assert {tuple(why) for _, *why in said} == {("denied", "denied")}


def test_what_is_suspended_stays_so(bus: Bus) -> None:
    """Without a driver the kernel suspends it, and the bridges above both."""
    power = DEVICES / bus.gpu / "power"
    driver = DEVICES / bus.gpu / "driver"
    assert driver.exists()
    (driver / "unbind").write_text(bus.gpu)
    try:
        (power / "control").write_text("auto")
        assert until(lambda: (power / "runtime_status").read_text() == "suspended\n", SECONDS)
        slept = int((power / "runtime_suspended_time").read_text())
        active = (power / "runtime_active_time").read_text()
        own = found(bus.gpu)
        assert own.express == Missing(
            Why.NOT_COLLECTED, f"{bus.gpu} is suspended, and is not woken"
        )
        assert own.role is Role.GPU
        assert (power / "runtime_status").read_text() == "suspended\n"
        assert (power / "runtime_active_time").read_text() == active
        assert int((power / "runtime_suspended_time").read_text()) >= slept
    finally:
        (power / "control").write_text("on")
