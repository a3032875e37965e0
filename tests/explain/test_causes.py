"""The registry of causes: no label and no sentence twice, and all of it is in use."""

import re
from collections import Counter

import pytest

from rdmadiag.explain.causes import CAUSES, ROWS, stated
from rdmadiag.explain.causes.cause import Cause, Shown
from rdmadiag.explain.lookup import all_causes, lookup
from rdmadiag.preflight.rules import CATALOGUE

BY_A_LINE = {("gid-index-or-family", "index"), ("gid-index-or-family", "family")}
BY_A_REPORT = {
    ("no-path", "arp-flux"),
    ("tcp-port-taken", "local-ports-few"),
    ("no-memory", "address-space-limit-low"),
    ("no-memory", "data-limit-low"),
    ("no-memory", "committed-memory-near-limit"),
    ("peer-is-this-host", "loopback"),
    ("peer-not-ready", "ends-connection-not-taken"),
    ("peer-not-ready", "ends-program-stopped"),
    ("firewall", "ends-tcp-unanswered"),
    ("no-path", "ends-checksums-wrong"),
}


def sentences(row: Cause) -> set[str]:
    return {row.text, *row.where.values()}


def test_no_label_stands_twice() -> None:
    assert [label for label, count in Counter(row.label for row in ROWS).items() if count > 1] == []


def test_no_sentence_stands_at_two_labels() -> None:
    counted = Counter(text for row in ROWS for text in sentences(row))
    assert [text for text, count in counted.items() if count > 1] == []


def test_a_narrower_sentence_differs_from_the_general_one() -> None:
    assert [row.label for row in ROWS if row.text in row.where.values()] == []


def test_every_label_and_every_sentence_is_stated_somewhere() -> None:
    found = {(known.label, known.text) for known, _ in all_causes()}
    found |= {(label, stated(label, context).text) for label, context in BY_A_LINE | BY_A_REPORT}
    assert {(row.label, text) for row in ROWS for text in sentences(row)} <= found


def test_every_label_can_be_looked_up() -> None:
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", row.label) for row in ROWS)
    assert {row.label for row in ROWS} <= {known.label for known, _ in all_causes()}
    for row in ROWS[::20]:  # each look-up goes through all that is known
        assert lookup(["cause", row.label], "linux")


def test_what_confirms_or_names_a_cause_is_a_rule_or_shown_by_the_report() -> None:
    for row in ROWS:
        codes = {proof for proof in row.proofs if not isinstance(proof, Shown)}
        assert codes <= set(CATALOGUE), row.label
        assert len(row.proofs) == len(set(row.proofs))
        assert bool(row.named_by) == bool(row.stages), row.label


def test_a_rule_names_one_cause_and_what_a_report_shows_is_used() -> None:
    counted = Counter(rule for row in ROWS for rule in row.named_by)
    assert [rule for rule, count in counted.items() if count > 1] == []
    assert {each for row in ROWS for each in (*row.proofs, *row.contradicted_by)} >= set(Shown)


def test_the_first_context_that_has_its_own_sentence_counts() -> None:
    row = CAUSES["pd-exhausted"]
    assert stated("pd-exhausted", "errno 96", "rtr", "darwin").text == row.where["errno 96"]
    assert stated("pd-exhausted", "errno 12", "alloc_pd", "darwin").text == row.where["darwin"]
    assert stated("pd-exhausted", "errno 12", "alloc_pd", "linux").text == row.text


def test_a_label_that_is_not_in_the_registry_is_an_error() -> None:
    with pytest.raises(KeyError):
        stated("no-such-cause")
