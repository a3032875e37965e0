"""Devices: their list, and one that is open."""

import ctypes
import os
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref, c_int, c_uint16
from functools import cache
from typing import Any

from rdmadiag.facts.capability import RawPacketCap
from rdmadiag.facts.events import Element
from rdmadiag.facts.gid import Gid
from rdmadiag.frozen import dataclass
from rdmadiag.verbs import extended
from rdmadiag.verbs.abi import (
    PORT_ATTR_BUFFER,
    IbvDeviceAttr,
    IbvGid,
    IbvPortAttr,
)
from rdmadiag.verbs.child import LIBRARY
from rdmadiag.verbs.lib import Library
from rdmadiag.verbs.model.capability import AnyCap
from rdmadiag.verbs.model.completion import CQ, CompChannel
from rdmadiag.verbs.model.constants import EventType
from rdmadiag.verbs.model.domain import PD
from rdmadiag.verbs.model.lifetime import Held, InUse, Session, VerbsError, destroy
from rdmadiag.verbs.model.waiting import readable
from rdmadiag.verbs.node import try_node
from rdmadiag.verbs.objects import Context
from rdmadiag.verbs.teardown import Objects


class NoDevice(VerbsError):
    """The library lists no device of that name."""


@dataclass(frozen=True, slots=True)
class Event:
    """What a device says unasked: ibv_get_async_event, acknowledged."""

    type: EventType | int  # a number that this version does not know stays one
    element: Held[Any] | None  # the queue pair, completion queue or SRQ that it is about
    port: int | None  # that it is about


@dataclass(frozen=True, slots=True)
class Device:
    """A device that the library lists; nothing of it is open."""

    name: str
    node_type: int
    transport: int
    library: str

    def open(self) -> "OpenDevice":
        """ibv_open_device; raises CallFailed, and NoDevice where it has gone."""
        library = _library(self.library)
        session = Session(library)
        with _listed(library) as found:
            if self.name not in found:
                raise NoDevice(f"{self.name}: not among {', '.join(found) or 'no devices'}")
            pointer = found[self.name]
            if sys.platform == "linux":
                try_node(os.fsdecode(pointer.contents.dev_name))
            return OpenDevice(session, Context(session.call, self.name, pointer), self)

    def has(self, capability: AnyCap) -> bool:
        """As OpenDevice.has; opens the device for it."""
        with self.open() as opened:
            return opened.has(capability)


def _path(library: str | None) -> str:
    """What to load; raises OSError where there is no verbs library."""
    found = library or LIBRARY.get(sys.platform)
    if found is None:
        raise OSError(f"no verbs library is known for {sys.platform}")
    return found


@cache
def _library(path: str) -> Library:
    return Library(path)


@contextmanager
def _listed(library: Library) -> Iterator[dict[str, Any]]:
    count = c_int(0)
    devices = library.call("ibv_get_device_list", byref(count))
    try:
        rows = [devices[at] for at in range(count.value)]
        names = [os.fsdecode(library.call("ibv_get_device_name", row) or b"") for row in rows]
        yield dict(zip(names, rows, strict=True))
    finally:
        library.call("ibv_free_device_list", devices)


def device_list(library: str | None = None) -> list[Device]:
    """ibv_get_device_list; `library` is what to load in place of the system's.

    Raises CallFailed, and OSError where there is no library.
    """
    path = _path(library)
    with _listed(_library(path)) as found:
        return [
            Device(name, row.contents.node_type, row.contents.transport_type, path)
            for name, row in found.items()
        ]


def open_device(name: str, library: str | None = None) -> "OpenDevice":
    """The device of that name, open; raises NoDevice and CallFailed."""
    return Device(name, 0, 0, _path(library)).open()


def fork_init(library: str | None = None) -> None:
    """ibv_fork_init: before anything is opened; raises CallFailed.

    With it a child made by fork() does not take registered pages away from its parent. The
    objects stay the parent's alone.
    """
    _library(_path(library)).call("ibv_fork_init")


