"""Signs of a failure that are neither an errno nor a status, in the order they are tried.

A sign is recognised by a few words in one line, never by a whole sentence.
"""

import re
from functools import cache
from typing import Final

from rdmadiag.explain.log.line.literals import Places
from rdmadiag.explain.log.recognition.signs import (
    adapter_tools,
    builds,
    connections,
    devices,
    discovery,
    drivers,
    efa,
    fabrics,
    gpus,
    libraries,
    listings,
    macs,
    own,
    stacks,
    tools,
    transports,
    wordings,
)
from rdmadiag.explain.log.recognition.signs.sign import Errno, Sign
from rdmadiag.late import late

__all__ = ["AFTERMATH", "SIGNS", "Errno", "Sign", "sign_of"]

SIGNS: Final = (
    *own.SIGNS,
    *tools.SIGNS,
    *listings.SIGNS,
    *adapter_tools.SIGNS,
    *builds.SIGNS,
    *wordings.SIGNS,
    *fabrics.SIGNS,
    *efa.SIGNS,
    *gpus.SIGNS,
    *stacks.SIGNS,
    *transports.SIGNS,
    *devices.SIGNS,
    *connections.MAKING,
    *macs.SIGNS,
    *libraries.SIGNS,
    *drivers.SIGNS,
    *discovery.SIGNS,
    *connections.ENDING,
    *discovery.NOTES,
)


@cache
def _places() -> Places:
    return Places(row.pattern.pattern for row in SIGNS)


def sign_of(text: str, platform: str) -> Sign | None:
    """The first row that fits the line."""
    text = text.lower()
    maybe = _places().that_may_match(text)
    return next((SIGNS[each] for each in maybe if SIGNS[each].fits(text, platform)), None)


AFTERMATH: Final = late(
    r"watchdog caught|nccl(?:Remote|System|Internal)Error|unhandled system error"
    r"|NCCL error in.{0,160}, internal error|remote process exited"
    r"|closed by remote|MPI_ABORT|communicator was aborted|exited on signal|socketProgress"
    r"|NIXL_ERR_|reset by remote peer|RDMA_CM_EVENT_DISCONNECTED",
    re.IGNORECASE,
)
"""What follows a failure of any kind, or is the end of a connection as any other."""
