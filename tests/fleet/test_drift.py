"""Who differs from the majority of the hosts of one kind."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts import Missing, Why
from rdmadiag.fleet.classes import classes
from rdmadiag.fleet.drift import MOST_VALUES, drift
from rdmadiag.fleet.merged import Drift, Odd
from tests.fleet_documents import changed, document, host, hosts

GONE = Missing(Why.DENIED, "EACCES")
BASE = {"platform": "linux", "adapters": "1", "kernel": "6.1", "adapter[0].firmware": "28"}


def found(reports):
    return drift(classes(reports))


def kernels(*values):
    return [host(f"n{at}", {**BASE, "kernel": value}) for at, value in enumerate(values, 1)]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (["6.1"] * 5, None),
        (["6.1", "6.1", "6.5"], ("6.1", 2, [("6.5", "n3")], "")),
        (["6.1", "6.5"], None),
        (["6.1", "6.1", "6.5", "6.5"], (None, 0, [("6.1", "n[1-2]"), ("6.5", "n[3-4]")], "")),
        (
            ["6.1", "6.1", "6.5", "7"],
            (None, 0, [("6.1", "n[1-2]"), ("6.5", "n3"), ("7", "n4")], ""),
        ),
        (["6.1", "6.1", "6.5", GONE], ("6.1", 2, [("6.5", "n3")], "n4")),
        ([GONE, GONE, GONE, "6.5", "6.5", "6.1"], ("6.5", 2, [("6.1", "n6")], "n[1-3]")),
        (["6.1", "6.1", "6.1", GONE], None),
        ([GONE] * 4, None),
        ([GONE, GONE, "6.5", "6.1"], (None, 0, [("6.1", "n4"), ("6.5", "n3")], "n[1-2]")),
    ],
    ids=[
        "all equal: no drift",
        "two of three are a majority",
        "of two hosts neither is the odd one",
        "half and half: both sides, no majority",
        "half is not more than half",
        "what could not be read is neither odd nor majority",
        "more than half of those that were read, however few",
        "unread where the others agree is no drift",
        "read nowhere",
        "two that were read and differ among four",
    ],
)
def test_the_majority_and_who_differs(values, said) -> None:
    if said is None:
        assert found(kernels(*values)) == ()
        return
    majority, count, odd, unread = said
    (one,) = found(kernels(*values))
    assert (one.fact, one.hardware_class) == ("kernel", "A")
    assert (one.majority, one.count, one.unread) == (majority, count, unread)
    assert [(each.value, each.nodes) for each in one.odd] == odd


def test_two_kinds_of_machines_are_not_each_others_outliers() -> None:
    other = {**BASE, "platform": "darwin", "kernel": "25"}
    assert found([*hosts(BASE, "abcd"), *hosts(other, ["m1", "m2", "m3"])]) == ()


def test_what_is_meant_to_differ_is_no_drift() -> None:
    reports = [
        host(f"n{at}", {**BASE, "hostname": f"n{at}", "version": str(at)}) for at in range(5)
    ]
    assert found(reports) == ()


def test_adapters_that_differ_alike_are_one_line() -> None:
    four = BASE | {f"adapter[{at}].firmware": "28" for at in range(4)}
    old = four | {f"adapter[{at}].firmware": "26" for at in (1, 2, 3)}
    assert found([*hosts(four, ["n1", "n2", "n3"]), host("n4", old)]) == (
        Drift("adapter[1-3].firmware", "A", "28", 3, (Odd("26", "n4", 1),), ""),
    )


def test_a_variable_that_others_do_not_have_is_not_set_there() -> None:
    own = {**BASE, "variable.NCCL_IB_HCA": "mlx5_0"}
    unread = {**BASE, "variables": GONE}
    reports = [*hosts(BASE, ["n1", "n2", "n3"]), host("n4", own), host("n5", unread)]
    (one,) = found(reports)
    assert one == Drift(
        "variable.NCCL_IB_HCA", "A", "(not set)", 3, (Odd("mlx5_0", "n4", 1),), "n5"
    )


def test_a_fact_that_an_older_version_does_not_report_is_unread() -> None:
    older = {name: value for name, value in BASE.items() if name != "kernel"}
    reports = [*kernels("6.1", "6.1", "6.1", "6.5"), host("n5", older)]
    (one,) = found(reports)
    assert (one.majority, one.unread) == ("6.1", "n5")


def test_of_many_values_the_rest_stands_together() -> None:
    (one,) = found(kernels("6.1", "6.1", *(str(at) for at in range(100, 150))))
    assert one.majority is None
    assert len(one.odd) == MOST_VALUES + 1
    assert one.odd[-1].value == f"({51 - MOST_VALUES} other values)"
    assert sum(each.count for each in one.odd) == 52


def test_a_planted_difference_in_documents_is_named_alone() -> None:
    reports = [host(f"n{at}", changed(document(), ("host.hostname", f"n{at}"))) for at in range(6)]
    odd = changed(
        document(),
        ("evidence.sysfs.devices.1.firmware", "20.31.1014"),
        ("evidence.sysfs.devices.1.pci.current_link_width", 8),
        ("evidence.sysfs.devices.1.ports.0.pkeys", {"0": 0x7FFF}),
        ("evidence.process.memlock.soft", 65536),
    )
    facts = {each.fact: each for each in found([*reports, host("n9", odd)])}
    assert {name: each.odd[0].value for name, each in facts.items()} == {
        "memlock.soft": "65536",
        "adapter[1].firmware": "20.31.1014",
        "adapter[1].pci.width": "8",
        "adapter[1].port[1].pkeys": "0: 0x7fff",
    }
    assert {each.odd[0].nodes for each in facts.values()} == {"n9"}
    assert {each.count for each in facts.values()} == {6}


@given(st.lists(st.sampled_from(["a", "b", "c", GONE]), min_size=3, max_size=12))
def test_every_host_that_was_read_is_counted_once(values) -> None:
    read = [value for value in values if value is not GONE]
    for one in found(kernels(*values)):
        assert len(set(read)) > 1
        assert one.count + sum(each.count for each in one.odd) == len(read)
        if one.majority is not None:
            assert 2 * read.count(one.majority) > len(read)
            assert one.majority not in [each.value for each in one.odd]
        else:
            assert all(2 * read.count(each) <= len(read) for each in set(read))
