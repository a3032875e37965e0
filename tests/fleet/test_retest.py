"""What is measured again: suspects with each other and with what passed, and never a failure."""

from collections import Counter
from dataclasses import replace
from math import log

from rdmadiag.facts.attempt import Outcome
from rdmadiag.fleet.fit import Sample, Seat, fit
from rdmadiag.fleet.retest import again, disjoint, retest
from rdmadiag.fleet.rounds import Phase
from tests.fleet.planted import fleet, nodes, results

HOSTS, RAILS = 16, 2
SEATS = [Seat(node, rail, -1) for node in range(HOSTS) for rail in range(RAILS)]


def samples(slow: frozenset[int] = frozenset(), times: float = 1.5) -> list[Sample]:
    """Five rounds; the pair of these two ends is slow, or all of one."""
    number = {name: index for index, name in enumerate(nodes(HOSTS))}
    found = []
    for each in fleet(HOSTS, RAILS, 5):
        for one, other in each.pairs:
            ends = [
                number[node] * RAILS + rail
                for node, rail in zip((one, other), each.rails, strict=True)
            ]
            is_slow = slow and slow <= set(ends)
            found.append(Sample(*ends, each.number, log(times) if is_slow else 0.0))
    return found


def test_of_a_fleet_in_order_nothing_is_measured_again() -> None:
    assert again(samples(), SEATS) == ()


def test_a_pair_that_is_slow_is_measured_again_in_the_same_direction() -> None:
    first = samples()[0]
    slow = samples(frozenset(first[:2]))
    assert first[:2] in again(slow, SEATS)


def test_a_fit_that_is_known_is_not_needed_twice() -> None:
    slow = samples(frozenset(samples()[0][:2]))
    assert again(slow, SEATS, found=fit(slow, SEATS)) == again(slow, SEATS) != ()
    assert again(slow, SEATS, found=fit(samples(), SEATS)) == ()


def test_both_ends_of_a_slow_pair_are_tried_with_others_that_passed() -> None:
    first = samples()[0]
    one, other = first[:2]
    slow = samples(frozenset((one, other)))
    wanted = set(again(slow, SEATS)) - {(one, other)}
    assert {sender for sender, _ in wanted if sender == one} == {one}
    assert {receiver for _, receiver in wanted if receiver == other} == {other}
    for pair in wanted:
        assert len({SEATS[end].node for end in pair}) == 2
        assert len({SEATS[end].rail for end in pair}) == 1


def test_an_end_that_is_barred_takes_no_part() -> None:
    first = samples()[0]
    one, other = first[:2]
    slow = samples(frozenset((one, other)))
    for sender, receiver in again(slow, SEATS, barred=(one,)):
        assert one not in (sender, receiver)


def test_measuring_again_ends() -> None:
    first = samples()[0]
    slow = samples(frozenset(first[:2]))
    for stage in range(8):
        wanted = again(slow, SEATS)
        if not wanted:
            break
        for pair in wanted:
            cost = log(1.5) if set(pair) == set(first[:2]) else 0.0
            slow.append(Sample(*pair, 100 + stage, cost))
    assert not wanted


def test_rounds_of_what_is_measured_again_have_no_node_twice_and_the_same_rails() -> None:
    pairs = [(0, 2), (0, 4), (2, 4), (1, 3), (0, 2)]
    rounds = disjoint(pairs, SEATS)
    assert Counter(pair for each in rounds for pair in each) == Counter(pairs)
    for each in rounds:
        hosts = [SEATS[end].node for pair in each for end in pair]
        assert len(hosts) == len(set(hosts))
        assert len({tuple(SEATS[end].rail for end in pair) for pair in each}) == 1


def test_after_the_planned_rounds_come_those_of_suspects_with_partners_that_passed() -> None:
    said = results(fleet(HOSTS, RAILS, 3), lambda a, i, b, j: 1.5 if "n003" in (a, b) else 1.0)
    rounds = retest(said, 7)
    assert [each.number for each in rounds] == list(range(7, 7 + len(rounds)))
    for each in rounds:
        assert each.phase is Phase.RETEST
        assert all("n003" in pair for pair in each.pairs)


def test_what_failed_or_is_barred_is_never_measured_again() -> None:
    said = [
        replace(each, outcome=Outcome.COMPLETION_ERROR, latency_us=None)
        if "n003" in (each.sender.node, each.receiver.node)
        else each
        for each in results(fleet(HOSTS, 1, 3), lambda a, i, b, j: 1.5 if "n005" in (a, b) else 1.0)
    ]
    failed = {
        node
        for each in said
        if each.outcome is Outcome.COMPLETION_ERROR
        for node in (each.sender.node, each.receiver.node)
    }
    busy = {node for each in retest(said, 4) for pair in each.pairs for node in pair}
    assert "n005" in busy or "n005" in failed
    assert not busy & failed
    assert retest(said, 4, barred={("n005", 0)}) == () or "n005" in failed
