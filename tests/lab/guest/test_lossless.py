"""DCB of a live kernel: lab/dcbtest gives a netdev whose answers are set by iproute2's dcb."""

import json
import os
import random
import re
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab.attempt import until
from lab.dcb_module import VARIABLE
from lab.rxe import Rxe, add, wait_ready
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.dcb import App, AppSelector, Buffers, DcbFacts, Ets, Ieee, Pfc
from rdmadiag.host import netlink
from rdmadiag.host.live import LiveHost
from rdmadiag.sources.dcb import read_dcb

pytestmark = pytest.mark.needs("dcbtest")

NETDEV = "dcb0"
SETTINGS = Path(f"/sys/class/net/{NETDEV}/dcbtest")
SECONDS = 30.0
DSCP, PCP = 5, 255
RTM_SETDCB, IEEE_SET = 79, 20
APP_TRUST = 11  # DCB_ATTR_DCB_APP_TRUST_TABLE

Call = Callable[..., tuple[int, Any]]
Run = Callable[..., Any]


@dataclass(frozen=True)
class Nic:
    """The netdev, and how it is set."""

    run: Run

    def set(self, *words: str) -> None:
        """`dcb` with these words."""
        done = self.run(["dcb", *words], timeout=SECONDS)
        assert done.returncode == 0, done.stderr

    def shown(self, what: str) -> Any:
        """`dcb -j WHAT show`."""
        return json.loads(
            self.run(["dcb", "-j", what, "show", "dev", NETDEV], timeout=SECONDS).stdout
        )

    def all_shown(self) -> dict[str, Any]:
        return {what: self.shown(what) for what in ("pfc", "ets", "buffer", "app", "dcbx")}


@pytest.fixture(scope="module")
def module(request: pytest.FixtureRequest) -> Iterator[None]:
    run: Run = request.getfixturevalue("run")
    done = run(["insmod", os.environ[VARIABLE]], timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    yield
    run(["rmmod", "dcbtest"], timeout=SECONDS)


@pytest.fixture(scope="class")
def nic(module: None, run: Run) -> Iterator[Nic]:
    """rxe0 on a new dcb0."""
    assert run(["ip", "link", "add", NETDEV, "type", "dcbtest"], timeout=SECONDS).returncode == 0
    try:
        device = Rxe("rxe0", NETDEV, "192.0.2.1", "2001:db8::1")
        add(device)
        wait_ready(device)
        yield Nic(run)
    finally:
        run(["ip", "link", "del", NETDEV], timeout=SECONDS)
        assert until(lambda: not Path("/sys/class/infiniband/rxe0").exists(), SECONDS)


def ieee() -> Ieee:
    """What the source reads of the netdev, here: a command would take seconds each time."""
    found = read_dcb(LiveHost(), time.monotonic() + SECONDS)
    assert isinstance(found, DcbFacts)
    (netdev,) = found.netdevs
    assert netdev.netdev == NETDEV
    assert isinstance(netdev.ieee, Ieee)
    return netdev.ieee


def sent(kind: int, command: int, content: bytes) -> int:
    """The errno of a DCB message, by a socket of the test's own."""
    name = netlink.attribute(1, NETDEV.encode() + b"\0")
    body = netlink.DCB_HEADER.pack(0, command) + name + netlink.attribute(13, content)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, netlink.NETLINK_ROUTE) as link:
        link.bind((0, 0))
        link.settimeout(SECONDS)
        link.send(netlink.request(kind, 0, body))
        answer = link.recv(65536)
    (message,) = netlink.messages(answer)
    return netlink.error_number(answer, message) if message.type == netlink.NLMSG_ERROR else 0


def trust(*selectors: int) -> None:
    """As `dcb apptrust set` of newer iproute2."""
    table = b"".join(
        netlink.attribute(2 if each == PCP else 1, bytes([each])) for each in selectors
    )
    assert sent(RTM_SETDCB, IEEE_SET, netlink.attribute(APP_TRUST, table)) == 0


