"""rdmadiag job, end to end: on recorded hosts, on one whose counters rise, and on this process."""

import json
import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import counted
from lab.counted import Held
from lab.machine import Machine, with_counters
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.ib import QpState
from rdmadiag.facts.job import JobSample, PortTraffic, TcpSocket, TcpState, TrafficUnit
from rdmadiag.host.recording import Recording, documents, write_folder
from rdmadiag.sources import sampling

Rdmadiag = Callable[..., "Outcome"]  # type: ignore[name-defined]  # noqa: F821  # tests/cli/conftest.py

NETNS = "net:[4026531840]"
MAPS = "7f1c5e000000-7f1c60000000 r-xp 0003f000 08:02 1312  {}\n"
LIBRARIES = ("libibverbs.so.1.14.50.0", "libucp.so.0.0.0", "libnccl.so.2.27.3")


def described(machine: Machine, *, held: tuple[Held, ...], environ: bytes) -> Recording:
    """The machine with process 4711 and its child 4712; the first may be looked into."""
    made = (
        with_counters(machine)
        .change(commands={4711: "python3"})
        .with_device(0, held=(*counted.KERNEL_OWN, *held))
    )
    recording = made.recording()
    recording.links["/proc/self/ns/net"] = NETNS
    recording.listings["/proc"] = ("4711", "4712", "self")
    for pid, parent in ((4711, 1), (4712, 4711)):
        at = f"/proc/{pid}"
        recording.files |= {
            f"{at}/comm": b"python3\n",
            f"{at}/stat": f"{pid} (python3) S {parent} 1 1 0\n".encode(),
            f"{at}/cgroup": b"0::/job\n",
            f"{at}/environ": environ,
            f"{at}/maps": "".join(MAPS.format(f"/usr/lib/{each}") for each in LIBRARIES).encode(),
        }
        recording.links |= {f"{at}/ns/net": NETNS, f"{at}/fd/7": "socket:[71344]"}
        recording.listings[f"{at}/fd"] = ("7",)
    return recording


@pytest.fixture
def made(roce: Machine) -> Recording:
    return described(roce, held=counted.job(4711, pairs=8), environ=b"NCCL_IB_HCA=mlx5_0\0")


@pytest.fixture
def record(roce: Machine, made: Recording, tmp_path: Path) -> str:
    files = documents(made, roce.identity(), {}, recorded_at="never: built")
    write_folder(files, str(tmp_path / "host"))
    return str(tmp_path / "host")


def samples(rdma: int, tcp: int | Missing, seconds: float = 1.0) -> Iterator[JobSample]:
    """As many pairs as are asked for; in each interval so many bytes go by either."""
    at, words, sent = 10.0, 0, 0
    while True:
        one = TcpSocket(
            *(71344, TcpState.ESTABLISHED, "192.0.2.1", 40112, "192.0.2.9", 5001),
            sent if isinstance(tcp, int) else tcp,
            0 if isinstance(tcp, int) else tcp,
        )
        port = PortTraffic("mlx5_0", 1, TrafficUnit.BYTES, words, words, "counters/port_xmit_data")
        yield JobSample(at, (one,), {}, (port,))
        at, words = at + seconds, words + rdma // 2
        sent += tcp if isinstance(tcp, int) else 0


@pytest.fixture
def live(
    made: Recording, host_in_memory: Any, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Recording]:
    """A host that is not recorded, whose counters rise from one sample to the next."""

    def start(rdma: int, tcp: int | Missing, recording: Recording = made) -> Recording:
        host = host_in_memory(recording)
        host.can_hang = False  # no child for what is in memory
        rising = samples(rdma, tcp)
        monkeypatch.setattr("rdmadiag.cli.options.LiveHost", lambda: host)
        monkeypatch.setattr(sampling, "job_sample", lambda *_: next(rising))
        monkeypatch.setattr("rdmadiag.cli.job.time.sleep", lambda _: None)
        return recording

    return start


def test_the_first_line_is_the_share_the_netdev_and_the_cause(
    roce: Machine, live: Callable[..., Recording], rdmadiag: Rdmadiag
) -> None:
    live(4_000_000, 96_000_000, described(roce, held=counted.job(4711), environ=b"UCX_TLS=tcp\0"))
    code, out, err = rdmadiag("job", "4711")
    lines = out.splitlines()
    assert (code, err) == (1, "")
    assert lines[0] == (
        "WARN  96 % of its bytes go by TCP over eth0, because UCX_TLS=tcp  [memory]"
    )
    assert lines[1] == "  because UCX_TLS=tcp: none of rc, dc, ud, ib, all"
    assert "    rdmadiag explain UCX_TLS" in lines
    assert "    rdmadiag preflight --env-from 4711" in lines
    assert any(line.startswith("mlx5_0/1") and "8 rc rts" in line for line in lines)
    assert "by RDMA        4 MB in 1 s" in lines
    assert "ibverbs  1.14.50.0  /usr/lib/libibverbs.so.1.14.50.0" in lines
    assert "not in RDMA netlink" in out
    assert max(map(len, lines)) <= 100


