"""The program of the child process that queries the verbs library and changes nothing.

    python -m rdmadiag.verbs.query PLATFORM LIBRARY GID_ROWS [START [DEADLINE]]

It writes the records of a query: before each call its name, and after it the answer or the
errno. A call that never returns is the last line. Calls are made one at a time and none is
made twice. "at" is in seconds since START, on time.monotonic's clock, which all processes
share. Some seconds after DEADLINE, on the same clock, SIGALRM ends it: a call that hangs must
not outlive a parent that was killed.

    {"kind": "call", "call": "ibv_query_port", "device": "rdma_en1", "port": 1, "at": 0.0021}
    {"kind": "returned", "answer": {"state": 4, "lid": 7}, "at": 0.0024}
"""

import ctypes
import os
import signal
import sys
import time
from ctypes import POINTER, byref, c_int
from functools import partial
from typing import Any, Final

from rdmadiag.facts.ib import GID_BYTES
from rdmadiag.gid.scan import preflight_gid_scan_limit
from rdmadiag.verbs import extended, records
from rdmadiag.verbs.abi import PORT_ATTR_BUFFER, IbvDeviceAttr, IbvGid, IbvGidEntry, IbvPortAttr
from rdmadiag.verbs.bounds import HARD_SECONDS
from rdmadiag.verbs.lib import CallFailed, Library
from rdmadiag.verbs.node import try_node
from rdmadiag.verbs.transcript import Transcript

_TABLE_ROWS: Final = 65536
"""Of a device; a library that claims more is not believed."""


