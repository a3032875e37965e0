"""Which packets nftables drops: chains of one row or two."""

from dataclasses import replace

import pytest

from rdmadiag.facts.packet_filter import FilterChain, PacketFilter
from rdmadiag.facts.traffic_control import ANY, IN, OUT, UDP, TrafficFilter
from rdmadiag.view.packet_filter import refused
from rdmadiag.view.traffic import Dropped, Packet

ROW = TrafficFilter(
    "", IN, "nft", 7, ANY, drops=True, ends=True, in_hardware=False, understood=True
)
ROCE = Packet(IN, UDP, 4791)


def chain(name: str, *rows: TrafficFilter) -> FilterChain:
    return FilterChain("inet", "t", name, rows[0].direction, 0, rows)


@pytest.mark.parametrize(
    ("rows", "how", "own"),
    [
        pytest.param((ROW,), Dropped.SURELY, False, id="all"),
        pytest.param((replace(ROW, protocol=UDP),), Dropped.SURELY, False, id="its protocol"),
        pytest.param(
            (replace(ROW, destination_port=4000, destination_port_last=4791),),
            *(Dropped.SURELY, False),
            id="a range of ports",
        ),
        pytest.param((replace(ROW, source="192.0.2.9/32"),), Dropped.PERHAPS, True, id="a peer's"),
        pytest.param(
            (replace(ROW, drops=False, source="192.0.2.9/32"), replace(ROW, priority=0)),
            *(Dropped.PERHAPS, False),
            id="all but what is let through before",
        ),
    ],
)
def test_how_sure_it_is(rows: tuple[TrafficFilter, ...], how: Dropped, own: bool) -> None:
    found = refused(PacketFilter((chain("in", *rows),)), "eth0", ROCE)
    assert found is not None
    assert (found.how, found.is_own_doubt) == (how, own)


@pytest.mark.parametrize(
    "row",
    [
        replace(ROW, protocol=6),
        replace(ROW, netdev="eth1"),
        replace(ROW, direction=OUT),
        replace(ROW, drops=False),
        replace(ROW, destination_port=4000, destination_port_last=4790),
    ],
    ids=["another protocol", "another netdev", "the other way", "it is let through", "other ports"],
)
def test_what_is_not_dropped(row: TrafficFilter) -> None:
    assert refused(PacketFilter((chain("in", row),)), "eth0", ROCE) is None


def test_each_chain_is_asked_and_the_surest_rule_is_named() -> None:
    doubt = chain("first", replace(ROW, source="192.0.2.9/32"))
    passes = chain("second", replace(ROW, drops=False))
    policy = chain("third", replace(ROW, priority=0))
    found = refused(PacketFilter((doubt, passes, policy)), "eth0", ROCE)
    assert found is not None
    assert found.place == "inet t third, policy"
    perhaps = refused(PacketFilter((doubt, passes)), "eth0", ROCE)
    assert perhaps is not None
    assert perhaps.place == "inet t first, handle 7"
