"""Runs the sources side by side under one deadline. Never judges, never retries."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any, Final

from rdmadiag.facts import Missing, NetDevFacts, present
from rdmadiag.host import Host
from rdmadiag.in_turn import runner
from rdmadiag.preflight.evidence import (
    LINUX_ONLY,
    LINUX_SOURCES,
    MACOS_ONLY,
    MACOS_SOURCES,
    NOT_COLLECTED,
    Evidence,
)


@dataclass(frozen=True, slots=True)
class Depth:
    """How far sources look that could look for ever; None is the source's own default."""

    log_last: str | None = None  # how far back in the log: "1m", "2h"
    log_lines: int | None = None
    pid: int | None = None  # whose limits to read, and its ancestors'; None: our parent's
    gid_rows: int | None = None  # of each port, where each one costs a call of the library


# Readers import their source when they run: a command pays only for what it reads.
def _sysfs(host: Host, deadline: float, depth: Depth) -> Any:
    from rdmadiag.sources.sysfs import read_sysfs

    return read_sysfs(host)


def _nldev(host: Host, deadline: float, depth: Depth) -> Any:
    from rdmadiag.sources.nldev import read_nldev

    return read_nldev(host, deadline)


def _netdev(host: Host, deadline: float, depth: Depth) -> Any:
    from rdmadiag.sources.netdev import read_netdevs

    return read_netdevs(host, deadline)


def _process(host: Host, deadline: float, depth: Depth) -> Any:
    from rdmadiag.sources.process import read_process

    return read_process(host)


def _system(host: Host, deadline: float, depth: Depth) -> Any:
    from rdmadiag.sources.system import read_system

    return read_system(host, depth.pid)


def _verbs(host: Host, deadline: float, depth: Depth) -> Any:
    from rdmadiag.gid.scan import MAX_ROUTE_GID_SCAN
    from rdmadiag.sources.verbs import read_verbs

    rows = MAX_ROUTE_GID_SCAN if depth.gid_rows is None else depth.gid_rows
    return read_verbs(host, deadline, rows)


def _macos(host: Host, deadline: float, depth: Depth) -> Any:
    from rdmadiag.sources.macos import read_macos

    return read_macos(host, deadline)


def _ioreg(host: Host, deadline: float, depth: Depth) -> Any:
    from rdmadiag.sources.ioreg import read_ioreg

    return read_ioreg(host, deadline)


def _thunderbolt(host: Host, deadline: float, depth: Depth) -> Any:
    from rdmadiag.sources.thunderbolt import read_thunderbolt

    return read_thunderbolt(host, deadline)


def _mac_network(host: Host, deadline: float, depth: Depth) -> Any:
    from rdmadiag.sources.mac_network import read_mac_network

    return read_mac_network(host, deadline)


def _mac_log(host: Host, deadline: float, depth: Depth) -> Any:
    from rdmadiag.sources import mac_log

    lines = mac_log.LINES if depth.log_lines is None else depth.log_lines
    return mac_log.read_mac_log(host, deadline, depth.log_last or mac_log.LAST, lines)


def _kernel_log(host: Host, deadline: float, depth: Depth) -> Any:
    from rdmadiag.sources import kernel_log

    lines = kernel_log.LINES if depth.log_lines is None else depth.log_lines
    return kernel_log.read_kernel_log(host, deadline, depth.log_last or kernel_log.LAST, lines)


READERS: Final[dict[str, Callable[[Host, float, Depth], Any]]] = {
    "sysfs": _sysfs,
    "nldev": _nldev,
    "netdev": _netdev,
    "process": _process,
    "system": _system,
    "verbs": _verbs,
    "kernel_log": _kernel_log,
    "macos": _macos,
    "ioreg": _ioreg,
    "thunderbolt": _thunderbolt,
    "mac_network": _mac_network,
    "mac_log": _mac_log,
}
"""Every source by name."""

_DEAR: Final = {"nldev": "rdmadiag.sources.nldev", "netdev": "rdmadiag.sources.netdev"}
"""Imported before the fork: both need pyroute2, which costs more than all of their work."""

_LAST: Final = ("mac_log",)
"""After the others: a driver that is at rest logs nothing, and the verbs query, which
opens and closes a context, is what makes a healthy one speak."""

_CHEAP: Final = ("sysfs", "process")

_AROUND: Final = ("system", "kernel_log")
"""What surrounds devices: rules want it, a list of devices does not."""


