"""rdmadiag.__main__: the exit code where hardly anything works any more."""

import ast
import subprocess
import sys

import pytest

CODE = """
import sys
from rdmadiag import __main__
import rdmadiag.cli

class Stream:
    def write(self, text):
        pass

    def flush(self):
        raise MemoryError

def run(argv):
    sys.stderr = Stream()
    {ending}

rdmadiag.cli.run = run
__main__.main()
"""


@pytest.mark.parametrize(
    ("ending", "code"), [("return 2", 2), ("raise MemoryError", 3), ("raise SystemExit(1)", 3)]
)
def test_the_verdict_s_code_or_unknown_and_never_the_interpreter_s_1(
    ending: str, code: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(ending=ending)],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (("preflight", "--profile", "k8s"), 1),
        (("preflight", "--profile=slurm"), 0),
        (("preflight", "--profile", "nagios"), 3),
        (("preflight",), 3),
        (("gids", "--profile", "k8s"), 3),
    ],
)
def test_where_the_failure_cannot_be_printed_either_the_code_is_the_profile_s(
    argv: tuple[str, ...], code: int
) -> None:
    """docs/exit_codes.md: what a profile has for what is no verdict."""
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(ending="raise MemoryError"), *argv],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code


LOADED = """
import os, sys
from rdmadiag import __main__

os._exit = lambda code: print(code, type(sys.modules["inspect"]).__name__, file=sys.stderr)
__main__.main()
{more}
"""


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="each dataclass needs it")
@pytest.mark.parametrize(
    "argv",
    [
        ("preflight", "--json", "--sample", "roce-healthy"),
        ("gids", "--sample", "roce-healthy"),
        ("--version",),
    ],
    ids=" ".join,
)
def test_a_command_executes_inspect_only_where_it_uses_it(argv: tuple[str, ...]) -> None:
    def said(more: str) -> str:
        command = [sys.executable, "-c", LOADED.format(more=more), *argv]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=True
        ).stderr.strip()

    assert said("") == "0 Deferred"
    used = "import inspect; print(inspect.cleandoc('x'), type(inspect).__name__, file=sys.stderr)"
    assert said(used).split("\n")[1:] == ["x module"]


def test_until_main_runs_nothing_is_loaded_in_which_a_ctrl_c_would_end_in_a_traceback() -> None:
    code = (
        "import sys; before = {*sys.modules}; import rdmadiag.__main__; "
        "print({*sys.modules} - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert set(ast.literal_eval(done.stdout)) <= {"rdmadiag", "rdmadiag.__main__", "gc"}
