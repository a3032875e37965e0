"""What was learned of threads: features, cases, the model, chances, and what causes become."""

import math
import os
from collections.abc import Sequence

import pytest

from rdmadiag.explain.causes import CAUSES, Known, stated
from rdmadiag.explain.causes.cause import Used
from rdmadiag.explain.log.ranking import separating_check
from rdmadiag.explain.log.ranking.combined import (
    OF_MODEL,
    OF_RULE,
    OF_WORDS,
    basis,
    fits,
    named,
    recalled,
)
from rdmadiag.explain.log.ranking.learned import model as model_of
from rdmadiag.explain.log.ranking.learned.cases import FOLDER, Cases, made, shipped
from rdmadiag.explain.log.ranking.learned.chances import Basis, Chance, chance, chances
from rdmadiag.explain.log.ranking.learned.features import features
from rdmadiag.explain.log.ranking.learned.model import ENOUGH, Model
from rdmadiag.explain.log.ranking.learned.threads import similar
from rdmadiag.explain.log.ranking.separating_check import Apart, apart
from rdmadiag.explain.remedies import PREFLIGHT_THERE
from tests.explain.learn import MOST, telling
from tests.explain.learn_model import known as learn_known
from tests.explain.learn_model import source
from tests.explain.learned import examples
from tests.explain.score import Excerpt, Score, score
from tests.explain.thread_files import NO_ADDRESS, Row, Thread, read

LIMIT = "gizmo: ibv_reg_mr(len=4096) failed: Cannot allocate memory"
GONE = "gizmo: peer 192.0.2.1 closed the queue pair"
CASES = made([(("memlock", "mr-exhausted"), LIMIT), (("peer-gone",), GONE), ((), LIMIT)])


# --- features ----------------------------------------------------------------------------


def test_addresses_clocks_and_long_numbers_are_no_words() -> None:
    assert features("12:01:02.5 at 192.0.2.1 0xff 123456 errno 12") == {"at", "errno", "#12"}


def test_a_compound_has_parts_and_its_digits_are_alike() -> None:
    assert features("mlx5_7") == features("mlx4_11") == {"mlx0_0", "mlx"}


# --- cases -------------------------------------------------------------------------------


def test_the_most_like_is_first_and_votes_for_its_causes() -> None:
    near = CASES.near("gizmo: ibv_reg_mr failed: Cannot allocate memory")
    assert [each.case for each in near][:2] == [0, 2]
    votes = CASES.votes(near, 8, 2.0)
    assert [*votes][:2] == ["memlock", "mr-exhausted"]
    assert sum(votes.values()) == pytest.approx(1)


@pytest.mark.parametrize("text", ["", "frobnicator"])
def test_what_shares_no_word_is_like_nothing(text: str) -> None:
    assert CASES.near(text) == Cases((), (), {}).near(LIMIT) == ()
    assert CASES.votes((), 8, 2.0) == {}


def test_a_word_of_one_case_is_left_out() -> None:
    assert "peer" not in CASES.words
    assert "gizmo" in CASES.words


def test_the_tables_of_the_package_belong_together_and_are_small() -> None:
    cases = shipped()
    threads = {each.address for each in read()} | {""}
    known = {label for case in cases.labels for label in case}
    assert known <= CAUSES.keys()
    highest = max(int(n) for row in cases.words.values() for n in row.split("\t")[1].split())
    assert highest < len(cases.labels)
    with open(f"{FOLDER}/threads.tsv", encoding="utf-8") as table:
        rows = [line.rstrip("\n").split("\t") for line in table][1:]
    assert len(rows) == len(cases.labels) == len(cases.lengths)
    assert {row[0] for row in rows} <= threads
    assert not any(NO_ADDRESS in row[0] for row in rows)
    assert all(len(part) <= MOST for row in rows for part in row[1:])
    assert os.path.getsize(f"{FOLDER}/words.tsv") < 400_000


# --- the model ---------------------------------------------------------------------------

