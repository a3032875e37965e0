"""The unified log of a Mac: ndjson as `log show` writes it, damaged lines, and refusals."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from lab.mac import ready_mac
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.macos import LogFacts, LogLine
from rdmadiag.host.answers import OUTPUT_LIMIT, Ran
from rdmadiag.host.layout import command_name
from rdmadiag.sources import mac_log
from rdmadiag.sources.mac_log import parse_log, parse_timestamp, read_mac_log

FACTS = TypeAdapter(LogFacts | Missing)
STAMP = "2026-05-21 10:15:02.123456-0700"
FAILED = "Failed INIT->RTR"


@pytest.fixture
def mac_host(host_in_memory):
    """TN3205's Mac, at rest."""
    return host_in_memory(ready_mac().recording(), "darwin")


def entry(message, stamp=STAMP, **more):
    """One entry as --style ndjson prints it."""
    known = {
        "timestamp": stamp,
        "eventMessage": message,
        "eventType": "logEvent",
        "messageType": "Default",
        "subsystem": "com.apple.AppleThunderboltRDMA",
        "senderImagePath": "/System/Library/Extensions/AppleThunderboltRDMA.kext",
        "processImagePath": "/kernel",
        "traceID": 4215911111,
    }
    return known | more


def ndjson(*entries):
    """What `log show` prints of these: a line each, and one that counts them."""
    rows = [*entries, {"count": len(entries), "finished": 1}]
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def messages(found):
    return [line.message for line in found.lines]


# --- any content ------------------------------------------------------------------------

