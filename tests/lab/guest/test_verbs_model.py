"""The object model of verbs on soft RoCE: the examples of docs/verbs.md, and pitfalls."""

import subprocess
import sys

import pytest

from lab.resources import unchanged
from tests.verbs.model.programs import CHAIN, MANUAL, PACKETS, PRINTED, programs

SECONDS = 60


def ran(program: str, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.usefixtures("rxe_pair")
class TestRxe:
    @pytest.mark.parametrize("title", [CHAIN, PACKETS, MANUAL])
    def test_an_example_prints_what_it_should_and_leaves_nothing(self, title: str) -> None:
        with unchanged():
            assert sorted(ran(programs()[title])) == sorted(PRINTED[title])
