"""TCP connections: by sock_diag, with the bytes of each, or from /proc/PID/net/tcp, without.

    ss -tie                     SOCK_DIAG_BY_FAMILY with INET_DIAG_INFO: struct tcp_info
    ESTAB 0 0 192.0.2.1:40112 192.0.2.2:5001 … bytes_acked:1048577 bytes_received:17 ino:71344

    /proc/PID/net/tcp           0: 010200C0:9CB0 020200C0:1389 01 00000000:00000000 … 71344 …

The kernel lists those of this network namespace; the file those of the process's. It loads
inet_diag and tcp_diag for the first request (sock_load_diag_module of net/core/sock_diag.c), so
one is sent only where they are there already, or no module can be loaded.
"""

import struct
import sys
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.address import printed
from rdmadiag.facts.gid import IPV4_MAPPED
from rdmadiag.facts.job import TcpSocket, TcpState
from rdmadiag.host import Host, netlink
from rdmadiag.late import late
from rdmadiag.sources.dump import dump
from rdmadiag.sources.text import attribute, malformed, parse_text

_MODULE: Final = "tcp_diag"
_NOT_LOADED: Final = Missing(
    Why.NOT_COLLECTED,
    "the module tcp_diag is not loaded, and a request would load it: "
    "after `sudo modprobe tcp_diag` it is there",
)
_BUILTIN_BYTES: Final = 1 << 20
_FILE_BYTES: Final = 16 << 20  # of a hundred thousand connections

# struct inet_diag_req_v2: family, protocol, idiag_ext, pad, idiag_states, struct inet_diag_sockid
_REQUEST: Final = struct.Struct("=BBBxI48x")
# struct inet_diag_msg: family, state, timer, retrans, ports, addresses, …, uid, inode
_MESSAGE: Final = struct.Struct("=BBxx2s2s16s16s28xI")
_INFO: Final = 2  # INET_DIAG_INFO
_ACKED, _RECEIVED = 120, 128  # offsets of tcpi_bytes_acked and tcpi_bytes_received, Linux 4.1
_U64: Final = struct.Struct("=Q")

CONNECTED: Final = tuple(
    state
    for state in TcpState
    if state
    not in (
        *(TcpState.LISTEN, TcpState.TIME_WAIT, TcpState.CLOSE),
        *(TcpState.NEW_SYN_RECV, TcpState.BOUND_INACTIVE),
    )
)
"""The states of sockets that a process has, and that have a peer."""

_ROW: Final = late(
    r" *[0-9]+: ([0-9A-F]{8}|[0-9A-F]{32}):([0-9A-F]{4}) ([0-9A-F]{8}|[0-9A-F]{32}):([0-9A-F]{4})"
    r" ([0-9A-F]{2}) \S+ \S+ \S+ +[0-9]+ +[0-9]+ ([0-9]{1,20})(?: .*)?"
)


def tcp_request(family: int) -> bytes:
    """All connections of AF_INET or AF_INET6, with tcp_info."""
    states = sum(1 << state.number for state in CONNECTED)
    payload = _REQUEST.pack(family, netlink.IPPROTO_TCP, 1 << (_INFO - 1), states)
    return netlink.request(netlink.SOCK_DIAG_BY_FAMILY, netlink.NLM_F_DUMP, payload)


def parse_tcp_diag(reply: bytes) -> tuple[TcpSocket, ...] | Missing:
    """The replies to SOCK_DIAG_BY_FAMILY."""
    try:
        return tuple(
            _socket(netlink.body(reply, message))
            for message in netlink.messages(reply)
            if message.type == netlink.SOCK_DIAG_BY_FAMILY
        )
    except ValueError as error:
        return Missing(Why.MALFORMED, str(error))


def _socket(body: bytes) -> TcpSocket:
    if len(body) < _MESSAGE.size:
        raise ValueError(f"struct inet_diag_msg of {len(body)} bytes")
    family, state, sport, dport, source, destination, inode = _MESSAGE.unpack_from(body)
    info = dict(netlink.attributes(body[_MESSAGE.size :])).get(_INFO, b"")
    length = 4 if family == netlink.TCP_FAMILIES[0] else 16
    return TcpSocket(
        inode=inode,
        state=_state(state),
        local=_address(source[:length]),
        local_port=int.from_bytes(sport),
        remote=_address(destination[:length]),
        remote_port=int.from_bytes(dport),
        sent=_counted(info, _ACKED),
        received=_counted(info, _RECEIVED),
    )


def _counted(info: bytes, offset: int) -> int | Missing:
    if len(info) < offset + _U64.size:
        return Missing(Why.UNSUPPORTED, "tcp_info without bytes: a kernel before 4.1")
    return int(_U64.unpack_from(info, offset)[0])


