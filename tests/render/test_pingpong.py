"""What came of a pingpong as a person reads it: the answer first, at 80 columns."""

import shlex
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from lab.machine import Machine
from lab.samples import infiniband_host, roce_host
from rdmadiag.facts import Identity
from rdmadiag.facts.attempt import (
    Attempt,
    Connection,
    Latency,
    Outcome,
    Problem,
    Stage,
    Teardown,
)
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import LinkLayer, PortState, QpType
from rdmadiag.preflight.candidate import Candidate, Wanted, candidates
from rdmadiag.preflight.safety import REASON_TEXT, Reason
from rdmadiag.render.pingpong import document, show
from rdmadiag.verbs.attempt import Result
from tests.verbs import attempts

HOST = Identity("host1", "linux", "6.1.0", "x86_64")
LATENCY = Latency(1.5, 2, 3, 4.5, 100, 64, "compiled", 0.2, histogram=((2, 90), (5, 9), (10, 1)))
VERIFIED = replace(attempts.VERIFIED, latency=LATENCY)
LOCAL, REMOTE = VERIFIED.local, VERIFIED.remote
EVIL = "x\x1b[2Jy\x07\n"


def ended(outcome: Outcome, **changes: Any) -> Attempt:
    failed = {"summary": "words", "stage": Stage.RTR, "latency": None, "data_verified": False}
    return replace(VERIFIED, outcome=outcome, **failed | changes)


def text(
    attempt: Attempt,
    chosen: tuple[Candidate, ...] = (),
    accepted: tuple[Reason, ...] = (),
    host: Identity = HOST,
    width: int = 80,
    **how: Any,
) -> str:
    out = StringIO()
    to = Console(file=out, width=width, color_system=None, highlight=False, markup=False, **how)
    show(Result(attempt, chosen, accepted), host, to)
    return out.getvalue()


def first(attempt: Attempt, **how: Any) -> str:
    return text(attempt, **how).splitlines()[0]


def refused(machine: Machine, **wanted: Any) -> tuple[Candidate, ...]:
    return candidates(machine.evidence(), Wanted(64, 100, **wanted))


@pytest.mark.parametrize(
    ("pkeys", "index", "line"),
    [
        ((0xFFFF,), 0, "P_Key   mlx5_0/1: 0xffff (full) at index 0"),
        ((0x7FFF, 0x8001), 0, "P_Key   mlx5_0/1: 0x7fff (limited) at index 0"),
        ((0x7FFF, 0x8001), 1, "P_Key   mlx5_0/1: 0x8001 (full) at index 1"),
    ],
)
def test_the_partition_key_that_was_used_is_said(
    pkeys: tuple[int, ...], index: int, line: str
) -> None:
    machine = infiniband_host().with_port(0, 0, pkeys=pkeys)
    assert line in text(VERIFIED, refused(machine, pkey_index=index)).splitlines()
    assert "P_Key" not in text(VERIFIED, refused(roce_host()))


# --- the first line is the answer --------------------------------------------------------


def test_the_first_line_of_a_success() -> None:
    path = "mlx5_0/1 - mlx5_7/1 (192.0.2.2)"
    assert first(VERIFIED) == f"VERIFIED  {path}: data verified both ways, RC, 64 bytes  [host1]"
    untimed = first(replace(VERIFIED, latency=None))
    assert untimed == f"VERIFIED  {path}: data verified both ways, RC  [host1]"


@pytest.mark.parametrize(
    ("gid", "there"), [(Gid.parse("2001:db8::2"), "2001:db8::2"), (None, "LID 18")]
)
def test_the_path_of_a_success_names_the_peer_by_what_routes(gid: Gid | None, there: str) -> None:
    far = replace(REMOTE, gid=gid, gid_index=None if gid is None else 3, lid=18)
    assert f"mlx5_7/1 ({there}): " in first(replace(VERIFIED, remote=far))


