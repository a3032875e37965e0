"""topology.conf(5) and the simple file."""

from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts import Missing, Why
from rdmadiag.fleet.leaves import parse_topology


def test_switches_with_nodes_are_leaves_and_those_above_are_passed_over() -> None:
    # The example of topology.conf(5).
    text = b"""\
# Switch Configuration
SwitchName=s0 Nodes=dev[0-5]
SwitchName=s1 Nodes=dev[6-7] LinkSpeed=900
switchname=s2 switches=s[0-1]
"""
    found = parse_topology(text)
    assert found == {f"dev{n}": "s0" for n in range(6)} | {"dev6": "s1", "dev7": "s1"}


def test_a_leaf_a_line() -> None:
    assert parse_topology(b"leaf1: n[1-2],x\n\nleaf2: n3 # spare\n") == {
        "n1": "leaf1",
        "n2": "leaf1",
        "x": "leaf1",
        "n3": "leaf2",
    }


def test_a_node_on_two_leaves_has_that_of_the_first_line() -> None:
    assert parse_topology(b"a: n1\nb: n1,n2\n") == {"n1": "a", "n2": "b"}


def test_a_line_that_is_none_is_named() -> None:
    assert parse_topology(b"a: n1\nleaf\n") == Missing(Why.MALFORMED, "line 2: leaf names no leaf")


def test_a_group_is_not_looked_up() -> None:
    found = parse_topology(b"a: @all\n")
    assert isinstance(found, Missing)
    assert found.why is Why.MALFORMED


def test_a_file_without_nodes_has_no_leaves() -> None:
    assert parse_topology(b"SwitchName=top Switches=s[0-1]\n") == Missing(
        Why.ABSENT, "no line with a leaf and its nodes"
    )


@given(st.binary(max_size=300))
def test_any_bytes_are_read(content: bytes) -> None:
    found = parse_topology(content)
    assert isinstance(found, Missing | dict)
