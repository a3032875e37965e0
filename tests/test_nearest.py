"""What was meant: the one nearest name, or all of them."""

import doctest

import pytest

from rdmadiag import nearest
from rdmadiag.gid.registry import stacks
from rdmadiag.nearest import instead
from rdmadiag.preflight.thresholds import Thresholds
from rdmadiag.samples import samples


def test_the_examples_hold() -> None:
    assert doctest.testmod(nearest).failed == 0


@pytest.mark.parametrize(
    ("typed", "names", "meant"),
    [
        pytest.param("ncl", stacks(), "nccl", id="a stack, a letter short"),
        pytest.param("NCCLL", stacks(), "nccl", id="a stack in capitals, a letter too many"),
        pytest.param("roce-helthy", samples(), "roce-healthy", id="a sample"),
        pytest.param("retransmission", Thresholds.names(), "retransmissions", id="a threshold"),
        pytest.param("mlx4_0", ("mlx5_0", "mlx5_1"), "mlx5_0", id="a device of another driver"),
    ],
)
def test_the_nearest_name_is_offered_alone(typed: str, names: tuple[str], meant: str) -> None:
    assert instead(typed, names) == f"did you mean {meant}?"


@pytest.mark.parametrize(
    "typed", ["zzz", "", "x" * 5000, "mlx5_9"], ids=["strange", "empty", "long", "as near to both"]
)
def test_where_none_is_nearest_all_are_listed(typed: str) -> None:
    assert instead(typed, ("mlx5_0", "mlx5_1")) == "there are: mlx5_0, mlx5_1"


def test_none_is_said_to_be_none() -> None:
    assert instead("mlx5_0", ()) == "there are: none"