WORDS = {
    Outcome.WATCHDOG: "KILLED",
    Outcome.NOT_ALLOWED: "NOT ATTEMPTED",
    Outcome.NOT_SAFE: "NOT ATTEMPTED",
    Outcome.INTERRUPTED: "INTERRUPTED",
}
FAILURES = [each for each in Outcome if each is not Outcome.VERIFIED]
UNTOUCHED_FAILURES = (Outcome.CALL_FAILED, Outcome.DIED, Outcome.WATCHDOG)


@pytest.mark.parametrize("outcome", FAILURES)
def test_the_first_line_of_what_was_attempted(outcome: Outcome) -> None:
    word = WORDS.get(outcome, "FAILED")
    assert first(ended(outcome)) == f"{word}  at rtr on mlx5_0/1: words  [host1]"
    unknown = ended(outcome, local=None, remote=None)
    assert first(unknown) == f"{word}  at rtr: words  [host1]"


@pytest.mark.parametrize("outcome", FAILURES)
def test_the_first_line_of_what_was_not_attempted(outcome: Outcome) -> None:
    line = first(ended(outcome, touched=False))
    if outcome in UNTOUCHED_FAILURES:
        assert line == f"{WORDS.get(outcome, 'FAILED')}  at rtr on mlx5_0/1: words  [host1]"
    else:
        assert line == f"{WORDS.get(outcome, 'NOT ATTEMPTED')}  words  [host1]"


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_can_be_shown_and_written(outcome: Outcome) -> None:
    for touched in (True, False):
        attempt = ended(outcome, touched=touched)
        assert text(attempt).endswith("\n")
        assert document(Result(attempt, (), ()))["outcome"] == outcome


# --- both ends ---------------------------------------------------------------------------


def about(shown: str, end: str) -> str:
    """The lines that begin with "local" or "remote", each space as one."""
    lines = [line for line in shown.splitlines() if line.startswith(f"{end} ")]
    return " ".join(" ".join(lines).split())


def test_each_end_is_shown_with_its_address_and_its_queue_pair() -> None:
    for end, device, address, number in (
        ("local", "mlx5_0/1", "GID 3: ::ffff:192.0.2.1, roce_v2", 17),
        ("remote", "mlx5_7/1", "GID 3: ::ffff:192.0.2.2, roce_v2", 18),
    ):
        shown = about(text(VERIFIED), end)
        assert shown.startswith(f"{end} {device} ethernet, active RC rts")
        for cell in (address, f"QPN {number}, PSN 1", "MTU 1024"):
            assert cell in shown


@pytest.mark.parametrize(
    ("changes", "address"),
    [
        ({"gid_index": None, "gid": None, "gid_type": None, "lid": 17}, "LID 17"),
        (
            {"link_layer": LinkLayer.INFINIBAND, "gid_type": None, "lid": 17},
            "GID 3: ::ffff:192.0.2.1, LID 17",
        ),
        (
            {"link_layer": LinkLayer.THUNDERBOLT, "gid_type": None, "lid": 7},
            "GID 3: ::ffff:192.0.2.1, LID 7",
        ),
    ],
    ids=["InfiniBand", "InfiniBand with a GRH", "Thunderbolt"],
)
def test_the_address_is_what_the_other_end_names(changes: dict[str, Any], address: str) -> None:
    shown = text(replace(VERIFIED, local=replace(LOCAL, **changes)))
    assert f"local {address}" in about(shown, "local")


def test_an_end_that_came_to_nothing_says_so() -> None:
    bare = replace(LOCAL, queue_pair=None, psn=None, mtu=None, qp_state=None)
    shown = text(ended(Outcome.CALL_FAILED, local=bare, remote=None))
    assert "RC not made local GID 3" in about(shown, "local")
    assert "QPN" not in shown
    assert "remote" not in shown


def test_the_queue_pair_of_a_connections_other_end_is_not_called_not_made() -> None:
    other = replace(LOCAL, device="siw0", qp_state=None)
    connection = Connection((), "192.0.2.1:20000", "192.0.2.2:30000")
    shown = text(replace(VERIFIED, remote=other, connection=connection))
    assert "not made" not in shown
    assert about(shown, "remote").startswith("remote siw0/1 ethernet, active RC remote")


