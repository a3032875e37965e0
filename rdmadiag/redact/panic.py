"""A panic report of a Mac, as much of it as is read: its time, and the lines about RDMA."""

import re
from typing import Final

_DRIVER: Final = "AppleThunderboltRDMA"
_TIME: Final = re.compile(r'"(?:timestamp|date)"\s*:\s*"[0-9: .+-]{10,40}"')
_LOADED: Final = re.compile(
    r"(?:last (?:started|stopped|loaded|unloaded) kext|loaded kexts).*", re.IGNORECASE
)


def shortened(text: str) -> str:
    """What `rdmadiag.sources.macos.parse_panic` finds in it, and nothing of other programs."""
    when = _TIME.search(text)
    lines = re.split(r"\\n|\n", text)
    kept = [line for line in lines if _DRIVER in line or _LOADED.search(line)]
    stamp = f"{{{when[0]}}}\n" if when else ""
    return stamp + "\n".join(line for line in kept if line != (when and when[0])) + "\n"
