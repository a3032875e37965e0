"""A verdict as checks: every rule that was asked, once at least."""

from lab.samples import infiniband_host
from rdmadiag.facts.ib import PhysState, PortState
from rdmadiag.preflight.checks import checks, counted
from rdmadiag.preflight.judge import judge
from rdmadiag.preflight.verdict import Severity, Status


def test_a_healthy_host_is_one_check_a_rule_and_all_are_ok() -> None:
    verdict = judge(infiniband_host().evidence())
    found = checks(verdict)
    assert [check.rule for check in found] == list(verdict.rules_asked)
    assert len(found) > 40
    assert {check.status for check in found} == {Status.OK}
    assert {check.place for check in found} == {""}


def test_a_rule_that_spoke_is_a_check_at_each_place_and_no_other() -> None:
    down = infiniband_host().with_port(state=PortState.DOWN, phys=PhysState.POLLING)
    verdict = judge(down.evidence())
    link = [check for check in checks(verdict) if check.rule == "link-not-up"]
    places = [each for each in verdict.findings if each.rule == "link-not-up"]
    assert [check.place for check in link] == [f"{each.device}/{each.port}" for each in places]
    assert all(check.status is not Status.OK for check in link)
    shown = [finding for check in checks(verdict) for finding in check.findings]
    assert sorted(map(id, shown)) == sorted(map(id, verdict.findings)), "none twice, none lost"
    assert sum(counted(verdict).values()) == len(verdict.findings)
    assert counted(verdict)[Severity.UNKNOWN] == 0
