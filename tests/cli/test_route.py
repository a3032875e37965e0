"""rdmadiag route, end to end on recorded hosts."""

import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.netdevs import NetDev
from tests.preflight.test_judge_route import host

# Children that read what a user names: tests/host/test_given_file.py, test_isolation.py.
pytestmark = pytest.mark.usefixtures("in_this_process")

Rdmadiag = Callable[..., "Outcome"]  # type: ignore[name-defined]  # noqa: F821  # tests/cli/conftest.py


@pytest.fixture
def record(tmp_path: Path) -> str:
    machine = host(neighbours={("eth0", "192.0.2.9"): 0x02})
    lan = NetDev("lan0", addresses=("10.0.0.1/24",))
    machine.change(netdevs=(*machine.netdevs, lan)).write(str(tmp_path / "host"), "Two ports.")
    return str(tmp_path / "host")


def test_the_first_line_is_the_answer(record: str, rdmadiag: Rdmadiag) -> None:
    code, out, err = rdmadiag("route", "192.0.2.9", "--from", record)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == (
        "OK  mlx5_0/1, GID 3 (::ffff:192.0.2.1, RoCE v2) on eth0 towards 192.0.2.9  "
        "[host, recorded]"
    )
    rows = {line.split("  ")[0]: line for line in lines[1:]}
    assert rows["path MTU"].split()[2] == "4096,"
    assert "reachable, 0c:42:a1:00:00:99" in rows["next hop"]
    assert "192.0.2.0/24 of table 254, rule 32766" in rows["way"]
    assert any("the same, index 3: " in line and "librdmacm" in out for line in lines)
    assert max(map(len, lines[1:])) <= 80


def test_a_warning_says_the_device_too(tmp_path: Path, rdmadiag: Rdmadiag) -> None:
    machine = host(neighbours={("eth0", "192.0.2.9"): 0x20})
    machine.write(str(tmp_path / "host"), "A peer that does not answer.")
    code, out, _ = rdmadiag("route", "192.0.2.9", "--from", str(tmp_path / "host"))
    assert code == 1
    assert out.splitlines()[0] == (
        "WARN  mlx5_0/1, GID 3 (::ffff:192.0.2.1, RoCE v2) on eth0 towards 192.0.2.9; "
        "the peer 192.0.2.9 has not answered on eth0: failed  [host, recorded]"
    )


def test_what_stops_it_is_the_answer_too(record: str, rdmadiag: Rdmadiag) -> None:
    code, out, _ = rdmadiag("route", "10.0.0.9", "--from", record)
    assert code == 2
    assert out.startswith(
        "CRITICAL  the way to 10.0.0.9 leaves by lan0, which no RDMA device is on"
    )
    assert "RDMA_CM_EVENT_ADDR_ERROR, status -19 (ENODEV)" in out.splitlines()[0]
    assert "    ip route get 10.0.0.9" in out.splitlines()


@pytest.mark.parametrize(
    ("peer", "address", "port", "scope"),
    [
        ("192.0.2.9", "192.0.2.9", None, None),
        ("192.0.2.9:7471", "192.0.2.9", 7471, None),
        ("[2001:DB8::9]:7471", "2001:db8::9", 7471, None),
        ("2001:db8::9", "2001:db8::9", None, None),
        ("fe80::9%eth0", "fe80::9", None, "eth0"),
        ("[fe80::9%eth0]:1", "fe80::9", 1, "eth0"),
    ],
)
def test_a_peer_is_an_address_with_or_without_a_port(
    peer: str, address: str, port: int | None, scope: str | None, record: str, rdmadiag: Rdmadiag
) -> None:
    document = rdmadiag("route", peer, "--from", record, "--json").document
    assert document["peer"] == {"asked": peer, "address": address, "port": port, "scope": scope}


def test_the_document(record: str, rdmadiag: Rdmadiag) -> None:
    found = rdmadiag("route", "198.51.100.9", "--from", record, "--json")
    assert found.code == 0
    taken = found.document["route"]["taken"]
    assert (taken["device"], taken["port"], taken["gid_index"], taken["gid_type_number"]) == (
        *("mlx5_1", 1, 3),
        2,
    )
    stacks = {row["stack"]: row for row in found.document["stacks"]}
    assert (stacks["rdmacm"]["by_rdma_cm"], stacks["rdmacm"]["index"]) == (True, 3)
    assert stacks["perftest"]["same"] is not None


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("node2",), "'node2' is no address, and /etc/hosts gives none for it ("),
        (("192.0.2.9", "--source", "eth0"), "is no address"),
        (("[192.0.2.9",), "is not [ADDRESS]:PORT"),
        (("192.0.2.9:0",), "is not ADDRESS or ADDRESS:PORT"),
    ],
)
def test_what_is_no_peer_is_one_line_and_64(
    argv: tuple[str, ...], words: str, record: str, rdmadiag: Rdmadiag
) -> None:
    code, out, err = rdmadiag("route", *argv, "--from", record)
    assert (code, out, err.count("\n")) == (64, "", 1)
    assert words in err


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        pytest.param(30, "no answer within 0.5 s", id="it hangs"),
        pytest.param(0, "not known", id="it has no such name"),
    ],
)
def test_a_resolver_without_an_answer_is_one_line_in_time(
    seconds: float, words: str, record: str, rdmadiag: Rdmadiag, monkeypatch: Any
) -> None:
    def getaddrinfo(*_: object, **__: object) -> object:
        time.sleep(seconds)
        raise socket.gaierror(socket.EAI_NONAME, "not known")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    began = time.monotonic()
    code, out, err = rdmadiag("route", "node2", "--resolve", "--from", record, "--timeout", "1")
    assert (code, out, err.count("\n")) == (64, "", 1)
    assert words in err
    assert time.monotonic() - began < 15


def test_another_device_than_asked_for_fails(record: str, rdmadiag: Rdmadiag) -> None:
    argv = ("route", "192.0.2.9", "--from", record, "--device")
    assert rdmadiag(*argv, "mlx5_0").code == 0
    assert rdmadiag(*argv, "mlx5_1").code == 2
    assert rdmadiag(*argv, "mlx5_1", "--exit-zero").code == 0
    assert rdmadiag(*argv, "mlx5_9").code == 64


def test_an_older_record_gives_unknown(tmp_path: Path, rdmadiag: Rdmadiag) -> None:
    host(rules=None).write(str(tmp_path / "old"), "Nobody asked for routes.")
    code, out, _ = rdmadiag("route", "192.0.2.9", "--from", str(tmp_path / "old"), "--quiet")
    assert code == 3
    assert out.startswith("UNKNOWN  which way to 192.0.2.9 is not known")


def test_on_a_mac_it_is_unknown(rdmadiag: Rdmadiag) -> None:
    code, out, _ = rdmadiag("route", "192.0.2.9", "--sample", "mac-ready", "--quiet")
    assert code == 3
    assert "Linux only" in out


def test_a_report_of_preflight_has_the_tables(
    record: str, tmp_path: Path, rdmadiag: Rdmadiag
) -> None:
    report = tmp_path / "report.json"
    report.write_text(rdmadiag("preflight", "--from", record, "--json").out)
    code, out, _ = rdmadiag("route", "198.51.100.9", "--from", str(report))
    assert code == 0
    assert out.startswith("OK  mlx5_1/1, GID 3")