class OpenDevice(Held[Context]):
    """ibv_open_device. Closing it closes all that was made on it, in the order of verbs."""

    kind = "device"

    def __init__(self, session: Session, made: Context, device: Device) -> None:
        super().__init__(session, made)
        self.device = device
        self.name = device.name
        self._waiting = 0

    def _label(self) -> str:
        return f" {self.name}"

    def __del__(self) -> None:
        if getattr(self, "_made", None) is None or not self.session.is_ours:
            return
        warnings.warn(f"{self!r} was never closed", ResourceWarning, stacklevel=2, source=self)
        self.close()

    def settle(self) -> None:
        """Raises InUse where a thread waits for an event of it."""
        if self._waiting:
            raise InUse(f"{self!r}: {self._waiting} threads wait for an event of it")

    def close(self) -> None:
        """Destroy everything of it in objects.TEARDOWN_ORDER; raises InUse and CallFailed.

        InUse where a thread waits for an event. What refuses does not keep the rest.
        """
        if not self.session.is_ours:
            for each in list(self.session.open.values()):
                each.let_go()
            return
        with self.session.lock:
            if self.closed:
                return
            everything = list(self.session.open.values())
            for each in everything:
                each.settle()
            objects = Objects()
            for each in everything:
                objects.add(each.let_go())
            destroy(objects)

    # --- what it says of itself --------------------------------------------------------

    def query_device(self) -> IbvDeviceAttr:
        """ibv_query_device, by the names of infiniband/verbs.h; raises CallFailed."""
        found = IbvDeviceAttr()
        with self.session.lock:
            self.session.call("ibv_query_device", self.name, self.made.handle, byref(found))
        return found

    def query_device_ex(self) -> dict[str, int]:
        """ibv_query_device_ex; nothing where the provider has none. Raises CallFailed."""
        if sys.platform != "linux":
            return {}
        with self.session.lock:
            return extended.query_device_ex(self.made.handle)

    def query_port(self, port: int = 1) -> IbvPortAttr:
        """ibv_query_port; raises CallFailed."""
        buffer = ctypes.create_string_buffer(PORT_ATTR_BUFFER)
        with self.session.lock:
            self.session.call("ibv_query_port", self.name, self.made.handle, port, buffer)
        return IbvPortAttr.from_buffer_copy(buffer)

    def query_gid(self, port: int, index: int) -> Gid:
        """ibv_query_gid; raises CallFailed."""
        found = IbvGid()
        with self.session.lock:
            self.session.call(
                "ibv_query_gid", self.name, self.made.handle, port, index, byref(found)
            )
        return Gid(bytes(found))

    def query_pkey(self, port: int, index: int) -> int:
        """ibv_query_pkey, in the order of this host; raises CallFailed."""
        found = c_uint16()
        with self.session.lock:
            self.session.call(
                "ibv_query_pkey", self.name, self.made.handle, port, index, byref(found)
            )
        return int.from_bytes(bytes(found), "big")

    def has(self, capability: AnyCap) -> bool:
        """hascapability of InfinibandVerbs.jl: whether the device claims it.

        False too where it cannot be known: a flag above bit 31, or of raw packets, of a
        provider without ibv_query_device_ex. Raises CallFailed.
        """
        if isinstance(capability, RawPacketCap):
            return bool(self.query_device_ex().get("raw_packet_caps", 0) & capability.number)
        flags = self.query_device().device_cap_flags
        if capability.number > 0xFFFFFFFF:
            flags = self.query_device_ex().get("device_cap_flags_ex", 0)
        return bool(flags & capability.number)

    @property
    def num_comp_vectors(self) -> int:
        """How many interrupts completion events can be spread over."""
        return self.made.vectors

    # --- what can be made on it --------------------------------------------------------

    def alloc_pd(self) -> PD:
        """ibv_alloc_pd; raises CallFailed."""
        with self.session.lock:
            return PD(self.session, self.made.alloc_pd(), self)

    def create_comp_channel(self) -> CompChannel:
        """ibv_create_comp_channel; raises CallFailed."""
        with self.session.lock:
            return CompChannel(self.session, self.made.create_channel(), self)

    def create_cq(
        self, cqe: int, channel: CompChannel | None = None, *, comp_vector: int = 0
    ) -> CQ:
        """ibv_create_cq for at least `cqe` completions; raises CallFailed and Mismatch."""
        return CQ.create(self, self.made, cqe, channel, comp_vector)

    # --- what it says unasked ----------------------------------------------------------

    def async_event(self, seconds: float = 0.0) -> Event | None:
        """The next asynchronous event, waited for so long; None where none came.

        It is acknowledged before it is given. Raises CallFailed.
        """
        until = time.monotonic() + seconds
        while True:
            with self.session.lock:
                if found := self.made.async_event_of():
                    return self._event(*found)
                descriptor = self.made.async_fd
                self._waiting += 1
            try:
                if not readable(descriptor, until):
                    return None
            finally:
                with self.session.lock:
                    self._waiting -= 1

    def _event(self, number: int, element: int) -> Event:
        kind = EventType.from_number(number)
        if kind is None:
            return Event(number, None, None)
        if kind.of is Element.PORT:
            return Event(kind, None, element & 0xFFFFFFFF)  # an int in the union
        owner = next((each for each in self.session.open.values() if each.address == element), None)
        return Event(kind, owner, None)
