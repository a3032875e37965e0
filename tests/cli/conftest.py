"""Running the command line in this process."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from rdmadiag.cli import run
from tests.schema.documents import dumped, kind_of, problems


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
    """`rdmadiag("gids", "--json")` → exit code, stdout, stderr.

    Whatever documents it prints, one or one a line, are held to their schema, and are what
    their model dumps.
    """

    def call(*argv: str) -> Outcome:
        capfd.readouterr()
        code = run(argv)
        outcome = Outcome(code, *capfd.readouterr())
        if outcome.out.startswith('{"schema_version"'):
            for line in outcome.out.splitlines():  # counters --watch prints one each
                document = json.loads(line)
                kind = kind_of(document)
                assert kind is not None
                assert problems(kind, document) == []
                assert json.loads(dumped(kind, line)) == document
        return outcome

    return call
