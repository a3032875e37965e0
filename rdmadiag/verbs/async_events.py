"""The asynchronous events of an open device, read while an attempt runs and written down."""

import select
import time
from collections.abc import Callable
from contextlib import suppress
from ctypes import POINTER, cast
from typing import Final

from rdmadiag.facts.events import AsyncEvent, Element
from rdmadiag.verbs.abi import IbvQp
from rdmadiag.verbs.lib import CallFailed
from rdmadiag.verbs.objects import Context
from rdmadiag.verbs.records import AsyncEventCame, EndName, Record

MOST: Final = 256  # of one run; a device that never stops is left alone
_PORT: Final = 0xFFFFFFFF  # int port_num, of a union with pointers


class AsyncEvents:
    """The asynchronous events of one end, written as records."""

    def __init__(self, context: Context, end: EndName, write: Callable[[Record], None]) -> None:
        self._context = context
        self._end = end
        self._write = write
        self._left = MOST

    def take(self) -> tuple[int, ...]:
        """enum ibv_event_type of those since the last look, acknowledged; raises CallFailed."""
        found = []
        while self._left and self._is_ready():
            came = self._context.async_event_of()
            if came is None:
                break
            self._left -= 1
            found.append(came[0])
            self._write(self._record(*came))
        return tuple(found)

    def _record(self, number: int, element: int) -> AsyncEventCame:
        known = AsyncEvent.from_number(number)
        of = known.of if known else None
        # A queue pair with an event that nobody took cannot have been destroyed.
        pair = cast(element, POINTER(IbvQp)).contents if of is Element.QP and element else None
        return AsyncEventCame(
            end=self._end,
            device=self._context.device,
            number=number,
            port=element & _PORT if of is Element.PORT else None,
            queue_pair=pair.qp_num if pair else None,
        )

    def drain(self, seconds: float = 0.0) -> None:
        """Those that nobody waits for, and that come within `seconds`; a library that cannot say
        has none."""
        until = time.monotonic() + seconds
        with suppress(CallFailed):
            self.take()
            while self._left and self._is_ready(until - time.monotonic()):
                self.take()

    def _is_ready(self, seconds: float = 0.0) -> bool:
        """Without a call of the library, which would be written down each time."""
        descriptor = self._context.async_fd
        if descriptor < 0:
            return False
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return any(what & select.POLLIN for _, what in poll.poll(max(0.0, seconds) * 1000))
