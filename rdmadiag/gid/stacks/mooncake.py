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

from rdmadiag.facts.gid import Family
from rdmadiag.facts.ib import GidType
from rdmadiag.gid.c_number import atoi, has_number, strtol
from rdmadiag.gid.slots import Slot, SlotTable
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


def _usable(table: SlotTable) -> Iterator[tuple[int, Slot]]:
    """RoCE v2 and InfiniBand rows."""
    for index, slot in table.entries:
        if (slot.is_v2 or slot.type is GidType.IB) and table.is_inside(index):
            yield index, slot


def _ipv4_or_infiniband(table: SlotTable) -> Iterator[tuple[int, Slot]]:
    for index, slot in _usable(table):
        if slot.family is Family.IPV4 or slot.type is GidType.IB:
            yield index, slot


def _is_overlay(netdev: str | None) -> bool:
    return netdev is not None and (netdev.startswith(_OVERLAYS) or netdev == _TUNNEL)


def _is_private(slot: Slot) -> bool:
    """isOverlayIPv4: without 192.168.0.0/16."""
    if slot.family is not Family.IPV4:
        return False
    first, second = slot.ipv4_octets
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
    table: SlotTable, environment: Environment, *, zero_chooses: bool, needs_netdev: bool
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
    table: SlotTable, index: int, variable: str, environment: Environment, *, needs_netdev: bool
) -> Answer:
    what = f"{variable}={environment[variable]}"
    slot = table.at(index)
    if not table.is_inside(index):
        return fails(f"{what} is beyond the table: the device fails", variable)
    if slot.is_empty:
        return fails(f"{what}: row {index} is empty, the device fails", variable)
    if needs_netdev and slot.netdev is None:
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


def _class(slot: Slot) -> int:
    degraded = slot.is_v2 and (
        _is_overlay(slot.netdev) or (slot.family is not Family.IPV4 and slot.is_link_local_10)
    )
    private = slot.is_v2 and not degraded and _is_private(slot)
    if slot.netdev is not None:
        return 3 if degraded else 2 if private else 0
    return 5 if degraded else 4 if private else 1


def ranked(table: SlotTable, environment: Environment) -> Answer:
    """rankAutoGidCandidates: 0.3.12 and newer."""
    chosen = pin(table, environment, zero_chooses=False, needs_netdev=False)
    if chosen is not None:
        return chosen
    best = min(((_class(slot), index) for index, slot in _usable(table)), default=None)
    if best is not None:
        return Answer(best[1], f"first row that is {_CLASSES[best[0]]}")
    for index, _ in table.entries:
        if table.is_inside(index):
            return Answer(index, "no RoCE v2 row, so the first that is not empty")
    return fails("every row is empty: the device fails")


def to_first_hole(table: SlotTable, environment: Environment) -> Answer:
    """0.3.10 and 0.3.11."""
    chosen = pin(table, environment, zero_chooses=False, needs_netdev=False)
    if chosen is not None:
        return chosen
    end = 0
    for index, _ in table.entries:
        if index != end:
            break
        end += 1
    steps = (
        ("IPv4 with a netdev", True, True),
        ("IPv4 without a netdev", True, False),
        ("not IPv4, with a netdev", False, True),
        ("not IPv4, without a netdev", False, False),
    )
    rows = [(index, slot) for index, slot in _usable(table) if index < end]
    for words, ipv4, netdev in steps:
        for index, slot in rows:
            is_ipv4 = slot.is_v2 and slot.family is Family.IPV4
            if is_ipv4 is ipv4 and (slot.netdev is not None) is netdev:
                return Answer(index, f"first row before the first empty one that is {words}")
    cut = any(index >= end for index, _ in table.entries)
    return fails(
        f"row {end} is empty, and the scan ends there: the device fails"
        if cut
        else "no RoCE v2 row: the device fails"
    )


def with_netdev(table: SlotTable, environment: Environment, *, prefers: bool, zero: bool) -> Answer:
    """0.3.0 to 0.3.9: `prefers` netdevs; `zero`: index 0 where there is no row, and as a pin."""
    chosen = pin(table, environment, zero_chooses=zero, needs_netdev=not zero)
    if chosen is not None:
        return chosen
    rows = list(_ipv4_or_infiniband(table))
    if prefers:
        rows.sort(key=lambda each: each[1].netdev is None)
    if rows:
        index, slot = rows[0]
        without = ", without a netdev" if prefers and slot.netdev is None else ""
        return Answer(index, f"first row that is IPv4 RoCE v2 or InfiniBand{without}")
    if not zero:
        return fails("no IPv4 RoCE v2 row: the device fails")
    return _or_zero(table, "no IPv4 RoCE v2 row")


def any_ipv4(table: SlotTable, environment: Environment) -> Answer:
    """0.2.0."""
    chosen = pin(table, environment, zero_chooses=True, needs_netdev=False)
    if chosen is not None:
        return chosen
    if table.at(0).family is not Family.IPV4:
        for index, slot in table.entries:
            if index and slot.family is Family.IPV4 and table.is_inside(index):
                return Answer(index, "first IPv4 row, whatever its type")
    return _or_zero(table, "no other IPv4 row")


def _or_zero(table: SlotTable, why: str) -> Answer:
    if table.at(0).is_empty:
        return fails(f"{why}, and row 0 is empty: the device fails")
    return Answer(0, f"{why}, so index 0")


# --- the other engines -----------------------------------------------------------------------


def tent(table: SlotTable, environment: Environment) -> Answer:
    """getBestGidIndex of TENT."""
    variable = next((name for name in (nccl.INDEX, INDEX) if name in environment), None)
    if variable is not None:
        index = strtol(environment[variable])
        if index is not None and index >= 0:
            return _checked(table, index, variable, environment, needs_netdev=False)
    rows = list(_ipv4_or_infiniband(table))

    def first(words: str, fitting: Iterable[int]) -> Answer | None:
        index = next(iter(fitting), None)
        return None if index is None else Answer(index, f"first row that is {words}")

    def overlay(slot: Slot) -> bool:
        return _is_overlay(slot.netdev) or _is_private(slot)

    return (
        first(
            "IPv4 with a netdev, and no overlay",
            (i for i, s in rows if s.netdev and not overlay(s)),
        )
        or first("of an overlay or private", (i for i, s in rows if s.netdev))
        or first("IPv4 without a netdev", (i for i, _ in rows))
        or first("not empty", (i for i, _ in table.entries if table.is_inside(i)))
        or fails("every row is empty: the device fails")
    )


def expert_parallel(table: SlotTable, environment: Environment) -> Answer:
    """findBestGidIndex of EP's IBGDA."""
    for index, _ in _ipv4_or_infiniband(table):
        return Answer(index, "first row that is IPv4 RoCE v2 or InfiniBand")
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
