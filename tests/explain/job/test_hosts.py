"""Whose an address is, by the reports of hosts."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.explain.job.hosts import KnownHost, Place, canonical, newest, places_of
from rdmadiag.preflight.verdict import Finding, Severity, Status


def document() -> dict[str, Any]:
    entries = [
        {"index": 0, "gid": "fe80::6cff:adff:fed4:9e7e", "type": "roce_v2"},
        {"index": 2, "gid": "::ffff:192.0.2.1", "type": "roce_v1"},
        {"index": 3, "gid": "::ffff:192.0.2.1", "type": "roce_v2"},
        {"index": 4, "gid": "2001:db8::1", "type": "roce_v2"},
    ]
    port = {"number": 1, "gids": {"length": 16, "entries": entries}}
    addresses = [{"address": "192.0.2.1"}, {"address": "10.0.0.1"}, {"address": "fe80::1"}]
    return {
        "evidence": {
            "sysfs": {"devices": [{"name": "mlx5_0", "ports": [port]}]},
            "netdev": {"netdevs": [{"name": "eth0", "addresses": addresses}]},
        }
    }


def test_an_address_is_at_the_device_that_has_its_gid_and_at_its_last_row() -> None:
    assert places_of("n1", document()) == {
        "192.0.2.1": Place("n1", "mlx5_0", 1, 3),
        "10.0.0.1": Place("n1"),
        "2001:db8::1": Place("n1", "mlx5_0", 1, 4),
    }


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("192.0.2.1", "192.0.2.1"),
        ("2001:0db8::0001", "2001:db8::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("Node7", "node7"),
    ],
)
def test_one_address_has_one_writing(text: str, same: str) -> None:
    assert canonical(text) == same


def known(name: str, generated_at: str, *, rule: str, evidence: bool = True) -> KnownHost:
    finding = Finding(rule, Severity.WARN, None, None, "x", (), (), ())
    return KnownHost(name, rule, generated_at, Status.WARN, (finding,), {}, evidence)


def test_of_two_reports_the_newer_is_taken_with_what_counters_found() -> None:
    several = [
        known("a", "2026-03-13T12:00:00Z", rule="new"),
        known("a", "2026-03-12T12:00:00Z", rule="old"),
        known("b", "2026-03-14T12:00:00Z", rule="counters", evidence=False),
        known("b", "2026-03-12T12:00:00Z", rule="report"),
    ]
    found = newest(several)
    assert found["a"].where == "new"
    assert [each.rule for each in found["b"].findings] == ["report", "counters"]
    assert found["b"].has_evidence


JUNK = st.recursive(
    st.none() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(("sysfs", "devices", "ports", "gids", "entries", "gid", "name")), inner
        )
    ),
    max_leaves=8,
)


@given(JUNK, st.sampled_from(("evidence", "sysfs", "devices", "ports", "entries")))
def test_any_evidence_has_places_or_none(junk: object, part: str) -> None:
    text = json.dumps(document()).replace(f'"{part}":', f'"{part}": {json.dumps(junk)}, "x":')
    places_of("n1", json.loads(text))
