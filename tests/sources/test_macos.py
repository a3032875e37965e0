"""A Mac's system: the RDMA switch, the release, sleep, boot time, panic reports."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from lab.mac import ready_mac
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.macos import MacosFacts, Panic
from rdmadiag.host.answers import Ran
from rdmadiag.host.layout import command_name
from rdmadiag.sources import macos
from rdmadiag.sources.macos import parse_panic, read_macos

SW_VERS = b"ProductName:\t\tmacOS\nProductVersion:\t\t26.2\nBuildVersion:\t\t25C56\n"
PMSET = b"""\
System-wide power settings:
Currently in use:
 standby              1
 Sleep On Power Button 1
 hibernatefile        /var/vm/sleepimage
 networkoversleep     0
 disksleep            10
 sleep                1 (sleep prevented by powerd, bluetoothd)
 displaysleep         30
 womp                 1
"""
BOOT_TIME = b"{ sec = 1763600000, usec = 250000 } Thu Nov 20 01:53:20 2025\n"

BACKTRACE = (
    "panic(cpu 4 caller 0xfffffe0022e2b0f4): Kernel data abort. at pc 0xfffffe0020a3, far: 0x98\n"
    "Debugger message: panic\n"
    "      Kernel Extensions in backtrace:\n"
    "         com.apple.iokit.IOThunderboltFamily(9.3.3)[2A5C]@0xfffffe0020->0xfffffe0021\n"
    "         com.apple.driver.AppleThunderboltRDMA(1.0)[77B1]@0xfffffe0022->0xfffffe0023\n"
    "last started kext at 1234: com.apple.filesystems.autofs\t3.0\n"
)
HEADER = {
    "bug_type": "210",
    "timestamp": "2026-05-01 03:04:05.00 -0700",
    "os_version": "macOS 26.2 (25C56)",
}
IN_HEADER = 1777629845.0  # 2026-05-01 10:04:05 UTC
KEXT = "com.apple.driver.AppleThunderboltRDMA(1.0)[77B1]@0xfffffe0022->0xfffffe0023"
FILE = "panic-full-2026-05-01-030405.0002.panic"


def report(text=BACKTRACE, header=HEADER):
    """A report as macOS writes it: a line about it, and the panic's text in one JSON string."""
    body = {"product": "Mac16,11", "panicString": text, "date": "2026-05-01 03:03:59.12 -0700"}
    return f"{json.dumps(header)}\n{json.dumps(body)}".encode()


@pytest.fixture
def mac_host(host_in_memory):
    """TN3205's Mac."""
    return host_in_memory(ready_mac().recording(), "darwin")


def prints(host, argv, stdout=b"", returncode=0, stderr=b""):
    """Lets a command end like this."""
    host.recording.commands[command_name(argv)] = Ran(returncode, stdout, stderr)


def without(found, *fields):
    """The facts but for these fields."""
    return {name: getattr(found, name) for name in found.__slots__ if name not in fields}


# --- any content ------------------------------------------------------------------------

PARSERS = {
    "rdma_ctl": (macos.parse_rdma_ctl, b"enabled\n", bool),
    "sw_vers": (macos.parse_sw_vers, SW_VERS, tuple),
    "pmset": (macos.parse_pmset, PMSET, int),
    "sysctl": (macos.parse_boot_time, BOOT_TIME, float),
}


@st.composite
def damaged(draw, raw):
    """`raw` with some bytes replaced, and perhaps cut."""
    changed = bytearray(raw)
    for _ in range(draw(st.integers(1, 4))):
        changed[draw(st.integers(0, len(changed) - 1))] = draw(st.integers(0, 255))
    return bytes(changed[: draw(st.integers(0, len(changed)) | st.just(len(changed)))])


@pytest.mark.parametrize("name", PARSERS)
@given(data=st.data())
def test_any_bytes_are_a_value_of_the_kind_or_malformed(name, data):
    parse, real, kind = PARSERS[name]
    found = parse(data.draw(st.binary(max_size=100) | damaged(real)))
    assert isinstance(found, kind) or found.why is Why.MALFORMED
    assert isinstance(found, kind) or len(found.detail) < 200


