"""UCX: RoCE v2 before v1, IPv4 before IPv6; and a port whose first GID is empty is dropped.

1. The gate, on both link layers: the row that UCX_IB_GID_INDEX names, or row 0 where it is
   auto, must have an interface identifier (to 1.15: must not be all zero). If not, the port
   is left out, even though a row would be chosen later.
2. InfiniBand: the index that is set. auto: since 1.16 row 1, if UCX_IB_FLID_ROUTE is y, its
   FLID is not 0 and its interface identifier begins with the OUI 00:14:05; else row 0.
3. RoCE: the index that is set; an error together with UCX_IB_ROCE_SUBNETS (1.18 and newer).
4. RoCE, auto: the lowest row of (v2, IPv4), (v2, IPv6 that is not link-local), (v2, IPv6),
   then the same of v1. To 1.20 there is no step for link-local, so that IPv6 is usually the
   default fe80::. A type that cannot be read is v1. A row also has to pass ibv_create_ah
   towards itself, and the subnets.
5. No row: an error with subnets set, else row 0.
"""

import ipaddress
import re
from collections.abc import Sequence
from functools import partial
from typing import Final

from rdmadiag.facts import GidEntry
from rdmadiag.facts.gid import Family
from rdmadiag.facts.ib import GidType
from rdmadiag.gid.pick import Outcome
from rdmadiag.gid.port_table import PortTable
from rdmadiag.gid.stack import (
    Answer,
    Environment,
    Pin,
    Stack,
    Version,
    fails,
    pinned,
)

INDEX: Final = "UCX_IB_GID_INDEX"
SUBNETS: Final = "UCX_IB_ROCE_SUBNETS"
FLID_ROUTE: Final = "UCX_IB_FLID_ROUTE"
OPENIB_OUI: Final = bytes.fromhex("001405")

PROBE: Final = "that ibv_create_ah towards the row itself succeeds"
"""What UCX tries on the device for each candidate, and no table shows."""

_FLID_ROW: Final = 1
_NO: Final = ("n", "no", "off", "0", "false")

_Priority = tuple[str, GidType, Family, bool]  # the step's words, and whether fe80:: will do
_NEWER: Final[tuple[_Priority, ...]] = tuple(
    (f"{word} with {address}", kind, family, link_local)
    for kind, word in ((GidType.ROCE_V2, "RoCE v2"), (GidType.ROCE_V1, "RoCE v1"))
    for address, family, link_local in (
        ("IPv4", Family.IPV4, True),
        ("IPv6 that is not link-local", Family.IPV6, False),
        ("IPv6", Family.IPV6, True),
    )
)
_OLDER: Final = tuple(step for step in _NEWER if step[3])


def rule(
    table: PortTable,
    environment: Environment,
    *,
    order: Sequence[_Priority],
    flid: bool,
    interface_id: bool,
) -> Answer:
    """uct_ib_device_port_check, then uct_ib_iface_init_gid_info."""
    text = environment.get(INDEX, "auto").strip()
    index: int | None = None
    if text.lower() != "auto":
        match = re.match(r"\+?([0-9]{1,18})", text)
        if match is None:
            return fails(f"{INDEX}={text} is no number and not auto", pinned_by=INDEX)
        index = int(match[1])
    gate = 0 if index is None else index
    held = table.at(gate)
    if held.is_empty or (interface_id and not held.has_interface_id):
        return _dropped(table, environment, gate, is_pinned=index is not None)
    if table.is_infiniband:
        if index is not None:
            return pinned(index, INDEX, environment)
        return _infiniband(table, environment) if flid else Answer(0, "InfiniBand: index 0")
    subnets = environment.get(SUBNETS, "all").strip()
    if index is not None:
        if flid and subnets.lower() != "all":
            return fails(f"{INDEX} and {SUBNETS} exclude each other", pinned_by=INDEX)
        return pinned(index, INDEX, environment)
    return _automatic(table, subnets if flid else "all", order)


