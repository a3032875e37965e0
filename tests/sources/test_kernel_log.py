"""Lines of the kernel's log: the form of a record, the window, and how many are kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.kernel_log import KernelLine, KernelLogFacts
from rdmadiag.sources import kernel_log
from rdmadiag.sources.kernel_log import parse_kernel_log, parse_window, read_kernel_log

DOWN = b"3,416,17717449968,-;mlx5_core 0000:08:00.0 eth0: Link down\n SUBSYSTEM=pci\n DEVICE=+pci\n"


@given(st.binary(max_size=400))
def test_any_bytes_are_lines(raw):
    for line in parse_kernel_log(raw):
        assert 0 <= line.level < 8
        line.message.encode()


@given(st.text(max_size=20))
def test_any_text_is_a_window_or_malformed(text):
    found = parse_window(text)
    assert isinstance(found, int) if not isinstance(found, Missing) else found.why is Why.MALFORMED


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("10m", 600), ("2h", 7200), ("1d", 86400)]
)
def test_a_window_is_told_in_seconds(text, seconds):
    assert parse_window(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "m", "0m", "1w", "-1m", "1.5h"], ids=repr)
def test_what_is_no_window_is_malformed(text):
    assert parse_window(text).why is Why.MALFORMED


def test_a_record_is_a_line_without_the_keys_below_it():
    assert parse_kernel_log(DOWN) == (
        KernelLine(17717.449968, 3, "mlx5_core 0000:08:00.0 eth0: Link down"),
    )


def test_a_facility_does_not_hide_the_level():
    assert parse_kernel_log(b"30,1,2,-;systemd\n")[0].level == 6


def test_newer_kernels_write_more_fields():
    (line,) = parse_kernel_log(b"6,1,2000000,-,caller=T12;mlx5; a; b\n")
    assert (line.seconds, line.message) == (2.0, "mlx5; a; b")


def test_bytes_that_are_not_utf8_can_be_printed():
    assert parse_kernel_log(b"6,1,2,-;\xff\n")[0].message == "\\xff"


def test_of_many_lines_the_last_are_kept_and_the_others_counted(memory_host, soon):
    memory_host.recording.logs["kernel"] = b"".join(
        b"6,%d,%d,-;mlx5 %d\n" % (number, number, number) for number in range(7)
    )
    found = read_kernel_log(memory_host, soon, "1h", 3)
    assert [line.message for line in found.lines] == ["mlx5 4", "mlx5 5", "mlx5 6"]
    assert (found.left_out, found.window) == (4, "1h")


def test_a_log_that_may_not_be_read_is_missing_in_its_place(memory_host, soon):
    refused = Missing(Why.DENIED, "/dev/kmsg: EPERM")
    memory_host.recording.refuse("log", "kernel", refused)
    assert read_kernel_log(memory_host, soon) == KernelLogFacts("10m", refused)


def test_a_window_that_makes_no_sense_asks_nothing(memory_host, soon):
    assert read_kernel_log(memory_host, soon, "long").why is Why.MALFORMED
    assert memory_host.asked == []


def test_the_words_do_not_ask_for_the_whole_log():
    assert all(len(word) >= 4 for word in kernel_log.WORDS)