class Query:
    """One pass over every device."""

    def __init__(
        self, library: Library, transcript: Transcript, gid_rows: int, *, has_context: bool
    ) -> None:
        """`has_context`: a struct verbs_context may stand around its contexts, as on Linux."""
        self._library = library
        self._transcript = transcript
        self._gid_rows = gid_rows
        self._has_context = has_context

    def run(self) -> None:
        """List, and for each device: open, query, close."""
        count = c_int(0)
        found: list[Any] = []

        def listed() -> list[dict[str, Any]]:
            found.append(self._library.call("ibv_get_device_list", byref(count)))
            return [self._named(found[0][at]) for at in range(count.value)]

        names = self._transcript.step("ibv_get_device_list", listed)
        if names is None:
            return
        for at, row in enumerate(names):
            self._device(found[0][at], row["name"])
        self._transcript.step(
            "ibv_free_device_list", lambda: self._library.call("ibv_free_device_list", found[0])
        )

    def _named(self, device: Any) -> dict[str, Any]:
        name = self._library.call("ibv_get_device_name", device)
        return {
            "name": (name or b"").decode("utf-8", "backslashreplace"),
            "node_type": device.contents.node_type,
            "transport": device.contents.transport_type,
        }

    def _device(self, device: Any, name: str) -> None:
        opened: list[int] = []

        def open_device() -> bool:
            if sys.platform == "linux":
                try_node(os.fsdecode(device.contents.dev_name))
            opened.append(self._library.call("ibv_open_device", device))
            return True

        if self._transcript.step("ibv_open_device", open_device, name) is None:
            return
        context = opened[0]
        attributes = self._transcript.step(
            "ibv_query_device", lambda: self._device_attributes(context), name
        )
        if self._has_context:
            self._extended(context, name)
        # A device that does not say how many ports it has still has the first.
        count = attributes["phys_port_cnt"] if attributes else 1
        rows = {}
        for port in range(1, count + 1):
            answer = self._transcript.step(
                "ibv_query_port", partial(self._port, context, port), name, port
            )
            if answer:
                rows[port] = max(0, answer["gid_tbl_len"])
        self._gids(context, name, rows)
        self._transcript.step(
            "ibv_close_device", lambda: self._library.call("ibv_close_device", context), name
        )

    def _extended(self, context: int, name: str) -> None:
        """What ibv_query_device_ex answers, and which functions the provider has."""
        ask = partial(extended.query_device_ex, context)
        self._transcript.step("ibv_query_device_ex", ask, name)
        look = partial(extended.operations, context, self._library.address("ibv_open_device"))
        self._transcript.step("dladdr", look, name)

    def _device_attributes(self, context: int) -> dict[str, Any]:
        attributes = IbvDeviceAttr()
        self._library.call("ibv_query_device", context, byref(attributes))
        found: dict[str, Any] = dict(attributes.numbers())
        for guid in ("node_guid", "sys_image_guid"):
            found[guid] = int(found[guid]).to_bytes(8, sys.byteorder).hex()
        found["fw_ver"] = attributes.fw_ver.decode("utf-8", "backslashreplace")
        return found

    def _port(self, context: int, port: int) -> dict[str, int]:
        if self._has_context and (whole := extended.query_port(context, port)):
            return whole
        buffer = ctypes.create_string_buffer(PORT_ATTR_BUFFER)
        self._library.call("ibv_query_port", context, port, buffer)
        numbers = IbvPortAttr.from_buffer(buffer).numbers()
        del numbers["port_cap_flags2"]  # the symbol leaves it alone
        return numbers

    def _gids(self, context: int, name: str, rows: dict[int, int]) -> None:
        if not rows:
            return
        table = "_ibv_query_gid_table"
        if self._library.has(table):
            length = min(sum(rows.values()), _TABLE_ROWS)
            self._transcript.step(table, lambda: self._table(context, length), name)
            return
        for port, length in rows.items():
            limit = preflight_gid_scan_limit(length, self._gid_rows)
            self._transcript.step(
                "ibv_query_gid",
                partial(self._entries, context, port, limit),
                name,
                port,
            )

    def _table(self, context: int, length: int) -> list[dict[str, Any]]:
        entries = (IbvGidEntry * max(1, length))()
        size = ctypes.sizeof(IbvGidEntry)
        first = ctypes.cast(entries, POINTER(IbvGidEntry))
        count = self._library.call("_ibv_query_gid_table", context, first, length, 0, size)
        return [
            {
                "port": entry.port_num,
                "index": entry.gid_index,
                "gid": bytes(entry.gid).hex(),
                "type": entry.gid_type,
                "ifindex": entry.ndev_ifindex,
            }
            for entry in entries[: min(count, length)]
        ]

    def _entries(self, context: int, port: int, limit: int) -> dict[str, Any]:
        rows: list[dict[str, Any]] = []
        for index in range(limit):
            gid = IbvGid()
            try:
                self._library.call("ibv_query_gid", context, port, index, byref(gid))
            except CallFailed as failed:
                rows.append({"index": index, "errno": failed.errno})
                continue
            if bytes(gid) != bytes(GID_BYTES):
                rows.append({"index": index, "gid": bytes(gid).hex()})
        return {"asked": limit, "rows": rows}


def main() -> None:
    """The child's whole life."""
    platform, path, gid_rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
    start = float(sys.argv[4]) if len(sys.argv) > 4 else time.monotonic()
    if len(sys.argv) > 5:
        left = float(sys.argv[5]) + HARD_SECONDS - time.monotonic()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, max(left, HARD_SECONDS))
    # A provider that prints on stdout must not break our lines.
    transcript = Transcript(os.dup(1), start)
    os.dup2(2, 1)
    transcript.write(records.Library(platform=platform, library=path))
    # It runs the library's own code, which can crash or hang like any call.
    transcript.write(records.Call(call="dlopen"))
    try:
        library = Library(path)
    except (OSError, AttributeError) as error:
        transcript.write(records.Unloadable(unloadable=str(error)))
        return
    transcript.write(records.Returned())
    Query(library, transcript, gid_rows, has_context=platform == "linux").run()
    transcript.write(records.Done())


if __name__ == "__main__":
    main()
