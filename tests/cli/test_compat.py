"""rdmadiag compat, end to end on described hosts."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.machine import Machine
from lab.samples import infiniband_host, roce_host
from rdmadiag.samples import folder
from tests.fleet.record_pairs import other_host

# Children that read what a user names: tests/host/test_given_file.py, test_isolation.py.
pytestmark = pytest.mark.usefixtures("in_this_process")

Rdmadiag = Callable[..., "Outcome"]  # type: ignore[name-defined]  # noqa: F821  # tests/cli/conftest.py

HEALTHY, ROCE = folder("infiniband-two-hca"), folder("roce-healthy")


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str, Machine], str]:
    def write(name: str, machine: Machine) -> str:
        machine.change(hostname=name).write(str(tmp_path / name), "Of a test.")
        return str(tmp_path / name)

    return write


@pytest.fixture
def pair(written: Callable[[str, Machine], str]) -> tuple[str, str]:
    peer = other_host(roce_host()).with_device(firmware="22.43.1014")
    return written("a", roce_host()), written("b", peer)


def test_the_first_line_is_the_answer(pair: tuple[str, str], rdmadiag: Rdmadiag) -> None:
    code, out, err = rdmadiag("compat", *pair, "--stack", "ucx")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == (
        "CAN TALK  a and b: mlx5_0/1 - mlx5_0/1: ::ffff:192.0.2.10 and ::ffff:192.0.2.11 are in "
        "one subnet"
    )
    assert ["firmware", "22.31.1014", "22.43.1014", "differs"] in [each.split() for each in lines]
    assert "  can talk  3 → 3  same type, family and subnet" in lines
    assert lines[-1] == "from both records alone: no packet was sent"


def test_quiet_is_the_answer_alone_and_verbose_has_what_is_the_same(
    pair: tuple[str, str], rdmadiag: Rdmadiag
) -> None:
    assert rdmadiag("compat", *pair, "-q").out.count("\n") == 1
    out = rdmadiag("compat", *pair, "--verbose").out
    assert ["kernel", "6.1.0", "6.1.0", "same"] in [each.split() for each in out.splitlines()]


def test_two_that_cannot_talk_are_1(written: Callable[..., str], rdmadiag: Rdmadiag) -> None:
    code, out, _ = rdmadiag("compat", HEALTHY, folder("infiniband-no-subnet-manager"))
    assert code == 1
    assert out.startswith("CANNOT TALK  ib-two-hca and ib-no-subnet-manager: B has no active port")
    other = written("other", other_host(infiniband_host()).with_port(0, pkeys=(0x8003,)))
    code, out, _ = rdmadiag("compat", HEALTHY, other)
    assert code == 0, "the second ports can"
    assert "; but not mlx5_0/1 - mlx5_0/1: no partition has both" in out.splitlines()[0]
    assert "    pkeys: no partition has both" not in out, "of ports that do not answer"
    assert rdmadiag("compat", HEALTHY, folder("roce-healthy"), "--exit-zero")[0] == 0


def test_a_named_stack_that_cannot_talk_is_1(pair: tuple[str, str], rdmadiag: Rdmadiag) -> None:
    assert rdmadiag("compat", *pair)[0] == 0
    assert rdmadiag("compat", *pair, "--stack", "nccl@2.27")[0] == 0
    code, out, _ = rdmadiag("compat", *pair, "--stack", "ibv_rc_pingpong")
    assert code == 1
    assert out.startswith("CANNOT TALK  a and b: ibv_rc_pingpong: ")
    document = rdmadiag("compat", *pair, "--stack", "ibv_rc_pingpong", "--json").document
    assert document["talks"] == "no"


def test_a_named_stack_that_uses_none_of_the_ports_is_not_known(
    pair: tuple[str, str], rdmadiag: Rdmadiag
) -> None:
    code, out, _ = rdmadiag("compat", *pair, "--stack", "jaccl")
    assert code == 3
    assert out.startswith("NOT KNOWN  a and b: MLX JACCL uses none of these ports")


def test_an_end_that_is_not_fit_by_itself_is_3(rdmadiag: Rdmadiag) -> None:
    bad = folder("container-without-uverbs")
    for ends, letter in (((bad, ROCE), "A"), ((ROCE, bad), "B")):
        code, out, _ = rdmadiag("compat", *ends)
        assert code == 3
        head = out.splitlines()[0]
        assert head.startswith("NOT KNOWN  ")
        assert head.endswith(f": {letter} by itself: uverbs-node-missing")
        assert "  can talk  " not in out
        assert "  [uverbs-node-missing]\n    # on pod-7c9\n" in out
    findings = rdmadiag("compat", bad, ROCE, "--json").document["findings"]
    assert findings[0]["hosts"] == ["pod-7c9"]
    assert findings[0]["finding"]["rule"] == "uverbs-node-missing"


def test_why_no_port_is_active_is_said_by_its_own_host(rdmadiag: Rdmadiag) -> None:
    out = rdmadiag("compat", HEALTHY, folder("infiniband-no-subnet-manager")).out
    assert "[link-not-up]\n    # on ib-no-subnet-manager\n" in out


def test_ports_that_answer_stand_first_and_what_is_alike_stands_once(rdmadiag: Rdmadiag) -> None:
    ends = folder("gpu-four-rails"), ROCE
    out = rdmadiag("compat", *ends).out
    lines = out.splitlines()
    pairs = [line for line in lines if line.startswith("mlx5_")]
    assert [line.partition("  ")[0] for line in pairs] == [
        "mlx5_4/1 - rxe0/1, mlx5_4/1 - rxe1/1",
        "mlx5_0/1 - rxe0/1, mlx5_0/1 - rxe1/1, mlx5_1/1 - rxe0/1 and 5 more",
    ]
    assert lines[0].split(": ")[1] == "mlx5_4/1 - rxe0/1"
    assert sum(line.startswith("  PORT") for line in lines) == 1
    assert out.count("[ends-mtu-differs]") == out.count("ip link set dev eno1np0 mtu 1500") == 1
    assert len(lines) < 60
    every = rdmadiag("compat", *ends, "--verbose").out.splitlines()
    assert sum(line.startswith("  PORT") for line in every) == 10
    assert [each["talks"] for each in rdmadiag("compat", *ends, "--json").document["beside"]] == [
        *["yes"] * 2,
        *["routed"] * 8,
    ]


def test_a_cable_shows_from_where_to_where_it_leads(rdmadiag: Rdmadiag) -> None:
    ends = folder("mac-ready"), folder("mac-bridged")
    document = rdmadiag("compat", *ends, "--json").document
    rows = {each["subject"]: each for each in document["beside"][0]["rows"]}
    own, arrow, other = rows["cable"]["here"].split()
    assert (arrow, rows["cable"]["agreement"]) == ("→", "unknown"), "one Mac, by two records"
    assert own != other


def test_what_is_not_known_is_3(written: Callable[..., str], rdmadiag: Rdmadiag) -> None:
    rows = other_host(roce_host()).devices[0].ports[0].gids
    local = other_host(roce_host()).with_port(gids={at: rows[at] for at in (0, 1)})
    code, out, _ = rdmadiag("compat", written("a", roce_host()), written("b", local))
    assert code == 3
    assert out.startswith("NOT KNOWN  a and b: ")


def test_the_document(pair: tuple[str, str], rdmadiag: Rdmadiag) -> None:
    document = rdmadiag("compat", *pair, "--stack", "nccl@2.27", "--json").document
    assert (document["talks"], document["here"]["host"]["hostname"]) == ("yes", "a")
    (ports,) = document["beside"]
    assert (ports["talks"], ports["protocol"]) == ("yes", "roce")
    rows: dict[str, Any] = {each["subject"]: each for each in ports["rows"]}
    assert (rows["firmware"]["agreement"], rows["rate"]["agreement"]) == ("differs", "same")
    assert {each["stack"] for each in ports["stacks"]} == {"nccl"}


def test_a_side_that_cannot_be_read_is_3_and_counters_are_refused(
    rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    assert rdmadiag("compat", HEALTHY, str(tmp_path / "nowhere"))[0] == 3
    (tmp_path / "c.json").write_text(rdmadiag("counters", "--from", HEALTHY, "--json").out)
    assert json.loads((tmp_path / "c.json").read_text())["sample"]
    code, _, err = rdmadiag("compat", HEALTHY, str(tmp_path / "c.json"))
    assert (code, "says nothing of ports" in err) == (64, True)


def test_what_is_so_of_ipv4_and_of_ipv6_is_said_once(rdmadiag: Rdmadiag) -> None:
    records = Path(__file__).parents[2] / "faults" / "records"
    ends = [str(records / f"mtu-left-jumbo.{end}.tar.gz") for end in ("left", "right")]
    assert rdmadiag("compat", *ends).out.count("ends-mtu-differs") == 1
    findings = rdmadiag("compat", *ends, "--json").document["findings"]
    assert len({tuple(each["addresses"]) for each in findings}) == len(findings) == 2


def test_names_of_a_hostile_record_are_shown_and_not_obeyed(
    written: Callable[..., str], rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    odd = infiniband_host().with_device(0, firmware="\x1b]0;x\x07", hca_type="\x1b[2J")
    record = written("odd", odd)
    for argv in ((), ("--verbose",)):
        out = rdmadiag("compat", HEALTHY, record, *argv).out
        assert "\x1b" not in out
        assert "\x07" not in out
