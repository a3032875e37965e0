"""A file that the user names: whatever it is, reading it ends."""

import os
import threading
import time
from pathlib import Path

import pytest

from rdmadiag.host.given_file import read_given


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
