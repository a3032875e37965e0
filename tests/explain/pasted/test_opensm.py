"""Ports that opensm has lost."""

from tests.explain.pasted.answer import first

REMOVED = (
    "Nov 08 02:11:44 402917 [9A3F7700] 0x02 -> drop_mgr_remove_port: Removed port with "
    "GUID:0x0a0b0c030000830{} LID range [812, 812] of node:node131 HCA-9\n"
)


def test_a_port_that_was_removed_twice_comes_and_goes() -> None:
    assert first(REMOVED.format(9)) is None
    assert first(REMOVED.format(9) + REMOVED.format(8)) is None
    assert first(REMOVED.format(9) * 2) == ("link-flaps", 2, False)


def test_a_host_that_is_started_anew_on_another_day_has_no_link_that_flaps() -> None:
    later = REMOVED.format(9).replace("Nov 08 02:", "Nov 08 05:")
    assert first(REMOVED.format(9) + later) is None
    assert first(REMOVED.format(9) + REMOVED.format(9).replace("Nov 08", "Nov 12")) is None


def test_a_link_that_ufm_has_seen_go_twice_within_the_hour() -> None:
    lost = (
        "2025-01-22 {}.417 [48] [329] WARNING [Fabric_Topology] Link [Source 98039b_19 TO "
        "Dest 0c42a1_1]: Link went down: (Switch:ib-l07:1/19)\n"
    )
    twice = lost.format("03:11:08") + lost.format("03:13:44")
    assert first(twice) == ("link-flaps", 2, False)
    assert first(lost.format("03:11:08") + lost.format("09:13:44")) is None