@pytest.mark.parametrize("outcome", [Outcome.NO_PEER, Outcome.PEER_REFUSED])
def test_without_a_peer_the_ends_are_of_no_interest(outcome: Outcome) -> None:
    assert "mlx5_0/1" not in text(ended(outcome, touched=False, remote=None))


@pytest.mark.parametrize(
    ("device", "link_layer"),
    [
        ("mlx5_0", LinkLayer.ETHERNET),
        ("mlx5_bond_0", LinkLayer.ETHERNET),
        ("rocep177s0f0", LinkLayer.ETHERNET),
        ("ibp193s0f1np1", LinkLayer.INFINIBAND),
        ("rdma_en12", LinkLayer.THUNDERBOLT),
    ],
)
def test_nothing_of_an_end_is_cut_at_80_columns(device: str, link_layer: LinkLayer) -> None:
    most = (1 << 24) - 1
    end = replace(LOCAL, device=device, link_layer=link_layer, queue_pair=most, psn=most, mtu=4096)
    shown = text(replace(VERIFIED, local=end, remote=end))
    assert "\u2026" not in shown
    for cell in (f"{device}/1", f"QPN {most}", f"PSN {most}", "MTU 4096", f"{link_layer}, "):
        assert shown.count(cell) >= 2


# --- why not, why, and what next ---------------------------------------------------------


def test_every_reason_of_the_preflight_has_its_sentence() -> None:
    machine = roce_host().change(nodes={}).with_port(gids={})
    shown = text(ended(Outcome.NOT_SAFE, touched=False, local=None), refused(machine))
    for reason in (Reason.NO_ROUTE_GID, Reason.UVERBS_NODE_MISSING):
        assert f"\n  {reason}: {REASON_TEXT[reason]}\n" in shown


def test_a_refusal_can_be_overridden_by_what_can_be_pasted() -> None:
    machine = roce_host().change(nodes={}).with_port(gids={})
    shown = text(ended(Outcome.NOT_SAFE, touched=False, local=None), refused(machine))
    assert "\n    rdmadiag preflight --device mlx5_0:1\n" in shown
    assert (
        "\n    rdmadiag pingpong --allow-rtr --device mlx5_0:1 "
        "--accept-risk no_route_gid --accept-risk uverbs_node_missing\n" in shown
    )


def test_what_can_be_pasted_goes_the_same_way() -> None:
    machine = roce_host().change(nodes={})
    attempt = ended(Outcome.NOT_SAFE, touched=False, local=None)
    out = StringIO()
    to = Console(file=out, width=120, color_system=None, highlight=False, markup=False)
    show(Result(attempt, refused(machine), (), by_cm=True), HOST, to)
    shown = out.getvalue()
    assert "\n    rdmadiag pingpong --cm --allow-rtr --device mlx5_0:1 " in shown


def test_a_refusal_that_can_only_fail_is_not_offered_to_be_overridden() -> None:
    machine = roce_host().with_device(node_type="4: RNIC", protocol="iw")
    shown = text(ended(Outcome.NOT_SAFE, touched=False, local=None), refused(machine))
    assert "iwarp_needs_rdma_cm" in shown
    assert "--accept-risk" not in shown
    assert "\n    rdmadiag pingpong --cm --allow-rtr\n" in shown


def test_what_was_accepted_is_no_reason_any_more() -> None:
    machine = roce_host().change(nodes={}).with_port(gids={})
    chosen = refused(machine, accepted=frozenset({Reason.NO_ROUTE_GID}))
    shown = text(ended(Outcome.NOT_SAFE, touched=False, local=None), chosen)
    assert "no_route_gid" not in shown
    assert "--accept-risk uverbs_node_missing\n" in shown


