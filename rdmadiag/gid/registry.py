"""Every stack that is known: a file in `stacks/` with STACKS in it is one more.

They are imported where they are needed: `gids` alone needs none of them but x_rdma.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from rdmadiag.gid import stacks as folder
from rdmadiag.gid.stack import Stack, Version
from rdmadiag.nearest import instead

Chosen = tuple[Stack, Version]


class NoSuchStack(ValueError):
    """A name or a version that is not known; the message lists what there is."""


@cache
def stacks() -> dict[str, Stack]:
    """Name → stack, by name."""
    found: dict[str, Stack] = {}
    for name in files():
        found |= {stack.name: stack for stack in of_file(name)}
    return dict(sorted(found.items()))


def files() -> tuple[str, ...]:
    """The names of the files of the folder."""
    return tuple(module.name for module in iter_modules(folder.__path__))


def of_file(name: str) -> tuple[Stack, ...]:
    """The stacks of one file, whose docstring is their rule."""
    made: tuple[Stack, ...] = import_module(f"{folder.__name__}.{name}").STACKS
    return made


def every() -> tuple[Chosen, ...]:
    """All stacks in all ranges of their versions."""
    return tuple((stack, version) for stack in stacks().values() for version in stack.versions)


def chosen(names: Sequence[str]) -> tuple[Chosen, ...]:
    """What NAME[@VERSION] means, each; all there is without any. Raises NoSuchStack.

    A name stands for those that begin with it, too: libfabric is libfabric-dgram,
    libfabric-msg and libfabric-psm3.
    """
    if not names:
        return every()
    found = (pair for text in names for pair in _named(text))
    return tuple(dict.fromkeys(found))


def _named(text: str) -> Iterable[Chosen]:
    name, at, version = text.strip().partition("@")
    wanted = _ALIASES.get(name.lower().replace("_", "-"), name.lower().replace("_", "-"))
    family = [
        stack
        for stack in stacks().values()
        if stack.name == wanted or stack.name.startswith(f"{wanted}-")
    ]
    if not family or not wanted:
        raise NoSuchStack(f"no stack {name!r}; {instead(name, stacks())}")
    if not at:
        return [(stack, each) for stack in family for each in stack.versions]
    matching = [
        (stack, each) for stack in family for each in stack.versions if each.holds_for(version)
    ]
    if not matching:
        ranges = ", ".join(each.name for stack in family for each in stack.versions)
        raise NoSuchStack(f"no rule for version {version!r} of {name}; there are: {ranges}")
    return matching


_ALIASES: Final = {
    "gdaki": "gin",
    "ib-send-lat": "perftest",
    "ib-write-bw": "perftest",
    "ibv-rc-pingpong": "rc-pingpong",
    "llama.cpp": "llama-rpc",
    "mlx": "jaccl",
    "ompi": "openmpi",
    "open-mpi": "openmpi",
    "psm3": "libfabric-psm3",
    "rdma-cm": "rdmacm",
    "librdmacm": "rdmacm",
}
