"""Bonds and their legs, in the links that rtnetlink lists, and in the bonding driver's own file.

IFLA_LINKINFO has IFLA_INFO_DATA of a bond (bond_fill_info) and IFLA_INFO_SLAVE_DATA of a leg
(bond_fill_slave_info of drivers/net/bonding/bond_netlink.c).

    /proc/self/net/bonding/bond0    Slave Interface: ens1f0np0
                                    Actor Churn State: none
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final, TypeVar

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.bonding import Bonding, BondMode, Churn, HashPolicy, Leg, LegState, MiiStatus
from rdmadiag.facts.ib import Numbered
from rdmadiag.frozen import dataclass
from rdmadiag.host import Host, netlink
from rdmadiag.late import late
from rdmadiag.sources.text import malformed

N = TypeVar("N", bound=Numbered)

_FOLDER: Final = "/proc/self/net/bonding"

_IFNAME, _MASTER, _LINKINFO = 3, 10, 18  # IFLA_*
_KIND, _DATA, _SLAVE_KIND, _SLAVE_DATA = 1, 2, 4, 5  # IFLA_INFO_*
_MODE, _HASH_POLICY, _AD_INFO = 1, 14, 23  # IFLA_BOND_*
_AGGREGATOR, _PARTNER_MAC = 1, 5  # IFLA_BOND_AD_INFO_*
_STATE, _MII_STATUS, _FAILURES, _LEG_AGGREGATOR = 1, 2, 3, 6  # IFLA_BOND_SLAVE_*
_ACTOR_STATE, _PARTNER_STATE, _ACTOR_CHURN, _PARTNER_CHURN = 7, 8, 11, 12
_IFINFOMSG: Final = 16  # bytes of struct ifinfomsg

_BOND: Final = "bond"
_MAC: Final = late(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_NO_PARTNER: Final = Missing(Why.ABSENT, "no LACP partner shown")
_NO_CHURN: Final = Missing(Why.ABSENT, "no churn state: not 802.3ad, or the kernel gives none")


def parse_bonds(links: bytes) -> tuple[Bonding, ...] | Missing:
    """The reply to an RTM_GETLINK dump: its bonds, each with its legs."""
    if _BOND.encode() + b"\0" not in links:
        return ()
    bonds: dict[int, Bonding] = {}
    legs: dict[int, list[Leg]] = {}
    try:
        for message in netlink.messages(links):
            found = dict(netlink.attributes(netlink.body(links, message, _IFINFOMSG)))
            info = dict(netlink.attributes(found.get(_LINKINFO, b"")))
            name = link_name(found.get(_IFNAME))
            if not name:
                continue
            if netlink.text(info.get(_KIND)) == _BOND:
                index = netlink.body(links, message)[4:8]
                bonds[netlink.number(index) or 0] = _bond(name, info.get(_DATA, b""))
            if netlink.text(info.get(_SLAVE_KIND)) == _BOND:
                master = netlink.number(found.get(_MASTER)) or 0
                legs.setdefault(master, []).append(_leg(name, info.get(_SLAVE_DATA, b"")))
    except ValueError as error:
        return Missing(Why.MALFORMED, str(error))
    return tuple(replace(bond, legs=tuple(legs.get(at, ()))) for at, bond in bonds.items())


def link_name(raw: bytes | None) -> str:
    """IFLA_IFNAME, as `netdev` has it."""
    return (raw or b"").rstrip(b"\0").decode("utf-8", "backslashreplace")


def _bond(name: str, data: bytes) -> Bonding:
    found = dict(netlink.attributes(data))
    ad_info = dict(netlink.attributes(found.get(_AD_INFO, b"")))
    mac = ad_info.get(_PARTNER_MAC)
    return Bonding(
        netdev=name,
        mode=_word(found, _MODE, "IFLA_BOND_MODE", BondMode),
        hash_policy=_word(found, _HASH_POLICY, "IFLA_BOND_XMIT_HASH_POLICY", HashPolicy),
        aggregator=_number(ad_info, _AGGREGATOR, "IFLA_BOND_AD_INFO_AGGREGATOR"),
        partner_mac=mac.hex(":") if mac else Missing(Why.ABSENT, "IFLA_BOND_AD_INFO_PARTNER_MAC"),
        legs=(),
    )


def _leg(name: str, data: bytes) -> Leg:
    found = dict(netlink.attributes(data))
    churn = "IFLA_BOND_SLAVE_AD_CHURN_{}_STATE"
    return Leg(
        netdev=name,
        state=_word(found, _STATE, "IFLA_BOND_SLAVE_STATE", LegState),
        mii=_word(found, _MII_STATUS, "IFLA_BOND_SLAVE_MII_STATUS", MiiStatus),
        failures=_number(found, _FAILURES, "IFLA_BOND_SLAVE_LINK_FAILURE_COUNT"),
        aggregator=_number(found, _LEG_AGGREGATOR, "IFLA_BOND_SLAVE_AD_AGGREGATOR_ID"),
        actor_state=_number(found, _ACTOR_STATE, "IFLA_BOND_SLAVE_AD_ACTOR_OPER_PORT_STATE"),
        partner_state=_number(found, _PARTNER_STATE, "IFLA_BOND_SLAVE_AD_PARTNER_OPER_PORT_STATE"),
        actor_churn=_word(found, _ACTOR_CHURN, churn.format("ACTOR"), Churn),
        partner_churn=_word(found, _PARTNER_CHURN, churn.format("PARTNER"), Churn),
        partner_mac=Missing(Why.ABSENT, f"not in {_FOLDER}"),
    )


def _number(found: dict[int, bytes], kind: int, name: str) -> int | Missing:
    value = netlink.number(found.get(kind))
    if value is not None:
        return value
    return Missing(Why.MALFORMED if kind in found else Why.ABSENT, name)


def _word(found: dict[int, bytes], kind: int, name: str, table: type[N]) -> N | Missing:
    number = _number(found, kind, name)
    if isinstance(number, Missing):
        return number
    return table.from_number(number) or Missing(Why.MALFORMED, f"{name}: {number}")


# --- /proc/net/bonding --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LacpOfLeg:
    """What the driver's file says of a leg, and rtnetlink does not, or not everywhere."""

    actor_churn: Churn | Missing = _NO_CHURN
    partner_churn: Churn | Missing = _NO_CHURN
    partner_mac: str | Missing = _NO_PARTNER


