"""Completion statuses: the whole enum, against this system's libibverbs."""

import ctypes
import doctest

import pytest

from rdmadiag.explain import completions
from rdmadiag.explain.completions import completion, completion_text, vendor

STATUSES = range(24)
"""IBV_WC_SUCCESS to IBV_WC_TM_RNDV_INCOMPLETE, infiniband/verbs.h."""


def rows() -> list[completions.CompletionStatus]:
    found = [completion(status) for status in STATUSES]
    assert None not in found
    return [row for row in found if row]


def test_the_examples_of_the_module_hold() -> None:
    found = doctest.testmod(completions)
    assert found.attempted > 0
    assert found.failed == 0


def test_every_status_has_the_text_that_libibverbs_gives_it() -> None:
    try:
        library = ctypes.CDLL("libibverbs.so.1")
    except OSError:
        pytest.skip("libibverbs.so.1 is not installed")
    text = library.ibv_wc_status_str
    text.argtypes, text.restype = [ctypes.c_int], ctypes.c_char_p
    assert {row.number: row.text for row in rows()} == {
        status: text(status).decode() for status in STATUSES
    }
    assert text(len(STATUSES)) == b"unknown"


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (0, "SUCCESS"),
        (1, "LOC_LEN_ERR"),
        (4, "LOC_PROT_ERR"),
        (5, "WR_FLUSH_ERR"),
        (9, "REM_INV_REQ_ERR"),
        (10, "REM_ACCESS_ERR"),
        (11, "REM_OP_ERR"),
        (12, "RETRY_EXC_ERR"),
        (13, "RNR_RETRY_EXC_ERR"),
        (19, "FATAL_ERR"),
        (21, "GENERAL_ERR"),
        (23, "TM_RNDV_INCOMPLETE"),
    ],
)
def test_a_status_has_its_number_of_the_enum(number: int, name: str) -> None:
    found = completion(number)
    assert found
    assert (found.number, found.name) == (number, name)


def test_no_name_stands_twice() -> None:
    names = [row.name for row in rows()]
    assert sorted(set(names)) == sorted(names)


def test_every_status_is_explained_and_every_error_has_a_cause() -> None:
    assert all(row.meaning.endswith(".") for row in rows())
    assert [row.number for row in rows() if not row.causes] == [0]


def test_a_flush_is_a_consequence_and_nothing_else_is() -> None:
    assert [row.number for row in rows() if row.is_consequence] == [5]
    flush = completion(5)
    assert flush
    assert "earlier" in flush.causes[0].text


@pytest.mark.parametrize("status", [-1, 24, 255, 2**31])
def test_a_number_that_the_enum_does_not_have_is_told_as_it_is(status: int) -> None:
    assert completion(status) is None
    assert completion_text(status, 3) == f"status {status}, vendor error 3"


@pytest.mark.parametrize(
    ("status", "vendor_error", "says"),
    [(12, 129, "retries"), (5, 249, "flushed"), (4, 81, "ACS")],
)
def test_vendor_errors_that_users_quote_are_known(
    status: int, vendor_error: int, says: str
) -> None:
    found = vendor(status, vendor_error)
    assert found
    assert found.provider == "mlx5"
    assert says in found.meaning


def test_a_vendor_error_means_nothing_with_another_status() -> None:
    assert vendor(4, 129) is None
    assert vendor(12, 0) is None
