"""From evidence to verdict: pure, so that a saved report can be judged again."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rdmadiag.facts import Missing
from rdmadiag.facts.evidence import Evidence
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.rules import check
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
    fleet_size: int | None = None,
) -> Verdict:
    """The verdict on the selected ports. Raises NoSuchDevice as `select` does.

    `stacks` are those whose choice of a GID is judged as well; `fleet_size` is the number of
    hosts that the limits of this one are held against.
    """
    every = devices(evidence)
    chosen = select(every, selectors)
    compared: tuple[Compared, ...] = ()
    if expectations:
        from rdmadiag.preflight.expectations.compare import compare

        compared = compare(expectations, every, chosen, evidence)
    case = Case(
        evidence,
        chosen,
        selected=bool(selectors),
        stacks=tuple(stacks),
        expected=compared,
        fleet_size=fleet_size,
    )
    safety = assess(chosen, evidence)
    checked = check(case)
    return conclude(
        safety.ports,
        checked.findings,
        reasons=safety.host,
        rules=checked.codes,
        skipped=checked.skipped,
        expectations=_counted(compared) if expectations else None,
    )


def _counted(compared: "Sequence[Compared]") -> ExpectationCount:
    return ExpectationCount(
        compared=len(compared),
        met=sum(each.met is True for each in compared),
        unknown=sum(isinstance(each.met, Missing) for each in compared),
    )
