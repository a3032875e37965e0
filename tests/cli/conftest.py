"""Running the command line in this process."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from rdmadiag.cli import run


class Outcome(NamedTuple):
    """What a command line came to."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The JSON on stdout."""
        return json.loads(self.out)


@pytest.fixture
def rdmadiag(capfd: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """`rdmadiag("gids", "--json")` → exit code, stdout, stderr."""

    def call(*argv: str) -> Outcome:
        capfd.readouterr()
        code = run(argv)
        return Outcome(code, *capfd.readouterr())

    return call
