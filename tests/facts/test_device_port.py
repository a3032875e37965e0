"""DEV[:PORT]: the port is behind the last colon, if a number is there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts.device_port import among, split

NAMES = st.text(
    st.characters(exclude_characters="/", exclude_categories=["Cs"]), min_size=1, max_size=15
)
PORTS = st.integers(0, 65535)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("mlx5_0", ("mlx5_0", None), id="a device"),
        pytest.param("mlx5_0:1", ("mlx5_0", 1), id="a port"),
        pytest.param("mlx5_0/1", ("mlx5_0", 1), id="a port as rdma link prints it"),
        pytest.param("a:b", ("a:b", None), id="a device with a colon in its name"),
        pytest.param("a:b:1", ("a:b", 1), id="a port of it"),
        pytest.param("a:b/1", ("a:b", 1), id="a port of it, as rdma link prints it"),
        pytest.param("a:01", ("a:01", None), id="no port has a leading zero"),
    ],
)
def test_a_device_and_its_port_are_told_apart(text: str, expected: tuple[str, int | None]) -> None:
    assert split(text) == expected


@pytest.mark.parametrize("text", ["", "/1", "mlx5_0/", "mlx5_0/x", "a/b:1", "a" * 64])
def test_what_names_no_device_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not DEV or DEV:PORT"):
        split(text)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param(["a"], ("a", 1), id="the port"),
        pytest.param(["a:1"], ("a:1", None), id="the device of that name"),
        pytest.param(["a", "a:1"], ("a", 1), id="the port where both are there"),
        pytest.param([], ("a", 1), id="the port where neither is"),
    ],
)
def test_a_port_may_be_a_device_of_that_name(
    names: list[str], expected: tuple[str, int | None]
) -> None:
    assert among("a", 1, names) == expected


@given(NAMES, PORTS)
def test_every_port_of_every_device_can_be_named(name: str, port: int) -> None:
    assert split(f"{name}/{port}") == (name, port)
    assert split(f"{name}:{port}") == (name, port)


@given(NAMES)
def test_every_device_can_be_named(name: str) -> None:
    assert among(*split(name), [name]) == (name, None)
