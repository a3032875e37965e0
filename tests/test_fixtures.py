"""Recorded machines: one folder each, with the answer that it must give."""

import json
import time
from pathlib import Path

import pytest

from lab.fixtures import answer
from rdmadiag.host.recorded import open_snapshot
from rdmadiag.preflight.judge import judge
from rdmadiag.render.json import plain
from rdmadiag.sources.run import gather

FIXTURES = Path(__file__).parent / "fixtures"
NAMES = sorted(path.name for path in FIXTURES.iterdir())


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_machine_gives_its_answer(name: str) -> None:
    expected = json.loads((FIXTURES / name / "expected.json").read_text())
    host = open_snapshot(str(FIXTURES / name))
    assert host.about, "ABOUT says what the machine is"
    verdict = judge(gather(host, time.monotonic() + 20))
    assert answer(plain(verdict)) == expected
