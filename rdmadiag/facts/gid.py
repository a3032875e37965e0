"""The 16-byte GID as a value.

fe80:0000:0000:0000:5054:00ff:fe00:0001   what sysfs prints
fe80::5054:ff:fe00:1                      what we print
::ffff:192.0.2.1                          an IPv4-mapped GID
"""

from enum import StrEnum
from typing import Any, ClassVar, Final, Self

from rdmadiag.facts.address import packed_ipv6, printed
from rdmadiag.facts.dumped import Dumped
from rdmadiag.facts.ib import GID_BYTES

IPV4_MAPPED: Final = bytes(10) + b"\xff\xff"
IPV4_MULTICAST: Final = b"\xff\x0e" + bytes(8) + b"\xff\xff"
_NOTHING: Final = bytes(GID_BYTES)
_TEXT_LIMIT: Final = 64


class Family(StrEnum):
    """The address family a GID carries."""

    IPV4 = "ipv4"
    IPV6 = "ipv6"


class Scope(StrEnum):
    """How far the address in a GID reaches."""

    ZERO = "zero"
    LOOPBACK = "loopback"  # ::1, and 127.0.0.0/8 mapped
    LINK_LOCAL = "link_local"  # fe80::/10, and 169.254.0.0/16 mapped
    PRIVATE = "private"  # fc00::/7; RFC 1918 and 100.64.0.0/10 mapped
    GLOBAL = "global"


_LOOPBACK: Final = bytes(15) + b"\x01"


class Gid:
    """An immutable GID; equality, hashing and order are those of its 16 bytes."""

    __slots__ = ("raw",)

    __pydantic_serializer__ = Dumped(str)

    ZERO: ClassVar["Gid"]
    """The content of an empty row."""

    raw: bytes

    def __init__(self, raw: bytes) -> None:
        if len(raw) != GID_BYTES:
            raise ValueError(f"a GID has {GID_BYTES} bytes, not {len(raw)}")
        object.__setattr__(self, "raw", bytes(raw))

    @classmethod
    def parse(cls, text: str) -> Self:
        """A GID from sysfs's or an IPv6 address's notation.

        Raises ValueError for anything else.
        """
        # Eight four-digit groups is all that sysfs prints, and the fast path for large tables.
        if len(text) == 39 and text[4::5] == ":::::::":
            try:
                return cls(bytes.fromhex(text.replace(":", "")))
            except ValueError:
                pass
        if len(text) > _TEXT_LIMIT or "\0" in text:
            raise ValueError(f"not a GID: {text[:_TEXT_LIMIT]!r}")
        try:
            return cls(packed_ipv6(text))
        except (OSError, UnicodeEncodeError) as error:
            raise ValueError(f"not a GID: {text!r}") from error

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Gid does not change")

    def __reduce__(self) -> tuple[type[Self], tuple[bytes]]:
        return type(self), (self.raw,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Gid) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash(self.raw)

    def __lt__(self, other: "Gid") -> bool:
        return self.raw < other.raw

    def __repr__(self) -> str:
        return f"Gid({str(self)!r})"

    def __str__(self) -> str:
        if self.is_ipv4_mapped:
            return f"::ffff:{self.ipv4}"
        return printed(self.raw)

    @property
    def groups(self) -> str:
        """The notation of sysfs: eight groups of four hexadecimal digits."""
        digits = self.raw.hex()
        return ":".join(digits[at : at + 4] for at in range(0, 32, 4))

    @property
    def is_zero(self) -> bool:
        """True for the content of an empty row."""
        return self.raw == _NOTHING

    @property
    def is_ipv4_mapped(self) -> bool:
        """True for ::ffff:0:0/96."""
        return self.raw.startswith(IPV4_MAPPED)

    @property
    def ipv4(self) -> str | None:
        """The dotted IPv4 address of a mapped GID, else None."""
        if not self.is_ipv4_mapped:
            return None
        return printed(self.raw[12:])

    @property
    def family(self) -> Family:
        """IPV4 for a mapped GID, else IPV6."""
        return Family.IPV4 if self.is_ipv4_mapped else Family.IPV6

    @property
    def scope(self) -> Scope:
        """How far this address reaches (RFC 4291, 4193, 1918, 6598, 3927)."""
        if self.is_zero:
            return Scope.ZERO
        if self.is_ipv4_mapped:
            a, b = self.raw[12], self.raw[13]
            if a == 127:
                return Scope.LOOPBACK
            if (a, b) == (169, 254):
                return Scope.LINK_LOCAL
            if a == 10 or (a == 172 and 16 <= b < 32) or (a, b) == (192, 168):
                return Scope.PRIVATE
            if a == 100 and 64 <= b < 128:
                return Scope.PRIVATE
            return Scope.GLOBAL
        if self.raw[0] == 0xFE and self.raw[1] & 0xC0 == 0x80:
            return Scope.LINK_LOCAL
        if self.raw[0] & 0xFE == 0xFC:
            return Scope.PRIVATE
        return Scope.LOOPBACK if self.raw == _LOOPBACK else Scope.GLOBAL

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Documents carry a GID as its text."""
        from pydantic_core import core_schema

        def from_text(value: str) -> Gid:
            return cls.parse(value)

        return core_schema.union_schema(
            [
                core_schema.is_instance_schema(cls),
                core_schema.no_info_after_validator_function(from_text, core_schema.str_schema()),
            ],
            serialization=core_schema.to_string_ser_schema(),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, str]:
        return {"type": "string", "description": "A GID in IPv6 notation."}


Gid.ZERO = Gid(_NOTHING)
