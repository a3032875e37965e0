"""Real children: each answer is its node's, each ending is named, and nothing runs afterwards."""

import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from rdmadiag.fleet import launch as launching
from rdmadiag.fleet.launch import (
    CannotLaunch,
    Launch,
    Stopped,
    all_nodes,
    launch,
    nodes_of,
    nodes_of_job,
)
from rdmadiag.fleet.node_answer import Ending, NodeAnswer
from rdmadiag.fleet.nodes import NotNodes
from rdmadiag.fleet.ways import Exec, Ssh, Way
from tests.fleet.fake_fleet import Fleet

WORD = f"rdmadiag-of-this-test-{os.getpid()}"


def on_each(script: str, *nodes: str, **limits: float) -> dict[str, NodeAnswer]:
    """A shell for each node, which has its name as $0."""
    what = Launch(nodes, (), Exec(("sh", "-c", script, "%h")), **limits)  # type: ignore[arg-type]
    return launch(what)


def running(word: str) -> list[str]:
    """Command lines of processes with a word in them that go on; what is killed needs a moment."""
    until = time.monotonic() + 2
    while (found := _running(word)) and time.monotonic() < until:
        time.sleep(0.02)
    return found


def _running(word: str) -> list[str]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path("/proc", pid, "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        line = line.replace("\0", " ")
        if word in line and int(pid) != os.getpid():
            found.append(line)
    return found


linux = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="no /proc here")


def test_each_answer_is_its_nodes_in_the_order_of_the_nodes() -> None:
    found = on_each("echo out $0; echo err $0 >&2; exit 3", "n2", "n10", "n1")
    assert list(found) == ["n2", "n10", "n1"]
    for node, answer in found.items():
        assert answer == NodeAnswer(
            node, Ending.ANSWERED, 3, f"out {node}\n".encode(), f"err {node}\n".encode()
        )


@pytest.mark.parametrize("way", [Ssh(), Exec(("sh", "-c", 'shift; exec "$@"', "sh", "%h"))])
def test_each_node_is_told_its_own_name_where_that_is_wanted(way: Way, fleet: Fleet) -> None:
    what = Launch(("n1", "n2"), ("echo", "--to="), way, named=True)
    assert {node: each.stdout for node, each in launch(what).items()} == {
        "n1": b"--to=n1\n",
        "n2": b"--to=n2\n",
    }
    unnamed = launch(replace(what, named=False))
    assert {each.stdout for each in unnamed.values()} == {b"--to=\n"}


def test_text_without_a_line_end_and_with_carriage_returns_is_kept_whole() -> None:
    assert on_each(r"printf 'a\rb\r\nc'", "n1")["n1"].stdout == b"a\rb\r\nc"


def test_there_are_no_more_children_at_once_than_the_fanout(tmp_path: Path) -> None:
    script = f"mkdir {tmp_path}/$0; ls {tmp_path} | wc -l; sleep 0.2; rmdir {tmp_path}/$0"
    found = on_each(script, *(f"n{number}" for number in range(12)), fanout=3)
    assert max(int(each.stdout) for each in found.values()) == 3


@linux
@pytest.mark.parametrize(
    ("script", "ending"),
    [
        (f"exec sh -c 'sleep 60; : {WORD}'", Ending.LATE),
        (f"trap '' TERM; sh -c 'trap \"\" TERM; sleep 60; : {WORD}'", Ending.LATE),
        (f"exec >&- 2>&-; sh -c 'sleep 60; : {WORD}'", Ending.LATE),
        (f"sh -c 'sleep 60; : {WORD}' >/dev/null 2>&1 & echo", Ending.ANSWERED),
        ("yes", Ending.TOO_MUCH),
        ("tr '\\0' x < /dev/zero", Ending.TOO_MUCH),
        ("kill -SEGV $$", Ending.KILLED),
        ("exit 127", Ending.NOT_INSTALLED),
        ("no-such-program-here", Ending.NOT_INSTALLED),
    ],
    ids=[
        "hangs",
        "ignores SIGTERM",
        "closes its output and goes on",
        "leaves a child behind",
        "writes lines without end",
        "writes one line without end",
        "dies of a signal",
        "exits with 127",
        "is not there",
    ],
)
def test_every_ending_is_named_and_leaves_nothing_running(
    script: str, ending: Ending, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launching, "MOST", {"stdout": 1 << 20, "stderr": 1 << 16})
    begun = time.monotonic()
    found = on_each(script, "n1", "n2", host_deadline=2.0)
    assert {each.ending for each in found.values()} == {ending}
    assert time.monotonic() - begun < 15
    assert running(WORD) == []