STAMPS = st.from_regex(r'"(timestamp|date)" ?: ?"[0-9: .+-]{10,32}"', fullmatch=True)
PIECES = st.sampled_from([r"\n", "\n", "\\", "\t", "\0", " ", "AppleThunderboltRDMA", "x" * 150])


@given(st.lists(PIECES | STAMPS | st.text(max_size=5), max_size=12))
def test_any_text_that_names_the_driver_is_a_panic_whose_line_names_it(pieces):
    text = "".join(pieces)
    found = parse_panic(text.encode("utf-8", "surrogatepass"), FILE)
    assert (found is not None) == ("AppleThunderboltRDMA" in text)
    if found:
        assert "AppleThunderboltRDMA" in found.line
        assert found.line.isprintable()
        assert len(found.line) <= 200
        assert TypeAdapter(Panic).validate_json(TypeAdapter(Panic).dump_json(found)) == found


@given(st.binary(max_size=80) | damaged(report()))
def test_any_bytes_are_a_panic_or_none(raw):
    found = parse_panic(raw, FILE)
    assert found is None or "AppleThunderboltRDMA" in found.line


# --- each command's form ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "enabled"),
    [(b"enabled\n", True), (b"disabled\n", False), (b"enabled", True), (b"Disabled.\n", False)],
)
def test_the_switch_is_on_or_off(raw, enabled):
    assert macos.parse_rdma_ctl(raw) is enabled


@pytest.mark.parametrize(
    "raw", [b"", b"not enabled\n", b"enabled?\n", b"enabled disabled\n", b"1\n", b"unknown\n"]
)
def test_another_word_of_the_switch_is_malformed(raw):
    assert macos.parse_rdma_ctl(raw).why is Why.MALFORMED


@pytest.mark.parametrize(
    ("version", "build"), [("26.2", "25C56"), ("26.2.1", "25C71"), ("27.0", "26A5279m")]
)
def test_a_release_has_a_version_and_a_build(version, build):
    raw = SW_VERS.replace(b"26.2", version.encode()).replace(b"25C56", build.encode())
    assert macos.parse_sw_vers(raw) == (version, build)


def test_a_rapid_security_response_is_not_taken_for_the_version():
    raw = SW_VERS.replace(b"BuildVersion", b"ProductVersionExtra:\t(a)\nBuildVersion")
    assert macos.parse_sw_vers(raw) == ("26.2", "25C56")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        SW_VERS[: SW_VERS.index(b"BuildVersion")],
        SW_VERS.replace(b"26.2", b""),
        SW_VERS.replace(b"26.2", b"Tahoe"),
    ],
    ids=["nothing", "no build", "no version", "a name"],
)
def test_a_release_without_both_is_malformed(raw):
    assert macos.parse_sw_vers(raw).why is Why.MALFORMED


@pytest.mark.parametrize(("minutes", "expected"), [(b"1", 1), (b"0", 0), (b"180", 180)])
def test_sleep_is_in_minutes(minutes, expected):
    assert macos.parse_pmset(PMSET.replace(b" 1 (", b" " + minutes + b" (")) == expected


@pytest.mark.parametrize(
    "raw",
    [b"", PMSET.replace(b" sleep ", b" nap "), PMSET.replace(b" 1 (", b" never (")],
    ids=["nothing", "no row of sleep", "a word"],
)
def test_power_settings_without_sleep_are_malformed(raw):
    assert macos.parse_pmset(raw).why is Why.MALFORMED


def test_power_settings_are_read_in_one_pass():
    start = time.process_time()
    assert macos.parse_pmset(b"\n" * 10**6).why is Why.MALFORMED
    assert time.process_time() - start < 10


def test_the_boot_time_is_in_seconds():
    assert macos.parse_boot_time(BOOT_TIME) == 1763600000.25


@pytest.mark.parametrize("raw", [b"", b"Thu Nov 20 01:53:20 2025\n", b"{ sec = , usec = 0 }\n"])
def test_what_is_no_boot_time_is_malformed(raw):
    assert macos.parse_boot_time(raw).why is Why.MALFORMED


# --- panic reports ----------------------------------------------------------------------


def test_a_report_tells_its_time_and_the_line_that_names_the_driver():
    assert parse_panic(report(), FILE) == Panic(FILE, IN_HEADER, KEXT)


