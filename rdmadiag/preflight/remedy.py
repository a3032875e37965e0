"""Lines to paste: templates, as documentation prints them and as findings fill them in.

A template names what differs between hosts: `{netdev}`. What stands behind a colon is what
documentation prints instead of the name in capitals.

>>> documented("sudo ip link set dev {netdev} up   # on {node:uverbsN}")
'sudo ip link set dev NETDEV up   # on uverbsN'
>>> list(filled(["kill {pid}", "ls {file}"], {"pid": (7, 8), "file": "a b"}))
['kill 7', 'kill 8', "ls 'a b'"]
"""

from collections.abc import Iterable, Iterator, Mapping
from string import Formatter
from typing import Any

from rdmadiag.quoting import plain_comment, shell_word


class Verbatim(str):
    """Text of our own, or quoted already: it stands in a line as it is."""

    __slots__ = ()


def documented(template: str) -> str:
    """A template as documentation prints it."""
    return plain_comment(
        "".join(
            text + ("" if name is None else spec or name.upper())
            for text, name, spec, _ in Formatter().parse(template)
        )
    )


def filled(templates: Iterable[str], values: Mapping[str, Any]) -> Iterator[str]:
    """The lines, each value as one word for a shell.

    A value that is a tuple gives a line for each of its members, and none if it is empty;
    several tuples in one line go side by side. Raises KeyError for a name without a value.
    """
    for template in templates:
        parts = list(Formatter().parse(template))
        used = {name: values[name] for _, name, _, _ in parts if name is not None}
        lists = [value for value in used.values() if isinstance(value, tuple)]
        for at in range(min(map(len, lists), default=1)):
            line = (
                text + ("" if name is None else _word(used[name], at)) for text, name, _, _ in parts
            )
            yield plain_comment("".join(line))


def _word(value: Any, at: int) -> str:
    if isinstance(value, tuple):
        value = value[at]
    return value if isinstance(value, Verbatim) else shell_word(str(value))