class TestAgreement:
    """Field by field with `dcb -j`."""

    @pytest.mark.parametrize("seed", range(3))
    def test_what_iproute2_shows_is_what_is_reported(self, seed: int, nic: Nic) -> None:
        dice = random.Random(seed)
        on = [dice.random() < 0.5 for _ in range(8)]
        of, classes = dice.randrange(8), [dice.randrange(8) for _ in range(8)]
        sizes, buffers = [dice.randrange(9) * 1000 for _ in range(8)], [dice.randrange(8)] * 8
        words = [f"{number}:{'on' if each else 'off'}" for number, each in enumerate(on)]
        nic.set("pfc", "set", "dev", NETDEV, "prio-pfc", *words, "delay", str(dice.randrange(9)))
        nic.set(
            *("ets", "set", "dev", NETDEV, "willing", dice.choice(["on", "off"])),
            *("prio-tc", *(f"{number}:{each}" for number, each in enumerate(classes))),
            *("tc-tsa", "all:strict", f"{of}:ets", "tc-bw", "all:0", f"{of}:100"),
        )
        nic.set(
            *("buffer", "set", "dev", NETDEV),
            *("buffer-size", *(f"{number}:{each}" for number, each in enumerate(sizes))),
            *("prio-buffer", *(f"{number}:{each}" for number, each in enumerate(buffers))),
        )
        nic.set("app", "flush", "dev", NETDEV)
        for kind, most in (("dscp-prio", 64), ("dgram-port-prio", 65536), ("ethtype-prio", 65536)):
            protocol = (
                dice.randrange(1536, most) if kind.startswith("eth") else dice.randrange(most)
            )
            nic.set("app", "add", "dev", NETDEV, kind, f"{protocol}:{dice.randrange(8)}")
        shown, found = nic.all_shown(), ieee()

        pfc, ets, buffers = found.pfc, found.ets, found.buffers
        assert isinstance(pfc, Pfc)
        assert isinstance(ets, Ets)
        assert isinstance(buffers, Buffers)
        assert {
            "pfc_cap": pfc.capability,
            "macsec_bypass": pfc.macsec_bypass,
            "delay": pfc.delay,
            "prio_pfc": [each in pfc.enabled for each in range(8)],
        } == {
            name: shown["pfc"][name] for name in ("pfc_cap", "macsec_bypass", "delay", "prio_pfc")
        }
        assert {
            "willing": ets.willing,
            "ets_cap": ets.capability,
            "cbs": ets.credit_shaper,
            "prio_tc": list(ets.class_of),
            "tc_bw": list(ets.bandwidth_percent),
            "tc_tsa": list(ets.transmission),
        }.items() <= shown["ets"].items()
        assert shown["buffer"] == {
            "prio_buffer": list(buffers.buffer_of),
            "buffer_size": list(buffers.bytes),
            "total_size": buffers.total_bytes,
        }
        assert not isinstance(found.apps, Missing)
        names = {
            "dscp": "dscp_prio",
            "datagram_port": "dgram_port_prio",
            "ethertype": "ethtype_prio",
        }
        apps = sorted((names[str(e.selector)], e.protocol, e.priority) for e in found.apps)
        assert apps == sorted(
            (kind, *entry) for kind, entries in shown["app"].items() for entry in entries
        )
        assert not isinstance(found.dcbx, Missing)
        assert [str(each) for each in found.dcbx] == [
            name for name in ("host", "ieee") if shown["dcbx"].get(name)
        ]


