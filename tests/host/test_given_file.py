"""A file that the user names: whatever it is, reading it ends."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rdmadiag.host import isolation
from rdmadiag.host.given_file import begin, open_log, read_given, understood


def test_a_regular_file_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    assert read_given(str(tmp_path / "file"), 100, time.monotonic()) == b"content"


def test_of_a_longer_one_a_byte_more_than_the_limit_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 3_000_000)
    assert len(read_given(str(tmp_path / "file"), 2_000_000, time.monotonic())) == 2_000_001


def test_a_pipe_is_waited_for() -> None:
    reading, writing = os.pipe()

    def write() -> None:
        time.sleep(0.05)
        os.write(writing, b"late")
        os.close(writing)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert read_given(f"/dev/fd/{reading}", 100, time.monotonic() + 5) == b"late"
    finally:
        writer.join()
        os.close(reading)


def test_a_pipe_that_nobody_closes_is_left_at_the_deadline() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"begun")
    begun = time.monotonic()
    try:
        with pytest.raises(OSError, match="nobody closes"):
            read_given(f"/dev/fd/{reading}", 100, begun + 0.1)
    finally:
        os.close(reading)
        os.close(writing)
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/dev/zero", "neither a regular file nor a pipe"),
        ("/dev/null", "neither a regular file nor a pipe"),
        ("/", "Is a directory"),
        ("/nowhere", "No such file"),
        ("a\0b", "null byte"),
        ("a" * 300, "File name too long"),
    ],
)
def test_what_is_no_file_is_an_os_error(path: str, said: str) -> None:
    with pytest.raises(OSError, match=said):
        read_given(path, 100, time.monotonic())


def test_a_pipe_without_a_writer_is_no_empty_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="nothing was written"):
        read_given(str(tmp_path / "pipe"), 100, time.monotonic() + 5)


# --- in a child, within a budget ----------------------------------------------------------------


class Refusal(Exception):
    """What a reader raises of a file that it cannot use."""


def test_what_a_reader_makes_of_a_file_comes_back() -> None:
    assert understood("x", lambda: {"made": os.getpid()}, Refusal, time.monotonic() + 20) != {
        "made": os.getpid()
    }


def test_what_a_reader_raises_comes_back_as_it_is() -> None:
    def read() -> None:
        raise Refusal("x: line 3 is nothing")

    with pytest.raises(Refusal, match=r"^x: line 3 is nothing$"):
        understood("x", read, Refusal, time.monotonic() + 20)


def test_a_reader_that_takes_too_long_is_ended_at_the_deadline() -> None:
    begun = time.monotonic()
    with pytest.raises(Refusal, match=r"^x: no answer before the deadline; process \d+ was kil"):
        understood("x", lambda: time.sleep(60), Refusal, begun + 0.1)
    assert time.monotonic() - begun < 20


@pytest.mark.skipif(sys.platform != "linux", reason="macOS does not hold RLIMIT_AS")
def test_a_reader_gets_no_more_memory_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "MEMORY", 64 << 20)
    assert understood("x", lambda: len(bytes(16 << 20)), Refusal, time.monotonic() + 20) == 16 << 20
    with pytest.raises(Refusal, match=r"^x: takes more memory than it may$"):
        understood("x", lambda: len(bytes(128 << 20)), Refusal, time.monotonic() + 20)


def test_a_reader_reads_the_callers_stdin(tmp_path: Path) -> None:
    expected = tmp_path / "expected.toml"
    expected.write_text("[host]\ndevices = 7\n")
    with expected.open("rb") as stdin:
        ran = subprocess.run(
            [
                *(sys.executable, "-m", "rdmadiag", "preflight", "--sample", "roce-healthy"),
                *("--expect", "/dev/stdin", "--quiet"),
            ],
            stdin=stdin,
            capture_output=True,
            timeout=60,
            check=False,
        )
    assert ran.returncode == 2
    assert b"7 RDMA devices expected" in ran.stdout


# --- a log: read as it comes, once it has begun -------------------------------------------------


def test_a_log_in_a_pipe_is_read_for_as_long_as_it_comes(tmp_path: Path) -> None:
    path = str(tmp_path / "pipe")
    os.mkfifo(path)

    def write() -> None:
        with open(path, "wb", buffering=0) as out:
            out.write(b"first")
            time.sleep(0.5)
            out.write(b" and last")

    writer = threading.Thread(target=write)
    writer.start()
    with open_log(path, time.monotonic() + 20) as stream:
        assert stream.read(5) == b"first"
        assert stream.readall() == b" and last"
    writer.join()


def test_a_log_in_a_pipe_that_nobody_writes_to_is_left_at_the_deadline(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    begun = time.monotonic()
    with pytest.raises(OSError, match="nothing was written"):
        open_log(str(tmp_path / "pipe"), begun + 0.1)
    assert time.monotonic() - begun < 20


def test_to_see_whether_a_log_can_be_read_costs_a_pipe_no_byte(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"whole")
    os.close(writing)
    try:
        begin(f"/dev/fd/{reading}")
        assert os.read(reading, 100) == b"whole"
    finally:
        os.close(reading)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
def test_a_file_of_proc_is_refused_since_it_may_never_end() -> None:
    for path in ("/proc/self/status", "/proc/kmsg"):
        with pytest.raises(OSError, match="copy what it holds"):
            open_log(path, time.monotonic() + 5)


@pytest.mark.parametrize("path", ["/nowhere", "a\0b", "/", "/dev/zero"])
def test_a_log_that_is_no_file_is_an_os_error(path: str) -> None:
    with pytest.raises(OSError, match=r"."):
        open_log(path, time.monotonic())
