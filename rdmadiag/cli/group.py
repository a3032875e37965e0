"""A group of commands: one module each, imported when its command runs."""

import os
from collections.abc import Mapping
from typing import Any, Final

import click

from rdmadiag.cli.failure import CommandLine
from rdmadiag.cli.page import Page
from rdmadiag.nearest import instead

_ROOT: Final = "rdmadiag.cli"


class Group(Page, click.Group):
    """Imports a command's module only when the command is used.

    `rows`: name → its line in --help; the module of each is package.NAME, with its `command`.
    """

    def __init__(self, *args: Any, rows: Mapping[str, str], package: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.rows, self.package = rows, package

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.rows)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.rows:
            return None
        from importlib import import_module

        path = f"{self.package}.{cmd_name}"
        command: click.Command = import_module(path).command
        _name_variables(command, path.removeprefix(f"{_ROOT}."))
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Names of commands without importing their modules, and the group's own options."""
        from click.shell_completion import CompletionItem

        named = [
            CompletionItem(name, help=line)
            for name, line in self.rows.items()
            if name.startswith(incomplete)
        ]
        return named + click.Command.shell_complete(self, ctx, incomplete)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Commands first: options of the group are few."""
        self.format_commands(ctx, formatter)
        Page.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Their names and lines, without importing their modules."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.rows.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            name, command, rest = super().resolve_command(ctx, args)
        except click.UsageError as error:
            raise click.UsageError(
                f"no command {args[0]!r}; {instead(args[0], self.rows)}", ctx
            ) from error
        line: CommandLine = ctx.obj
        line.command, line.arguments = command, tuple(rest)
        return name, command, rest

    def every(self, prefix: str = "") -> dict[str, str]:
        """Its commands and those of groups in it, "fleet merge": their lines. Imports all."""
        found = {}
        for name, line in self.rows.items():
            found[f"{prefix}{name}"] = line
            command = self.get_command(click.Context(self), name)
            if isinstance(command, Group):
                found |= command.every(f"{prefix}{name} ")
        return found


def find(group: Group, words: tuple[str, ...]) -> click.Context:
    """The context of the command that `words` name, as its help needs it; raises UsageError."""
    context = click.Context(group, info_name="rdmadiag", **group.context_settings)
    for word in words:
        within = context.command
        rows = within.rows if isinstance(within, Group) else {}
        found = within.get_command(context, word) if isinstance(within, Group) else None
        if found is None:
            raise click.UsageError(
                f"no command {word!r}; {instead(word, rows)}"
                if rows
                else f"{context.command_path} has no commands"
            )
        context = click.Context(found, info_name=word, parent=context)
    return context


def _name_variables(command: click.Command, path: str) -> None:
    """RDMADIAG_COMMAND_OPTION by an option's long name, where its argument has another one."""
    if isinstance(command, Group):
        return
    for option in command.params:
        if isinstance(option, click.Option) and option.allow_from_autoenv:
            long = next(each for each in option.opts if each.startswith("--")).removeprefix("--")
            option.envvar = f"RDMADIAG_{path}_{long}".replace("-", "_").replace(".", "_").upper()


def give_defaults(context: click.Context) -> None:
    """What the configuration file says of the command that is about to run. Raises Refused."""
    line: CommandLine = context.obj
    name, command = context.invoked_subcommand, line.command
    if command is None or name is None or isinstance(command, Group):
        return  # a group within gives them to its own
    if "--help" in line.arguments or "-h" in line.arguments:
        return
    from rdmadiag.cli.config import config_path, defaults, read_config

    root = context.find_root().command
    assert isinstance(root, Group)
    file = read_config(config_path(os.environ), root.rows)
    if file is not None:
        path = (*context.command_path.split()[1:], name)
        assert isinstance(context.command, Group)
        line.defaults = defaults(file, command, path, context.command.rows)
        context.default_map = {name: line.defaults}