class TestChain:
    """One change at a time, and the cell that it breaks."""

    def asked(self, rdmadiag_json: Call, *options: str) -> tuple[int, Any]:
        code, document = rdmadiag_json(
            "lossless",
            "--stack",
            "ucx",
            "--timeout",
            "30",
            *options,
            prefix=("env", "UCX_IB_TRAFFIC_CLASS=106"),
        )
        (port,) = document["ports"]
        (chain,) = port["chains"]
        return code, (chain["priority"], chain["lossless"], chain["cell"])

    def test_cell_by_cell(self, nic: Nic, rdmadiag_json: Call) -> None:
        assert self.asked(rdmadiag_json) == (1, (0, False, "pfc"))
        nic.set("pfc", "set", "dev", NETDEV, "prio-pfc", "3:on")
        assert self.asked(rdmadiag_json) == (1, (0, False, "trust"))
        nic.set("app", "add", "dev", NETDEV, "dscp-prio", "24:3")
        assert self.asked(rdmadiag_json) == (1, (0, False, "priority"))
        nic.set("app", "add", "dev", NETDEV, "dscp-prio", "26:3")
        assert self.asked(rdmadiag_json) == (0, (3, True, None))
        nic.set("buffer", "set", "dev", NETDEV, "prio-buffer", "3:1", "buffer-size", "0:10000")
        assert self.asked(rdmadiag_json) == (1, (3, False, "buffer"))
        nic.set("buffer", "set", "dev", NETDEV, "buffer-size", "1:200000")
        assert self.asked(rdmadiag_json) == (0, (3, True, None))
        (SETTINGS / "peer_pfc").write_text("8 16")
        assert self.asked(rdmadiag_json) == (1, (3, False, "switch"))
        (SETTINGS / "peer_pfc").write_text("8 8")
        assert self.asked(rdmadiag_json) == (0, (3, True, None))
        if os.uname().release.startswith("7."):
            trust(PCP, DSCP)
            assert self.asked(rdmadiag_json) == (1, (0, False, "trust"))
            trust(DSCP)
            assert self.asked(rdmadiag_json) == (0, (3, True, None))

    def test_the_peers_side_is_read(self, nic: Nic) -> None:
        (SETTINGS / "peer_pfc").write_text("4 8")
        (SETTINGS / "peer_app").write_text("5:26:3 1:35093:3")
        (SETTINGS / "peer_ets").write_text("0 0 0 1 0 0 0 0  40 60 0 0 0 0 0 0")
        found = ieee()
        assert found.peer_pfc == Pfc(4, (3,), 0, macsec_bypass=False)
        assert found.peer_apps == (
            App(AppSelector.DSCP, 26, 3),
            App(AppSelector.ETHERTYPE, 0x8915, 3),
        )
        assert isinstance(found.peer_ets, Ets)
        assert found.peer_ets.class_of == (0, 0, 0, 1, 0, 0, 0, 0)
        assert found.peer_ets.bandwidth_percent[:2] == (40, 60)

    def test_a_driver_that_has_no_pfc_is_not_one_whose_pfc_is_off(
        self, nic: Nic, rdmadiag_json: Call
    ) -> None:
        (SETTINGS / "refused").write_text("pfc buffer ets")
        code, chain = self.asked(rdmadiag_json)
        assert (code, chain[1:]) == (3, (None, "pfc"))
        found = ieee()
        for part in (found.pfc, found.buffers, found.ets):
            assert isinstance(part, Missing)
            assert part.why is Why.UNSUPPORTED
        (SETTINGS / "refused").write_text("\n")
        again = ieee().pfc
        assert isinstance(again, Pfc)
        assert again.enabled == (3,)

    def test_preflight_speaks_of_a_class_that_is_set_alone(
        self, nic: Nic, rdmadiag_json: Call
    ) -> None:
        def found(*variables: str) -> list[str]:
            document = rdmadiag_json("preflight", prefix=("env", *variables))[1]
            rule = "traffic-class-not-lossless"
            return [e["summary"] for e in document["verdict"]["findings"] if e["rule"] == rule]

        assert found() == found("NCCL_IB_TC=106") == []
        (said,) = found("NCCL_IB_TC=160")
        assert "DSCP 40 → priority 0, PFC on 3" in said

    def test_a_record_says_what_the_host_says(
        self, nic: Nic, rdmadiag_json: Call, rdmadiag: Callable[..., Any], tmp_path: Path
    ) -> None:
        folder = str(tmp_path / "record")
        assert rdmadiag("snapshot", folder)[0] == 0
        live, recorded = (
            rdmadiag_json("lossless", "--stack", "ucx", "--timeout", "30", *options)[1]
            for options in ((), ("--from", folder))
        )
        assert live["ports"] == recorded["ports"]
        assert live["verdict"] == recorded["verdict"]

    @pytest.mark.parametrize(
        ("name", "traffic_class"), [("dcb-class-not-lossless", "96"), ("dcb-lossless", "106")]
    )
    def test_both_are_recorded_for_the_fixtures(
        self, name: str, traffic_class: str, nic: Nic, rdmadiag: Callable[..., Any]
    ) -> None:
        """What lab/fixtures.py takes; tests/test_fixtures.py holds the records to their answer."""
        folder = Path(os.environ["RDMADIAG_LAB_OUT"], "dcb")
        folder.mkdir(exist_ok=True)
        set_to = ("env", f"NCCL_IB_TC={traffic_class}")
        assert rdmadiag("snapshot", str(folder / name), prefix=set_to)[0] == 0
        _, document, _ = rdmadiag("preflight", "--json", prefix=set_to)
        (folder / f"{name}.preflight.json").write_text(document)

    def test_soft_roce_runs_on_it(self, nic: Nic, rdmadiag_json: Call) -> None:
        code, document = rdmadiag_json("pingpong", "--allow-rtr", "--device", "rxe0")
        assert (code, document["data_verified"]) == (0, True)


