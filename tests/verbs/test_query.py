"""The query's child process against a verbs library that answers from a script."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.transcript import (
    APPLE_LIMITS,
    Gids,
    TranscribedDevice,
    TranscribedPort,
    script,
    transcript,
)
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.ib import GidType, LinkLayer, NodeType, PhysState, PortState
from rdmadiag.facts.verbs import NOT_RECORDED, VerbsFacts, VerbsFailure
from rdmadiag.sources.verbs import parse_verbs
from rdmadiag.verbs import child
from rdmadiag.view.access import WEDGED_AFTER

MAC = (
    TranscribedDevice(
        "rdma_en1",
        (
            TranscribedPort(
                lid=7,
                sm_lid=1,
                gids={
                    0: Gids("fe80::344d:4ff:feea:4e40"),
                    1: Gids("::ffff:169.254.205.255"),
                    9: Gids("fe80::9"),
                },
            ),
        ),
        guid="f09c:1571:e751:ac05",
        transport=100,
        limits=APPLE_LIMITS,
    ),
    TranscribedDevice(
        "rdma_en2",
        (TranscribedPort(state=PortState.DOWN, phys=PhysState.POLLING, lid=8),),
        transport=100,
        limits=APPLE_LIMITS,
    ),
)
LINUX = (
    TranscribedDevice(
        "mlx5_0",
        (
            TranscribedPort(
                layer=LinkLayer.ETHERNET,
                gids={
                    0: Gids("fe80::e42:a1ff:fe00:1", GidType.ROCE_V1, 4),
                    5: Gids("2001:db8::1", GidType.ROCE_V2, 4),
                    31: Gids("::ffff:192.0.2.1", GidType.ROCE_V2, 300),
                },
            ),
            TranscribedPort(layer=LinkLayer.INFINIBAND, lid=0xFFFE, sm_lid=1, gid_table_length=4),
        ),
        guid="0c42:a103:0000:0001",
        firmware="22.31.1014",
        limits={"max_mr_size": 2**64 - 1, "max_qp": 2**31 - 1},
    ),
    TranscribedDevice("siw0", (TranscribedPort(gid_table_length=1),), node_type=NodeType.RNIC),
)
LAYOUTS = {
    "Linux": ("linux", LINUX, ()),
    "Linux before rdma-core 32": ("linux", LINUX, ("NO_GID_TABLE",)),
    "Darwin": ("darwin", MAC, ()),
}
ROOT = Path(__file__).parents[2]
SECONDS = 20.0  # that no healthy query needs
SHORT = 2.5  # for a query that does not end, and for Python to start
LONGER = (SHORT, 4 * SHORT, 16 * SHORT)  # where a busy host has not started it by then
SLACK = 20.0  # of a busy machine; a query that nothing ends takes for ever

Asked = Callable[..., bytes]


@pytest.fixture
def ask(fake_verbs: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Asked:
    """`ask(script, platform, …)` → the transcript; `ask.fake` is the library of the last one."""

    def asked(
        text: str,
        platform: str = "linux",
        defines: tuple[str, ...] = (),
        rows: int = 8,
        seconds: float = SECONDS,
    ) -> bytes:
        fake = fake_verbs(text, platform, defines)
        for name, value in fake.environ.items():
            monkeypatch.setenv(name, value)
        asked.fake = fake  # type: ignore[attr-defined]
        found = child.ask(platform, str(fake.library), rows, time.monotonic() + seconds)
        assert not isinstance(found, Missing)
        return found

    return asked


def calls(ask: Asked) -> list[str]:
    """What the library was called for: `CALL` or `CALL DEVICE`."""
    return ask.fake.calls  # type: ignore[attr-defined, no-any-return]


def facts(raw: bytes) -> VerbsFacts:
    """A transcript whose head was written."""
    found = parse_verbs(raw)
    assert isinstance(found, VerbsFacts)
    return found


def stopped_in(call: str, text: str, ask: Asked, platform: str = "linux") -> tuple[bytes, float]:
    """The transcript of a query that has come to `call` by its deadline, and its seconds."""
    for seconds in LONGER:
        start = time.monotonic()
        raw = ask(text, platform, seconds=seconds)
        assert time.monotonic() - start < seconds + SLACK
        if calls(ask)[-1:] == [call]:
            return raw, seconds
    pytest.fail(f"{call} was not reached in {LONGER[-1]} s")


# --- healthy libraries ------------------------------------------------------------------


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_library_is_read_as_its_description_has_it(name: str, ask: Asked) -> None:
    platform, devices, defines = LAYOUTS[name]
    found = facts(ask(script(devices), platform, defines))
    table = platform == "linux" and not defines
    described = facts(transcript(platform, found.library, devices, table=table))
    assert _without_what_is_around_a_context(found) == replace(described, pid=found.pid)
    assert (found.failures, found.unanswered, found.warnings) == ((), None, ())


def _without_what_is_around_a_context(found: VerbsFacts) -> VerbsFacts:
    """tests/verbs/test_extended.py has it."""
    kept = (replace(each, extended=NOT_RECORDED, operations=NOT_RECORDED) for each in found.devices)
    return replace(found, devices=tuple(kept))


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_the_bytes_of_a_guid_are_in_the_order_of_the_network(platform: str, ask: Asked) -> None:
    text = "device fake0 guid=0x0102030405060708 sys_image_guid=0xf000000000000000 phys_port_cnt=0"
    (device,) = facts(ask(text, platform)).devices
    assert device.node_guid == "0102:0304:0506:0708"
    assert device.sys_image_guid == "f000:0000:0000:0000"


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_a_library_without_devices_lists_none(platform: str, ask: Asked) -> None:
    found = facts(ask("", platform))
    assert (found.devices, found.failures, found.unanswered) == ((), (), None)
    assert calls(ask) == ["ibv_get_device_list", "ibv_free_device_list"]


def test_numbers_that_use_every_bit_are_kept(ask: Asked) -> None:
    text = "device fake0 max_mr_size=0xffffffffffffffff max_qp=-1 phys_port_cnt=1\n"
    text += "port fake0 1 lid=0xfffe active_speed=255 max_msg_sz=0xffffffff gid_tbl_len=0"
    (device,) = facts(ask(text)).devices
    assert not isinstance(device.limits, Missing)
    assert (device.limits.max_mr_size, device.limits.max_qp) == (2**64 - 1, -1)
    port = device.port(1)
    assert port
    assert (port.lid, port.active_speed, port.max_msg_size) == (0xFFFE, 255, 2**32 - 1)
    assert (port.gid_table_length, port.gids) == (0, ())


@pytest.mark.parametrize("length", [-1, 2**31 - 1], ids=["less than none", "billions"])
def test_a_table_of_absurd_length_is_read_all_the_same(length: int, ask: Asked) -> None:
    gid = "gid fake0 1 0 fe80::1\n" if length > 0 else ""
    text = f"device fake0 phys_port_cnt=1\nport fake0 1 gid_tbl_len={length}\n{gid}device fake1"
    found = facts(ask(text))
    assert found.unanswered is None
    assert [device.name for device in found.devices] == ["fake0", "fake1"]
    port = found.devices[0].port(1)
    assert port
    assert not isinstance(port.gids, Missing)
    assert [str(row.gid) for row in port.gids] == ["fe80::1"] * (length > 0)


# --- what is called ---------------------------------------------------------------------

READ_ONLY = {
    "ibv_get_device_list",
    "ibv_free_device_list",
    "ibv_get_device_name",
    "ibv_open_device",
    "ibv_close_device",
    "ibv_query_device",
    "ibv_query_port",
    "ibv_query_gid",
    "_ibv_query_gid_table",
}


def expected_calls(
    devices: tuple[TranscribedDevice, ...], *, table: bool, rows: int = 8
) -> Counter[str]:
    """One pass: each device and port once, and each row where there is no table."""
    found = Counter(["ibv_get_device_list", "ibv_free_device_list"])
    once = ["ibv_get_device_name", "ibv_open_device", "ibv_query_device", "ibv_close_device"]
    for device in devices:
        found.update(f"{call} {device.name}" for call in once)
        found[f"ibv_query_port {device.name}"] += len(device.ports)
        lengths = [min(rows, port.gid_table_length) for port in device.ports]
        kind = "_ibv_query_gid_table" if table else "ibv_query_gid"
        found[f"{kind} {device.name}"] += 1 if table else sum(lengths)
    return found


@pytest.mark.parametrize("name", LAYOUTS)
def test_each_call_is_made_once_and_none_changes_anything(name: str, ask: Asked) -> None:
    platform, devices, defines = LAYOUTS[name]
    found = facts(ask(script(devices), platform, defines))
    made = calls(ask)
    assert {call.partition(" ")[0] for call in made} <= READ_ONLY
    table = platform == "linux" and not defines
    assert Counter(made) == expected_calls(devices, table=table)
    assert not any("contexts open" in line for line in found.warnings)


@pytest.mark.parametrize("name", LAYOUTS)
def test_devices_are_queried_one_after_the_other_while_the_list_is_held(
    name: str, ask: Asked
) -> None:
    platform, devices, defines = LAYOUTS[name]
    ask(script(devices), platform, defines)
    made = calls(ask)
    kinds = ("ibv_open_device", "ibv_close_device")
    assert [call for call in made if call.startswith(kinds)] == [
        f"{kind} {device.name}" for device in devices for kind in kinds
    ]
    assert (made[0], made[-1]) == ("ibv_get_device_list", "ibv_free_device_list")


def test_a_query_that_was_not_read_to_its_end_is_late_and_no_crash(
    ask: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy host the child can have ended well, and its lines still be in the pipe."""
    whole = child.command.finish

    def unread(argv: list[str], deadline: float) -> Any:
        ended = whole(argv, deadline)
        assert not isinstance(ended, Missing)
        lines = ended.stdout.splitlines(keepends=True)
        at = next(at for at, line in enumerate(lines) if b"ibv_query_port" in line)
        return replace(ended, stdout=b"".join(lines[: at + 1]), output_held=True)

    monkeypatch.setattr(child.command, "finish", unread)
    stopped = facts(ask(ONE)).unanswered
    assert stopped
    assert (stopped.call, stopped.was_killed) == ("ibv_query_port", True)
    assert stopped.seconds < WEDGED_AFTER


