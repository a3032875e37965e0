"""Memories of real transceivers, as their owners published them; serial numbers and dates blanked.

SFP and QSFP28: eeprom_test.go of https://github.com/wobcom/go-ethtool, sff8472 and sff8636.
QSFP-DD: tests/sonic_xcvr/test_xcvr_eeprom.py of https://github.com/sonic-net/sonic-platform-common.
OSFP: what `show picd optics` prints on a QFX5240, of two modules.
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Self

from lab.counted import ETHTOOL_FAMILY
from rdmadiag.facts import Missing, Why
from rdmadiag.host import netlink
from rdmadiag.host.recording import Recording
from rdmadiag.sources import cmis, sff8472, sff8636
from rdmadiag.sources.module_memory import Span
from rdmadiag.sources.modules import HEAD, memory_name

_PAGE_BYTES: Final = 256
_UPPER: Final = 128

Where = tuple[int, int, int]  # I2C address, page, offset


@dataclass(frozen=True)
class Transceiver:
    """Its pages by I2C address and number; of those above 0 the lower half is unused."""

    pages: Mapping[tuple[int, int], bytes]

    @classmethod
    def of(cls, parts: Mapping[Where, str]) -> Self:
        """All that is not among the parts is 0."""
        found = cls({})
        for (address, page, offset), text in parts.items():
            found = found.change(address, page, offset, bytes.fromhex(text))
        return found

    def change(self, address: int, page: int, offset: int, raw: bytes) -> Self:
        """The same with these bytes there."""
        before = self.pages.get((address, page), bytes(_PAGE_BYTES))
        after = before[:offset] + raw + before[offset + len(raw) :]
        return type(self)({**self.pages, (address, page): after})

    def read(self, span: Span) -> bytes | None:
        """As a driver answers; None: there is no such page."""
        page = self.pages.get((span.address, span.page))
        return None if page is None else page[span.offset : span.offset + span.length]

    def settings(self) -> Iterator[str]:
        """What is written to .../dcbtest/eeprom, a page at a time."""
        for (address, page), raw in self.pages.items():
            start = 0 if page == 0 else _UPPER
            for at in range(start, _PAGE_BYTES, _UPPER):
                yield f"{address:#x} {page} {at} {raw[at : at + _UPPER].hex()}"


def reply(ifindex: int, span: Span, raw: bytes) -> bytes:
    """The reply to ETHTOOL_MSG_MODULE_EEPROM_GET."""
    content = b"".join(
        netlink.attribute(kind, struct.pack(form, value))
        for kind, form, value in (
            *((2, "=I", span.offset), (3, "=I", span.length), (4, "=B", span.page)),
            *((5, "=B", 0), (6, "=B", span.address)),
        )
    )
    return _message(33, ifindex, content + netlink.attribute(7, raw))


def power(ifindex: int, policy: int | None, mode: int | None) -> bytes:
    """The reply to ETHTOOL_MSG_MODULE_GET; None: the driver leaves it out."""
    content = b"".join(
        netlink.attribute(kind, struct.pack("=B", value))
        for kind, value in ((2, policy), (3, mode))
        if value is not None
    )
    return _message(36, ifindex, content)


SPANS: Final = (
    *(HEAD, *sff8636.SPANS, sff8636.THRESHOLDS, *cmis.SPANS, *cmis.PAGED),
    *(*sff8472.OF_A0, *sff8472.OF_A2),
)
"""All that any form reads."""


@dataclass(frozen=True)
class Fitted:
    """What is plugged into a netdev, and what its driver says; None: the driver leaves it out."""

    transceiver: Transceiver | Missing  # the reason for which the driver cannot read it
    policy: int | None = None
    mode: int | None = None

    def recorded(self, ifindex: int, recording: Recording) -> None:
        """Puts the answers there."""
        recording.netlink[f"ethtool-module-{ifindex}"] = power(ifindex, self.policy, self.mode)
        for span in SPANS:
            name = memory_name(ifindex, span)
            fitted = self.transceiver
            raw = fitted if isinstance(fitted, Missing) else fitted.read(span)
            if raw is None or isinstance(raw, Missing):
                unread = raw or Missing(Why.UNSUPPORTED, f"netlink {name}: EINVAL")
                recording.refuse("netlink", name, unread)
            else:
                recording.netlink[name] = reply(ifindex, span, raw)


def _message(command: int, ifindex: int, content: bytes) -> bytes:
    head = netlink.attribute(0x8000 | 1, netlink.attribute(1, struct.pack("=I", ifindex)))
    body = netlink.GENERIC_HEADER.pack(command, 1, 0) + head + content
    return netlink.request(ETHTOOL_FAMILY, 0, body)


FS_QSFP28_IR4: Final = Transceiver.of(
    {
        (0x50, 0x0, 0): "110702",
        (0x50, 0x0, 22): "1c97000081b9",
        (0x50, 0x0, 34): "436a31c82b822ed64340414047c045402ccc2d91302c2f9d",
        (0x50, 0x0, 93): "01",
        (0x50, 0x0, 106): "1f",
        (0x50, 0x0, 128): "11cc0780",
        (0x50, 0x0, 139): (
            "05ff0002000000004446532020202020202020202020202020000002c95153465032382d4952"
            "342d3130304720413165bf00ce00fb0307ffde20202020202020202020202020202020202020"
            "20202020200c1068bc"
        ),
        (0x50, 0x0, 252): "1432",
        (0x50, 0x3, 128): "5000f6004b00fb",
        (0x50, 0x3, 144): "908871708c707548",
        (0x50, 0x3, 176): "6e18016357730232927c138888b81d4c6e170584577306f2",
    }
)

FS_QSFP_COPPER: Final = Transceiver.of(
    {
        (0x50, 0x0, 0): "0d05",
        (0x50, 0x0, 22): "1bd800007dcb",
        (0x50, 0x0, 128): "0d002388",
        (0x50, 0x0, 140): (
            "ff000000000001a0465320202020202020202020202020201f0002c95132382d504378782020"
            "202020202020413206080a1000a1"
        ),
    }
)

FLEXOPTIX_SFP: Final = Transceiver.of(
    {
        (0x50, 0x0, 0): "03040720",
        (0x50, 0x0, 11): (
            "0667000a6400000000464c45584f5054495820202020202020000002c9502e42313639362e31"
            "302e44412020204120202005320087001a000020202020202020202020202020202020202020"
            "202020202068b0038b"
        ),
        (0x51, 0x0, 0): (
            "5a00e7005500ec008ca0753088b87724afc803e89c4005dc457707cb372d09d0312d00fb2bd4013c"
        ),
        (0x51, 0x0, 68): "3f80",
        (0x51, 0x0, 76): "01000000010000000100000001",
        (0x51, 0x0, 96): "198b7f21367018d9158e",
    }
)

OEM_SFP_LR: Final = Transceiver.of(
    {
        (0x50, 0x0, 0): "03040720",
        (0x50, 0x0, 11): (
            "0667000a64000000004f454d202020202020202020202020200000176a5346502d313047422d"
            "4c52202020202042342020051e004f001a000020202020202020202020202020202020202020"
            "202020202068f003ee"
        ),
        (0x51, 0x0, 0): (
            "5a00f6005500fb008dcc740487287a44c35003e89c4007d0349804f32bd406304e20009e2710013c"
        ),
        (0x51, 0x0, 68): "3f80",
        (0x51, 0x0, 76): "01000000010000000100000001",
        (0x51, 0x0, 96): "228a807d464d1433",
        (0x51, 0x0, 110): "02",
    }
)

BROCADE_SFP_T: Final = Transceiver.of(
    {
        (0x50, 0x0, 0): (
            "0304000000000800000000010d0000000000640042524f434144452020202020202020200000"
            "051e35372d313030303034322d30322020202020202000000013001200002020202020202020"
            "20202020202020202020202020202020000000a1"
        ),
    }
)

MELLANOX_QSFP_DD_COPPER: Final = Transceiver.of(
    {
        (0x50, 0x0, 0): "18408007",
        (0x50, 0x0, 85): "031d0188011c0144111b0122551a014411180111ff45012255160111ff010111ff",
        (0x50, 0x0, 128): (
            "184d656c6c616e6f7820202020202020200002c94d4350313636302d57303041453330204133"
            "202020202020202020202020202020202020202020202020"
        ),
        (0x50, 0x0, 201): "01052303040610000000020a",
    }
)

JUNIPER_OSFP_DR4: Final = Transceiver.of(
    {
        (0x50, 0x0, 0): "19510007",
        (0x50, 0x0, 14): "39ee8121dffd37040000000060",
        (0x50, 0x0, 34): "f000ff0000000d",
        (0x50, 0x0, 67): "010000d117",
        (0x50, 0x0, 85): "024f1c4411501c44114b1411ff4c1411ff51568801525688014de022554ee02255",
        (0x50, 0x0, 128): (
            "194a554e495045522d3147312020202020201bc93734302d3137343933322020202020203031"
            "20202020202020202020202020202020202020202020202020202020202020202020e0420028"
        ),
        (0x50, 0x0, 212): "06",
        (0x50, 0x0, 222): "ec31",
        (0x50, 0x1, 130): (
            "0102050000000000666c0514640037e9460000009d1800f077bb0307060f07091d77ff1f804734"
        ),
        (0x50, 0x1, 176): "1111ffff010155555555",
        (0x50, 0x2, 128): "4c00fa004900fd00908875308ca077247fff8000799886673c002d003a002f",
        (0x50, 0x2, 176): "9b820a0a7b860ca3fde81388f4241d4cbaf705089482071b",
        (0x50, 0x11, 128): "44444444ffff",
        (0x50, 0x11, 154): (
            "4d0b3a213b9e352145382dc148ff3bc588af88af88af88af88af88af88af88af42324285521b"
            "42de40a94b4f29d33b8f111111115050"
        ),
    }
)

CREDO_OSFP_AEC: Final = Transceiver.of(
    {
        (0x50, 0x0, 0): "19500007",
        (0x50, 0x0, 14): "334480d4",
        (0x50, 0x0, 39): "0104",
        (0x50, 0x0, 85): "044b0411ff4c0411ff4d0422554e0422554f04441150044411ff",
        (0x50, 0x0, 127): (
            "1119437265646f20202020202020202020209aadca43414338343533303141324e4332584120"
            "2020202020202020202020202020202020202020202020202020202020202020202020c0342d"
            "23"
        ),
        (0x50, 0x0, 211): "030c",
        (0x50, 0x0, 222): "0e",
        (0x50, 0x1, 128): "01040a",
        (0x50, 0x1, 142): "20005960460000029d000070770b0306060300093d670f00006744",
        (0x50, 0x1, 176): "ffff55551111",
        (0x50, 0x2, 128): "4b00fb00460000008b42768e875a7a76",
        (0x50, 0x11, 128): "44444444ffff",
    }
)
