"""Runs sources side by side under one deadline. Never judges, never retries."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, Final

from rdmadiag.facts import Missing, NetDevFacts, Why, present
from rdmadiag.facts.evidence import (
    LINUX_ONLY,
    LINUX_SOURCES,
    MACOS_ONLY,
    MACOS_SOURCES,
    NOT_COLLECTED,
    Evidence,
)
from rdmadiag.host import Host
from rdmadiag.host.in_turn import InTurn, Tasks, Waiting
from rdmadiag.sources.table import BY_NAME, DEFAULT, Depth, Source


def sources_of(platform: str) -> tuple[str, ...]:
    """The sources of evidence that a system has."""
    return MACOS_SOURCES if platform == "darwin" else LINUX_SOURCES


def cheap_sources(platform: str) -> tuple[str, ...]:
    """Enough for GID tables: on Linux text files alone, no netlink; on a Mac there is verbs."""
    return tuple(name for name in sources_of(platform) if _row(platform, name).cheap)


def device_sources(platform: str) -> tuple[str, ...]:
    """All that show which devices there are, and why one is not."""
    return tuple(name for name in sources_of(platform) if not _row(platform, name).surrounds)


def _row(platform: str, name: str) -> Source:
    return BY_NAME["darwin" if platform == "darwin" else "linux", name]


NO_PYROUTE2: Final = Missing(Why.UNSUPPORTED, "pyroute2 is not installed: pip install pyroute2")
"""It decodes rtnetlink, and comes with the package on Linux alone."""


def read(name: str, host: Host, deadline: float, depth: Depth = DEFAULT) -> Any:
    """What one source finds, in this process; `deadline` is absolute."""
    row = BY_NAME[host.identity.platform, name]
    module, _, function = row.reader.partition(":")
    values = {each: deadline if each == "deadline" else getattr(depth, each) for each in row.takes}
    try:
        reader = getattr(import_module(f"rdmadiag.sources.{module}"), function)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyroute2":  # of Linux alone: pyproject.toml
            raise
        return NO_PYROUTE2
    return reader(host, **{each: value for each, value in values.items() if value is not None})


def run(
    host: Host,
    names: Iterable[str],
    deadline: float,
    depth: Depth = DEFAULT,
    waiting_for: Waiting | None = None,
    meanwhile: Callable[[], object] | None = None,
    through: Callable[..., Any] = read,
) -> dict[str, Any | Missing]:
    """What each source of `names` finds; a Missing for one that failed or was late.

    `deadline` is absolute on `time.monotonic`'s clock. `waiting_for` gets, each second, the
    names of those that have not answered; `meanwhile` is called once, while the first ones
    work. `through` is what is called with the arguments of `read`.
    """
    wanted = tuple(names)
    answers: dict[str, Any] = unavailable(host, wanted)
    for group, limit in _in_order((name for name in wanted if name not in answers), host, deadline):
        running = _tasks(host)
        for name in group:
            row = BY_NAME[host.identity.platform, name]
            if row.before_fork and host.can_hang:
                with suppress(ModuleNotFoundError):  # said by the source itself
                    import_module(f"rdmadiag.sources.{row.reader.partition(':')[0]}")
            running.start(name, partial(through, name, host, _hand_over(limit), depth))
        running.begin()
        if meanwhile:
            meanwhile()
            meanwhile = None
        answers |= running.collect(limit, waiting_for)
    return answers


def gather(
    host: Host,
    deadline: float,
    sources: Collection[str] | None = None,
    depth: Depth = DEFAULT,
    waiting_for: Waiting | None = None,
    meanwhile: Callable[[], object] | None = None,
) -> Evidence:
    """The evidence of `sources`, all that the host's system has by default; else as `run`."""
    own = sources_of(host.identity.platform)
    wanted = [name for name in own if sources is None or name in sources]
    wanted += _by_option(host.identity.platform, depth)
    answers = run(host, wanted, deadline, depth, waiting_for, meanwhile)
    if "netdev" in answers:
        answers["netdev"] = _named(answers["netdev"], answers)
    return Evidence(**_of_other_systems(own) | answers)


