"""What a described driver answers to ethtool and devlink.

linux/ethtool_netlink.h, linux/devlink.h.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from lab.counted import DEVLINK_FAMILY, ETHTOOL_FAMILY
from rdmadiag.host import netlink

MODES: Final = {
    "Autoneg": 6,
    "25000baseCR/Full": 31,
    "50000baseCR2/Full": 34,
    "100000baseCR4/Full": 38,
    "200000baseCR4/Full": 64,
    "None": 49,
    "RS": 50,
    "BASER": 51,
}
"""ETHTOOL_LINK_MODE_*_BIT by the kernel's name."""

_NESTED: Final = 0x8000


@dataclass(frozen=True)
class Ethtool:
    """One netdev; None: the driver leaves it out, or refuses the message."""

    up: bool = True
    because: tuple[int, ...] = ()  # extended state, and substate
    down_count: int | None = None
    supported: tuple[str, ...] | None = ("Autoneg", "25000baseCR/Full", "100000baseCR4/Full")
    advertised: tuple[str, ...] | None = None  # None: all that it supports
    peer: tuple[str, ...] | None = ("Autoneg", "25000baseCR/Full", "100000baseCR4/Full")
    autoneg: bool = True
    speed: int = 100_000
    duplex: int = 1
    lanes: int | None = 4
    pause: tuple[bool, bool] | None = (False, False)  # rx, tx
    fec: tuple[str, ...] | None = ("RS",)
    fec_active: str | None = "RS"
    rings: tuple[int, int, int, int] | None = (1024, 1024, 8192, 8192)  # rx, tx, and the most

    def replies(self, ifindex: int) -> Iterator[tuple[str, bytes | None]]:
        """Name in a record → reply; None: EOPNOTSUPP."""
        yield f"ethtool-linkstate-{ifindex}", _reply(6, ifindex, self._link())
        yield f"ethtool-linkmodes-{ifindex}", _reply(4, ifindex, self._modes())
        yield f"ethtool-pause-{ifindex}", _reply(22, ifindex, self._pause())
        yield f"ethtool-fec-{ifindex}", _reply(30, ifindex, self._fec())
        yield f"ethtool-rings-{ifindex}", _reply(16, ifindex, self._rings())

    def _link(self) -> bytes:
        found = _u8(2, self.up)
        for kind, value in zip((5, 6), self.because, strict=False):
            found += _u8(kind, value)
        return found if self.down_count is None else found + _u32(7, self.down_count)

    def _modes(self) -> bytes | None:
        if self.supported is None:
            return None
        on = self.supported if self.advertised is None else self.advertised
        found = _u8(2, self.autoneg) + _bitset(3, self.supported, on)
        if self.peer is not None:
            found += _bitset(4, self.peer, None)
        found += _u32(5, self.speed if self.up else 0xFFFFFFFF)
        found += _u8(6, self.duplex if self.up else 0xFF)
        return found if self.lanes is None else found + _u32(9, self.lanes)

    def _pause(self) -> bytes | None:
        if self.pause is None:
            return None
        return _u8(2, False) + _u8(3, self.pause[0]) + _u8(4, self.pause[1])

    def _fec(self) -> bytes | None:
        if self.fec is None:
            return None
        found = _bitset(2, self.fec, None) + _u8(3, False)
        return found if self.fec_active is None else found + _u32(4, MODES[self.fec_active])

    def _rings(self) -> bytes | None:
        if self.rings is None:
            return None
        return b"".join(map(_u32, (6, 9, 2, 5), self.rings))