def parse_bonding_file(raw: bytes) -> dict[str, LacpOfLeg] | Missing:
    """/proc/net/bonding/NAME (bond_procfs.c) → by the names of legs."""
    lines = raw.decode("utf-8", "backslashreplace").splitlines()
    if not lines or "Channel Bonding Driver" not in lines[0]:
        return malformed(raw, "a file of the bonding driver")
    found: dict[str, LacpOfLeg] = {}
    leg, of_partner = "", False
    for line in lines:
        name, _, value = (part.strip() for part in line.partition(":"))
        if name == "Slave Interface":
            leg, of_partner = value, False
            found[leg] = LacpOfLeg()
        elif leg and name == "Actor Churn State":
            found[leg] = replace(found[leg], actor_churn=_churn(value))
        elif leg and name == "Partner Churn State":
            found[leg] = replace(found[leg], partner_churn=_churn(value))
        elif name.startswith("details "):
            of_partner = name.startswith("details partner")
        elif leg and of_partner and name == "system mac address":
            mac = value if _MAC.fullmatch(value) else malformed(value.encode(), "a MAC address")
            found[leg] = replace(found[leg], partner_mac=mac)
    return found


def _churn(word: str) -> Churn | Missing:
    known = next((each for each in Churn if each == word), None)
    return known or malformed(word.encode(), "a churn state")


# --- reading -----------------------------------------------------------------------------


def read_bonds(host: Host, links: bytes) -> tuple[Bonding, ...] | Missing:
    """The bonds of the links, with what their files add in the mode that has it."""
    bonds = parse_bonds(links)
    return bonds if isinstance(bonds, Missing) else tuple(_with_files(host, bonds))


def _with_files(host: Host, bonds: Iterable[Bonding]) -> Iterator[Bonding]:
    for bond in bonds:
        name = bond.netdev
        if bond.mode is not BondMode.LACP or "/" in name or name in (".", ".."):
            yield bond
            continue
        raw = host.read(f"{_FOLDER}/{name}")
        rows = raw if isinstance(raw, Missing) else parse_bonding_file(raw)
        yield replace(bond, legs=tuple(_with_row(each, rows) for each in bond.legs))


def _with_row(leg: Leg, rows: dict[str, LacpOfLeg] | Missing) -> Leg:
    row = (
        LacpOfLeg(rows, rows, rows)
        if isinstance(rows, Missing)
        else rows.get(leg.netdev, LacpOfLeg())
    )
    return replace(
        leg,
        actor_churn=row.actor_churn if isinstance(leg.actor_churn, Missing) else leg.actor_churn,
        partner_churn=(
            row.partner_churn if isinstance(leg.partner_churn, Missing) else leg.partner_churn
        ),
        partner_mac=row.partner_mac,
    )
