"""Every command says the same of a redacted record, but for names."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from rdmadiag.cli import run
from rdmadiag.preflight.judge import judge
from rdmadiag.redact.record import redact_document
from rdmadiag.render.json import text
from rdmadiag.sources.run import gather
from tests.redact.records import (
    FAULTS,
    FEW,
    FEW_FAULTS,
    RECORDS,
    host_of,
    redacted_files,
    unpacked,
    written,
)

# Children that read what a user names: tests/host/test_given_file.py, test_isolation.py.
pytestmark = pytest.mark.usefixtures("in_this_process")

COMMANDS = (
    ("preflight",),
    ("gids", "--explain"),
    ("devices",),
    ("counters", "--interval", "0"),
    ("resources",),
    ("topology",),
    ("lossless",),
    ("capabilities",),
)
TIMES = ("generated_at", "recorded_at", "at", "recorded", "cmd")


def require_alike(before: Any, after: Any, where: str, names: dict[str, str]) -> None:
    """The same but for strings, each of which has become the same one everywhere."""
    assert type(before) is type(after), where
    if isinstance(before, dict):
        assert len(before) == len(after), where
        for (key, one), (other_key, other) in zip(before.items(), after.items(), strict=True):
            if key not in TIMES:
                require_alike(key, other_key, where, names)
                require_alike(one, other, f"{where}.{key}", names)
    elif isinstance(before, list):
        assert len(before) == len(after), where
        for at, (one, other) in enumerate(zip(before, after, strict=True)):
            require_alike(one, other, f"{where}[{at}]", names)
    elif isinstance(before, str):
        assert names.setdefault(before, after) == after, f"{where}: equal is not equal"
    else:
        assert before == after, where


def is_bijection(names: dict[str, str]) -> bool:
    return len(set(names.values())) == len(names)


def verdict_of(host: Any) -> Any:
    return json.loads(text(judge(gather(host, time.monotonic() + 20))))


def evidence_of(host: Any) -> Any:
    """Every source, those that no rule asks for too."""
    return json.loads(text(gather(host, time.monotonic() + 20)))


@pytest.mark.once
@pytest.mark.parametrize(
    "path",
    [path if path in FEW else pytest.param(path, marks=pytest.mark.slow) for path in RECORDS],
    ids=lambda path: f"{path.parent.name}/{path.name}",
)
def test_the_verdict_is_the_same(path: Path, tmp_path: Path) -> None:
    require_the_same_verdict(path, tmp_path)


@pytest.mark.once
@pytest.mark.parametrize("name", FEW_FAULTS[:1])
def test_so_it_is_of_a_recorded_fault(name: str, tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    path = unpacked(FAULTS / f"{name}.tar.gz", tmp_path / "packed")
    require_the_same_verdict(path, tmp_path / "made")


def require_the_same_verdict(path: Path, folder: Path) -> None:
    host = written(redacted_files(path), folder)
    before, after = verdict_of(host_of(path)), verdict_of(host)
    assert rules(before) == rules(after)
    names: dict[str, str] = {}
    require_alike(before, after, "", names)
    require_alike(evidence_of(host_of(path)), evidence_of(host), "", names)


def rules(verdict: Any) -> list[Any]:
    return [
        (each["rule"], each["severity"], each["device"], each["port"])
        for each in verdict["findings"]
    ]


@pytest.mark.parametrize(
    "path",
    [FEW[1], *(pytest.param(each, marks=pytest.mark.slow) for each in (FEW[0], FEW[2]))],
    ids=lambda path: path.name,
)
def test_so_is_what_each_command_prints(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(redacted_files(path), tmp_path)
    names: dict[str, str] = {}
    for command in COMMANDS:
        before = printed(command, path, capsys)
        after = printed(command, tmp_path, capsys)
        assert before[0] == after[0], command
        require_alike(before[1], after[1], " ".join(command), names)
    assert is_bijection({one: other for one, other in names.items() if one != other})


def printed(
    command: tuple[str, ...], path: Path, capsys: pytest.CaptureFixture[str]
) -> tuple[int, Any]:
    code = run([*command, "--json", "--from", str(path)])
    out = capsys.readouterr().out
    return code, json.loads(out) if out else None


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_nor_does_a_document_lose_its_shape(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    _, before = printed(command, FEW[0], capsys)
    made = redact_document(before, b"k" * 32)
    names: dict[str, str] = {}
    require_alike(before, made.document, command[0], names)
    changed = {one: other for one, other in names.items() if one != other}
    assert is_bijection(changed)
    assert before["host"]["hostname"] in changed
    assert before["host"]["hostname"] not in json.dumps(made.document)
