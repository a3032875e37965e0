"""The registry of causes: no label and no sentence twice, and all of it is in use."""

import re
import shutil
import subprocess
from collections import Counter

import pytest

from rdmadiag.explain.causes import CAUSES, ROWS, stated
from rdmadiag.explain.causes.cause import Cause, Shown
from rdmadiag.explain.lookup import PLACES, all_causes, lookup
from rdmadiag.explain.remedies import fill
from rdmadiag.preflight.rules import CATALOGUE

BY_A_LINE = {("gid-index-or-family", "index"), ("gid-index-or-family", "family")}
BY_A_LISTING = {("peer-is-own-address", "two hosts"), ("feature-not-built", "rank 0 twice")}
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

OF_MACS = {
    *("address-absent", "cables-mixed-up", "driver-wedged", "gid-index-0", "local-network-privacy"),
    *("mac-slept", "no-ipv4-gid", "port-in-bridge", "rc-on-thunderbolt", "rdma-disabled"),
    *("shared-subnet", "stale-queue-pairs", "thunderbolt-4", "thunderbolt-loopback"),
    "wedged-after",
}
"""Of Thunderbolt or macOS: no other system meets them."""
ALL_PLACES = {
    **PLACES,
    "sysfs": "/sys/class/infiniband/DEVICE",
    "hca": "DEVICE",
    "ndev": "NDEV",
    "pkeys": "PKEYS",
    "neighbour": "fe80::1",
    "lid": "1",
    "to_lid": "2",
    "ping_bytes": "1052",
    "away": "",
    "subnet": "10.0.0",
}
"""Each place that a template may have, filled."""


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
    found |= {
        (label, stated(label, context).text)
        for label, context in BY_A_LINE | BY_A_LISTING | BY_A_REPORT
    }
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


# --- what to paste -----------------------------------------------------------------------


def test_every_cause_has_something_to_do_on_the_system_that_meets_it() -> None:
    assert {row.label for row in ROWS if not row.linux} == OF_MACS
    assert {row.label for row in ROWS if row.label in OF_MACS and not row.darwin} == set()


def test_every_place_of_a_line_is_one_that_something_fills() -> None:
    for row in ROWS:
        for lines in (row.linux, row.darwin):
            assert len(fill(lines, ALL_PLACES)) == len(lines), row.label


def test_a_shell_takes_every_line() -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash")
    lines = {line for row in ROWS for line in fill((*row.linux, *row.darwin), ALL_PLACES)}
    done = subprocess.run([bash, "-n"], input="\n".join(sorted(lines)), text=True, check=False)
    assert done.returncode == 0


def test_advice_is_a_comment_without_a_quote() -> None:
    """zsh takes no comments at its prompt: a lone quote in one would wait for more."""
    for row in ROWS:
        for line in fill((*row.linux, *row.darwin), ALL_PLACES):
            comment = line if line.startswith("#") else line.partition("   # ")[2]
            assert not re.search("['\"`]", comment), line
            assert line.startswith("# ") or not line.startswith("#")


def test_no_system_has_commands_of_the_other() -> None:
    of_linux = re.compile(
        r"\b(?:ip (?:route|neigh|link)|dmesg|rdma (?:res|link)|ulimit)\b|/sys/|/proc/"
    )
    of_macs = re.compile(r"\b(?:ifconfig|ioreg|system_profiler|pmset|rdma_ctl|bridge0|route -n)\b")
    for row in ROWS:
        assert not [line for line in row.darwin if of_linux.search(line)], row.label
        assert not [line for line in row.linux if of_macs.search(line)], row.label


def test_a_line_for_a_mac_asks_for_no_other_attempt() -> None:
    for row in ROWS:
        assert not re.search("pingpong|retry|try again", "\n".join(row.darwin)), row.label
