"""The commands of a Mac as they run: found, late, refused, each on its own."""

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from lab.mac import ready_mac
from rdmadiag.facts import Missing, Why
from rdmadiag.host.answers import Ran
from rdmadiag.host.layout import TRANSCRIPT, command_name
from rdmadiag.host.live import LiveHost
from rdmadiag.sources.run import gather

RECORDED = ready_mac().recording()


class ScriptedMac(LiveHost):
    """Runs a program of ours for each command of a Mac: what it prints was recorded."""

    def __init__(self, folder: Path, programs: dict[str, str]) -> None:
        self.identity = ready_mac().identity()
        self._folder = folder
        self._programs = programs

    def run(self, argv: Sequence[str], deadline: float) -> Ran | Missing:
        name = argv[0].rpartition("/")[2]
        recorded = RECORDED.commands[command_name(argv)]
        content = self._folder / command_name(argv)
        content.write_bytes(recorded.stdout)
        program = self._programs.get(name, f"cat {content}")
        return super().run(("sh", "-c", program), deadline)

    def list(self, path: str) -> tuple[str, ...] | Missing:
        return RECORDED.listings[path]

    def verbs(self, gid_rows: int, deadline: float) -> bytes | Missing:
        return RECORDED.verbs[TRANSCRIPT]


def test_every_command_runs_and_is_read(tmp_path: Path) -> None:
    found = gather(ScriptedMac(tmp_path, {}), time.monotonic() + 20)
    assert found == gather(ready_mac().host(), time.monotonic() + 20)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "source", "seconds"),
    [("ioreg", "ioreg", 3.0), ("log", "mac_log", 5.0)],
    ids=["the registry", "the log"],
)
def test_a_command_that_hangs_is_given_up_after_its_own_time(
    program: str, source: str, seconds: float, tmp_path: Path
) -> None:
    hanging = ScriptedMac(tmp_path, {program: "trap '' TERM; sleep 60"})
    began = time.monotonic()
    found = gather(hanging, began + 20)
    # Not the 20 s of all; a loaded machine takes a while to stop it.
    assert seconds <= time.monotonic() - began < seconds + 6
    missing = getattr(found, source)
    assert missing.why is Why.TIMEOUT
    others = ("macos", "ioreg", "thunderbolt", "mac_network", "verbs", "mac_log")
    assert [n for n in others if isinstance(getattr(found, n), Missing)] == [source]


@pytest.mark.parametrize(
    ("program", "instead", "why"),
    [
        ("log", "echo 'log: Operation not permitted' >&2; exit 64", Why.DENIED),
        ("system_profiler", "exit 1", Why.UNSUPPORTED),
        ("system_profiler", "echo '{'", Why.MALFORMED),
        ("ioreg", "echo nonsense", Why.MALFORMED),
    ],
)
def test_a_command_that_fails_costs_its_own_source(
    program: str, instead: str, why: Why, tmp_path: Path
) -> None:
    found = gather(ScriptedMac(tmp_path, {program: instead}), time.monotonic() + 20)
    source = {"log": "mac_log", "system_profiler": "thunderbolt", "ioreg": "ioreg"}[program]
    assert getattr(found, source).why is why
    failed = [
        name
        for name in ("macos", "mac_network", "verbs")
        if isinstance(getattr(found, name), Missing)
    ]
    assert failed == []
