"""A job's bytes by TCP, and the netdevs that they left by."""

from collections.abc import Iterable, Mapping
from typing import Final

from rdmadiag.facts import Missing, NetDevFacts, Why
from rdmadiag.facts.job import JobSample, TcpSocket
from rdmadiag.frozen import dataclass


@dataclass(frozen=True, slots=True)
class TcpPath:
    """The job's connections that leave by one netdev."""

    netdev: str | Missing  # the one that has their local address
    within_host: bool  # both their ends are on this host: RDMA would not replace them
    connections: int
    interval_bytes: int | Missing  # sent and received in the interval
    total_bytes: int | Missing  # since they were opened


NOT_YET: Final = Missing(Why.NOT_COLLECTED, "one sample: nothing is compared")


def tcp_paths(
    before: JobSample | Missing,
    after: JobSample | Missing | None,
    netdevs: NetDevFacts | Missing,
) -> tuple[TcpPath, ...] | Missing:
    """One of each netdev, those within the host last; `after` is None of a single sample."""
    last = before if after is None else after
    if isinstance(last, Missing):
        return last
    if isinstance(last.sockets, Missing):
        return last.sockets
    if last.unread:
        pid, why = next(iter(last.unread.items()))
        return Missing(why.why, f"{len(last.unread)} of its processes, such as {pid}: {why.detail}")
    earlier: Mapping[int, TcpSocket] | Missing
    if after is None:
        earlier = NOT_YET
    elif isinstance(before, Missing) or isinstance(before.sockets, Missing):
        earlier = Missing(Why.NOT_COLLECTED, "the first sample failed")
    else:
        earlier = {each.inode: each for each in before.sockets}
    owners = _owners(netdevs)
    groups: dict[tuple[str | None, bool], list[TcpSocket]] = {}
    for each in last.sockets:
        netdev = owners.get(each.local)
        within = each.remote in owners or each.remote == each.local or _is_loopback(each.remote)
        groups.setdefault(("lo" if within else netdev, within), []).append(each)
    unknown = netdevs if isinstance(netdevs, Missing) else _NO_NETDEV
    paths = (
        TcpPath(
            netdev=unknown if name is None else name,
            within_host=within,
            connections=len(sockets),
            interval_bytes=total(_since(each, earlier) for each in sockets),
            total_bytes=total(_bytes(each) for each in sockets),
        )
        for (name, within), sockets in groups.items()
    )
    return tuple(sorted(paths, key=_place))


def _place(path: TcpPath) -> tuple[bool, str]:
    return path.within_host, "?" if isinstance(path.netdev, Missing) else path.netdev


_NO_NETDEV: Final = Missing(Why.ABSENT, "no netdev of this namespace has the local address")


def _owners(netdevs: NetDevFacts | Missing) -> dict[str, str]:
    return {
        address.address: netdev.name
        for netdev in (() if isinstance(netdevs, Missing) else netdevs.netdevs)
        for address in netdev.addresses
    }


def _is_loopback(address: str) -> bool:
    return address == "::1" or address.startswith("127.")


def _bytes(socket: TcpSocket) -> int | Missing:
    if isinstance(socket.sent, Missing):
        return socket.sent
    return (
        socket.received if isinstance(socket.received, Missing) else socket.sent + socket.received
    )


def _since(socket: TcpSocket, earlier: Mapping[int, TcpSocket] | Missing) -> int | Missing:
    """What it moved; of a connection that is new, all that it did.

    One that was closed meanwhile is not seen: what it moved is in no number.
    """
    if isinstance(earlier, Missing):
        return earlier
    now = _bytes(socket)
    first = earlier.get(socket.inode)
    then = 0 if first is None else _bytes(first)
    if isinstance(now, Missing):
        return now
    return then if isinstance(then, Missing) else max(0, now - then)


def total(values: Iterable[int | Missing]) -> int | Missing:
    """Their sum; the first that is not known where one is not."""
    found = 0
    for each in values:
        if isinstance(each, Missing):
            return each
        found += each
    return found


def bytes_by_tcp(tcp: tuple[TcpPath, ...] | Missing) -> int | Missing:
    """Of the interval, but for what stays on the host."""
    if isinstance(tcp, Missing):
        return tcp
    return total(each.interval_bytes for each in tcp if not each.within_host)
