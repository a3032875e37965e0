"""Links of a live kernel: netdevsim's pause, FEC and rings, dcbtest's state and modes."""

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.attempt import until
from lab.dcb_module import VARIABLE
from lab.netdevsim import simulated
from lab.rxe import Rxe, add, wait_ready

Call = Callable[..., tuple[int, Any]]
Run = Callable[..., Any]

NUMBER = 11
NETDEV = "dcb0"
SETTINGS = Path(f"/sys/class/net/{NETDEV}/dcbtest")
SECONDS = 30.0
NO_CABLE, BAD_SIGNAL, LOSS_OF_SIGNAL = 4, 3, 4

# Of the text: of rings there is no JSON, and in that of pause frames ethtool 6.1 has true for all.
FLAG = re.compile(r"^(Autonegotiate|[RT]X):\s+(on|off)", re.MULTILINE)
RING = re.compile(r"^([RT]X):\s+(\d+)", re.MULTILINE)


def shown(run: Run, *words: str) -> dict[str, Any]:
    """`ethtool --json` of one netdev."""
    done = run(["ethtool", "--json", *words], timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)
    return dict(found)


def carrier(run: Run, state: str) -> int:
    """Exit code of setting it "on" or "off"."""
    words = ["ip", "link", "set", "dev", NETDEV, "carrier", state]
    return int(run(words, timeout=SECONDS).returncode)


def netdev_of(document: Any) -> dict[str, Any]:
    """What the report of preflight has of the one netdev."""
    (netdev,) = document["evidence"]["ethtool"]["netdevs"]
    return dict(netdev)


def counted(document: Any, source: str) -> Any:
    """The set of one source, of the sample that `counters` took."""
    (found,) = [each for each in document["sample"]["sets"] if each["source"] == source]
    return found


def totals(fec: Any) -> dict[str, int]:
    """The statistics of `ethtool --json --include-statistics --show-fec`, named as ours."""
    found = {}
    for name, each in fec["statistics"].items():
        found[name] = each["total"]
        lanes = enumerate(each.get("lanes", ()))
        found |= {f"{name}/lane{at}": value for at, value in lanes}
    return found


def findings(document: Any) -> dict[str, Any]:
    return {each["rule"]: each for each in document["verdict"]["findings"]}


@pytest.fixture(scope="class")
def on_netdevsim() -> Iterator[Rxe]:
    """rxe0 on a port of netdevsim."""
    with simulated(NUMBER) as device:
        yield device


@pytest.fixture(scope="class")
def settable(request: pytest.FixtureRequest) -> Iterator[Rxe]:
    """rxe0 on a new dcb0."""
    run: Run = request.getfixturevalue("run")
    assert run(["insmod", os.environ[VARIABLE]], timeout=SECONDS).returncode == 0
    assert run(["ip", "link", "add", NETDEV, "type", "dcbtest"], timeout=SECONDS).returncode == 0
    try:
        device = Rxe("rxe0", NETDEV, "192.0.2.1", "2001:db8::1")
        add(device)
        wait_ready(device)
        yield device
    finally:
        run(["ip", "link", "del", NETDEV], timeout=SECONDS)
        assert until(lambda: not Path("/sys/class/infiniband/rxe0").exists(), SECONDS)
        run(["rmmod", "dcbtest"], timeout=SECONDS)


