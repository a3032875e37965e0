"""Runs the sources side by side under one deadline. Never judges, never retries."""

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, Final

from rdmadiag.facts import Missing, NetDevFacts, Why, present
from rdmadiag.host import Host
from rdmadiag.isolation import SideBySide
from rdmadiag.preflight.evidence import NOT_COLLECTED, Evidence

_LINUX_ONLY: Final = Missing(Why.UNSUPPORTED, "Linux only")
_NO_VERBS_QUERY: Final = Missing(Why.NOT_COLLECTED, "this version does not query verbs")


# Readers import their source when they run: a command pays only for what it reads.
def _sysfs(host: Host, deadline: float) -> Any:
    from rdmadiag.sources.sysfs import read_sysfs

    return read_sysfs(host)


def _nldev(host: Host, deadline: float) -> Any:
    from rdmadiag.sources.nldev import read_nldev

    return read_nldev(host, deadline)


def _netdev(host: Host, deadline: float) -> Any:
    from rdmadiag.sources.netdev import read_netdevs

    return read_netdevs(host, deadline)


def _process(host: Host, deadline: float) -> Any:
    from rdmadiag.sources.process import read_process

    return read_process(host)


READERS: Final[dict[str, Callable[[Host, float], Any]]] = {
    "sysfs": _sysfs,
    "nldev": _nldev,
    "netdev": _netdev,
    "process": _process,
}
"""Every source by name."""

_DEAR: Final = {"nldev": "rdmadiag.sources.nldev", "netdev": "rdmadiag.sources.netdev"}
"""Imported before the fork: both need pyroute2, which costs more than all of their work."""

CHEAP: Final = ("sysfs", "process")
"""Enough for GID tables: text files alone, no netlink."""


def gather(host: Host, deadline: float, sources: Collection[str] = tuple(READERS)) -> Evidence:
    """The evidence of `sources`; each other one is not collected.

    `deadline` is absolute on `time.monotonic`'s clock; a source that has given nothing
    by then is a Missing, and the rest is whole.
    """
    lacking = unavailable(host)
    answers: dict[str, Any] = {name: lacking[name] for name in sources if name in lacking}
    running = SideBySide()
    for name in sources:
        if name not in answers:
            if name in _DEAR:
                import_module(_DEAR[name])
            running.start(name, partial(READERS[name], host, deadline))
    answers |= running.collect(deadline)
    answers["netdev"] = _named(answers.get("netdev", NOT_COLLECTED), answers)
    return Evidence(**answers, verbs=_NO_VERBS_QUERY)


def unavailable(host: Host) -> dict[str, Missing]:
    """The sources that this host cannot answer, and why."""
    if host.identity.platform != "linux":
        return dict.fromkeys(READERS, _LINUX_ONLY) | dict(host.lacks)
    return dict(host.lacks)


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