def test_a_job_on_rdma_is_ok_and_quiet_is_one_line(
    live: Callable[..., Recording], rdmadiag: Rdmadiag
) -> None:
    live(99_000_000, 1_000_000)
    assert rdmadiag("job", "4711", "--quiet") == (
        *(0, "OK  99 % of its bytes go by RDMA over mlx5_0/1  [memory]\n", ""),
    )


def test_the_document(live: Callable[..., Recording], rdmadiag: Rdmadiag) -> None:
    live(99_000_000, 1_000_000)
    found = rdmadiag("job", "4711", "--json")
    document = found.document
    assert (found.code, document["verdict"]["status"]) == (0, "ok")
    assert document["verdict"]["reasons"] == ["on_rdma"]
    assert document["transport"]["rdma_bytes"] == 99_000_000
    assert document["transport"]["tcp_bytes"] == 1_000_000
    assert document["transport"]["share_rdma"] == 0.99
    assert document["because"] == []
    (port,) = document["ports"]
    assert (port["device"], port["route_gid_index"], port["others"]) == ("mlx5_0", 3, 0)
    assert {each["stack"] for each in port["picks"]} == {"nccl", "ucx"}
    (process,) = document["job"]["processes"]
    assert process["environment"] == {"NCCL_IB_HCA": "mlx5_0"}


@pytest.mark.parametrize(
    ("option", "pids"), [("--children", [4711, 4712]), ("--cgroup", [4711, 4712])]
)
def test_children_and_the_control_group(
    option: str, pids: list[int], live: Callable[..., Recording], rdmadiag: Rdmadiag
) -> None:
    live(99_000_000, 1_000_000)
    document = rdmadiag("job", "4711", option, "--json").document
    assert [each["pid"] for each in document["job"]["processes"]] == pids
    assert document["job"]["cgroup"] == ("/job" if option == "--cgroup" else None)
    text = rdmadiag("job", "4711", option).out
    assert any(line.split() == ["4712", "python3"] for line in text.splitlines())
    assert ("cgroup  /job" in text) is (option == "--cgroup")


def test_others_on_the_port_are_said(
    roce: Machine, live: Callable[..., Recording], rdmadiag: Rdmadiag
) -> None:
    held = (*counted.job(4711), Held("qp", 1, 9, first=300))
    live(50_000_000, 50_000_000, described(roce, held=held, environ=b""))
    code, out, _ = rdmadiag("job", "4711")
    assert code == 1
    assert out.startswith("WARN  at least 50 % of its bytes go by TCP over eth0")
    assert "at most 50 %: others use its ports too, or cannot be seen" in out


def test_queue_pairs_in_error_are_critical(
    roce: Machine, live: Callable[..., Recording], rdmadiag: Rdmadiag
) -> None:
    held = (Held("qp", 2, 4711, state=QpState.ERR),)
    live(0, 0, described(roce, held=held, environ=b""))
    code, out, _ = rdmadiag("job", "4711")
    assert (code, out.split("  [")[0]) == (
        *(2, "CRITICAL  2 of its 2 queue pairs are in the error state"),
    )
    assert rdmadiag("job", "4711", "--exit-zero").code == 0


def test_bytes_that_are_not_counted_leave_it_unknown_with_the_reason(
    live: Callable[..., Recording], rdmadiag: Rdmadiag
) -> None:
    live(99_000_000, Missing(Why.NOT_COLLECTED, "the module tcp_diag is not loaded"))
    code, out, _ = rdmadiag("job", "4711")
    assert code == 3
    assert out.startswith("UNKNOWN  it has 8 queue pairs on mlx5_0/1, by which it moved 99 MB; ")
    assert "not known: the module tcp_diag is not loaded\n" in out  # and no "in 1 s" after it
    assert rdmadiag("job", "4711", "--fail-on", "critical").code == 0


