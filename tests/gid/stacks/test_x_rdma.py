"""x/rdma's rule, on tables that it was not made for too."""

import pytest

from rdmadiag.facts import GidEntry
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import GidType, LinkLayer
from rdmadiag.gid.stacks import x_rdma

LINK_LOCAL, IPV4 = "fe80::1", "::ffff:192.168.1.5"


def entry(index: int, gid: str, kind: GidType = GidType.ROCE_V2) -> GidEntry:
    return GidEntry(index, Gid.parse(gid), kind, "eth0")


@pytest.mark.parametrize(
    ("layer", "rows", "index"),
    [
        pytest.param(
            LinkLayer.THUNDERBOLT, [(0, "fe80::1"), (1, "fe80::2")], 1, id="x/rdma's example"
        ),
        pytest.param(
            LinkLayer.THUNDERBOLT,
            [(0, LINK_LOCAL), (1, LINK_LOCAL), (2, IPV4)],
            2,
            id="IPv4 goes before index 1",
        ),
        pytest.param(LinkLayer.THUNDERBOLT, [(0, IPV4)], None, id="index 0 is refused"),
        pytest.param(LinkLayer.ETHERNET, [(0, LINK_LOCAL)], 0, id="elsewhere index 0 will do"),
        pytest.param(LinkLayer.ETHERNET, [(3, LINK_LOCAL)], 3, id="or the first not empty"),
        pytest.param(LinkLayer.ETHERNET, [(8, IPV4)], None, id="not beyond the eighth entry"),
        pytest.param(LinkLayer.ETHERNET, [], None, id="nothing of nothing"),
    ],
)
def test_x_rdma_takes(layer: LinkLayer, rows: list[tuple[int, str]], index: int | None) -> None:
    entries = [entry(*row) for row in rows]
    chosen = x_rdma.select(entries, layer)
    assert (None if chosen is None else chosen.index) == index
    pick = x_rdma.pick(entries, layer)
    assert (pick.stack, pick.index) == ("x-rdma", index)
    assert pick.why
    assert (pick.problem is not None) == (index is None)


def test_on_roce_it_takes_the_v1_twin_and_that_is_called_a_problem() -> None:
    entries = [
        entry(0, LINK_LOCAL, GidType.ROCE_V1),
        entry(1, LINK_LOCAL, GidType.ROCE_V2),
        entry(2, IPV4, GidType.ROCE_V1),
        entry(3, IPV4, GidType.ROCE_V2),
    ]
    pick = x_rdma.pick(entries, LinkLayer.ETHERNET)
    assert pick.index == 2
    assert pick.problem is not None
    assert "RoCE v1" in pick.problem
