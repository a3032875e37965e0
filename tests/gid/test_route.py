"""The route policy: one table, one answer."""

import doctest
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts import GidEntry, Missing, Why
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import GidType, LinkLayer
from rdmadiag.gid import route
from rdmadiag.gid.netdev import NetDevState, Unusable
from rdmadiag.gid.route import NoRoute, Route, select_route_gid, select_route_gid_info

V1, V2, IB = GidType.ROCE_V1, GidType.ROCE_V2, GidType.IB
UNKNOWN = Missing(Why.ABSENT)

LINK_LOCAL, OTHER_LINK_LOCAL = "fe80::1", "fe80::2"
IPV4, IPV6 = "::ffff:192.168.1.5", "2001:db8::5"


def table(*rows: tuple[int, str, GidType | Missing]) -> list[GidEntry]:
    return [GidEntry(index, Gid.parse(gid), kind, "eth0") for index, gid, kind in rows]


def twins(*gids: str) -> list[GidEntry]:
    """Each GID as v1 and v2, as mlx5 lays them out."""
    rows = [(gid, kind) for gid in gids for kind in (V1, V2)]
    return table(*((index, gid, kind) for index, (gid, kind) in enumerate(rows)))


def test_the_documented_example_holds() -> None:
    assert doctest.testmod(route).attempted > 0
    assert doctest.testmod(route).failed == 0


# The worked examples of RoCE NICs: A1 to C2 are common tables of mlx5 and of virtual functions.
@pytest.mark.parametrize(
    ("entries", "index"),
    [
        pytest.param(twins(LINK_LOCAL, IPV4, IPV6), 3, id="IPv4 as v2, not its v1 twin"),
        pytest.param(twins(LINK_LOCAL, "::ffff:10.0.0.5", IPV6), 3, id="a private IPv4 address"),
        pytest.param(twins(LINK_LOCAL, IPV6), 3, id="routable IPv6 where there is no IPv4"),
        pytest.param(twins(LINK_LOCAL, OTHER_LINK_LOCAL, IPV4), 5, id="IPv4 behind two fe80 pairs"),
        pytest.param(table((3, IPV4, V2)), 3, id="empty rows before the only address"),
        pytest.param(table((3, LINK_LOCAL, V2)), 3, id="nothing but link-local"),
        pytest.param(table((0, LINK_LOCAL, V2), (1, IPV4, V2)), 1, id="a NIC with v2 alone"),
        pytest.param(table((0, LINK_LOCAL, V1), (1, IPV4, V1)), 1, id="a NIC with v1 alone"),
        pytest.param(table((0, IPV4, V1), (1, LINK_LOCAL, V2)), 1, id="v2 before v1 at any reach"),
        pytest.param(
            table((0, "::ffff:169.254.3.4", V2), (1, IPV6, V2)), 1, id="169.254 is link-local too"
        ),
        pytest.param(
            table((0, LINK_LOCAL, V2), (1, "::ffff:169.254.3.4", V2)),
            1,
            id="169.254 before fe80",
        ),
        pytest.param(table((0, IPV6, V2), (5, IPV4, V2), (9, IPV4, V2)), 5, id="the lowest of two"),
        pytest.param(table((0, IPV4, UNKNOWN), (1, IPV4, V1)), 0, id="unknown type before v1"),
        pytest.param(table((0, IPV4, UNKNOWN), (1, IPV4, V2)), 1, id="unknown type after v2"),
    ],
)
def test_on_ethernet_the_route_is(entries: list[GidEntry], index: int) -> None:
    chosen = select_route_gid(entries, LinkLayer.ETHERNET)
    assert isinstance(chosen, Route)
    assert chosen.index == index
    assert chosen.gid == next(entry.gid for entry in entries if entry.index == index)


def _on(netdev: str | Missing, index: int, gid: str, kind: GidType = V2) -> GidEntry:
    return GidEntry(index, Gid.parse(gid), kind, netdev)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        pytest.param(NetDevState.DOWN, "eth0 is down", id="down"),
        pytest.param(NetDevState.ABSENT, "eth0 is not in this network namespace", id="absent"),
    ],
)
def test_an_entry_without_a_live_netdev_comes_last_and_says_why(
    state: NetDevState, words: str
) -> None:
    dead, worse = _on("eth0", 0, IPV4), _on("eth1", 1, LINK_LOCAL, V1)
    states = {"eth0": state, "eth1": NetDevState.UP}
    chosen = select_route_gid([dead, worse], LinkLayer.ETHERNET, None, states)
    assert isinstance(chosen, Route)
    assert chosen.index == 1
    alone = select_route_gid([dead], LinkLayer.ETHERNET, None, states)
    assert isinstance(alone, Route)
    assert alone.index == 0
    assert words in alone.reason


