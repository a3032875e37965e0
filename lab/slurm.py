"""Debian's slurmctld with several slurmd on this machine, none of which needs a service."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lab.command import run
from lab.daemons import Daemons
from lab.sshd import free_port

START_SECONDS: Final = 180.0

_CONF: Final = """\
ClusterName=lab
SlurmctldHost=localhost({address})
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


@dataclass(frozen=True)
class Node:
    """One slurmd."""

    name: str
    address: str = "127.0.0.1"
    prefix: tuple[str, ...] = ()  # before the command that starts it: the namespaces it is in


class Slurm(Daemons):
    """A cluster of these nodes; a context manager. `env` is for srun, salloc and the rest.

    `address` is where the nodes reach slurmctld, and where srun is.
    """

    NAME = "slurm"

    def __init__(self, nodes: Sequence[Node], address: str = "127.0.0.1") -> None:
        self._nodes, self._address = nodes, address

    def begin(self) -> None:
        """Until every node is idle."""
        folder = self.folder
        (folder / "state").mkdir()
        conf = _CONF.format(address=self._address, port=free_port(), folder=folder)
        for node in self._nodes:
            (folder / f"spool-{node.name}").mkdir()
            host = f"NodeHostname={os.uname().nodename}"
            where = f"{host} NodeAddr={node.address} Port={free_port()}"
            conf += f"NodeName={node.name} {where} CPUs=1 State=UNKNOWN\n"
        (folder / "slurm.conf").write_text(conf)
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        self.env = dict(os.environ, SLURM_CONF=str(folder / "slurm.conf"))
        self.start(["slurmctld", "-D", "-i"], self.env)
        for node in self._nodes:
            self.start([*node.prefix, "slurmd", "-D", "-N", node.name], self.env)
        self.until(self._are_idle, START_SECONDS, "the nodes of Slurm are not idle")

    def _are_idle(self) -> bool:
        argv = ["sinfo", "--noheader", "--Node", "--format=%T"]
        states = run(argv, timeout=60.0, env=self.env).stdout.split()
        return states == ["idle"] * len(self._nodes)
