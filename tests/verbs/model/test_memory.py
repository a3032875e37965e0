"""Pieces of memory regions: what they are made of, and that none is outside."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.verbs.model.memory import check, flat, packets, paddings, pieces, shape
from tests.verbs.model.conftest import Model

SIZES = st.integers(-2, 80)


@given(SIZES, SIZES, SIZES)
def test_an_element_is_taken_if_and_only_if_each_of_its_bytes_is_in_the_region(
    size: int, offset: int, length: int
) -> None:
    inside = length > 0 and set(range(offset, offset + length)) <= set(range(size))
    if inside:
        check(size, offset, length)
    else:
        with pytest.raises(ValueError, match="are not in a region"):
            check(size, offset, length)


def test_no_element_is_longer_than_providers_take() -> None:
    check(1 << 40, 1 << 35, 1 << 31)
    with pytest.raises(ValueError, match="are not in a region"):
        check(1 << 40, 0, (1 << 31) + 1)


SHAPES = st.integers(1, 6).flatmap(
    lambda count: st.lists(st.tuples(st.just(count), st.integers(1, 20)), min_size=1, max_size=4)
)


@given(SHAPES, st.data())
def test_each_request_has_its_packet_of_every_buffer_without_the_padding(
    shapes: list[tuple[int, int]], data: Any
) -> None:
    num_wr = data.draw(st.integers(1, shapes[0][0]))
    npad = [data.draw(st.integers(0, size - 1)) for _, size in shapes]
    rows = pieces(shapes, num_wr, npad)
    assert len(rows) == num_wr
    for buffer, (count, size) in enumerate(shapes):
        # Byte by byte: packet number and place in it.
        grid = [(packet, at) for packet in range(count) for at in range(size)]
        for packet, row in enumerate(rows):
            offset, length = row[buffer]
            wanted = [(packet, at) for at in range(size - npad[buffer])]
            assert grid[offset : offset + length] == wanted


@pytest.mark.parametrize(
    ("shapes", "num_wr", "npad", "said"),
    [
        ([(4, 8), (3, 8)], 1, 0, "different numbers of packets: 4, 3"),
        ([(4, 8)], 5, 0, "5 work requests, the buffers are for 4"),
        ([(4, 8)], 0, 0, "0 work requests"),
        ([(4, 8)], 1, 8, "a padding of 8 bytes in packets of 8"),
        ([(4, 8)], 1, -1, "a padding of -1 bytes"),
        ([(4, 8)], 1, [1, 2], "2 paddings for 1 buffers"),
    ],
)
def test_what_does_not_fit_is_refused(
    shapes: list[tuple[int, int]], num_wr: int, npad: Any, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        pieces(shapes, num_wr, npad)


def test_one_padding_is_for_all_buffers() -> None:
    assert paddings(3, 2) == [3, 3]


def test_packets_are_rows_of_their_size() -> None:
    made = packets(3, 5)
    assert (made.shape, shape(made), made.nbytes, made.readonly) == ((3, 5), (3, 5), 15, False)
    made[2, 4] = 9
    assert bytes(flat(made))[-1] == 9


@pytest.mark.parametrize("sizes", [(0, 1), (1, 0), (-1, 5)])
def test_there_are_no_packets_of_nothing(sizes: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="packets of"):
        packets(*sizes)


@pytest.mark.parametrize(
    ("buffer", "error"),
    [
        (b"constant", TypeError),
        (bytearray(), ValueError),
        (memoryview(bytearray(8))[::2], TypeError),
        ("text", TypeError),
    ],
    ids=["read-only", "empty", "with gaps", "no buffer"],
)
def test_what_the_device_could_not_write_is_no_buffer(buffer: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        flat(buffer)


def test_a_buffer_of_one_dimension_has_no_packets() -> None:
    with pytest.raises(ValueError, match="two dimensions"):
        shape(bytearray(8))


def test_elements_name_addresses_and_keys_of_their_regions(model: Model) -> None:
    found = model(
        """
with open_device("rxe0") as device:
    pd = device.alloc_pd()
    one, other = packets(4, 16), packets(4, 100)
    mrs = [pd.reg_mr(each) for each in (one, other)]
    rows = create_sges([one, other], mrs, 3, [0, 10])
    say([[(s.addr - s.mr.addr, s.length, s.lkey == s.mr.lkey) for s in row] for row in rows])
    say(refused(create_sges, [other], [mrs[0]], 1)[0], refused(create_sges, [one], mrs, 1)[0])
    whole = pd.reg_mr(bytearray(100))
    say(len(whole), whole.len, whole.sge(40).length, whole.lkey != whole.rkey)
    say(refused(whole.sge, 40, 61)[0], refused(whole.sge, -1, 1)[0], refused(whole.sge, 100)[0])
"""
    )
    rows, wrong, region, outside = found.said
    assert rows == [
        [[0, 16, True], [0, 90, True]],
        [[16, 16, True], [100, 90, True]],
        [[32, 16, True], [200, 90, True]],
    ]
    assert wrong == ["ValueError", "ValueError"]
    assert region == [100, 100, 60, True]
    assert outside == ["ValueError"] * 3


def test_a_register_that_is_refused_is_the_callers_to_see(model: Model) -> None:
    found = model(
        "device = open_device('rxe0')\npd = device.alloc_pd()\n"
        "say(refused(pd.reg_mr, bytearray(8)), refused(pd.reg_mr_buffer, 0)[0])\ndevice.close()",
        "on ibv_reg_mr errno=12\n",
    )
    assert found.said == [["CallFailed", "ibv_reg_mr: errno 12"], "ValueError"]
