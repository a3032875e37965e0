"""A host at rest and one change: the rule that has a finding, and a neighbour that has none."""

from dataclasses import replace

import pytest

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.counters import CounterSource
from rdmadiag.facts.ib import LinkLayer
from rdmadiag.preflight.judge_counters import compare
from rdmadiag.preflight.rules.counters import RULES
from rdmadiag.preflight.thresholds import DEFAULT, Thresholds
from tests.counter_samples import with_set

PORT, HW, NLDEV = CounterSource.PORT, CounterSource.HW, CounterSource.NLDEV
NETDEV, PAUSE = CounterSource.NETDEV, CounterSource.PAUSE
FEC, PHY = CounterSource.FEC, CounterSource.PHY
ABSENT = Missing(Why.ABSENT, "not there")


def said(after, before=None, thresholds=DEFAULT):
    verdict = compare(after, before, thresholds).verdict
    return [(each.rule, each.severity.value) for each in verdict.findings]


def test_of_a_host_at_rest_nothing_is_said(before, later):
    compared = compare(later(), before)
    assert compared.verdict.status == "ok"
    assert compared.verdict.findings == ()
    assert compared.changes == ()
    assert compared.still == 3 + 3 + 3 + 2 + 5 + 1, "nldev's are sysfs's"
    assert compared.seconds == 10.0


RISES = {
    "a link that was lost once": (PORT, {"link_downed": 2}, ("link-went-down", "warn")),
    "a link that flaps": (PORT, {"link_downed": 4}, ("link-went-down", "critical")),
    "a netdev without carrier": (NETDEV, {"carrier_changes": 4}, ("link-went-down", "warn")),
    "a link that trained anew": (PORT, {"link_error_recovery": 1}, None),
    "symbol errors": (PORT, {"symbol_error": 14}, ("damaged-on-the-wire", "warn")),
    "a few symbol errors": (PORT, {"symbol_error": 13}, None),
    "a receiver out of buffers": (NETDEV, {"rx_missed_errors": 1}, ("packets-discarded", "warn")),
    "lost packets": (HW, {"out_of_sequence": 20}, ("packets-retransmitted", "warn")),
    "a few lost packets": (HW, {"out_of_sequence": 19}, None),
    "congestion": (HW, {"np_cnp_sent": 4}, ("congestion", "info")),
    "a storm of pauses": (PAUSE, {"rx_pause_frames": 1000}, ("pause-frames", "warn")),
    "a few pauses": (PAUSE, {"rx_pause_frames": 999}, None),
    "a block that FEC could not correct": (
        FEC,
        {"uncorrectable_blocks": 4},
        ("bit-errors-before-fec", "warn"),
    ),
    "one bit of 1e5 wrong, for 10 s at 100 Gb/s": (
        FEC,
        {"corrected_bits": 10**9 + 10**7},
        ("bit-errors-before-fec", "warn"),
    ),
    "what PAM4 has at all times": (FEC, {"corrected_bits": 10**9 + 10**7 - 1}, None),
    "damaged symbols": (PHY, {"SymbolErrorDuringCarrier": 10}, ("damaged-on-the-wire", "warn")),
    "a few damaged symbols": (PHY, {"SymbolErrorDuringCarrier": 9}, None),
    "traffic": (HW, {"rx_write_requests": 10**6}, None),
}


@pytest.mark.parametrize(("source", "values", "expected"), RISES.values(), ids=RISES)
def test_a_rise_is_said_from_its_threshold_on(source, values, expected, before, later):
    found = said(later(source, values), before)
    assert found == ([expected] if expected else [])


NEW = {
    "link_error_recovery": (PORT, "link-retrained", "warn"),
    "port_xmit_discards": (PORT, "packets-discarded", "warn"),
    "req_transport_retries_exceeded": (HW, "retries-ran-out", "critical"),
    "retry_exceeded_err": (HW, "retries-ran-out", "critical"),
    "req_remote_access_errors": (HW, "requests-refused", "warn"),
    "rp_cnp_ignored": (HW, "congestion-ignored", "warn"),
    "out_of_buffer": (HW, "receiver-not-ready", "warn"),
    "port_xmit_wait": (PORT, "congestion", "info"),
    "rx_crc_errors": (NETDEV, "damaged-on-the-wire", "warn"),
}