@pytest.mark.needs("netdevsim")
class TestSimulated:
    """Soft RoCE on a port of netdevsim, set by ethtool."""

    def test_pause_fec_and_rings_are_what_ethtool_shows(
        self, on_netdevsim: Rxe, run: Run, rdmadiag_json: Call
    ) -> None:
        for words in (
            ("--pause", on_netdevsim.netdev, "rx", "on", "tx", "off"),
            ("--set-fec", on_netdevsim.netdev, "encoding", "rs"),
            ("--set-ring", on_netdevsim.netdev, "rx", "100", "tx", "200"),
        ):
            done = run(["ethtool", *words], timeout=SECONDS)
            assert done.returncode == 0, done.stderr
        code, document = rdmadiag_json("preflight", "--timeout", "30")
        assert (code, document["verdict"]["status"]) == (0, "ok"), document["verdict"]["findings"]
        found = netdev_of(document)
        assert found["netdev"] == on_netdevsim.netdev
        pause = run(["ethtool", "--show-pause", on_netdevsim.netdev], timeout=SECONDS).stdout
        fec = shown(run, "--show-fec", on_netdevsim.netdev)
        rings = run(["ethtool", "--show-ring", on_netdevsim.netdev], timeout=SECONDS).stdout
        assert dict(FLAG.findall(pause)) == {"Autonegotiate": "off", "RX": "on", "TX": "off"}
        assert found["pause"] == {"autoneg": False, "rx": True, "tx": False}
        assert [each.upper() for each in found["fec"]["modes"]] == fec["config"]
        assert [found["fec"]["active"].upper()] == fec["active"]
        most, now = (dict(RING.findall(part)) for part in rings.split("Current hardware"))
        assert (found["rings"]["rx"], found["rings"]["tx"]) == (100, 200)
        assert (now["RX"], now["TX"]) == ("100", "200")
        assert [str(found["rings"][name]) for name in ("rx_max", "tx_max")] == [
            most["RX"],
            most["TX"],
        ]
        assert found["link"]["up"]["why"] == "unsupported", "netdevsim has no state of its link"
        assert found["modes"]["why"] == "unsupported", "netdevsim has no link modes"

    def test_fec_counters_are_what_ethtool_shows(
        self, on_netdevsim: Rxe, run: Run, rdmadiag_json: Call
    ) -> None:
        code, document = rdmadiag_json("counters", "--interval", "0")
        assert (code, document["verdict"]["findings"]) == (0, [])
        fec = shown(run, "--include-statistics", "--show-fec", on_netdevsim.netdev)
        if not fec.get("statistics"):
            assert counted(document, "fec")["values"]["why"] == "unsupported"
            pytest.skip("this kernel's netdevsim counts nothing of FEC")
        assert counted(document, "fec")["values"] == totals(fec)


LEGS = ("dcb0", "dcb1")


@pytest.fixture
def on_legs(run: Run) -> Iterator[None]:
    """rxe0 on bond7 of two netdevs that count what FEC corrects."""
    assert run(["insmod", os.environ[VARIABLE]], timeout=SECONDS).returncode == 0

    def do(*lines: str) -> None:
        for line in lines:
            done = run(line.split(), timeout=SECONDS)
            assert done.returncode == 0, f"{line}: {done.stderr}"

    try:
        do("modprobe bonding", "ip link add bond7 type bond mode active-backup miimon 100")
        for leg in LEGS:
            do(f"ip link add {leg} type dcbtest", f"ip link set {leg} master bond7")
            do(f"ethtool --set-fec {leg} encoding rs")
        device = Rxe("rxe0", "bond7", "192.0.2.1", "2001:db8::1")
        add(device)
        wait_ready(device)
        yield
    finally:
        for netdev in ("bond7", *LEGS):
            run(["ip", "link", "del", netdev], timeout=SECONDS)
        assert until(lambda: not Path("/sys/class/infiniband/rxe0").exists(), SECONDS)
        run(["rmmod", "dcbtest"], timeout=SECONDS)


@pytest.mark.needs("dcbtest")
def test_of_a_bond_each_leg_counts_what_ethtool_shows_and_the_bad_one_is_named(
    on_legs: None, run: Run, rdmadiag_json: Call, tmp_path: Path
) -> None:
    def settings(leg: str, text: str) -> None:
        (Path("/sys/class/net", leg, "dcbtest") / "fec_stats").write_text(text)

    for leg, text in zip(LEGS, ("100 1", "200 0"), strict=True):
        settings(leg, text)
    code, document = rdmadiag_json("counters", "--interval", "0")
    assert (code, document["verdict"]["findings"]) == (0, [])
    sets = [each for each in document["sample"]["sets"] if each["source"] == "fec"]
    assert [(each["netdev"], each["leg"]) for each in sets] == [(leg, True) for leg in LEGS]
    for each in sets:
        assert each["values"] == totals(shown(run, "-I", "--show-fec", each["netdev"]))
    earlier = tmp_path / "earlier.json"
    earlier.write_text(json.dumps(document))
    settings(LEGS[1], "200 9")
    code, document = rdmadiag_json("counters", "--since", str(earlier))
    finding = findings(document)["bit-errors-before-fec"]
    assert finding["summary"].startswith(f"rxe0/1 ({LEGS[1]}) receives bit errors that FEC could")
    assert finding["remedy"][0].endswith(f"--show-fec {LEGS[1]}")


