"""--copy with real Pythons: what is sent, that it runs without a package, and that it goes away."""

import dataclasses
import io
import os
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.fleet import copy, unpack_and_run
from rdmadiag.fleet.archive import (
    PROBE,
    Archive,
    Python,
    archive,
    python_of,
    this_python,
)
from rdmadiag.fleet.copy import command, copy_for_all, launch_copied
from rdmadiag.fleet.launch import Launch
from rdmadiag.fleet.node_answer import Ending
from rdmadiag.fleet.ways import Ssh
from rdmadiag.fleet.wheels import NoArchive
from tests.fleet.fake_fleet import Fleet
from tests.fleet.test_launch import linux, running
from tests.fleet.test_wheels import wheels_in

ARM = Python((3, 12), "cpython-312-aarch64-linux-gnu", "aarch64", "linux")


@pytest.fixture(scope="module")
def own() -> Archive:
    """For this Python."""
    return archive(this_python(), None)


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where mkdtemp makes its folders; it is empty again at the end of each test."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    until = time.monotonic() + 5
    while os.listdir(folder) and time.monotonic() < until:
        time.sleep(0.05)
    assert os.listdir(folder) == []


def test_a_python_says_what_it_is() -> None:
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, check=True)
    assert python_of(done.stdout) == this_python()


@given(st.binary() | st.text().map(str.encode))
def test_what_says_something_else_is_none(text: bytes) -> None:
    assert python_of(text) is None


@pytest.mark.parametrize("text", ['[[3, 12], "a b", "x", "y"]', '[[3, "12"], "a", "x", "y"]', "[]"])
def test_so_is_what_is_nearly_right(text: str) -> None:
    assert python_of(text.encode()) is None


@pytest.mark.slow
def test_the_same_archive_is_the_same_bytes_and_holds_files_and_folders_alone(own: Archive) -> None:
    assert archive(this_python(), None).digest == own.digest
    with tarfile.open(fileobj=io.BytesIO(own.data)) as members:
        every = members.getmembers()
    names = {member.name for member in every}
    assert all(member.isreg() or member.isdir() for member in every)
    assert {"rdmadiag/__main__.py", "click/__init__.py", "typing_extensions.py"} <= names
    assert not [name for name in names if "__pycache__" in name or name.startswith("/")]
    assert not [name for name in names if name.startswith("rdmadiag/") and name.endswith(".so")]
    assert len(own.data) < 6 << 20


@pytest.mark.slow
def test_another_python_takes_its_compiled_part_from_a_folder_of_wheels(tmp_path: Path) -> None:
    from importlib.metadata import version

    name = f"pydantic_core-{version('pydantic-core')}-cp312-cp312-manylinux_2_17_aarch64"
    with zipfile.ZipFile(tmp_path / f"{name}.manylinux2014_aarch64.whl", "w") as wheel:
        wheel.writestr("pydantic_core/__init__.py", "# of the wheel")
        wheel.writestr("pydantic_core/_core.so", "elf")
        wheel.writestr("pydantic_core-2.dist-info/RECORD", "")
    made = archive(ARM, wheels_in(tmp_path))
    with tarfile.open(fileobj=io.BytesIO(made.data)) as members:
        inside = {name for name in members.getnames() if name.startswith("pydantic_core")}
        text = members.extractfile("pydantic_core/__init__.py")
        assert text is not None
        assert text.read() == b"# of the wheel"
    assert inside == {"pydantic_core", "pydantic_core/__init__.py", "pydantic_core/_core.so"}


@pytest.mark.parametrize(
    ("python", "said"),
    [
        (ARM, "--python-version 3.12 --platform manylinux_2_17_aarch64 -d DIR pydantic-core=="),
        (dataclasses.replace(ARM, abi="cpython-312t-aarch64-linux-gnu"), "needs pydantic-core"),
        (dataclasses.replace(ARM, version=(3, 9)), "rdmadiag needs 3.11"),
    ],
)
def test_where_there_is_none_it_says_how_to_have_one(
    python: Python, said: str, tmp_path: Path
) -> None:
    with pytest.raises(NoArchive, match=said.replace(".", r"\.")):
        archive(python, wheels_in(tmp_path))
    with pytest.raises(NoArchive):
        archive(python, wheels_in(tmp_path / "none"))