@pytest.mark.parametrize(
    ("rows", "asked"),
    [(8, 8), (3, 3), (1, 1), (0, 0), (100, 8), (-1, 0)],
    ids=["eight", "three", "one", "none", "more than eight", "less than none"],
)
def test_rows_are_queried_up_to_the_limit(rows: int, asked: int, ask: Asked) -> None:
    found = facts(ask(script(MAC), "darwin", rows=rows))
    assert calls(ask).count("ibv_query_gid rdma_en1") == asked
    port = found.devices[0].port(1)
    assert port
    assert not isinstance(port.gids, Missing)
    assert port.gids_asked == asked
    assert [row.index for row in port.gids] == [index for index in (0, 1) if index < asked]


def test_a_table_is_queried_whole_whatever_the_limit(ask: Asked) -> None:
    port = facts(ask(script(LINUX), rows=1)).devices[0].port(1)
    assert port
    assert not isinstance(port.gids, Missing)
    assert [row.index for row in port.gids] == [0, 5, 31]
    assert port.gids_asked == 32


# --- calls that fail --------------------------------------------------------------------

ONE = "device fake0 phys_port_cnt=1\nport fake0 1 lid=7 gid_tbl_len=2\n"
FAILING = {
    "ibv_get_device_list": (None, None),
    "ibv_open_device": ("fake0", None),
    "ibv_query_device": ("fake0", None),
    "ibv_query_port": ("fake0", 1),
    "_ibv_query_gid_table": ("fake0", None),
    "ibv_close_device": ("fake0", None),
}


