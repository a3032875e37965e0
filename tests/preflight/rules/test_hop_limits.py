"""How many routers packets get past: a host with a gateway, and one change."""

from dataclasses import replace
from typing import Any

import pytest

from lab.machine import Machine
from lab.routing import Way
from rdmadiag.facts import Missing, Why
from rdmadiag.preflight.judge import judge
from tests.preflight.rules.linux_machines import findings
from tests.preflight.test_judge_route import host

V4 = Way("0.0.0.0/0", "eth0", gateway="192.0.2.254")
V6 = Way("::/0", "eth0", gateway="2001:db8::fe")


def subject(*ways: Way, limit: int | None = 64, **changes: Any) -> Machine:
    machine = host(("192.0.2.1/24", "2001:db8::1/64"), ways=ways, **changes)
    (own,) = machine.netdevs
    return machine.change(netdevs=(own.__class__(**{**vars(own), "hop_limit": limit}),))


@pytest.mark.parametrize(
    ("machine", "wanted"),
    [
        (subject(V4, default_ttl=64), []),
        (subject(V4, default_ttl=1), ["net.ipv4.ip_default_ttl is 1"]),
        (
            subject(replace(V4, hop_limit=2), default_ttl=64),
            ["hoplimit of the route 0.0.0.0/0 is 2"],
        ),
        (subject(replace(V4, hop_limit=64), default_ttl=1), []),
        (subject(default_ttl=1), []),
        (subject(V6, default_ttl=1), []),
        (subject(V6, limit=2, default_ttl=64), ["net.ipv6.conf.eth0.hop_limit is 2"]),
        (subject(V4, limit=2, default_ttl=64), []),
        (subject(V4, V6, limit=None, default_ttl=64), []),
    ],
    ids=[
        "as usual",
        "one hop",
        "two hops of the route",
        "one hop, and more by the route",
        "one hop, and no gateway",
        "one hop of IPv4, and a gateway of IPv6",
        "two hops of IPv6",
        "two hops of IPv6, and a gateway of IPv4",
        "a kernel that does not say",
    ],
)
def test_a_host_whose_routes_lead_by_a_gateway_gets_past_it(
    machine: Machine, wanted: list[str]
) -> None:
    said = [each.summary for each in findings(machine) if each.rule == "hop-limit-low"]
    assert said == [f"{each}, and a route leads by a gateway" for each in wanted]


def test_the_remedy_names_the_sysctl() -> None:
    (found,) = (e for e in findings(subject(V4, default_ttl=1)) if e.rule == "hop-limit-low")
    assert found.remedy[1] == "sudo sysctl -w net.ipv4.ip_default_ttl=64"


def test_a_record_from_before_has_no_such_rule() -> None:
    verdict = judge(subject(V4).evidence())
    rules = {each.rule for each in (*verdict.findings, *verdict.skipped)}
    assert not rules & {"hop-limit-low", "xdp-at-port", "cgroup-limit-low"}


def test_a_route_whose_kind_was_not_read_leads_by_its_gateway_all_the_same() -> None:
    evidence = subject(V4, default_ttl=1).evidence()
    routing = evidence.routing
    assert not isinstance(routing, Missing)
    assert not isinstance(routing.routes, Missing)
    routes = tuple(replace(row, kind=Missing(Why.TIMEOUT, "late")) for row in routing.routes)
    found = judge(replace(evidence, routing=replace(routing, routes=routes))).findings
    assert "hop-limit-low" in {each.rule for each in found}