@pytest.mark.once
@pytest.mark.parametrize(
    "words",
    [
        ("preflight", "--json"),
        pytest.param(("topology",), marks=pytest.mark.slow),
        pytest.param(("counters", "--interval", "0"), marks=pytest.mark.slow),
    ],
    ids=["preflight", "topology", "counters"],
)
def test_a_command_runs_out_of_it_without_any_package_of_that_python(
    own: Archive, scratch: Path, words: tuple[str, ...]
) -> None:
    argv = command(sys.executable, own, words)
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdin
        assert child.stdout
        assert child.stderr
        child.stdin.write(own.data)
        child.stdin.flush()
        out, err = child.stdout.read(), child.stderr.read()
        code = child.wait(timeout=60)
    program = str(Path(sys.executable).with_name("rdmadiag"))
    alike = subprocess.run([program, *words], capture_output=True, check=False)
    assert (code, err) == (alike.returncode, alike.stderr)
    assert out[:15] == alike.stdout[:15]


@pytest.mark.slow
def test_nodes_answer_as_if_it_were_installed_there(fleet: Fleet, scratch: Path) -> None:
    what = Launch(("n1", "n2"), ("gids", "--device", "a b;$(id)"), Ssh())
    found = launch_copied(what, sys.executable, None)
    for answer in found.values():
        assert answer.ending is Ending.ANSWERED
        assert "a b;$(id)" in answer.stderr.decode() + answer.stdout.decode()
    assert len(fleet.log) == 4, "which Python is asked first"


@pytest.mark.slow
def test_each_way_that_a_copy_can_fail_is_named(fleet: Fleet, scratch: Path) -> None:
    old = '[[3, 9], "cpython-39-x86_64-linux-gnu", "x86_64", "linux"]'
    fleet.program(
        "python-of-node",
        "#!/bin/sh\ncase $NODE in\n"
        "n1) exit 127;;\n"
        f"n2) echo '{old}';;\n"
        "n3) echo Welcome;;\n"
        '*) case $3 in [0-9]*) exec python3 "$@" < /dev/null;; esac; exec python3 "$@";;\nesac\n',
    )
    nodes = ("n1", "n2", "n3", "n4")
    found = launch_copied(Launch(nodes, ("gids",), Ssh()), "python-of-node", None)
    assert {each.ending for each in found.values()} == {Ending.COPY_FAILED}
    whys = {node: each.why or "" for node, each in found.items()}
    assert whys["n1"].endswith("no python-of-node there")
    assert "Python 3.9" in whys["n2"]
    assert "rdmadiag needs 3.11" in whys["n2"]
    assert "is not what its Python is" in whys["n3"]
    assert "only 0 of" in whys["n4"]
    assert "is stdin passed on?" in whys["n4"]