@pytest.mark.parametrize("call", FAILING)
def test_a_failure_is_known_by_the_convention_of_its_call(call: str, ask: Asked) -> None:
    device, port = FAILING[call]
    found = facts(ask(f"{ONE}on {call} errno=95"))
    assert found.failures == (VerbsFailure(call, device, port, 95, "EOPNOTSUPP"),)
    assert found.unanswered is None
    assert [each.partition(" ")[0] for each in calls(ask)].count(call) == 1


@pytest.mark.parametrize(
    ("call", "device", "port"),
    [("ibv_open_device", "fake0", None), ("ibv_query_port", "fake0", 1)],
)
def test_a_failure_on_darwin_is_named_by_its_table(
    call: str, device: str, port: int | None, ask: Asked
) -> None:
    found = facts(ask(f"{ONE}on {call} errno=96", "darwin"))
    assert found.failures == (VerbsFailure(call, device, port, 96, "ENODATA"),)


@pytest.mark.parametrize(
    ("platform", "defines"), [("darwin", ()), ("linux", ("NO_GID_TABLE",))], ids=["Darwin", "Linux"]
)
def test_a_row_that_is_refused_does_not_end_the_others(
    platform: str, defines: tuple[str, ...], ask: Asked
) -> None:
    found = facts(ask(f"{ONE}on ibv_query_gid errno=22", platform, defines))
    assert found.failures == (VerbsFailure("ibv_query_gid", "fake0", 1, 22, "EINVAL"),) * 2
    port = found.devices[0].port(1)
    assert port
    assert (port.gids, port.gids_asked, sorted(port.gids_unreadable)) == ((), 2, [0, 1])
    assert calls(ask).count("ibv_query_gid fake0") == 2