MODEL = Model(("memlock", "no-path"), (0.5, 0.0), {"pin": "0:30 1:-10", "route": "1:60"})
ENOUGH_WORDS = " ".join(f"w{chr(97 + n)}" for n in range(ENOUGH))
PLAIN = Model(MODEL.labels, MODEL.alone, dict.fromkeys(ENOUGH_WORDS.split(), ""))


def test_shares_are_a_softmax_of_what_the_known_words_weigh() -> None:
    found = MODEL.shares("pin the route, frobnicator")
    assert [*found] == ["no-path", "memlock"]
    heights = 0.5 + 3.0 / 2**0.5, (6.0 - 1.0) / 2**0.5
    ratio = found["memlock"] / found["no-path"]
    assert ratio == pytest.approx(math.exp(heights[0] - heights[1]))


def test_few_words_say_less_than_many() -> None:
    assert sum(MODEL.shares("pin pin pin").values()) == pytest.approx(1 / ENOUGH)
    assert sum(PLAIN.shares(ENOUGH_WORDS).values()) == pytest.approx(1)
    assert sum(PLAIN.shares(f"{ENOUGH_WORDS} and more").values()) == pytest.approx(1)


def test_without_a_known_word_nothing_is_likely() -> None:
    assert MODEL.shares("frobnicator") == MODEL.shares("") == {}
    assert model_of.NOTHING.shares("pin") == {}


def test_the_model_of_the_package_is_made_of_the_threads_that_there_are() -> None:
    """Else `python -m tests.explain.learn_model` writes it anew."""
    made = source(learn_known())
    for name in ("labels", "weights"):
        with open(f"{FOLDER}/{name}.tsv", encoding="utf-8") as table:
            assert made in next(table)
    model = model_of.shipped()
    assert {*model.labels} <= CAUSES.keys()
    numbers = {int(e.partition(":")[0]) for row in model.words.values() for e in row.split()}
    assert numbers <= {*range(len(model.labels))}
    assert os.path.getsize(f"{FOLDER}/weights.tsv") < 680_000


def test_nothing_of_the_newest_exam_is_learned() -> None:
    assert not any(each.thread.unread for each in learn_known() if each.thread)


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
def test_the_words_put_the_second_cause_of_a_rule_first(share: float, first: str) -> None:
    assert recalled(known(FIVE), votes(peer_gone=share), {}, 5, OF_RULE)[0].label == first


def test_a_cause_of_the_words_alone_is_named_beside_those_of_a_rule() -> None:
    found = recalled(known(FIVE), votes(memlock=0.2), {}, 5, OF_RULE)
    assert (found[0].label, found[1].label) == ("no-path", "memlock")


def test_words_weigh_less_than_a_rule() -> None:
    given, learned = known(FIVE), votes(memlock=0.2)
    assert recalled(given, learned, {}, 5, OF_WORDS)[0].label == "memlock"
    assert recalled(given, learned, {}, 5, OF_RULE)[0].label == "no-path"


def test_messages_that_share_words_are_heard_beside_the_words() -> None:
    learned, printed = votes(memlock=0.4, gdr_off=0.3), votes(gdr_off=0.3)
    assert recalled((), learned, printed, 5, OF_WORDS)[0].label == "gdr-off"


