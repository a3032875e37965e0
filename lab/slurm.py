"""Debian's slurmctld with several slurmd on this machine, none of which needs a service."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from lab.command import run, stop
from lab.failure import EX_LATE, LabFailure
from lab.sshd import free_port

START_SECONDS: Final = 90.0

_CONF: Final = """\
ClusterName=lab
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
MessageTimeout=60
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
PartitionName=all Nodes=ALL Default=YES State=UP
"""


class Slurm:
    """A cluster of these nodes; a context manager. `env` is for srun, salloc and the rest."""

    def __init__(self, nodes: Sequence[str]) -> None:
        self._nodes = nodes

    def __enter__(self) -> Self:
        self._folder = folder = Path(tempfile.mkdtemp(prefix="rdmadiag-slurm-"))
        (folder / "state").mkdir()
        conf = _CONF.format(port=free_port(), folder=folder)
        for node in self._nodes:
            (folder / f"spool-{node}").mkdir()
            where = f"NodeHostname={os.uname().nodename} NodeAddr=127.0.0.1 Port={free_port()}"
            conf += f"NodeName={node} {where} CPUs=1 State=UNKNOWN\n"
        (folder / "slurm.conf").write_text(conf)
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        self.env = dict(os.environ, SLURM_CONF=str(folder / "slurm.conf"))
        slurmd = [["slurmd", "-D", "-N", node] for node in self._nodes]
        self._daemons = [self._start(argv) for argv in (["slurmctld", "-D", "-i"], *slurmd)]
        try:
            self._wait()
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

    def _start(self, argv: Sequence[str]) -> "subprocess.Popen[bytes]":
        with (self._folder / "daemons.log").open("ab") as log:
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.env,
                start_new_session=True,
            )

    def _wait(self) -> None:
        """Until every node is idle."""
        until = time.monotonic() + START_SECONDS
        while True:
            argv = ["sinfo", "--noheader", "--Node", "--format=%T"]
            states = run(argv, timeout=60.0, env=self.env).stdout.split()
            if states == ["idle"] * len(self._nodes):
                return
            if time.monotonic() > until or self._daemons[0].poll() is not None:
                said = (self._folder / "daemons.log").read_text()[-2000:]
                raise LabFailure(f"the nodes of Slurm are {states}: {said}", EX_LATE)
            time.sleep(0.2)

    def _close(self) -> None:
        for daemon in reversed(self._daemons):
            stop(daemon)
        shutil.rmtree(self._folder)
