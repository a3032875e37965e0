"""What was learned of threads: features, cases, chances, and what a failure's causes become."""

import os
from collections.abc import Sequence

import pytest

from rdmadiag.explain.causes import CAUSES, Known, stated
from rdmadiag.explain.causes.cause import Used
from rdmadiag.explain.log.apart import apart
from rdmadiag.explain.log.learned.cases import FOLDER, NOTHING, made, shipped
from rdmadiag.explain.log.learned.chances import Basis, Chance, chance, chances
from rdmadiag.explain.log.learned.features import features
from rdmadiag.explain.log.learned.threads import similar
from rdmadiag.explain.log.recall import OF_RULE, OF_WORDS, basis, fits, named, recalled
from rdmadiag.explain.remedies import PREFLIGHT_THERE
from tests.explain.learn import MOST, telling
from tests.explain.learned import Apart, by_stack, by_thread, examples, fold
from tests.explain.score import Excerpt, Score, score
from tests.explain.thread_files import Row, Thread, read

LIMIT = "gizmo: ibv_reg_mr(len=4096) failed: Cannot allocate memory"
GONE = "gizmo: peer 192.0.2.1 closed the queue pair"
CASES = made([(("memlock", "mr-exhausted"), LIMIT), (("peer-gone",), GONE), ((), LIMIT)])


# --- features ----------------------------------------------------------------------------


def test_addresses_clocks_and_long_numbers_are_no_words() -> None:
    assert features("12:01:02.5 at 192.0.2.1 0xff 123456 errno 12") == {
        *("at", "errno", "#12", "at errno", "errno #12")
    }


def test_a_compound_has_parts_and_its_digits_are_alike() -> None:
    assert features("mlx5_7") == features("mlx4_11") == {"mlx0_0", "mlx"}


# --- cases -------------------------------------------------------------------------------


def test_the_most_like_is_first_and_votes_for_its_causes() -> None:
    near = CASES.near("gizmo: ibv_reg_mr failed: Cannot allocate memory")
    assert [each.case for each in near][:2] == [0, 2]
    votes = CASES.votes(near)
    assert [*votes][:2] == ["memlock", "mr-exhausted"]
    assert sum(votes.values()) == pytest.approx(1)


@pytest.mark.parametrize("text", ["", "frobnicator"])
def test_what_shares_no_word_is_like_nothing(text: str) -> None:
    assert CASES.near(text) == NOTHING.near(LIMIT) == ()
    assert CASES.votes(()) == {}


def test_a_word_of_one_case_is_left_out() -> None:
    assert "peer" not in CASES.words
    assert "gizmo" in CASES.words


def test_the_tables_of_the_package_belong_together_and_are_small() -> None:
    cases = shipped()
    threads = {each.address for each in read()}
    known = {label for case in cases.cases for label in case.labels}
    assert known <= CAUSES.keys()
    highest = max(int(n) for row in cases.words.values() for n in row.split("\t")[1].split())
    assert highest < len(cases.cases)
    with open(f"{FOLDER}/threads.tsv", encoding="utf-8") as table:
        rows = [line.rstrip("\n").split("\t") for line in table][1:]
    assert len(rows) == len(cases.cases)
    assert {row[0] for row in rows} <= threads
    assert all(len(part) <= MOST for row in rows for part in row[1:])
    assert os.path.getsize(f"{FOLDER}/words.tsv") < 700_000


# --- chances -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("right", "of", "share"), [(43, 51, 0.8), (20, 20, 0.95), (0, 20, 0.0), (9, 10, None)]
)
def test_a_share_is_rounded_down_and_needs_readings(
    right: int, of: int, share: float | None
) -> None:
    assert Chance(right, of).share == share


def test_agreement_is_worth_more_than_a_rule_alone() -> None:
    both, rule = chance(Basis.BOTH), chance(Basis.RULE)
    assert both is not None
    assert rule is not None
    assert both > rule
    assert {*chances()} == {*Basis}


# --- causes ------------------------------------------------------------------------------


def known(labels: Sequence[str]) -> tuple[Known, ...]:
    return tuple(stated(each) for each in labels)


FIVE = ("no-path", "peer-gone", "link-lost", "firewall", "no-route")


def votes(**shares: float) -> dict[Known, float]:
    return {stated(label.replace("_", "-")): share for label, share in shares.items()}


def labels(several: Sequence[Known]) -> list[str]:
    return [each.label for each in several]


def test_what_nobody_votes_for_keeps_the_places_that_a_rule_gives() -> None:
    assert labels(recalled(known(FIVE), {}, {}, 5, OF_RULE)) == [*FIVE]


@pytest.mark.parametrize(("share", "first"), [(0.9, "peer-gone"), (0.1, "no-path")])
def test_most_similar_cases_put_the_second_cause_of_a_rule_first(share: float, first: str) -> None:
    assert recalled(known(FIVE), votes(peer_gone=share), {}, 5, OF_RULE)[0].label == first


def test_a_cause_that_similar_cases_alone_had_is_named_beside_those_of_a_rule() -> None:
    found = recalled(known(FIVE), votes(memlock=0.5), {}, 5, OF_RULE)
    assert (found[0].label, found[1].label) == ("no-path", "memlock")


def test_words_weigh_less_than_a_rule() -> None:
    given, learned = known(FIVE), votes(memlock=0.5)
    assert recalled(given, learned, {}, 5, OF_WORDS)[0].label == "memlock"
    assert recalled(given, learned, {}, 5, OF_RULE)[0].label == "no-path"