def test_a_report_in_plain_text_tells_the_same_line():
    found = parse_panic(BACKTRACE.encode(), FILE)
    assert found.line == KEXT
    assert found.seconds == Missing(Why.ABSENT, "no timestamp")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("AppleThunderboltRDMA: gone", "AppleThunderboltRDMA: gone"),
        ("x AppleThunderboltRDMA", "x AppleThunderboltRDMA"),
        ("one\nAppleThunderboltRDMA\nthree", "AppleThunderboltRDMA"),
        ("one AppleThunderboltRDMA\ntwo AppleThunderboltRDMA", "one AppleThunderboltRDMA"),
        ("one\n\tAppleThunderboltRDMA\x1b[2J\n", "AppleThunderboltRDMA [2J"),
    ],
    ids=["the first word", "the first line", "a line alone", "the first of two", "odd characters"],
)
def test_the_line_is_the_first_that_names_the_driver(text, line):
    assert parse_panic(text.encode(), FILE).line == line


def test_a_report_that_does_not_name_the_driver_is_none():
    assert parse_panic(report(BACKTRACE.replace("RDMA", "IP")), FILE) is None


@pytest.mark.parametrize(
    ("stamp", "why"),
    [
        (None, Why.ABSENT),
        ("yesterday", Why.ABSENT),
        ("2026-05-01 03:04:05.00", Why.MALFORMED),
        ("2026-13-01 03:04:05.00 -0700", Why.MALFORMED),
    ],
    ids=["none", "a word", "without a zone", "no such month"],
)
def test_a_report_without_a_time_is_still_a_panic(stamp, why):
    header = {"bug_type": "210"} | ({"timestamp": stamp} if stamp else {})
    raw = report(header=header).replace(b'"date"', b'"day"')
    found = parse_panic(raw, FILE)
    assert (found.line, found.seconds.why) == (KEXT, why)


def has_reports(host, **reports):
    """Lets the folder of reports hold these."""
    names = [f"{name}.panic" for name in reports]
    host.recording.listings[macos.PANICS] = tuple(sorted([*names, "python3-2026.ips"]))
    for name, content in zip(names, reports.values(), strict=True):
        path = f"/Library/Logs/DiagnosticReports/{name}"
        if isinstance(content, Missing):
            host.recording.refuse("read", path, content)
        else:
            host.recording.files[path] = content


OTHER = report(BACKTRACE.replace("RDMA", "IP"))
DENIED = Missing(Why.DENIED, "/Library/Logs/DiagnosticReports: EACCES")


def panics(host):
    """The files that read_macos tells, or why it does not."""
    found = read_macos(host, time.monotonic() + 20).panics
    return found if isinstance(found, Missing) else [panic.file for panic in found]


def test_reports_that_name_the_driver_are_told(mac_host):
    has_reports(mac_host, a=report(), b=OTHER, c=report())
    assert panics(mac_host) == ["a.panic", "c.panic"]


def test_files_of_other_kinds_are_not_read(mac_host):
    has_reports(mac_host, a=report())
    panics(mac_host)
    reports = [path for _, path in mac_host.asked if path.startswith("/Library/Logs/Diag")]
    assert reports[1:] == ["/Library/Logs/DiagnosticReports/a.panic"]  # the first is the folder


def test_the_last_ten_reports_are_read(mac_host):
    has_reports(mac_host, **{f"panic-full-2026-05-{day:02}": report() for day in range(1, 31)})
    assert panics(mac_host) == [f"panic-full-2026-05-{day}.panic" for day in range(21, 31)]


@pytest.mark.parametrize(
    ("missing", "expected"),
    [(Missing(Why.ABSENT, "ENOENT"), []), (DENIED, DENIED)],
    ids=["absent", "denied"],
)
def test_a_folder_of_reports_that_is(mac_host, missing, expected):
    mac_host.recording.refuse("list", "/Library/Logs/DiagnosticReports", missing)
    assert panics(mac_host) == expected


def test_reports_that_may_not_be_read_are_not_taken_for_none(mac_host):
    has_reports(mac_host, a=OTHER, b=DENIED)
    assert panics(mac_host) == DENIED


def test_a_report_that_may_not_be_read_does_not_hide_the_others(mac_host):
    has_reports(mac_host, a=report(), b=DENIED, c=report())
    assert panics(mac_host) == ["a.panic", "c.panic"]


