"""Names of nodes, sets of them, and whose host name is whose."""

import contextlib
import shlex
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.fleet import nodes
from rdmadiag.fleet.nodes import Expected, NoClusterShell, NotNodes, fold, is_name, shown, spread

HOSTILE = [
    "@all",
    "@x:y",
    "a b",
    "a,b",
    "a!b",
    "a&b",
    "a^b",
    "n[1-2]",
    "-w",
    "--exclude=x",
    ".hidden",
    "$(id)",
    "a\nb",
    "a%h",
    "",
    "x" * 254,
    "knoten-ü",
    "\x1b[31m",
]
NAMES = st.from_regex(r"[A-Za-z0-9_]([A-Za-z0-9._-]{0,12}[A-Za-z0-9_])?", fullmatch=True)


@pytest.mark.parametrize("name", ["n1", "node-3", "a.b-7c", "rack1_n2", "10", "x" * 253])
def test_a_name_of_a_host_is_one(name: str) -> None:
    assert is_name(name)
    assert spread(name) == (name,)
    assert fold([name]) == shown(name) == name


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_name_is_quoted_and_folded_with_nothing(name: str) -> None:
    assert not is_name(name)
    quoted = shown(name)
    assert quoted != name
    assert len(shlex.split(quoted, comments=True)) == 1, "one word, whatever a shell is given"
    assert quoted.isprintable()
    assert fold([name, "n2", "n1"]) == f"n[1-2],{quoted}"


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        (["node203", "node017"], "node[017,203]"),
        ([f"node{i:03}" for i in range(1, 513)], "node[001-512]"),
        (["n1", "n01"], "n[1,01]"),
        (["login", "n2", "n1"], "login,n[1-2]"),
        ([], ""),
    ],
)
def test_sets_are_folded_as_the_batch_systems_write_them(names: list[str], folded: str) -> None:
    assert fold(names) == folded


@given(st.lists(NAMES, max_size=20))
def test_a_folded_set_spreads_to_the_same_names(names: list[str]) -> None:
    text = fold(names)
    assert sorted(spread(text) if text else ()) == sorted(set(names))


@given(st.text(max_size=30))
def test_no_text_but_a_set_is_spread(text: str) -> None:
    with contextlib.suppress(NotNodes):
        found = spread(text)
        assert found
        assert all(map(is_name, found))


@pytest.mark.parametrize("text", ["a\nb", "\x1b[2J", "n[1-\n2]"])
def test_the_message_of_a_refusal_is_one_line(text: str) -> None:
    with pytest.raises(NotNodes) as raised:
        spread(text)
    assert str(raised.value).isprintable()


@pytest.mark.parametrize(
    "text",
    ["n[1-99999999]", "n[1-9999][1-9999]", "n[1-999999],m[1-999999]", "n[1", "n[]", ",", "!n1"],
)
def test_a_set_that_is_none_or_has_no_end_is_refused_at_once(text: str) -> None:
    start = time.monotonic()
    with pytest.raises(NotNodes):
        spread(text)
    assert time.monotonic() - start < 2


def test_a_group_is_not_looked_up_since_that_runs_a_program() -> None:
    with pytest.raises(NotNodes, match="nodeset -f"):
        spread("@compute")


@pytest.mark.parametrize(
    ("expected", "hostname", "node"),
    [
        ("n1,n2", "n1", "n1"),
        ("n1,n2", "n1.cluster.example", "n1"),
        ("n1.cluster.example", "n1", "n1.cluster.example"),
        ("n1.a.example", "n1.b.example", None),
        ("n1.a.example,n1.b.example", "n1", None),
        ("n1", "n10", None),
    ],
)
def test_a_host_name_is_its_nodes_with_or_without_its_domain(
    expected: str, hostname: str, node: str | None
) -> None:
    assert Expected(spread(expected)).of_host(hostname) == node


def test_expected_nodes_keep_their_order() -> None:
    assert tuple(Expected(("n2", "n1", "n2"))) == ("n2", "n1")


def test_without_clustershell_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ClusterShell.NodeSet", None)
    assert nodes.fold(["n1"]) == "n1"
    with pytest.raises(NoClusterShell, match=r"pip install 'rdmadiag\[fleet\]'"):
        nodes.fold(["n1", "n2"])
