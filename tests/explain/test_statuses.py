"""Numbers of completions, as logs write them."""

import pytest

from rdmadiag.explain.log.line.statuses import vendor_error_of


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("failed status 12 vend_err 0x81", 129),
        ("failed status 12 vend_err 81", 81),
        ("failed status 12 vend_err 0X81", 129),
        ("failed status 12 vend_err 05", 5),
        ("failed status 12 vend_err 0", None),
        ("failed status 12 vend_err 0x0", None),
        ("failed status 12 vend_err 00000000000005", None),
        ("failed status 12", None),
    ],
)
def test_a_vendor_error_is_a_number_however_it_is_written(line: str, number: int | None) -> None:
    assert vendor_error_of(line) == number