@pytest.mark.parametrize("why", [Why.ABSENT, Why.MALFORMED], ids=["vanished", "too long"])
def test_a_report_that_cannot_be_read_otherwise_is_left_out(mac_host, why):
    has_reports(mac_host, a=Missing(why, "a.panic"), b=report())
    assert panics(mac_host) == ["b.panic"]


# --- the whole system -------------------------------------------------------------------

COMMANDS = {
    ("rdma_ctl", "status"): ("rdma_enabled",),
    ("/usr/bin/sw_vers",): ("version", "build"),
    ("/usr/bin/pmset", "-g"): ("sleep_minutes",),
    ("/usr/sbin/sysctl", "-n", "kern.boottime"): ("boot_seconds",),
}
IDS = [argv[0].rpartition("/")[2] for argv in COMMANDS]


def test_a_ready_mac_is_read_whole(mac_host, soon):
    assert read_macos(mac_host, soon) == MacosFacts(
        rdma_enabled=True,
        version="26.2",
        build="25C56",
        sleep_minutes=0,
        boot_seconds=1779350400.0,
        panics=(),
        rtr_failed=False,
    )


def test_a_macos_without_the_switch_says_that_there_is_none(host_in_memory, soon):
    host = host_in_memory(ready_mac().change(rdma=None, version="26.1").recording(), "darwin")
    found = read_macos(host, soon)
    assert (found.rdma_enabled.why, found.version) == (Why.ABSENT, "26.1")


@pytest.mark.parametrize(("argv", "fields"), COMMANDS.items(), ids=IDS)
@pytest.mark.parametrize("why", [Why.TIMEOUT, Why.ABSENT, Why.DENIED])
def test_a_command_that_gives_no_answer_costs_its_own_fields(mac_host, soon, argv, fields, why):
    healthy, missing = read_macos(mac_host, soon), Missing(why, argv[0])
    mac_host.recording.refuse("run", command_name(argv), missing)
    found = read_macos(mac_host, soon)
    assert {getattr(found, field) for field in fields} == {missing}
    assert without(found, *fields) == without(healthy, *fields)


@pytest.mark.parametrize(("argv", "fields"), COMMANDS.items(), ids=IDS)
@pytest.mark.parametrize(
    ("stdout", "returncode", "stderr", "why"),
    [
        (b"something else\n", 0, b"", Why.MALFORMED),
        (b"", 0, b"", Why.MALFORMED),
        (b"enabled\n", 64, b"usage\n" * 100, Why.UNSUPPORTED),
    ],
    ids=["unexpected text", "nothing", "an error"],
)
def test_a_command_that_says_something_else_costs_its_own_fields(
    mac_host, soon, argv, fields, stdout, returncode, stderr, why
):
    healthy = read_macos(mac_host, soon)
    prints(mac_host, argv, stdout, returncode, stderr)
    found = read_macos(mac_host, soon)
    for missing in (getattr(found, field) for field in fields):
        assert missing.why is why
        assert missing.detail.startswith(argv[0].rpartition("/")[2])
        assert len(missing.detail) < 250
    assert without(found, *fields) == without(healthy, *fields)


def test_each_command_is_run_once_and_for_three_seconds_at_most(mac_host, commands):
    read_macos(mac_host, time.monotonic() + 20)
    read_macos(mac_host, time.monotonic() + 1)
    assert sorted(argv for argv, _ in commands[:4]) == sorted(COMMANDS)
    assert all(left <= 3 for _, left in commands[:4])
    assert all(left <= 1 for _, left in commands[4:])
    assert len(commands) == 8


def test_a_driver_that_was_merely_loaded_was_not_in_the_panic():
    raw = (
        b'{"timestamp":"2026-05-20 07:00:00.00 +0000"}\n{"panicString":"panic(cpu 2): x\\n'
        b"Kernel Extensions in backtrace:\\n com.apple.iokit.IOGraphics\\n"
        b'loaded kexts:\\ncom.apple.driver.AppleThunderboltRDMA 1.0\\n"}'
    )
    assert parse_panic(raw, "x.panic") is None
    inside = raw.replace(b"IOGraphics", b"AppleThunderboltRDMA")
    assert parse_panic(inside, "x.panic").line == "com.apple.iokit.AppleThunderboltRDMA"
