"""The dump of a completion with an error, as libmlx5 and the kernel's mlx5_ib print it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.explain.log.recognition.dumped_cqe import LINES, Dumped, dumped
from tests.explain.score import Excerpt, score

ZEROS = "00000000 00000000 00000000 00000000"
OF_RDMA_CORE = [ZEROS, ZEROS, ZEROS, "00000000 00008914 10000123 0a5c12d2"]
OF_THE_KERNEL = [
    *(f"000000{at:02x}: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00" for at in (0, 16, 32)),
    "00000030: 00 00 00 00 00 00 81 15 10 00 01 23 0a 5c 12 d2",
]


# struct mlx5_err_cqe: byte 54 the vendor's syndrome, 55 the syndrome, 63 the opcode above four bits
@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (OF_RDMA_CORE, Dumped(11, 0x89)),  # MLX5_CQE_SYNDROME_REMOTE_OP_ERR
        (OF_THE_KERNEL, Dumped(12, 0x81)),  # MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR
        ([f"[1,3]<stderr>:{line}" for line in OF_RDMA_CORE], Dumped(11, 0x89)),
        ([f"[  9.123456] {line}" for line in OF_THE_KERNEL], Dumped(12, 0x81)),
        ([OF_RDMA_CORE[-1].replace("d2", "02")], None),  # MLX5_CQE_REQ: no error
        ([OF_RDMA_CORE[-1].replace("8914", "897f")], None),  # no syndrome
        (OF_RDMA_CORE[:-1], None),
        (["step 1"] * LINES + OF_RDMA_CORE, None),
    ],
    ids=[
        "rdma-core",
        "the kernel",
        "behind what Open MPI puts before it",
        "behind the clock of dmesg",
        "of a request that is done",
        "with a syndrome that mlx5 has not",
        "cut off",
        "too far below",
    ],
)
def test_of_the_last_row_the_status_and_the_vendors_error(
    lines: list[str], found: Dumped | None
) -> None:
    assert dumped(lines) == found


@given(st.lists(st.text(alphabet="0123456789abcdef :x-\u00e9\t", max_size=80)))
def test_whatever_stands_there_it_is_a_status_of_the_enum_or_none(lines: list[str]) -> None:
    found = dumped(lines)
    assert found is None or (1 <= found.status <= 22 and 0 <= found.vendor_error <= 255)


def test_the_line_above_it_is_a_completion_with_that_status() -> None:
    log = "\n".join(["mlx5: node1: got completion with error:", *OF_RDMA_CORE])
    found = score(Excerpt("dump", {}, log.encode())).found
    assert found is not None
    assert found.completion is not None
    assert (found.completion.number, found.completion.vendor_error) == (11, 0x89)