@pytest.mark.parametrize(
    ("ports", "words"),
    [
        (1, None),
        (2, "Nor is it permitted on mlx5_0/2."),
        (5, "Nor is it permitted on mlx5_0/2, mlx5_0/3, mlx5_0/4, mlx5_0/5."),
        (8, "Nor is it permitted on mlx5_0/2, mlx5_0/3, mlx5_0/4, mlx5_0/5 and 3 more."),
    ],
)
def test_other_ports_that_may_not_are_named_but_not_without_end(
    ports: int, words: str | None
) -> None:
    machine = infiniband_host().change(devices=infiniband_host().devices[:1])
    down = replace(machine.devices[0].ports[0], state=PortState.DOWN)
    chosen = refused(machine.with_device(ports=(down,) * ports))
    shown = text(ended(Outcome.NOT_SAFE, touched=False, local=None), chosen)
    assert (f"  {words}\n" in shown) if words else ("Nor is it" not in shown)


def test_without_any_port_the_next_step_is_to_look_for_devices() -> None:
    shown = text(ended(Outcome.NOT_SAFE, touched=False, local=None))
    assert shown.endswith("Next:\n    rdmadiag devices\n")


def test_ends_that_do_not_fit_are_shown_problem_by_problem() -> None:
    problems = (Problem("qp_type_mismatch", "rc and uc"), Problem("odd", "it is odd"))
    shown = text(ended(Outcome.MISMATCH, touched=False, problems=problems))
    assert "\n  qp_type_mismatch: rc and uc\n  odd: it is odd\n" in shown


def test_one_cause_and_several() -> None:
    assert "A cause that is known:\n  - " in text(ended(Outcome.PEER_FAILED))
    assert "Causes that are known:\n  - " in text(ended(Outcome.NO_PEER, touched=False))


@pytest.mark.parametrize("how", [{}, {"force_terminal": True}], ids=["a pipe", "a terminal"])
def test_a_remedy_is_never_wrapped(how: dict[str, Any]) -> None:
    machine = roce_host().change(nodes={}).with_port(gids={})
    attempt = ended(Outcome.NOT_SAFE, touched=False, local=None)
    lines = text(attempt, refused(machine), width=40, **how).splitlines()
    (line,) = [each for each in lines if "--allow-rtr" in each]
    assert line.endswith("uverbs_node_missing")


def test_in_a_terminal_the_answer_is_wrapped_between_words() -> None:
    lines = text(VERIFIED, width=60, force_terminal=True).splitlines()
    assert max(map(len, lines[:2])) <= 60
    assert lines[1].endswith("[host1]")


# --- latency, teardown, risks ------------------------------------------------------------


def test_half_round_trips_are_shown_with_what_is_the_loops_own() -> None:
    shown = text(VERIFIED)
    assert (
        "Half round trip: min 1.5, median 2, p99 3, max 4.5 µs "
        "(100 iterations; compiled loop, 0.2 µs of it its own; not a benchmark)\n" in shown
    )
    assert "1 iteration;" in text(replace(VERIFIED, latency=replace(LATENCY, iterations=1)))


def test_datagrams_are_not_timed_and_a_group_is_named() -> None:
    end = replace(LOCAL, qp_type=QpType.UD)
    by_sidr = replace(VERIFIED, latency=None, local=end, connection=Connection((), None, None))
    assert "data verified both ways, UD  [host1]" in first(by_sidr)
    assert "Half round trip: not measured. Datagrams are" in text(by_sidr)
    grouped = replace(by_sidr, connection=Connection((), None, None, group="239.255.7.7"))
    assert "data verified both ways, UD, multicast 239.255.7.7  [host1]" in first(grouped)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, True),
        ({"role": "connect"}, True),
        ({"role": "listen"}, False),
        ({"outcome": Outcome.INTERRUPTED}, False),
        ({"teardown": Teardown.ABANDONED}, False),
    ],
    ids=["both ends here", "the end that connects", "the other", "a signal", "killed"],
)
def test_that_nothing_was_timed_is_said_where_it_could_have_been(
    changes: dict[str, Any], said: bool
) -> None:
    shown = text(replace(VERIFIED, latency=None, **changes))
    assert ("Half round trip: not measured" in shown) is said
    assert "not measured" not in text(replace(VERIFIED, **changes))


