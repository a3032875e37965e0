"""An InfiniBand fabric of many hosts on this machine: Debian's ibsim and a real opensm.

ibsim answers management datagrams for every node of a topology. A program started through
ibsim-run is on the host that SIM_HOST names, and finds that host's sysfs as ./sys-<its pid>.
Hosts have node and port attributes, pkeys and the port's own link-local GID; they have no
counters and no verbs, and of a two-port HCA only the first port.
"""

import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from lab.command import run, stop
from lab.failure import EX_LATE, LabFailure
from lab.topology import fat_tree

START_SECONDS = 20.0
CONSOLE_SECONDS = 10.0
CLIENT_SECONDS = 30.0  # one program under ibsim-run

_PROMPT = "sim> "
_HOLD = "import os, sys; os.listdir('/sys/class/infiniband'); print(flush=True); sys.stdin.read()"


class Fabric:
    """`hcas` hosts named Hca1…, all ports INIT until `sweep`. Use as a context manager."""

    def __init__(self, hcas: int = 64) -> None:
        self._topology = fat_tree(hcas)
        self._trees = 0

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="rdmadiag-fabric-"))
        self._env = dict(
            os.environ,
            IBSIM_SOCKNAME=self._folder.name,  # abstract sockets: the default name is one a machine
            TMPDIR=str(self._folder),
            OSM_TMP_DIR=f"{self._folder}/",
            OSM_CACHE_DIR=f"{self._folder}/",
            LC_ALL="C",
        )
        (self._folder / "net").write_text(self._topology)
        self._log = self._folder / "ibsim.log"
        try:
            with self._log.open("wb") as log:
                self._ibsim = subprocess.Popen(
                    ["ibsim", "-s", "net"],
                    stdin=subprocess.PIPE,  # held open: at end of file its prompt floods the log
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=self._folder,
                    env=self._env,
                    start_new_session=True,
                )
        except FileNotFoundError:
            shutil.rmtree(self._folder)
            raise LabFailure("ibsim is not installed: python -m lab prepare") from None
        try:
            self._wait_for_prompt(0, START_SECONDS)
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

    def hosts(self) -> list[str]:
        """The HCAs' names, in the topology's order."""
        return re.findall(r'^Hca \d+ "(\w+)"$', self._topology, re.MULTILINE)

    def tree(self, name: str) -> Path:
        """A copy of the host's files as they are now: sys/class/infiniband/ibsim0/…

        It is a new folder at every call and goes away with the fabric.
        """
        holder = subprocess.Popen(
            ["ibsim-run", sys.executable, "-S", "-c", _HOLD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self._folder,
            env=self._env | {"SIM_HOST": name},
            start_new_session=True,
        )
        live = self._folder / f"sys-{holder.pid}"
        self._trees += 1
        copy = self._folder / "trees" / f"{name}-{self._trees}"
        assert holder.stdin is not None
        assert holder.stdout is not None
        try:
            _read_line(holder.stdout, CLIENT_SECONDS)
            if not (live / "sys" / "class" / "infiniband").is_dir():
                raise LabFailure(f"ibsim gave {name} no /sys/class/infiniband")
            shutil.copytree(live, copy)
        finally:
            holder.stdin.close()  # it ends, and removes its tree
            try:
                holder.wait(timeout=CLIENT_SECONDS)
            except subprocess.TimeoutExpired:
                stop(holder)
            holder.stdout.close()
        return copy

    def ibstat(self, name: str) -> str:
        """What infiniband-diags' ibstat prints on that host."""
        return self._on(name, ["ibstat"], CLIENT_SECONDS)

    def sweep(self, deadline: float = 60.0) -> str:
        """One run of opensm from the first host, at most `deadline` seconds; what it printed."""
        return self._on(self.hosts()[0], ["opensm", "-o", "-f", "opensm.log"], deadline)

    def unlink(self, node: str, port: int) -> None:
        """Pull the cable out of a node's port: both ends go down."""
        self.console(f'Unlink "{node}"[{port}]')

    def relink(self, node: str, port: int) -> None:
        """Put the cable that `unlink` pulled back: both ends are INIT until the next sweep."""
        self.console(f'ReLink "{node}"[{port}]')

    def console(self, command: str) -> str:
        """One command on ibsim's own console, and its answer."""
        assert self._ibsim.stdin is not None
        before = self._log.stat().st_size
        self._ibsim.stdin.write(f"{command}\n".encode())
        self._ibsim.stdin.flush()
        answer = self._wait_for_prompt(before, CONSOLE_SECONDS)
        if re.search(r"^# ", answer, re.MULTILINE):  # how it marks a refusal
            raise LabFailure(f"ibsim refused {command!r}: {answer}")
        return answer

    def _on(self, name: str, argv: list[str], timeout: float) -> str:
        env = self._env | {"SIM_HOST": name}
        done = run(["ibsim-run", *argv], timeout=timeout, cwd=self._folder, env=env)
        if done.returncode != 0:
            last = (done.stderr or done.stdout).strip().splitlines()[-1:]
            raise LabFailure(f"{argv[0]} failed on {name}: {' '.join(last)}")
        return done.stdout

    def _wait_for_prompt(self, start: int, timeout: float) -> str:
        """What ibsim wrote after byte `start` of its log, once it ends with a prompt."""
        late = time.monotonic() + timeout
        while True:
            text = self._log.read_bytes()[start:].decode(errors="replace")
            if text.endswith(_PROMPT):
                return text.removesuffix(_PROMPT).strip()
            if self._ibsim.poll() is not None:
                raise LabFailure(f"ibsim ended: {text.strip().splitlines()[-1:]}")
            if time.monotonic() > late:
                raise LabFailure(f"ibsim did not answer within {timeout:g} s", EX_LATE)
            time.sleep(0.02)

    def _close(self) -> None:
        assert self._ibsim.stdin is not None
        stop(self._ibsim)
        self._ibsim.stdin.close()
        shutil.rmtree(self._folder)


def _read_line(stream: IO[bytes], timeout: float) -> None:
    """Wait until a line or the end of the stream is there."""
    if not select.select([stream], [], [], timeout)[0]:
        raise LabFailure(f"a program on the fabric said nothing within {timeout:g} s", EX_LATE)
    os.read(stream.fileno(), 1)