def test_at_the_same_weight_the_rules_cause_is_first() -> None:
    share = OF_RULE / OF_MODEL
    assert labels(recalled(known(["no-path"]), votes(memlock=share), {}, 5, OF_RULE)) == [
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


def explained(line: str, label: str, weight: int = 99) -> Score:
    model = Model((label, "no-path"), (0.0, 0.0), dict.fromkeys(features(line), f"0:{weight}"))
    return score(Excerpt("a", {}, line.encode()), model)


def test_a_line_that_no_rule_knows_has_the_cause_that_its_words_have() -> None:
    found = explained(UNHEARD, "gdr-off").account
    assert found.first
    assert (found.first.what, found.first.causes[0].label) == ("words", "gdr-off")
    assert (found.first.rests_on, found.unknown) == ("words", ())


def test_words_that_say_little_leave_it_not_understood() -> None:
    line = "n1:1:2 [0] NCCL WARN NET/IB : a gizmo failed"
    found = score(Excerpt("a", {}, line.encode()), model_of.NOTHING).account
    assert (found.first, [each.text for each in found.unknown]) == (None, [line])


def test_a_rule_and_words_that_agree() -> None:
    line = "NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory"
    first = explained(line, "memlock").account.first
    assert first
    assert (first.rests_on, first.probability) == ("both", chance(Basis.BOTH))
    first = explained(line, "link-lost", 4).account.first
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


@pytest.mark.parametrize("labels", [(), ("memlock",), ("gid-index-0", "cables-mixed-up")])
def test_nothing_tells_one_cause_or_those_without_a_look(labels: tuple[str, ...]) -> None:
    assert apart(labels, "linux", {}) is None


def only(line: str, monkeypatch: pytest.MonkeyPatch) -> Apart | None:
    """The check where one of two causes without rules has this line alone, the other none."""
    by_label = {"gid-index-0": (line,)}
    monkeypatch.setattr(separating_check, "remedy", lambda label, _: by_label.get(label, ()))
    return apart(("gid-index-0", "cables-mixed-up"), "linux", {})


@pytest.mark.parametrize(
    "line",
    [
        "ompi_info | grep -E 'MCA (pml|btl):'",
        "sudo devlink health show",
        "devlink dev param show | grep -A3 -E 'enable_roce|enable_rdma'",
        "sudo rdma res show mr; sudo rdma res show qp",
        "rdma resource show cm_id",
        "ps -eo pid,stat,args   # T is stopped",
        "sudo ss -tlnp",
        "sudo firewall-cmd --list-all",
        "sysctl -n net.ipv4.ip_unprivileged_port_start",
        "ip maddress show",
        "systemctl status ibacm iwpmd --no-pager",
        "dpkg -l | grep ucx || rpm -qa | grep ucx",
        "ip -brief link   # down? sudo ip link set dev INTERFACE up",
    ],
)
def test_a_command_that_reads_is_a_look(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert only(line, monkeypatch) == Apart(line, ("gid-index-0",))


@pytest.mark.parametrize(
    "line",
    [
        "ip link set PF vf 0 node_guid GUID",
        "rdma link add rxe0 type rxe netdev eth0",
        "ip neigh flush dev eth0",
        "ulimit -c unlimited   # and keep the core file",
        "lsmod | grep gdrdrv || sudo modprobe gdrdrv",
        "systemctl status ibacm; sudo systemctl restart ibacm",
        "sudo devlink health recover pci/0000:03:00.0 reporter fw",
        "sysctl -w vm.nr_hugepages=1024",
        "grep -H . /sys/class/infiniband/*/node_guid > FILE",
        "# ls /dev/infiniband",
    ],
)
def test_a_line_that_changes_something_is_no_look(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert only(line, monkeypatch) is None


# --- similar -----------------------------------------------------------------------------


def test_similar_threads_are_listed_once_with_their_addresses() -> None:
    found = similar("NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory")
    assert found
    assert len({each.address for each in found}) == len(found) <= 5
    assert all(each.address.startswith("http") for each in found)
    assert [each.likeness for each in found] == sorted((e.likeness for e in found), reverse=True)
    assert similar("frobnicator") == ()


# --- held apart --------------------------------------------------------------------------


def test_the_line_that_tells_most_is_kept_short() -> None:
    row = Row("a", "memlock", f"hello\n{LIMIT} {'x' * 200}\n", "stated")
    assert telling(row, CASES).startswith("gizmo: ibv_reg_mr")
    assert len(telling(row, CASES)) == MOST


def test_an_example_is_a_row_that_fails() -> None:
    noise = Row("b", "noise", "well")
    thread = Thread(next(read()).path, "a", "s", "t", False, (noise,))
    assert examples([thread]) == ()
