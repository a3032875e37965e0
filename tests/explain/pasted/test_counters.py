"""Counters in a paste: those that rise between two readings."""

import pytest

from rdmadiag.explain.pasted import shown
from tests.explain.pasted.answer import ON_N1, first


def readings(name: str, first_: int, last: int, wait: str = "sleep 10; ") -> str:
    row = f"     {name}: {{}}\n"
    command = "ethtool -S ens1f0np0"
    return (
        f"{ON_N1}{command}\n{row.format(first_)}{ON_N1}{wait}{command}\n{row.format(last)}{ON_N1}\n"
    )


@pytest.mark.parametrize(
    ("name", "rise", "found"),
    [
        ("rx_symbol_err_phy", 10, ("cable-or-module", 4, True)),
        ("rx_symbol_err_phy", 9, None),
        ("link_down_events_phy", 1, ("link-flaps", 4, True)),
        ("tx_pause_storm_warning_events", 1, ("pause-storm", 4, True)),
        ("rx_prio3_pause_duration", 3_000_000, ("pause-storm", 4, True)),
        ("rx_prio3_pause_duration", 2_900_000, None),
        ("out_of_sequence", 100, ("slow-path", 4, False)),
        ("rx_prio0_discards", 100, ("traffic-not-lossless", 4, False)),
        ("rx_packets_phy", 10_000_000, None),
    ],
)
def test_a_counter_that_rises_between_two_readings(
    name: str, rise: int, found: tuple[str, int, bool] | None
) -> None:
    assert first(readings(name, 7, 7 + rise)) == found


def test_packets_out_of_order_on_a_port_that_counts_congestion_are_losses_of_roce() -> None:
    row = "out_of_sequence: {}\npacket_seq_err: {}\n{}: 9\n"
    command = f"{ON_N1}for i in 1 2; do grep . hw_counters/*; sleep 60; done\n"
    for name, cause in (("np_cnp_sent", "traffic-not-lossless"), ("rnr_nak", "slow-path")):
        found = first(command + row.format(7, 7, name) + row.format(900, 7, name))
        assert found == (cause, 5, False)


def test_two_readings_that_diff_puts_beside_each_other() -> None:
    rows = "<      rx_prio0_discards: 4481120\n>      rx_prio0_discards: 4733018\n"
    found = first(f"{ON_N1}diff <(cat a) <(cat b)\n{rows}")
    assert found == ("traffic-not-lossless", 3, False)


def test_how_long_a_pause_was_is_a_share_of_a_time_that_is_known() -> None:
    assert first(readings("rx_prio3_pause_duration", 7, 9_000_000, wait="")) is None


def test_counters_of_several_devices_in_one_loop_are_no_two_readings() -> None:
    loop = "for i in eth1 eth2; do ethtool -S $i; done"
    rows = "     rx_symbol_err_phy: 1\n     rx_symbol_err_phy: 9000\n"
    assert first(f"{ON_N1}{loop}\n{rows}{ON_N1}{loop}\n{rows}") is None


def test_the_host_is_that_of_the_prompt() -> None:
    (found,) = shown(readings("rx_symbol_err_phy", 7, 70))
    assert found.host == "n1"
    (found,) = shown("\tModule temperature high alarm : On\n")
    assert found.host == ""


def test_counters_of_two_devices_are_not_compared() -> None:
    text = readings("rx_symbol_err_phy", 1, 9000)
    assert first(text.replace("sleep 10; ethtool -S ens1f0np0", "ethtool -S ens2f0np0")) is None


def test_an_error_event_of_a_storm_is_one_without_a_second_reading() -> None:
    row = "     tx_pause_storm_error_events: {}\n"
    assert first(f"{ON_N1}ethtool -S eth1\n{row.format(7)}") == ("pause-storm", 2, True)
    assert first(f"{ON_N1}ethtool -S eth1\n{row.format(0)}") is None


def test_perfquery_fills_with_dots() -> None:
    row = "SymbolErrorCounter:..............{}\n"
    text = f"{ON_N1}perfquery\n{row.format(2114)}{ON_N1}sleep 60; perfquery\n{row.format(3902)}"
    assert first(text) == ("cable-or-module", 4, True)


def test_a_loop_that_waits_reads_one_device_again() -> None:
    rows = "     rx_prio3_pause_duration: {}\n"
    loop = f"{ON_N1}for i in 1 2 3; do ethtool -S eth1; sleep 1; done\n"
    paused = "".join(rows.format(n * 999_000) for n in range(1, 4))
    assert first(f"{loop}{paused}") == ("pause-storm", 4, True)
    assert first(f"{loop}{paused}".replace("eth1", "eth$i")) is None


