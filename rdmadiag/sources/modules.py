"""Transceivers by ethtool netlink: their memory, their power mode. Only with --modules.

One message for each span of bytes, over I2C: milliseconds each on most NICs, much more on some.
The kernel lets those read it that have CAP_NET_ADMIN.

    ethtool -m ens1f0np0
    ethtool --show-module ens1f0np0
"""

import struct
from collections.abc import Callable
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.modules import (
    Identifier,
    Module,
    ModuleFacts,
    NetdevModule,
    Power,
    PowerMode,
    PowerPolicy,
)
from rdmadiag.facts.routing import Link
from rdmadiag.frozen import dataclass
from rdmadiag.host import Host, netlink
from rdmadiag.sources import cmis, sff8472, sff8636
from rdmadiag.sources.fec_counters import parse_fec_counters
from rdmadiag.sources.generic import asleep, ethtool_request, generic_attributes, read_family
from rdmadiag.sources.module_memory import Memory, Span, identifier
from rdmadiag.sources.port_netdevs import read_links_of_ports

_OFFSET, _LENGTH, _PAGE, _BANK, _ADDRESS, _DATA = 2, 3, 4, 5, 6, 7  # ETHTOOL_A_MODULE_EEPROM_*
_POLICY, _MODE = 2, 3  # ETHTOOL_A_MODULE_POWER_MODE_POLICY, ETHTOOL_A_MODULE_POWER_MODE
_U8, _U32 = struct.Struct("=B"), struct.Struct("=I")

HEAD: Final = Span(0, 0, 3)
"""Which of the three forms it has, and whether it has pages."""


@dataclass(frozen=True, slots=True)
class Form:
    """What to read of a module, and what it means."""

    spans: Callable[[Memory], tuple[Span, ...]]  # of what was read so far: those to add
    parse: Callable[[Memory], Module | Missing]


_SFP: Final = Form(sff8472.spans, sff8472.parse_sff8472)
_QSFP: Final = Form(sff8636.spans, sff8636.parse_sff8636)
_CMIS: Final = Form(cmis.spans, cmis.parse_cmis)
FORMS: Final = {
    Identifier.SFP: _SFP,
    Identifier.DWDM_SFP: _SFP,
    Identifier.QSFP: _QSFP,
    Identifier.QSFP_PLUS: _QSFP,
    Identifier.QSFP28: _QSFP,
    Identifier.QSFP_DD: _CMIS,
    Identifier.OSFP: _CMIS,
    Identifier.DSFP: _CMIS,
    Identifier.QSFP_CMIS: _CMIS,
    Identifier.SFP_DD_CMIS: _CMIS,
    Identifier.SFP_CMIS: _CMIS,
}


# --- messages ---------------------------------------------------------------------------------


def memory_request(family: int, ifindex: int, span: Span) -> bytes:
    """ETHTOOL_MSG_MODULE_EEPROM_GET."""
    return ethtool_request(
        family,
        netlink.ETHTOOL_MSG_MODULE_EEPROM_GET,
        ifindex,
        more=netlink.attribute(_OFFSET, _U32.pack(span.offset))
        + netlink.attribute(_LENGTH, _U32.pack(span.length))
        + netlink.attribute(_PAGE, _U8.pack(span.page))
        + netlink.attribute(_BANK, _U8.pack(0))
        + netlink.attribute(_ADDRESS, _U8.pack(span.address)),
    )


def memory_name(ifindex: int, span: Span) -> str:
    """Its name in a record."""
    where = f"{span.address:02x}-{span.page:02x}-{span.offset}-{span.length}"
    return f"ethtool-module-eeprom-{ifindex}-{where}"


def parse_module_bytes(reply: bytes) -> bytes | Missing:
    """The reply to ETHTOOL_MSG_MODULE_EEPROM_GET."""
    found = generic_attributes(reply)
    if isinstance(found, Missing):
        return found
    return found.get(_DATA) or Missing(Why.MALFORMED, "a reply without bytes of the module")


def parse_power(reply: bytes) -> Power | Missing:
    """The reply to ETHTOOL_MSG_MODULE_GET; of a driver that has no such thing it is empty."""
    found = generic_attributes(reply)
    if isinstance(found, Missing):
        return found
    policy, mode = (netlink.number(found.get(kind)) for kind in (_POLICY, _MODE))
    if policy is None and mode is None:
        return Missing(Why.UNSUPPORTED, "the driver gives no power mode")
    unknown = Missing(Why.UNSUPPORTED, "not said, or not known here")
    return Power(
        (None if policy is None else PowerPolicy.from_number(policy)) or unknown,
        (None if mode is None else PowerMode.from_number(mode)) or unknown,
    )


# --- reading ----------------------------------------------------------------------------------


def read_modules(host: Host, deadline: float) -> ModuleFacts | Missing:
    """Each netdev of a port, where it is in this namespace; `deadline` as in Host.netlink."""
    links = read_links_of_ports(host, deadline)
    if isinstance(links, Missing):
        return links
    if not links:
        return ModuleFacts(())
    family = read_family(host, netlink.ETHTOOL_GENL_NAME, deadline)
    if isinstance(family, Missing):
        return family
    reader = _Reader(host, family, deadline)
    return ModuleFacts(tuple(map(reader.netdev, links)))


@dataclass(frozen=True, slots=True)
class _Reader:
    """One message after the other."""

    host: Host
    family: int
    deadline: float

    def netdev(self, link: Link) -> NetdevModule:
        """All of one netdev."""
        if suspended := asleep(self.host, link.name):
            return NetdevModule(link.name, suspended, suspended, suspended)
        # As sources.netdev_counters requests it, so that one record serves both.
        fec = self._ask(
            f"ethtool-fec-stats-{link.ifindex}",
            ethtool_request(
                self.family, netlink.ETHTOOL_MSG_FEC_GET, link.ifindex, statistics=True
            ),
        )
        counts = fec if isinstance(fec, Missing) else parse_fec_counters(fec)
        none = Missing(Why.UNSUPPORTED, "the driver counts no uncorrectable blocks")
        return NetdevModule(
            link.name,
            self._power(link.ifindex),
            self._module(link.ifindex),
            counts if isinstance(counts, Missing) else counts.get("uncorrectable_blocks", none),
        )

    def _power(self, ifindex: int) -> Power | Missing:
        request = ethtool_request(self.family, netlink.ETHTOOL_MSG_MODULE_GET, ifindex)
        reply = self._ask(f"ethtool-module-{ifindex}", request)
        return reply if isinstance(reply, Missing) else parse_power(reply)

    def _module(self, ifindex: int) -> Module | Missing:
        spans: dict[Span, bytes | Missing] = {HEAD: self._bytes(ifindex, HEAD)}
        kind = identifier(Memory(spans))
        if isinstance(kind, Missing):
            return kind
        form = FORMS.get(kind)
        if form is None:
            return Missing(Why.UNSUPPORTED, f"the memory of {kind} is not known here")
        while more := [each for each in form.spans(Memory(spans)) if each not in spans]:
            for span in more:
                spans[span] = self._bytes(ifindex, span)
        return form.parse(Memory(spans))

    def _bytes(self, ifindex: int, span: Span) -> bytes | Missing:
        request = memory_request(self.family, ifindex, span)
        reply = self._ask(memory_name(ifindex, span), request)
        return reply if isinstance(reply, Missing) else parse_module_bytes(reply)

    def _ask(self, name: str, request: bytes) -> bytes | Missing:
        return self.host.netlink(name, netlink.NETLINK_GENERIC, request, self.deadline)
