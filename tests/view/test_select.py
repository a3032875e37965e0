"""Choosing devices and ports by name."""

from dataclasses import replace

import pytest

from lab.samples import infiniband_host
from rdmadiag.view.reconcile import devices, natural
from rdmadiag.view.select import NoSuchDevice, Selector, select

VIEWS = devices(infiniband_host().evidence())


def names(*selectors: Selector) -> list[str]:
    return [port.name for view in select(VIEWS, selectors) for port in view.ports]


def test_without_a_selector_everything_is_chosen() -> None:
    assert names() == ["mlx5_0/1", "mlx5_1/1"]


@pytest.mark.parametrize(
    ("selectors", "expected"),
    [
        pytest.param([Selector("mlx5_1")], ["mlx5_1/1"], id="a device"),
        pytest.param([Selector("mlx5_1", 1)], ["mlx5_1/1"], id="a port"),
        pytest.param(
            [Selector("mlx5_1", 1), Selector("mlx5_0")], ["mlx5_0/1", "mlx5_1/1"], id="both"
        ),
        pytest.param(
            [Selector("mlx5_0"), Selector("mlx5_0", 1)], ["mlx5_0/1"], id="a device and its port"
        ),
        pytest.param(
            [Selector("mlx5_0", 1), Selector("mlx5_0", 1)], ["mlx5_0/1"], id="the same port twice"
        ),
    ],
)
def test_selectors_choose(selectors: list[Selector], expected: list[str]) -> None:
    assert names(*selectors) == expected


@pytest.mark.parametrize("text", ["a:1", "a:1:1", "a:1/1"])
def test_a_device_with_a_colon_and_a_number_in_its_name_is_chosen(text: str) -> None:
    views = [replace(VIEWS[0], name="a:1"), VIEWS[1]]
    assert [view.name for view in select(views, [Selector.parse(text)])] == ["a:1"]


def test_an_unknown_device_lists_the_known_ones() -> None:
    with pytest.raises(NoSuchDevice, match="there are: mlx5_0, mlx5_1"):
        names(Selector("rxe9"))


def test_an_unknown_port_lists_the_known_ones() -> None:
    with pytest.raises(NoSuchDevice, match="there are: mlx5_0:1"):
        names(Selector("mlx5_0", 2))


def test_devices_are_in_the_order_that_people_count() -> None:
    shuffled = ["mlx5_10", "mlx5_9", "mlx4_0", "mlx5_bond_0", "rocep1s0f0"]
    assert sorted(shuffled, key=natural) == [
        "mlx4_0",
        "mlx5_9",
        "mlx5_10",
        "mlx5_bond_0",
        "rocep1s0f0",
    ]


def test_numbers_of_any_length_are_ordered() -> None:
    """A record's names are not the kernel's: Python refuses to convert 5000 digits."""
    long = ["m" + "9" * 5000, "m" + "1" + "0" * 5000, "m7", "m007"]
    assert sorted(long, key=natural) == ["m7", "m007", long[0], long[1]]
