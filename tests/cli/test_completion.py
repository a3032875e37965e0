"""Completion: what each shell that is here offers after TAB."""

import os
import sys
from pathlib import Path

import pytest

from lab.shells import SHELLS, installed, offered
from rdmadiag.cli import COMMANDS
from rdmadiag.samples import samples

PROGRAM = Path(sys.executable).with_name("rdmadiag")

pytestmark = [
    pytest.mark.skipif(not PROGRAM.exists(), reason="rdmadiag is not installed here"),
    pytest.mark.parametrize(
        "shell",
        [
            pytest.param(
                name, marks=pytest.mark.skipif(not installed(name), reason=f"no {name} here")
            )
            for name in SHELLS
        ],
    ),
]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["rdmadiag", ""], set(COMMANDS)),
        (["rdmadiag", "pre"], {"preflight"}),
        (["rdmadiag", "preflight", "--expect-d"], {"--expect-devices"}),
        (["rdmadiag", "preflight", "--profile", ""], {"nagios", "slurm", "npd", "k8s"}),
        (["rdmadiag", "gids", "--sample", "mac-"], {n for n in samples() if n.startswith("mac-")}),
        (["rdmadiag", "schema", "explain"], {"explain", "explain-log", "explain-ring"}),
        (["rdmadiag", "help", "pre"], {"preflight"}),
        (["rdmadiag", "help", "fleet", "me"], {"merge"}),
        (["rdmadiag", "fleet", "me"], {"merge"}),
        (["rdmadiag", "fleet", "merge", "--judge"], {"--judge-again"}),
        (["rdmadiag", "deploy", "nagios"], {"nagios/nrpe.cfg", "nagios/services.cfg"}),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else None,
)
def test_what_is_offered(shell: str, words: list[str], expected: set[str]) -> None:
    assert set(offered(shell, words, PROGRAM, timeout=60)) == expected


@pytest.mark.skipif(os.path.exists("/sys/class/infiniband"), reason="this host has RDMA devices")
def test_of_devices_that_are_not_there_none_is_offered(shell: str) -> None:
    assert offered(shell, ["rdmadiag", "gids", "--device", "x"], PROGRAM, timeout=60) == []
