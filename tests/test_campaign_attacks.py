"""The campaigns see what they look for: each kind of failure, put there on purpose, is counted."""

import contextlib
import os
import signal
import tarfile
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from campaign import forge, parsers, pure, records, signals
from campaign.mutation import Mutator, mutated_json
from rdmadiag.facts import Missing, Why
from rdmadiag.host import netlink

pytestmark = pytest.mark.once


def tried(parse: Any, monkeypatch: pytest.MonkeyPatch, *may_raise: type[Exception]) -> set[str]:
    monkeypatch.setattr(parsers, "_HANGS", 0.2)
    monkeypatch.setattr(parsers, "SECONDS", 0.1)
    before = signal.signal(signal.SIGVTALRM, parsers._interrupt)
    found = parsers._Found()
    try:
        parsers._try(pure.Parser("x", parse, may_raise), b"input", found, look=True)
    finally:
        signal.signal(signal.SIGVTALRM, before)
    return {kind for _, kind, _, _ in found.broken}


def spin(seconds: float) -> Any:
    def parse(_: bytes) -> None:
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass

    return parse


def raises(error: Exception) -> Any:
    def parse(_: bytes) -> None:
        raise error

    return parse


@pytest.mark.slow
def test_a_parser_that_raises_hangs_is_slow_or_gives_half_a_pair_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert tried(raises(KeyError("x")), monkeypatch) == {"KeyError"}
    assert tried(raises(MemoryError()), monkeypatch) == {"memory"}
    assert tried(spin(60), monkeypatch) == {"hangs"}
    assert tried(spin(0.15), monkeypatch) == {"slow"}
    assert tried(lambda _: Missing(Why.DENIED, "\ud800"), monkeypatch) == {"surrogate"}


def test_a_parser_that_gives_a_value_or_its_own_error_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert tried(lambda raw: {"it": (raw, "is")}, monkeypatch) == set()
    assert tried(raises(ValueError("x")), monkeypatch, ValueError) == set()


def test_every_parser_of_the_sources_is_attacked_and_understands_a_seed() -> None:
    names = set(pure.parsers())
    assert {"sources.sysfs.parse_gid", "sources.nldev.parse_port"} <= names
    assert {"verbs.protocol, a message", "explain.log.recognition.recognise"} <= names
    for name in ("sources.sysfs.parse_gid", "sources.nldev.parse_port"):
        parse = pure.parsers()[name].parse
        assert not isinstance(parse(parsers._seeds(name)[0]), Missing)


def test_each_parser_is_given_what_it_takes() -> None:
    for each in pure.parsers().values():
        with contextlib.suppress(*each.may_raise):
            each.parse(netlink.attribute(1, b"\n" * 8))


def test_the_same_seed_makes_the_same_inputs() -> None:
    def made(seed: int) -> list[bytes]:
        mutator = Mutator(Random(seed), (b'{"a": [1, 2]}', b"4: ACTIVE\n"))
        return [mutator.next() for _ in range(200)]

    assert made(3) == made(3) != made(4)
    assert mutated_json(Random(1), {"a": [1]}, 3) == mutated_json(Random(1), {"a": [1]}, 3)


RAN = {
    "line": "preflight --json --from R",
    "status": 0,
    "processor": 0.1,
    "wall": 0.1,
    "resident": 50_000,
    "out": "{}",
    "err": "",
    "left": "",
}


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        ({}, set()),
        ({"status": 3 << 8}, set()),
        ({"status": 70 << 8}, {records._CODE}),
        ({"status": int(signal.SIGKILL)}, {records._CODE}),
        ({"err": "Traceback (most recent call last):"}, {records._BUG}),
        ({"out": '{"detail": "sysfs: a bug of rdmadiag: KeyError()"}'}, {records._BUG}),
        ({"processor": 60.0}, {records._TIME}),
        ({"wall": 600.0}, {records._TIME}),
        ({"resident": 4_000_000}, {records._MEMORY}),
        ({"out": '{"half": '}, {records._JSON}),
        ({"line": "gids --from R", "out": "a\x1b[2J"}, {records._CONTROL}),
        ({"line": "gids --from R", "out": "a\u202eb"}, {records._CONTROL}),
        ({"left": "processes 7"}, {records._LEFT}),
    ],
    ids=str,
)
def test_a_command_that_ends_as_it_must_not_is_counted(
    change: dict[str, Any], broken: set[str]
) -> None:
    assert {what for what, _ in records._problems(records._Ran(**(RAN | change)))} == broken


@pytest.mark.parametrize("seed", range(20))
def test_forged_records_are_written_whatever_is_in_them(seed: int, tmp_path: Path) -> None:
    forge.archive(Random(seed), tmp_path / "a.tar.gz")
    forge.folder(Random(seed), tmp_path / "folder")
    assert (tmp_path / "a.tar.gz").stat().st_size > 0
    assert (tmp_path / "folder").is_dir()


@pytest.mark.parametrize("target", ["/{}/outside/file", "../outside", "../../outside/file"])
def test_a_forged_folder_writes_nothing_through_its_own_links(target: str, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("canary")
    top = str(tmp_path / "record")
    os.mkdir(top)
    link = forge.Entry("a", b"", tarfile.SYMTYPE, target.format(str(tmp_path)[1:]))
    forge._put(link, f"{top}/a", top)
    for place in ("a", "a/file", "a/new", "a/deep/new"):
        with contextlib.suppress(OSError):
            forge._put(forge.Entry(place, b"written"), f"{top}/{place}", top)
    assert os.listdir(tmp_path / "outside") == ["file"]
    assert (tmp_path / "outside" / "file").read_text() == "canary"


@pytest.fixture
def case(tmp_path: Path) -> signals._Case:
    made = signals._Case("samples", signal.SIGTERM, 0.0, tmp_path / "case", tmp_path / "record")
    for name in ("out", "tmp", "home"):
        (made.folder / name).mkdir(parents=True)
    return made


def test_a_file_that_a_signal_left_half_written_is_counted(case: signals._Case) -> None:
    assert signals._files(case) == ""
    (case.folder / "out" / "file").write_text("whole\n")
    assert signals._files(case) == ""
    (case.folder / "out" / "file").write_text("hal")
    (case.folder / "tmp" / "x.tmp").touch()
    assert signals._files(case) == "tmp/x.tmp, out/file"


def test_a_pipe_that_a_child_holds_is_counted(
    case: signals._Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil
    import subprocess

    shutil.rmtree(case.folder)
    monkeypatch.setattr(signals, "SECONDS", 1.0)
    keeps = "import subprocess, time; subprocess.Popen(['sleep', '5']); time.sleep(60)"
    monkeypatch.setitem(signals.COMMANDS, "samples", (keeps, ""))  # type: ignore[index]
    held = signals._end(case._replace(seconds=2.0))
    assert held.pipe == "still open after 1 s"
    assert subprocess.run(["pgrep", "-P", str(os.getpid()), "sleep"], check=False).returncode