def test_messages_that_share_words_are_heard_beside_cases() -> None:
    learned, printed = votes(memlock=0.4, gdr_off=0.3), votes(gdr_off=0.3)
    assert recalled((), learned, printed, 5, OF_WORDS)[0].label == "gdr-off"


def test_at_the_same_weight_the_rules_cause_is_first() -> None:
    assert labels(recalled(known(["no-path"]), votes(memlock=0.75), {}, 5, OF_RULE)) == [
        *("no-path", "memlock")
    ]


@pytest.mark.parametrize(
    ("label", "platform", "so"),
    [("thunderbolt-4", "linux", False), ("thunderbolt-4", "darwin", True),
     ("memlock", "linux", True), ("memlock", "darwin", False)],
)  # fmt: skip
def test_a_platform_has_its_own_causes(label: str, platform: str, so: bool) -> None:
    assert fits(label, platform) is so


def test_what_was_used_excludes_a_cause() -> None:
    assert named(["no-gid-given"], "linux", frozenset({Used.GID})) == ()
    assert len(named(["no-gid-given"], "linux", frozenset())) == 1


def test_what_the_first_cause_rests_on() -> None:
    one, other = known(["memlock"]), known(["no-path"])
    of_one, of_other = votes(memlock=1.0), votes(no_path=1.0)
    assert basis(one, one, of_one, by_rule=True) is Basis.BOTH
    assert basis(one, one, of_other, by_rule=True) is Basis.RULE
    assert basis(one, other, of_one, by_rule=True) is Basis.RULE
    assert basis(one, (), of_one, by_rule=False) is Basis.WORDS
    assert basis((), one, of_one, by_rule=True) is None


# --- a log -------------------------------------------------------------------------------

UNHEARD = "n1:1:2 [0] NCCL WARN NET/IB : the gizmo of mlx5_0 failed in the frobnicator"


def explained(line: str, labels: tuple[str, ...]) -> Score:
    return score(Excerpt("a", {}, line.encode()), made([(labels, line), (labels, line)]))


def test_a_line_that_no_rule_knows_has_the_causes_of_a_case_like_it() -> None:
    found = explained(UNHEARD, ("gdr-off",)).account
    assert found.first
    assert (found.first.what, found.first.causes[0].label) == ("words", "gdr-off")
    assert (found.first.rests_on, found.unknown) == ("words", ())


def test_a_case_without_a_cause_leaves_it_not_understood() -> None:
    found = explained(UNHEARD, ()).account
    assert (found.first, [each.text for each in found.unknown]) == (None, [UNHEARD])


def test_a_rule_and_a_case_that_agree() -> None:
    line = "NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory"
    first = explained(line, ("memlock",)).account.first
    assert first
    assert (first.rests_on, first.probability) == ("both", chance(Basis.BOTH))
    assert first.tells_apart is None
    first = explained(line, ("link-lost",)).account.first
    assert first
    assert (first.rests_on, first.causes[0].label) == ("rule", "memlock")
    assert "link-lost" in {each.label for each in first.causes}
    assert first.tells_apart


# --- what tells causes apart -------------------------------------------------------------


def test_a_look_of_the_likeliest_is_taken_and_nothing_that_changes_a_host() -> None:
    found = apart(("rdma-ucm-not-loaded", "no-memory"), "linux", {})
    assert found
    assert found.line == "ls -l /dev/infiniband/rdma_cm"
    assert found.shows == ("rdma-ucm-not-loaded",)


def test_the_preflight_is_taken_where_it_has_rules_for_several() -> None:
    found = apart(("gid-does-not-route", "memlock", "link-flaps"), "linux", {})
    assert found
    assert (found.line, found.shows[:2]) == (PREFLIGHT_THERE, ("gid-does-not-route", "memlock"))


@pytest.mark.parametrize("labels", [(), ("memlock",), ("local-key-wrong", "memory-kind")])
def test_nothing_tells_one_cause_or_those_without_a_look(labels: tuple[str, ...]) -> None:
    assert apart(labels, "linux", {}) is None


# --- similar -----------------------------------------------------------------------------


def test_similar_threads_are_listed_once_with_their_addresses() -> None:
    found = similar("NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory")
    assert found
    assert len({each.address for each in found}) == len(found) <= 5
    assert all(each.address.startswith("http") for each in found)
    assert [each.likeness for each in found] == sorted((e.likeness for e in found), reverse=True)
    assert similar("frobnicator") == ()


# --- held apart --------------------------------------------------------------------------


def test_a_reading_never_uses_its_own_thread_or_stack() -> None:
    threads = list(read())[:40]
    some = examples(threads)
    for apart_by in (by_thread, by_stack):
        held = Apart(apart_by, threads)
        for thread in threads[:8]:
            others = [e for e in some if fold(apart_by(e[0])) != fold(apart_by(thread))]
            assert len(held.cases(thread).cases) == len(others)
            assert all(apart_by(each) != apart_by(thread) for each, _ in others)


def test_the_line_that_tells_most_is_kept_short() -> None:
    row = Row("a", "memlock", f"hello\n{LIMIT} {'x' * 200}\n", "stated")
    assert telling(row, CASES).startswith("gizmo: ibv_reg_mr")
    assert len(telling(row, CASES)) == MOST


def test_an_example_is_a_row_that_fails() -> None:
    noise = Row("b", "noise", "well")
    thread = Thread(next(read()).path, "a", "s", "t", False, (noise,))
    assert examples([thread]) == ()