def test_what_is_damaged_on_its_way_is_not_unpacked(own: Archive, scratch: Path) -> None:
    damaged = bytearray(own.data)
    damaged[len(damaged) // 2] ^= 1
    argv = command(sys.executable, own, ("gids",))
    done = subprocess.run(argv, input=bytes(damaged), capture_output=True, check=False)
    assert done.returncode == copy.FAILED
    assert done.stderr == copy.OURS + b"what arrived is not what was sent\n"


def test_an_archive_with_a_way_out_of_its_folder_is_not_unpacked(scratch: Path) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as members:
        members.addfile(tarfile.TarInfo("../out"))
    sent = Archive(made.getvalue())
    argv = command(sys.executable, sent, ("gids",))
    done = subprocess.run(argv, input=sent.data, capture_output=True, check=False)
    assert done.returncode == copy.FAILED
    assert b"'../out' in the archive" in done.stderr


@pytest.mark.once
@linux
@pytest.mark.parametrize("how", ["stdin ends", "SIGHUP", "SIGTERM"])
def test_it_ends_and_its_folder_goes_when_ssh_is_lost(scratch: Path, how: str) -> None:
    word = f"rdmadiag-copied-{os.getpid()}"
    code = f"import time\ndef main():\n    print(1, flush=True)\n    time.sleep(60)  # {word}\n"
    sent = packed(code)
    argv = command(sys.executable, sent, (word,))
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin
        assert child.stdout
        child.stdin.write(sent.data)
        child.stdin.flush()
        assert child.stdout.readline() == b"1\n"
        (folder,) = scratch.iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
        assert (folder / "rdmadiag" / "__main__.py").stat().st_mode & 0o077 == 0
        begun = time.monotonic()
        if how == "stdin ends":
            child.stdin.close()
        else:
            os.kill(child.pid, signal.Signals[how])
        child.wait(timeout=20)
        assert time.monotonic() - begun < 10
    assert running(word) == []


@pytest.fixture
def handlers() -> Iterator[None]:
    """As they were, after the test."""
    numbers = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.once
@linux
@pytest.mark.usefixtures("handlers")
def test_a_signal_before_the_command_has_begun_is_not_lost(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = unpack_and_run.Ends()
    begun = []

    class Begins(unpack_and_run.Child):
        def __init__(self, argv: list[str], fed: bytes) -> None:
            os.kill(os.getpid(), signal.SIGHUP)
            super().__init__([sys.executable, "-c", "import time; time.sleep(60)"], fed)
            begun.append(self.process)

        def watch(self) -> None:
            """Stdin is the test's."""

    monkeypatch.setattr(unpack_and_run, "Child", Begins)
    assert unpack_and_run.run(str(scratch), [], b"", ends) == 128 + signal.SIGTERM
    assert [each.poll() for each in begun] == [-signal.SIGTERM]
    with pytest.raises(unpack_and_run.Failed, match="ended before it ran"):
        unpack_and_run.run(str(scratch), [], b"", ends)
    assert len(begun) == 1


def packed(main: str) -> Archive:
    """An rdmadiag that is this alone."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as members:
        for name, text in (("rdmadiag/__init__.py", ""), ("rdmadiag/__main__.py", main)):
            member = tarfile.TarInfo(name)
            member.size = len(text)
            members.addfile(member, io.BytesIO(text.encode()))
    return Archive(made.getvalue())


READS = """\
import select, sys
def main():
    line = sys.stdin.readline()
    ended = bool(select.select([0], [], [], 0.2)[0])
    print(sys.argv[1:], len(line), ended)
"""


@pytest.mark.once
@pytest.mark.parametrize("length", [1, 1 << 20], ids=["short", "longer than a pipe holds"])
def test_what_comes_behind_the_archive_is_for_the_command_whose_stdin_stays_open(
    scratch: Path, length: int
) -> None:
    sent = packed(READS)
    argv = command(sys.executable, sent, ("pingpong", "--job=n1"), length + 1)
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin
        assert child.stdout
        child.stdin.write(sent.data + b"x" * length + b"\n")
        child.stdin.flush()
        assert child.stdout.read().decode() == f"['pingpong', '--job=n1'] {length + 1} False\n"
        assert child.wait(timeout=20) == 0


@pytest.mark.once
def test_where_it_does_not_come_whole_nothing_is_run(scratch: Path) -> None:
    sent = packed(READS)
    argv = command(sys.executable, sent, (), 9)
    done = subprocess.run(argv, input=sent.data + b"line", capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (copy.FAILED, b"")
    assert done.stderr.startswith(copy.OURS + b"only 4 of 9 bytes arrived")


@pytest.mark.slow
def test_one_copy_for_nodes_of_several_pythons_has_what_each_needs(
    fleet: Fleet, scratch: Path, tmp_path: Path
) -> None:
    from importlib.metadata import version

    name = f"pydantic_core-{version('pydantic-core')}-cp312-cp312-manylinux_2_17_aarch64.whl"
    module = "pydantic_core/_pydantic_core.cpython-312-aarch64-linux-gnu.so"
    with zipfile.ZipFile(tmp_path / name, "w") as wheel:
        wheel.writestr(module, "elf")
    fleet.program(
        "python-of-node",
        "#!/bin/sh\ncase $NODE in\n"
        "n1) exit 127;;\n"
        """n2) echo '[[3, 12], "cpython-312-aarch64-linux-gnu", "aarch64", "linux"]';;\n"""
        """n3) echo '[[3, 13], "cpython-313-aarch64-linux-gnu", "aarch64", "linux"]';;\n"""
        '*) exec python3 "$@";;\nesac\n',
    )
    what = Launch(("n1", "n2", "n3", "n4"), ("gids",), Ssh(), fed=b"line\n", named=True)
    made, without = copy_for_all(what, "python-of-node", wheels_in(tmp_path))
    assert list(without) == ["n1", "n3"]
    assert "no python-of-node there" in (without["n1"].why or "")
    assert "needs pydantic-core" in (without["n3"].why or "")
    with tarfile.open(fileobj=io.BytesIO(made.sent.data)) as members:
        names = set(members.getnames())
    own = f"pydantic_core/_pydantic_core.{this_python().abi}.so"
    assert {module, own} <= names
    loop = "rdmadiag/verbs/_loop.so"
    is_here = (Path(copy.__file__).parents[2] / loop).exists()
    assert {each for each in names if each.startswith("rdmadiag/") and each.endswith(".so")} == (
        {loop} if is_here else set()
    )


def test_the_program_that_is_sent_is_one_plain_word_within_quotes() -> None:
    text = command("python3", Archive(b""), ())[2]
    assert text.isascii()
    assert not set(text) & set("'!\\$`\n")
