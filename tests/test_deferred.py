"""rdmadiag.deferred."""

import sys
from types import ModuleType

import pytest

from rdmadiag.deferred import Deferred, defer


def test_a_module_that_is_deferred_is_executed_once_when_something_of_it_is_looked_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    defer("colorsys")
    import colorsys

    assert "rgb_to_hsv" not in vars(colorsys)
    assert colorsys.rgb_to_hsv(0.0, 0.0, 1.0)[2] == 1.0
    assert type(colorsys) is ModuleType
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        Deferred.__getattr__(colorsys, "nothing")  # type: ignore[arg-type]


def test_a_module_that_is_there_or_nowhere_is_not_deferred() -> None:
    defer("sys")
    defer("no_such_module_of_anybody")
    assert type(sys) is ModuleType
    assert "no_such_module_of_anybody" not in sys.modules
