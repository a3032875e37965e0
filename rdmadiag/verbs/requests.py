"""Work requests that are made once and posted often, each for a piece of a memory region."""

import ctypes
from itertools import pairwise
from typing import Final, Protocol

from rdmadiag.verbs.abi import IbvRecvWr, IbvSendWr, IbvSge

WR_SEND: Final = 2
"""IBV_WR_SEND."""

SEND_SIGNALED: Final = 2
"""IBV_SEND_SIGNALED."""


class Region(Protocol):
    """Registered memory."""

    address: int
    size: int
    lkey: int


class SendRequest:
    """struct ibv_send_wr for what goes out of a memory region, made once and posted often."""

    def __init__(
        self,
        number: int,
        region: Region,
        offset: int,
        length: int,
        *,
        opcode: int = WR_SEND,
        flags: int = SEND_SIGNALED,
        sge: int = 1,
    ) -> None:
        """`sge` buffers, one after the other; of READ they are where the data comes to."""
        self._region, self._offset, self._sge = region, offset, sge
        self.request = IbvSendWr(wr_id=number, opcode=opcode, send_flags=flags)
        self.length = length

    def aim(self, address: int, rkey: int) -> None:
        """At this memory of the other end."""
        self.request.wr.rdma.remote_addr, self.request.wr.rdma.rkey = address, rkey

    @property
    def length(self) -> int:
        """Bytes that it moves."""
        return self._length

    @length.setter
    def length(self, length: int) -> None:
        self._length = length
        self._elements = _elements(self._region, self._offset, length, self._sge)
        self.request.num_sge = len(self._elements)
        self.request.sg_list = self._elements


class ReceiveRequest:
    """struct ibv_recv_wr into a memory region, made once and posted often."""

    def __init__(self, number: int, region: Region, offset: int, length: int, sge: int = 1) -> None:
        self._elements = _elements(region, offset, length, sge)
        self.request = IbvRecvWr(wr_id=number, num_sge=len(self._elements))
        self.request.sg_list = self._elements


def _elements(region: Region, offset: int, length: int, sge: int) -> "ctypes.Array[IbvSge]":
    """The bytes in so many buffers, as equal as can be; none of them is empty."""
    count = max(1, min(sge, length))
    cuts = [length * at // count for at in range(count + 1)]
    pieces = [_element(region, offset + start, end - start) for start, end in pairwise(cuts)]
    return (IbvSge * count)(*pieces)


def _element(region: Region, offset: int, length: int) -> IbvSge:
    if offset < 0 or length < 0 or offset + length > region.size:
        raise ValueError(f"{length} bytes at {offset} of a region of {region.size}")
    return IbvSge(addr=region.address + offset, length=length, lkey=region.lkey)