@pytest.mark.parametrize("name", NEW)
def test_each_counter_gives_the_finding_on_what_it_counts(name, before, later):
    source, rule, severity = NEW[name]
    first = replace(
        before,
        sets=tuple(
            replace(each, values={**each.values, name: 5}) if each.source is source else each
            for each in before.sets
        ),
    )
    assert said(later(source, {name: 5}), first) == []
    assert said(later(source, {name: 5000 if source is HW else 100}), first) == [(rule, severity)]


def test_a_rate_below_its_threshold_is_no_loss(before, later):
    """12 in 10 minutes are 0.02/s."""
    after = later(HW, {"out_of_sequence": 22}, seconds=700.0)
    assert said(after, before) == []


def test_thresholds_are_adjustable_by_name(before, later):
    after = later(HW, {"out_of_sequence": 20})
    strict = Thresholds().change([("retransmissions", 11)])
    assert said(after, before, strict) == []
    eager = Thresholds().change([("physical_errors", 1)])
    assert said(later(PORT, {"symbol_error": 5}), before, eager) == [
        ("damaged-on-the-wire", "warn")
    ]


def test_a_finding_names_the_file_both_values_and_something_to_paste(before, later):
    (finding,) = compare(later(PORT, {"link_downed": 3}), before).verdict.findings
    (proof,) = finding.evidence
    assert proof.subject == "/sys/class/infiniband/mlx5_0/ports/1/counters/link_downed"
    assert proof.value.startswith("1 → 3")
    assert (finding.device, finding.port) == ("mlx5_0", 1)
    assert finding.remedy[0] == "ip -statistics link show eth0"


# --- bit errors ----------------------------------------------------------------------------


def errors(after, before):
    """The finding on bit errors."""
    (finding,) = compare(after, before).verdict.findings
    assert finding.rule == "bit-errors-before-fec"
    return finding


def test_the_rate_of_bit_errors_is_their_share_of_the_bits_of_the_link(before, later):
    """3e8 in 10 s at 25 Gb/s: 3e8 / 2.5e11."""
    after = later(FEC, {"corrected_bits": 10**9 + 3 * 10**8}, speed_mbps=25_000)
    assert "a bit error rate of 1.2e-03 before FEC" in errors(after, before).summary
    finding = errors(after, before)
    assert finding.evidence[-1].value == "25000 Mb/s"
    assert finding.remedy[0] == "ethtool --include-statistics --show-fec eth0"


def test_of_a_bond_the_leg_is_named_and_each_has_its_own_rate(before, later):
    def on(facts, leg):
        sets = (replace(e, netdev=leg, leg=True) if e.source is FEC else e for e in facts.sets)
        return replace(facts, sets=tuple(sets))

    first, second = on(before, "eth0"), on(before, "eth1")
    many = on(later(FEC, {"corrected_bits": 10**9 + 3 * 10**8}, speed_mbps=25_000), "eth1")
    few = on(later(FEC, {"corrected_bits": 10**9 + 2}, speed_mbps=25_000), "eth0")
    extra = tuple(each for each in second.sets if each.source is FEC)
    late = tuple(each for each in many.sets if each.source is FEC)
    finding = errors(
        replace(few, sets=(*few.sets, *late)), replace(first, sets=(*first.sets, *extra))
    )
    assert finding.summary == "mlx5_0/1 (eth1) has a bit error rate of 1.2e-03 before FEC"
    assert finding.remedy[0] == "ethtool --include-statistics --show-fec eth1"


@pytest.mark.parametrize("speed", [None, Missing(Why.ABSENT, "the speed is not known")])
def test_without_the_speed_there_is_no_rate_and_what_is_lost_is_lost(speed, before, later):
    assert said(later(FEC, {"corrected_bits": 10**12}, speed_mbps=speed), before) == []
    lost = later(FEC, {"uncorrectable_blocks": 15}, speed_mbps=speed)
    assert "could not correct: 12 blocks" in errors(lost, before).summary


def test_a_driver_that_counts_blocks_alone_gives_the_least_rate(before, later):
    blocks = {"corrected_blocks": 10**9}
    first = replace(
        before,
        sets=tuple(replace(s, values=blocks) if s.source is FEC else s for s in before.sets),
    )
    last = replace(
        later(),
        sets=tuple(
            replace(s, values={"corrected_blocks": 10**9 + 10**8}) if s.source is FEC else s
            for s in later().sets
        ),
    )
    assert "at least 1.0e-04" in errors(last, first).summary


