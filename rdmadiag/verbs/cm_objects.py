"""The objects of librdmacm: event channel, identifiers, and what hangs on one.

Each is destroyed once, by the call that the manual names, as those of objects.py are. Only
the event channel is ever waited on; its descriptor does not block.
"""

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import POINTER, byref, c_char_p, c_void_p
from errno import EAGAIN
from ipaddress import ip_address
from typing import Any, Final

from rdmadiag.facts.cm import CmEvent
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import QpType
from rdmadiag.frozen import dataclass
from rdmadiag.verbs.abi import IbvAhAttr, IbvContext, IbvDevice, IbvQpAttr, IbvQpInitAttr
from rdmadiag.verbs.cm_abi import (
    PS_TCP,
    PS_UDP,
    RAI_NUMERICHOST,
    RAI_PASSIVE,
    RdmaAddrinfo,
    RdmaCmId,
    RdmaConnEvent,
    RdmaConnParam,
    RdmaEventChannel,
    RdmaUdEvent,
)
from rdmadiag.verbs.completion import CompletionQueue
from rdmadiag.verbs.lib import CallFailed
from rdmadiag.verbs.made import Caller, Made
from rdmadiag.verbs.objects import Context, ProtectionDomain, QueuePair, Shape, initial
from rdmadiag.verbs.transitions import Attribute

RETRIES: Final = 6
"""retry_count: below 7, as bringup.RETRY_COUNT, and for the same reason."""

RNR_RETRIES: Final = 7  # for ever; a receive is always posted first

_PS: Final = {QpType.RC: PS_TCP, QpType.UD: PS_UDP}


@dataclass(frozen=True, slots=True)
class Datagrams:
    """Where datagrams go to: of struct rdma_ud_param."""

    way: IbvAhAttr
    queue_pair: int
    qkey: int


@dataclass(frozen=True, slots=True)
class Event:
    """struct rdma_cm_event, copied and acknowledged."""

    id: int  # address of its struct rdma_cm_id; of a request, the new one
    listener: int  # of a request: of the id that listens; else 0
    number: int  # CmEvent, where the table has it
    status: int
    private_data: bytes  # padded with zeros on InfiniBand and RoCE
    datagrams: Datagrams | None = None  # of a UD identifier: the peer, or the group


class EventChannel(Made):
    """rdma_create_event_channel: opens /dev/infiniband/rdma_cm."""

    def __init__(self, call: Caller) -> None:
        handle = call("rdma_create_event_channel", "")
        super().__init__(call, "", "rdma_destroy_event_channel", handle)
        self.fd: int = ctypes.cast(handle, POINTER(RdmaEventChannel)).contents.fd
        os.set_blocking(self.fd, False)

    def event(self, get: Callable[..., Any]) -> Event | None:
        """rdma_get_cm_event and rdma_ack_cm_event; None where there is none.

        `get` makes a call without writing it down: most find nothing. Raises CallFailed.
        """
        found = POINTER(RdmaConnEvent)()
        try:
            get("rdma_get_cm_event", self.handle, byref(found))
        except CallFailed as failed:
            if failed.errno == EAGAIN:
                return None
            raise
        event = found.contents
        data = b""
        if event.conn.private_data and event.conn.private_data_len:
            data = ctypes.string_at(event.conn.private_data, event.conn.private_data_len)
        copied = Event(
            _address(event.id),
            _address(event.listen_id),
            event.event,
            event.status,
            data,
            _datagrams(found),
        )
        get("rdma_ack_cm_event", found)
        return copied


def _datagrams(event: Any) -> Datagrams | None:
    found = ctypes.cast(event, POINTER(RdmaUdEvent)).contents
    if found.event not in _WITH_DATAGRAMS or found.id.contents.ps != PS_UDP:
        return None
    return Datagrams(IbvAhAttr.from_buffer_copy(found.ud.ah_attr), found.ud.qp_num, found.ud.qkey)


_WITH_DATAGRAMS: Final = (CmEvent.ESTABLISHED.number, CmEvent.MULTICAST_JOIN.number)


def _address(pointer: Any) -> int:
    return ctypes.cast(pointer, c_void_p).value or 0


