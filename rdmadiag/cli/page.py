"""What --help and a man page say of a command: its words, its options by purpose, examples."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

import click

from rdmadiag import __version__

Example = tuple[str, str]
"""What it is for, and the line to paste."""

OWN: Final = "Options"
SECTIONS: Final[dict[str, tuple[str, ...]]] = {
    "Which host": ("--from", "--sample", "--here", "--peer", "--device", "--exclude-device",
                   "--port", "--pid", "--env-from"),
    OWN: (),
    "Verdict and exit code": ("--expect", "--expect-devices", "--expect-active", "--expect-rate",
                              "--threshold", "--fail-on", "--exit-zero", "--profile"),
    "Output": ("--format", "--json", "--output", "--quiet", "--verbose"),
    "Time": ("--timeout", "--deadline", "--wait", "--interval", "--watch", "--count", "--log-last"),
    "Help": ("--version", "--help", "--debug"),
}  # fmt: skip
"""Heading → the long names of its options; what is in none is the command's own."""


class Option(click.Option):
    """An option whose help has no margin: click takes one off with `inspect`, 7 ms to load."""

    def __init__(self, *args: Any, help: str | None = None, **kwargs: Any) -> None:  # noqa: A002
        super().__init__(*args, **kwargs)
        self.help = help


option: Final = partial(click.option, cls=Option)


def _say_version(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        click.echo(f"rdmadiag {__version__}")
        context.exit()


def _say_help(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        click.echo(context.get_help(), color=context.color)
        context.exit()


_at_once: Final = partial(
    Option,
    is_flag=True,
    is_eager=True,
    expose_value=False,
    allow_from_autoenv=False,  # RDMADIAG_VERSION is what a script calls the one that it installs
)
_VERSION: Final = _at_once(
    ["-V", "--version"], callback=_say_version, help="Show the version and exit."
)
_HELP: Final = _at_once(["-h", "--help"], callback=_say_help, help="Show this message and exit.")


class Page(click.Command):
    """A command whose help has sections and examples; `examples` are lines to paste."""

    def __init__(self, *args: Any, examples: Iterable[Example] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The command's own, then --version and --help."""
        return [*self.params, _VERSION, _HELP]

    def get_help_option(self, ctx: click.Context) -> click.Option:
        """What a usage error refers to."""
        return _HELP

    def sections(self, ctx: click.Context) -> Iterator[tuple[str, list[tuple[str, str]]]]:
        """Heading → each option and what it does."""
        found: dict[str, list[tuple[str, str]]] = {name: [] for name in SECTIONS}
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx)
            if record and isinstance(option, click.Option):
                found[_section(option)].append(record)
        return ((name, records) for name, records in found.items() if records)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The sections."""
        for name, records in self.sections(ctx):
            with formatter.section(name):
                formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The examples, last: that is what stands above the prompt."""
        if self.examples:
            with formatter.section("Examples"):
                for purpose, line in self.examples:
                    formatter.write(f"  # {purpose}\n  {line}\n")


def _section(option: click.Option) -> str:
    return next((name for name, held in SECTIONS.items() if set(held) & set(option.opts)), OWN)
