"""perftest (ib_send_lat, ib_write_bw, …): by LID on InfiniBand; else the best score.

`-x INDEX` is taken unchecked. Without it, on Ethernet, each row that is not empty scores 100
for the wanted family (IPv4; `--ipv6` inverts), 10 if it is not link-local (fe80::/10,
169.254.0.0/16), 2 for RoCE v2 or 1 for v1; the highest wins, the lowest index of equals.

Before 26.04.17 (most distributions): from row 1 on and with 0 as the one to beat, an IPv4
row takes over from one that is not; otherwise a v2 row from a v1 row, whatever their
families; no comparison where either is empty. It may end on 0 or on an empty row.

With `-R`, rdma_cm chooses, and the header shows the first index with the same bytes, which
can be the v1 twin of the row in use.
"""

from typing import Final

from rdmadiag.facts import GidEntry
from rdmadiag.facts.gid import Family, Scope
from rdmadiag.gid.port_table import PortTable
from rdmadiag.gid.stack import Answer, Environment, Stack, Version, by_lid, fails

_FAMILY, _SCOPE = 100, 10
_BY_LID: Final = "InfiniBand: by LID unless -x is given"


def newer(table: PortTable, environment: Environment) -> Answer:
    """compute_gid_score."""
    if table.is_infiniband:
        return by_lid(_BY_LID)
    best, chosen = -1, -1
    for entry in table.entries:
        score = _score(entry)
        if score > best:
            best, chosen = score, entry.index
    if chosen < 0:
        return fails("every row is empty")
    taken = table.at(chosen)
    words = [
        "IPv4" if best >= _FAMILY else "no IPv4",
        "routable" if best % _FAMILY >= _SCOPE else "link-local",
        "RoCE v2" if taken.is_v2 else "RoCE v1" if taken.is_v1 else "unknown type",
    ]
    return Answer(chosen, f"highest score, {best}: {', '.join(words)}")


def _score(entry: GidEntry) -> int:
    link_local = entry.scope is Scope.LINK_LOCAL
    rate = 2 if entry.is_v2 else 1 if entry.is_v1 else 0
    # ipv6_addr_v4mapped of perftest takes IPv4 multicast for IPv4 as well.
    return _FAMILY * (entry.family_or_multicast is Family.IPV4) + _SCOPE * (not link_local) + rate


def older(table: PortTable, environment: Environment) -> Answer:
    """get_best_gid_index of 57927ab's parent."""
    if table.is_infiniband:
        return by_lid(_BY_LID)
    if not table.length:
        return Answer(0, "the table has no rows")
    families = table.families
    held, step = table.at(0), "no row is better than row 0"
    for rival in table.entries:
        if not rival.index:
            continue
        is_ipv4, was_ipv4 = (families[each.index] is Family.IPV4 for each in (rival, held))
        if is_ipv4 and not was_ipv4:
            held, step = rival, "first IPv4 row"
        elif not held.is_empty and _rate(rival) > _rate(held):
            held, step = rival, "first row that is RoCE v2, after a v1 row"
    return Answer(held.index, step)


def _rate(entry: GidEntry) -> int:
    return 2 if entry.is_v2 else 1 if entry.is_v1 else -1


STACKS: Final = (
    Stack(
        name="perftest",
        title="perftest",
        source="linux-rdma/perftest@00b55b66 src/perftest_communication.c",
        versions=(
            Version("≥26.04.17", newer, since=(26, 4, 17)),
            Version(
                "<26.04.17",
                older,
                until=(26, 4, 17),
                source="linux-rdma/perftest@57927ab^ src/perftest_communication.c",
            ),
        ),
        option="ib_send_lat -x INDEX",
    ),
)
