"""Debian's slurmctld with several slurmd on this machine, none of which needs a service."""

import os
from collections.abc import Sequence
from typing import Final

from lab.command import run
from lab.daemons import Daemons
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


class Slurm(Daemons):
    """A cluster of these nodes; a context manager. `env` is for srun, salloc and the rest."""

    NAME = "slurm"

    def __init__(self, nodes: Sequence[str]) -> None:
        self._nodes = nodes

    def begin(self) -> None:
        """Until every node is idle."""
        folder = self.folder
        (folder / "state").mkdir()
        conf = _CONF.format(port=free_port(), folder=folder)
        for node in self._nodes:
            (folder / f"spool-{node}").mkdir()
            where = f"NodeHostname={os.uname().nodename} NodeAddr=127.0.0.1 Port={free_port()}"
            conf += f"NodeName={node} {where} CPUs=1 State=UNKNOWN\n"
        (folder / "slurm.conf").write_text(conf)
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        self.env = dict(os.environ, SLURM_CONF=str(folder / "slurm.conf"))
        self.start(["slurmctld", "-D", "-i"], self.env)
        for node in self._nodes:
            self.start(["slurmd", "-D", "-N", node], self.env)
        self.until(self._are_idle, START_SECONDS, "the nodes of Slurm are not idle")

    def _are_idle(self) -> bool:
        argv = ["sinfo", "--noheader", "--Node", "--format=%T"]
        states = run(argv, timeout=60.0, env=self.env).stdout.split()
        return states == ["idle"] * len(self._nodes)
