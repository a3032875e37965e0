"""What changed, as text."""

import io
from dataclasses import replace

import pytest

from rdmadiag.facts import Identity
from rdmadiag.fleet.changed import (
    Change,
    ChangeKind,
    Differences,
    Folded,
    NotCompared,
    Part,
    Sameness,
    Statuses,
    Which,
)
from rdmadiag.preflight.verdict import Severity, Status
from rdmadiag.render.console import console
from rdmadiag.render.diff import answer, show

HOST = Identity("n1", "linux", "6.1.0")


def found(*changes: Change, unknown: tuple[NotCompared, ...] = ()) -> Differences:
    statuses = Statuses(Status.OK, Status.OK)
    hosts = Sameness(is_same=True, by="the name n1")
    return Differences(hosts, statuses, changes, unknown, Folded(), 3)


def finding(kind: ChangeKind, before: Severity | None, after: Severity | None) -> Change:
    summaries = (None if each is None else f"it is {each}" for each in (before, after))
    return Change(kind, "a-rule", None, "mlx5_0", 1, *summaries, before, after)


def fact(name: str, before: str, after: str, device: str | None = None) -> Change:
    return Change(ChangeKind.CHANGED, None, name, device, None, before, after)


def lines(differences: Differences, *, verbose: bool = False) -> list[str]:
    out = io.StringIO()
    show(differences, HOST, HOST, console(out), verbose=verbose)
    return out.getvalue().splitlines()


@pytest.mark.parametrize(
    ("kind", "before", "after", "wanted"),
    [
        (ChangeKind.WORSE, None, Severity.WARN, ["  warn      a-rule  it is warn"]),
        (
            ChangeKind.WORSE,
            Severity.WARN,
            Severity.CRITICAL,
            ["  critical  a-rule  it is critical", "      before: it is warn"],
        ),
        (ChangeKind.BETTER, Severity.WARN, None, ["  was warn      a-rule  it is warn"]),
        (
            ChangeKind.BETTER,
            Severity.CRITICAL,
            Severity.WARN,
            ["  was critical  a-rule  it is critical", "      now: it is warn"],
        ),
        (ChangeKind.CHANGED, Severity.INFO, None, ["  was info      a-rule  it is info"]),
        (ChangeKind.CHANGED, None, Severity.INFO, ["  info      a-rule  it is info"]),
    ],
    ids=["new", "worse than it was", "gone", "milder", "a note that went", "a new note"],
)
def test_a_finding_says_what_it_was_and_is(
    kind: ChangeKind, before: Severity | None, after: Severity | None, wanted: list[str]
) -> None:
    assert lines(found(finding(kind, before, after)))[4:] == wanted


WORSE = finding(ChangeKind.WORSE, None, Severity.CRITICAL)
BETTER = finding(ChangeKind.BETTER, Severity.WARN, None)
LOST = NotCompared(Which.BEFORE, "r", None, None, None, "there", "timeout: 2 s", counts=True)


@pytest.mark.parametrize(
    ("changes", "unknown", "wanted"),
    [
        ((WORSE,), (), ("worse", "new: it is critical")),
        ((WORSE, WORSE), (), ("worse", "new: it is critical (and 1 more)")),
        (
            (WORSE, BETTER, fact("a", "1", "2")),
            (),
            ("worse", "new: it is critical; 1 fixed; 1 other change"),
        ),
        (
            (finding(ChangeKind.WORSE, Severity.WARN, Severity.CRITICAL),),
            (),
            ("worse", "more severe: it is critical"),
        ),
        ((BETTER, BETTER), (), ("better", "fixed: it is warn (and 1 more)")),
        (
            (finding(ChangeKind.BETTER, Severity.CRITICAL, Severity.WARN),),
            (),
            ("better", "less severe: it is critical"),
        ),
        (
            (fact("a", "1", "2"),),
            (LOST,),
            ("changed", "1 change, and no problem is new or fixed; 1 thing could not be compared"),
        ),
        (
            (),
            (LOST, LOST),
            ("unknown", "what both records have is the same; 2 things could not be compared"),
        ),
        ((), (), ("same", "3 facts and all findings are the same")),
    ],
)
def test_the_answer_is_the_worst_that_is_new(
    changes: tuple[Change, ...], unknown: tuple[NotCompared, ...], wanted: tuple[str, str]
) -> None:
    assert answer(found(*changes, unknown=unknown)) == wanted


def test_of_two_hosts_what_is_new_is_of_the_second_alone() -> None:
    two = replace(found(WORSE, BETTER, fact("a", "1", "2")), hosts=Sameness(is_same=False, by="x"))
    assert answer(two) == ("worse", "only in B: it is critical; 1 only in A; 1 other difference")
    said = lines(two)
    assert [line for line in said if line.endswith(":")] == [
        "Problems of B alone:",
        "Problems of A alone:",
        "Other differences:",
    ]
    alone = replace(two, changes=(fact("a", "1", "2"),))
    assert answer(alone)[1] == "1 difference, and no problem is only in B or only in A"