TEXT = st.text(st.sampled_from("a→\n\0\x1b\ud83d"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
ENTRIES = st.dictionaries(
    st.sampled_from(["eventMessage", "timestamp", "count"]), TEXT | JSON, max_size=3
)
ROWS = (ENTRIES | JSON).map(lambda row: json.dumps(row).encode()) | st.binary(max_size=60)


@given(rows=st.lists(ROWS, max_size=6), lines=st.integers(-1, 3))
def test_any_lines_are_facts_that_a_document_can_carry(rows, lines):
    found = parse_log(b"\n".join(rows), "1m", lines)
    assert FACTS.validate_json(FACTS.dump_json(found)) == found


@given(st.text() | st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:.+-]{8,22}", fullmatch=True))
def test_any_text_is_a_time_or_malformed(text):
    found = parse_timestamp(text)
    assert isinstance(found, float) or found.why is Why.MALFORMED


# --- the lines --------------------------------------------------------------------------


def test_each_entry_is_a_line_and_the_count_is_none():
    raw = ndjson(
        entry("RDMA enabled, starting.."), entry("context free", "2026-05-21 10:15:03.000001-0700")
    )
    assert parse_log(raw, "2h") == LogFacts(
        window="2h",
        total=2,
        lines=(
            LogLine(STAMP, 1779383702.123456, "RDMA enabled, starting.."),
            LogLine("2026-05-21 10:15:03.000001-0700", 1779383703.000001, "context free"),
        ),
        unreadable=0,
    )


@pytest.mark.parametrize(
    "raw", [ndjson(), b"", b"\n \n"], ids=["a count of 0", "nothing", "empty lines"]
)
def test_a_log_without_entries_is_quiet(raw):
    assert parse_log(raw, "1m") == LogFacts("1m", 0, (), 0)


def test_lines_that_are_no_entry_are_counted():
    raw = b'{"eventMessage": "half a li\n' + ndjson(entry("whole")) + b"[]\n\xff\n"
    found = parse_log(raw, "1m")
    assert (messages(found), found.total, found.unreadable) == (["whole"], 1, 3)


@pytest.mark.parametrize(
    "raw",
    [
        b"Timestamp                       Thread     Type        Activity             PID\n",
        ndjson(entry("whole"))[:40],
        b'[{\n  "eventMessage" : "whole"\n},{\n',
        b"[" * 10**5,
    ],
    ids=["the header of the plain form", "half a line", "the JSON form", "no end of brackets"],
)
def test_text_without_one_entry_is_malformed(raw):
    found = parse_log(raw, "1m")
    assert found.why is Why.MALFORMED
    assert len(found.detail) < 200


@pytest.mark.parametrize("message", [None, 7, ["text"]], ids=repr)
def test_an_entry_without_text_is_no_line(message):
    assert parse_log(ndjson(entry(message), entry("whole")), "1m").total == 1


def test_a_message_can_be_written_down_whatever_is_in_it():
    raw = rb'{"eventMessage": "Failed INIT->RTR \ud83d"}'
    (line,) = parse_log(raw, "1m").lines
    assert line.is_failed_rtr
    assert line.message.encode() == rb"Failed INIT->RTR \ud83d"


# --- which lines are kept ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "kept"),
    [(0, ["4"]), (1, ["4"]), (2, ["3", "4"]), (20, ["0", "1", "2", "3", "4"])],
    ids=["the last at least", "the last", "the last two", "more than there are"],
)
def test_the_last_lines_are_kept_and_all_are_counted(lines, kept):
    found = parse_log(ndjson(*(entry(str(number)) for number in range(5))), "1m", lines)
    assert (messages(found), found.total) == (kept, 5)


@pytest.mark.parametrize("lines", [1, 2])
@pytest.mark.parametrize("arrow", ["->", "→"], ids=["arrow of two signs", "arrow of one sign"])
def test_a_failed_rtr_is_kept_whatever_its_age(arrow, lines):
    failure = f"AppleThunderboltRDMA: Failed INIT{arrow}RTR, errno 22"
    raw = ndjson(entry(failure), *(entry(str(number)) for number in range(30)))
    found = parse_log(raw, "1m", lines)
    assert messages(found) == [failure, *("28", "29")[-lines:]]
    assert [line.is_failed_rtr for line in found.lines] == [True, *[False] * lines]
    assert found.total == 31


def test_a_failed_rtr_among_the_last_lines_is_told_once():
    assert messages(parse_log(ndjson(entry("a"), entry(FAILED)), "1m", 2)) == ["a", FAILED]


@pytest.mark.parametrize(
    "message", ["Failed RTR->RTS", "INIT->RTR", "failed init->rtr", "Failed INIT=>RTR"]
)
def test_other_messages_are_no_failed_rtr(message):
    assert messages(parse_log(ndjson(entry(message), entry("b")), "1m", 1)) == ["b"]


def test_a_storm_of_failures_keeps_the_latest_hundred():
    found = parse_log(ndjson(*(entry(f"{FAILED} {number}") for number in range(500))), "1m", 5)
    assert messages(found) == [f"{FAILED} {number}" for number in range(400, 500)]
    assert found.total == 500


# --- times ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01 00:00:00.000000+0000", 0.0),
        ("2026-05-21 10:15:02.123456-0700", 1779383702.123456),
        ("2026-05-21 19:15:02.123456+0200", 1779383702.123456),
        ("2026-05-21 22:45:02.5+0530", 1779383702.5),
    ],
    ids=["the epoch", "west", "east", "half an hour"],
)
def test_a_time_is_that_of_its_zone(text, seconds):
    assert parse_timestamp(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-05-21 10:15:02.123456",
        "2026-05-21T10:15:02.123456-0700",
        "2026-02-30 10:15:02.123456-0700",
        "2026-05-21 10:15:02.123456-9900",
    ],
    ids=["nothing", "without a zone", "of another form", "no such day", "no such zone"],
)
def test_what_is_no_time_is_malformed(text):
    assert parse_timestamp(text).why is Why.MALFORMED


@pytest.mark.parametrize("stamp", [None, 1779383702], ids=["none", "a number"])
def test_a_line_without_a_time_keeps_its_message(stamp):
    (line,) = parse_log(ndjson(entry("whole", stamp)), "1m").lines
    assert (line.timestamp, line.message, line.seconds.why) == ("", "whole", Why.MALFORMED)


