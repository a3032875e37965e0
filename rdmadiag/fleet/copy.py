"""--copy: asks each node for its Python, and runs rdmadiag there from an archive that fits it."""

import base64
import os
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from rdmadiag.fleet.archive import (
    PROBE,
    Archive,
    Python,
    archive,
    archive_of,
    compiled,
    python_of,
)
from rdmadiag.fleet.launch import Launch, Seen, launch
from rdmadiag.fleet.node_answer import Ending, NodeAnswer
from rdmadiag.fleet.wheels import NoArchive, Wheels

FAILED: Final = 125  # as in unpack_and_run.py
OURS: Final = b"rdmadiag-copy: "


def probe(python: str) -> tuple[str, ...]:
    """Which Python is there?"""
    return (python, "-c", PROBE)


def command(python: str, sent: Archive, arguments: Sequence[str], fed: int = 0) -> tuple[str, ...]:
    """Reads the archive on stdin, and runs `rdmadiag ARGUMENTS` out of it.

    `fed`: so many bytes come behind the archive, for the stdin of that.
    """
    size = str(len(sent.data))
    return (python, "-c", _program(), size, sent.digest, str(fed), *arguments)


@cache
def _program() -> str:
    """No letter of it is one that a shell reads within quotes."""
    with open(os.path.join(os.path.dirname(__file__), "unpack_and_run.py"), "rb") as file:
        text = base64.b64encode(zlib.compress(file.read(), 9)).decode()
    return f'import base64,zlib;exec(zlib.decompress(base64.b64decode("{text}")))'


@dataclass(frozen=True, slots=True)
class Copy:
    """What is sent in each launch."""

    python: str
    sent: Archive

    def launch(self, what: Launch, seen: Seen | None = None) -> dict[str, NodeAnswer]:
        """As `launch` of `rdmadiag WORD…`, the command of `what`; raises what that raises."""
        fed = what.fed or b""
        there = replace(
            what,
            command=command(self.python, self.sent, what.command, len(fed)),
            fed=self.sent.data + fed,
        )
        return {node: _ended(answer) for node, answer in launch(there, seen).items()}


def launch_copied(
    what: Launch, python: str, wheels: Wheels | None, seen: Seen | None = None
) -> dict[str, NodeAnswer]:
    """As `launch` of `rdmadiag WORD…`, the command of `what`, from an archive for each Python.

    Raises what `launch` raises.
    """
    until = time.monotonic() + what.deadline
    alike, answers = _pythons(what, python, seen)
    for kind, nodes in alike.items():
        try:
            made = archive(kind, wheels)
        except NoArchive as error:
            answers |= _without(nodes, error)
            continue
        left = max(0.0, until - time.monotonic())
        there = replace(what, nodes=tuple(nodes), deadline=left)
        answers |= Copy(python, made).launch(there, seen)
    return {node: answers[node] for node in what.nodes}


def copy_for_all(
    what: Launch, python: str, wheels: Wheels | None, seen: Seen | None = None
) -> tuple[Copy, dict[str, NodeAnswer]]:
    """One for many launches, as of attempts, which nodes of any Python begin together; and the
    answers of those nodes that it cannot be for. Raises what `launch` raises.
    """
    alike, answers = _pythons(what, python, seen)
    parts: list[Mapping[str, bytes]] = []
    for kind, nodes in alike.items():
        try:
            parts.append(compiled(kind, wheels))
        except NoArchive as error:
            answers |= _without(nodes, error)
    return Copy(python, archive_of(parts, timed=True)), answers


def _pythons(
    what: Launch, python: str, seen: Seen | None
) -> tuple[dict[Python, list[str]], dict[str, NodeAnswer]]:
    """The nodes of each Python, and what those answered that have none."""
    answers, alike = {}, dict[Python, list[str]]()
    probed = replace(what, command=probe(python), fed=None, named=False)
    for node, answer in launch(probed, seen).items():
        found = python_of(answer.stdout) if answer.ending is Ending.ANSWERED else None
        if found is not None:
            alike.setdefault(found, []).append(node)
        else:
            answers[node] = _no_python(answer, python)
    return alike, answers


def _without(nodes: Sequence[str], error: NoArchive) -> dict[str, NodeAnswer]:
    said = str(error).encode()
    return {node: NodeAnswer(node, Ending.COPY_FAILED, None, b"", said) for node in nodes}


def _no_python(answer: NodeAnswer, python: str) -> NodeAnswer:
    if answer.ending is Ending.NOT_INSTALLED:
        said = f"no {python} there".encode()
    elif answer.ending is Ending.ANSWERED:
        said = answer.stderr or b"what it printed is not what its Python is"
    else:
        return answer
    return replace(answer, ending=Ending.COPY_FAILED, stdout=b"", stderr=said)


def _ended(answer: NodeAnswer) -> NodeAnswer:
    """Whether it is the copy that failed there, and not the command."""
    last = answer.stderr.splitlines()[-1:]
    failed = answer.ending is Ending.ANSWERED and answer.code == FAILED
    if failed and last and last[0].startswith(OURS):
        return replace(answer, ending=Ending.COPY_FAILED, stderr=last[0].removeprefix(OURS))
    return answer
