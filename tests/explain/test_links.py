"""Links in a kernel's log: lost, back again, or without a cable since the start."""

import io

import pytest

from rdmadiag.explain.log.account import Account
from rdmadiag.explain.log.recognition.links import CAME_BACK, NEVER_UP
from rdmadiag.explain.log.recognition.vocabulary import NEEDLES
from rdmadiag.explain.log.scan import collect
from rdmadiag.explain.log.text.endings import read_end
from rdmadiag.sieve.lines import Sieve

ONE = "mlx5_core 0000:08:00.0 ens1f0np0"
OTHER = "mlx5_core 0000:08:00.1 ens1f1np1"
PORT_ERROR = "node2:7:9 [5] net_ib.cc:9 NCCL WARN NET/IB: Got async event : port error"


def at(seconds: float, text: str) -> str:
    return f"[{seconds:12.6f}] {text}"


STARTED = (at(9, f"{ONE}: Link down"), at(12, f"{ONE}: Link up"))


def account(*lines: str) -> Account:
    sieve = Sieve(NEEDLES)
    text = "\n".join(lines).encode()
    collector = collect(sieve.segments(io.BytesIO(text)))
    read_end(collector, sieve.end, sieve.lines)
    return collector.account(sieve.lines, sieve.bytes)


def failed(*lines: str) -> list[int]:
    """The first line of each failure."""
    return [each.lines[0] for each in account(*lines).failures]


def noted(*lines: str) -> list[str]:
    found = account(*lines)
    assert found.first is None
    return [each.what for each in found.notes]


def test_a_link_that_a_driver_brings_up_as_it_starts_is_no_failure() -> None:
    assert noted(*STARTED) == [CAME_BACK]


def test_a_link_that_went_down_and_stayed_down_is_one_at_the_line_where_it_went() -> None:
    assert failed(*STARTED, at(8123, f"{ONE}: Link down")) == [3]
    assert failed(at(8123, f"{ONE}: Link down")) == [1]


def test_a_link_that_came_up_again_is_one_only_where_something_failed_soon_after_it_went() -> None:
    flap = (at(8123, f"{ONE}: Link down"), at(8126, f"{ONE}: Link up"))
    assert noted(*STARTED, *flap) == [CAME_BACK]
    assert failed(*STARTED, *flap, at(8140, PORT_ERROR))[0] == 3
    assert failed(*STARTED, *flap, at(9000, PORT_ERROR)) == [5]
    assert failed(*STARTED, at(8100, PORT_ERROR), *flap) == [3]


def test_without_clocks_that_compare_what_failed_below_came_after() -> None:
    assert failed(f"{ONE}: Link down", f"{ONE}: Link up", PORT_ERROR) == [1, 3]
    assert failed(PORT_ERROR, f"{ONE}: Link down", f"{ONE}: Link up") == [1]


@pytest.mark.parametrize(
    "line",
    [
        f"{OTHER}: Link down",
        "mlx5_core 0000:08:00.1: Port module event: module 1, Cable unplugged",
        "bnxt_en 0000:c2:00.1 enp194s0f1np1: NIC Link is Down",
        "mlx4_en: ens2d1: Link Down",
    ],
)
def test_a_port_without_a_link_since_the_start_is_none_beside_one_that_has_one(line: str) -> None:
    assert noted(*STARTED, at(13, line)) == [CAME_BACK, NEVER_UP]
    assert failed(*STARTED, at(900, line)) == [3]
    assert failed(at(13, line)) == [1]  # no other has one


def test_each_link_is_followed_by_itself() -> None:
    assert failed(at(800, f"{ONE}: Link down"), at(803, f"{OTHER}: Link up")) == [1]
    netdevs = [at(3, f"mlx4_en: ens2{n}: Link Up") for n in ("", "d1")]
    assert failed(*netdevs, at(800, "mlx4_en: ens2d1: Link Down")) == [3]


def test_the_same_function_of_another_host_is_another_link() -> None:
    line = "Mar 13 22:26:0{} node{} kernel: mlx5_core 0000:08:00.0 e: Link {}"
    assert noted(line.format(1, 2, "down"), line.format(5, 2, "up")) == [CAME_BACK]
    assert failed(line.format(1, 1, "down"), line.format(5, 2, "up")) == [1]


def test_a_link_that_came_back_hides_no_failure_of_another_program() -> None:
    found = account(*STARTED, "RuntimeError: shape mismatch")
    assert found.first is None
    assert found.other is not None
    assert found.other.line == 3


def test_that_a_netdev_has_no_link_yet_is_how_every_host_starts() -> None:
    assert (
        account(*STARTED, at(3, "IPv6: ADDRCONF(NETDEV_UP): ens1f1: link is not ready")).other
        is None
    )


@pytest.mark.parametrize(
    "clock",
    ["[Thu Nov 26 03:00:0{} 2026]", "Nov 26 03:00:0{} n1 kernel:", "<6>[ 5000.00000{}]", ""],
)
def test_a_driver_that_starts_is_known_by_its_lines_whatever_the_clock(clock: str) -> None:
    def log(*lines: str) -> list[str]:
        return [f"{clock.format(n)} {line}".strip() for n, line in enumerate(lines)]

    started = (f"{ONE}: renamed from eth0", f"{OTHER}: renamed from eth1")
    assert noted(*log(*started, f"{ONE}: Link up", f"{OTHER}: Link down")) == [NEVER_UP]
    assert failed(*log(f"{ONE}: Link up", f"{OTHER}: Link down")) == [2]
    lost = (f"{OTHER}: Link up", f"{OTHER}: Link down")
    assert failed(*log(*started, f"{ONE}: Link up", *lost)) == [5]
    again = (f"{OTHER}: Link up", f"{OTHER}: renamed from eth1", f"{OTHER}: Link down")
    assert noted(*log(*started, f"{ONE}: Link up", *again)) == [NEVER_UP]


def test_a_link_that_goes_again_and_again_flaps() -> None:
    def labels(times: int) -> list[str]:
        flaps = [
            at(8123 + 60 * n + (3 if up else 0), f"{ONE}: Link {'up' if up else 'down'}")
            for n in range(times)
            for up in (False, True)
        ]
        end = at(8123 + 60 * times - 40, PORT_ERROR)
        first = account(*STARTED, *flaps, end).first
        assert first
        return [each.label for each in first.causes[:2]]

    assert labels(1)[0] == "link-lost"
    assert labels(2) == ["link-flaps", "link-lost"]
    flaps = [
        at(second, f"{ONE}: Link {word}")
        for second, word in ((3600, "down"), (3605, "up"), (4600, "down"), (4605, "up"))
    ]
    first = account(*STARTED, *flaps, at(86_400, f"{ONE}: Link down")).first
    assert first
    assert first.causes[0].label == "link-lost"  # and has not come back


def test_errors_of_a_fabrics_links_are_read_whatever_else_the_line_counts() -> None:
    row = "   GUID 0xb8cef60300a1d2c0 port {}: [{} == {}]"
    for name, few, many in (
        ("LinkErrorRecoveryCounter", 9, 10),
        ("SymbolErrorCounter == 65535] [LinkDownedCounter", None, 1),
    ):
        first = account('Errors for "leaf04"', row.format(21, name, many)).first
        assert first
        assert first.causes[0].label in ("cable-or-module", "link-flaps")
        assert account('Errors for "leaf04"', row.format("ALL", name, many)).first is None
        if few:  # a host that was rebooted has left it
            assert account('Errors for "leaf04"', row.format(21, name, few)).first is None
