"""Network ports of accelerators."""

import pytest

from tests.explain.pasted.answer import ON_N1, first

LISTS = f"all_reduce hangs\n{ON_N1}hl-smi -i 0000:9b:00.0 -n link\n"


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        (
            "port 1:  UP\nport 8:  UP\nport 22: DOWN\n",
            ("accelerator-port-not-configured", 5, False),
        ),
        ("port 1:  UP\nport 8:  UP\nport 22: UP\n", None),
        ("port 1:  DOWN\nport 8:  DOWN\nport 22: UP\n", None),
    ],
    ids=["one of several", "none", "most: without a cable"],
)
def test_a_port_that_is_down_where_others_are_up(
    rows: str, found: tuple[str, int, bool] | None
) -> None:
    assert first(LISTS + rows) == found
    assert first(rows) is None
    assert first(LISTS.replace("hangs", "is next") + rows) is None
