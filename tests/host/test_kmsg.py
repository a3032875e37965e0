"""The kernel's log as /dev/kmsg gives it: one record a read, the window, the words."""

import os
import time

import pytest

from rdmadiag.facts import Missing, Why
from rdmadiag.host import kmsg

WORDS = ("mlx5", "Link is ")


def record(age, text, keys=b""):
    """A record of `age` seconds ago, which is after the machine was started."""
    now = time.clock_gettime(time.CLOCK_MONOTONIC_RAW)
    return b"6,416,%d,-;%s\n%s" % (int((now - age) * 1e6), text, keys)


@pytest.fixture
def log(tmp_path, monkeypatch):
    """Lets `kmsg.read` read these records, each by a read(2) of its own; an error is raised."""

    def written(*records):
        waiting = list(records)
        path = tmp_path / "kmsg"
        path.touch()

        def read(handle, size):
            assert size >= 8192, "a shorter buffer is refused with EINVAL"
            if not waiting:
                raise BlockingIOError
            found = waiting.pop(0)
            if isinstance(found, bytes):
                return found
            raise found

        monkeypatch.setattr(kmsg.os, "read", read)
        return str(path)

    return written


def test_records_of_the_window_with_one_of_the_words_are_kept(log, soon):
    old = record(15, b"mlx5_core 0000:08:00.0: Link down")
    new = record(3, b"mlx5_core 0000:08:00.0: Link up")
    other = record(2, b"usb 1-1: new device")
    link = record(1, b"bnxt_en 0000:09:00.0 eth1: NIC link IS down", b" SUBSYSTEM=pci\n")
    assert kmsg.read(log(old, new, other, link), 10, WORDS, soon) == new + link


def test_the_kernels_command_line_is_never_kept(log, soon):
    start = record(1, b"Command line: console=ttyS0 mlx5.password=secret")
    unknown = record(1, b'Unknown kernel command line parameters "mlx5.password=secret"')
    assert kmsg.read(log(start, unknown), 600, WORDS, soon) == b""


def test_a_record_that_was_overwritten_meanwhile_is_passed_over(log, soon):
    new = record(1, b"mlx5")
    assert kmsg.read(log(BrokenPipeError(), new), 600, WORDS, soon) == new


@pytest.mark.parametrize("up", [60, 90_000], ids=["just started", "up for a day"])
def test_records_that_make_no_sense_are_not_kept(log, soon, monkeypatch, up):
    monkeypatch.setattr(kmsg.time, "clock_gettime", lambda clock: float(up))
    assert kmsg.read(log(b"mlx5", b"6,1,-;mlx5", b"", b"never"), 600, WORDS, soon) == b""


def test_of_very_many_the_last_are_kept(log, soon):
    many = [record(1, b"mlx5 %d" % number) for number in range(2500)]
    found = kmsg.read(log(*many), 600, WORDS, soon)
    assert found.count(b"\n") == 2000
    assert found.endswith(b"mlx5 2499\n")


def test_past_the_deadline_there_is_no_half_answer(log, past):
    assert kmsg.read(log(record(1, b"mlx5")), 600, WORDS, past).why is Why.TIMEOUT


@pytest.mark.parametrize(
    ("error", "why"),
    [(PermissionError(1, "EPERM"), Why.DENIED), (OSError(22, "EINVAL"), Why.UNSUPPORTED)],
    ids=["refused", "not supported"],
)
def test_an_error_is_a_reason(log, soon, error, why):
    found = kmsg.read(log(error), 600, WORDS, soon)
    assert isinstance(found, Missing)
    assert found.why is why


def test_a_log_that_is_not_there_is_absent(tmp_path, soon):
    found = kmsg.read(str(tmp_path / "kmsg"), 600, WORDS, soon)
    assert found.why is Why.ABSENT


def test_it_is_opened_for_reading_alone_and_without_waiting(log, soon, monkeypatch):
    flags, path = [], log()
    opened = os.open
    monkeypatch.setattr(
        kmsg.os, "open", lambda path, flag: flags.append(flag) or opened(path, flag)
    )
    kmsg.read(path, 600, WORDS, soon)
    assert flags == [os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK]
