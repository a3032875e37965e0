"""Short logs that a mail wrapped."""

from collections.abc import Callable
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.cli.explain import put_together
from rdmadiag.explain.log.account import Account
from rdmadiag.explain.log.kind import CRASH
from rdmadiag.explain.log.recognition.vocabulary import NARROW, NEEDLES
from rdmadiag.explain.log.scan import collect
from rdmadiag.explain.log.text.wrapped import unwrapped
from rdmadiag.sieve.lines import Sieve
from tests.explain.score import Excerpt, score

OOPS = """\
Feb 27 09:58:27 node1 kernel: BUG: kernel NULL pointer
dereference, address: 0000000000000010
Feb 27 09:58:27 node1 kernel: Oops: 0000 [#1] SMP NOPTI
Feb 27 09:58:27 node1 kernel: CPU: 0 PID: 1046 Comm:
NetworkManager Not tainted 5.4.21 #8
Feb 27 09:58:27 node1 kernel: RIP:
0010:get_pkey_idx_qp_list+0x5a/0x80 [ib_core]
"""


def account(log: str) -> Account:
    """What the command finds in it."""
    return score(Excerpt("", {}, log.encode())).account


def test_a_crash_is_known_by_its_frame_on_the_next_line() -> None:
    first = account(OOPS).first
    assert first
    assert first.what == CRASH
    assert "get_pkey_idx_qp_list+0x5a/0x80 [ib_core]" in first.text


def test_what_stands_together_again_has_the_number_of_its_first_line() -> None:
    assert (6,) in [each.lines for each in account(OOPS).failures]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda log: log.replace("Feb 27 09:58:27 node1 kernel: ", ""), "no line has a time"),
        (lambda log: f"$ dmesg\n{log}", "it begins with another line"),
        (lambda log: log.replace(" #8", f" #8 {'x' * 60}"), "a line is wider"),
        (lambda log: "\n".join(log.splitlines()[:3]), "two lines alone have a time"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_another_text_stays_as_it_is(change: Callable[[str], str], why: str) -> None:
    assert why
    log = change(OOPS).encode()
    assert unwrapped(log) == log


DATED = "".join(
    f"[  {n}.100000] mlx5_core 0000:41:00.0: firmware version: 16.31.{n:04}\n" for n in range(3)
)
PRINTED = {
    "results below the kernel's lines": "n1: NCCL WARN NET/IB : Unable to open device mlx5_2\n"
    "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 42.1\n",
    "one line that has room above": "Unexpected CM event bl blka 8\n",
    "what a test prints": "  local address:  LID 0x0000, QPN 0x000011, PSN 0x1, GID ::\n"
    "Failed to modify QP to RTR\n",
    "the same between two of them": "  local address:  LID 0x0000, QPN 0x000011, PSN 0x1\n"
    "[  9.100000] mlx5_core 0000:41:00.0: a line that the kernel printed after it\n",
}


@pytest.mark.parametrize("printed", PRINTED.values(), ids=PRINTED)
def test_what_a_program_prints_below_is_none_of_the_kernel_s_lines(printed: str) -> None:
    log = f"{DATED}{printed}".encode()
    assert unwrapped(log) == log


def test_of_a_script_that_prints_the_time_nothing_is_wrapped() -> None:
    dates = "".join(
        f"2026-01-01 10:00:0{n} a step that has a long name, and says so again\n" for n in range(3)
    )
    log = f"{dates}Couldn't connect to 192.0.2.2:18515\n".encode()
    assert unwrapped(log) == log


def test_it_is_read_again_with_all_the_words_that_there_are() -> None:
    """`collect` narrows them, once enough is known."""
    sieve = Sieve(NEEDLES)
    log = (
        "[  1.100000] refcount_t: underflow; use-after-free.\n"
        "[  1.200000] CPU: 0 PID: 1046 Comm: a program of a long name\n"
        "[  1.300000] RIP:\n0010:mlx5_ib_post_send+0x5a/0x80 [mlx5_ib]\n"
        "[  1.400000] ibv_modify_qp failed with errno 22\n"
    )
    narrow = lambda: sieve.look_for(NARROW)  # noqa: E731
    collector = put_together(sieve, collect(sieve.segments(BytesIO(log.encode())), narrow))
    found = collector.account(sieve.lines, sieve.bytes).failures
    assert CRASH in [each.what for each in found]


LINES = st.lists(
    st.one_of(
        st.binary(max_size=40).map(lambda each: each.replace(b"\n", b" ")),
        st.sampled_from([b"[  7.100000] a b", b"Feb 27 09:58:27 n kernel: c", b""]),
    ),
    max_size=12,
)


@given(LINES)
def test_no_word_is_lost_and_no_line_moves(lines: list[bytes]) -> None:
    text = b"\n".join(lines)
    found = unwrapped(text)
    assert found.split() == text.split()
    assert found.count(b"\n") == text.count(b"\n")