class AddressInfo(Made):
    """rdma_getaddrinfo: an address and a port as sockaddrs; freed once they are used."""

    def __init__(
        self,
        call: Caller,
        host: str,
        port: int,
        kind: QpType,
        *,
        passive: bool = False,
        source: "AddressInfo | None" = None,
    ) -> None:
        """`source` is a passive one. Raises CallFailed."""
        hints = RdmaAddrinfo(ai_qp_type=kind.number, ai_port_space=_PS[kind])
        hints.ai_flags = (RAI_PASSIVE if passive else 0) | (_is_numeric(host) and RAI_NUMERICHOST)
        if source:
            hints.ai_src_len = source.length
            hints.ai_src_addr = source.source
        found = POINTER(RdmaAddrinfo)()
        service = str(port).encode()
        call("rdma_getaddrinfo", "", c_char_p(host.encode()), service, byref(hints), byref(found))
        super().__init__(call, "", "rdma_freeaddrinfo", found)
        self._found: RdmaAddrinfo = found.contents

    @property
    def length(self) -> int:
        """Of `source`, in bytes."""
        length: int = self._found.ai_src_len
        return length

    @property
    def source(self) -> int:
        """Of a struct sockaddr."""
        address: int = self._found.ai_src_addr
        return address

    @property
    def destination(self) -> int:
        """Of a struct sockaddr."""
        address: int = self._found.ai_dst_addr
        return address

    def copied_destination(self) -> Any:
        """It, for as long as the copy is held."""
        return ctypes.create_string_buffer(
            ctypes.string_at(self._found.ai_dst_addr, self._found.ai_dst_len)
        )


