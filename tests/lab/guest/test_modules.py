"""Transceivers of a live kernel: published memories in dcbtest, field by field as ethtool's.

ethtool 6.1 has JSON of the power mode alone: the rest is its text.
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import transceivers
from lab.attempt import until
from lab.rxe import Rxe
from lab.transceivers import FS_QSFP28_IR4, Transceiver
from rdmadiag.api import collect, judge
from rdmadiag.facts import Missing
from rdmadiag.facts.modules import Module, ModuleFacts
from rdmadiag.host.live import LiveHost
from rdmadiag.host.netlink import (
    ETHTOOL_GENL_NAME,
    ETHTOOL_MSG_MODULE_EEPROM_GET,
    ETHTOOL_MSG_MODULE_GET,
    GENL_ID_CTRL,
)
from rdmadiag.sources.generic import read_family
from rdmadiag.sources.module_memory import A0
from rdmadiag.sources.modules import read_modules
from tests.lab.guest.test_ethernet import (
    NETDEV,
    SECONDS,
    SETTINGS,
    carrier,
    findings,
    settable,  # noqa: F401  # a fixture
)
from tests.lab.guest.test_reads_only import SOCKET

Call = Callable[..., tuple[int, Any]]
Run = Callable[..., Any]

RULE = "optic-out-of-range"
PUBLISHED = {
    name: each for name, each in vars(transceivers).items() if isinstance(each, Transceiver)
}
LANE_2_RX = 36
AUTO, HIGH = 2, 1  # ETHTOOL_MODULE_POWER_MODE_POLICY_*
LOW_POWER, HIGH_POWER = 1, 2
ASKED = ("preflight", "--modules", "--timeout", "30")

# What each field of ours is called by ethtool, of one lane or of several.
OF_LANES = {
    "bias_ma": (r"Laser (?:tx )?bias current", 3),
    "tx_power_mw": (r"(?:Transmit avg optical|Laser output) power", 4),
    "rx_power_mw": (r"(?:Rcvr signal avg|Receiver signal average) optical power", 4),
}
OF_RANGES = {
    "bias_ma": ("Laser bias current", 3),
    "tx_power_mw": ("Laser output power", 4),
    "rx_power_mw": ("Laser rx power", 4),
    "temperature_c": ("Module temperature", 2),
    "voltage_v": ("Module voltage", 4),
}
REACH = {  # ours in metres
    "smf": r"Length \(SMF(?:,km)?\)",
    "om3": r"Length \(OM3.*\)",
    "om4": r"Length \(OM4\)",
}
STRACE = ("strace", "-f", "--seccomp-bpf", "-qq", "-xx", "-s", "64")
STRACE += ("-e", "trace=socket,sendto,sendmsg", "-o")
ATTEMPTS = 3  # on a busy machine a traced command may be late: that shows nothing
# This kernel has no netlink_diag: strace has the numbers of families.
MESSAGE = re.compile(r'nlmsg_type=(0x\w+)[^"]*"\\x([0-9a-f]{2})')
GETFAMILY = 3  # CTRL_CMD_GETFAMILY


def plug(found: Transceiver) -> None:
    """In place of what was there."""
    (SETTINGS / "eeprom").write_text("-")
    for line in found.settings():
        (SETTINGS / "eeprom").write_text(line)


def set_byte(offset: int, raw: bytes, page: int = 0) -> None:
    (SETTINGS / "eeprom").write_text(f"{A0:#x} {page} {offset} {raw.hex()}")


def ethtool(run: Run) -> dict[str, str]:
    """Label → value of `ethtool -m`; of a label that stands there twice, the last."""
    done = run(["ethtool", "-m", NETDEV], timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    pairs = (line.partition(":") for line in done.stdout.splitlines())
    return {label.strip(): value.strip() for label, _, value in pairs}


def labelled(shown: dict[str, str], pattern: str) -> list[str]:
    return [value for label, value in shown.items() if re.fullmatch(pattern, label)]


def ours() -> Module:
    found = read_modules(LiveHost(), time.monotonic() + SECONDS)
    assert isinstance(found, ModuleFacts)
    (netdev,) = found.netdevs
    assert netdev.netdev == NETDEV
    assert isinstance(netdev.module, Module)
    return netdev.module


def generic_sent(lines: list[str]) -> list[tuple[int, int]]:
    """Type and command of each message of generic netlink: a socket is opened for each."""
    opened: dict[str, str] = {}
    sent = []
    for line in lines:
        pid = line.split(maxsplit=1)[0]
        if socket := SOCKET.search(line):
            opened[pid] = socket[1]
        if (message := MESSAGE.search(line)) and opened[pid] == "NETLINK_GENERIC":
            sent.append((int(message[1], 0), int(message[2], 16)))
    return sent


def severity() -> str | None:
    """That of the finding on this host, now."""
    verdict = judge(collect(modules=True, timeout=SECONDS))
    return next((each.severity for each in verdict.findings if each.rule == RULE), None)


def code(value: Any) -> int | None:
    return None if isinstance(value, Missing) else int(value.number)


@pytest.fixture(autouse=True)
def as_it_was(run: Run) -> Iterator[None]:
    """After each test the link is up, and its power mode nobody's."""
    yield
    (SETTINGS / "power_mode").write_text("-")
    assert carrier(run, "on") == 0