class TestReadsOnly:
    def test_looking_sets_nothing_loads_nothing_and_sends_one_command(
        self, nic: Nic, rdmadiag: Callable[..., Any], tmp_path: Path
    ) -> None:
        nic.set("pfc", "set", "dev", NETDEV, "prio-pfc", "3:on")
        before = nic.all_shown(), Path("/proc/modules").read_text()
        log = tmp_path / "strace"
        calls = "trace=socket,sendto,sendmsg,sendmmsg,init_module,finit_module,delete_module,mkdir"
        strace = (
            "strace",
            "-f",
            "--seccomp-bpf",
            "-qq",
            "-v",
            "-s",
            "256",
            "-e",
            calls,
            "-o",
            str(log),
        )
        code, out, err = rdmadiag(
            "lossless", "--exit-zero", "--timeout", "30", prefix=strace, timeout=300
        )
        assert code == 0, err or out
        lines = log.read_text().splitlines()
        dcb = [line for line in lines if re.search(r"nlmsg_type=(RTM_GETDCB|0x4e)\b", line)]
        assert len(dcb) == 1, "one message for one netdev"
        assert re.search(r"cmd=DCB_CMD_IEEE_GET|\\x00\\x15|\\0\\25", dcb[0]), dcb
        assert [line for line in lines if re.search(r"SETDCB|0x4f\b", line)] == []
        assert [line for line in lines if re.search(r"_module\(|mkdir\(", line)] == []
        assert (nic.all_shown(), Path("/proc/modules").read_text()) == before

    def test_control_the_kernel_executes_a_set_in_a_message_of_the_type_get(self, nic: Nic) -> None:
        """Why rdmadiag's netlink module looks at the command and not at the type alone."""
        pfc = struct.pack("=BBBxHxx128x", 8, 0x20, 0, 0)
        assert sent(netlink.RTM_GETDCB, IEEE_SET, netlink.attribute(2, pfc)) == 0
        assert nic.shown("pfc")["prio_pfc"][5] is True
        request = netlink.request(netlink.RTM_GETDCB, 0, netlink.DCB_HEADER.pack(0, IEEE_SET))
        with pytest.raises(netlink.NotARead):
            netlink.require_read_only(netlink.NETLINK_ROUTE, request)

    def test_an_ordinary_user_may_look(self, nic: Nic, rdmadiag_json: Call) -> None:
        _, document = rdmadiag_json("lossless", "--exit-zero", "--timeout", "30", user=65534)
        assert document["ports"][0]["netdev"] == NETDEV
        assert isinstance(document["ports"][0]["pfc"], list)


def test_a_netdev_without_dcb_refuses(module: None, run: Run) -> None:
    """What every driver without dcbnl answers: EOPNOTSUPP."""
    done = run(["dcb", "pfc", "show", "dev", "lo"], timeout=SECONDS)
    assert "not supported" in done.stderr.lower()
