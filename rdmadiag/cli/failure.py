"""How a command line that could not be followed ends: one line on stderr, and a document.

A program that reads JSON, and a monitor that knows four exit codes, want them of a failure
too.
"""

import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import click

from rdmadiag.cli import exits
from rdmadiag.cli.output import note, printing
from rdmadiag.quoting import printable


@dataclass
class CommandLine:
    """One command line, as far as it was followed."""

    command: click.Command | None = None
    arguments: Sequence[str] = ()  # behind the command's name, once that is known
    defaults: Mapping[str, Any] = field(default_factory=dict)  # of the configuration file
    start: float = field(default_factory=time.monotonic)  # every deadline counts from here


def failed(line: CommandLine, message: str, code: int) -> int:
    """Prints the failure in the form that the command line wants; the exit code."""
    message = printable(message)
    note(message)
    try:
        form, profile = _form_and_profile(line)
    except _SHORTAGE:
        form, profile = exits.PLAIN.form, _named(line.arguments)
    if profile is exits.PLAIN and form == "nagios":
        # Whoever reads that form takes every code but its four for a broken plugin.
        profile = exits.PROFILES["nagios"]
    if profile.failed is not None:
        code = profile.failed
    with suppress(exits.NotWritten, *_SHORTAGE), printing():
        if form == "json":
            from rdmadiag.render.json import write

            write({"error": {"message": message, "exit_code": code}})
        elif form == "nagios":
            from rdmadiag.render.nagios import failure

            sys.stdout.write(failure(message))
        elif form == "junit":
            from rdmadiag.render.junit import failure

            sys.stdout.write(failure(message))
        elif form == "github":
            from rdmadiag.render.github import failure

            sys.stdout.write(failure(message))
    return code


def _form_and_profile(line: CommandLine) -> tuple[str, exits.Profile]:
    """As click reads them where it passes over whatever is wrong with the command line."""
    if line.command is None:
        return exits.PLAIN.form, _named(line.arguments)
    from rdmadiag.cli.precedence import form_wanted

    context = line.command.make_context(
        line.command.name,
        list(line.arguments),
        resilient_parsing=True,
        ignore_unknown_options=True,
        allow_extra_args=True,
        default_map=line.defaults,
    )
    with context:
        found = context.params
        profile = exits.PROFILES.get(str(found.get("profile")), exits.PLAIN)
        form = form_wanted(found.get("format"), as_json=bool(found.get("as_json")))
    return form or profile.form, profile


def where_all_fails(arguments: Sequence[str]) -> int:
    """The code of a command that cannot even print its failure; known before it begins."""
    failed = _named(arguments).failed if "preflight" in arguments else None
    return exits.UNKNOWN if failed is None else failed


def _named(arguments: Sequence[str]) -> exits.Profile:
    """The profile of a command that there was too little memory to load."""
    name = os.environ.get("RDMADIAG_PREFLIGHT_PROFILE", "")
    for word, after in zip(arguments, (*arguments[1:], ""), strict=True):
        if word == "--profile":
            name = after
        if word.startswith("--profile="):
            name = word.partition("=")[2]
    return exits.PROFILES.get(name, exits.PLAIN)


_SHORTAGE: Final = (MemoryError, SystemError, ImportError, OSError)
"""What there is too little memory for, which the line on stderr has said by then."""
