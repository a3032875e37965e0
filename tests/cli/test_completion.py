"""Completion: what each shell that is here offers after TAB."""

import os
import sys
from pathlib import Path

import pytest

from lab.shells import SHELLS, installed, offered
from rdmadiag.cli import COMMANDS
from rdmadiag.samples import samples

PROGRAM = Path(sys.executable).with_name("rdmadiag")

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="rdmadiag is not installed here")
each_shell = pytest.mark.parametrize(
    "shell",
    [
        pytest.param(name, marks=pytest.mark.skipif(not installed(name), reason=f"no {name} here"))
        for name in SHELLS
    ],
)


OFFERED = {
    ("rdmadiag", ""): set(COMMANDS),
    ("rdmadiag", "preflight", "--expect-d"): {"--expect-devices"},
    ("rdmadiag", "gids", "--sample", "mac-"): {n for n in samples() if n.startswith("mac-")},
    ("rdmadiag", "fleet", "me"): {"merge"},
}
"""Of commands, options, values and commands below another."""

ALIKE = {
    ("rdmadiag", "pre"): {"preflight"},
    ("rdmadiag", "preflight", "--profile", ""): {"nagios", "slurm", "npd", "k8s"},
    ("rdmadiag", "schema", "explain-l"): {"explain-log"},
    ("rdmadiag", "help", "pre"): {"preflight"},
    ("rdmadiag", "help", "fleet", "me"): {"merge"},
    ("rdmadiag", "fleet", "merge", "--judge"): {"--judge-again"},
    ("rdmadiag", "deploy", "nagios"): {"nagios/nrpe.cfg", "nagios/services.cfg"},
}
"""What the program finds for these words, whichever shell asks it: one is enough."""


@each_shell
@pytest.mark.parametrize("words", OFFERED, ids=" ".join)
def test_what_is_offered(shell: str, words: tuple[str, ...]) -> None:
    assert set(offered(shell, words, PROGRAM, timeout=60)) == OFFERED[words]


@pytest.mark.slow
@pytest.mark.skipif(not any(map(installed, SHELLS)), reason="no shell here")
@pytest.mark.parametrize("words", ALIKE, ids=" ".join)
def test_what_is_offered_in_one_shell(words: tuple[str, ...]) -> None:
    shell = next(filter(installed, SHELLS))
    assert set(offered(shell, words, PROGRAM, timeout=60)) == ALIKE[words]


@each_shell
@pytest.mark.skipif(os.path.exists("/sys/class/infiniband"), reason="this host has RDMA devices")
def test_of_devices_that_are_not_there_none_is_offered(shell: str) -> None:
    assert offered(shell, ["rdmadiag", "gids", "--device", "x"], PROGRAM, timeout=60) == []