def _is_numeric(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


class Identifier(Made):
    """struct rdma_cm_id: one end of a connection, or what listens for one."""

    def __init__(self, call: Caller, handle: Any) -> None:
        super().__init__(call, "", "rdma_destroy_id", handle)

    @classmethod
    def create(cls, call: Caller, channel: EventChannel, kind: QpType) -> "Identifier":
        """rdma_create_id; raises CallFailed."""
        found = POINTER(RdmaCmId)()
        call("rdma_create_id", "", channel.handle, byref(found), None, _PS[kind])
        return cls(call, found)

    @classmethod
    def of_request(cls, call: Caller, address: int) -> "Identifier":
        """The new one of a CONNECT_REQUEST."""
        return cls(call, ctypes.cast(address, POINTER(RdmaCmId)))

    @property
    def address(self) -> int:
        """By which events name it."""
        return _address(self.handle)

    @property
    def device_name(self) -> str | None:
        """The device that an address has named; None before that."""
        context = self.context
        if not context:
            return None
        device = ctypes.cast(context, POINTER(IbvContext)).contents.device
        name: bytes = ctypes.cast(device, POINTER(IbvDevice)).contents.name
        return os.fsdecode(name)

    @property
    def is_iwarp(self) -> bool:
        """By the transport of its device; False before an address has named one."""
        context = self.context
        if not context:
            return False
        device = ctypes.cast(context, POINTER(IbvContext)).contents.device
        transport: int = ctypes.cast(device, POINTER(IbvDevice)).contents.transport_type
        return transport == _TRANSPORT_IWARP

    @property
    def context(self) -> int:
        """Of its device, which librdmacm has opened; 0 before that."""
        return _address(self.handle.contents.verbs)

    @property
    def port(self) -> int:
        """Of the device; 0: none yet, or any."""
        number: int = self.handle.contents.port_num
        return number

    @property
    def gid(self) -> Gid:
        """Of this end, once an address has named a device."""
        return Gid(bytes(self.handle.contents.route.addr.addr.sgid))

    @property
    def peer(self) -> str:
        """The other end's ADDRESS:PORT."""
        return _where(bytes(self.handle.contents.route.addr.dst_storage))

    @property
    def own(self) -> str:
        """This end's ADDRESS:PORT."""
        return _where(bytes(self.handle.contents.route.addr.src_storage))

    def _do(self, name: str, *arguments: Any) -> None:
        self._call(name, self.device_name or "", self.handle, *arguments)

    def bind(self, info: AddressInfo) -> None:
        """rdma_bind_addr; raises CallFailed."""
        self._do("rdma_bind_addr", info.source)

    def listen(self, backlog: int) -> None:
        """rdma_listen; raises CallFailed."""
        self._do("rdma_listen", backlog)

    def bind_to(self, address: str, port: int) -> None:
        """rdma_getaddrinfo and rdma_bind_addr; raises CallFailed."""
        with _addresses(self._call) as of:
            self.bind(of(address, port, passive=True))

    def resolve_to(self, own: str, host: str, port: int, milliseconds: int) -> None:
        """rdma_getaddrinfo, from `own` where it is not "", and rdma_resolve_addr; raises
        CallFailed."""
        with _addresses(self._call) as of:
            source = of(own, 0, passive=True) if own else None
            self.resolve_address(of(host, port, source=source), milliseconds)

    def resolve_address(self, info: AddressInfo, milliseconds: int) -> None:
        """rdma_resolve_addr; raises CallFailed. ADDR_RESOLVED follows."""
        self._do("rdma_resolve_addr", info.source, info.destination, milliseconds)

    def resolve_route(self, milliseconds: int) -> None:
        """rdma_resolve_route; raises CallFailed. ROUTE_RESOLVED follows."""
        self._do("rdma_resolve_route", milliseconds)

    def connect(self, private_data: bytes) -> None:
        """rdma_connect; raises CallFailed. ESTABLISHED follows."""
        self._do("rdma_connect", byref(_parameters(private_data)))

    def accept(self, private_data: bytes) -> None:
        """rdma_accept; raises CallFailed. ESTABLISHED follows."""
        self._do("rdma_accept", byref(_parameters(private_data)))

    def reject(self, private_data: bytes) -> None:
        """rdma_reject; raises CallFailed."""
        self._do("rdma_reject", private_data, len(private_data))

    def disconnect(self) -> None:
        """rdma_disconnect: the queue pair goes to ERR; raises CallFailed."""
        self._do("rdma_disconnect")


@contextmanager
def _addresses(call: Caller) -> Iterator[Callable[..., AddressInfo]]:
    """Makes some, and frees them."""
    infos: list[AddressInfo] = []

    def make(host: str, port: int, **how: Any) -> AddressInfo:
        infos.append(AddressInfo(call, host, port, QpType.RC, **how))
        return infos[-1]

    try:
        yield make
    finally:
        for each in infos:
            each.close()


class Membership(Made):
    """rdma_join_multicast: of a UD queue pair, in a group."""

    def __init__(self, call: Caller, identifier: Identifier, group: AddressInfo) -> None:
        """Raises CallFailed. At MULTICAST_JOIN librdmacm attaches the queue pair."""
        device = identifier.device_name or ""
        call("rdma_join_multicast", device, identifier.handle, group.destination, None)
        super().__init__(call, device, "rdma_leave_multicast", identifier.handle)
        self._group = group.copied_destination()

    def close(self) -> None:
        """rdma_leave_multicast: it is detached, too; raises CallFailed."""
        if self._open:
            self._open = False
            self._call(self._destroyer, self.device, self.handle, self._group)


def _parameters(private_data: bytes) -> RdmaConnParam:
    made = RdmaConnParam(
        private_data_len=len(private_data),
        # Soft and hardware iWARP want at least one each to be offered: MPA v2, RFC 6581.
        responder_resources=1,
        initiator_depth=1,
        retry_count=RETRIES,
        rnr_retry_count=RNR_RETRIES,
    )
    made.private_data = ctypes.cast(c_char_p(private_data), c_void_p).value
    made.kept = private_data  # for as long as the library reads it
    return made


def _where(sockaddr: bytes) -> str:
    """ADDRESS:PORT of a struct sockaddr_in or sockaddr_in6; "" of another family."""
    family = int.from_bytes(sockaddr[:2], "little")
    port = int.from_bytes(sockaddr[2:4], "big")
    if family == _AF_INET:
        return f"{ip_address(sockaddr[4:8])}:{port}"
    if family == _AF_INET6:
        return f"[{ip_address(sockaddr[8:24])}]:{port}"
    return ""


_TRANSPORT_IWARP: Final = 1
"""enum ibv_transport_type, infiniband/verbs.h."""

_AF_INET: Final = 2
_AF_INET6: Final = 10


class IdContext(Context):
    """The context of an identifier: librdmacm opened it, and closes it."""

    def __init__(self, call: Caller, identifier: Identifier) -> None:
        Made.__init__(self, call, identifier.device_name or "", "", identifier.context)
        self._open = False
        self._operate()


class IdQueuePair(QueuePair):
    """rdma_create_qp: the queue pair of an identifier, which connecting moves to RTS."""

    def __init__(
        self,
        call: Caller,
        pd: ProtectionDomain,
        cq: CompletionQueue,
        identifier: Identifier,
        kind: QpType,
        depth: int,
        shape: Shape,
    ) -> None:
        wanted = initial(cq, kind, depth, shape)
        call("rdma_create_qp", pd.device, identifier.handle, pd.handle, byref(wanted))
        handle = identifier.handle.contents.qp
        Made.__init__(self, call, pd.device, "rdma_destroy_qp", handle)
        self._identifier = identifier.handle
        self.kind = kind
        self.context = pd.context
        self.number = handle.contents.qp_num
        self.granted = wanted.cap

    def close(self) -> None:
        """Destroy it, by its identifier; raises CallFailed, and does not try again."""
        if self._open:
            self._open = False
            self._call(self._destroyer, self.device, self._identifier)

    def attributes(self) -> IbvQpAttr:
        """ibv_query_qp: what the connection manager has set; raises CallFailed."""
        found, created = IbvQpAttr(), IbvQpInitAttr()
        mask = int(_SHOWN)
        self._call("ibv_query_qp", self.device, self.handle, byref(found), mask, byref(created))
        return found


_SHOWN: Final = (
    Attribute.STATE | Attribute.AV | Attribute.PATH_MTU | Attribute.DEST_QPN | Attribute.SQ_PSN
)