# --- the command ------------------------------------------------------------------------


def prints(host, last, returncode, stdout=b"", stderr=b""):
    """Lets `log show` end like this."""
    name = command_name(mac_log.argv(last))
    host.recording.commands[name] = Ran(returncode, stdout, stderr)


def test_a_ready_mac_is_told(mac_host, soon):
    found = read_mac_log(mac_host, soon)
    assert (found.window, found.total, found.unreadable) == ("1m", 2, 0)
    assert messages(found)[0] == "AppleThunderboltRDMA context allocation"


def test_the_window_and_the_lines_are_those_asked_for(mac_host, soon):
    prints(mac_host, "2h", 0, ndjson(entry(FAILED), entry("a"), entry("b")))
    found = read_mac_log(mac_host, soon, "2h", 1)
    assert (found.window, messages(found)) == ("2h", [FAILED, "b"])


def test_the_log_is_asked_for_the_driver_with_every_level():
    argv = mac_log.argv("1m")
    assert argv[:7] == ("/usr/bin/log", "show", "--last", "1m", "--style", "ndjson", "--info")
    assert argv[7:9] == ("--debug", "--predicate")
    assert 'subsystem == "com.apple.AppleThunderboltRDMA"' in argv[9]
    assert 'process == "kernel" AND eventMessage CONTAINS[c] "RDMA"' in argv[9]


@pytest.mark.parametrize("code", [64, 77])
@pytest.mark.parametrize(
    "said",
    [
        "log: Could not open local log store: Operation not permitted",
        "log: Cannot run while sandboxed: Permission denied",
        "log: Must be admin to run 'show' command",
    ],
)
def test_a_log_that_may_not_be_read_is_denied(mac_host, soon, code, said):
    prints(mac_host, "1m", code, stderr=f"{said}\n".encode())
    assert read_mac_log(mac_host, soon) == Missing(
        Why.DENIED, f"log show --last 1m: exit {code}: {said}"
    )


def test_a_log_that_fails_otherwise_is_unsupported(mac_host, soon):
    prints(mac_host, "1m", 64, ndjson(entry("a")), b"log: Unknown option 'ndjson'\n" * 100)
    found = read_mac_log(mac_host, soon)
    assert found.why is Why.UNSUPPORTED
    assert found.detail.startswith("log show --last 1m: exit 64: log: Unknown option 'ndjson'")
    assert len(found.detail) < 300


@pytest.mark.parametrize(
    "missing",
    [Missing(Why.ABSENT, "/usr/bin/log: ENOENT"), Missing(Why.TIMEOUT, "/usr/bin/log: no end")],
    ids=["no such program", "late"],
)
def test_a_log_that_gives_no_answer_is_missing(mac_host, soon, missing):
    mac_host.recording.refuse("run", command_name(mac_log.argv("1m")), missing)
    assert read_mac_log(mac_host, soon) == missing


def test_the_log_has_five_seconds_at_most(mac_host, commands):
    read_mac_log(mac_host, time.monotonic() + 20)
    read_mac_log(mac_host, time.monotonic() + 1)
    (_, first), (_, second) = commands
    assert first <= 5
    assert second <= 1


def test_a_log_too_long_to_keep_is_not_judged_by_its_older_half(host_in_memory, soon):
    recording = ready_mac().recording()
    row = b'{"eventMessage":"context allocation"}\n'
    whole = row * (OUTPUT_LIMIT // len(row) + 1)
    recording.commands[command_name(mac_log.argv(mac_log.LAST))] = Ran(0, whole[:OUTPUT_LIMIT], b"")
    found = read_mac_log(host_in_memory(recording, platform="darwin"), soon)
    assert (found.why, "more than" in found.detail) == (Why.UNSUPPORTED, True)
