"""`diff` of hosts before and during a fault, by a few records; python -m faults.diffs has all."""

import re

import pytest

from faults.diffs import Told, changes, expected, main, missed, record, told, twin, twin_of, twins
from faults.table import ENDS, faults

pytestmark = pytest.mark.once

FAULTS = {each.name: each for each in faults()}
TABLE = changes()
SOME = ("nodes-cm-missing", "neighbour-no-arp", "mtu-right-small", "cgroup-objects")


@pytest.mark.parametrize("name", SOME)
def test_what_the_fault_changed_is_named(name: str) -> None:
    fault = FAULTS[name]
    found = told(twin(fault), name, "right")
    assert found is not None
    wanted = expected(fault, "right", TABLE)
    assert wanted
    assert missed(found, wanted) == ""
    assert found.code == 1


@pytest.mark.parametrize("end", ENDS)
def test_healthy_hosts_are_the_same(end: str) -> None:
    found = told(twin_of("healthy-rxe-rping"), "healthy-rxe-rping", end)
    assert found == Told((), ())
    assert found.code == 0


def test_a_fault_that_no_report_shows_is_called_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["peer-killed"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "peer-killed left: the same",
        "peer-killed right: the same",
        "0 wrong",
    ]


@pytest.mark.slow
def test_a_record_that_is_not_there_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    missing = next(each.name for each in faults() if told(twin(each), each.name, "left") is None)
    assert main([missing]) == 0
    assert "no snapshot" in capsys.readouterr().out


def test_each_row_is_of_a_fault_and_an_end_and_each_pattern_is_one() -> None:
    assert set(TABLE) <= set(FAULTS)
    for name, row in TABLE.items():
        assert set(row) <= set(ENDS)
        assert row
        if FAULTS[name].host in ENDS:
            assert FAULTS[name].host in row
        for patterns in row.values():
            assert patterns
            for each in patterns:
                re.compile(each)


@pytest.mark.parametrize(
    ("found", "wanted", "said"),
    [
        (Told(("mtu: 1 > 2",), ()), ("mtu",), ""),
        (Told((), ("not known: mtu",)), ("mtu",), ""),
        (Told(("mtu: 1 > 2",), ()), ("mtu", "state"), "does not name state"),
        (Told((), ()), ("mtu",), "does not name mtu"),
        (Told(("mtu: 1 > 2",), ()), (), "should be the same"),
        (Told((), ("not known: mtu",)), (), "should be the same"),
        (Told((), ()), (), ""),
        (Told(("mtu: 1 > 2",), ()), None, ""),
    ],
)
def test_what_is_missed(found: Told, wanted: tuple[str, ...] | None, said: str) -> None:
    assert missed(found, wanted) == said


def test_of_an_end_that_the_fault_is_not_at_nothing_is_asked() -> None:
    fault = FAULTS["mtu-right-small"]
    assert expected(fault, "left", TABLE) is None
    assert expected(FAULTS["peer-killed"], "left", TABLE) == ()


def test_hosts_have_one_mac_each_in_all_records() -> None:
    macs = {str(record(name, "left").side.fact(0, "port[1].netdev.mac")) for name in twins()[:2]}
    assert macs == {"02:42:c0:a8:1a:11"}