@pytest.mark.parametrize(
    ("lanes", "expected"),
    [
        ({"corrected_bits/lane1": 10**9}, ", most on lane 1"),
        ({"corrected_bits/lane0": 10**9}, ", most on lane 0"),
        ({"corrected_bits/lane0": 2 * 10**8, "corrected_bits/lane1": 10**9}, ""),
        ({}, ""),
    ],
    ids=["the second", "the first", "both alike", "no lane"],
)
def test_the_lane_that_has_most_of_it_is_named(lanes, expected, before, later):
    finding = errors(later(FEC, {"uncorrectable_blocks": 4, **lanes}), before)
    assert finding.summary.endswith(f"could not correct: 1 block{expected}")


def test_a_rate_that_a_site_takes_is_a_threshold(before, later):
    lenient = Thresholds().change([("bit_error_rate", 1e-4)])
    assert said(later(FEC, {"corrected_bits": 10**9 + 10**7}), before, lenient) == []


# --- the counters themselves ---------------------------------------------------------------


def test_a_device_made_anew_is_said_and_its_counters_are_not(before, later):
    after = later()
    anew = tuple(
        replace(each, identity=4, values=dict.fromkeys(each.values, 10**6)) for each in after.sets
    )
    assert said(replace(after, sets=anew), before) == [("device-made-anew", "warn")]


def test_a_netdev_made_anew_is_said_too(before, later):
    (finding,) = compare(later(NETDEV, {}, identity=9), before).verdict.findings
    assert finding.rule == "device-made-anew"
    assert "eth0" in finding.summary


def test_counters_that_were_cleared_are_a_note(before, later):
    (finding,) = compare(later(PORT, {"symbol_error": 0}), before).verdict.findings
    assert (finding.rule, finding.severity.value) == ("counters-were-reset", "info")
    assert "symbol_error" in finding.summary


def test_a_number_of_no_known_meaning_may_fall(before, later):
    first = replace(
        before,
        sets=tuple(
            replace(each, values={**each.values, "sessions": 9}) if each.source is HW else each
            for each in before.sets
        ),
    )
    assert said(later(HW, {"sessions": 2}), first) == []


NOT_IN_FIRST = {
    "a set that could not be read": lambda first: tuple(
        replace(each, values=Missing(Why.DENIED, "EACCES")) if each.source is PORT else each
        for each in first.sets
    ),
    "a device that was left out": lambda first: (),
}


@pytest.mark.parametrize("sets", NOT_IN_FIRST.values(), ids=NOT_IN_FIRST)
def test_what_the_first_sample_lacks_is_unknown_and_not_ok(sets, before, later):
    first = replace(before, sets=sets(before))
    compared = compare(later(), first)
    assert compared.verdict.status == "unknown"
    assert said(later(), first) == [("first-sample-lacks", "unknown")]


LATE = (NLDEV, PAUSE, FEC, PHY)


def test_a_second_witness_that_came_late_changes_nothing(before, later):
    first = replace(before, sets=tuple(s for s in before.sets if s.source not in LATE))
    assert said(later(), first) == []


def test_a_device_that_is_gone_is_said(before, later):
    first = replace(before, names=("mlx5_0", "mlx5_1"))
    assert said(later(), first) == [("device-gone", "warn")]
    assert said(replace(later(), names=Missing(Why.DENIED)), first) == []


@pytest.mark.parametrize(
    "change",
    [
        {"sets": (), "failed": (Missing(Why.TIMEOUT, "counters: late"),)},
        {"sets": ()},
        {"sets": (), "devices": (), "excluded": ("mlx5_0",)},
        {"sets": (), "devices": (), "names": ()},
    ],
    ids=["it failed", "it is empty", "the device was left out", "the device came later"],
)
def test_without_a_first_sample_no_rise_is_known(change, before, later):
    assert said(later(), replace(before, **change)) == [("first-sample-lacks", "unknown")]


@pytest.mark.parametrize("source", [PORT, HW, NETDEV, PAUSE, FEC, PHY])
@pytest.mark.parametrize("values", [Missing(Why.TIMEOUT, "late"), {}], ids=["late", "empty"])
def test_a_set_that_the_first_sample_lacks_is_named(source, values, before, later):
    first = replace(
        before,
        sets=tuple(
            replace(each, values=values) if each.source is source else each for each in before.sets
        ),
    )
    (finding,) = compare(later(), first).verdict.findings
    assert (finding.rule, finding.severity.value) == ("first-sample-lacks", "unknown")
    assert f"mlx5_0/1 {source}" in finding.summary


