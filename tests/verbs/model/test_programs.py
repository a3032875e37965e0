"""The programs of docs/verbs.md on the fake library; tests/lab runs them on soft RoCE."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.verbs.model.programs import PRINTED, RAW, programs


@pytest.mark.parametrize("title", [each for each in PRINTED if each != RAW])
def test_an_example_prints_what_it_should_and_destroys_what_it_made(
    title: str, run_program: Callable[..., Any]
) -> None:
    done, fake = run_program(programs()[title])
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == sorted(PRINTED[title])
    for made, destroyed in (
        ("ibv_create_qp", "ibv_destroy_qp"),
        ("ibv_create_cq", "ibv_destroy_cq"),
        ("ibv_create_comp_channel", "ibv_destroy_comp_channel"),
        ("ibv_reg_mr", "ibv_dereg_mr"),
        ("ibv_alloc_pd", "ibv_dealloc_pd"),
        ("ibv_open_device", "ibv_close_device"),
    ):
        assert fake.calls.count(f"{made} rxe0") == fake.calls.count(f"{destroyed} rxe0")


def test_every_example_of_the_page_is_run() -> None:
    assert set(programs()) == set(PRINTED)