def _by_option(platform: str, depth: Depth) -> Iterator[str]:
    for (system, name), row in BY_NAME.items():
        if system == platform and row.only_with and getattr(depth, row.only_with) is not None:
            yield name


def _tasks(host: Host) -> Tasks:
    """Children that can be abandoned; this process for a host of ours that cannot hang."""
    if not (host.can_hang or host.given):
        return InTurn()
    from rdmadiag.host.isolation import MEMORY, InFewChildren, SideBySide

    if not host.can_hang:
        return InFewChildren(MEMORY)
    # On a Mac most sources wait for a command, which costs more than a fork.
    return InFewChildren() if host.identity.platform == "linux" else SideBySide()


def unavailable(host: Host, names: Collection[str]) -> dict[str, Missing]:
    """Of `names`, the sources that this host cannot answer, and why."""
    found = {name: LINUX_ONLY for name in names if (host.identity.platform, name) not in BY_NAME}
    return found | {name: why for name, why in host.lacks.items() if name in names}


def _in_order(
    names: Iterable[str], host: Host, deadline: float
) -> Iterator[tuple[tuple[str, ...], float]]:
    """The groups of sources that run side by side, one after the other, and their deadlines.

    A provider that hangs must not eat the time of those that come after it.
    """
    every = tuple(names)
    last = tuple(name for name in every if BY_NAME[host.identity.platform, name].last)
    first = tuple(name for name in every if name not in last)
    if first:
        kept = min(_KEPT_SECONDS, _KEPT_SHARE * max(0.0, deadline - time.monotonic()))
        yield first, deadline - kept if last else deadline
    if last:
        yield last, deadline


def _hand_over(limit: float) -> float:
    """When a source should stop waiting, so that what it has by then still reaches us."""
    return limit - min(_HAND_OVER_SECONDS, 0.1 * max(0.0, limit - time.monotonic()))


_HAND_OVER_SECONDS: Final = 0.3
_KEPT_SECONDS: Final = 5.0
_KEPT_SHARE: Final = 0.3


def _of_other_systems(own: Collection[str]) -> dict[str, Missing]:
    foreign = {name: MACOS_ONLY for name in MACOS_SOURCES if name not in own}
    foreign |= {name: LINUX_ONLY for name in LINUX_SOURCES if name not in own}
    return foreign


_IPOIB_ADDRESS: Final = 59  # characters of 20 bytes: RFC 4391, 9.1.1


def _named(netdevs: NetDevFacts | Missing, answers: dict[str, Any]) -> NetDevFacts | Missing:
    """The netdevs that RDMA devices refer to, those above and below, all legs of a bond, IPoIB."""
    if isinstance(netdevs, Missing):
        return netdevs
    names = set()
    if not isinstance(sysfs := answers.get("sysfs", NOT_COLLECTED), Missing):
        names |= {netdev.name for netdev in sysfs.netdevs}
        names |= {str(device.parent) for device in present(sysfs.devices)}
    if not isinstance(nldev := answers.get("nldev", NOT_COLLECTED), Missing):
        names |= {str(port.netdev) for device in nldev.devices for port in present(device.ports)}
    names |= {each.name for each in netdevs.netdevs if len(str(each.mac)) == _IPOIB_ADDRESS}
    for netdev in netdevs.netdevs:
        if netdev.name in names:
            names |= {str(netdev.master), str(netdev.lower)}
    bonds = {each.name for each in netdevs.netdevs if each.kind == "bond"} & names
    known = netdevs.bonds
    return replace(
        netdevs,
        netdevs=tuple(
            each for each in netdevs.netdevs if each.name in names or each.master in bonds
        ),
        bonds=(
            known
            if isinstance(known, Missing)
            else tuple(each for each in known if each.netdev in bonds)
        ),
    )
