"""Classes of rdmadiag.frozen behave as those of dataclasses do."""

import dataclasses
import inspect
import pickle
from collections.abc import Mapping
from typing import Any

import pytest

from rdmadiag.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Port:
    number: int
    name: str = "mlx5_0"
    rows: Mapping[str, int] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Numbered(Port):
    lid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    late: int = 1
    early: str


@dataclass(frozen=True, slots=True)
class Single:
    only: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Empty:
    pass


@dataclass(frozen=True, slots=True)
class Checked:
    number: int

    def __post_init__(self) -> None:
        if self.number < 0:
            raise ValueError("below 0")


@dataclass(frozen=True, slots=True)
class Own:
    number: int

    def __repr__(self) -> str:
        return "mine"

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 7


OURS = (Port, Numbered, Named, Single, Empty)


def twin(ours: Any) -> Any:
    """The same fields, by the standard library."""
    found = [
        (
            each.name,
            each.type,
            dataclasses.field(
                default=each.default, default_factory=each.default_factory, kw_only=each.kw_only
            ),
        )
        for each in dataclasses.fields(ours)
    ]
    return dataclasses.make_dataclass(ours.__name__, found, frozen=True, slots=True)


def values(kind: Any) -> dict[str, Any]:
    given = {"number": 1, "early": "x", "only": (1, 2), "lid": 3}
    return {f.name: given[f.name] for f in dataclasses.fields(kind) if f.name in given}


@pytest.mark.parametrize("ours", OURS)
def test_one_is_shown_compared_and_hashed_as_the_standard_librarys(ours: Any) -> None:
    theirs = twin(ours)
    one, other = ours(**values(ours)), theirs(**values(ours))
    assert repr(one) == repr(other)
    assert dataclasses.asdict(one) == dataclasses.asdict(other)
    assert one == ours(**values(ours))
    assert one != other
    assert not hasattr(one, "__dict__")
    assert ours.__match_args__ == theirs.__match_args__
    try:
        hash(other)
    except TypeError:  # of a dict in it
        with pytest.raises(TypeError):
            hash(one)
    else:
        assert len({one, ours(**values(ours))}) == 1


@pytest.mark.parametrize("ours", OURS)
def test_the_signature_is_the_standard_librarys(ours: Any) -> None:
    shown = inspect.signature(ours).parameters
    theirs = inspect.signature(twin(ours)).parameters
    assert [(each.name, each.kind) for each in shown.values()] == [
        (each.name, each.kind) for each in theirs.values()
    ]
    assert [each.default is each.empty for each in shown.values()] == [
        each.default is each.empty for each in theirs.values()
    ]


@pytest.mark.parametrize("ours", OURS)
def test_one_travels_by_pickle(ours: Any) -> None:
    one = ours(**values(ours))
    assert pickle.loads(pickle.dumps(one)) == one


def test_each_has_a_default_of_its_own() -> None:
    first, second = Port(1), Port(1)
    assert first.rows == {}
    assert first.rows is not second.rows


def test_nothing_can_be_set_or_deleted() -> None:
    port = Port(1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="number"):
        port.number = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError, match="name"):
        del port.name
    with pytest.raises(AttributeError):
        port.other = 2  # type: ignore[attr-defined]
    assert port == Port(1)


def test_a_missing_or_unknown_argument_is_an_error_of_the_call() -> None:
    with pytest.raises(TypeError, match="number"):
        Port()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="more"):
        Port(1, more=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional"):
        Named("x")  # type: ignore[misc]


def test_a_changed_copy_is_checked_as_the_first_one() -> None:
    assert dataclasses.replace(Checked(1), number=2) == Checked(2)
    with pytest.raises(ValueError, match="below 0"):
        dataclasses.replace(Checked(1), number=-1)


def test_what_a_class_defines_itself_stays() -> None:
    assert repr(Own(1)) == "mine"
    assert Own(1) == Own(2)
    assert hash(Own(1)) == 7


def test_a_class_that_makes_no_instance_compiles_nothing() -> None:
    @dataclass(frozen=True, slots=True)
    class Never:
        number: int

    assert Never.__init__.__code__.co_varnames[:3] == ("self", "args", "kwargs")
    Never(1)
    assert Never.__init__.__code__.co_varnames[:2] == ("self", "number")
