"""Why two hosts did not meet over TCP, by the errno of the call that ended it; pure."""

from collections.abc import Iterable
from typing import Final

from rdmadiag.explain.causes import Known, Labels, all_stated
from rdmadiag.explain.remedies import LOCAL_NETWORK, Lines
from rdmadiag.facts.attempt import Attempt, Outcome
from rdmadiag.facts.errnos import errno_name

_LISTENING: Final = {
    "linux": "ss -tln   # at the listening end: is it there, and at which address and TCP port?",
    "darwin": (
        "netstat -an -p tcp | grep LISTEN   # at the listening end: which address and TCP port?"
    ),
}
_LISTENING_BY_CM: Final = (
    "rdma resource show cm_id   # at the listening end: is it there, and at which address and port?"
)
_FIREWALL: Final = "sudo nft list ruleset   # does a firewall drop that TCP port?"
_ADDRESSES: Final = {"linux": "ip -brief address", "darwin": "ifconfig | grep 'inet'"}
_ROUTE: Final = {"linux": "ip route get PEER", "darwin": "route -n get PEER"}
_NEIGHBOUR: Final = {"linux": "ip neigh show PEER", "darwin": "arp -an | grep -F '(PEER)'"}
_OTHER_ADDRESS: Final = "# an address of this host: give --listen one that it has"
_OTHER_PORT: Final = "# or another port: --listen ADDRESS:PORT, and PEER:PORT at the other end"

SILENCE: Final = ""
"""In place of an errno: no answer came, or nobody."""

CONNECTING: Final[dict[str, Labels]] = {
    SILENCE: ("firewall", "peer-address-wrong", "peer-host-down"),
    "ETIMEDOUT": ("firewall", "peer-address-wrong", "peer-host-down"),
    "ECONNREFUSED": ("peer-not-listening", "peer-address-wrong"),
    "ENETUNREACH": ("no-route",),
    # The neighbour gives no answer; a firewall that rejects with host-prohibited, as firewalld
    # does, gives the same number: icmp_err_convert, net/ipv4/icmp.c
    "EHOSTUNREACH": ("peer-unreachable", "peer-address-wrong", "firewall-rejects"),
    "EADDRNOTAVAIL": ("peer-address-wrong",),
}
_CONNECTING_ON_MAC: Final[dict[str, Labels]] = {
    "EHOSTUNREACH": ("local-network-privacy", "peer-unreachable"),
}
LISTENING: Final[dict[str, Labels]] = {
    SILENCE: ("peer-not-started", "peer-address-wrong", "firewall"),
    "EADDRNOTAVAIL": ("not-this-hosts-address",),
    "EADDRINUSE": ("tcp-port-taken",),
    "EACCES": ("tcp-port-privileged",),
}


def causes(attempt: Attempt) -> tuple[Known, ...]:
    """Of an attempt that ended as `no_peer`."""
    own: Labels = ("peer-is-own-address",) if attempt.peer_is_this_host else ()
    role = attempt.role or "connect"
    return all_stated((*own, *_labels(attempt)), role, Outcome.NO_PEER)


def _labels(attempt: Attempt) -> Labels:
    name = errno_name(attempt.errno, attempt.platform) if attempt.errno else SILENCE
    if attempt.role == "listen":
        return LISTENING.get(name, ())
    own = _CONNECTING_ON_MAC if attempt.platform == "darwin" else {}
    return own.get(name) or CONNECTING.get(name, ("peer-address-wrong",))


def remedy(attempt: Attempt) -> Lines:
    """Templates of what to look at."""
    platform, labels = attempt.platform, _labels(attempt)
    lines: list[str] = []
    if {"peer-not-listening", "peer-not-started", "firewall", "tcp-port-taken"} & {*labels}:
        lines.append(_LISTENING_BY_CM if attempt.connection else _LISTENING[platform])
    if {"no-route", "peer-unreachable"} & {*labels}:
        lines += [_ROUTE[platform], _NEIGHBOUR[platform]]
    if platform == "linux" and {"firewall", "firewall-rejects"} & {*labels}:
        lines.append(_FIREWALL)
    if platform == "darwin" and attempt.role != "listen":
        lines.append(LOCAL_NETWORK)  # errno 65 of connect(2): Apple's Local Network privacy
    if attempt.peer_is_this_host or "not-this-hosts-address" in labels:
        lines.append(_ADDRESSES[platform])
    if "not-this-hosts-address" in labels:
        lines.append(_OTHER_ADDRESS)
    if {"tcp-port-taken", "tcp-port-privileged"} & {*labels}:
        lines.append(_OTHER_PORT)
    return tuple(lines) or (_LISTENING[platform],)


def all_known() -> Iterable[Known]:
    """Every sentence of this file."""
    yield from all_stated(("peer-is-own-address",), "connect", Outcome.NO_PEER)
    for role, table in (("connect", CONNECTING), ("listen", LISTENING)):
        for labels in (*table.values(), *_CONNECTING_ON_MAC.values()):
            yield from all_stated(labels, role, Outcome.NO_PEER)
