"""What was recorded on the emulated host says the same here: verdict, tables, devices."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.places import CHECKOUT
from lab.recorded import comparable, differences

RECORDED = CHECKOUT / "lab" / "out" / "guest" / "recorded"
NAMES = sorted({path.name.split(".")[0] for path in RECORDED.glob("*.json")})
COMMANDS = ("preflight", "gids", "devices")


def snapshot(name: str) -> Path:
    archive = RECORDED / f"{name}.tar.gz"
    return archive if archive.exists() else RECORDED / name


def test_the_guest_recorded_its_hosts() -> None:
    assert len(NAMES) >= 5, "run `python -m lab guest` first"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", NAMES)
def test_a_replay_prints_what_the_host_printed(
    name: str, command: str, rdmadiag: Callable[..., tuple[int, str, str]]
) -> None:
    live: Any = json.loads((RECORDED / f"{name}.{command}.json").read_text())
    code, out, err = rdmadiag(command, "--json", "--from", str(snapshot(name)))
    assert err == ""
    document = json.loads(out)
    assert code == live["exit_code"]
    assert document["host"]["hostname"] == live["document"]["host"]["hostname"]
    assert differences(comparable(document), comparable(live["document"])) == []
