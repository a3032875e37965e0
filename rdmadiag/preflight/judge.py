"""From evidence to verdict: pure, so that a saved report can be judged again."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rdmadiag.facts import Missing
from rdmadiag.facts.evidence import Evidence
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.rules import codes, findings
from rdmadiag.preflight.safety import assess
from rdmadiag.preflight.verdict import ExpectationCount, Verdict, conclude
from rdmadiag.view.reconcile import devices
from rdmadiag.view.select import Selector, select

if TYPE_CHECKING:
    from rdmadiag.gid.registry import Chosen
    from rdmadiag.preflight.expectations import Expectations
    from rdmadiag.preflight.expectations.compare import Compared


def judge(
    evidence: Evidence,
    selectors: Sequence[Selector] = (),
    stacks: "Sequence[Chosen]" = (),
    expectations: "Expectations | None" = None,
) -> Verdict:
    """The verdict on the selected ports. Raises NoSuchDevice as `select` does.

    `stacks` are those whose choice of a GID is judged as well.
    """
    every = devices(evidence)
    chosen = select(every, selectors)
    compared: tuple[Compared, ...] = ()
    if expectations:
        from rdmadiag.preflight.expectations.compare import compare

        compared = compare(expectations, every, chosen, evidence)
    case = Case(evidence, chosen, selected=bool(selectors), stacks=tuple(stacks), expected=compared)
    safety = assess(chosen, evidence)
    return conclude(
        safety.ports,
        findings(case),
        reasons=safety.host,
        rules=codes(case),
        expectations=_counted(compared) if expectations else None,
    )


def _counted(compared: "Sequence[Compared]") -> ExpectationCount:
    return ExpectationCount(
        compared=len(compared),
        met=sum(each.met is True for each in compared),
        unknown=sum(isinstance(each.met, Missing) for each in compared),
    )