@linux
def test_the_deadline_of_the_whole_ends_all_and_names_those_that_had_no_turn() -> None:
    begun = time.monotonic()
    found = on_each(
        f"sleep 60; : {WORD}", *(f"n{number}" for number in range(8)), fanout=2, deadline=1.5
    )
    assert time.monotonic() - begun < 8
    assert sorted(each.ending for each in found.values()) == [
        *[Ending.LATE] * 2,
        *[Ending.NOT_REACHED_IN_TIME] * 6,
    ]
    assert running(WORD) == []


@linux
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_all_children_and_is_raised(number: int) -> None:
    before = signal.getsignal(number)
    timer = threading.Timer(0.7, os.kill, (os.getpid(), number))
    timer.start()
    with pytest.raises(Stopped) as stopped:
        on_each(f"sleep 60; : {WORD}", "n1", "n2", "n3")
    timer.join()
    assert stopped.value.number == number
    assert running(WORD) == []
    assert signal.getsignal(number) == before


def test_stdin_is_empty_or_what_it_is_fed_with_and_then_stays_open() -> None:
    script = "head -c 5; timeout 0.3 cat; echo $?"
    assert on_each(script, "n1")["n1"].stdout == b"0\n"
    fed = Launch(("n1", "n2"), (), Exec(("sh", "-c", script, "%h")), fed=b"12345")
    assert {each.stdout for each in launch(fed).values()} == {b"12345124\n"}  # of timeout(1)


def test_a_child_has_no_terminal_and_a_session_of_its_own() -> None:
    found = on_each("ps -o sid= -p $$; echo $$; : < /dev/tty", "n1")["n1"]
    session, pid = found.stdout.split()
    assert session == pid
    assert b"/dev/tty" in found.stderr


def test_where_no_process_can_be_started_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(launching.subprocess, "Popen", fails)
    with pytest.raises(CannotLaunch, match="Resource temporarily unavailable"):
        on_each("true", "n1", "n2")


def test_ssh_gets_its_options_two_dashes_the_node_and_one_quoted_line(fleet: Fleet) -> None:
    command = ("printf", "%s|", "$(id)", "it's; !x", "a b")
    found = launch(Launch(("n1", "n2"), command, Ssh("-p 2222 -l admin"), host_deadline=7.0))
    assert {each.stdout for each in found.values()} == {b"$(id)|it's; !x|a b|"}
    for line in fleet.log:
        options, _, rest = line.partition(" -- ")
        assert rest.split()[0] in ("n1", "n2")
        assert options.startswith("-p 2222 -l admin ")
        for each in ("BatchMode=yes", "ConnectTimeout=7", "ForwardAgent=no", "ControlMaster=no"):
            assert f"-o{each}" in options.split()


def test_what_ssh_cannot_reach_is_named_with_its_reason(fleet: Fleet) -> None:
    fleet.program(
        "ssh", "#!/bin/sh\necho 'ssh: connect to host n1 port 22: Connection refused' >&2; exit 255"
    )
    found = launch(Launch(("n1",), ("rdmadiag",), Ssh()))["n1"]
    assert found.ending is Ending.UNREACHABLE
    assert found.why == "not reached: ssh: connect to host n1 port 22: Connection refused"