def sources_of(platform: str) -> tuple[str, ...]:
    """The sources that a system has."""
    return MACOS_SOURCES if platform == "darwin" else LINUX_SOURCES


def cheap_sources(platform: str) -> tuple[str, ...]:
    """Enough for GID tables: on Linux text files alone, no netlink; on a Mac there is verbs."""
    return ("verbs",) if platform == "darwin" else _CHEAP


def device_sources(platform: str) -> tuple[str, ...]:
    """All that tell which devices there are, and why one is not."""
    return tuple(name for name in sources_of(platform) if name not in _AROUND)


def gather(
    host: Host,
    deadline: float,
    sources: Collection[str] | None = None,
    depth: Depth = Depth(),  # frozen
    waiting_for: Callable[[Collection[str]], None] | None = None,
    meanwhile: Callable[[], object] | None = None,
) -> Evidence:
    """The evidence of `sources`, all that the host's system has by default.

    `deadline` is absolute on `time.monotonic`'s clock; a source that has given nothing
    by then is a Missing, and the rest is whole. `waiting_for` hears each second of those
    that have not answered; `meanwhile` is called once, while the first ones work.
    """
    own = sources_of(host.identity.platform)
    wanted = [name for name in own if sources is None or name in sources]
    lacking = unavailable(host)
    answers: dict[str, Any] = {name: lacking[name] for name in wanted if name in lacking}
    for group, limit in in_order((n for n in wanted if n not in answers), deadline):
        running = runner(can_hang=host.can_hang)
        for name in group:
            if name in _DEAR:
                import_module(_DEAR[name])
            running.start(name, partial(READERS[name], host, hand_over(limit), depth))
        if meanwhile:
            meanwhile()
            meanwhile = None
        answers |= running.collect(limit, waiting_for)
    if "netdev" in answers:
        answers["netdev"] = _named(answers["netdev"], answers)
    return Evidence(**_of_other_systems(own) | answers)


def in_order(names: Iterable[str], deadline: float) -> Iterator[tuple[tuple[str, ...], float]]:
    """The groups of sources that run side by side, one after the other, and their deadlines.

    A provider that hangs must not eat the time of those that come after it.
    """
    every = tuple(names)
    first = tuple(name for name in every if name not in _LAST)
    last = tuple(name for name in every if name in _LAST)
    if first:
        kept = min(_KEPT_SECONDS, _KEPT_SHARE * max(0.0, deadline - time.monotonic()))
        yield first, deadline - kept if last else deadline
    if last:
        yield last, deadline


def hand_over(limit: float) -> float:
    """When a source should stop waiting, so that what it has by then still reaches us."""
    return limit - min(_HAND_OVER_SECONDS, 0.1 * max(0.0, limit - time.monotonic()))


_HAND_OVER_SECONDS: Final = 0.3
_KEPT_SECONDS: Final = 5.0
_KEPT_SHARE: Final = 0.3


def unavailable(host: Host) -> dict[str, Missing]:
    """The sources that this host cannot answer, and why."""
    if host.identity.platform == "unknown":
        return dict.fromkeys(LINUX_SOURCES, LINUX_ONLY) | dict(host.lacks)
    return dict(host.lacks)


def _of_other_systems(own: Collection[str]) -> dict[str, Missing]:
    foreign = {name: MACOS_ONLY for name in MACOS_SOURCES if name not in own}
    foreign |= {name: LINUX_ONLY for name in LINUX_SOURCES if name not in own}
    return foreign


def _named(netdevs: NetDevFacts | Missing, answers: dict[str, Any]) -> NetDevFacts | Missing:
    """The netdevs that RDMA devices refer to, and the ones above and below those."""
    if isinstance(netdevs, Missing):
        return netdevs
    names = set()
    if not isinstance(sysfs := answers.get("sysfs", NOT_COLLECTED), Missing):
        names |= {netdev.name for netdev in sysfs.netdevs}
        names |= {str(device.parent) for device in present(sysfs.devices)}
    if not isinstance(nldev := answers.get("nldev", NOT_COLLECTED), Missing):
        names |= {str(port.netdev) for device in nldev.devices for port in present(device.ports)}
    for netdev in netdevs.netdevs:
        if netdev.name in names:
            names |= {str(netdev.master), str(netdev.lower)}
    return replace(netdevs, netdevs=tuple(each for each in netdevs.netdevs if each.name in names))
