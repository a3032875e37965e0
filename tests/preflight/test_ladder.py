"""How far a port gets: a healthy machine, and one change."""

from dataclasses import replace
from typing import Any

import pytest

from lab.machine import Machine
from lab.samples import roce_host
from rdmadiag.api import collect
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.evidence import Evidence
from rdmadiag.preflight.judge import judge
from rdmadiag.preflight.ladder import next_step, reached, with_ladders
from rdmadiag.preflight.verdict import Footing, LadderStep, Rung
from rdmadiag.view.reconcile import devices

UNREAD = Missing(Why.TIMEOUT)
FIRM = (Footing.REACHED, Footing.NOT_NEEDED)


def ladder(evidence: Evidence, place: int = 0, proven: Any = ()) -> tuple[LadderStep, ...]:
    verdict = with_ladders(judge(evidence), devices(evidence), evidence, proven)
    return verdict.ports[place].ladder


def stands(steps: tuple[LadderStep, ...]) -> tuple[Rung, Rung | None, Footing | None, str | None]:
    step = next_step(steps)
    return reached(steps), *((step.rung, step.footing, step.why) if step else (None, None, None))


def sample(name: str) -> Evidence:
    return collect(sample=name).evidence


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("container-without-uverbs", (Rung.SEEN, Rung.OPENED, Footing.STOPPED)),
        ("infiniband-no-subnet-manager", (Rung.OPENED, Rung.LINK, Footing.STOPPED)),
        ("roce-empty-gid-table", (Rung.LINK, Rung.ADDRESSED, Footing.STOPPED)),
        ("infiniband-two-hca", (Rung.PERMITTED, Rung.PROVEN, Footing.NOT_TRIED)),
        ("roce-healthy", (Rung.PERMITTED, Rung.PROVEN, Footing.NOT_TRIED)),
        ("mac-no-ipv4-gid", (Rung.LINK, Rung.ADDRESSED, Footing.STOPPED)),
        ("mac-ready", (Rung.PERMITTED, Rung.PROVEN, Footing.NOT_TRIED)),
    ],
)
def test_each_sample_gets_as_far_as_its_trouble(
    name: str, expected: tuple[Rung, Rung, Footing]
) -> None:
    steps = ladder(sample(name))
    assert [each.rung for each in steps] == list(Rung)
    assert stands(steps)[:3] == expected
    step = next_step(steps)
    assert step
    assert step.text
    assert step.remedy


def test_a_verified_pingpong_is_the_last_rung() -> None:
    evidence = sample("roce-healthy")
    steps = ladder(evidence, 0, {("rxe0", 1)})
    assert (reached(steps), next_step(steps)) == (Rung.PROVEN, None)
    assert reached(ladder(evidence, 1, {("rxe0", 1)})) is Rung.PERMITTED


def nic(**changes: Any) -> Machine:
    """A NIC, whose packets PFC keeps or does not."""
    return roce_host().change(**changes)


def test_priority_flow_control_that_was_not_read_is_not_known() -> None:
    evidence = replace(nic().evidence(), dcb=UNREAD)
    lossless = ladder(evidence)[list(Rung).index(Rung.LOSSLESS)]
    assert lossless.footing is Footing.UNKNOWN
    assert lossless.remedy == ("rdmadiag lossless --device mlx5_0:1",)


@pytest.mark.parametrize("source", ["sysfs", "nldev", "netdev", "process", "verbs", "dcb"])
@pytest.mark.parametrize("name", ["roce-healthy", "infiniband-two-hca", "mac-ready"])
def test_less_evidence_reaches_no_further(name: str, source: str) -> None:
    evidence = sample(name)
    whole = judge(evidence)
    less = replace(evidence, **{source: UNREAD})
    verdict = with_ladders(judge(less), devices(less), less)
    full = with_ladders(whole, devices(evidence), evidence)
    before = {(each.device, each.port): each.ladder for each in full.ports}
    for port in verdict.ports:
        for had, has in zip(before[port.device, port.port], port.ladder, strict=True):
            assert has.footing not in FIRM or had.footing in FIRM, has
            assert has.footing is not Footing.STOPPED or had.footing is Footing.STOPPED, has


def test_a_device_that_the_library_did_not_answer_for_is_not_opened() -> None:
    steps = ladder(replace(sample("infiniband-two-hca"), verbs=UNREAD))
    assert stands(steps)[:3] == (Rung.SEEN, Rung.OPENED, Footing.UNKNOWN)


def test_a_hostile_name_stays_one_word_of_a_line_to_paste() -> None:
    evidence = nic().evidence()
    assert not isinstance(evidence.sysfs, Missing)
    text = evidence.sysfs
    name = "a;touch x"
    found = replace(
        text,
        devices=tuple(replace(each, name=name) for each in text.devices),  # type: ignore[union-attr]
    )
    evidence = replace(evidence, sysfs=found, nldev=UNREAD, verbs=UNREAD)
    lines = [line for step in ladder(evidence) for line in step.remedy]
    assert lines
    assert not [line for line in lines if ";" in line and "'" not in line]