def test_a_netdev_of_unknown_state_counts_like_one_that_is_up() -> None:
    entries = [_on("eth0", 0, IPV4), _on("eth1", 1, IPV4)]
    chosen = select_route_gid(entries, LinkLayer.ETHERNET, None, {"eth1": NetDevState.UP})
    assert isinstance(chosen, Route)
    assert chosen.index == 0


def test_a_link_local_address_that_the_netdev_lacks_yields_to_one_that_it_has() -> None:
    entries = [_on("eth0", 0, LINK_LOCAL), _on("eth0", 1, OTHER_LINK_LOCAL)]
    chosen = select_route_gid(entries, LinkLayer.ETHERNET, unassigned={0})
    assert isinstance(chosen, Route)
    assert chosen.index == 1
    alone = select_route_gid(entries[:1], LinkLayer.ETHERNET, unassigned={0})
    assert isinstance(alone, Route)
    assert "eth0 does not have that address" in alone.reason


@pytest.mark.parametrize("layer", [LinkLayer.ETHERNET, LinkLayer.THUNDERBOLT])
def test_an_address_that_must_not_be_used_is_not_chosen(layer: LinkLayer) -> None:
    rows = table((0, LINK_LOCAL, V2), (1, IPV6, V2), (2, "2001:db8::6", V2))
    unusable = {1: Unusable.DUPLICATE}
    found = select_route_gid(rows, layer, unusable=unusable)
    assert getattr(found, "index", None) == (2 if layer is LinkLayer.ETHERNET else None)
    asked_for = select_route_gid(rows, layer, 1, unusable=unusable)
    assert isinstance(asked_for, Route)
    assert asked_for.index == 1


@pytest.mark.parametrize(
    ("what", "reason"), [(Unusable.DUPLICATE, "failed"), (Unusable.TENTATIVE, "has not ended")]
)
def test_where_no_address_may_be_used_there_is_no_route(what: Unusable, reason: str) -> None:
    found = select_route_gid(
        table((1, IPV6, V1), (2, IPV6, V2)), LinkLayer.ETHERNET, unusable={1: what, 2: what}
    )
    assert isinstance(found, NoRoute)
    assert found.reason.startswith(IPV6)
    assert found.reason.endswith(reason)


@pytest.mark.parametrize("layer", list(LinkLayer))
def test_an_explicit_index_must_name_an_entry_that_is_not_empty(layer: LinkLayer) -> None:
    entries = table((0, LINK_LOCAL, V2), (4, IPV4, V1))
    chosen = select_route_gid(entries, layer, 4)
    assert isinstance(chosen, Route)
    assert chosen.index == 4
    assert isinstance(select_route_gid(entries, layer, 3), NoRoute)
    zero = [GidEntry(2, Gid(bytes(16)), V2, "eth0")]
    assert isinstance(select_route_gid(zero, layer, 2), NoRoute)


def test_infiniband_routes_by_lid_and_lists_gid_0() -> None:
    chosen = select_route_gid(table((0, "fe80::2:c903:1:2", IB)), LinkLayer.INFINIBAND)
    assert isinstance(chosen, Route)
    assert chosen.index == 0
    assert "by LID" in chosen.reason
    nothing = select_route_gid([], LinkLayer.INFINIBAND)
    assert isinstance(nothing, NoRoute)
    assert "by LID" in nothing.reason


