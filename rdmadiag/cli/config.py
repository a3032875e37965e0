"""$XDG_CONFIG_HOME/rdmadiag/config.toml: defaults for options, below variables and flags.

    timeout = 10            # of every command that has it

    [preflight]
    fail-on = "critical"
    device = ["mlx5_0", "mlx5_1:1"]

    [fleet.merge]
    expect-hosts = "node[001-512]"

A key is an option's long name. What the file says of a command is looked at when that
command runs.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import click

from rdmadiag.cli.exits import Refused
from rdmadiag.frozen import dataclass

if TYPE_CHECKING:
    from rdmadiag.facts.toml_file import TomlFile

SHARED: Final = ("timeout", "format", "json", "device", "from", "sample", "quiet", "verbose")
"""Keys outside of a table: options that most commands have."""


def config_path(environment: Mapping[str, str]) -> str:
    """Where the file would be; the XDG specification has relative paths ignored."""
    home = environment.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(home):
        home = os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(home, "rdmadiag", "config.toml")


def is_there(path: str) -> bool:
    """Whether a file is at `path`; raises Refused where its file system does not answer.

    A home folder on a server that has gone would hold every command, unkillable.
    """
    from rdmadiag.host.mounts import on_local_disk

    if on_local_disk(path):
        return os.path.lexists(path)
    from rdmadiag.facts import Missing
    from rdmadiag.host.isolation import in_one_child

    try:
        found = in_one_child(path, lambda: os.path.lexists(path), time.monotonic() + _WAIT)
    except OSError:  # no child to be had
        return os.path.lexists(path)
    if isinstance(found, Missing):
        raise Refused(
            f"{path}: its file system gave no answer within {_WAIT:g} s; "
            "XDG_CONFIG_HOME=/nonexistent goes on without that file"
        )
    return bool(found)


_WAIT: Final = 3.0  # seconds


def read_config(path: str, commands: Mapping[str, object]) -> "TomlFile | None":
    """The file, whose tables are commands; None where there is none. Raises Refused."""
    if not is_there(path):
        return None
    from rdmadiag.facts.toml_file import TomlFileError
    from rdmadiag.host.toml_file import read_toml

    if os.geteuid() == 0:
        _require_roots(path)
    try:
        file = read_toml(path)
        for name, value in file.values.items():
            if isinstance(value, dict):
                if name not in commands:
                    file.refuse_name((name,), "command", commands)
            elif name in commands:
                file.refuse((name,), f"a table: [{name}]")
            elif name.replace("_", "-") not in SHARED:
                file.refuse_name((name,), "key outside of a table", SHARED)
    except TomlFileError as error:
        raise Refused(str(error)) from error
    return file


def _require_roots(path: str) -> None:
    """A configuration names files to write: of root's commands no other user may decide that."""
    from rdmadiag.host.trust import not_roots

    with suppress(OSError):  # read_toml says what that is
        if why := not_roots(path):
            raise Refused(
                f"{path}: root does not take it: {why}. As root, `sudo -H` takes root's own; or "
                "make the file, and each folder that it is in, root's: chown root, chmod go-w"
            )


def defaults(
    file: "TomlFile", command: click.Command, path: tuple[str, ...], among: Mapping[str, object]
) -> dict[str, Any]:
    """click's default map for the command at `path`, one of `among`.

    Raises Refused for keys and values that it cannot have.
    """
    from rdmadiag.facts.toml_file import TomlFileError

    options = {
        each.removeprefix("--"): option
        for option in command.params
        if isinstance(option, click.Option)
        for each in option.opts
        if each.startswith("--")
    }
    found: dict[str, Any] = {}
    context = click.Context(command, info_name=path[-1], auto_envvar_prefix=None)
    try:
        table = _table(file, path, among)
        _require_once(file, (), file.values)
        _require_once(file, path, table)
        for key, value in file.values.items():
            if not isinstance(value, dict) and (option := options.get(key.replace("_", "-"))):
                found[str(option.name)] = _value(file, (key,), option, value, context)
        for key, value in table.items():
            place = (*path, key)
            option = options.get(key.replace("_", "-"))
            if option is None:
                file.refuse_name(place, "key", options)
            if not option.allow_from_autoenv:
                file.refuse(place, "has to be passed on the command line, each time")
            found[str(option.name)] = _value(file, place, option, value, context)
    except TomlFileError as error:
        raise Refused(str(error)) from error
    return found


def _table(
    file: "TomlFile", path: tuple[str, ...], among: Mapping[str, object]
) -> Mapping[str, Any]:
    """What stands of one command; in the table of a group stand tables of its commands alone."""
    *groups, last = path
    table: Mapping[str, Any] = file.values
    for depth, group in enumerate(groups, 1):
        table = table.get(group, {})
        for name, value in table.items():
            if name not in among:
                file.refuse_name((*path[:depth], name), "command", among)
            if not isinstance(value, dict):
                file.refuse((*path[:depth], name), "expected a table")
    found: Mapping[str, Any] = table.get(last, {})
    return found


def _require_once(file: "TomlFile", path: tuple[str, ...], table: Mapping[str, Any]) -> None:
    """fail-on and fail_on are the same key."""
    seen: dict[str, str] = {}
    for key in table:
        first = seen.setdefault(key.replace("_", "-"), key)
        if first != key:
            file.refuse((*path, key), f"is there already, as {first}")


def _value(
    file: "TomlFile",
    path: tuple[str, ...],
    option: click.Option,
    value: Any,
    context: click.Context,
) -> Any:
    """The value, of the kind that the option takes."""
    kind = _kind(option)
    if not kind.fits(value):
        file.refuse(path, f"expected {kind.what}")
    if any("\0" in each for each in _texts(value)):
        file.refuse(path, "holds a NUL, as no path and no name can")
    try:
        kept = option.type_cast_value(context, value)
        if option.callback:
            option.callback(context, option, kept)
    except click.UsageError as error:
        file.refuse(path, error.message.rstrip("."))
    return value


def _texts(value: Any) -> Iterator[str]:
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, str):
            yield each


@dataclass(frozen=True, slots=True)
class _Kind:
    """What TOML has to give for an option."""

    what: str
    fits: Callable[[Any], bool]


_FLAG: Final = _Kind("true or false", lambda value: isinstance(value, bool))
_TEXT: Final = _Kind("a text", lambda value: isinstance(value, str))
_TEXTS: Final = _Kind(
    "a list of texts",
    lambda value: isinstance(value, list) and all(isinstance(each, str) for each in value),
)
_WHOLE: Final = _Kind(
    "a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool)
)
_NUMBER: Final = _Kind(
    "a number", lambda value: isinstance(value, int | float) and not isinstance(value, bool)
)


def _kind(option: click.Option) -> _Kind:
    if option.is_flag:
        return _FLAG
    if option.multiple:
        return _TEXTS
    if isinstance(option.type, click.types.IntParamType):
        return _WHOLE
    return _NUMBER if isinstance(option.type, click.types.FloatParamType) else _TEXT