def test_a_topology_is_used_and_endings_behind_a_gateway_are_known(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = os.uname().nodename.partition(".")[0]
    topology = fleet.folder / "topology.conf"
    topology.write_text(f"[routes]\n{short}: gw[1-2]\ngw[1-2]: n[1-6]\n")
    monkeypatch.setattr("ClusterShell.Task.Task.TOPOLOGY_CONFIGS", [str(topology)])
    monkeypatch.setenv("CLUSTERSHELL_GW_PYTHON_EXECUTABLE", sys.executable)
    # The gateway's own ClusterShell calls ssh without "--".
    fleet.program(
        "ssh",
        '#!/bin/sh\nprintf \'%s\\n\' "$*" >> "$FAKE_FLEET/log"\n'
        "while case $1 in -*) true;; *) false;; esac; do shift; done\n"
        'NODE=$1; export NODE; exec sh -c "$2"\n',
    )
    nodes = tuple(f"n{number}" for number in range(1, 7))
    script = "case $NODE in n2) sleep 60;; n3) exit 127;; n4) kill -9 $$;; esac; echo $NODE; exit 2"
    assert launching.gateways() == 2
    begun = time.monotonic()
    found = launch(Launch(nodes, ("sh", "-c", script), Ssh(), host_deadline=4.0, deadline=40.0))
    assert time.monotonic() - begun < 30
    through = [line for line in fleet.log if "ClusterShell.Gateway" in line]
    assert len(through) in (1, 2)
    assert {node: (each.ending, each.code) for node, each in found.items()} == {
        "n1": (Ending.ANSWERED, 2),
        "n2": (Ending.LATE, None),
        "n3": (Ending.NOT_INSTALLED, 127),
        "n4": (Ending.ANSWERED, 137),  # a shell's way to say it: the child is the gateway's
        "n5": (Ending.ANSWERED, 2),
        "n6": (Ending.ANSWERED, 2),
    }
    assert found["n5"].stdout == b"n5\n"


def test_groups_and_all_are_those_of_the_configuration(fleet: Fleet) -> None:
    (fleet.folder / "groups.conf").write_text(
        "[Main]\ndefault: mine\n[mine]\n"
        "map: [ $GROUP = rack1 ] && echo n[1-3] || echo 'evil;name'\nall: echo n[1-4]\n"
    )
    from ClusterShell.NodeSet import set_std_group_resolver
    from ClusterShell.NodeUtils import GroupResolverConfig

    set_std_group_resolver(GroupResolverConfig([str(fleet.folder / "groups.conf")]))
    try:
        assert nodes_of("@rack1") == ("n1", "n2", "n3")
        assert nodes_of("@mine:rack1,n9") == ("n1", "n2", "n3", "n9")
        assert all_nodes() == ("n1", "n2", "n3", "n4")
        with pytest.raises(NotNodes, match="evil"):
            nodes_of("@rack2")
    finally:
        set_std_group_resolver(None)


@pytest.mark.parametrize("text", ["", "-oProxyCommand=x", "n1;id", "n 1", "n[1-", "$(id)", "n1\n"])
def test_what_is_no_name_is_no_node(text: str) -> None:
    with pytest.raises(NotNodes):
        nodes_of(text)


@pytest.mark.parametrize(
    ("script", "nodes"),
    [
        ("echo n[1-2,4]", {"n1", "n2", "n4"}),
        ("echo n1; echo n2", {"n1", "n2"}),
        ("", set()),
        ("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1", set()),
        ("echo 'Unable to contact slurm controller' >&2; exit 1", None),
        ("echo 'n[1-'", None),
        ("exec sleep 60", None),
    ],
    ids=[
        "one job",
        "a job of two parts",
        "ended",
        "forgotten",
        "no controller",
        "torn",
        "hangs",
    ],
)
def test_which_nodes_a_job_has_now(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, script: str, nodes: set[str] | None
) -> None:
    fleet.program("squeue", f"#!/bin/sh\n{script}\n")
    monkeypatch.setattr(launching, "_SQUEUE", 0.5 if "sleep" in script else 30.0)
    assert nodes_of_job() == nodes


def test_without_squeue_nobody_tells(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(fleet.folder))
    assert nodes_of_job() is None
