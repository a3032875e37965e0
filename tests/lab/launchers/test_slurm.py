"""Within a real allocation: one srun, whose nodes are told apart, and lists for --exclude."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.slurm import Node, Slurm
from tests.fleet.test_launch import running

pytestmark = pytest.mark.skipif(
    shutil.which("slurmctld") is None or shutil.which("slurmd") is None,
    reason="no Slurm here: apt-get install slurmctld slurmd slurm-client",
)

PROGRAM = str(Path(sys.executable).with_name("rdmadiag"))
WORD = f"rdmadiag-task-{os.getpid()}"
NODES = ("n1", "n2", "n3")

# What the nodes have in place of rdmadiag; each finds its own name where slurmd puts it.
SCRIPT = f"""\
#!/bin/sh
case $SLURMD_NODENAME-$SICK in
n2-sick) exec {PROGRAM} "$@" --sample roce-empty-gid-table;;
n2-hangs) exec sh -c 'sleep 1000; : {WORD}';;
n3-hangs) echo garbage; kill -9 $$;;
esac
exec {PROGRAM} "$@" --sample roce-healthy
"""
Within = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def within(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Within]:
    """`within(script, SICK=…)`: a script of sh in a job that has all nodes."""
    folder = tmp_path_factory.mktemp("job")
    (folder / "rdmadiag-of-node").write_text(SCRIPT)
    (folder / "rdmadiag-of-node").chmod(0o755)
    run = f"{PROGRAM} fleet run --program {folder}/rdmadiag-of-node"
    with Slurm([Node(name) for name in NODES]) as slurm:

        def call(script: str, **variables: str) -> "subprocess.CompletedProcess[str]":
            return subprocess.run(
                ["salloc", "--quiet", "--nodes=3", "sh", "-c", script.replace("RUN", run)],
                capture_output=True,
                text=True,
                timeout=240,
                check=False,
                cwd=folder,
                env=slurm.env | variables,
            )

        yield call


def test_one_srun_reaches_all_nodes_and_the_lists_are_for_exclude(within: Within) -> None:
    done = within(
        "RUN --passed good --failed bad -- preflight; echo code $?; cat good bad;"
        "srun --overlap --nodes=2 --ntasks=2 --exclude=$(cat bad) --label "
        "sh -c 'echo $SLURMD_NODENAME'",
        SICK="sick",
    )
    assert "one srun on 3 nodes of job " in done.stderr
    lines = done.stdout.splitlines()
    assert "Hosts: 3 expected, 3 reported, 2 fit." in lines
    assert lines[lines.index("code 2") + 1 :][:2] == ["n[1,3]", "n2"]
    assert sorted(line[-2:] for line in lines[lines.index("n2") + 1 :]) == ["n1", "n3"]


def test_a_node_that_hangs_and_one_that_dies_are_named_within_the_deadline(within: Within) -> None:
    begun = time.monotonic()
    done = within("RUN --host-deadline 20 --json -- preflight; echo code $?", SICK="hangs")
    assert time.monotonic() - begun < 120
    document, code = done.stdout.splitlines()
    assert code == "code 3"
    found = json.loads(document)
    assert found["hosts"] == {"expected": 3, "reported": 1, "fit": 1}
    failed = [each for each in found["unused"] if each["gap"] == "failed"]
    whys = {each["node"]: each["detail"] for each in failed}
    assert whys["n2"] == "did not end before its deadline"
    assert set(whys) | {each["node"] for each in found["unused"]} == {"n2", "n3"}
    assert running(WORD) == []


def test_a_copy_goes_to_all_nodes_by_the_one_srun(within: Within) -> None:
    python = f"--copy --python {sys.executable}"
    words = f"fleet run {python} --json -- devices"
    done = within(f"{PROGRAM} {words}; echo code $?")
    *rows, code = done.stdout.splitlines()
    assert code == "code 3"  # there is no device
    found = [json.loads(row) for row in rows]
    assert [(each["node"], each["ending"]) for each in found] == [
        (node, "answered") for node in NODES
    ]
    assert all(each["document"]["devices"] == [] for each in found)


def test_a_signal_ends_srun_and_its_tasks(within: Within) -> None:
    done = within(
        "RUN -- preflight & child=$!; sleep 8; kill -TERM $child; wait $child; echo code $?",
        SICK="hangs",
    )
    assert done.stdout == f"code {128 + signal.SIGTERM}\n", done.stderr
    assert running(WORD) == []
