"""slurmctld and slurmd of Debian, on one node with real devices: who drains, and who resumes."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from lab.deployed import DEPLOY
from lab.rxe import Rxe

Run = Callable[..., "subprocess.CompletedProcess[str]"]

pytestmark = pytest.mark.skipif(
    shutil.which("slurmctld") is None or shutil.which("slurmd") is None,
    reason="no Slurm here: apt-get install slurmctld slurmd slurm-client munge",
)

CONF: Final = """\
ClusterName=lab
SlurmctldHost={node}(127.0.0.1)
AuthType=auth/munge
SlurmUser=root
SlurmdUser=root
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
MessageTimeout=60
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
Prolog={folder}/prolog
PrologFlags=Alloc
HealthCheckProgram={folder}/healthcheck
HealthCheckInterval=10
HealthCheckNodeState=IDLE
NodeName={node} NodeAddr=127.0.0.1 CPUs=1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""
SETTINGS: Final = Path("/etc/rdmadiag/slurm.env")
PROGRAM: Final = Path("/usr/local/bin/rdmadiag")


@dataclass(frozen=True)
class Cluster:
    """One node that is its own controller."""

    run: Run
    folder: Path
    node: str

    def state(self) -> tuple[str, str]:
        """ "drained", "rdmadiag: CRITICAL …"."""
        argv = ["sinfo", "--noheader", f"--nodes={self.node}", "--format=%T %E"]
        state, _, reason = self.run(argv, timeout=60).stdout.strip().partition(" ")
        return state, reason

    def wait(self, holds: Callable[[str, str], bool], seconds: float = 240) -> tuple[str, str]:
        """The node's state once it is as it should be; fails the test otherwise."""
        until = time.monotonic() + seconds
        while not holds(*(found := self.state())):
            if time.monotonic() > until:
                log = (self.folder / "slurmd.log").read_text()[-2000:]
                pytest.fail(f"after {seconds:g} s the node is {found}\n{log}")
            time.sleep(1)
        return found

    def next_check(self) -> None:
        """Until slurmd has run a whole health check that begins after this."""
        for _ in range(2):
            before = self._checks()
            until = time.monotonic() + 180
            while self._checks() == before:
                assert time.monotonic() < until, "slurmd runs no health check"
                time.sleep(0.5)

    def _checks(self) -> int:
        ran = self.folder / "checks"
        return len(ran.read_text().splitlines()) if ran.exists() else 0

    def update(self, *words: str) -> None:
        done = self.run(["scontrol", "update", f"nodename={self.node}", *words], timeout=60)
        assert done.returncode == 0, done.stderr


def replaced(script: str) -> None:
    """A rdmadiag that does something else, in place of ours."""
    PROGRAM.unlink(missing_ok=True)
    PROGRAM.write_text(f"#!/bin/sh\n{script}\n")
    PROGRAM.chmod(0o755)


def ours() -> None:
    """The program where the scripts look for it."""
    import sys

    PROGRAM.unlink(missing_ok=True)
    PROGRAM.symlink_to(Path(sys.executable).with_name("rdmadiag"))


