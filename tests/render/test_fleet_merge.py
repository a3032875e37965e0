"""Many hosts as text: what is read first stands first, and no list is without an end."""

from io import StringIO

from rdmadiag.fleet.merged import (
    Compatibility,
    Drift,
    Gap,
    HardwareClass,
    HostCounts,
    Merged,
    NodeRow,
    Odd,
    Unused,
)
from rdmadiag.preflight.verdict import Status
from rdmadiag.render.console import console
from rdmadiag.render.fleet_merge import show


def shown(made: Merged, *, quiet: bool = False, verbose: bool = False) -> str:
    out = StringIO()
    show(made, console(out), quiet=quiet, verbose=verbose)
    return out.getvalue()


def fleet(**parts: object) -> Merged:
    row = NodeRow("n1", Status.OK, "A", (), "2026-11-23T07:00:00Z", "0.1.0")
    given = {
        "status": Status.OK,
        "hosts": HostCounts(None, 1, 1),
        "groups": (),
        "unused": (),
        "classes": (),
        "drift": (),
        "compatibility": (),
        "rows": (row,),
    } | parts
    return Merged(**given)  # type: ignore[arg-type]


def test_of_a_fleet_without_oddities_two_lines_are_said() -> None:
    assert shown(fleet()) == "OK 1 of 1 are fit\n\nHosts: 1 reported, 1 fit.\n"
    assert shown(fleet(), quiet=True) == "OK 1 of 1 are fit\n"


def test_drift_has_the_majority_and_each_other_value_with_its_hosts() -> None:
    odd = (Odd("5.0", "n[7-8]", 2), Odd("4.0", "n9", 1))
    made = Drift("kernel", "A", "6.1", 6, odd, "n10")
    assert (
        "Differs among hosts of one kind:\n"
        "  kernel: 6.1 on 6\n"
        "    5.0 on 2: n[7-8]\n"
        "    4.0 on 1: n9\n"
        "    not read: n10\n"
    ) in shown(fleet(drift=(made,)))
    other = Drift("kernel", "B", None, 0, odd, "")
    assert "  B kernel: no majority\n" in shown(fleet(drift=(made, other)))


def test_kinds_of_hosts_are_said_where_there_are_several() -> None:
    a, b = (HardwareClass(name, f"{name}[1-2]", 2, {}) for name in "AB")
    assert "Kinds" not in shown(fleet(classes=(a,)))
    assert "  A  2 hosts: A[1-2]\n  B  2 hosts: B[1-2]\n" in shown(fleet(classes=(a, b)))


def test_of_stacks_that_work_nothing_is_said_but_with_verbose() -> None:
    works = Compatibility("nccl", "n1", "n2", works=True, why="same subnet")
    fails = [Compatibility("ucx", "n1", f"m{i}", works=False, why="no port") for i in range(5)]
    text = shown(fleet(compatibility=(works, *fails)))
    assert "nccl" not in text
    assert "  fails: ucx: no port\n    n1 with m0\n" in text
    assert "    and 2 more pairs of groups\n" in text
    whole = shown(fleet(compatibility=(works, *fails)), verbose=True)
    assert "  works: nccl: same subnet\n    n1 with n2\n" in whole
    assert "n1 with m4" in whole


def test_what_was_read_and_not_used_is_named_with_its_place() -> None:
    unused = (
        Unused(Gap.TORN, "n4", "a.txt:3", "ends in its middle, after 9 bytes"),
        Unused(Gap.FOREIGN, None, "a.txt:5", "hello \x1b[2J"),
        Unused(Gap.NEVER_REPORTED, "n5", None, "expected, and nothing of it was read"),
    )
    text = shown(fleet(unused=unused))
    assert text.endswith(
        "Read, and not used:\n"
        "  n4 sent a torn report: a.txt:3: ends in its middle, after 9 bytes\n"
        "  foreign: a.txt:5: hello \\x1b[2J\n"
    )


def test_long_lists_and_long_sets_end_and_say_so() -> None:
    unused = tuple(Unused(Gap.FOREIGN, None, f"f:{i}", "x") for i in range(100))
    nodes = ",".join(f"node{i}" for i in range(500))
    every = [f"{nodes},other{number}" for number in range(30)]
    drift = tuple(Drift("kernel", "A", "6.1", 6, (Odd("5.0", each, 501),), "") for each in every)
    made = fleet(unused=unused, drift=drift)
    text = shown(made)
    assert "  and 80 more (--verbose)\n" in text
    assert "  and 10 more (--verbose)\n" in text
    assert max(map(len, text.splitlines())) < 500
    whole = shown(made, verbose=True)
    assert whole.count("\n  foreign: ") == 100
    assert nodes in whole


def test_what_differs_on_the_same_hosts_is_said_of_three_facts() -> None:
    odd = (Odd("(none)", "n[7-8]", 2),)
    drift = tuple(Drift(f"fact{number}", "A", "1", 6, odd, "") for number in range(7))
    text = shown(fleet(drift=drift))
    assert text.count("    (none) on 2: n[7-8]\n") == 3
    assert (
        "  and 4 more facts of the same hosts (--verbose):\n    fact3, fact4, fact5, fact6\n"
    ) in text
    assert "more facts" not in shown(fleet(drift=drift[:4]))
    assert "more facts" not in shown(fleet(drift=drift), verbose=True)
    other = Drift("fact9", "A", "1", 6, (Odd("(none)", "n9", 1),), "")
    assert "  fact9: 1 on 6\n    (none) on 1: n9\n" in shown(fleet(drift=(*drift, other)))


def status_of(**nodes: Status) -> tuple[NodeRow, ...]:
    return tuple(NodeRow(node, each, "A", (), None, None) for node, each in nodes.items())


def test_stacks_of_critical_hosts_are_one_line_with_the_hosts() -> None:
    rows = status_of(n1=Status.CRITICAL, n2=Status.CRITICAL, n3=Status.OK, n4=Status.WARN)
    pairs = [("n[1-2]", "n3"), ("n3", "n4")]
    found = tuple(
        Compatibility("ucx", one, other, works=False, why="no port") for one, other in pairs
    )
    text = shown(fleet(rows=rows, compatibility=found))
    assert (
        "Stacks that work elsewhere, but not between these hosts:\n"
        "  fails: ucx: no port\n    n3 with n4\n"
        "  with hosts that are critical, see above (--verbose): n[1-2]\n"
    ) in text
    whole = shown(fleet(rows=rows, compatibility=found), verbose=True)
    assert "n[1-2] with n3\n" in whole
    assert "--verbose" not in whole
    alone = shown(fleet(rows=rows, compatibility=found[:1]))
    assert "hosts:\n  with hosts that are critical, see above (--verbose): n[1-2]\n" in alone


def test_a_set_that_has_other_hosts_too_is_not_that_of_critical_hosts() -> None:
    rows = status_of(n1=Status.CRITICAL, n2=Status.OK, n3=Status.OK)
    for one in ("n[1-2]", "n1,'a b'"):
        found = (Compatibility("ucx", one, "n3", works=False, why="no port"),)
        text = shown(fleet(rows=rows, compatibility=found))
        assert f"    {one} with n3\n" in text
        assert "critical" not in text
