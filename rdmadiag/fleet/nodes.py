"""Names of nodes: which texts are one, sets of them folded and spread, whose host name is whose.

ClusterShell is given names that passed the grammar here and nothing else, always with
RESOLVER_NOGROUP: in its own language "@x" runs a program, and "a!b" is an operation.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, Final

from rdmadiag.quoting import printable, shell_word

MOST: Final = 1_000_000
"""Nodes of a set: a text of a few letters names more than any memory holds."""

_NAME: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9_])?")
_SET: Final = re.compile(r"[A-Za-z0-9._\[\],/-]+")
_RANGE: Final = re.compile(r"([0-9]{1,15})(?:-([0-9]{1,15})(?:/([0-9]{1,6}))?)?")
_SHOWN: Final = 100  # letters of a name that is none


class NotNodes(ValueError):
    """A text that is no set of nodes; the message is one line."""


class NoClusterShell(Exception):
    """ClusterShell is not installed."""


def is_name(text: str) -> bool:
    """Whether a text can be the name of a host: letters, digits, ".", "-" and "_" within."""
    return _NAME.fullmatch(text) is not None


def shown(name: str) -> str:
    """A name as one word; what is none within quotes, of which no set is made."""
    if is_name(name):
        return name
    word = shell_word(name[:_SHOWN])
    return word if "'" in word or "\\" in word else f"'{word}'"


def fold(names: Iterable[str]) -> str:
    """ "node[017,203]"; names outside of the grammar stand quoted behind."""
    every = set(names)
    plain = [name for name in every if is_name(name)]
    odd = sorted(map(shown, every.difference(plain)))
    return ",".join([*([_folded(plain)] if plain else ()), *odd])


def _folded(names: list[str]) -> str:
    if len(names) == 1:
        return names[0]
    nodeset, alone = _cluster_shell()
    return str(nodeset.fromlist(names, resolver=alone))


def spread(text: str) -> tuple[str, ...]:
    """Each node of a set, "node[001-512],login1", in the set's order; raises NotNodes."""
    if is_name(text):
        return (text,)
    if "@" in text:
        raise NotNodes(
            f"{shown(text)}: groups are not looked up here; `nodeset -f @group` prints their nodes"
        )
    if not _SET.fullmatch(text) or _size(text) > MOST:
        raise NotNodes(f"{shown(text)}: no set of at most {MOST} nodes, such as node[001-512]")
    nodeset, alone = _cluster_shell()
    from ClusterShell.NodeSet import NodeSetException
    from ClusterShell.RangeSet import RangeSetException

    try:
        found = tuple(nodeset(text, resolver=alone))
    except (NodeSetException, RangeSetException) as error:
        raise NotNodes(f"{shown(text)}: {printable(str(error))}") from error
    if not found or not all(map(is_name, found)):
        raise NotNodes(f"{shown(text)}: no set of nodes, such as node[001-512]")
    return found


def _size(text: str) -> int:
    """At least as many as the set has; more than MOST for what is no set."""
    whole = 0
    for each in re.split(r",(?![^\[]*\])", text):
        size = 1
        for inner in re.findall(r"\[([^\]]*)\]", each):
            size *= sum(map(_numbers, inner.split(",")))
        whole += size
    return whole


def _numbers(text: str) -> int:
    found = _RANGE.fullmatch(text)
    if not found:
        return MOST + 1
    first, last = int(found[1]), int(found[2] or found[1])
    return max(0, last - first) // max(1, int(found[3] or 1)) + 1


def _cluster_shell() -> tuple[Any, object]:
    try:
        from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet
    except ImportError as error:
        raise NoClusterShell(
            "sets of nodes need ClusterShell: pip install 'rdmadiag[fleet]'"
        ) from error
    return NodeSet, RESOLVER_NOGROUP


class Expected:
    """The nodes that ought to report, in their order."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(dict.fromkeys(names))
        self._every = frozenset(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._every

    @cached_property
    def _by_short(self) -> dict[str, str | None]:
        """Letters before the first dot → the node; None where several have them."""
        found: dict[str, str | None] = {}
        for name in self.names:
            short = name.partition(".")[0]
            found[short] = None if short in found else name
        return found

    def of_host(self, hostname: str) -> str | None:
        """The node whose host calls itself so, with or without its domain."""
        if hostname in self._every:
            return hostname
        short, _, domain = hostname.partition(".")
        found = self._by_short.get(short)
        if found is None or (domain and "." in found):  # two domains are two hosts
            return None
        return found
