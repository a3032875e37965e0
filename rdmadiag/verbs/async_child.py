"""The program of the child process that has devices open to be sent their asynchronous events.

    python -m rdmadiag.verbs.async_child LIBRARY DEVICE...

It opens each device, makes nothing on it, and writes a line for each event, which it
acknowledges. It ends when no device is left.

    {"device": "mlx5_0", "event": 10, "element": 1}
    {"device": "mlx5_0", "failed": "ibv_open_device: EACCES"}
"""

import ctypes
import errno
import json
import os
import select
import sys
from ctypes import POINTER, byref, c_int
from typing import Any

from rdmadiag.verbs.abi import IbvAsyncEvent, IbvContext
from rdmadiag.verbs.lib import CallFailed, Library
from rdmadiag.verbs.node import try_node


class Waiting:
    """Open devices by the descriptor of their events."""

    def __init__(self, library: Library, out: int) -> None:
        self._library = library
        self._out = out
        self._open: dict[int, tuple[str, Any]] = {}

    def open(self, wanted: list[str]) -> None:
        """Those of `wanted` that there are; says which there are not."""
        count = c_int(0)
        try:
            listed = self._library.call("ibv_get_device_list", byref(count))
        except CallFailed as failed:
            for name in wanted:
                self._failed(name, failed)
            return
        found = {self._name(listed[at]): listed[at] for at in range(count.value)}
        for name in wanted:
            try:
                self._open_one(name, found.get(name))
            except CallFailed as failed:
                self._failed(name, failed)

    def _open_one(self, name: str, device: Any) -> None:
        if device is None:
            raise CallFailed("ibv_get_device_list", errno.ENODEV)
        try_node(os.fsdecode(device.contents.dev_name))
        context = self._library.call("ibv_open_device", device)
        descriptor = ctypes.cast(context, POINTER(IbvContext)).contents.async_fd
        if descriptor < 0:
            raise CallFailed("ibv_get_async_event", errno.EBADF)
        os.set_blocking(descriptor, False)
        self._open[descriptor] = name, context

    def run(self) -> None:
        """Until no device is left: a parent that has gone takes this process with it."""
        poll = select.poll()
        for descriptor in self._open:
            poll.register(descriptor, select.POLLIN)
        while self._open:
            for descriptor, what in poll.poll():
                name, context = self._open[descriptor]
                try:
                    taken = self._take(name, context) if what & select.POLLIN else False
                except CallFailed as failed:
                    self._failed(name, failed)
                    taken = False
                if not taken:
                    poll.unregister(descriptor)
                    del self._open[descriptor]

    def _take(self, name: str, context: Any) -> bool:
        event = IbvAsyncEvent()
        try:
            self._library.call("ibv_get_async_event", context, byref(event))
        except CallFailed as failed:
            if failed.errno == errno.EAGAIN:
                return True
            raise
        self._library.call("ibv_ack_async_event", byref(event))
        # int port_num, of a union with pointers: no object is made here that one could be of.
        port = (event.element or 0) & 0xFFFFFFFF
        self._write({"device": name, "event": event.event_type, "element": port})
        return True

    def _name(self, device: Any) -> str:
        name = self._library.call("ibv_get_device_name", device)
        return (name or b"").decode("utf-8", "backslashreplace")

    def _failed(self, name: str, failed: CallFailed) -> None:
        what = errno.errorcode.get(failed.errno, str(failed.errno))
        self._write({"device": name, "failed": f"{failed.call}: {what}"})

    def _write(self, row: dict[str, Any]) -> None:
        os.write(self._out, json.dumps(row).encode("ascii") + b"\n")


def main() -> None:
    """The child's whole life."""
    path, *devices = sys.argv[1:]
    # A provider that prints on stdout must not break our lines.
    out = os.dup(1)
    os.dup2(2, 1)
    try:
        library = Library(path)
    except (OSError, AttributeError) as error:
        for name in devices:
            os.write(out, json.dumps({"device": name, "failed": str(error)}).encode() + b"\n")
        return
    waiting = Waiting(library, out)
    waiting.open(devices)
    waiting.run()


if __name__ == "__main__":
    main()
