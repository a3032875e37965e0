"""A fleet on this machine: an ssh that is a script, and a rdmadiag that is one for each node."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

SSH = """#!/bin/sh
# As ssh: options, --, the node, one line for a shell there.
printf '%s\\n' "$*" >> "$FAKE_FLEET/log"
while [ "$1" != -- ]; do shift; done
NODE=$2
export NODE
exec sh -c "$3"
"""
RDMADIAG = """#!/bin/sh
if [ -f "$FAKE_FLEET/$NODE" ]; then . "$FAKE_FLEET/$NODE"; fi
exec "$REAL_RDMADIAG" "$@"
"""


@dataclass(frozen=True)
class Fleet:
    """What its nodes do, and what ssh was called with."""

    folder: Path

    def does(self, node: str, script: str) -> None:
        """Instead of rdmadiag, on that node."""
        (self.folder / node).write_text(script)

    def program(self, name: str, script: str) -> None:
        """A program in the PATH."""
        path = self.folder / "bin" / name
        path.write_text(script)
        path.chmod(0o755)

    @property
    def log(self) -> list[str]:
        """The arguments of each ssh."""
        log = self.folder / "log"
        return log.read_text().splitlines() if log.exists() else []


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """In front of the PATH of this process."""
    made = Fleet(tmp_path / "fleet")
    (made.folder / "bin").mkdir(parents=True)
    made.program("ssh", SSH)
    made.program("rdmadiag", RDMADIAG)
    (made.folder / "bin" / "python3").symlink_to(sys.executable)
    monkeypatch.setenv("FAKE_FLEET", str(made.folder))
    monkeypatch.setenv("REAL_RDMADIAG", str(Path(sys.executable).with_name("rdmadiag")))
    monkeypatch.setenv("PATH", f"{made.folder / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("CLUSTERSHELL_CFGDIR", str(made.folder))
    for name in ("SLURM_JOB_ID", "SLURM_JOB_NODELIST"):
        monkeypatch.delenv(name, raising=False)
    return made
