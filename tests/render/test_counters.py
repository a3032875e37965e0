"""Tables of counters: what is shown first, units, and a watch that is drawn anew."""

import io
from dataclasses import replace
from itertools import pairwise

import pytest
from rich.console import Console

from lab import counted
from lab.machine import with_counters
from rdmadiag.facts import Identity
from rdmadiag.preflight.judge_counters import compare
from rdmadiag.render.counters import Watch, bar, show
from rdmadiag.sources.sampling import sample

HOST = Identity("node1", "linux", "6.1.0")


@pytest.fixture
def taken(roce, soon):
    def facts(uptime, *, lost=0, sent=0, index=None, wait=0):
        machine = with_counters(roce).change(uptime=uptime).with_device(0, index=index)
        port = counted.PORT_COUNTERS | {"port_xmit_data": sent, "port_xmit_wait": wait}
        hw = counted.MLX5_COUNTERS | {"out_of_sequence": lost}
        return sample(machine.with_port(0, 0, counters=port, hw_counters=hw).host(), soon)

    return facts


def printed(compared, width=100, **options):
    out = Console(file=io.StringIO(), width=width, color_system=None)
    show(compared, HOST, to=out, **options)
    return out.file.getvalue().splitlines()


def test_the_answer_is_first_and_what_may_hurt_is_above_traffic(taken):
    compared = compare(taken(60.0, lost=100, sent=10**9), taken(50.0))
    lines = printed(compared)
    assert lines[0].startswith("WARN  mlx5_0/1 has packets lost or out of order")
    table = lines[next(at for at, line in enumerate(lines) if line.startswith("PORT")) :]
    assert [line.split() for line in table[1:3]] == [
        ["mlx5_0/1", "out_of_sequence", "100", "+100", "10/s"],
        ["mlx5_0/1", "port_xmit_data", "1000000000", "+4000000000", "B", "3.2", "Gb/s"],
    ]
    assert table[-1].endswith("counters stood still")


def test_at_rest_one_line_says_so(taken):
    lines = printed(compare(taken(60.0), taken(50.0)))
    assert lines[0] == "OK  2 ports, no error counter rose in 10.0 s  [node1]"
    assert len(lines) == 2


def test_a_rise_that_is_no_finding_is_named_in_the_answer(taken):
    lines = printed(compare(taken(60.0, lost=3), taken(50.0)))
    assert "no rise that matters in 10.0 s: out_of_sequence" in lines[0]


@pytest.mark.parametrize(
    ("seconds", "said"), [(60, "60.0 s"), (720, "12 min"), (7200, "2 h"), (180_000, "2.08 d")]
)
def test_a_long_time_is_told_in_its_unit(seconds, said, taken):
    assert f"in {said}" in printed(compare(taken(50.0 + seconds), taken(50.0)))[0]


def test_a_reset_and_a_full_counter_are_words_not_numbers(taken):
    anew = printed(compare(taken(60.0, lost=5, index=7), taken(50.0)))
    row = next(line.split() for line in anew if " out_of_sequence " in line)
    assert row[2:] == ["5", "reset", "-"]
    full = printed(compare(taken(60.0, wait=2**32 - 1), taken(50.0)))
    row = next(line for line in full if line.startswith("mlx5_0/1  port_xmit_wait"))
    assert "(full)" in row


def test_what_a_host_calls_itself_cannot_reach_the_terminal(taken):
    facts = taken(60.0, lost=50)
    evil = replace(facts, sets=tuple(replace(each, device="mlx5_0\x1b[2J") for each in facts.sets))
    before = taken(50.0)
    first = replace(
        before, sets=tuple(replace(each, device="mlx5_0\x1b[2J") for each in before.sets)
    )
    assert "\x1b" not in "\n".join(printed(compare(evil, first)))


@pytest.mark.parametrize("width", [80, 140])
def test_rows_are_not_broken_at_usual_widths(width, taken):
    lines = printed(compare(taken(60.0, lost=100, sent=2**40), taken(50.0)), width)
    assert any("port_xmit_data" in line and "b/s" in line for line in lines)


# --- a watch -------------------------------------------------------------------------------


def terminal(height=24):
    return Console(
        file=io.StringIO(),
        width=80,
        height=height,
        force_terminal=True,
        color_system=None,
        legacy_windows=False,
    )


def test_a_watch_sums_up_and_keeps_the_row_of_what_stands_still_again(taken):
    out = terminal()
    samples = [taken(50.0), taken(60.0, lost=100), taken(70.0, lost=400), taken(80.0, lost=400)]
    with Watch(HOST, to=out) as watch:
        for before, after in pairwise(samples):
            watch.show(compare(after, before))
    text = out.file.getvalue()
    rows = [line.split() for line in text.splitlines() if " out_of_sequence " in line]
    assert [row[2:4] for row in rows if row[0] == "mlx5_0/1"][-1] == ["+400", "0/s"]
    assert "█" * 10 in text
    assert "\x1b[1A" in text, "it is drawn anew"


def test_a_quiet_watch_is_its_answer_alone(taken):
    for out in (terminal(), Console(file=io.StringIO(), width=80)):
        with Watch(HOST, quiet=True, to=out) as watch:
            watch.show(compare(taken(60.0, lost=100), taken(50.0)))
        assert "WARN  " in out.file.getvalue()
        assert "COUNTER" not in out.file.getvalue()


def test_a_watch_in_a_low_window_says_that_rows_are_cut_off(taken):
    out = terminal(height=10)
    first, second = taken(50.0), taken(60.0)
    with Watch(HOST, show_all=True, to=out) as watch:
        watch.show(compare(second, first, steady=True))
    assert "more, for which the window is too low" in out.file.getvalue()


def test_before_anything_moves_a_watch_says_so(taken):
    out = terminal()
    with Watch(HOST, to=out) as watch:
        watch.show(compare(taken(60.0), taken(50.0)))
    assert "no counter has moved yet" in out.file.getvalue()


def test_a_watch_in_a_pipe_prints_tables(taken):
    out = Console(file=io.StringIO(), width=80)
    with Watch(HOST, to=out) as watch:
        watch.show(compare(taken(60.0, lost=100), taken(50.0)))
    assert out.file.getvalue().startswith("WARN  ")


@pytest.mark.parametrize(
    ("share", "cells", "plain"),
    [
        (0, "", ""),
        (1, "█" * 10, "#" * 10),
        (2, "█" * 10, "#" * 10),
        (-1, "", ""),
        (0.5, "█" * 5, "#" * 5),
        (0.0125, "▏", ""),
        (0.06, "▋", "#"),
    ],
)
def test_a_bar_has_ten_cells(share, cells, plain):
    assert bar(share) == cells
    assert bar(share, ascii_only=True) == plain
