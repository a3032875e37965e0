"""The kernel's notifications: sockets that have joined a group, and the end of its log.

Joining a group is no request: no driver is queried, and nothing is loaded by the groups
that are joined here. Every descriptor is read without waiting; one poll(2) waits for all.
"""

import errno
import os
import select
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from rdmadiag.facts import Missing
from rdmadiag.host.answers import refusal
from rdmadiag.host.kmsg import DEVICE

NETLINK_KOBJECT_UEVENT: Final = 15

_SOL_NETLINK: Final = 270
_ADD_MEMBERSHIP: Final = 1  # NETLINK_ADD_MEMBERSHIP
_SO_RCVBUFFORCE: Final = 33
_BUFFER: Final = 16 << 20
"""Bytes of the kernel's that a burst may fill, of them as many as this user may have."""

_DATAGRAM: Final = 64 * 1024
_RECORD: Final = 8192  # bytes of a record of /dev/kmsg: PRINTK_MESSAGE_MAX and its header
_BATCH: Final = 256  # messages of one source before the others have their turn


class Lost(NamedTuple):
    """The kernel had no room for some messages, and dropped them; it does not say how many."""

    why: str


class Got(NamedTuple):
    """What one source had to say."""

    source: str
    content: bytes | Lost


class Subscription:
    """One source: a descriptor that is readable when it has something."""

    def __init__(self, name: str, descriptor: int) -> None:
        self.name = name
        self.descriptor = descriptor

    def read(self) -> bytes | Lost | None:
        """The next message; None for none at the moment, and for one that is nobody's."""
        raise NotImplementedError

    def close(self) -> None:
        """Leaves its groups."""
        raise NotImplementedError


class Group(Subscription):
    """A netlink socket."""

    def __init__(self, name: str, link: socket.socket) -> None:
        super().__init__(name, link.fileno())
        self._link = link
        self.foreign = 0  # messages that the kernel did not send

    def read(self) -> bytes | Lost | None:
        try:
            while True:
                datagram, _, flags, sender = self._link.recvmsg(_DATAGRAM)
                # What any process may send to a socket whose number it knows.
                if isinstance(sender, tuple) and sender and sender[0] != 0:
                    self.foreign += 1
                    continue
                if flags & socket.MSG_TRUNC:
                    return Lost("a message longer than 64 KiB was cut off")
                return datagram
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno == errno.ENOBUFS:
                return Lost("the socket's buffer was full (ENOBUFS)")
            raise

    def close(self) -> None:
        self._link.close()


class KernelLog(Subscription):
    """/dev/kmsg from its end on; one record a read(2)."""

    def read(self) -> bytes | Lost | None:
        while True:
            try:
                return os.read(self.descriptor, _RECORD) or None
            except BlockingIOError:
                return None
            except BrokenPipeError:  # overwritten meanwhile: the gap in the numbers says how many
                continue

    def close(self) -> None:
        with suppress(OSError):
            os.close(self.descriptor)


def join(name: str, protocol: int, groups: Iterable[int]) -> Group | Missing:
    """A socket of `protocol` in `groups`, by their numbers."""
    subject = f"netlink {name}"
    try:
        link = socket.socket(
            socket.AF_NETLINK,
            socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK,
            protocol,
        )
    except OSError as error:
        return refusal(error, subject)
    try:
        _make_room(link)
        link.bind((0, 0))
        for group in groups:
            link.setsockopt(_SOL_NETLINK, _ADD_MEMBERSHIP, group)
    except OSError as error:
        link.close()
        return refusal(error, f"{subject}: its group")
    return Group(name, link)


def _make_room(link: socket.socket) -> None:
    try:
        link.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER)
    except OSError:  # without CAP_NET_ADMIN: up to net.core.rmem_max
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)


def follow_kernel_log(name: str, path: str = DEVICE) -> KernelLog | Missing:
    """The kernel's log from now on; refused as `rdmadiag.host.kmsg.read` says."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        return refusal(error, path)
    try:
        os.lseek(handle, 0, os.SEEK_END)
    except OSError as error:
        os.close(handle)
        return refusal(error, path)
    return KernelLog(name, handle)


class Listener:
    """All sources, and descriptors of others that end a wait."""

    def __init__(self, sources: Iterable[Subscription], wake: Iterable[int] = ()) -> None:
        self._sources = {each.descriptor: each for each in sources}
        self._poll = select.poll()
        for descriptor in (*self._sources, *wake):
            self._poll.register(descriptor, select.POLLIN)
        self._ready: list[int] = []

    def add(self, source: Subscription) -> None:
        """One more."""
        self._sources[source.descriptor] = source
        self._poll.register(source.descriptor, select.POLLIN)

    def wait(self, deadline: float) -> bool:
        """Until there is something, `deadline` at most, which is absolute on time.monotonic's
        clock; whether there is."""
        left = max(0.0, deadline - time.monotonic())
        self._ready = [descriptor for descriptor, _ in self._poll.poll(left * 1000)]
        return bool(self._ready)

    def take(self) -> Iterator[Got]:
        """What is there; of one source not without end."""
        for descriptor in self._ready:
            source = self._sources.get(descriptor)
            if source is None:
                continue
            for _ in range(_BATCH):
                try:
                    content = source.read()
                except OSError as error:
                    self._drop(source)
                    content = Lost(f"it is no longer read: {error.strerror}")
                if content is None:
                    break
                yield Got(source.name, content)
                if source.descriptor not in self._sources:
                    break

    def close(self) -> None:
        """All sources."""
        for each in self._sources.values():
            each.close()

    def _drop(self, source: Subscription) -> None:
        self._poll.unregister(source.descriptor)
        del self._sources[source.descriptor]
        source.close()