def test_what_may_not_be_read_is_said_where_it_would_stand(
    live: Callable[..., Recording], made: Recording, rdmadiag: Rdmadiag
) -> None:
    denied = Missing(Why.DENIED, "EACCES")
    made.refused = {"read": {f"/proc/4711/{name}": denied for name in ("environ", "maps")}}
    live(99_000_000, 1_000_000)
    out = rdmadiag("job", "4711").out
    assert out.count("of 4711  EACCES") == 2


def test_of_a_record_there_is_one_sample_and_no_more_is_claimed(
    record: str, rdmadiag: Rdmadiag
) -> None:
    code, out, err = rdmadiag("job", "4711", "--from", record)
    assert (code, err) == (3, "")
    assert "it has 8 queue pairs on mlx5_0/1; what they carry was not compared over time" in out
    assert "rdmadiag job" not in out, "it would look at this host"
    assert "TCP connections" in out


def test_one_device_is_shown_and_one_that_is_not_there_refused(
    live: Callable[..., Recording], rdmadiag: Rdmadiag
) -> None:
    live(99_000_000, 1_000_000)
    found = rdmadiag("job", "4711", "--device", "mlx5_1", "--json")
    assert (found.document["ports"], found.document["unused"]) == ([], ["mlx5_1/1"])
    assert found.document["transport"]["share_rdma"] == 0.99
    code, _, err = rdmadiag("job", "4711", "--device", "mlx5_7")
    assert (code, "no RDMA device 'mlx5_7'" in err) == (64, True)


def test_a_watch_ends_with_the_job_and_has_its_worst_code(
    live: Callable[..., Recording], rdmadiag: Rdmadiag, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = live(4_000_000, 96_000_000)
    found = rdmadiag("job", "4711", "--watch", "--count", "2", "--json")
    assert (found.code, len(found.out.splitlines())) == (1, 2)
    looked = sampling.job
    times = iter(range(9))

    def ending(*rest: Any) -> Any:
        if next(times):
            recording.files.pop("/proc/4711/comm", None)
        return looked(*rest)

    monkeypatch.setattr(sampling, "job", ending)
    code, out, err = rdmadiag("job", "4711", "--watch", "--quiet")
    assert (code, len(out.splitlines())) == (1, 1)
    assert err == "rdmadiag: job 4711 has ended\n"


def test_a_watch_is_ended_by_ctrl_c(
    live: Callable[..., Recording], rdmadiag: Rdmadiag, monkeypatch: pytest.MonkeyPatch
) -> None:
    live(99_000_000, 1_000_000)

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rdmadiag.cli.job.time.sleep", interrupted)
    assert rdmadiag("job", "4711", "--watch") == (0, "", "")
    assert rdmadiag("job", "4711").code == 130


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (("1", "--children", "--cgroup"), 64, "--children and --cgroup exclude each other"),
        (("1", "--count", "2"), 64, "--count is for --watch"),
        (("1", "--watch", "--interval", "0"), 64, "--watch takes an interval above 0"),
        (("1", "--watch", "--peer", "other.json"), 64, "--peer is one sample of another host"),
        (("1", "--peer", "nowhere.json"), 64, "nowhere.json: "),
        (("0",), 64, "PID"),
        (("99999", "--sample", "roce-healthy"), 3, "job 99999: "),
        (("1", "--watch", "--sample", "roce-healthy"), 64, "a record is one sample"),
    ],
)
def test_what_cannot_be_is_one_line(
    argv: tuple[str, ...], code: int, words: str, rdmadiag: Rdmadiag
) -> None:
    found = rdmadiag("job", *argv)
    assert (found.code, found.out, found.err.count("\n")) == (code, "", 1)
    assert words in found.err


def test_a_process_that_is_not_there_and_a_report_that_has_none(
    live: Callable[..., Recording], rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    report.write_text(rdmadiag("preflight", "--sample", "roce-healthy", "--json").out)
    found = rdmadiag("job", "1", "--from", str(report))
    assert (found.code, found.err) == (3, "rdmadiag: a report of preflight names no process\n")
    live(0, 0)
    found = rdmadiag("job", "99")
    assert (found.code, found.err) == (64, "rdmadiag: job 99: no such process\n")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is Linux's")
def test_this_process_with_a_connection_within_the_host(rdmadiag: Rdmadiag) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()),
    ):
        found = rdmadiag("job", str(os.getpid()), "--interval", "0", "--json")
    document = found.document
    # Whatever else this process has open: no queue pair, and nothing that was compared.
    assert found.code in (1, 3)
    assert document["job"]["processes"][0]["pid"] == os.getpid()
    paths = {each["netdev"]: each for each in document["tcp"] if each["within_host"]}
    assert paths["lo"]["connections"] >= 1


