"""Lines that launchers have marked, by host."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.explain.log.line.launchers import MOST_HOSTS, by_host, marking
from rdmadiag.fleet.lines import Mark

LISTING = ("mlx5_0 port 1 ==> ib0 ({})", "mlx5_1 port 1 ==> ib1 (Up)")


@pytest.mark.parametrize(
    "text",
    [
        "n1: {0}\nn1: {1}\nn2: {0}\nn2: {1}\n",
        "----------\nn1\n----------\n{0}\n{1}\n----------\nn2\n----------\n{0}\n{1}\n",
        "n1 | CHANGED | rc=0 >>\n{0}\n{1}\nn2 | CHANGED | rc=0 >>\n{0}\n{1}\n",
    ],
    ids=["clush and pdsh", "clubak and dshbak", "Ansible"],
)
def test_what_each_host_has_printed_keeps_the_numbers_of_its_lines(text: str) -> None:
    rows = text.format(*LISTING).encode()
    found = by_host(rows)
    assert [*found] == ["n1", "n2"]
    lines = rows.split(b"\n")
    for each in found.values():
        own = each.split(b"\n")
        assert len(own) == len(lines)
        assert all(
            mine in (b"", line) or line.endswith(mine)
            for mine, line in zip(own, lines, strict=True)
        )
        assert [line for line in own if line] == [line.encode() for line in LISTING]


def test_nccls_own_lines_begin_with_a_host_and_are_marked_by_nobody() -> None:
    assert marking(b"n1:42:43 [0] NCCL INFO Using network Socket\n" * 4) is Mark.NONE
    assert marking(b"n1: 42:43 [0] NCCL INFO Using network Socket\n" * 4) is Mark.NODE


@given(st.binary(max_size=400))
def test_any_bytes_are_of_some_hosts_or_of_none(text: bytes) -> None:
    assert all(each.count(b"\n") == text.count(b"\n") for each in by_host(text).values())


def test_more_hosts_than_are_read_one_by_one_are_none() -> None:
    def listed(hosts: int) -> bytes:
        return "".join(f"n{n}: {LISTING[1]}\n" * 3 for n in range(hosts)).encode()

    assert len(by_host(listed(MOST_HOSTS))) == MOST_HOSTS
    assert by_host(listed(MOST_HOSTS + 1)) == {}


def test_the_title_of_a_report_between_rules_is_no_host() -> None:
    assert by_host(b"----------\nResults\n----------\nState: Down\n") == {}
