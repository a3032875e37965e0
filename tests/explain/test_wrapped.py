"""Short logs that a mail wrapped."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.explain.log.account import Account
from rdmadiag.explain.log.kind import CRASH
from rdmadiag.explain.log.wrapped import unwrapped
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
