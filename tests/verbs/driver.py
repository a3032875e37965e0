"""Runs a program against a verbs library: `driver.py LIBRARY PROGRAM`.

The program is Python that calls `v.ibv_…`, or has an `End` do so, and prints by `say`.
"""

import ctypes
import json
import mmap
import sys
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_int, c_size_t, c_uint8, c_uint32, c_void_p
from typing import Any

from rdmadiag.verbs.abi import (
    IbvContext,
    IbvContextOps,
    IbvGid,
    IbvMr,
    IbvQp,
    IbvQpAttr,
    IbvQpInitAttr,
    IbvRecvWr,
    IbvSendWr,
    IbvSge,
    IbvWc,
)

PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "ibv_get_device_list": (POINTER(c_void_p), POINTER(c_int)),
    "ibv_free_device_list": (None, c_void_p),
    "ibv_get_device_name": (c_char_p, c_void_p),
    "ibv_get_device_guid": (ctypes.c_uint64, c_void_p),
    "ibv_open_device": (c_void_p, c_void_p),
    "ibv_close_device": (c_int, c_void_p),
    "ibv_query_device": (c_int, c_void_p, c_void_p),
    "ibv_query_port": (c_int, c_void_p, c_uint8, c_void_p),
    "ibv_query_gid": (c_int, c_void_p, c_uint8, c_int, c_void_p),
    "ibv_query_pkey": (c_int, c_void_p, c_uint8, c_int, c_void_p),
    "_ibv_query_gid_table": (ctypes.c_ssize_t, c_void_p, c_void_p, c_size_t, c_uint32, c_size_t),
    "ibv_alloc_pd": (c_void_p, c_void_p),
    "ibv_dealloc_pd": (c_int, c_void_p),
    "ibv_reg_mr": (c_void_p, c_void_p, c_void_p, c_size_t, c_int),
    "ibv_dereg_mr": (c_int, c_void_p),
    "ibv_create_cq": (c_void_p, c_void_p, c_int, c_void_p, c_void_p, c_int),
    "ibv_destroy_cq": (c_int, c_void_p),
    "ibv_create_qp": (c_void_p, c_void_p, POINTER(IbvQpInitAttr)),
    "ibv_modify_qp": (c_int, c_void_p, POINTER(IbvQpAttr), c_int),
    "ibv_query_qp": (c_int, c_void_p, POINTER(IbvQpAttr), c_int, POINTER(IbvQpInitAttr)),
    "ibv_destroy_qp": (c_int, c_void_p),
    "ibv_wc_status_str": (c_char_p, c_int),
}
OPS = {
    "poll_cq": CFUNCTYPE(c_int, c_void_p, c_int, POINTER(IbvWc), use_errno=True),
    "post_send": CFUNCTYPE(
        c_int, c_void_p, POINTER(IbvSendWr), POINTER(POINTER(IbvSendWr)), use_errno=True
    ),
    "post_recv": CFUNCTYPE(
        c_int, c_void_p, POINTER(IbvRecvWr), POINTER(POINTER(IbvRecvWr)), use_errno=True
    ),
}
BITS = {
    "qp_state": 0,
    "cur_qp_state": 1,
    "qp_access_flags": 3,
    "pkey_index": 4,
    "port_num": 5,
    "qkey": 6,
    "ah_attr": 7,
    "path_mtu": 8,
    "timeout": 9,
    "retry_cnt": 10,
    "rnr_retry": 11,
    "rq_psn": 12,
    "max_rd_atomic": 13,
    "min_rnr_timer": 15,
    "sq_psn": 16,
    "max_dest_rd_atomic": 17,
    "dest_qp_num": 20,
}
"""Field of struct ibv_qp_attr → its bit of enum ibv_qp_attr_mask."""

RC, UC = 2, 3
RESET, INIT, RTR, RTS, SQD, ERR = 0, 1, 2, 3, 4, 6
SIGNALED = 2
PAGE = mmap.PAGESIZE

v = ctypes.CDLL(sys.argv[1], use_errno=True)
for _name, (_result, *_arguments) in PROTOTYPES.items():
    if hasattr(v, _name):
        getattr(v, _name).restype = _result
        getattr(v, _name).argtypes = _arguments
buffer = ctypes.create_string_buffer(4096)
devices: Any = None


def say(*values: Any) -> None:
    """One line of JSON each."""
    sys.stdout.writelines(f"{json.dumps(value)}\n" for value in values)
    sys.stdout.flush()


def errno() -> int:
    """What the last call set."""
    found = ctypes.get_errno()
    ctypes.set_errno(0)
    return found


def opened(device: int = 0) -> Any:
    """A context; the device list stays."""
    global devices  # noqa: PLW0603
    devices = devices or v.ibv_get_device_list(None)
    return v.ibv_open_device(devices[device])


