"""What was made on one device is destroyed in one order: what stands on another object first."""

from typing import Final, TypeVar

from rdmadiag.verbs.completion import CompletionChannel, CompletionQueue
from rdmadiag.verbs.lib import CallFailed
from rdmadiag.verbs.made import Made
from rdmadiag.verbs.objects import (
    AddressHandle,
    Context,
    FlowRule,
    GroupMember,
    MemoryRegion,
    MemoryWindow,
    ProtectionDomain,
    QueuePair,
    SharedReceiveQueue,
    XrcDomain,
)

TEARDOWN_ORDER: Final[tuple[type[Made], ...]] = (
    FlowRule,
    GroupMember,
    MemoryWindow,
    QueuePair,
    SharedReceiveQueue,
    AddressHandle,
    MemoryRegion,
    CompletionQueue,
    CompletionChannel,
    ProtectionDomain,
    XrcDomain,
    Context,
)
"""First to last. Thunderbolt wants memory regions gone before completion queues (llama.cpp's
RDMA transport), and verbs leaves those two free: they do not depend on each other."""

M = TypeVar("M", bound=Made)


class Objects:
    """What was made on one device, in whatever order."""

    def __init__(self) -> None:
        self._made: list[Made] = []

    def add(self, made: M) -> M:
        """Keeps an object, which `close` destroys; the last one first."""
        self._made.append(made)
        return made

    def close(self) -> None:
        """Destroy everything in TEARDOWN_ORDER, of one kind the newest first.

        What refuses does not keep the rest; raises the first CallFailed.
        """
        refused: CallFailed | None = None
        newest_first = reversed(self._made)
        for made in sorted(newest_first, key=_turn):
            try:
                made.close()
            except CallFailed as failed:
                refused = refused or failed
        if refused:
            raise refused


def _turn(made: Made) -> int:
    return next(at for at, kind in enumerate(TEARDOWN_ORDER) if isinstance(made, kind))
