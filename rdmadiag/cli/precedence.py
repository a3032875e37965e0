"""Which of two options that exclude each other stays: the one from nearer the command line."""

from typing import Final, TypeVar

import click
from click.core import ParameterSource

_NEARNESS: Final = (
    ParameterSource.COMMANDLINE,
    ParameterSource.ENVIRONMENT,
    ParameterSource.DEFAULT_MAP,  # the configuration file
    ParameterSource.DEFAULT,
)

_Form = TypeVar("_Form", str, str | None)


def nearer(option: str, other: str) -> bool:
    """Whether `option` was given, and nearer the command line than `other` was."""
    sources = map(click.get_current_context().get_parameter_source, (option, other))
    first, second = (_NEARNESS.index(each or ParameterSource.DEFAULT) for each in sources)
    return first < second


def form_wanted(format: _Form, *, as_json: bool) -> _Form | str:  # noqa: A002
    """The form that --format and --json together want."""
    return "json" if as_json and not nearer("format", "as_json") else format
