"""Completion queues, and the channels on which they say that something has completed."""

import os
from ctypes import byref, c_void_p
from errno import EAGAIN

from rdmadiag.frozen import dataclass
from rdmadiag.verbs.abi import IbvWc
from rdmadiag.verbs.lib import CallFailed
from rdmadiag.verbs.loop import RECEIVE
from rdmadiag.verbs.made import Caller, Made
from rdmadiag.verbs.open_context import OpenContext


@dataclass(frozen=True, slots=True)
class Completion:
    """One entry of a completion queue: struct ibv_wc."""

    work_request: int  # wr_id
    status: int
    vendor_error: int
    is_receive: bool
    byte_length: int
    entry: IbvWc  # a copy, for what a UD or immediate receiver needs


class CompletionChannel(Made):
    """ibv_create_comp_channel; its descriptor does not block."""

    def __init__(self, call: Caller, context: OpenContext) -> None:
        handle = call("ibv_create_comp_channel", context.device, context.handle)
        super().__init__(call, context.device, "ibv_destroy_comp_channel", handle)
        self.fd: int = handle.contents.fd
        os.set_blocking(self.fd, False)

    def event(self) -> bool:
        """Take an event and acknowledge it: whether there was one; raises CallFailed."""
        cq = self.take()
        if cq is None:
            return False
        self._call("ibv_ack_cq_events", self.device, cq, 1)
        return True

    def take(self) -> int | None:
        """ibv_get_cq_event: the address of the queue that it is of, None where there is none.

        The queue cannot be destroyed before the event is acknowledged. Raises CallFailed.
        """
        cq, context = c_void_p(), c_void_p()
        try:
            self._call("ibv_get_cq_event", self.device, self.handle, byref(cq), byref(context))
        except CallFailed as failed:
            if failed.errno == EAGAIN:
                return None
            raise
        return cq.value


class CompletionQueue(Made):
    """ibv_create_cq."""

    def __init__(
        self,
        call: Caller,
        context: OpenContext,
        entries: int,
        channel: CompletionChannel | None = None,
        vector: int = 0,
    ) -> None:
        notified = channel.handle if channel else None
        handle = call(
            "ibv_create_cq", context.device, context.handle, entries, None, notified, vector
        )
        super().__init__(call, context.device, "ibv_destroy_cq", handle)
        self.context = context
        self._entries = (IbvWc * entries)()

    def poll(self) -> tuple[Completion, ...]:
        """What has completed since the last look, perhaps nothing; raises CallFailed."""
        return tuple(
            Completion(
                entry.wr_id,
                entry.status,
                entry.vendor_err,
                entry.wr_id == RECEIVE,  # opcode is not valid where the status is not 0
                entry.byte_len,
                IbvWc.from_buffer_copy(entry),
            )
            for entry in self.take()
        )

    def take(self, limit: int | None = None) -> list[IbvWc]:
        """As `poll`, at most `limit`: the entries as they are until the next look."""
        whole = limit is None or limit >= len(self._entries)
        entries = self._entries if whole else (IbvWc * max(0, limit or 0))()
        return entries[: self.context.poll_cq(self.handle, entries)]

    def notify(self, *, solicited_only: bool = False) -> None:
        """The next completion makes an event on the channel; raises CallFailed."""
        self.context.req_notify_cq(self.handle, solicited_only=solicited_only)

    def ack(self, events: int) -> None:
        """ibv_ack_cq_events: so many that were taken from its channel."""
        self._call("ibv_ack_cq_events", self.device, self.handle, events)

    def resize(self, entries: int) -> None:
        """ibv_resize_cq; raises CallFailed."""
        self._call("ibv_resize_cq", self.device, self.handle, entries)
