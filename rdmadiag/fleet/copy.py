"""--copy: asks each node for its Python, and runs rdmadiag there from an archive that fits it."""

import base64
import os
import time
import zlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Final

from rdmadiag.fleet.archive import PROBE, Archive, NoArchive, Python, archive, python_of
from rdmadiag.fleet.launch import Launch, Seen, launch
from rdmadiag.fleet.node_answer import Ending, NodeAnswer

FAILED: Final = 125  # as in unpack_and_run.py
OURS: Final = b"rdmadiag-copy: "


def probe(python: str) -> tuple[str, ...]:
    """Which Python is there?"""
    return (python, "-c", PROBE)


def command(python: str, sent: Archive, arguments: Sequence[str]) -> tuple[str, ...]:
    """Reads the archive on stdin, and runs `rdmadiag ARGUMENTS` out of it."""
    return (python, "-c", _program(), str(len(sent.data)), sent.digest, *arguments)


@cache
def _program() -> str:
    """No letter of it is one that a shell reads within quotes."""
    with open(os.path.join(os.path.dirname(__file__), "unpack_and_run.py"), "rb") as file:
        text = base64.b64encode(zlib.compress(file.read(), 9)).decode()
    return f'import base64,zlib;exec(zlib.decompress(base64.b64decode("{text}")))'


def launch_copied(
    what: Launch, python: str, wheels: str | None, seen: Seen | None = None
) -> dict[str, NodeAnswer]:
    """As `launch` of `rdmadiag WORD…`, the command of `what`, from an archive for each Python.

    Raises what `launch` raises.
    """
    until = time.monotonic() + what.deadline
    probed = launch(replace(what, command=probe(python)), seen)
    answers, alike = {}, dict[Python, list[str]]()
    for node, answer in probed.items():
        found = python_of(answer.stdout) if answer.ending is Ending.ANSWERED else None
        if found is not None:
            alike.setdefault(found, []).append(node)
        else:
            answers[node] = _no_python(answer, python)
    for kind, nodes in alike.items():
        try:
            made = archive(kind, wheels)
        except NoArchive as error:
            said = str(error).encode()
            for node in nodes:
                answers[node] = NodeAnswer(node, Ending.COPY_FAILED, None, b"", said)
            continue
        there = replace(
            what,
            nodes=tuple(nodes),
            command=command(python, made, what.command),
            fed=made.data,
            deadline=max(0.0, until - time.monotonic()),
        )
        for node, answer in launch(there, seen).items():
            answers[node] = _ended(answer)
    return {node: answers[node] for node in what.nodes}


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
