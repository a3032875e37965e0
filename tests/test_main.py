"""rdmadiag.__main__: the exit code where hardly anything works any more."""

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
