"""Mooncake: three engines, and a rule of the Transfer Engine for nearly every release.

MC_GID_INDEX, and where it is not set NCCL_IB_GID_INDEX, of 0 to 255 pins the row; other
values are passed over. atoi: a word is 0. A pinned row that is empty fails the device, one
without a netdev failed it in 0.3.8 and 0.3.9. To 0.3.7, 0 means: choose.

Transfer Engine, ≥0.3.12: rows that are not empty and RoCE v2 or InfiniBand. Degraded is a v2
row of an overlay (flannel…, cni…, calico…, vxlan…, docker…, tunl0) or link-local; private is
IPv4 of 10/8, 172.16/12, 100.64/10, but not 192.168/16. In this order, the lowest index of
equals: with netdev and routable; no netdev, routable; netdev, private; netdev, degraded; no
netdev, private; no netdev, degraded; then any other row (v1). None: the device fails. After
EINVAL at RTR it ranks anew and tries the next.
0.3.10-0.3.11: IPv4 v2 with netdev; IPv4 v2 without; v2 or InfiniBand with, then without one.
The scan ends at the first empty row.
0.3.8-0.3.9: IPv4 v2 or InfiniBand, with netdev before without; else the device fails.
0.3.7: the same, else 0. 0.3.0-0.3.6: the first of them, else 0.
0.2.0: the first IPv4 row of any type if row 0 is none, else 0.

TENT: IPv4 v2 or InfiniBand: with netdev and no overlay (private addresses count as one); then
overlay; then no netdev; then the first row that is not empty. Both variables go into one key,
and NCCL_IB_GID_INDEX, which is read last, wins.

EP (IBGDA): the first row that is IPv4 v2 or InfiniBand, else it fails; no variable.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

from rdmadiag.facts import GidEntry
from rdmadiag.facts.gid import Family
from rdmadiag.facts.ib import GidType
from rdmadiag.gid.c_number import atoi, has_number, strtol
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
from rdmadiag.gid.stacks import nccl

INDEX: Final = "MC_GID_INDEX"
_HIGHEST: Final = 255
_OVERLAYS: Final = ("flannel", "cni", "calico", "vxlan", "docker")
_TUNNEL: Final = "tunl0"


def _usable(table: PortTable) -> Iterator[GidEntry]:
    """RoCE v2 and InfiniBand rows."""
    return (each for each in table.entries if each.is_v2 or each.type is GidType.IB)


def _ipv4_or_infiniband(table: PortTable) -> Iterator[GidEntry]:
    for entry in _usable(table):
        if entry.family_or_multicast is Family.IPV4 or entry.type is GidType.IB:
            yield entry


def _is_overlay(netdev: str | None) -> bool:
    return netdev is not None and (netdev.startswith(_OVERLAYS) or netdev == _TUNNEL)


def _is_private(entry: GidEntry) -> bool:
    """isOverlayIPv4: without 192.168.0.0/16."""
    if entry.family_or_multicast is not Family.IPV4:
        return False
    first, second = entry.gid.raw[12:14]
    return (
        first == 10
        or (first == 172 and 16 <= second <= 31)
        or (first == 100 and 64 <= second <= 127)
    )


# --- the variables ---------------------------------------------------------------------------


def _variable(environment: Environment) -> str | None:
    """The variable that is read: the second only where the first is not there at all."""
    return next((name for name in (INDEX, nccl.INDEX) if name in environment), None)


def pin(
    table: PortTable, environment: Environment, *, zero_chooses: bool, needs_netdev: bool
) -> Answer | None:
    """The row that a variable names; None where the engine chooses."""
    variable = _variable(environment)
    if variable is None:
        return None
    index = atoi(environment[variable])
    if not 0 <= index <= _HIGHEST or (zero_chooses and index == 0):
        return None
    return _checked(table, index, variable, environment, needs_netdev=needs_netdev)


def _checked(
    table: PortTable, index: int, variable: str, environment: Environment, *, needs_netdev: bool
) -> Answer:
    what = f"{variable}={environment[variable]}"
    entry = table.at(index)
    if not table.is_inside(index):
        return fails(f"{what} is beyond the table: the device fails", variable)
    if entry.is_empty:
        return fails(f"{what}: row {index} is empty, the device fails", variable)
    if needs_netdev and entry.netdev_name is None:
        return fails(f"{what}: row {index} has no netdev, the device fails", variable)
    if not has_number(environment[variable]):
        return Answer(index, f"{what}, which is no number and so 0", pinned_by=variable)
    return pinned(index, variable, environment)


# --- Transfer Engine -------------------------------------------------------------------------

_CLASSES: Final = (
    "with a netdev, routable",
    "without a netdev, routable",
    "with a netdev, private IPv4",
    "with a netdev, link-local or of an overlay",
    "without a netdev, private IPv4",
    "without a netdev, link-local",
)


def _class(entry: GidEntry) -> int:
    is_ipv6 = entry.family_or_multicast is Family.IPV6
    degraded = entry.is_v2 and (
        _is_overlay(entry.netdev_name) or (is_ipv6 and entry.is_link_local_10)
    )
    private = entry.is_v2 and not degraded and _is_private(entry)
    if entry.netdev_name is not None:
        return 3 if degraded else 2 if private else 0
    return 5 if degraded else 4 if private else 1


def ranked(table: PortTable, environment: Environment) -> Answer:
    """rankAutoGidCandidates: 0.3.12 and newer."""
    chosen = pin(table, environment, zero_chooses=False, needs_netdev=False)
    if chosen is not None:
        return chosen
    best = min(((_class(each), each.index) for each in _usable(table)), default=None)
    if best is not None:
        return Answer(best[1], f"first row that is {_CLASSES[best[0]]}")
    for entry in table.entries:
        return Answer(entry.index, "no RoCE v2 row, so the first that is not empty")
    return fails("every row is empty: the device fails")


def to_first_hole(table: PortTable, environment: Environment) -> Answer:
    """0.3.10 and 0.3.11."""
    chosen = pin(table, environment, zero_chooses=False, needs_netdev=False)
    if chosen is not None:
        return chosen
    end = 0
    for entry in table.entries:
        if entry.index != end:
            break
        end += 1
    steps = (
        ("IPv4 with a netdev", True, True),
        ("IPv4 without a netdev", True, False),
        ("not IPv4, with a netdev", False, True),
        ("not IPv4, without a netdev", False, False),
    )
    rows = [entry for entry in _usable(table) if entry.index < end]
    for words, ipv4, netdev in steps:
        for row in rows:
            is_ipv4 = row.is_v2 and row.family_or_multicast is Family.IPV4
            if is_ipv4 is ipv4 and (row.netdev_name is not None) is netdev:
                return Answer(row.index, f"first row before the first empty one that is {words}")
    if any(entry.index >= end for entry in table.entries):
        why = f"row {end} is empty, and the scan ends there: the device fails"
        return Answer(None, why, Outcome.FAILS, ended_at=end)
    return fails("no RoCE v2 row: the device fails")


def with_netdev(table: PortTable, environment: Environment, *, prefers: bool, zero: bool) -> Answer:
    """0.3.0 to 0.3.9: `prefers` netdevs; `zero`: index 0 where there is no row, and as a pin."""
    chosen = pin(table, environment, zero_chooses=zero, needs_netdev=not zero)
    if chosen is not None:
        return chosen
    rows = list(_ipv4_or_infiniband(table))
    if prefers:
        rows.sort(key=lambda each: each.netdev_name is None)
    if rows:
        without = ", without a netdev" if prefers and rows[0].netdev_name is None else ""
        return Answer(rows[0].index, f"first row that is IPv4 RoCE v2 or InfiniBand{without}")
    if not zero:
        return fails("no IPv4 RoCE v2 row: the device fails")
    return _or_zero(table, "no IPv4 RoCE v2 row")


def any_ipv4(table: PortTable, environment: Environment) -> Answer:
    """0.2.0."""
    chosen = pin(table, environment, zero_chooses=True, needs_netdev=False)
    if chosen is not None:
        return chosen
    if table.at(0).family_or_multicast is not Family.IPV4:
        for entry in table.entries:
            if entry.index and entry.family_or_multicast is Family.IPV4:
                return Answer(entry.index, "first IPv4 row, whatever its type")
    return _or_zero(table, "no other IPv4 row")


def _or_zero(table: PortTable, why: str) -> Answer:
    if table.at(0).is_empty:
        return fails(f"{why}, and row 0 is empty: the device fails")
    return Answer(0, f"{why}, so index 0")


# --- the other engines -----------------------------------------------------------------------


def tent(table: PortTable, environment: Environment) -> Answer:
    """getBestGidIndex of TENT."""
    variable = next((name for name in (nccl.INDEX, INDEX) if name in environment), None)
    if variable is not None:
        index = strtol(environment[variable])
        if index is not None and index >= 0:
            return _checked(table, index, variable, environment, needs_netdev=False)
    rows = list(_ipv4_or_infiniband(table))

    def first(words: str, fitting: Iterable[GidEntry]) -> Answer | None:
        entry = next(iter(fitting), None)
        return None if entry is None else Answer(entry.index, f"first row that is {words}")

    def overlay(entry: GidEntry) -> bool:
        return _is_overlay(entry.netdev_name) or _is_private(entry)

    return (
        first(
            "IPv4 with a netdev, and no overlay",
            (each for each in rows if each.netdev_name and not overlay(each)),
        )
        or first("of an overlay or private", (each for each in rows if each.netdev_name))
        or first("IPv4 without a netdev", rows)
        or first("not empty", table.entries)
        or fails("every row is empty: the device fails")
    )


def expert_parallel(table: PortTable, environment: Environment) -> Answer:
    """findBestGidIndex of EP's IBGDA."""
    for entry in _ipv4_or_infiniband(table):
        return Answer(entry.index, "first row that is IPv4 RoCE v2 or InfiniBand")
    return fails("no IPv4 RoCE v2 row")


