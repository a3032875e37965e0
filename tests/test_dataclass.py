"""Frozen dataclasses that are made quickly are what dataclasses makes."""

import copy
import dataclasses
import inspect
import pickle
from dataclasses import field

import pytest
from pydantic import TypeAdapter, ValidationError

from rdmadiag.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Ours:
    """A place."""

    name: str
    number: int | None
    rows: tuple[int, ...] = ()
    found: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name}:{self.number}"


@dataclasses.dataclass(frozen=True, slots=True)
class Theirs:
    """A place."""

    name: str
    number: int | None
    rows: tuple[int, ...] = ()
    found: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class One:
    only: int


@dataclass(frozen=True, slots=True)
class Nothing:
    pass


@dataclass(frozen=True, slots=True)
class Sorted:
    """Has methods of its own."""

    key: str

    def __eq__(self, other):
        return isinstance(other, Sorted)

    def __hash__(self):
        return 7

    def __repr__(self):
        return "sorted"


CASES = [
    (("a", 1), {}),
    (("a", None, (1, 2), {"b": 3}), {}),
    ((), {"number": 2, "name": "b"}),
    (("a",), {"number": 1, "found": {"c": 1}}),
]


@pytest.mark.parametrize(("values", "named"), CASES)
def test_it_is_made_shown_and_taken_apart_alike(values, named):
    ours, theirs = Ours(*values, **named), Theirs(*values, **named)
    assert repr(ours) == repr(theirs).replace("Theirs", "Ours")
    assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    assert dataclasses.astuple(ours) == dataclasses.astuple(theirs)
    assert dataclasses.replace(ours, name="z").name == "z"
    assert ours == Ours(*values, **named)
    assert ours != dataclasses.replace(ours, name="z")
    assert ours != theirs
    assert pickle.loads(pickle.dumps(ours)) == ours == copy.deepcopy(ours)


def test_the_class_is_described_alike():
    for each, other in zip(dataclasses.fields(Ours), dataclasses.fields(Theirs), strict=True):
        assert (each.name, each.type, each.default) == (other.name, other.type, other.default)
    assert list(inspect.signature(Ours).parameters) == list(inspect.signature(Theirs).parameters)
    assert Ours.__slots__ == Theirs.__slots__
    assert Ours.__match_args__ == Theirs.__match_args__
    ours, theirs = repr(Ours.__dataclass_params__), repr(Theirs.__dataclass_params__)
    assert ours.partition(",match_args")[0] == theirs.partition(",match_args")[0]
    assert Ours.__doc__ == "A place."


def test_each_has_a_default_of_its_own():
    assert Ours("a", 1).found is not Ours("a", 1).found


@pytest.mark.parametrize("values", [(), ("a",), ("a", 1, (), {}, 5)])
def test_wrong_arguments_are_a_type_error(values):
    with pytest.raises(TypeError):
        Ours(*values)


def test_nothing_of_it_can_be_changed():
    ours = Ours("a", 1)
    for name in ("name", "other"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(ours, name, 1)
        with pytest.raises(dataclasses.FrozenInstanceError):
            delattr(ours, name)
    assert not hasattr(ours, "__dict__")


def test_it_is_a_key_where_its_values_are():
    assert {One(1): "a"}[One(1)] == "a"
    assert hash(Nothing()) == hash(Nothing())
    assert (Nothing(), repr(Nothing())) == (Nothing(), "Nothing()")
    assert repr(One(1)) == "One(only=1)"
    with pytest.raises(TypeError):
        hash(Ours("a", 1))


def test_methods_of_its_own_stay():
    assert (repr(Sorted("a")), hash(Sorted("a")), Sorted("a") == Sorted("b")) == ("sorted", 7, True)
    assert str(Ours("a", 1)) == "a:1"


def test_pydantic_takes_it_for_a_dataclass():
    adapter = TypeAdapter(Ours)
    made = adapter.validate_python({"name": "a", "number": 1, "rows": [1]})
    assert made == Ours("a", 1, (1,))
    assert adapter.validate_json(adapter.dump_json(made)) == made
    assert adapter.json_schema()["properties"] == TypeAdapter(Theirs).json_schema()["properties"]
    with pytest.raises(ValidationError):
        adapter.validate_python({"name": "a"})


def test_what_it_does_not_make_is_refused():
    with pytest.raises(AssertionError):
        dataclass(frozen=False, slots=True)