def test_many_processes_are_folded_and_a_variable_of_some_is_counted(
    live: Callable[..., Recording], made: Recording, rdmadiag: Rdmadiag
) -> None:
    pids = [str(4720 + number) for number in range(10)]
    made.listings["/proc"] += tuple(pids)
    for pid in pids:
        made.files |= {
            f"/proc/{pid}/comm": b"rank\n",
            f"/proc/{pid}/stat": f"{pid} (rank) S 4711 1 1\n".encode(),
            f"/proc/{pid}/environ": b"NCCL_IB_DISABLE=1\0",
            f"/proc/{pid}/maps": b"",
        }
    live(1_000_000, 99_000_000)
    out = rdmadiag("job", "4711", "--children").out
    assert "and 4 more (--verbose lists them)" in out
    assert "NCCL_IB_DISABLE  1 (10 of them)" in out
    assert "in 10 of 12 processes" in out
    assert "more (--verbose" not in rdmadiag("job", "4711", "--children", "--verbose").out


# --- with its part on another host ---------------------------------------------------------------


@pytest.fixture
def there(
    live: Callable[..., Recording], rdmadiag: Rdmadiag, tmp_path: Path
) -> Callable[..., Path]:
    """What the other host printed, whose queue pairs lead back; with `changes` to the first."""

    def saved(before: str = "", **changes: Any) -> Path:
        live(99_000_000, 1_000_000)
        document = rdmadiag("job", "4711", "--json").document
        document["host"]["hostname"] = "node2"
        for each in document["connected"]:
            each["number"], each["peer"] = each["peer"], each["number"]
        document["connected"][0] |= changes
        path = tmp_path / "node2.json"
        path.write_text(before + json.dumps(document) + "\n")
        return path

    return saved


def test_both_parts_lead_to_each_other(
    there: Callable[..., Path], live: Callable[..., Recording], rdmadiag: Rdmadiag
) -> None:
    path = there()
    live(99_000_000, 1_000_000)
    code, out, err = rdmadiag("job", "4711", "--peer", str(path))
    assert (code, err) == (0, "")
    assert "at the peer node2\nOK           99 % of its bytes go by RDMA over mlx5_0/1\n" in out
    assert "queue pairs  8 of 8 connected ones lead there and back\n" in out


def test_a_queue_pair_that_broke_at_the_peer_alone_is_critical(
    there: Callable[..., Path], live: Callable[..., Recording], rdmadiag: Rdmadiag
) -> None:
    path = there(before='{"an earlier line": "of --watch"}\n', state="err")
    live(99_000_000, 1_000_000)
    code, out, _ = rdmadiag("job", "4711", "--peer", str(path))
    lines = out.splitlines()
    assert (code, lines[0].split("  [")[0]) == (
        *(2, "CRITICAL  at node2 the other ends of 1 of its 8 queue pairs are in the error state"),
    )
    assert lines[1:3] == ["    # on the peer", "    rdmadiag preflight"]
    assert "half broken  mlx5_0 QPN 100 is rts; there mlx5_0 QPN 5000 is err" in out
    live(99_000_000, 1_000_000)
    document = rdmadiag("job", "4711", "--peer", str(path), "--json").document
    assert document["verdict"]["reasons"] == ["peer_queue_pairs_in_error", "on_rdma"]
    assert document["peer"]["host"]["hostname"] == "node2"
    assert document["peer"]["both"]["joined"] == 8


def test_settings_that_differ_stand_beside_each_other(
    roce: Machine,
    there: Callable[..., Path],
    live: Callable[..., Recording],
    rdmadiag: Rdmadiag,
) -> None:
    path = there()
    live(99_000_000, 1_000_000, described(roce, held=counted.job(4711), environ=b"UCX_TLS=rc\0"))
    out = rdmadiag("job", "4711", "--peer", str(path)).out
    assert "NCCL_IB_HCA  not set; there mlx5_0\n" in out
    assert "UCX_TLS      rc; there not set\n" in out


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"host": 1'])
def test_a_peer_that_is_no_job_is_one_line(
    content: str, live: Callable[..., Recording], rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    path = tmp_path / "node2.json"
    path.write_text(content)
    live(0, 0)
    found = rdmadiag("job", "4711", "--peer", str(path))
    assert (found.code, found.out, found.err.count("\n")) == (64, "", 1)
    assert "not a document of job --json" in found.err


def test_what_is_no_number_of_a_process_is_called_so(rdmadiag: Rdmadiag) -> None:
    ran = rdmadiag("job", "abc")
    assert ran.code == 64
    assert "'abc' is not a valid whole number" in ran.err
