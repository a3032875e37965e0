"""IPv4 and IPv6 addresses as bytes and as text, in the notation of inet_pton(3).

>>> packed_ipv4("192.0.2.1").hex(), printed(packed_ipv6("2001:db8::1"))
('c0000201', '2001:db8::1')

`ipaddress` does the same at several times the cost, which tables of thousands of GIDs pay.
No socket is opened. These are the functions of `socket`, whose own import makes enumerations of
all its constants, a fortieth of the time of `gids`.
"""

from _socket import AF_INET, AF_INET6, inet_ntop, inet_pton
from typing import Final

_IFA_F_OPTIMISTIC: Final = 0x04  # RFC 4429: used while it is tentative
_IFA_F_DADFAILED: Final = 0x08
_IFA_F_DEPRECATED: Final = 0x20
_IFA_F_TENTATIVE: Final = 0x40


def packed_ipv4(text: str) -> bytes:
    """4 bytes; raises OSError, ValueError for what is no address."""
    return inet_pton(AF_INET, text)


def packed_ipv6(text: str) -> bytes:
    """16 bytes; raises OSError, ValueError for what is no address."""
    return inet_pton(AF_INET6, text)


def tentative_and_duplicate(flags: int) -> tuple[bool, bool]:
    """What IFA_F_* of linux/if_addr.h say of duplicate address detection."""
    tentative = flags & _IFA_F_TENTATIVE and not flags & _IFA_F_OPTIMISTIC
    return bool(tentative), bool(flags & _IFA_F_DADFAILED)


def deprecated(flags: int) -> bool:
    """Whether its preferred lifetime is over: no source of what begins now, RFC 4862."""
    return bool(flags & _IFA_F_DEPRECATED)


def printed(packed: bytes) -> str:
    """Of 4 bytes an IPv4 address, of 16 an IPv6 one."""
    return inet_ntop(AF_INET if len(packed) == 4 else AF_INET6, packed)