@dataclass(frozen=True)
class Devlink:
    """One PCI function; None: the driver refuses the message."""

    reporters: tuple[tuple[str, int, int, int], ...] = (("fw", 0, 0, 0), ("fw_fatal", 0, 0, 0))
    """Name, state, errors, recoveries."""
    running: tuple[tuple[str, str], ...] = (("fw.version", "22.31.1014"), ("fw", "22.31.1014"))
    stored: tuple[tuple[str, str], ...] = (("fw.version", "22.31.1014"), ("fw", "22.31.1014"))
    fixed: tuple[tuple[str, str], ...] = (("fw.psid", "MT_0000000359"),)
    roce: bool | None = True
    iwarp: bool | None = None
    eswitch: int | None = 0

    def listed(self, address: str) -> bytes:
        """Its part of the dump of reporters."""
        replies = b""
        for name, state, errors, recoveries in self.reporters:
            reporter = _text(115, name) + _u8(116, state) + _u64(117, errors)
            reporter += _u64(118, recoveries)
            row = _handle(address) + netlink.attribute(_NESTED | 114, reporter)
            replies += _message(52, row, netlink.NLM_F_MULTI)
        return replies

    def replies(self, address: str) -> Iterator[tuple[str, bytes | None]]:
        """Name in a record → reply; None: EOPNOTSUPP."""
        at = f"pci-{address}"
        versions = b"".join(
            netlink.attribute(_NESTED | kind, _text(103, name) + _text(104, value))
            for kind, each in ((100, self.fixed), (101, self.running), (102, self.stored))
            for name, value in each
        )
        driver = _text(98, "mlx5_core")
        yield f"devlink-info-{at}", _message(51, _handle(address) + driver + versions)
        yield f"devlink-enable_roce-{at}", _param(address, "enable_roce", self.roce)
        yield f"devlink-enable_iwarp-{at}", _param(address, "enable_iwarp", self.iwarp)
        mode = None if self.eswitch is None else struct.pack("=H", self.eswitch)
        yield (
            f"devlink-eswitch-{at}",
            None if mode is None else _message(29, _handle(address) + netlink.attribute(25, mode)),
        )


def _param(address: str, name: str, on: bool | None) -> bytes | None:
    if on is None:
        return None
    value = (netlink.attribute(86, b"") if on else b"") + _u8(87, 1)
    values = netlink.attribute(_NESTED | 84, netlink.attribute(_NESTED | 85, value))
    param = _text(81, name) + netlink.attribute(82, b"") + _u8(83, 6) + values
    return _message(38, _handle(address) + netlink.attribute(_NESTED | 80, param))


def _handle(address: str) -> bytes:
    return _text(1, "pci") + _text(2, address)


def _message(command: int, content: bytes, flags: int = 0) -> bytes:
    head = netlink.GENERIC_HEADER.pack(command, 1, 0)
    message = netlink.request(DEVLINK_FAMILY, flags, head + content)
    return message + bytes(-len(message) % 4)


def _reply(command: int, ifindex: int, content: bytes | None) -> bytes | None:
    if content is None:
        return None
    head = netlink.attribute(_NESTED | 1, _u32(1, ifindex))
    body = netlink.GENERIC_HEADER.pack(command, 1, 0) + head + content
    return netlink.request(ETHTOOL_FAMILY, 0, body)


def _bitset(kind: int, names: tuple[str, ...], on: tuple[str, ...] | None) -> bytes:
    """With a mask of `names`, of which `on` are set; `on` None: a list without one."""
    bits = b"".join(
        netlink.attribute(
            _NESTED | 1,
            _u32(1, MODES[name])
            + netlink.attribute(2, f"{name}\0".encode())
            + (netlink.attribute(3, b"") if on and name in on else b""),
        )
        for name in names
    )
    head = netlink.attribute(1, b"") if on is None else b""
    return netlink.attribute(
        _NESTED | kind, head + _u32(2, 92) + netlink.attribute(_NESTED | 3, bits)
    )


def _u8(kind: int, value: int) -> bytes:
    return netlink.attribute(kind, struct.pack("=B", value))


def _u32(kind: int, value: int) -> bytes:
    return netlink.attribute(kind, struct.pack("=I", value))


def _u64(kind: int, value: int) -> bytes:
    return netlink.attribute(kind, struct.pack("=Q", value))


def _text(kind: int, value: str) -> bytes:
    return netlink.attribute(kind, f"{value}\0".encode())