@pytest.mark.needs("dcbtest")
class TestModules:
    """rxe0 on dcb0, into which each is plugged in turn."""

    @pytest.mark.parametrize("name", list(PUBLISHED))
    def test_each_field_is_what_ethtool_shows(
        self,
        name: str,
        settable: Rxe,  # noqa: F811
        run: Run,
    ) -> None:
        plug(PUBLISHED[name])
        found, shown = ours(), ethtool(run)
        assert int(shown["Identifier"].split()[0], 0) == found.identifier.number
        for label, value in {
            "Vendor name": found.vendor,
            "Vendor PN": found.part,
            "Vendor rev": found.revision,
        }.items():
            assert shown[label] == ("" if isinstance(value, Missing) else value)
        connector = int(shown["Connector"].split()[0], 0)
        assert code(found.connector) == (connector or None)
        if not isinstance(found.state, Missing):
            assert int(shown["Module State"].split()[0], 0) == found.state.number
        if not isinstance(found.length_m, Missing):
            (length,) = [
                float(text.rstrip("m"))
                for text in labelled(
                    shown, r"Cable assembly length|Length \(Copper(?: or Active cable)?\)"
                )
            ]
            assert found.length_m == length
        for fibre, metres in found.reach_m.items():
            unit = {"k": 1000, "m": 1}
            texts = labelled(shown, REACH[fibre])
            assert metres in {
                round(float(re.split("[km]", text)[0]) * unit[text.lstrip("0123456789.")[0]])
                for text in texts
            }
        self.is_measured_as_shown(found, shown)
        self.is_limited_as_shown(found, shown)

    def is_measured_as_shown(self, found: Module, shown: dict[str, str]) -> None:
        for value, label, digits in (
            (found.temperature_c, "Module temperature", 2),
            (found.voltage_v, "Module voltage", 4),
        ):
            if not isinstance(value, Missing):
                assert shown[label].split()[0] == f"{value:.{digits}f}"
        for lane in () if isinstance(found.lanes, Missing) else found.lanes:
            for what, (label, digits) in OF_LANES.items():
                value = getattr(lane, what)
                if not isinstance(value, Missing):
                    channel = rf"{label}(?: ?\(Channel {lane.number}\))?"
                    (text,) = labelled(shown, channel)
                    assert text.split()[0] == f"{value:.{digits}f}", what

    def is_limited_as_shown(self, found: Module, shown: dict[str, str]) -> None:
        for what, (label, digits) in OF_RANGES.items():
            limits = None if isinstance(found.ranges, Missing) else getattr(found.ranges, what)
            if limits is None or isinstance(limits, Missing):
                continue
            for name in ("low_alarm", "low_warning", "high_warning", "high_alarm"):
                text = shown[f"{label} {name.replace('_', ' ')} threshold"]
                assert text.split()[0] == f"{getattr(limits, name):.{digits}f}", (what, name)

    def test_something_is_compared_of_each_kind(self) -> None:
        assert len(PUBLISHED) == 8
        kinds = {each.read(transceivers.HEAD)[:1] for each in PUBLISHED.values()}  # type: ignore[index]
        assert kinds == {b"\x03", b"\x0d", b"\x11", b"\x18", b"\x19"}

    @pytest.mark.other_kernels(0)
    def test_the_rule_fires_with_the_light_that_is_lost_and_ends_with_it(
        self,
        settable: Rxe,  # noqa: F811
        run: Run,
        rdmadiag_json: Call,
        rdmadiag: Callable[..., Any],
    ) -> None:
        plug(FS_QSFP28_IR4)
        exit_code, text, err = rdmadiag(*ASKED)
        assert (exit_code, err) == (0, "")
        assert text.startswith("OK  1 port")
        block = text[text.index("module of dcb0") :].splitlines()
        assert block[1] == "  QSFP28, optic, 2000 m of SMF, LC, FS QSFP28-IR4-100G A1"
        assert all(len(line) <= 80 for line in block)
        shown = ethtool(run)
        received = [
            f"{float(text.split(' / ')[1].split()[0]):.1f}"
            for text in labelled(shown, OF_LANES["rx_power_mw"][0] + ".*")
        ]
        assert block[4].split()[2:] == received
        set_byte(LANE_2_RX, b"\0\0")
        exit_code, document = rdmadiag_json(*ASKED)
        finding = findings(document)[RULE]
        assert (exit_code, finding["severity"]) == (1, "warn")
        assert "dcb0 receives no light on lane 2, below its alarm" in finding["summary"]
        assert finding["remedy"][0] == "sudo ethtool -m dcb0"
        assert run(finding["remedy"][0].split()[1:], timeout=SECONDS).returncode == 0
        (SETTINGS / "fec_stats").write_text("100 3")
        assert severity() == "critical"
        (SETTINGS / "fec_stats").write_text("100 0")
        assert severity() == "warn"
        plug(FS_QSFP28_IR4)
        assert severity() is None

    def test_low_power_of_a_link_that_is_down_is_found_as_the_driver_says_it(
        self,
        settable: Rxe,  # noqa: F811
        run: Run,
        rdmadiag_json: Call,
    ) -> None:
        plug(FS_QSFP28_IR4)
        (SETTINGS / "power_mode").write_text(f"{AUTO} {LOW_POWER}")
        done = run(["ethtool", "--json", "--show-module", NETDEV], timeout=SECONDS)
        assert json.loads(done.stdout)[0]["power-mode"] == "low"
        assert carrier(run, "off") == 0
        state = Path("/sys/class/infiniband/rxe0/ports/1/state")
        assert until(lambda: "DOWN" in state.read_text(), SECONDS)
        document = rdmadiag_json(*ASKED)[1]
        assert "dcb0 is in low power, and the link is down" in findings(document)[RULE]["summary"]
        (netdev,) = document["evidence"]["modules"]["netdevs"]
        assert (netdev["power"]["policy"], netdev["power"]["mode"]) == ("auto", "low")
        (SETTINGS / "power_mode").write_text(f"{HIGH} {HIGH_POWER}")
        assert severity() is None

    def test_a_record_says_what_the_host_says_where_it_was_asked_for(
        self,
        settable: Rxe,  # noqa: F811
        rdmadiag_json: Call,
        rdmadiag: Callable[..., Any],
        tmp_path: Path,
    ) -> None:
        plug(FS_QSFP28_IR4)
        whole = str(tmp_path / "whole")
        assert rdmadiag("snapshot", "--modules", whole)[0] == 0
        recorded = collect(from_=whole, modules=True).evidence.modules
        assert recorded == read_modules(LiveHost(), time.monotonic() + SECONDS)
        assert isinstance(recorded, ModuleFacts)
        unasked = rdmadiag_json("preflight", "--from", whole)[1]["evidence"]["modules"]
        assert unasked == {"why": "not_collected", "detail": "no option asks for it"}

    @pytest.mark.other_kernels(0)
    def test_gets_alone_are_sent_and_none_to_modules_unless_asked(
        self,
        settable: Rxe,  # noqa: F811
        rdmadiag: Callable[..., Any],
        tmp_path: Path,
    ) -> None:
        plug(FS_QSFP28_IR4)
        before = Path("/proc/modules").read_text()
        family = read_family(LiveHost(), ETHTOOL_GENL_NAME, time.monotonic() + SECONDS)
        of_modules = {ETHTOOL_MSG_MODULE_EEPROM_GET, ETHTOOL_MSG_MODULE_GET}
        others = {4, 6, 15, 21, 29}  # LINKMODES, LINKSTATE, RINGS, PAUSE, FEC: _GET
        for words, wanted in ((ASKED, of_modules | others), (("preflight",), others)):
            log = tmp_path / "strace"
            for _ in range(ATTEMPTS):
                if rdmadiag(*words, prefix=(*STRACE, str(log)), timeout=300)[0] == 0:
                    break
            sent = generic_sent(log.read_text().splitlines())
            assert {command for kind, command in sent if kind == family} == wanted
            assert {command for kind, command in sent if kind == GENL_ID_CTRL} == {GETFAMILY}
        assert Path("/proc/modules").read_text() == before
