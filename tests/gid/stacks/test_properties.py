"""Any table, any variables: no rule raises, and an index outside the table is marked."""

from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts import GidEntry, Missing, Why
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import GidType, LinkLayer
from rdmadiag.gid.netdev import NetDevState
from rdmadiag.gid.pick import Outcome
from rdmadiag.gid.port_table import PortTable
from rdmadiag.gid.registry import every, stacks
from rdmadiag.gid.stack import pick

UNKNOWN = Missing(Why.ABSENT)
SHAPES = ["fe80::1", "fe80::", "::ffff:192.0.2.1", "::ffff:10.0.0.1", "::ffff:169.254.1.2"]
SHAPES += [
    "2001:db8::1",
    "fd00::1",
    "ff0e::ffff:198.51.100.1",
    "2001:db8::",
    "fec0:0:7::14:500:0:1",
]
GIDS = st.sampled_from(SHAPES).map(Gid.parse) | st.binary(min_size=16, max_size=16).map(Gid)
VARIABLES = sorted({name for stack in stacks().values() for name in stack.variables})
VALUES = st.sampled_from(
    [
        *("", "0", "1", "3", "7", "255", "256", "99999", "-1", "auto", "0x3", "AF_INET6", "y"),
        *("192.0.2.0/24", "::/0", "^10.0.0.0/8", "all", "10.0.0.0", "/", "9" * 40),
    ]
) | st.text(max_size=12)
ENVIRONMENTS = st.dictionaries(st.sampled_from(VARIABLES), VALUES, max_size=4)


@st.composite
def tables(draw: st.DrawFn) -> PortTable:
    length = draw(st.sampled_from([0, 1, 2, 4, 8, 16, 300]))
    indexes = draw(
        st.lists(st.integers(0, max(0, length - 1)), max_size=min(8, length), unique=True)
    )
    entries = [
        GidEntry(
            index,
            draw(GIDS),
            draw(st.sampled_from([*GidType, UNKNOWN])),
            draw(st.sampled_from(["eth0", "docker0", UNKNOWN])),
        )
        for index in sorted(indexes)
    ]
    used = tuple(entry for entry in entries if not entry.is_empty)
    return PortTable(
        "mlx5_0",
        draw(st.sampled_from([1, 2])),
        draw(st.sampled_from(LinkLayer)),
        used,
        length,
        lid=draw(st.sampled_from([None, 0, 7, 0xFFFF])),
        netdevs={"eth0": draw(st.sampled_from(NetDevState))},
        unassigned=draw(st.sets(st.sampled_from(indexes or [0]))),
        route=draw(st.sampled_from([None, *used])),
        unread=tuple(draw(st.lists(st.integers(0, 3), max_size=2))),
    )


@given(tables(), ENVIRONMENTS)
def test_every_rule_answers_and_marks_what_the_table_does_not_have(
    table: PortTable, environment: dict[str, str]
) -> None:
    used = {entry.index for entry in table.entries}
    for stack, version in every():
        found = pick(stack, version, table, environment)
        assert found.why
        match found.outcome:
            case Outcome.ENTRY:
                assert found.index in used
                assert found.entry in table.entries
            case Outcome.EMPTY:
                assert found.index is not None
                assert found.index < table.length
                assert found.index not in used
                assert found.problem
            case Outcome.OUTSIDE:
                assert found.index is not None
                assert not 0 <= found.index < table.length
                assert found.problem
            case Outcome.LID:
                assert table.link_layer is LinkLayer.INFINIBAND
            case _:
                assert found.index is None
        assert found.agrees is not True or found.outcome in (Outcome.ENTRY, Outcome.LID)


@given(tables())
def test_without_variables_only_a_constant_leaves_the_table(table: PortTable) -> None:
    for stack, version in every():
        found = pick(stack, version, table, {})
        if found.outcome is Outcome.OUTSIDE:
            assert found.index in (0, 1, 3)
            assert table.length <= found.index
