"""Which notifications this host has, and joining them: RDMA netlink, uevents, rtnetlink, devlink
and the kernel's log.

What has to be queried first is queried in children under a deadline: a driver that hangs holds a
lock which the kernel takes for an answer.
"""

from collections.abc import Callable, Collection
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.evidence import NOT_COLLECTED
from rdmadiag.frozen import dataclass
from rdmadiag.host import Host, netlink
from rdmadiag.host.isolation import SideBySide
from rdmadiag.host.notifications import (
    NETLINK_KOBJECT_UEVENT,
    Subscription,
    follow_kernel_log,
    join,
)
from rdmadiag.sources.dump import dump
from rdmadiag.watch import devlink, rdma, route, uevent
from rdmadiag.watch.event import Source

ALL: Final = (Source.RDMA, Source.UEVENT, Source.ROUTE, Source.DEVLINK, Source.KERNEL)

_SILENT: Final = Missing(
    Why.UNSUPPORTED, "this kernel does not notify of RDMA devices: Linux 6.12 does"
)
_NOT_LOADED: Final = Missing(
    Why.ABSENT, "ib_core is not loaded; RDMA netlink was not opened, since that would load it"
)


@dataclass(frozen=True, slots=True)
class Joined:
    """What is listened to, and why the others are not."""

    sources: tuple[Subscription, ...]
    missing: dict[str, Missing]


def listen(host: Host, wanted: Collection[str], links: route.Links, deadline: float) -> Joined:
    """Joins what of `wanted` there is; `links` learns the netdevs of now.

    `deadline` is absolute on time.monotonic's clock.
    """
    sources: list[Subscription] = []
    missing: dict[str, Missing] = {}
    asked = _asked(host, wanted, deadline)
    for source in ALL:
        found = _open(source, asked) if source in wanted else NOT_COLLECTED
        if isinstance(found, Missing):
            missing[source] = found
        else:
            sources.append(found)
    if Source.ROUTE not in missing:
        # After its groups are joined: what changes in between comes twice, and is not missed.
        learnt = _answers({"links": lambda: _links(host, deadline)}, deadline)["links"]
        if isinstance(learnt, bytes):
            links.learn(learnt)
    return Joined(tuple(sources), missing)


_Task = Callable[[], object]


def _asked(host: Host, wanted: Collection[str], deadline: float) -> dict[str, object]:
    tasks: dict[str, _Task] = {}
    if Source.RDMA in wanted:
        tasks["rdma"] = lambda: _monitor(host, deadline)
    if Source.DEVLINK in wanted:
        tasks["devlink"] = lambda: _group(host, deadline)
    return _answers(tasks, deadline)


def _answers(tasks: dict[str, _Task], deadline: float) -> dict[str, object]:
    children = SideBySide()
    for name, task in tasks.items():
        children.start(name, task)
    return children.collect(deadline)


def _monitor(host: Host, deadline: float) -> bool | Missing:
    if isinstance(host.list("/sys/module/ib_core"), Missing) and isinstance(
        host.list("/sys/class/infiniband"), Missing
    ):
        return _NOT_LOADED
    reply = host.netlink("nldev-sys", netlink.NETLINK_RDMA, rdma.ASK, deadline)
    return reply if isinstance(reply, Missing) else rdma.parse_monitor_mode(reply)


def _group(host: Host, deadline: float) -> int | Missing:
    reply = dump(host, "genl-families", netlink.NETLINK_GENERIC, netlink.GET_FAMILIES, deadline)
    return reply if isinstance(reply, Missing) else devlink.parse_group(reply)


def _links(host: Host, deadline: float) -> bytes | Missing:
    return dump(host, "route-getlink", netlink.NETLINK_ROUTE, netlink.GET_LINKS, deadline)


def _open(source: Source, asked: dict[str, object]) -> Subscription | Missing:
    if source is Source.KERNEL:
        return follow_kernel_log(source)
    if source is Source.UEVENT:
        return join(source, NETLINK_KOBJECT_UEVENT, (uevent.GROUP,))
    if source is Source.ROUTE:
        return join(source, netlink.NETLINK_ROUTE, route.GROUPS)
    answer = asked[source]
    if isinstance(answer, Missing):
        return answer
    if source is Source.RDMA:
        return join(source, netlink.NETLINK_RDMA, (rdma.GROUP,)) if answer else _SILENT
    assert isinstance(answer, int)
    return join(source, netlink.NETLINK_GENERIC, (answer,))
