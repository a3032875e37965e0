"""rdmadiag lossless, end to end on described hosts."""

import json
from collections.abc import Callable
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from lab.machine import Machine
from lab.netdevs import Dcb
from lab.samples import roce_host
from rdmadiag.facts import Missing, Why
from rdmadiag.sources.sysfs import CLASS

# Children that read what a user names: tests/host/test_given_file.py, test_isolation.py.
pytestmark = pytest.mark.usefixtures("in_this_process")

Rdmadiag = Callable[..., "Outcome"]  # type: ignore[name-defined]  # noqa: F821  # tests/cli/conftest.py

NETDEV = "ens1f0np0"
GOOD = Dcb(pfc=(3,), apps=((5, 26, 3),), peer_pfc=(3,))


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., str]:
    def write(name: str, dcb: Dcb, **environment: str) -> str:
        machine: Machine = roce_host().change(dcb={NETDEV: dcb}, environ=environment)
        machine.change(hostname=name).write(str(tmp_path / name), "DCB.")
        return str(tmp_path / name)

    return write


def test_the_first_line_is_the_answer(written: Callable[..., str], rdmadiag: Rdmadiag) -> None:
    record = written("host", GOOD, NCCL_IB_TC="96")
    code, out, err = rdmadiag("lossless", "--stack", "nccl", "--stack", "ucx", "--from", record)
    assert (code, err) == (1, "")
    lines = out.splitlines()
    assert lines[0] == "WARN  NCCL: DSCP 24 → priority 0, PFC on 3 on mlx5_0/1  [host, recorded]"
    cells = {line.split()[0]: line.split() for line in lines if line.startswith(("NCCL", "UCX"))}
    assert cells["NCCL"][1:5] == ["96", "24", "0", "off"]
    assert cells["NCCL"][-3:] == ["no:", "priority", "NCCL_IB_TC=96"]
    assert cells["UCX"][1:5] == ["106", "26", "3", "on"]
    assert "yes" in cells["UCX"]
    assert max(map(len, lines[1:])) <= 80


def test_a_lossless_host_is_ok(written: Callable[..., str], rdmadiag: Rdmadiag) -> None:
    code, out, _ = rdmadiag("lossless", "--stack", "ucx", "--from", written("host", GOOD))
    assert code == 0
    assert out.startswith("OK  1 stack on mlx5_0/1: every one in a priority with PFC")


def test_quiet_is_the_answer_alone(written: Callable[..., str], rdmadiag: Rdmadiag) -> None:
    _, out, _ = rdmadiag("lossless", "--stack", "ucx", "-q", "--from", written("host", GOOD))
    assert len(out.splitlines()) == 1


def test_the_peer_stands_beside_with_what_differs(
    written: Callable[..., str], rdmadiag: Rdmadiag
) -> None:
    here = written("here", GOOD, NCCL_IB_TC="106")
    there = written("there", replace(GOOD, pfc=(4,)), NCCL_IB_TC="106")
    arguments = ("lossless", "--stack", "nccl", "--from", here, "--peer", there)
    code, out, _ = rdmadiag(*arguments)
    assert code == 1, "the peer's chain is broken"
    assert "peer there" in out
    assert "at the peer there" in out
    code, out, _ = rdmadiag(*arguments, "--json")
    document = json.loads(out)
    assert document["verdict"]["status"] == "ok"
    assert document["peer"]["verdict"]["status"] == "warn"
    (differs,) = document["peer"]["differences"]
    assert (differs["what"], differs["here"], differs["there"]) == ("pfc", "3", "4")


def test_the_document_has_each_cell(written: Callable[..., str], rdmadiag: Rdmadiag) -> None:
    _, out, _ = rdmadiag("lossless", "--json", "--from", written("host", GOOD))
    document: Any = json.loads(out)
    (port,) = document["ports"]
    assert (port["netdev"], port["trust"], port["pfc"]) == (NETDEV, "dscp", [3])
    assert (port["trust_number"], port["peer_pfc"]) == (2, [3])
    ucx = next(each for each in port["chains"] if each["stack"] == "ucx")
    names = ("traffic_class", "dscp", "priority", "pfc", "lossless", "cell")
    assert [ucx[name] for name in names] == [106, 26, 3, True, True, None]
    assert document["peer"] is None