def test_a_second_witness_that_was_not_heard_first_is_not_missed(before, later):
    first = replace(before, sets=tuple(each for each in before.sets if each.source is not NLDEV))
    assert said(later(), first) == []


def test_a_full_counter_is_news_where_it_filled_up_between_the_samples(before, later):
    full, note = {"symbol_error": 65535}, ("counter-saturated", "info")
    assert said(later(PORT, full)) == [note], "one sample dates nothing"
    assert said(later(PORT, full), with_set(before, PORT, full)) == [note], "it was full before"
    assert ("counter-saturated", "warn") in said(later(PORT, full), before)
    assert said(later(PORT, {"symbol_error": 65534})) == []
    assert said(later(PORT, {"port_xmit_data": 2**32 - 1})) == [], "says nothing of errors"


@pytest.mark.parametrize(
    ("counts", "times"),
    [
        pytest.param({"carrier_changes": 3, "carrier_down_count": 1}, None, id="it came back"),
        pytest.param({"carrier_changes": 3, "carrier_down_count": 2}, "once", id="it was lost"),
        pytest.param({"carrier_changes": 6, "carrier_down_count": 3}, "2 times", id="twice"),
    ],
)
def test_a_link_that_comes_back_is_not_lost_again(counts, times, before, later):
    first = with_set(before, NETDEV, {"carrier_down_count": 1})
    found = [each.summary for each in compare(later(NETDEV, counts), first).verdict.findings]
    assert found == ([f"mlx5_0/1 lost its link {times}"] if times else [])


def test_values_that_the_kernel_repeats_prove_nothing(before, later):
    assert said(later(HW, {}, lifespan_ms=10_000), before) == [("counters-repeated", "unknown")]
    assert said(later(HW, {}, lifespan_ms=9_999), before) == []


def test_witnesses_that_disagree_are_found(before, later):
    """nldev is read after sysfs: its value lies between sysfs's first and last."""
    assert said(later(NLDEV, {"rx_write_requests": 49}), before) == []  # it was reset
    after = later(HW, {"rx_write_requests": 40_000}, agreed=False)
    assert said(after, before) == [("counters-disagree", "warn")], "the last nldev says 50"
    agree = replace(
        after,
        sets=tuple(
            replace(each, values={**each.values, "rx_write_requests": 40_001})
            if each.source is NLDEV
            else each
            for each in after.sets
        ),
    )
    assert said(agree, before) == []


@pytest.mark.parametrize(
    ("why", "severity"),
    [(Why.DENIED, "unknown"), (Why.TIMEOUT, "unknown"), (Why.MALFORMED, "unknown")],
)
def test_a_set_that_could_not_be_read_is_unknown(why, severity, before, later):
    assert said(later(PORT, Missing(why, "x")), before) == [("counters-unreadable", severity)]


@pytest.mark.parametrize("why", [Why.ABSENT, Why.UNSUPPORTED, Why.NOT_COLLECTED])
def test_what_a_driver_does_not_offer_is_plain(why, before, later):
    assert said(later(NLDEV, Missing(why, "x")), before) == []
    assert said(later(PAUSE, Missing(why, "x")), before) == []


def test_a_counter_that_is_there_and_refused_is_a_note(before, later):
    refused = {"VL15_dropped": Missing(Why.UNSUPPORTED, "EINVAL")}
    (finding,) = compare(later(PORT, {}, refused=refused), before).verdict.findings
    assert (finding.rule, finding.severity.value) == ("counters-unreadable", "info")
    assert finding.evidence[0].subject.endswith("counters/VL15_dropped")
    assert finding.remedy == ("rdmadiag counters --exclude-device mlx5_0",)


def test_a_counter_that_is_refused_after_it_was_read_is_unknown(before, later):
    (name, *_) = before.sets[0].values
    refused = {name: Missing(Why.UNSUPPORTED, "EINVAL")}
    kept = later(before.sets[0].source, {}, refused=refused)
    assert ("counters-unreadable", "unknown") in said(kept, before)


