"""Command blocks of a page: each is run when the site is built, or says what it would need.

    ```console exit="2" lines="20"
    $ rdmadiag preflight --sample mac-wedged
    ```

Lines that begin with "$ " are run by bash, one after the other, in a folder of the page's own; on
the site each is a block to copy, and what it prints another one below it. `exit` is the code that
the last one must end with, 0 without it; `lines` keeps that many lines of each output. A block
with `needs="two RDMA hosts"` is shown and not run.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from rdmadiag.frozen import dataclass

_FENCE: Final = re.compile(r"^```(\w*)([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_OPTION: Final = re.compile(r'(\w+)="([^"]*)"')
_PROMPT: Final = "$ "
_SECONDS: Final = 120.0


class BlockFailed(Exception):
    """A command that did not end as its page says; the message has the place and the output."""


@dataclass(frozen=True, slots=True)
class Block:
    """One command block."""

    page: str
    commands: tuple[str, ...]
    exit: int
    lines: int | None  # kept of each output; None: all
    needs: str | None  # why it is not run


def blocks(page: str, text: str) -> Iterator[Block]:
    """The command blocks of a page; raises BlockFailed for one that is neither run nor marked."""
    for found in _FENCE.finditer(text):
        if found[1] == "console":
            yield _block(page, found)


def _block(page: str, found: re.Match[str]) -> Block:
    options = dict(_OPTION.findall(found[2]))
    commands = tuple(
        line.removeprefix(_PROMPT) for line in found[3].splitlines() if line.startswith(_PROMPT)
    )
    unknown = set(options) - {"exit", "lines", "needs"}
    if unknown or not commands:
        raise BlockFailed(f"{page}: {found[0]!r}: no command, or no such option {unknown}")
    lines = options.get("lines")
    kept = None if lines is None else int(lines)
    return Block(page, commands, int(options.get("exit", "0")), kept, options.get("needs"))


def with_output(page: str, text: str) -> str:
    """The page with each block's output below its commands; raises BlockFailed."""
    with tempfile.TemporaryDirectory(prefix="rdmadiag-site-") as folder:

        def printed(found: re.Match[str]) -> str:
            if found[1] != "console":
                return found[0]
            block = _block(page, found)
            ran = _shown(block) if block.needs else _run(block, folder)
            return "\n\n".join(_fences(ran))

        return _FENCE.sub(printed, text)


def _fences(ran: Iterable[tuple[str, Sequence[str]]]) -> Iterator[str]:
    """Commands up to the first that prints something in one block, that in the next."""
    commands: list[str] = []
    for command, printed in ran:
        commands.append(command)
        if printed:
            yield "\n".join(("```sh", *commands, "```"))
            yield "\n".join(("```text", *printed, "```"))
            commands = []
    if commands:
        yield "\n".join(("```sh", *commands, "```"))


def _shown(block: Block) -> Iterator[tuple[str, Sequence[str]]]:
    return ((command, ()) for command in block.commands)


def _run(block: Block, folder: str) -> Iterator[tuple[str, Sequence[str]]]:
    """Each command with what it prints."""
    for number, command in enumerate(block.commands, start=1):
        done = subprocess.run(
            ["/bin/bash", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_SECONDS,
            check=False,
            cwd=folder,
            env=_environment(Path(folder)),
        )
        expected = block.exit if number == len(block.commands) else 0
        if done.returncode != expected:
            raise BlockFailed(
                f"{block.page}: $ {command}: exit {done.returncode}, not {expected}:\n{done.stdout}"
            )
        printed = [line.rstrip() for line in done.stdout.splitlines()]
        if block.lines is not None and len(printed) > block.lines:
            printed = [*printed[: block.lines], "…"]
        yield command, printed


def _environment(folder: Path) -> dict[str, str]:
    """A clean one, where `rdmadiag` is the one of this checkout."""
    program = folder / ".bin" / "rdmadiag"
    if not program.exists():
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m rdmadiag "$@"\n')
        program.chmod(0o755)
    return {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "LC_ALL": "C.UTF-8",
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder / ".none"),
        "COLUMNS": "80",
        "NO_COLOR": "1",
    }