def test_the_first_line_is_the_answer_and_the_second_says_of_which_hosts() -> None:
    first, second, *_ = lines(found(WORSE))
    assert (first, second) == ("WORSE  new: it is critical", "n1 at two times, by the name n1")


def test_of_long_values_the_part_that_differs_is_shown() -> None:
    common = "x" * 300
    (line,) = lines(found(fact("modules", f"{common}one", f"{common}two")))[4:]
    assert line == f"  modules: …{'x' * 20}one → …{'x' * 20}two"


def test_items_without_names_are_counted_and_shown_if_asked_for() -> None:
    routes = [
        fact("routing.routes[]", "{a}", "(none)"),
        fact("routing.routes[]", "{b}", "(none)"),
        fact("routing.routes[]", "(none)", "{c}"),
        fact("routing.routes[].source", "d", "e"),
    ]
    short = lines(found(*routes))
    assert short[4:] == ["  routing.routes[]: 2 gone, 1 new", "  routing.routes[].source: 1 other"]
    assert "    {a} → (none)" in lines(found(*routes), verbose=True)
    assert answer(found(*routes)) == ("changed", "2 changes, and no problem is new or fixed")


def test_of_an_object_the_keys_that_changed_went_and_came_are_named() -> None:
    parts = (
        *(Part(f"max_{at}", "1", "2") for at in range(5)),
        Part("old", "9", None),
        Part("new", None, "8"),
    )
    limits = replace(fact("adapter[0].limits", "{a=1 …", "{a=1 …", "mlx5_0"), parts=parts)
    (line,) = lines(found(limits))[4:]
    assert line == (
        "  mlx5_0  limits: changed: max_0 1 → 2, max_1 1 → 2, max_2 1 → 2 and 2 more; gone: old; "
        "new: new"
    )
    every = lines(found(limits), verbose=True)[4:]
    assert every[0] == "  mlx5_0  limits:"
    assert [line.strip() for line in every[5:]] == [
        "changed: max_4 1 → 2",
        "gone: old 9",
        "new: new 8",
    ]


def test_items_of_a_list_that_came_and_went_share_a_line() -> None:
    netdevs = [
        fact("ethtool.netdevs[eth0]", "{netdev=eth0}", "(none)"),
        fact("ethtool.netdevs[eth1]", "(none)", "{netdev=eth1}"),
        fact("ethtool.netdevs[eth2]", "(none)", "{netdev=eth2}"),
    ]
    assert lines(found(*netdevs))[4:] == ["  ethtool.netdevs: gone: eth0; new: eth1, eth2"]
    assert "  ethtool.netdevs[eth0]: {netdev=eth0} → (none)" in lines(found(*netdevs), verbose=True)


def test_an_adapter_of_another_kind_is_one_line_until_all_are_wanted() -> None:
    every = found(
        fact("adapter[0].driver", "rxe", "mlx5_core", "mlx5_0"),
        fact("adapter[0].firmware", "0.0.0", "28.43.1014", "mlx5_0"),
        replace(fact("adapter[0].port[1].rate", "10", "400", "mlx5_0"), port=1),
        fact("adapter[1].firmware", "28.42.1000", "28.43.1014", "mlx5_1"),
    )
    assert answer(every)[1].startswith("2 changes, ")
    assert lines(every)[4] == (
        "  mlx5_0 is another kind of adapter (driver: rxe → mlx5_core): 3 facts that changed "
        "(--verbose lists them)"
    )
    assert "  mlx5_1  firmware: 28.42.1000 → 28.43.1014" in lines(every)
    assert "  mlx5_0/1  rate: 10 → 400" in lines(every, verbose=True)


def test_four_places_are_three_and_one_more() -> None:
    every = [fact("adapter[0].firmware", "1", "2", f"mlx5_{at}") for at in range(4)]
    assert lines(found(*every))[4:] == ["  mlx5_0, mlx5_1, mlx5_2 and 1 more  firmware: 1 → 2"]


def test_what_is_not_known_is_told_by_its_reason() -> None:
    def lost(rule: str | None, name: str | None) -> NotCompared:
        why = "timeout: no answer"
        return NotCompared(Which.BEFORE, rule, name, "mlx5_0", None, "there", why, counts=True)

    every = (*(lost(f"rule-{at}", None) for at in range(5)), lost(None, "adapter[0].firmware"))
    differences = found(unknown=every)
    said = lines(differences)
    assert said[0].startswith("UNKNOWN  what both records have is the same; 6 things could not be")
    assert said[4] == (
        "  in the first record: rule-0, rule-1, rule-2, 2 more rules, 1 fact: timeout: no answer"
    )
    assert "      mlx5_0 adapter[0].firmware: there" in lines(differences, verbose=True)
