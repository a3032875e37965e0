"""A tournament as its nodes: who passed, who did not, who never said anything."""

from dataclasses import replace

from rdmadiag.fleet.matrix import judge
from rdmadiag.fleet.of_pairs import merged_of, node_rows, passed
from rdmadiag.fleet.pair_results import LeftOut, OddKind, OddPart
from rdmadiag.preflight.verdict import Status
from tests.fleet.planted import fleet, nodes, results

NODES = nodes(6)
RESULTS = results(fleet(6, 1, 3))
FOUND = judge(RESULTS)


def odd(kind: OddKind, *names: str, slower: float | None = 1.5) -> OddPart:
    return OddPart(kind, names, slower, 3, True, ())


def test_all_have_passed() -> None:
    rows = node_rows(NODES, FOUND, RESULTS)
    assert passed(rows) == NODES
    merged = merged_of(FOUND, rows)
    assert (merged.status, merged.hosts.reported, merged.hosts.fit) == (Status.OK, 6, 6)


def test_each_node_that_is_named_has_not() -> None:
    parts = (
        odd(OddKind.NODE, "n000"),
        odd(OddKind.NIC, "n001:mlx5_0", slower=None),
        odd(OddKind.NODE, "n001"),
        odd(OddKind.PATH, "n002:mlx5_0", "n003:mlx5_0"),
        odd(OddKind.FLEET, "fleet"),
        odd(OddKind.BOUNDARY, "n005", "n004"),  # leaves that are called so
    )
    rows = node_rows(NODES, replace(FOUND, odd=parts), RESULTS)
    assert {row.node: (row.status, row.reasons) for row in rows} == {
        "n000": (Status.WARN, ("node",)),
        "n001": (Status.CRITICAL, ("nic", "node")),
        "n002": (Status.WARN, ("path",)),
        "n003": (Status.WARN, ("path",)),
        "n004": (Status.OK, ()),
        "n005": (Status.OK, ()),
    }


def test_who_was_left_out_or_never_met_anybody_is_not_known() -> None:
    found = replace(FOUND, left_out=(LeftOut("n004:mlx5_0", 1, "in use"),))
    rows = node_rows([*NODES, "n9"], found, RESULTS)
    assert (rows[4].status, rows[4].reasons) == (Status.UNKNOWN, ("left-out",))
    assert (rows[6].status, rows[6].reasons) == (Status.UNKNOWN, ("not-tried",))
    assert "n9" not in passed(rows)


def test_who_never_reported_has_no_status() -> None:
    silent = [
        replace(each, outcome=None, latency_us=None)
        if (each.sender if each.by_sender else each.receiver).node == "n003"
        else each
        for each in RESULTS
    ]
    rows = node_rows(NODES, judge(silent), silent)
    assert [row.node for row in rows if row.status is None] == ["n003"]
    assert merged_of(FOUND, rows).hosts.reported == 5