def test_a_host_without_a_roce_port_is_unknown(rdmadiag: Rdmadiag) -> None:
    for sample in ("infiniband-two-hca", "mac-ready"):
        code, out, _ = rdmadiag("lossless", "--sample", sample)
        assert (code, out.split("  ")[:2]) == (3, ["UNKNOWN", "no active RoCE port"])


def test_a_stack_whose_class_is_not_known_is_refused(rdmadiag: Rdmadiag) -> None:
    code, out, err = rdmadiag("lossless", "--stack", "jaccl", "--sample", "roce-healthy")
    assert (code, out) == (64, "")
    assert "nccl" in err


def test_variables_of_a_file_are_taken(
    written: Callable[..., str], rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    file = tmp_path / "job.env"
    file.write_text("NCCL_IB_TC=106\n")
    record = written("host", GOOD)
    code, out, _ = rdmadiag(
        "lossless", "--stack", "nccl", "--env-from", str(file), "--from", record
    )
    assert code == 0
    assert "NCCL_IB_TC=106" in out


def test_where_the_list_of_devices_was_not_read_nothing_is_said_of_ports(
    rdmadiag: Rdmadiag, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = roce_host().host()
    answered, replied = host.list, host.netlink
    late = Missing(Why.TIMEOUT, "no answer before the deadline")

    def netlink(name: str, *request: Any) -> bytes | Missing:
        return late if name.startswith("nldev") else replied(name, *request)

    monkeypatch.setattr(host, "list", lambda path: late if path == CLASS else answered(path))
    monkeypatch.setattr(host, "netlink", netlink)
    monkeypatch.setattr("rdmadiag.cli.options.LiveHost", lambda: host)
    code, out, _ = rdmadiag("lossless")
    assert code == 3
    assert out.startswith("UNKNOWN  ")
    assert "could not be read: timeout" in out.splitlines()[0]
    document = json.loads(rdmadiag("lossless", "--json").out)
    assert document["missing"]["dcb"]["why"] == "timeout"


@pytest.mark.parametrize("sample", ["infiniband-two-hca", "mac-ready"])
def test_a_peer_without_a_roce_port_leaves_it_unknown(
    sample: str, written: Callable[..., str], rdmadiag: Rdmadiag
) -> None:
    record = written("host", GOOD)
    peer = str(resources.files("rdmadiag").joinpath("samples", sample))
    arguments = ("lossless", "--stack", "ucx", "--from", record)
    assert rdmadiag(*arguments).code == 0
    code, out, _ = rdmadiag(*arguments, "--peer", peer)
    assert code == 3
    assert out.startswith("UNKNOWN  the peer: no active RoCE port")


def test_a_record_of_no_source_says_so_instead_of_having_no_port(
    tmp_path: Path, written: Callable[..., str], rdmadiag: Rdmadiag
) -> None:
    document = json.loads(rdmadiag("preflight", "--json", "--from", written("host", GOOD)).out)
    document["evidence"]["sysfs"] = {"why": "not_collected", "detail": "not asked for"}
    document["evidence"]["nldev"] = document["evidence"]["verbs"] = document["evidence"]["sysfs"]
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(document))
    code, out, _ = rdmadiag("lossless", "--from", str(changed))
    assert code == 3
    assert out.startswith("UNKNOWN  sysfs could not be read: not_collected: not asked for")


def test_the_first_line_is_the_peers_where_the_peer_is_worse(
    written: Callable[..., str], rdmadiag: Rdmadiag
) -> None:
    here, there = written("here", GOOD), written("there", Dcb(pfc=(), apps=((5, 26, 3),)))
    code, out, _ = rdmadiag("lossless", "--stack", "ucx", "--from", here, "--peer", there)
    assert code == 1
    first = out.splitlines()[0]
    assert first.startswith("WARN  ")
    assert first.endswith("[there, recorded]")