@pytest.mark.parametrize(
    ("entries", "index"),
    [
        pytest.param(table((0, IPV4, IB), (1, LINK_LOCAL, IB)), 1, id="never index 0"),
        pytest.param(table((0, LINK_LOCAL, IB), (2, IPV4, IB)), 2, id="IPv4 wherever it is"),
        pytest.param(table((0, LINK_LOCAL, IB), (1, OTHER_LINK_LOCAL, IB)), 1, id="else index 1"),
        pytest.param(table((0, LINK_LOCAL, IB)), None, id="index 0 alone is none"),
        pytest.param(table((2, LINK_LOCAL, IB)), None, id="index 2 without IPv4 is none"),
        pytest.param(table((8, IPV4, IB)), None, id="the scan ends at 8"),
    ],
)
def test_on_thunderbolt_the_route_is_x_rdmas(entries: list[GidEntry], index: int | None) -> None:
    chosen = select_route_gid(entries, LinkLayer.THUNDERBOLT)
    assert (chosen.index if isinstance(chosen, Route) else None) == index


@pytest.mark.parametrize("preferred", [None, -1, -7])
def test_a_negative_index_is_the_automatic_choice_as_in_x_rdmas_example(
    preferred: int | None,
) -> None:
    rows = table((0, LINK_LOCAL, UNKNOWN), (1, OTHER_LINK_LOCAL, UNKNOWN))
    found = select_route_gid(rows, LinkLayer.THUNDERBOLT, preferred)
    assert isinstance(found, Route)
    assert (found.index, found.reason) == (1, "no IPv4-mapped entry, so index 1")


@pytest.mark.parametrize(
    "row",
    [
        {"Index": 1, "Raw": "fe80", "IPv4Mapped": False},
        {"Index": 1, "Raw": "z" * 32, "IPv4Mapped": False},
        {"Index": 1, "Raw": "fe80" + "00" * 14, "IPv4Mapped": True},
    ],
    ids=["too short", "no digits", "not mapped, though it says so"],
)
def test_a_row_of_gidinfo_that_makes_no_sense_is_refused(row: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"bytes|hexadecimal|IPv4Mapped"):
        select_route_gid_info([row], LinkLayer.THUNDERBOLT)


def test_an_empty_table_has_no_route_on_any_link_layer() -> None:
    for layer in LinkLayer:
        assert isinstance(select_route_gid([], layer), NoRoute)


GIDS = st.binary(min_size=16, max_size=16).map(Gid)
ENTRIES = st.lists(
    st.builds(
        GidEntry,
        index=st.integers(0, 300),
        gid=GIDS | st.just(Gid(bytes(16))),
        type=st.sampled_from([*GidType, UNKNOWN]),
        netdev=st.sampled_from(["eth0", "eth1", UNKNOWN]),
    ),
    max_size=12,
    unique_by=lambda entry: entry.index,
)


@given(
    ENTRIES,
    st.sampled_from(LinkLayer),
    st.none() | st.integers(0, 300),
    st.dictionaries(st.sampled_from(["eth0", "eth1"]), st.sampled_from(NetDevState)),
)
def test_a_route_is_always_an_entry_of_the_table_that_is_not_empty(
    entries: list[GidEntry],
    layer: LinkLayer,
    preferred: int | None,
    netdevs: dict[str, NetDevState],
) -> None:
    chosen = select_route_gid(entries, layer, preferred, netdevs)
    if isinstance(chosen, NoRoute):
        assert chosen.reason
        return
    assert chosen.entry in entries
    assert not chosen.gid.is_zero
    assert preferred in (None, chosen.index)


REALWORLD = Path(
    os.environ.get("RDMADIAG_REALWORLD", Path(__file__).parents[3] / "shared" / "realworld")
)


def _captured() -> list[dict[str, object]]:
    path = REALWORLD / "gids.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.skipif(not _captured(), reason=f"no captures in {REALWORLD}")
def test_on_captured_tables_the_route_is_an_index_that_worked() -> None:
    kinds = {"RoCE v2": V2, "IB/RoCE v1": V1}
    judged = 0
    for capture in _captured():
        worked = capture["working_index"]
        if worked is None:
            continue
        worked = worked if isinstance(worked, list) else [worked]
        rows = [
            GidEntry(
                row["index"],
                Gid.parse(row["gid"]),
                kinds.get(row["type"], UNKNOWN),
                row["netdev"] or UNKNOWN,
            )
            for row in capture["table"]
        ]
        chosen = select_route_gid(rows, LinkLayer.ETHERNET)
        assert isinstance(chosen, Route)
        assert chosen.index in worked, capture["source"]
        judged += 1
    assert judged > 0
