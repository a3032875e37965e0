"""One small text attribute: the forms that sysfs and procfs write, and everything else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts import Missing, Why
from rdmadiag.sources.text import attribute, malformed, parse_number, parse_numbered, parse_text


@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_of_the_kind_or_missing(raw):
    assert isinstance(parse_text(raw), str | Missing)
    assert isinstance(parse_number(raw), int | Missing)
    assert isinstance(parse_numbered(raw), int | Missing)


@given(st.binary(max_size=200))
def test_what_is_shown_of_malformed_bytes_is_one_short_printable_line(raw):
    missing = malformed(raw, "a number")
    assert missing.why is Why.MALFORMED
    assert missing.detail.isprintable()
    assert len(missing.detail) < 600


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"MT4125\n", "MT4125"),
        (b"  100 Gb/sec (4X EDR)  \n", "100 Gb/sec (4X EDR)"),
        ("Zürich HCA\n".encode(), "Zürich HCA"),
        (b"no newline", "no newline"),
    ],
    ids=["a word", "white space around", "UTF-8", "no newline"],
)
def test_a_line_of_text_is_itself_without_white_space_around(raw, text):
    assert parse_text(raw) == text


@pytest.mark.parametrize("raw", [b"", b"\n", b" \t\n"], ids=["nothing", "a newline", "blanks"])
def test_empty_text_is_absent(raw):
    assert parse_text(raw) == Missing(Why.ABSENT, "empty")


@pytest.mark.parametrize(
    "raw",
    [b"\xff\xfe\x00", b"one\ntwo\n", b"\x1b[31mred", b"a\0b", "\u202etxt".encode()],
    ids=["binary", "two lines", "a terminal's escape", "a NUL", "text that runs backwards"],
)
def test_text_that_no_line_of_ours_should_hold_is_malformed(raw):
    found = parse_text(raw)
    assert isinstance(found, Missing)
    assert found.why is Why.MALFORMED
    assert found.detail.isprintable()


@pytest.mark.parametrize(
    ("raw", "number"),
    [
        (b"0\n", 0),
        (b"0xffff\n", 0xFFFF),
        (b"0X1F", 31),
        (b"-1\n", -1),
        (b"128 extra\n", 128),
        (b"18446744073709551615\n", 2**64 - 1),
        (b"007\n", 7),
    ],
    ids=[
        "zero",
        "hexadecimal",
        "a capital X",
        "the kernel's word for none",
        "text behind it",
        "the largest of 64 bits",
        "leading zeros",
    ],
)
def test_a_number_is_decimal_or_0x(raw, number):
    assert parse_number(raw) == number


@pytest.mark.parametrize(
    "raw",
    [b"", b"x", b"0x", b"12abc", b"--1", b"1" * 5000, b"0x" + b"f" * 17, b"\xb2"],
    ids=[
        "nothing",
        "a letter",
        "0x alone",
        "letters right behind",
        "two signs",
        "thousands of digits",
        "more than 64 bits",
        "a superscript two",
    ],
)
def test_what_is_no_number_is_malformed(raw):
    assert parse_number(raw).why is Why.MALFORMED


@pytest.mark.parametrize(
    ("raw", "number"),
    [(b"4: ACTIVE\n", 4), (b"5:LinkUp", 5), (b"1 : CA", 1), (b"4:", 4)],
    ids=["as the kernel writes it", "no blank behind", "a blank before", "no word"],
)
def test_a_numbered_word_is_its_number(raw, number):
    assert parse_numbered(raw) == number


@pytest.mark.parametrize("raw", [b"", b"ACTIVE", b"4", b": ACTIVE", b"1234567890: X"], ids=repr)
def test_a_word_without_its_number_is_malformed(raw):
    assert parse_numbered(raw).why is Why.MALFORMED


def test_an_attribute_is_the_parsed_content_of_its_file(memory_host):
    memory_host.recording.files["/sys/x"] = b"12\n"
    assert attribute(memory_host, "/sys/x", parse_number) == 12


def test_a_malformed_attribute_names_its_file(memory_host):
    memory_host.recording.files["/sys/x"] = b"twelve\n"
    assert attribute(memory_host, "/sys/x", parse_number) == Missing(
        Why.MALFORMED, "/sys/x: 'twelve' is not a number"
    )


def test_a_file_that_cannot_be_read_keeps_its_reason(memory_host):
    memory_host.recording.refuse("read", "/sys/x", Missing(Why.DENIED, "/sys/x: EACCES"))
    assert attribute(memory_host, "/sys/x", parse_number) == Missing(Why.DENIED, "/sys/x: EACCES")