_SOURCE: Final = "mooncake-transfer-engine/src/transport/rdma_transport/rdma_context.cpp"

STACKS: Final = (
    Stack(
        name="mooncake",
        title="Mooncake",
        source=f"kvcache-ai/Mooncake@3b5a5941 {_SOURCE}",
        versions=(
            Version("≥0.3.12", ranked, since=(0, 3, 12)),
            Version(
                "0.3.10-0.3.11",
                to_first_hole,
                since=(0, 3, 10),
                until=(0, 3, 12),
                source=f"kvcache-ai/Mooncake@v0.3.11 {_SOURCE}",
            ),
            Version(
                "0.3.8-0.3.9",
                partial(with_netdev, prefers=True, zero=False),
                since=(0, 3, 8),
                until=(0, 3, 10),
                source=f"kvcache-ai/Mooncake@v0.3.9 {_SOURCE}",
            ),
            Version(
                "0.3.7",
                partial(with_netdev, prefers=True, zero=True),
                since=(0, 3, 7),
                until=(0, 3, 8),
                source=f"kvcache-ai/Mooncake@v0.3.7 {_SOURCE}",
            ),
            Version(
                "0.3.0-0.3.6",
                partial(with_netdev, prefers=False, zero=True),
                since=(0, 3),
                until=(0, 3, 7),
                source=f"kvcache-ai/Mooncake@v0.3.0 {_SOURCE}",
            ),
            Version(
                "0.2.0",
                any_ipv4,
                until=(0, 3),
                source=f"kvcache-ai/Mooncake@v0.2.0 {_SOURCE}",
            ),
        ),
        pin=Pin(INDEX, automatic=True),
        variables=(INDEX, nccl.INDEX),
    ),
    Stack(
        name="mooncake-tent",
        title="Mooncake TENT",
        source="kvcache-ai/Mooncake@3b5a5941 "
        "mooncake-transfer-engine/tent/src/transport/rdma/context.cpp",
        versions=(Version("any", tent),),
        pin=Pin(INDEX, automatic=True),
        variables=(INDEX, nccl.INDEX),
    ),
    Stack(
        name="mooncake-ep",
        title="Mooncake EP",
        source="kvcache-ai/Mooncake@3b5a5941 "
        "mooncake-transfer-engine/src/transport/device/ibgda_device_transport.cpp",
        versions=(Version("any", expert_parallel),),
        option="no variable; the addresses of the netdev decide",
    ),
)