@pytest.mark.parametrize("call", ["ibv_get_device_list", "ibv_open_device"])
def test_null_without_an_errno_is_a_failure_without_one(call: str, ask: Asked) -> None:
    (failure,) = facts(ask(f"{ONE}on {call} null")).failures
    assert (failure.call, failure.errno, failure.name) == (call, 0, "no errno")


def test_a_provider_that_returns_minus_one_has_failed(ask: Asked) -> None:
    (failure,) = facts(ask(f"{ONE}on ibv_query_device errno=-1")).failures
    assert (failure.call, failure.errno, failure.name) == ("ibv_query_device", 0, "no errno")


def test_an_errno_that_another_call_left_behind_is_not_taken_for_its_own(ask: Asked) -> None:
    text = f"{ONE}device fake1\non ibv_open_device fake0 errno=13\non ibv_open_device fake1 null"
    found = facts(ask(text))
    assert [(each.device, each.errno) for each in found.failures] == [("fake0", 13), ("fake1", 0)]


def test_a_device_without_a_name_is_still_queried(ask: Asked) -> None:
    found = facts(ask(f"{ONE}on ibv_get_device_name null"))
    (device,) = found.devices
    assert (device.name, found.failures) == ("", ())
    assert "ibv_query_port fake0" in calls(ask)


AFTER = {
    "ibv_get_device_list": ["ibv_get_device_list"],
    "ibv_open_device fake0": ["ibv_open_device", "ibv_free_device_list"],
    "ibv_query_port fake0": ["ibv_query_port", "ibv_close_device", "ibv_free_device_list"],
    "ibv_close_device fake0": ["ibv_close_device", "ibv_free_device_list"],
}


@pytest.mark.parametrize("failing", AFTER)
def test_after_a_failure_nothing_is_called_again_and_all_is_given_back(
    failing: str, ask: Asked
) -> None:
    ask(f"{ONE}on {failing} errno=5")
    made = [call.partition(" ")[0] for call in calls(ask)]
    assert made[made.index(failing.partition(" ")[0]) :] == AFTER[failing]


def test_a_port_that_fails_leaves_the_other_ports(ask: Asked) -> None:
    text = "device fake0 phys_port_cnt=2\nport fake0 2 lid=8 gid_tbl_len=1\ngid fake0 2 0 fe80::2"
    found = facts(ask(text))
    assert found.failures == (VerbsFailure("ibv_query_port", "fake0", 1, 22, "EINVAL"),)
    port = found.devices[0].port(2)
    assert port
    assert not isinstance(port.gids, Missing)
    assert [str(row.gid) for row in port.gids] == ["fe80::2"]


def test_a_device_without_its_number_of_ports_is_queried_for_the_first(ask: Asked) -> None:
    found = facts(ask(f"{ONE}on ibv_query_device errno=5"))
    port = found.devices[0].port(1)
    assert port
    assert port.lid == 7


# --- what the library prints ------------------------------------------------------------


def test_warnings_on_stderr_are_kept(ask: Asked) -> None:
    found = facts(ask(f"{ONE}on ibv_get_device_list warn=RLIMIT_MEMLOCK_is_32768_bytes."))
    assert found.warnings == ("libibverbs: Warning: RLIMIT MEMLOCK is 32768 bytes.",)
    assert len(found.devices) == 1