def _state(number: int) -> TcpState | Missing:
    found = TcpState.from_number(number)
    return found or Missing(Why.MALFORMED, f"{number} is not a known TcpState")


def _address(packed: bytes) -> str:
    """An IPv4-mapped one is that of IPv4: a socket of AF_INET6 may have either."""
    return printed(packed[12:] if packed.startswith(IPV4_MAPPED) else packed)


def parse_proc_tcp(raw: bytes) -> tuple[TcpSocket, ...] | Missing:
    """/proc/PID/net/tcp or tcp6: the connections, without their bytes."""
    found = []
    for line in raw.decode("latin-1").splitlines()[1:]:
        match = _ROW.fullmatch(line.rstrip())
        if match is None:
            return malformed(line.encode(), "a row of /proc/net/tcp")
        state = _state(int(match[5], 16))
        if state in CONNECTED:
            found.append(
                TcpSocket(
                    inode=int(match[6]),
                    state=state,
                    local=tcp_address(match[1]),
                    local_port=int(match[2], 16),
                    remote=tcp_address(match[3]),
                    remote_port=int(match[4], 16),
                    sent=_NO_BYTES,
                    received=_NO_BYTES,
                )
            )
    return tuple(found)


_NO_BYTES: Final = Missing(Why.NOT_COLLECTED, "/proc/PID/net/tcp has no bytes")


def tcp_address(text: str) -> str:
    """ "010200C0" of /proc/net/tcp → "192.0.2.1"."""
    return _address(_words(text))


def _words(text: str) -> bytes:
    """Words of 32 bits as the host has them, in the order of the network."""
    words = (int(text[at : at + 8], 16) for at in range(0, len(text), 8))
    return b"".join(word.to_bytes(4, sys.byteorder) for word in words)


def why_not_asked(host: Host) -> Missing | None:
    """Why no request is sent; None where it loads nothing."""
    if not isinstance(host.list(f"/sys/module/{_MODULE}"), Missing):
        return None
    modules = host.read("/proc/modules", _BUILTIN_BYTES)
    if isinstance(modules, Missing):
        # The file is there wherever the kernel can load any.
        return None if modules.why is Why.ABSENT else modules
    if attribute(host, "/proc/sys/kernel/modules_disabled", parse_text) == "1":
        return None
    built_in = host.read(f"/lib/modules/{host.identity.kernel}/modules.builtin", _BUILTIN_BYTES)
    if not isinstance(built_in, Missing) and f"/{_MODULE}.ko\n".encode() in built_in:
        return None
    return _NOT_LOADED


def read_connections(
    host: Host, deadline: float, inodes: Collection[int], foreign: int | None = None
) -> tuple[TcpSocket, ...] | Missing:
    """The connections with these inodes; `deadline` as in Host.netlink.

    `foreign`: a process in the network namespace that they are of, where that is not ours.
    """
    if not inodes:
        return ()
    if foreign is not None:
        why: Missing | None = Missing(
            Why.NOT_COLLECTED,
            "the job is in another network namespace: "
            f"`sudo nsenter -t {foreign} -n rdmadiag job …` sees its bytes",
        )
    else:
        why = why_not_asked(host)
    if why is None:
        found = _by_netlink(host, deadline, inodes)
        if not isinstance(found, Missing):
            return found
        why = found
    return _by_file(host, inodes, "self" if foreign is None else str(foreign), why)


def _by_netlink(
    host: Host, deadline: float, inodes: Collection[int]
) -> tuple[TcpSocket, ...] | Missing:
    found: list[TcpSocket] = []
    for family in netlink.TCP_FAMILIES:
        name = f"sock-diag-tcp-{family}"
        reply = dump(host, name, netlink.NETLINK_SOCK_DIAG, tcp_request(family), deadline)
        each = reply if isinstance(reply, Missing) else parse_tcp_diag(reply)
        if isinstance(each, Missing):
            return each
        found += each
    return tuple(each for each in found if each.inode in inodes)


def _by_file(
    host: Host, inodes: Collection[int], process: str, why: Missing
) -> tuple[TcpSocket, ...] | Missing:
    found: list[TcpSocket] = []
    for name in ("tcp", "tcp6"):
        raw = host.read(f"/proc/{process}/net/{name}", _FILE_BYTES)
        if isinstance(raw, Missing) and raw.why is Why.ABSENT and name == "tcp6":
            continue  # a kernel without IPv6
        each = raw if isinstance(raw, Missing) else parse_proc_tcp(raw)
        if isinstance(each, Missing):
            return each
        found += each
    return tuple(replace(each, sent=why, received=why) for each in found if each.inode in inodes)
