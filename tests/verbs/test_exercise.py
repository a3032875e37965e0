"""A whole run of `exercise` on a Mac: which port, who is in the way, what is tried there."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.mac import Mac
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.attempt import Teardown
from rdmadiag.facts.exercise import CellState, RunOutcome, Wanted
from rdmadiag.host.recorded import open_snapshot
from rdmadiag.preflight.candidate import Wanted as End
from rdmadiag.preflight.candidate import candidates
from rdmadiag.preflight.safety import Reason
from rdmadiag.sources.run import gather
from rdmadiag.sources.table import Depth
from rdmadiag.verbs import exercise as subject
from rdmadiag.verbs.exercise import Ran
from rdmadiag.verbs.matrix import LENGTH, unclaimed, wanted
from rdmadiag.view.reconcile import Protocol
from rdmadiag.view.select import Selector
from tests.verbs.test_attempt import BOOT, PORTS, cabled_mac, prepare, record  # noqa: F401

Run = Callable[..., tuple[Ran, list[str]]]


@pytest.fixture
def run(prepare: Callable[..., tuple[Any, Any]]) -> Run:  # noqa: F811
    """`run(machine, rules, …)`: what came of it, and the calls of its library."""

    def tried(
        machine: Mac,
        rules: str = "",
        selectors: tuple[Selector, ...] = PORTS,
        cells: tuple[Wanted, ...] | None = None,
        accepted: frozenset[Reason] = frozenset(),
        **options: Any,
    ) -> tuple[Ran, list[str]]:
        host, fake = prepare(machine, rules, BOOT)
        ran = subject.run(
            host,
            wanted() if cells is None else cells,
            selectors,
            accepted,
            time.monotonic(),
            20.0,
            lambda each: None,
            **options,
        )
        return ran, fake.calls

    return tried


def states(ran: Ran) -> dict[str, CellState]:
    return {
        f"{each.operation} {each.qp_type} {each.via}": each.state for each in ran.exercise.cells
    }


def test_on_thunderbolt_messages_of_uc_are_verified_and_the_rest_is_not_claimed(run: Run) -> None:
    ran, calls = run(cabled_mac())
    found = states(ran)
    assert len(found) == len(wanted())
    assert {name for name, each in found.items() if each is CellState.VERIFIED} == {"send uc poll"}
    assert set(found.values()) == {CellState.VERIFIED, CellState.NOT_CLAIMED}
    assert (ran.exercise.outcome, ran.exercise.teardown) == (RunOutcome.DONE, Teardown.CLEAN)
    assert (ran.exercise.device, ran.exercise.peer_device) == ("rdma_en1", "rdma_en2")
    assert [each for each in calls if "to_err" in each] == []  # TN3205 knows no way back from ERR


@pytest.mark.parametrize(
    "selectors",
    [(), PORTS[:1], (PORTS[0], PORTS[0]), (PORTS[0], Selector("rdma_en1", 1))],
    ids=["none is named", "one is named", "one is named twice", "one under two names"],
)
def test_a_thunderbolt_port_is_never_both_ends(
    selectors: tuple[Selector, ...], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(*given: Any, **others: Any) -> Any:
        raise AssertionError("a child was started")

    monkeypatch.setattr(subject, "watch", started)
    ran, calls = run(cabled_mac(), selectors=selectors, accepted=frozenset(Reason))
    assert (ran.exercise.outcome, calls) == (RunOutcome.NOT_SAFE, [])
    assert "name a peer, or two ports" in ran.exercise.summary


def test_queue_pairs_of_others_keep_it_from_a_mac(run: Run) -> None:
    held = cabled_mac()
    held = held.change(
        cables=tuple(replace(each, queue_pairs=each.queue_pairs + 1) for each in held.cables)
    )
    ran, calls = run(held)
    assert ran.exercise.outcome is RunOutcome.BUSY
    assert "queue pair" in ran.exercise.summary
    assert not any("ibv_alloc_pd" in each for each in calls)
    assert run(held, even_if_busy=True)[0].exercise.outcome is RunOutcome.DONE


def test_an_rtr_that_failed_is_remembered_and_forbids_the_next(
    run: Run,
    record: Path,  # noqa: F811
) -> None:
    cells = wanted(["send"], ["uc"])
    ran, _ = run(cabled_mac(), "on modify_qp_to_rtr errno=60\n", cells=cells)
    assert states(ran)["send uc poll"] is CellState.REFUSED
    assert record.exists()
    again, calls = run(cabled_mac(), cells=cells)
    assert again.exercise.outcome is RunOutcome.NOT_SAFE
    assert Reason.PRIOR_RTR_FAILURE in again.chosen[0].blocking
    assert not any("ibv_alloc_pd" in each for each in calls)


def test_an_rtr_that_succeeded_is_not_held_against_the_host(
    run: Run,
    record: Path,  # noqa: F811
) -> None:
    for _ in range(2):
        assert run(cabled_mac())[0].exercise.outcome is RunOutcome.DONE


RECORDED = sorted((Path(__file__).parents[1] / "fixtures").glob("mac-*"))


@pytest.mark.parametrize("folder", RECORDED, ids=lambda folder: folder.name)
def test_of_every_recorded_mac_one_cell_is_left_to_try(folder: Path) -> None:
    deadline = time.monotonic() + 20
    evidence = gather(open_snapshot(str(folder)), deadline, None, Depth())
    ports = candidates(evidence, End(payload_bytes=LENGTH, iterations=1))
    protocols = {each.protocol for each in ports}
    assert protocols <= {Protocol.THUNDERBOLT}  # a Mac whose RDMA is off shows no port
    absent = tuple(unclaimed(wanted(), Missing(Why.ABSENT, ""), {Protocol.THUNDERBOLT}))
    assert {each.state for each in absent} == {CellState.NOT_CLAIMED}
    assert len(absent) == len(wanted()) - 1
