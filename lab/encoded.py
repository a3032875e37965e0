"""Messages of netlink as bytes, by pyroute2's classes."""

from typing import Any

from rdmadiag.host import netlink


def encoded(message: Any, kind: int, flags: int = netlink.NLM_F_MULTI) -> bytes:
    """The message with its header, padded to four bytes."""
    key = (type(message), kind, flags, repr([*message.items()]))
    if key not in _ENCODED:
        message["header"]["type"] = kind
        message["header"]["flags"] = flags
        message.encode()
        content = bytes(message.data)
        _ENCODED[key] = content + bytes(-len(content) % 4)
    return _ENCODED[key]


_ENCODED: dict[tuple[type, int, int, str], bytes] = {}
"""What was encoded before: machines differ in one thing, and encoding took a fifth of the tests."""
