"""Waiting for a descriptor until a moment, and no longer."""

import select
import time


def readable(descriptor: int, until: float) -> bool:
    """Whether it can be read before `until`, on time.monotonic's clock."""
    # Not select.select, which takes no descriptor above 1023.
    waits = select.poll()
    waits.register(descriptor, select.POLLIN)
    return bool(waits.poll(max(0.0, until - time.monotonic()) * 1000))