def test_a_source_that_was_late_is_unknown_and_nothing_else_is_made_of_it(later):
    late = replace(later(), sets=(), devices=(), failed=(Missing(Why.TIMEOUT, "counters: late"),))
    assert said(late) == [("counters-unreadable", "unknown")]


@pytest.mark.parametrize(
    "change",
    [
        {"names": Missing(Why.ABSENT, "ENOENT"), "devices": (), "sets": ()},
        {"names": (), "devices": (), "sets": ()},
        {"devices": (), "sets": (), "excluded": ("mlx5_0",)},
        {"sets": ()},
    ],
    ids=["no RDMA", "no device", "all left out", "no counter"],
)
def test_where_nothing_is_counted_nothing_is_known(change, later):
    sample = replace(later(), **change)
    assert said(sample) == [("no-counters", "unknown")]
    (proof,) = compare(sample).verdict.findings[0].evidence
    assert "(" not in proof.value, "names, not Python's own form of them"


def test_every_finding_has_evidence_and_a_remedy(before, later):
    spoken = set()
    for source, values, _ in RISES.values():
        for finding in compare(later(source, values), before).verdict.findings:
            spoken.add(finding.rule)
            assert finding.evidence
            assert finding.remedy
            assert "\n" not in finding.summary
    assert len(spoken) >= 6


def test_the_codes_of_rules_are_distinct():
    codes = [rule.code for rule in RULES]
    assert len(codes) == len(set(codes)) == 21


@pytest.mark.parametrize(
    ("port", "source", "remedy"),
    [
        ({"link_layer": LinkLayer.INFINIBAND, "netdev": ABSENT}, PORT, "ibstat mlx5_0 1"),
        ({"link_layer": ABSENT, "netdev": ABSENT}, PORT, "ibstat mlx5_0 1"),
        ({}, PORT, "ip -statistics link show eth0"),
        ({"netdev": "en1"}, CounterSource.REGISTRY, "ifconfig en1"),
    ],
    ids=["InfiniBand", "a port of which little is known", "RoCE", "a Mac"],
)
def test_where_to_look_for_a_lost_link_is_named_in_the_words_of_the_system(
    port, source, remedy, before, later
):
    def changed(facts, value):
        device = facts.devices[0]
        device = replace(device, ports=(replace(device.ports[0], **port),))
        name = "IOLinkActiveCount" if source is CounterSource.REGISTRY else "link_downed"
        sets = tuple(
            replace(each, source=source, values={name: value})
            for each in facts.sets
            if each.source is PORT
        )
        return replace(facts, devices=(device,), sets=sets)

    (finding,) = compare(changed(later(), 5), changed(before, 4)).verdict.findings
    assert finding.rule == "link-went-down"
    assert finding.remedy[0] == remedy
    assert finding.summary == "mlx5_0/1 lost its link once"


def test_damage_on_infiniband_is_looked_at_with_the_devices_own_name(before, later):
    def infiniband(facts):
        device = facts.devices[0]
        port = replace(device.ports[0], link_layer=LinkLayer.INFINIBAND, netdev=ABSENT)
        return replace(facts, devices=(replace(device, ports=(port,)),))

    after = infiniband(later(PORT, {"symbol_error": 40}))
    (finding,) = compare(after, infiniband(before)).verdict.findings
    assert finding.remedy[0].startswith("sudo mlxlink -d mlx5_0 --port 1")


def test_a_rise_without_a_clock_is_said_all_the_same(before, later):
    after = later(HW, {"out_of_sequence": 30}, seconds=ABSENT)
    assert said(after, before) == [("packets-retransmitted", "warn")]


def test_a_link_that_is_allowed_to_go_down_is_not_said(before, later):
    allowed = Thresholds().change([("link_downed", 2)])
    assert said(later(PORT, {"link_downed": 2}), before, allowed) == []


def test_that_no_ecn_file_means_off_is_not_said(before, later):
    """Files below ecn/ are MLNX_OFED's."""
    first = replace(
        before,
        sets=tuple(
            replace(each, values={**each.values, "rp_cnp_ignored": 5})
            if each.source is HW
            else each
            for each in before.sets
        ),
    )
    (finding,) = compare(later(HW, {"rp_cnp_ignored": 5000}), first).verdict.findings
    assert "/ecn/roce_rp/enable/" in finding.remedy[0]
    assert "unsupported by this driver" in finding.remedy[1]
