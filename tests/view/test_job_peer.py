"""Two parts of a job beside each other: which queue pairs lead to each other."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.job import AskedJob, Extent, JobFacts, JobProcess
from rdmadiag.facts.libraries import MappedLibrary
from rdmadiag.view.job import Bound, ConnectedPair, JobView, Transport
from rdmadiag.view.job_peer import BothEnds, Differs, beside

LATE = Missing(Why.TIMEOUT, "the dump is late")
NO = Missing(Why.ABSENT, "nothing moved")


def nccl(version: str | Missing) -> MappedLibrary:
    return MappedLibrary("nccl", "/usr/lib/libnccl.so", version)


def facts(**changes: Any) -> JobFacts:
    one = JobProcess(4711, "python3", {"NCCL_IB_HCA": "mlx5_0"}, (nccl("2.27.3"),), (), "net:[1]")
    return JobFacts(AskedJob(4711, Extent.PROCESS), (replace(one, **changes),), "net:[1]", None)


def view(*pairs: ConnectedPair, **changes: Any) -> JobView:
    transport = Transport(10.0, 1.0, 0, Bound.COUNTED, 0, NO, NO)
    made = JobView(transport, (), (), (), len(pairs), {}, (), 0, pairs)
    return replace(made, **changes)


HERE = ConnectedPair("mlx5_0", 100, 700, "rts"), ConnectedPair("mlx5_1", 101, 701, "rts")
THERE = ConnectedPair("mlx5_4", 700, 100, "rts"), ConnectedPair("mlx5_5", 701, 101, "rts")


def test_queue_pairs_are_joined_by_both_their_numbers() -> None:
    found = beside(facts(), view(*HERE), facts(), view(*THERE))
    assert (found.joined, found.connected, found.halves) == (2, 2, ())
    assert (found.variables, found.libraries) == ((), ())


def test_one_whose_other_end_leads_elsewhere_is_not_joined() -> None:
    other = replace(THERE[0], peer=999)
    assert beside(facts(), view(*HERE), facts(), view(other, THERE[1])).joined == 1


def test_an_end_in_error_alone_is_named_with_its_other_end() -> None:
    broken = replace(THERE[1], state="err")
    found = beside(facts(), view(*HERE), facts(), view(THERE[0], broken))
    assert (found.joined, found.halves) == (2, (BothEnds(HERE[1], broken),))
    both = replace(HERE[1], state="err")
    assert beside(facts(), view(both), facts(), view(broken)).halves == ()


def test_two_devices_with_the_same_numbers_are_two_pairs() -> None:
    twins = HERE[0], replace(HERE[0], device="mlx5_1")
    others = THERE[0], replace(THERE[0], device="mlx5_5", state="err")
    found = beside(facts(), view(*twins), facts(), view(*others))
    assert (found.joined, len(found.halves)) == (2, 1)
    assert beside(facts(), view(*twins), facts(), view(THERE[0])).joined == 1


@pytest.mark.parametrize("end", ["here", "there"])
def test_where_queue_pairs_are_not_seen_none_is_said_to_lead_anywhere(end: str) -> None:
    one = view(*HERE, connected=LATE) if end == "here" else view(*HERE)
    other = view(*THERE, connected=LATE) if end == "there" else view(*THERE)
    found = beside(facts(), one, facts(), other)
    assert isinstance(found.joined, Missing)
    assert found.joined.why is Why.TIMEOUT
    assert ("at the peer" in found.joined.detail) is (end == "there")
    assert found.connected == (LATE if end == "here" else 2)


def test_variables_and_libraries_that_differ_are_named_with_both_values() -> None:
    here = facts(environment={"NCCL_IB_HCA": "mlx5_0", "MLX_RANK": "0", "UCX_TLS": "rc"})
    there = facts(
        environment={"NCCL_IB_HCA": "mlx5_4", "MLX_RANK": "1"},
        libraries=(nccl("2.21.5"), nccl(NO)),
    )
    found = beside(here, view(), there, view())
    assert found.variables == (
        Differs("NCCL_IB_HCA", ("mlx5_0",), ("mlx5_4",)),
        Differs("UCX_TLS", ("rc",), ()),
    )
    assert found.libraries == (Differs("nccl", ("2.27.3",), ("2.21.5", "version not in its name")),)


def test_what_one_process_does_not_show_is_not_compared() -> None:
    found = beside(facts(), view(), facts(environment=LATE, libraries=LATE), view())
    assert (found.variables, found.libraries) == (LATE, LATE)


QPN = st.integers(0, 3)
PAIRS = st.lists(
    st.builds(ConnectedPair, st.sampled_from(["a", "b"]), QPN, QPN, st.sampled_from(["rts", "err"]))
)


@given(PAIRS, PAIRS)
def test_no_queue_pair_is_joined_twice_and_both_ends_say_the_same(
    own: list[ConnectedPair], theirs: list[ConnectedPair]
) -> None:
    found = beside(facts(), view(*own), facts(), view(*theirs))
    back = beside(facts(), view(*theirs), facts(), view(*own))
    assert isinstance(found.joined, int)
    assert found.joined == back.joined
    assert found.joined <= min(len(own), len(theirs))