@pytest.mark.needs("dcbtest")
class TestSettable:
    """Soft RoCE on lab/dcbtest, whose link is what a test says."""

    def test_modes_are_what_ethtool_shows_and_a_slow_link_is_found(
        self, settable: Rxe, run: Run, rdmadiag_json: Call
    ) -> None:
        autoneg, of_25, of_100 = 6, 31, 38  # ETHTOOL_LINK_MODE_*_BIT
        for name, bits in {
            "supported": (autoneg, of_25, of_100),
            "advertised": (autoneg, of_25),
            "peer_modes": (autoneg, of_25, of_100),
        }.items():
            (SETTINGS / name).write_text(",".join(map(str, bits)))
        (SETTINGS / "speed").write_text("25000 1")
        code, document = rdmadiag_json("preflight", "--timeout", "30")
        assert code == 1
        finding = findings(document)["below-what-both-can"]
        assert "runs at 25 Gb/s; it and its link partner can do 100 Gb/s" in finding["summary"]
        modes, text = netdev_of(document)["modes"], run(["ethtool", NETDEV], timeout=SECONDS).stdout
        assert modes["supported"] == ["Autoneg", "25000baseCR/Full", "100000baseCR4/Full"]
        assert modes["advertised"] == ["Autoneg", "25000baseCR/Full"]
        assert modes["peer"] == modes["supported"]
        assert (modes["speed_mbps"], modes["duplex"], modes["lanes"]) == (25000, "full", 1)
        for line in ("Speed: 25000Mb/s", "Lanes: 1", "Duplex: Full", "Auto-negotiation: on"):
            assert line in text
        supported, rest = text.split("Supported link modes:")[1].split("Supported pause", 1)
        advertised = rest.split("Advertised link modes:")[1].split("Advertised pause", 1)[0]
        assert supported.split() == ["25000baseCR/Full", "100000baseCR4/Full"]
        assert advertised.split() == ["25000baseCR/Full"]
        (SETTINGS / "speed").write_text("100000 4")
        assert "below-what-both-can" not in findings(
            rdmadiag_json("preflight", "--timeout", "30")[1]
        )

    def test_a_link_that_is_down_is_told_by_its_cause(
        self, settable: Rxe, run: Run, rdmadiag_json: Call
    ) -> None:
        assert carrier(run, "off") == 0
        state = Path("/sys/class/infiniband/rxe0/ports/1/state")
        assert until(lambda: "DOWN" in state.read_text(), SECONDS)
        assert "link-not-up" in findings(rdmadiag_json("preflight", "--timeout", "30")[1])
        for because, words, line in (
            (f"{NO_CABLE}", "no cable", "No cable"),
            (
                f"{BAD_SIGNAL} {LOSS_OF_SIGNAL}",
                "the signal is bad (serdes alos)",
                "Bad signal integrity, Serdes ALOS",
            ),
        ):
            (SETTINGS / "down_because").write_text(because)
            code, document = rdmadiag_json("preflight", "--timeout", "30")
            finding = findings(document)["link-down-because"]
            assert (code, finding["severity"]) == (2, "critical")
            assert words in finding["summary"]
            assert "link-not-up" not in findings(document)
            assert line in run(["ethtool", NETDEV], timeout=SECONDS).stdout
        (SETTINGS / "down_because").write_text("\n")
        assert "link-not-up" in findings(rdmadiag_json("preflight", "--timeout", "30")[1])
        assert carrier(run, "on") == 0

    def test_bit_errors_are_what_ethtool_shows_and_a_rise_is_found(
        self, settable: Rxe, run: Run, rdmadiag_json: Call, tmp_path: Path
    ) -> None:
        def sample(*options: str) -> tuple[int, Any]:
            return rdmadiag_json("counters", *(options or ("--interval", "0")))

        assert counted(sample()[1], "fec")["values"]["why"] == "unsupported"
        assert counted(sample()[1], "phy")["values"]["why"] == "unsupported"
        done = run(["ethtool", "--set-fec", NETDEV, "encoding", "rs"], timeout=SECONDS)
        assert done.returncode == 0, done.stderr
        for name, text in {
            "supported": "38",
            "speed": "100000 4",
            "fec_stats": "100 1",
            "fec_lanes": "10 0 150 0",
            "symbol_errors": "7",
        }.items():
            (SETTINGS / name).write_text(text)
        code, document = sample()
        assert (code, document["verdict"]["findings"]) == (0, []), "one sample dates nothing"
        fec = counted(document, "fec")
        assert fec["values"] == totals(shown(run, "-I", "--show-fec", NETDEV))
        assert (fec["values"]["corrected_bits"], fec["speed_mbps"]) == (160, 100_000)
        phy = shown(run, "-S", NETDEV, "--groups", "eth-phy")["eth-phy"]
        assert counted(document, "phy")["values"] == phy == {"SymbolErrorDuringCarrier": 7}
        earlier = tmp_path / "earlier.json"
        earlier.write_text(json.dumps(document))
        assert sample("--since", str(earlier))[0] == 0, "nothing rose"
        (SETTINGS / "fec_lanes").write_text("10 0 10000000000000 0")
        code, document = sample("--since", str(earlier))
        finding = findings(document)["bit-errors-before-fec"]
        assert code == 1
        assert "before FEC, most on lane 2" in finding["summary"]
        (SETTINGS / "fec_stats").write_text("100 3")
        finding = findings(sample("--since", str(earlier))[1])["bit-errors-before-fec"]
        assert "could not correct: 2 blocks, most on lane 2" in finding["summary"]

    @pytest.mark.other_kernels(0)
    def test_pause_beside_pfc_is_found_and_either_alone_is_well(
        self, settable: Rxe, run: Run, rdmadiag_json: Call
    ) -> None:
        def set_to(*words: str) -> Any:
            done = run(words, timeout=SECONDS)
            assert done.returncode == 0, done.stderr
            return findings(rdmadiag_json("preflight", "--timeout", "30")[1])

        pfc = ("dcb", "pfc", "set", "dev", NETDEV, "prio-pfc")
        pause = ("ethtool", "--pause", NETDEV)
        assert "pause-beside-pfc" not in set_to(*pause, "rx", "on", "tx", "on")
        finding = set_to(*pfc, "3:on")["pause-beside-pfc"]
        assert finding["summary"].endswith(
            "dcb0 has PFC for 3, and pause frames received and sent for the whole link"
        )
        remedy = finding["remedy"][0].partition("#")[0].split()
        assert remedy[:3] == ["sudo", "ethtool", "--pause"]
        assert "pause-beside-pfc" not in set_to(*pause, "rx", "off", "tx", "off")
        set_to(*pfc, "all:off")

    @pytest.mark.other_kernels(0)
    def test_a_record_says_what_the_host_says(
        self, settable: Rxe, rdmadiag_json: Call, rdmadiag: Callable[..., Any], tmp_path: Path
    ) -> None:
        folder = str(tmp_path / "record")
        assert rdmadiag("snapshot", folder)[0] == 0
        live, recorded = (
            netdev_of(rdmadiag_json("preflight", "--timeout", "30", *options)[1])
            for options in ((), ("--from", folder))
        )
        assert live == recorded
        for source in ("fec", "phy"):
            live, recorded = (
                counted(rdmadiag_json("counters", *options)[1], source)
                for options in (("--interval", "0"), ("--from", folder))
            )
            assert live["values"] == recorded["values"]