def _dropped(table: PortTable, environment: Environment, gate: int, *, is_pinned: bool) -> Answer:
    what = "is empty" if table.is_inside(gate) else "is beyond the table"
    if table.is_inside(gate) and not table.at(gate).is_empty:
        what = "has no interface identifier"
    why = f"{INDEX}={environment[INDEX]}: row {gate} {what}" if is_pinned else f"row 0 {what}"
    return Answer(None, why, Outcome.DROPS_PORT, pinned_by=INDEX if is_pinned else None)


def _infiniband(table: PortTable, environment: Environment) -> Answer:
    entry = table.at(_FLID_ROW)
    enabled = environment.get(FLID_ROUTE, "y").strip().lower() not in _NO
    if enabled and entry.has_interface_id and entry.gid.raw[4:6] != b"\0\0":
        if entry.gid.raw[8:11] == OPENIB_OUI:
            return Answer(_FLID_ROW, "the GID at 1 has a FLID and the OUI 00:14:05")
        return Answer(0, "the GID at 1 has a FLID, but not the OUI 00:14:05")
    return Answer(0, "InfiniBand: index 0")


def _automatic(table: PortTable, text: str, order: Sequence[_Priority]) -> Answer:
    subnets = _subnets(text)
    if subnets is None:
        return fails(f"{SUBNETS}={text} is no list of ADDRESS/BITS", pinned_by=SUBNETS)
    first: dict[tuple[bool, bool, bool], int] = {}  # RoCE v2, IPv4, link-local → the lowest row
    for entry in table.entries:
        if not entry.has_interface_id:
            continue
        if subnets and _is_within(entry, subnets) == text.startswith("^"):
            continue
        is_ipv4 = entry.family_or_multicast is Family.IPV4
        first.setdefault((entry.is_v2, is_ipv4, entry.is_link_local_10), entry.index)
    inside = f", {SUBNETS} considered" if subnets else ""
    for words, kind, family, link_local in order:
        wanted = (kind is GidType.ROCE_V2, family is Family.IPV4)
        fitting = (
            index
            for key, index in first.items()
            if key[:2] == wanted and (link_local or not key[2])
        )
        found = min(fitting, default=None)
        if found is not None:
            return Answer(found, f"lowest row that is {words}{inside}", assumed=(PROBE,))
    if subnets:
        return fails(f"no row fits {SUBNETS}={text}", pinned_by=SUBNETS)
    return Answer(0, "no row fits, so index 0")


_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _subnets(text: str) -> tuple[_Network, ...] | None:
    """The networks of a list, () for "all"; None for what is no list of ADDRESS/BITS."""
    if text.lower() == "all":
        return ()
    parts = text.removeprefix("^").split(",")
    if not all("/" in part for part in parts):
        return None
    try:
        return tuple(ipaddress.ip_network(part.strip(), strict=False) for part in parts)
    except ValueError:
        return None


def _is_within(entry: GidEntry, subnets: Sequence[_Network]) -> bool:
    address: ipaddress.IPv4Address | ipaddress.IPv6Address
    if entry.family_or_multicast is Family.IPV4:
        address = ipaddress.IPv4Address(entry.gid.raw[12:])
    else:
        address = ipaddress.IPv6Address(entry.gid.raw)
    return any(address in subnet for subnet in subnets)


STACKS: Final = (
    Stack(
        name="ucx",
        title="UCX",
        source="openucx/ucx@9466d104 src/uct/ib/base/ib_device.c",
        versions=(
            Version(
                "≥1.21",
                partial(rule, order=_NEWER, flid=True, interface_id=True),
                since=(1, 21),
            ),
            Version(
                "1.16-1.20",
                partial(rule, order=_OLDER, flid=True, interface_id=True),
                since=(1, 16),
                until=(1, 21),
                source="openucx/ucx@v1.20.0 src/uct/ib/base/ib_device.c",
            ),
            Version(
                "≤1.15",
                partial(rule, order=_OLDER, flid=False, interface_id=False),
                until=(1, 16),
                source="openucx/ucx@v1.13.1 src/uct/ib/base/ib_device.c",
            ),
        ),
        pin=Pin(INDEX, automatic=True),
        variables=(INDEX, SUBNETS, FLID_ROUTE),
    ),
)