def test_the_histogram_is_drawn_to_scale_and_few_are_still_seen() -> None:
    rows = [line for line in text(VERIFIED).splitlines() if line.startswith("  <=")]
    assert [row.count("#") for row in rows] == [40, 4, 1]
    assert [row.split()[:4] for row in rows] == [
        ["<=", "2", "µs", "90"],
        ["<=", "5", "µs", "9"],
        ["<=", "10", "µs", "1"],
    ]
    assert max(map(len, rows)) <= 80


@pytest.mark.parametrize(
    ("histogram", "bars"),
    [((), []), (((2, 0), (5, 3)), [0, 40]), (((2, 0),), [0]), (((1234567.5, 10_000),), [40])],
)
def test_a_histogram_may_have_holes_or_nothing(
    histogram: tuple[tuple[float, int], ...], bars: list[int]
) -> None:
    shown = text(replace(VERIFIED, latency=replace(LATENCY, histogram=histogram)))
    rows = [line for line in shown.splitlines() if line.startswith("  <=")]
    assert [row.count("#") for row in rows] == bars
    assert all(row == row.rstrip() for row in rows)


@pytest.mark.parametrize(
    ("teardown", "words"),
    [
        (Teardown.NOTHING_MADE, "nothing was made on the device"),
        (Teardown.CLEAN, "everything that was made is destroyed"),
        (Teardown.FAILED, "not everything that was made could be destroyed"),
        (Teardown.ABANDONED, "the process was ended; the kernel destroys what it had made"),
    ],
)
def test_what_became_of_the_objects_is_said_where_there_may_be_some(
    teardown: Teardown, words: str
) -> None:
    attempt = ended(Outcome.CALL_FAILED, teardown=teardown)
    assert f"\nTeardown: {words}.\n" in text(attempt)
    assert "Teardown" not in text(replace(attempt, touched=False))


def test_risks_that_were_taken_are_named() -> None:
    taken = (Reason.NO_LID, Reason.PRIOR_RTR_FAILURE)
    assert text(VERIFIED, accepted=taken).endswith("Accepted risks: no_lid, prior_rtr_failure.\n")


# --- words of others ---------------------------------------------------------------------


def steers(shown: str) -> bool:
    return any(not letter.isprintable() and letter != "\n" for letter in shown)


def with_evil_names(chosen: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    return tuple(replace(each, end=replace(each.end, device=EVIL)) for each in chosen)


@pytest.mark.parametrize("outcome", Outcome)
def test_names_and_words_with_escape_characters_are_harmless(outcome: Outcome) -> None:
    end = replace(LOCAL, device=EVIL)
    problems = (Problem(EVIL, EVIL),)
    chosen = with_evil_names(refused(roce_host().with_port(gids={}))) * 3
    for touched in (True, False):
        attempt = ended(
            outcome, local=end, remote=end, summary=EVIL, problems=problems, touched=touched
        )
        shown = text(attempt, chosen)
        assert not steers(shown)
        assert "x\\x1b[2Jy\\x07\\n" in shown


def test_a_hostname_with_escape_characters_is_harmless() -> None:
    assert not steers(first(VERIFIED, host=replace(HOST, hostname="x\x1b[2Jy\x07")))


def test_a_name_is_one_word_of_the_shell_in_what_can_be_pasted() -> None:
    chosen = refused(roce_host().with_port(gids={}))
    odd = tuple(replace(each, end=replace(each.end, device="a;reboot")) for each in chosen)
    shown = text(ended(Outcome.NOT_SAFE, touched=False, local=None), odd)
    for line in shown.splitlines():
        if line.startswith("    rdmadiag "):
            assert "a;reboot:1" in shlex.split(line)
            assert shlex.quote("a;reboot:1") in line