def test_a_library_that_prints_on_stdout_breaks_no_line(
    ask: Asked, compile_c: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "loud.c"
    source.write_text(
        "#include <stdio.h>\n#include <unistd.h>\n"
        "__attribute__((constructor)) static void loud(void)\n"
        '{ printf("buffered\\n"); if (write(1, "{\\"call\\": 1}\\n", 12) != 12) _exit(9); }\n'
    )
    library = compile_c(source, "-shared", "-fPIC", "-Wl,--no-as-needed", ask_library(ask))
    found = facts(asked_of(library))
    assert sorted(found.warnings) == ["buffered", '{"call": 1}']
    assert ([device.name for device in found.devices], found.unanswered) == (["fake0"], None)


def ask_library(ask: Asked) -> Path:
    """The fake library, with one device in its script."""
    ask(ONE)
    return ask.fake.library  # type: ignore[attr-defined, no-any-return]


def asked_of(library: Path, seconds: float = SECONDS) -> bytes:
    """The transcript of another library."""
    found = child.ask("linux", str(library), 8, time.monotonic() + seconds)
    assert not isinstance(found, Missing)
    return found


# --- calls that do not come back --------------------------------------------------------


def test_a_call_that_hangs_is_named_and_what_came_before_it_is_kept(ask: Asked) -> None:
    hangs = f"{script(MAC)}on ibv_query_device rdma_en2 hang"
    raw, _ = stopped_in("ibv_query_device rdma_en2", hangs, ask, "darwin")
    found = facts(raw)
    stopped = found.unanswered
    assert stopped
    assert (stopped.call, stopped.device, stopped.port) == ("ibv_query_device", "rdma_en2", None)
    assert (stopped.end, stopped.unkillable) == ("killed at the deadline", False)
    assert stopped.seconds > 0
    whole = facts(transcript("darwin", found.library, MAC))
    assert found.devices[0] == whole.devices[0]
    assert isinstance(found.devices[1].ports, Missing)
    with pytest.raises(ProcessLookupError):
        os.kill(stopped.pid, 0)


@pytest.mark.slow
def test_a_call_that_spins_is_ended_like_one_that_waits(ask: Asked) -> None:
    raw, _ = stopped_in("ibv_get_device_list", f"{ONE}on ibv_get_device_list spin", ask)
    found = facts(raw)
    assert found.unanswered
    assert (found.unanswered.call, found.devices) == ("ibv_get_device_list", ())
    assert found.unanswered.end == "killed at the deadline"


@pytest.mark.parametrize(
    ("call", "device", "port"),
    [
        ("ibv_get_device_list", None, None),
        ("ibv_open_device", "fake0", None),
        ("ibv_query_port", "fake0", 1),
        ("ibv_close_device", "fake0", None),
    ],
)
def test_a_call_that_crashes_is_named(
    call: str, device: str | None, port: int | None, ask: Asked
) -> None:
    stopped = facts(ask(f"{ONE}on {call} crash")).unanswered
    assert stopped
    assert (stopped.call, stopped.device, stopped.port) == (call, device, port)
    assert (stopped.end, stopped.unkillable) == ("ended by signal 11", False)
    assert calls(ask)[-1].partition(" ")[0] == call


def test_a_call_that_is_slow_is_waited_for(ask: Asked) -> None:
    raw = ask(f"{ONE}on ibv_query_port slow=300")
    assert facts(raw).unanswered is None
    rows = [json.loads(line) for line in raw.splitlines() if line]
    (at,) = (at for at, row in enumerate(rows) if row.get("call") == "ibv_query_port")
    assert 0.3 <= rows[at + 1]["at"] - rows[at]["at"] < 0.3 + SLACK


@pytest.mark.slow
def test_the_time_that_python_takes_to_start_is_not_the_librarys(
    ask: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "python"
    slow.write_text(f'#!/bin/sh\nsleep 1\nexec {sys.executable} "$@"\n')
    slow.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(slow))
    raw, seconds = stopped_in("ibv_open_device fake0", f"{ONE}on ibv_open_device hang", ask)
    stopped = facts(raw).unanswered
    assert stopped
    assert (stopped.call, stopped.device) == ("ibv_open_device", "fake0")
    assert stopped.seconds <= seconds - 0.5


# --- the program by itself --------------------------------------------------------------


def by_itself(platform: str, library: Path, rows: int = 8) -> list[dict[str, Any]]:
    """What the program writes that the child runs, without the times."""
    program = [sys.executable, "-m", "rdmadiag.verbs.query", platform, str(library), str(rows)]
    ran = subprocess.run(program, cwd=ROOT, capture_output=True, check=False, timeout=SECONDS)
    assert ran.returncode == 0, ran.stderr
    return timeless(ran.stdout)


def timeless(raw: bytes) -> list[dict[str, Any]]:
    """The rows of a transcript without their times; they grow, and begin after the start."""
    rows = [json.loads(line) for line in raw.splitlines() if line]
    times = [row.pop("at") for row in rows]
    assert times == sorted(times)
    assert times[0] >= 0
    return rows


ALL_FAILING = """
on ibv_query_device fake1 errno=5
on ibv_query_port fake2 errno=5
on ibv_query_gid fake3 errno=96
on _ibv_query_gid_table fake3 errno=96
on ibv_open_device fake4 errno=16
on ibv_close_device fake5 errno=9
"""
MANY = "".join(ONE.replace("fake0", f"fake{number}") for number in range(6)) + ALL_FAILING


@pytest.mark.parametrize("text", [*map(script, (MAC, LINUX)), MANY], ids=["Mac", "Linux", "faulty"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_the_program_by_itself_writes_what_the_child_writes(
    name: str, text: str, ask: Asked
) -> None:
    platform, _, defines = LAYOUTS[name]
    *rows, end = timeless(ask(text, platform, defines))
    assert end["end"] == 0
    assert by_itself(platform, ask.fake.library) == rows  # type: ignore[attr-defined]


def test_the_program_by_itself_says_that_there_is_no_library() -> None:
    *_, last = by_itself("linux", Path("/nowhere/libibverbs.so.1"))
    assert "/nowhere/libibverbs.so.1" in last["unloadable"]


# --- libraries that cannot be asked -----------------------------------------------------


def test_a_library_that_is_not_there_is_absent() -> None:
    found = parse_verbs(asked_of(Path("/nowhere/libibverbs.so.1")))
    assert isinstance(found, Missing)
    assert found.why is Why.ABSENT
    assert "/nowhere/libibverbs.so.1" in found.detail


def test_a_library_without_the_calls_is_absent(
    compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    source = tmp_path / "empty.c"
    source.write_text("int nothing;\n")
    found = parse_verbs(asked_of(compile_c(source, "-shared", "-fPIC")))
    assert isinstance(found, Missing)
    assert found.why is Why.ABSENT
    assert "ibv_get_device_list" in found.detail


@pytest.mark.parametrize(
    ("body", "end"),
    [
        pytest.param("raise(11);", "ended by signal 11", id="crashes"),
        pytest.param(
            *("for (;;) pause();", "killed at the deadline"), marks=pytest.mark.slow, id="hangs"
        ),
    ],
)
def test_a_library_that_fails_as_it_is_loaded_is_not_taken_for_an_empty_one(
    body: str, end: str, compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    source = tmp_path / "loading.c"
    source.write_text(
        "#include <signal.h>\n#include <unistd.h>\n"
        f"__attribute__((constructor)) static void load(void) {{ {body} }}\n"
    )
    stopped = facts(asked_of(compile_c(source, "-shared", "-fPIC"), SHORT)).unanswered
    assert stopped
    assert (stopped.call, stopped.device, stopped.end) == ("dlopen", None, end)


def test_a_deadline_that_has_passed_is_a_timeout(past: float) -> None:
    found = child.ask("linux", "libibverbs.so.1", 8, past)
    assert isinstance(found, Missing)
    assert found.why is Why.TIMEOUT


def test_a_python_that_cannot_be_started_is_missing(
    monkeypatch: pytest.MonkeyPatch, soon: float
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    found = child.ask("linux", "libibverbs.so.1", 8, soon)
    assert isinstance(found, Missing)
    assert found.why is Why.ABSENT


def test_neither_the_environment_nor_the_folder_decides_what_the_child_runs(
    ask: Asked, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "rdmadiag.py").write_text("raise SystemExit(9)\n")
    (tmp_path / "json.py").write_text("raise SystemExit(9)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert [device.name for device in facts(ask(ONE)).devices] == ["fake0"]
