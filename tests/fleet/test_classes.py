"""Kinds of hosts by their hardware."""

from rdmadiag.facts import Missing, Why
from rdmadiag.fleet.classes import classes
from tests.fleet_documents import changed, document, host, hosts

GONE = Missing(Why.DENIED, "EACCES")
BIG = {"platform": "linux", "machine": "x86_64", "adapters": "2", "kernel": "6.1"} | {
    f"adapter[{at}].device": "0x1021" for at in (0, 1)
}
SMALL = {**BIG, "adapters": "1"}
del SMALL["adapter[1].device"]


def found(*reports):
    return {each.named.name: (each.named.nodes, each.named.count) for each in classes(reports)}


def test_what_is_no_hardware_makes_no_class() -> None:
    reports = [*hosts(BIG, ["a1", "a2"]), host("a3", {**BIG, "kernel": "6.12"})]
    assert found(*reports) == {"A": ("a[1-3]", 3)}


def test_the_largest_is_the_first_and_has_in_common_what_it_shows() -> None:
    every = classes([*hosts(SMALL, ["b1"]), *hosts(BIG, ["a1", "a2", "a3"])])
    assert [each.named.name for each in every] == ["A", "B"]
    assert every[0].named.hardware == {
        "platform": "linux",
        "machine": "x86_64",
        "adapters": "2",
        "adapter[0-1].device": "0x1021",
    }
    assert [each.named.compared for each in every] == [True, False]


def test_a_host_that_lost_an_adapter_says_which_kind_it_is_like() -> None:
    lost = classes([*hosts(BIG, ["a1", "a2", "a3"]), host("a4", SMALL)])[1].named
    assert lost.like == "A"
    assert lost.unlike == {"adapters": "1", "adapter[1].device": "(not there)"}


def test_hardware_that_was_not_read_is_taken_for_the_one_kind_that_fits() -> None:
    unread = {**BIG, "adapter[1].device": GONE}
    assert found(*hosts(BIG, ["a1", "a2"]), host("a3", unread)) == {"A": ("a[1-3]", 3)}


def test_hardware_that_was_not_read_and_fits_two_kinds_is_of_neither() -> None:
    other = {**BIG, "adapter[1].device": "0x1017"}
    unread = {**BIG, "adapter[1].device": GONE}
    every = found(*hosts(BIG, ["a1", "a2"]), host("b1", other), host("c1", unread))
    assert sorted(every.values()) == [("a[1-2]", 2), ("b1", 1), ("c1", 1)]


def test_hosts_of_which_nobody_could_read_a_fact_are_of_one_kind() -> None:
    unread = {**BIG, "adapter[1].device": GONE}
    assert found(*hosts(unread, ["a1", "a2", "a3"])) == {"A": ("a[1-3]", 3)}


def test_samples_are_of_the_kinds_that_they_are() -> None:
    same = changed(document(), ("host.kernel", "6.12"), ("host.hostname", "n2"))
    every = classes(
        [
            host("n1", document()),
            host("n2", same),
            host("g1", document("gpu-four-rails")),
            host("m1", document("mac-ready")),
        ]
    )
    assert sorted(each.named.nodes for each in every) == ["g1", "m1", "n[1-2]"]


def test_no_host_is_no_class() -> None:
    assert classes([]) == ()


def test_a_thousand_kinds_of_which_nothing_is_whole_take_no_long_time() -> None:
    whole = [host(f"a{at}", {**BIG, "machine": f"m{at}"}) for at in range(1000)]
    part = [host(f"b{at}", {**BIG, "machine": f"m{at}", "platform": GONE}) for at in range(1000)]
    every = classes([*whole, *part])
    assert len(every) == 1000
    assert {each.named.count for each in every} == {2}
    assert every[-1].named.name == "ALL"  # 1000 = 1 · 26² + 12 · 26 + 12