class End:
    """A device, opened, with one of everything: its messages go out of and into one page."""

    def __init__(
        self,
        device: int = 0,
        kind: int = UC,
        *,
        signal_all: bool = False,
        room: int = 8,
    ) -> None:
        self.kind = kind
        self.page = mmap.mmap(-1, PAGE)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.page))
        self.context = opened(device)
        self.pd = v.ibv_alloc_pd(self.context)
        self.mr = v.ibv_reg_mr(self.pd, self.address, PAGE, 1)
        self.cq = v.ibv_create_cq(self.context, room, None, None, 0)
        self.wish = IbvQpInitAttr(
            send_cq=self.cq, recv_cq=self.cq, qp_type=kind, sq_sig_all=signal_all
        )
        self.wish.cap.max_send_wr = self.wish.cap.max_recv_wr = 4
        self.wish.cap.max_send_sge = self.wish.cap.max_recv_sge = 2
        self.qp = self.another_qp()
        self.lkey = IbvMr.from_address(self.mr).lkey
        ops = IbvContextOps.from_address(self.context + IbvContext.ops.offset)
        self.ops = {name: prototype(getattr(ops, name)) for name, prototype in OPS.items()}

    def another_qp(self, **cap: int) -> Any:
        """Like the first, but for these fields of struct ibv_qp_cap."""
        for name, value in cap.items():
            setattr(self.wish.cap, name, value)
        return v.ibv_create_qp(self.pd, byref(self.wish))

    @property
    def number(self) -> int:
        """Of the queue pair."""
        return IbvQp.from_address(self.qp).qp_num

    @property
    def state(self) -> int:
        """Of the queue pair, by what the library keeps in it."""
        return IbvQp.from_address(self.qp).state

    def gid(self, index: int = 1) -> Any:
        """Of the port."""
        found = IbvGid()
        v.ibv_query_gid(self.context, 1, index, found)
        return found

    def modify(self, **values: Any) -> int:
        """The mask is what is named here; `ah_attr` is a dict."""
        attr = IbvQpAttr()
        for name, value in values.items():
            if name != "ah_attr":
                setattr(attr, name, value)
        for name, value in values.get("ah_attr", {}).items():
            route = attr.ah_attr.grh if hasattr(attr.ah_attr.grh, name) else attr.ah_attr
            setattr(route, name, value)
        return v.ibv_modify_qp(self.qp, byref(attr), sum(1 << BITS[name] for name in values))

    def attributes(self, state: int, peer: "End") -> dict[str, Any]:
        """What a transition needs and no more."""
        reliable: dict[str, int] = {}
        if state == INIT:
            return {"qp_state": INIT, "pkey_index": 0, "port_num": 1, "qp_access_flags": 0}
        if state == RTR:
            path = {"is_global": 1, "port_num": 1, "sgid_index": 1, "dgid": peer.gid()}
            if self.kind == RC:
                reliable = {"max_dest_rd_atomic": 1, "min_rnr_timer": 12}
            head = {"qp_state": RTR, "ah_attr": path, "path_mtu": 3, "rq_psn": 7}
            return head | {"dest_qp_num": peer.number} | reliable
        if state == RTS:
            if self.kind == RC:
                reliable = {"timeout": 14, "retry_cnt": 7, "rnr_retry": 7, "max_rd_atomic": 1}
            return {"qp_state": RTS, "sq_psn": 7} | reliable
        return {"qp_state": state}

    def move(
        self, state: int, peer: "End | None" = None, without: str | None = None, **changes: Any
    ) -> int:
        """One transition; `path=` changes single fields of ah_attr."""
        values = self.attributes(state, peer or self)
        values.get("ah_attr", {}).update(changes.pop("path", {}))
        values |= changes
        values.pop(without, None)
        return self.modify(**values)

    def connect(self, peer: "End | None" = None) -> "End":
        """To RTS."""
        for state in (INIT, RTR, RTS):
            assert self.move(state, peer) == 0, state
        return self

    def _sges(self, sizes: tuple[int, ...], offset: int, lkey: int | None) -> Any:
        places = [offset + sum(sizes[:nth]) for nth in range(len(sizes))]
        key = self.lkey if lkey is None else lkey
        return (IbvSge * len(sizes))(
            *((self.address + place, size, key) for place, size in zip(places, sizes, strict=True))
        )

    def send(
        self,
        *payload: bytes,
        wr_id: int = 1,
        flags: int = SIGNALED,
        lkey: int | None = None,
        opcode: int = 2,
    ) -> int:
        """post_send of the parts of one message."""
        self.page[: PAGE // 2] = b"".join(payload).ljust(PAGE // 2, b"\0")
        sges = self._sges(tuple(map(len, payload)), 0, lkey)
        wr = IbvSendWr(wr_id, None, sges, len(sges), opcode, flags)
        return self.ops["post_send"](self.qp, byref(wr), byref(POINTER(IbvSendWr)()))

    def receive(self, *sizes: int, wr_id: int = 2, lkey: int | None = None) -> int:
        """post_recv of a receive into the upper half of the page."""
        sges = self._sges(sizes, PAGE // 2, lkey)
        wr = IbvRecvWr(wr_id, None, sges, len(sges))
        return self.ops["post_recv"](self.qp, byref(wr), byref(POINTER(IbvRecvWr)()))

    @property
    def received(self) -> str:
        """What stands in the upper half."""
        return self.page[PAGE // 2 :].rstrip(b"\0").decode("latin-1")

    def poll(self, room: int = 8) -> Any:
        """wr_id, status and vendor error of each completion; below 0 if the call failed."""
        found = self.poll_all(room)
        return found if isinstance(found, int) else [wc[:3] for wc in found]

    def poll_all(self, room: int = 8) -> Any:
        """The same, with opcode, bytes, and whether it is of this queue pair."""
        wcs = (IbvWc * room)()
        count = self.ops["poll_cq"](self.cq, room, wcs)
        if count < 0:
            return count
        return [
            [
                wc.wr_id,
                wc.status,
                wc.vendor_err,
                wc.opcode,
                wc.byte_len,
                wc.qp_num == self.number,
            ]
            for wc in wcs[:count]
        ]

    def close(self) -> list[int]:
        """What each call said, in the order that the library wants."""
        return [
            v.ibv_destroy_qp(self.qp),
            v.ibv_dereg_mr(self.mr),
            v.ibv_destroy_cq(self.cq),
            v.ibv_dealloc_pd(self.pd),
            v.ibv_close_device(self.context),
        ]


if __name__ == "__main__":
    exec(sys.argv[2])
