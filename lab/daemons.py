"""Servers of other programs that run for the length of a block, with a folder of their own."""

import shutil
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from lab.command import stop
from lab.failure import EX_LATE, EX_UNAVAILABLE, LabFailure

_SHOWN = 2000  # letters of a log


class Daemons(ABC):
    """A context manager: what `begin` starts is ended, and its folder removed, with the block."""

    NAME: ClassVar[str]
    log: Path

    @abstractmethod
    def begin(self) -> None:
        """Starts all of them, and waits until they are ready; LabFailure if they are not."""

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix=f"rdmadiag-{self.NAME}-"))
        self.log = self.folder / f"{self.NAME}.log"
        self.running: list[subprocess.Popen[bytes]] = []
        try:
            self.begin()
        except LabFailure:
            self._close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def start(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        stdin: int = subprocess.DEVNULL,
        cwd: Path | None = None,
    ) -> "subprocess.Popen[bytes]":
        """One of them, in a session of its own; what it says goes to `log`.

        It goes with this process, however that ends: ibsim turns in a loop once nobody has the
        other end of its console.
        """
        if shutil.which(argv[0]) is None:
            raise LabFailure(f"{argv[0]} is not installed: python -m lab prepare")
        with self.log.open("ab") as log:
            child = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *argv],
                stdin=stdin,
                stdout=log,
                stderr=log,
                cwd=cwd,
                env=dict(env),
                start_new_session=True,
            )
        self.running.append(child)
        return child

    def until(self, is_ready: Callable[[], bool], seconds: float, what: str) -> None:
        """Waits for it; LabFailure if the first daemon ends, or `seconds` pass."""
        late = time.monotonic() + seconds
        while not is_ready():
            has_ended = self.running[0].poll() is not None
            if has_ended or time.monotonic() > late:
                why = "it ended" if has_ended else f"not within {seconds:g} s"
                said = self.log.read_text(errors="replace")[-_SHOWN:]
                raise LabFailure(f"{what}: {why}: {said}", EX_UNAVAILABLE if has_ended else EX_LATE)
            time.sleep(0.05)

    def _close(self) -> None:
        for child in reversed(self.running):
            stop(child)
            if child.stdin is not None:
                child.stdin.close()
        shutil.rmtree(self.folder)
