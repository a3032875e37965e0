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
import time
from pathlib import Path
from typing import IO

from lab.command import run, stop
from lab.daemons import Daemons
from lab.failure import EX_LATE, LabFailure
from lab.topology import fat_tree

START_SECONDS = 20.0
CONSOLE_SECONDS = 10.0
CLIENT_SECONDS = 30.0  # one program under ibsim-run

_PROMPT = "sim> "
_HOLD = "import os, sys; os.listdir('/sys/class/infiniband'); print(flush=True); sys.stdin.read()"


class Fabric(Daemons):
    """`hcas` hosts named Hca1…, all ports INIT until `sweep`. Use as a context manager."""

    NAME = "ibsim"

    def __init__(self, hcas: int = 64) -> None:
        self._topology = fat_tree(hcas)
        self._trees = 0

    def begin(self) -> None:
        """Until its console answers."""
        self._env = dict(
            os.environ,
            IBSIM_SOCKNAME=self.folder.name,  # abstract sockets: the default name is one a machine
            TMPDIR=str(self.folder),
            OSM_TMP_DIR=f"{self.folder}/",
            OSM_CACHE_DIR=f"{self.folder}/",
            LC_ALL="C",
        )
        (self.folder / "net").write_text(self._topology)
        # Its stdin is held open: at end of file its prompt floods the log.
        argv = ["ibsim", "-s", "net"]
        self._ibsim = self.start(argv, self._env, stdin=subprocess.PIPE, cwd=self.folder)
        self._wait_for_prompt(0, START_SECONDS)

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
            cwd=self.folder,
            env=self._env | {"SIM_HOST": name},
            start_new_session=True,
        )
        live = self.folder / f"sys-{holder.pid}"
        self._trees += 1
        copy = self.folder / "trees" / f"{name}-{self._trees}"
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
        before = self.log.stat().st_size
        self._ibsim.stdin.write(f"{command}\n".encode())
        self._ibsim.stdin.flush()
        answer = self._wait_for_prompt(before, CONSOLE_SECONDS)
        if re.search(r"^# ", answer, re.MULTILINE):  # how it marks a refusal
            raise LabFailure(f"ibsim refused {command!r}: {answer}")
        return answer

    def _on(self, name: str, argv: list[str], timeout: float) -> str:
        env = self._env | {"SIM_HOST": name}
        done = run(["ibsim-run", *argv], timeout=timeout, cwd=self.folder, env=env)
        if done.returncode != 0:
            last = (done.stderr or done.stdout).strip().splitlines()[-1:]
            raise LabFailure(f"{argv[0]} failed on {name}: {' '.join(last)}")
        return done.stdout

    def _wait_for_prompt(self, start: int, timeout: float) -> str:
        """What ibsim wrote after byte `start` of its log, once it ends with a prompt."""
        late = time.monotonic() + timeout
        while True:
            text = self.log.read_bytes()[start:].decode(errors="replace")
            if text.endswith(_PROMPT):
                return text.removesuffix(_PROMPT).strip()
            if self._ibsim.poll() is not None:
                raise LabFailure(f"ibsim ended: {text.strip().splitlines()[-1:]}")
            if time.monotonic() > late:
                raise LabFailure(f"ibsim did not answer within {timeout:g} s", EX_LATE)
            time.sleep(0.02)


def _read_line(stream: IO[bytes], timeout: float) -> None:
    """Wait until a line or the end of the stream is there."""
    if not select.select([stream], [], [], timeout)[0]:
        raise LabFailure(f"a program on the fabric said nothing within {timeout:g} s", EX_LATE)
    os.read(stream.fileno(), 1)
