"""From evidence to verdict: pure, so that a saved report can be judged again."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rdmadiag.preflight.evidence import Evidence
from rdmadiag.preflight.reconcile import Protocol, devices
from rdmadiag.preflight.rules import findings
from rdmadiag.preflight.rules.rule import Case
from rdmadiag.preflight.safety import (
    derive_preflight_safety,
    reasons_against_rtr,
    thunderbolt_report,
)
from rdmadiag.preflight.select import Selector, select
from rdmadiag.preflight.verdict import Verdict, conclude

if TYPE_CHECKING:
    from rdmadiag.gid.registry import Chosen


def judge(
    evidence: Evidence, selectors: Sequence[Selector] = (), stacks: "Sequence[Chosen]" = ()
) -> Verdict:
    """The verdict on the selected ports. Raises NoSuchDevice as `select` does.

    `stacks` are those whose choice of a GID is judged as well.
    """
    chosen = select(devices(evidence), selectors)
    case = Case(evidence, chosen, selected=bool(selectors), stacks=tuple(stacks))
    ports = [(port, reasons_against_rtr(port, device, evidence)) for device, port in case.ports]
    thunderbolt = [port for port, _ in ports if port.protocol is Protocol.THUNDERBOLT]
    permitted = (
        not thunderbolt or derive_preflight_safety(thunderbolt_report(thunderbolt, evidence))[0]
    )
    return conclude(ports, findings(case), permitted=permitted)
