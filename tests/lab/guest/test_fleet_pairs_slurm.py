"""Five nodes of a real Slurm, in pairs by srun: a slow link, and a node that goes in mid-round.

All of them are in one kernel: each slurmd in namespaces of its own, with a device of its own.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lab.attempt import until
from lab.command import run as run_within
from lab.fleet import BRIDGE, CHILD, Host, PowerCut, addresses, fleet, on_own_device, pids
from lab.slurm import Node, Slurm
from tests.schema.described import assert_described

pytestmark = [
    pytest.mark.needs("rxe in namespaces"),
    pytest.mark.skipif(
        shutil.which("slurmctld") is None or shutil.which("slurmd") is None,
        reason="no Slurm here: apt-get install slurmctld slurmd slurm-client",
    ),
]

NODES = 5  # of which four are at work in each round
CONTROLLER = "198.51.100.254"
SLOW, GOING = 2, 5
DELAY = "300ms"
ITERATIONS = 60  # the median of ten is of whoever else had the processors
WAIT, ATTEMPT = 180, 60  # seconds: all nodes share two emulated processors, and start at once
SECONDS = 1500.0
PROGRAM = Path(sys.executable).with_name("rdmadiag")

# In place of rdmadiag: it keeps the line that came on stdin, and hands on what comes after it.
KEEPS = """\
#!/bin/sh
IFS= read -r line
printf '%s\\n' "$line" >FOLDER/line-$SLURMD_NODENAME
mkfifo FOLDER/rest-$SLURMD_NODENAME
exec 3<&0
{ printf '%s\\n' "$line"; exec cat <&3; } >FOLDER/rest-$SLURMD_NODENAME &
PROGRAM "$@" <FOLDER/rest-$SLURMD_NODENAME
code=$?
kill $!
exit $code
"""


@dataclass(frozen=True)
class Cluster:
    """The nodes, what srun is told of them, and the cluster itself."""

    hosts: list[Host]
    slurm: Slurm
    table: Path

    def pairs(self, name: str, count: int, *words: str) -> "subprocess.CompletedProcess[str]":
        """`rdmadiag fleet pairs` in a job that has so many nodes; it is kept as `name`."""
        job = ["salloc", "--quiet", "--no-kill", f"--nodes={count}"]
        argv = [
            *("fleet", "pairs", "--allow-rtr", "--json", "--verbose"),
            *("--addresses", str(self.table), "--iterations", str(ITERATIONS)),
            *("--wait", str(WAIT), "--attempt-deadline", str(ATTEMPT)),
        ]
        begun = time.monotonic()
        done = run_within([*job, str(PROGRAM), *argv, *words], timeout=SECONDS, env=self.slurm.env)
        said = f"{time.monotonic() - begun:.0f} s, {done.returncode}\n{done.stderr}"
        kept = Path(os.environ["RDMADIAG_LAB_OUT"])
        (kept / f"{name}.json").write_text(done.stdout)
        (kept / f"{name}.log").write_text(said)
        return done


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with fleet(NODES) as hosts:
        add = f"ip address add {CONTROLLER}/24 dev {BRIDGE}"
        assert run_within(add.split(), timeout=60).returncode == 0
        nodes = [Node(each.namespace, each.rxe.ipv4, on_own_device(each, folder)) for each in hosts]
        with Slurm(nodes, CONTROLLER) as slurm:
            try:
                yield Cluster(hosts, slurm, addresses(hosts, folder))
            finally:
                for log in slurm.folder.glob("*.log"):
                    shutil.copy(log, os.environ["RDMADIAG_LAB_OUT"])


@dataclass
class Seen(threading.Thread):
    """What every process is started with, and its environment, while the block runs."""

    ending: threading.Event = field(default_factory=threading.Event)
    texts: set[bytes] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)

    def __hash__(self) -> int:
        return id(self)

    def run(self) -> None:
        """Twice a second."""
        while not self.ending.wait(0.5):
            for each in Path("/proc").glob("[0-9]*"):
                for name in ("cmdline", "environ"):
                    with suppress(OSError):
                        self.texts.add((each / name).read_bytes())


def _ends(document: dict[str, Any]) -> set[str]:
    cells = document["matrix"]["cells"]
    return {cell[end] for cell in cells for end in ("sender", "receiver")}


def test_one_srun_a_round_has_each_node_take_its_own_device_and_a_secret_that_nobody_sees(
    cluster: Cluster, tmp_path: Path
) -> None:
    keeps = tmp_path / "rdmadiag-that-keeps"
    keeps.write_text(KEEPS.replace("FOLDER", str(tmp_path)).replace("PROGRAM", str(PROGRAM)))
    keeps.chmod(0o755)
    seen = Seen()
    seen.start()
    try:
        done = cluster.pairs("one", 4, "--rounds", "1", "--retests", "0", "--program", str(keeps))
    finally:
        seen.ending.set()
        seen.join()
    document = json.loads(done.stdout)
    assert_described(document)
    assert re.search(r"1 round, in each one srun on 4 nodes of job [0-9]+;", done.stderr)
    assert (document["left_out"], document["unreported"]) == ([], []), done.stderr
    assert done.returncode == 0
    assert _ends(document) == {f"h{n}:rxe{n}" for n in range(1, 5)}
    assert {cell["outcome"] for cell in document["matrix"]["cells"]} == {"verified"}
    lines = [each.read_text() for each in tmp_path.glob("line-*")]
    assert len(lines) == 4
    (secret,) = {json.loads(line)["secret"] for line in lines}
    assert any(b"--job=" in each for each in seen.texts), "the ends of pairs were looked at"
    assert not any(secret.encode() in each for each in seen.texts)
    files = [each for each in cluster.slurm.folder.rglob("*") if each.is_file()]
    assert not any(secret.encode() in each.read_bytes() for each in files)


def test_a_slow_link_is_named_by_the_node_behind_it(cluster: Cluster) -> None:
    slow, leg = cluster.hosts[SLOW - 1], f"dev leg{SLOW} root netem"
    assert run_within(f"tc qdisc add {leg} delay {DELAY}".split(), timeout=60).returncode == 0
    try:
        done = cluster.pairs("slow", NODES, "--rounds", "all", "--retests", "0")
    finally:
        run_within(f"tc qdisc del {leg}".split(), timeout=60)
    document = json.loads(done.stdout)
    assert_described(document)
    assert (document["left_out"], document["unreported"]) == ([], []), done.stderr
    assert document["odd"][0]["kind"] in ("node", "undecided")
    assert slow.namespace in {name.partition(":")[0] for name in document["odd"][0]["names"]}
    assert (done.returncode, document["unplayed"]) == (1, 0)


def test_a_node_that_goes_in_mid_round_is_named_and_the_others_go_on(cluster: Cluster) -> None:
    going = cluster.hosts[GOING - 1]
    cut = PowerCut(going)
    cut.start()
    try:
        done = cluster.pairs("going", NODES, "--retests", "0", "--rounds", "all")
    finally:
        cut.ending.set()
        cut.join()
    document = json.loads(done.stdout)
    assert_described(document)
    assert cut.done
    (out_of,) = [each for each in document["left_out"] if each["end"] == going.namespace]
    assert out_of["round"] in (2, 3), "its second, as it may rest in one"
    assert any(each.startswith(f"{going.namespace}:") for each in document["unreported"])
    assert (done.returncode, document["unplayed"], document["rounds"]) == (3, 0, NODES)
    assert until(lambda: not any(pids(host, CHILD) for host in cluster.hosts), 60.0)
