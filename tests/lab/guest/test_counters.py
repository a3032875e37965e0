"""Real traffic moves rxe's counters, and our differences are those of `rdma statistic show`."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from io import RawIOBase
from pathlib import Path
from typing import Any

import pytest

from lab.attempt import until
from lab.ports import wait_listening
from lab.resources import queue_pair_states
from lab.rxe import Rxe, add_pair, remove_pair

Call = Callable[..., tuple[int, Any]]
Rdmadiag = Callable[..., tuple[int, str, str]]
Run = Callable[..., Any]

RECORDED = Path(os.environ.get("RDMADIAG_LAB_OUT", "/nowhere")) / "recorded"
SERVER_SECONDS = 30.0  # until perftest listens
PERFTEST_PORT = 18515


def by_rdma(run: Run) -> dict[str, dict[str, int]]:
    """`rdma statistic show`: device → its counters."""
    rows = json.loads(run(["rdma", "-j", "statistic", "show"], timeout=30).stdout)
    return {
        row["ifname"]: {
            name: value for name, value in row.items() if name not in ("ifname", "port")
        }
        for row in rows
    }


def rises(document: Any, device: str, source: str = "hw") -> dict[str, int]:
    """Counter → difference, of those that rose."""
    return {
        each["name"]: each["difference"]
        for each in document["changes"]
        if each["device"] == device and each["source"] == source and each["event"] == "rose"
    }


@contextmanager
def traffic(program: str, *arguments: str) -> Iterator[None]:
    """One perftest program with both its ends on rxe0, which ends with the block."""
    common = ["-x", "1", "-F", *arguments]
    server = subprocess.Popen(
        ["timeout", "120", program, "-d", "rxe0", *common],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        wait_listening(PERFTEST_PORT, SERVER_SECONDS)
        yield
        client = ["timeout", "90", program, "-d", "rxe0", *common, "127.0.0.1"]
        done = subprocess.run(client, capture_output=True, text=True, timeout=120, check=False)
        said, _ = server.communicate(timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr + said
    finally:
        server.kill()
        server.wait(timeout=10)


@pytest.fixture
def base(rdmadiag: Rdmadiag, tmp_path: Path, rxe_pair: tuple[Rxe, Rxe]) -> Path:
    """A saved sample of the pair."""
    code, out, err = rdmadiag("counters", "--interval", "0", "--json")
    assert code == 0, err
    path = tmp_path / "base.json"
    path.write_text(out)
    return path


class TestTraffic:
    @pytest.mark.other_kernels(2)
    @pytest.mark.parametrize(
        ("program", "arguments"),
        [("ib_send_lat", ("-n", "200")), ("ib_write_bw", ("-n", "200", "-s", "4096"))],
    )
    def test_differences_agree_with_rdma_statistic(
        self,
        program: str,
        arguments: tuple[str, ...],
        base: Path,
        rdmadiag_json: Call,
        run: Run,
    ) -> None:
        before = by_rdma(run)
        with traffic(program, *arguments):
            pass
        code, document = rdmadiag_json("counters", "--since", str(base), "--exit-zero")
        after = by_rdma(run)
        assert code == 0
        for device in ("rxe0", "rxe1"):
            ours = rises(document, device)
            theirs = {
                name: after[device][name] - value
                for name, value in before[device].items()
                if after[device][name] > value
            }
            # Neighbour discovery over the cable is no RDMA traffic: nothing else moves these.
            assert ours == theirs
        assert rises(document, "rxe0")["sent_pkts"] >= 100
        assert rises(document, "rxe0")["rcvd_pkts"] >= 100
        assert rises(document, "rxe1") == {}

    def test_the_second_witness_says_the_same(self, base: Path, rdmadiag_json: Call) -> None:
        with traffic("ib_send_lat", "-n", "200"):
            pass
        _, document = rdmadiag_json("counters", "--since", str(base), "--exit-zero")
        sets = {
            (each["source"], each["device"]): each["values"] for each in document["sample"]["sets"]
        }
        for device in ("rxe0", "rxe1"):
            assert sets["hw", device] == sets["nldev", device]
        rules = [each["rule"] for each in document["verdict"]["findings"]]
        assert "counters-disagree" not in rules

    @pytest.mark.other_kernels(0)
    def test_an_interval_with_traffic_in_it_shows_the_rate(
        self, rxe_pair: tuple[Rxe, Rxe], rdmadiag: Rdmadiag
    ) -> None:
        with subprocess.Popen(
            ["timeout", "60", "ib_send_bw", "-d", "rxe0", "-x", "1", "-F", "-D", "30"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as server:
            wait_listening(PERFTEST_PORT, SERVER_SECONDS)
            with subprocess.Popen(
                [
                    "timeout",
                    "60",
                    "ib_send_bw",
                    "-d",
                    "rxe0",
                    "-x",
                    "1",
                    "-F",
                    "-D",
                    "30",
                    "127.0.0.1",
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            ) as client:
                assert until(lambda: "RTS" in queue_pair_states("rxe0"), SERVER_SECONDS)
                code, out, err = rdmadiag(
                    *("counters", "--watch", "--count", "2", "--interval", "2", "--json"),
                    "--exit-zero",
                )
                client.kill()
            server.kill()
        assert code == 0, err
        documents = [json.loads(line) for line in out.splitlines()]
        assert len(documents) == 2
        for document in documents:
            (sent,) = [
                each
                for each in document["changes"]
                if (each["device"], each["name"], each["source"]) == ("rxe0", "sent_pkts", "hw")
            ]
            assert sent["per_second"] > 10
            assert sent["per_second"] == pytest.approx(
                sent["difference"] / sent["seconds"], rel=0.01
            )

    @pytest.mark.long
    def test_a_watch_in_a_terminal_is_drawn_anew_until_ctrl_c(
        self, rxe_pair: tuple[Rxe, Rxe]
    ) -> None:
        # In emulation acknowledgements may be late, which is a warning.
        options = ("--watch", "--interval", "1", "--exit-zero")
        command = [sys.executable, "-m", "rdmadiag", "counters", *options]
        child, terminal = pty.fork()
        if child == 0:
            os.environ.update(TERM="xterm-256color", COLUMNS="80", LINES="24")
            os.execv(command[0], command)
        drawn: list[bytes] = []
        with open(terminal, "rb", buffering=0) as screen, ThreadPoolExecutor(1) as reader:
            ended = reader.submit(drawn.extend, iter(lambda: _read(screen), b""))
            try:
                _wait_for(drawn, b"\x1b", 1)
                with traffic("ib_send_lat", "-n", "1000"):
                    pass
                _wait_for(drawn, b"sent_pkts", 2)
                os.write(terminal, b"\x03")
                ended.result(timeout=30)
            except BaseException:
                os.kill(child, signal.SIGKILL)  # the reader would wait for ever
                raise
        shown = b"".join(drawn).decode()
        RECORDED.mkdir(parents=True, exist_ok=True)
        (RECORDED / "watch.typescript").write_text(shown)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0, shown
        assert "\x1b[1A" in shown  # cursor up: the same place is written again
        assert "Traceback" not in shown


def _wait_for(drawn: list[bytes], text: bytes, times: int, seconds: float = 60.0) -> None:
    """Until a program has written a text so often."""
    end = time.monotonic() + seconds
    while (found := b"".join(drawn)).count(text) < times:
        assert time.monotonic() < end, found.decode()
        time.sleep(0.2)


def _read(screen: RawIOBase) -> bytes:
    """What a program wrote to its terminal; nothing once it has ended."""
    try:
        return screen.read(65536) or b""
    except OSError:  # EIO: the other end is closed
        return b""


class TestAtRest:
    def test_nothing_is_said_of_an_idle_pair(
        self, rxe_pair: tuple[Rxe, Rxe], rdmadiag: Rdmadiag
    ) -> None:
        code, out, err = rdmadiag("counters", "--interval", "1")
        assert (code, err) == (0, "")
        assert out.startswith("OK  2 ports, no error counter rose")

    def test_an_ordinary_user_sees_the_same_counters(
        self, rxe_pair: tuple[Rxe, Rxe], rdmadiag_json: Call
    ) -> None:
        _, ours = rdmadiag_json("counters", "--interval", "0")
        code, theirs = rdmadiag_json("counters", "--interval", "0", user=65534)
        assert code == 0
        names = [
            {
                (each["source"], each["device"]): sorted(each["values"])
                for each in found["sample"]["sets"]
            }
            for found in (ours, theirs)
        ]
        assert names[0] == names[1]

    def test_nothing_of_an_excluded_device_is_opened(
        self, rxe_pair: tuple[Rxe, Rxe], rdmadiag: Rdmadiag, tmp_path: Path
    ) -> None:
        log = tmp_path / "strace"
        strace = ("strace", "-f", "--seccomp-bpf", "-qq", "-e", "trace=open,openat", "-o", str(log))
        rdmadiag(
            "counters", "--interval", "1", "--exclude-device", "rxe0", prefix=strace, timeout=300
        )
        lines = log.read_text()
        assert "/sys/class/infiniband/rxe1/ports/1/hw_counters" in lines
        assert "infiniband/rxe0" not in lines

    def test_a_snapshot_of_the_pair_gives_the_same_values(
        self, rxe_pair: tuple[Rxe, Rxe], rdmadiag_json: Call, rdmadiag: Rdmadiag, tmp_path: Path
    ) -> None:
        target = str(tmp_path / "snapshot")
        assert rdmadiag("snapshot", target)[0] == 0
        _, live = rdmadiag_json("counters", "--interval", "0")
        code, replayed = rdmadiag_json("counters", "--from", target)
        assert code == 0
        for found in (live, replayed):
            for each in found["sample"]["sets"]:
                del each["seconds"]
        assert [each for each in live["sample"]["sets"] if each["source"] == "hw"] == [
            each for each in replayed["sample"]["sets"] if each["source"] == "hw"
        ]


@pytest.mark.other_kernels(0)
def test_a_device_made_anew_between_samples_is_a_reset_and_no_difference(
    base: Path, rdmadiag_json: Call, rdmadiag: Rdmadiag
) -> None:
    with traffic("ib_send_lat", "-n", "200"):
        pass
    code, out, err = rdmadiag("counters", "--interval", "0", "--json")
    assert code == 0, err
    busy = base.parent / "busy.json"
    busy.write_text(out)
    remove_pair()
    try:
        add_pair()
        code, document = rdmadiag_json("counters", "--since", str(busy))
    finally:
        remove_pair()
    assert code == 1
    rules = {each["rule"] for each in document["verdict"]["findings"]}
    assert "device-made-anew" in rules
    hw = [each for each in document["changes"] if each["source"] == "hw"]
    assert hw
    assert {each["event"] for each in hw} == {"reset"}
    assert all(isinstance(each["difference"], dict) for each in hw)
    assert str(2**63) not in json.dumps(document["changes"])
    assert max(each["after"] for each in hw) < 2**32


def test_a_netdev_set_down_is_a_lost_link(
    base: Path, rxe_pair: tuple[Rxe, Rxe], rdmadiag_json: Call, run: Run
) -> None:
    run(["ip", "link", "set", "veth0", "down"], timeout=30)
    run(["ip", "link", "set", "veth0", "up"], timeout=30)
    time.sleep(2)
    code, document = rdmadiag_json("counters", "--since", str(base))
    assert code in (1, 2)
    assert "link-went-down" in {each["rule"] for each in document["verdict"]["findings"]}


def test_a_link_that_comes_back_is_not_lost_again(
    rxe_pair: tuple[Rxe, Rxe], rdmadiag_json: Call, run: Run, tmp_path: Path
) -> None:
    run(["ip", "link", "set", "veth1", "down"], timeout=30)
    _, first = rdmadiag_json("counters", "--interval", "0")
    earlier = tmp_path / "down.json"
    earlier.write_text(json.dumps(first))
    run(["ip", "link", "set", "veth1", "up"], timeout=30)
    _, document = rdmadiag_json("counters", "--since", str(earlier))
    assert "link-went-down" not in {each["rule"] for each in document["verdict"]["findings"]}
    back = [each for each in document["changes"] if each["name"] == "carrier_changes"]
    assert back, "the link came back"
