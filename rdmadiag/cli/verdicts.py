"""Options by which a verdict becomes an exit code, and those that set its thresholds."""

from collections.abc import Mapping, Sequence
from typing import Final

import click

from rdmadiag.cli import exits, page
from rdmadiag.cli.exits import Refused
from rdmadiag.cli.options import Given
from rdmadiag.preflight.thresholds import DEFAULT, NoThreshold, Thresholds

fail_on_option: Final = page.option(
    "--fail-on",
    type=click.Choice(tuple(exits.FAILS_ON)),
    default="warn",
    show_default=True,
    help="The mildest status that gives an exit code other than 0.",
)
exit_zero_option: Final = page.option(
    "--exit-zero", is_flag=True, help="Exit 0 whatever the verdict."
)
threshold_option: Final = page.option(
    "--threshold",
    metavar="NAME=NUMBER",
    multiple=True,
    help="From which number on a rule reports. Can be repeated; a wrong name lists all of them.",
)

expect_option: Final = page.option(
    "--expect",
    type=Given(),
    metavar="FILE",
    help="An expectations file; its [thresholds] count here.",
)


def code_of(status: str, fail_on: str, exit_zero: bool) -> int:
    """The exit code of a verdict's status."""
    if exit_zero or status not in exits.FAILS_ON[fail_on]:
        return exits.OK
    return exits.OF_STATUS[status]


def thresholds(texts: Sequence[str], path: str | None, deadline: float) -> Thresholds:
    """The default ones with those of an expectations file, and with those of --threshold."""
    limits = DEFAULT.change(_expected(path, deadline).items()) if path is not None else DEFAULT
    try:
        return limits.change(_pair(text) for text in texts)
    except NoThreshold as error:
        raise Refused(f"--threshold: {error}") from error


def _expected(path: str, deadline: float) -> "Mapping[str, float]":
    from rdmadiag.facts.toml_file import TomlFileError
    from rdmadiag.host.toml_file import read_toml
    from rdmadiag.preflight.expectations.written import expectations

    try:
        return expectations(read_toml(path, deadline)).thresholds
    except TomlFileError as error:
        raise Refused(str(error)) from error


def _pair(text: str) -> tuple[str, float]:
    name, equals, number = text.partition("=")
    try:
        value = float(number) if equals else None
    except ValueError:
        value = None
    if value is None:
        raise Refused(f"--threshold {text!r} is not NAME=NUMBER")
    return name.strip(), value
