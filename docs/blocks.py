"""Command blocks of a page: each is run when the site is built, or says what it would need.

    ```console exit="2" lines="20"
    $ rdmadiag preflight --sample mac-wedged
    ```

Lines that begin with "$ " are run by bash, one after the other, in a folder of the page's own; on
the site each is a block to copy, and what it prints another one below it. `exit` is the code that
the last one must end with, 0 without it; `lines` keeps that many lines of each output. A block
with `needs="two RDMA hosts"` is shown and not run.

Other lines of a block are what its commands print, for who reads the page in a checkout; `make
docs` writes them anew. A block without any has them on the site alone.
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

_COMMANDS: Final = "console"
_NO_COMMANDS: Final = frozenset(
    {"bash", "dockerfile", "ini", "json", "python", "text", "toml", "yaml"}
)
"""`bash` is a file to install, `python` is run by a test of its page."""


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
    printed: bool  # it has what the commands print


def blocks(page: str, text: str) -> Iterator[Block]:
    """The command blocks of a page.

    Raises BlockFailed for one that is neither run nor marked, such as a block of `sh` or of no
    language.
    """
    for found in _FENCE.finditer(text):
        if found[1] == _COMMANDS:
            yield _block(page, found)
        elif found[1] not in _NO_COMMANDS:
            raise BlockFailed(f"{page}: a block of {found[1] or 'no language'}: {found[3]!r}")


def with_output(page: str, text: str) -> str:
    """The page with each block's output below its commands, as on the site; raises BlockFailed."""
    with tempfile.TemporaryDirectory(prefix="rdmadiag-site-") as folder:

        def printed(found: re.Match[str]) -> str:
            if found[1] != _COMMANDS:
                return found[0]
            block = _block(page, found)
            ran = _as_written(found[3]) if block.needs else _run(block, folder)
            return "\n\n".join(_fences(ran))

        return _FENCE.sub(printed, text)


def printed_anew(page: str, text: str) -> str:
    """The page with what its blocks print as it is now, where they have it; raises BlockFailed."""
    found = [_block(page, each) for each in _FENCE.finditer(text) if each[1] == _COMMANDS]
    if not any(block.printed and not block.needs for block in found):
        return text
    with tempfile.TemporaryDirectory(prefix="rdmadiag-docs-") as folder:

        def printed(found: re.Match[str]) -> str:
            if found[1] != _COMMANDS:
                return found[0]
            block = _block(page, found)
            if block.needs:
                return found[0]
            ran = list(_run(block, folder))  # of others too: a later one may need their files
            if not block.printed:
                return found[0]
            lines = [line for command, out in ran for line in (f"{_PROMPT}{command}", *out)]
            return "\n".join((f"```{_COMMANDS}{found[2]}", *lines, "```"))

        return _FENCE.sub(printed, text)


def _block(page: str, found: re.Match[str]) -> Block:
    options = dict(_OPTION.findall(found[2]))
    written = found[3].splitlines()
    commands = tuple(command for command, _ in _as_written(found[3]))
    unknown = set(options) - {"exit", "lines", "needs"}
    if unknown or not commands or not written[0].startswith(_PROMPT):
        raise BlockFailed(f"{page}: {found[0]!r}: no command, or no such option {unknown}")
    lines = options.get("lines")
    kept = None if lines is None else int(lines)
    return Block(
        page,
        commands,
        int(options.get("exit", "0")),
        kept,
        options.get("needs"),
        printed=len(commands) < len(written),
    )


def _as_written(text: str) -> list[tuple[str, list[str]]]:
    """Each command with the lines below it."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith(_PROMPT):
            found.append((line.removeprefix(_PROMPT), []))
        elif found:
            found[-1][1].append(line)
    return found


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
        "PYTHONPATH": str(Path(__file__).parents[1]),
        "LC_ALL": "C.UTF-8",
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder / ".none"),
        "COLUMNS": "80",
        "NO_COLOR": "1",
    }