def test_a_counter_of_errors_that_cannot_rise_any_more() -> None:
    row = "{}:..............{}\n"
    text = f"{ON_N1}perfquery -C mlx5_0\n"
    alone = text + row.format("SymbolErrorCounter", 0xFFFF)
    assert first(alone) == ("cable-or-module", 2, False)
    others = row.format("PortRcvErrors", 1822) + row.format("LinkErrorRecoveryCounter", 41)
    assert first(alone + others) == ("cable-or-module", 2, True)
    assert first(text + row.format("SymbolErrorCounter", 0xFFFE)) is None
    assert first(text + row.format("PortXmitWait", 0xFFFF)) is None


def test_packets_out_of_order_beside_counters_of_ethernet_are_losses_where_it_is_slow() -> None:
    row = f"{ON_N1}grep . hw_counters/*\nout_of_sequence:{{}}\n"
    ethernet = f"{ON_N1}ethtool -S ens1\n     rx_prio0_packets: 88120938471\n"
    assert first(row.format(918827)) is None
    assert first(row.format(99_999) + ethernet) is None
    listed = "\t\tLink layer: InfiniBand\n"
    assert first(row.format(918827) + ethernet + listed) is None
    (found,) = shown(row.format(918827) + ethernet)
    assert (found.causes[0], found.is_certain, found.if_slow) == (
        "traffic-not-lossless",
        False,
        True,
    )


def priorities(**counters: int) -> str:
    rows = "".join(f"     {name}: {value}\n" for name, value in counters.items())
    return f"{ON_N1}ethtool -S ens1f0np0\n{rows}"


def test_the_one_priority_that_carries_anything_has_discarded_much() -> None:
    read = {"rx_prio0_bytes": 9, "rx_prio0_discards": 100_000, "rx_prio3_bytes": 0}
    found = next(shown(priorities(**read)))
    assert (found.causes[0], found.line.number) == ("traffic-not-lossless", 3)
    assert found.if_unanswered
    assert not found.is_certain
    assert first(priorities(**read | {"rx_prio0_discards": 99_999})) is None
    assert first(priorities(**read | {"rx_prio3_bytes": 1})) is None  # RoCE may be there
    assert first(f"Link layer: InfiniBand\n{priorities(**read)}") is None
    alone = {name: value for name, value in read.items() if "prio3" not in name}
    assert first(priorities(**alone)) is None


def test_ibqueryerrors_lists_ports_of_which_one_may_be_on_the_way() -> None:
    port = "   GUID 0x1070fd0300a4c2e6 port 1: [SymbolErrorCounter == {}] [PortRcvErrors == {}]\n"
    found = next(shown(port.format(0xFFFF, 1204)))
    assert (found.causes[0], found.line.number) == ("cable-or-module", 1)
    assert found.if_unanswered
    assert not found.is_certain
    assert first(port.format(0xFFFF, 9)) is None
    assert first(port.format(412, 90)) is None  # nobody knows since when
    assert first(f"\t\tState: Down\n{port.format(0xFFFF, 1204)}") is None


@pytest.mark.parametrize(
    ("downs", "errors", "found"),
    [(37, 21480, ("link-flaps", 3, False)), (37, 0, None), (2, 21480, None)],
    ids=["often lost, with errors", "without errors", "lost twice"],
)
def test_a_link_that_mlxlink_says_was_lost_often(
    downs: int, errors: int, found: tuple[str, int, bool] | None
) -> None:
    rows = f"Effective Physical Errors          : {errors}\nLink Down Counter   : {downs}\n"
    assert first(f"{ON_N1}mlxlink -d aa:00.0 -c\n{rows}") == found


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ("hw_counters/out_of_sequence               +188231", ("slow-path", 1, False)),
        ("ethtool rx_prio0_discards                 +44102", ("traffic-not-lossless", 1, False)),
        ("rx_symbol_err_phy: +40", ("cable-or-module", 1, True)),
        ("ethtool rx_prio0_discards                 +0", None),
        ("ethtool rx_prio0_bytes              +271993120034", None),
    ],
)
def test_by_how_much_a_counter_rose_as_a_script_says(
    row: str, found: tuple[str, int, bool] | None
) -> None:
    assert first(f"{row}\n") == found


def test_rises_of_two_ports_are_not_those_of_one() -> None:
    rows = "ens1f0np0: rx_discards_phy +950000\n", "ens1f1np1: rx_discards_phy +0\n"
    assert first("".join(rows)) == ("slow-path", 1, False)
    assert first("".join(reversed(rows))) == ("slow-path", 2, False)


def test_no_priority_is_paused_and_one_has_lost_much() -> None:
    qos = f"{ON_N1}mlnx_qos -i ens5\n\tenabled     {{}}   0   0   0   0   0   0   0\n"
    lost = f"{ON_N1}ethtool -S ens5\n     rx_prio3_bytes: 9\n     rx_prio3_discards: {{}}\n"
    answer = ("traffic-not-lossless", 5, False)
    assert first(qos.format(0) + lost.format(88120437)) == answer
    assert first(qos.format(1) + lost.format(88120437)) is None
    assert first(qos.format(0) + lost.format(12)) is None
