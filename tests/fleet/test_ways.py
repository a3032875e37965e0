"""Command lines for nodes, and srun's output by task."""

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.fleet.ways import (
    Exec,
    Labelled,
    NoSuchWay,
    Srun,
    Ssh,
    for_a_shell,
    not_plain,
    srun_argv,
    way_of,
)

MOST = {"stdout": 1000, "stderr": 100}
ROOM = {"stdout": 1 << 20, "stderr": 1 << 20}


def test_ssh_srun_and_programs_are_ways() -> None:
    assert way_of("ssh", "-p 22") == Ssh("-p 22")
    assert way_of("srun") == Srun()
    assert way_of("exec:kubectl exec -n 'a b' %h --") == Exec(
        ("kubectl", "exec", "-n", "a b", "%h", "--")
    )


@pytest.mark.parametrize("via", ["", "SSH", "exec:", "exec:ssh", "exec:ssh %n", "exec:'ssh %h"])
def test_what_is_none_is_refused(via: str) -> None:
    with pytest.raises(NoSuchWay):
        way_of(via)


def test_the_name_takes_the_place_of_each_h_and_two_percent_signs_are_one() -> None:
    way = way_of("exec:run --name=%h-%h 100%% %%h")
    assert isinstance(way, Exec)
    assert way.argv("n1", ("a", "%h")) == ["run", "--name=n1-n1", "100%", "%h", "a", "%h"]


words = st.lists(st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs"))))


@given(words)
def test_a_shell_reads_the_line_as_the_same_words(command: list[str]) -> None:
    command = [word for word in command if word.isprintable()]
    assert shlex.split(for_a_shell(command)) == command


def test_a_real_shell_does(tmp_path_factory: pytest.TempPathFactory) -> None:
    command = ["printf", "%s\\n", "", "a b", "$(id)", "`id`", "'", '"', "\\", "!x", "*", "~", "#"]
    done = subprocess.run(
        ["sh", "-c", for_a_shell(command)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[:-1] == command[2:]


def test_words_that_a_shell_would_read_as_something_else_are_not_plain() -> None:
    assert not_plain(["gids", "--stack=nccl@2.30", "a/b-c_d,e:1"]) == []
    assert not_plain(["a b", "$x", ";", "*", "", "=ls", "~"]) == [
        "a b",
        "$x",
        ";",
        "*",
        "",
        "=ls",
        "~",
    ]


def test_srun_starts_one_task_a_node_and_no_shell_reads_the_command() -> None:
    argv = srun_argv("n[1-2]", 2, ("rdmadiag", "gids", "$(id)"), fed=False)
    assert argv[:5] == [
        "srun",
        "--nodelist=n[1-2]",
        "--nodes=2",
        "--ntasks=2",
        "--ntasks-per-node=1",
    ]
    assert argv[-3:] == ["rdmadiag", "gids", "$(id)"]
    assert "--input=none" in argv
    done = subprocess.run(
        [*argv[argv.index("--") + 1 : -3], "printf", "%s", "$(id)"],
        capture_output=True,
        text=True,
        check=True,
        env={"SLURMD_NODENAME": "n2", "PATH": "/usr/bin:/bin"},
    )
    assert done.stdout == "rdmadiag-node n2\n$(id)\nrdmadiag-exit 0\n"


STREAM = (
    b"0: rdmadiag-node n1\n1: rdmadiag-node n2\n0: {\n1: garb: age\n0: }\n"
    b"0: \n1: \n1: rdmadiag-exit 3\n 0: rdmadiag-exit 0\n"
)


@given(st.lists(st.integers(1, 20), min_size=1))
def test_tasks_are_taken_apart_however_the_stream_is_cut(sizes: list[int]) -> None:
    labelled = Labelled(MOST)
    rest = STREAM
    for size in sizes * len(STREAM):
        labelled.take("stdout", rest[:size])
        rest = rest[size:]
    labelled.end()
    found = {task.node: (bytes(task.stdout), task.code) for task in labelled.tasks.values()}
    assert found == {"n1": (b"{\n}\n", 0), "n2": (b"garb: age\n", 3)}
    assert labelled.ended == {"n1", "n2"}


@given(st.lists(st.binary(max_size=3000).map(lambda line: line.replace(b"\n", b"")), max_size=4))
def test_lines_that_srun_breaks_in_pieces_are_put_together(lines: list[bytes]) -> None:
    labelled = Labelled(ROOM)
    for line in (b"rdmadiag-node n1", *lines, b"", b"rdmadiag-exit 0"):
        for at in range(0, len(line) // 1024 * 1024 + 1, 1024):
            labelled.take("stdout", b"0: " + line[at : at + 1024] + b"\n")
    labelled.end()
    (task,) = labelled.tasks.values()
    assert (task.node, task.code) == ("n1", 0)
    assert task.stdout == b"".join(line + b"\n" for line in lines)


@given(st.integers(0, 40))
def test_the_exit_code_is_read_where_the_last_bytes_of_a_task_come_in_pieces(cut: int) -> None:
    labelled = Labelled(ROOM)
    labelled.take("stdout", b"0: rdmadiag-node n1\n")
    rest = b'{"a": "bc"}\n\nrdmadiag-exit 124\n'
    for piece in (rest[:cut], rest[cut:]):
        for line in piece.removesuffix(b"\n").split(b"\n") if piece else ():
            labelled.take("stdout", b"0: " + line + b"\n")
    labelled.end()
    (task,) = labelled.tasks.values()
    assert task.code in (124, 1, 12)  # of a number in two pieces the first is taken
    assert (task.code == 124) or b"exit 1" in rest[:cut][-9:]
    assert task.stdout.replace(b"\n", b"").startswith(b'{"a": "bc"}')


def test_a_piece_of_a_line_is_no_word_of_ours() -> None:
    labelled = Labelled(ROOM)
    labelled.take("stdout", b"0: rdmadiag-node n1\n0: " + b"x" * 1024 + b"\n0: rdmadiag-exit 7\n")
    labelled.end()
    assert (labelled.tasks[0].code, labelled.tasks[0].stdout[-16:]) == (None, b"rdmadiag-exit 7\n")


def test_what_srun_says_itself_is_kept_apart_and_all_is_bounded() -> None:
    labelled = Labelled(MOST)
    labelled.take("stderr", b"srun: error: n2: task 1: Killed\n1: oops\n" * 50)
    labelled.take("stdout", b"0: " + b"x" * 100_000)
    labelled.end()
    assert labelled.own.startswith(b"srun: error: n2: task 1: Killed\n")
    assert len(labelled.own) < 200
    assert labelled.tasks[1].stderr.startswith(b"oops\n")
    assert len(labelled.tasks[1].stderr) < 200


@given(st.binary())
def test_any_bytes_are_taken(data: bytes) -> None:
    labelled = Labelled(MOST)
    for stream in MOST:
        labelled.take(stream, data)
    labelled.end()
