"""Whole documents of a few hosts of each kind."""

import pytest

from rdmadiag.fleet import wholes
from rdmadiag.fleet.fact_table import facts_of
from rdmadiag.fleet.wholes import Wholes
from tests.fleet_documents import changed, document, host


def test_of_hosts_that_are_alike_the_first_and_the_last_by_name_are_kept() -> None:
    kept, facts = Wholes(), facts_of(document())
    for number in (5, 3, 9, 4, 1, 7):
        kept.add(f"n{number}", facts, str(number).encode())
    found = {n: kept.get(host(f"n{n}", facts)) for n in (1, 3, 4, 5, 7, 9)}
    assert found == {1: b"1", 9: b"9", 3: None, 4: None, 5: None, 7: None}


def test_a_newer_report_of_a_host_replaces_its_older_one() -> None:
    kept, facts = Wholes(), facts_of(document())
    for content in (b"old", b"new"):
        kept.add("n1", facts, content)
    assert kept.get(host("n1", facts)) == b"new"


def test_another_kind_has_a_first_and_a_last_of_its_own() -> None:
    kept, one = Wholes(), facts_of(document())
    other = facts_of(changed(document(), ("host.platform", "darwin")))
    for name, facts in (("a", one), ("b", other), ("c", one), ("d", other)):
        kept.add(name, facts, name.encode())
    assert kept.get(host("b", other)) == b"b"
    assert kept.get(host("c", one)) == b"c"


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wholes, "MOST_BYTES", 250)
    kept, facts = Wholes(), facts_of(document())
    kept.add("n1", facts, b"x" * 100)
    kept.add("n2", facts, b"x" * 100)
    assert kept.get(host("n1", facts)) is not None
    assert kept.get(host("n2", facts)) is None
    monkeypatch.setattr(wholes, "MOST_KINDS", 0)
    none = Wholes()
    none.add("n1", facts, b"x")
    assert none.get(host("n1", facts)) is None