@pytest.fixture
def cluster(run: Run, tmp_path: Path, rxe_pair: tuple[Rxe, Rxe]) -> Iterator[Cluster]:
    """Slurm with the scripts of deploy/ installed, and its node idle."""
    folder, node = tmp_path, os.uname().nodename
    ours()
    os.chmod("/etc/munge/munge.key", 0o400)
    Path("/run/munge").mkdir(exist_ok=True)
    shutil.chown("/run/munge", "munge", "munge")
    munged = ["setpriv", "--reuid=munge", "--regid=munge", "--clear-groups", "munged", "--force"]
    assert run(munged, timeout=60).returncode == 0
    for name in ("state", "spool"):
        (folder / name).mkdir()
    shutil.copy(DEPLOY / "slurm" / "prolog.sh", folder / "prolog")
    shutil.copy(DEPLOY / "slurm" / "healthcheck.sh", folder / "healthcheck.sh")
    (folder / "healthcheck").write_text(
        f"#!/bin/sh\n{folder}/healthcheck.sh\ncode=$?\necho $code >> {folder}/checks\n"
    )
    (folder / "healthcheck").chmod(0o755)
    SETTINGS.parent.mkdir(exist_ok=True)
    SETTINGS.unlink(missing_ok=True)
    Path("/etc/slurm").mkdir(exist_ok=True)
    Path("/etc/slurm/slurm.conf").write_text(CONF.format(folder=folder, node=node))
    # User Mode Linux mounts no cgroup file system, which would be looked for otherwise.
    Path("/etc/slurm/cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    made = Cluster(run, folder, node)
    daemons = [subprocess.Popen([name, "-D"]) for name in ("slurmctld", "slurmd")]
    try:
        made.wait(lambda state, _: state == "idle")
        yield made
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            try:
                daemon.wait(timeout=30)
            except subprocess.TimeoutExpired:
                daemon.kill()
        run(["munged", "--stop"], timeout=30)
        PROGRAM.unlink(missing_ok=True)
        SETTINGS.unlink(missing_ok=True)


def break_rdma(run: Run) -> None:
    """Its address stays: without any, getaddrinfo of glibc finds nobody for slurmctld."""
    run(["ip", "link", "set", "dev", "veth0", "down"], timeout=30)


def mend_rdma(run: Run) -> None:
    run(["ip", "link", "set", "dev", "veth0", "up"], timeout=30)


def test_a_node_is_drained_with_the_reason_and_resumed_where_that_is_wanted(
    cluster: Cluster, run: Run
) -> None:
    job = run(["srun", "--time=1", "true"], timeout=180)
    assert (job.returncode, job.stderr) == (0, "")
    break_rdma(run)
    _, reason = cluster.wait(lambda state, _: state.startswith("drain"))
    assert reason.startswith("rdmadiag: CRITICAL  ")
    mend_rdma(run)
    cluster.next_check()
    assert cluster.state() == ("drained", reason), "off by default"
    SETTINGS.write_text("RDMADIAG_RESUME=yes\n")
    assert cluster.wait(lambda state, _: state == "idle")[1] == "none"


def test_what_an_admin_drained_keeps_its_reason_whatever_is_found(
    cluster: Cluster, run: Run
) -> None:
    SETTINGS.write_text("RDMADIAG_RESUME=yes\n")
    cluster.update("state=drain", "reason=disk is broken")
    cluster.wait(lambda state, _: state == "drained")
    cluster.next_check()
    assert cluster.state() == ("drained", "disk is broken")
    break_rdma(run)
    cluster.next_check()
    assert cluster.state() == ("drained", "disk is broken")


def test_a_prolog_that_fails_drains_the_node_and_holds_the_job(cluster: Cluster, run: Run) -> None:
    (cluster.folder / "healthcheck").write_text("#!/bin/sh\nexit 0\n")  # the Prolog alone
    break_rdma(run)
    done = run(["sbatch", "--parsable", "--output=/dev/null", "--wrap=true"], timeout=60)
    job = done.stdout.strip()
    assert cluster.wait(lambda state, _: state.startswith("drain"))[1] == "Prolog error"
    held = run(["squeue", "--noheader", f"--job={job}", "--format=%T %r"], timeout=60).stdout
    assert held.strip() == "PENDING launch failed requeued held"
    mend_rdma(run)
    cluster.update("state=resume")
    assert run(["scontrol", "release", job], timeout=60).returncode == 0
    cluster.wait(lambda *_: not run(["squeue", "--noheader", "--job", job], timeout=60).stdout)


@pytest.mark.parametrize(
    "script",
    ["kill -SEGV $$", "exit 1", "trap '' TERM; sleep 1000"],
    ids=["crashes", "cannot be imported", "hangs"],
)
def test_a_program_without_a_verdict_drains_no_node(
    script: str, cluster: Cluster, run: Run
) -> None:
    replaced(script)
    start = time.monotonic()
    job = run(["srun", "--time=2", "true"], timeout=300)
    assert job.returncode == 0, job.stderr
    assert time.monotonic() - start < 120
    if "sleep" not in script:
        cluster.next_check()
    assert cluster.state() == ("idle", "none")
