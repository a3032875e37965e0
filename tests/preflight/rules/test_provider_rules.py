"""How a query of the verbs library ends: hung, crashed, cut off, or well."""

import time
from dataclasses import replace

import pytest

from lab.mac import ready_mac
from lab.samples import roce_host
from rdmadiag.facts import Missing
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.verbs import KILLED, Unanswered
from rdmadiag.preflight.judge import judge
from rdmadiag.sources.run import gather
from rdmadiag.view.access import WEDGED_AFTER

CALL = Unanswered("ibv_query_port", "mlx5_0", 1, WEDGED_AFTER, KILLED, 1234, unkillable=False)


def ended(evidence: Evidence, call: Unanswered | None) -> list[tuple[str, str]]:
    assert not isinstance(evidence.verbs, Missing)
    stopped = replace(evidence, verbs=replace(evidence.verbs, unanswered=call))
    return [(each.rule, each.severity.value) for each in judge(stopped).findings]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (None, []),
        (CALL, [("provider-wedged", "critical")]),
        (replace(CALL, end="ended by signal 11"), [("provider-died", "critical")]),
        (replace(CALL, seconds=WEDGED_AFTER / 2), [("provider-late", "unknown")]),
    ],
    ids=["well", "it hangs", "it crashes", "it is cut off"],
)
def test_the_end_of_the_query_is_told_by_one_rule(
    call: Unanswered | None, expected: list[tuple[str, str]]
) -> None:
    assert ended(roce_host().evidence(), call) == expected


def test_on_a_mac_a_crash_is_that_of_every_device() -> None:
    mac = gather(ready_mac().host(), time.monotonic() + 20)
    call = replace(CALL, device="rdma_en2", end="ended by signal 11")
    assert ("provider-died", "critical") in ended(mac, call)
