"""`dataclasses.dataclass(frozen=True, slots=True)`, made at a quarter of its cost.

A command makes some eighty of these classes, and for each one dataclasses compiles six methods:
a quarter of the CPU time of `preflight`. Here __init__ alone is compiled, and the others are
ordinary functions. To dataclasses.fields and replace, to pydantic and to mypy it is a dataclass.
"""

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass  # what mypy sees
else:

    def dataclass(*, frozen: bool, slots: bool) -> Callable[[type], type]:
        """See dataclasses.dataclass; without inheritance, __post_init__ and options of `field`
        but its defaults."""
        assert frozen
        assert slots
        return _made


def _made(cls: type) -> type:
    cls.__doc__ = cls.__doc__ or cls.__name__  # or dataclasses makes one, of a signature
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    params = made.__dataclass_params__
    params.init = params.repr = params.eq = params.frozen = True
    fields = dataclasses.fields(made)
    methods = {
        "__init__": _init(made, fields),
        "__setattr__": _no_assignment,
        "__delattr__": _no_deletion,
        **_methods(tuple(field.name for field in fields)),
    }
    for name, method in methods.items():
        if name not in cls.__dict__:
            setattr(made, name, method)
    return made  # type: ignore[no-any-return]


def _init(made: type, fields: tuple["dataclasses.Field[Any]", ...]) -> Callable[..., None]:
    parameters, lines = ["self"], []
    names: dict[str, Any] = {"_missing": dataclasses.MISSING}
    for field in fields:
        name = value = field.name
        names[f"_set_{name}"] = getattr(made, name).__set__  # of its slot: __setattr__ refuses
        if field.default_factory is not dataclasses.MISSING:
            names[f"_new_{name}"] = field.default_factory
            value = f"_new_{name}() if {name} is _missing else {name}"
            parameters.append(f"{name}=_missing")
        elif field.default is not dataclasses.MISSING:
            names[f"_default_{name}"] = field.default
            parameters.append(f"{name}=_default_{name}")
        else:
            parameters.append(name)
        lines.append(f" _set_{name}(self, {value})")
    exec(f"def __init__({', '.join(parameters)}):\n" + "\n".join(lines or [" pass"]), names)  # noqa: S102  # field names of ours
    init: Callable[..., None] = names["__init__"]
    init.__qualname__ = f"{made.__qualname__}.__init__"
    init.__annotations__ = {field.name: field.type for field in fields} | {"return": None}
    return init


def _methods(names: tuple[str, ...]) -> dict[str, Callable[..., Any]]:
    values: Callable[[Any], tuple[Any, ...]]
    if len(names) > 1:
        values = attrgetter(*names)
    else:

        def values(self: Any) -> tuple[Any, ...]:
            return tuple(getattr(self, name) for name in names)

    def equal(self: object, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    def hashed(self: object) -> int:
        return hash(values(self))

    def shown(self: object) -> str:
        parts = (f"{name}={value!r}" for name, value in zip(names, values(self), strict=True))
        return f"{self.__class__.__qualname__}({', '.join(parts)})"

    def reduced(self: object) -> tuple[type, tuple[Any, ...]]:
        return self.__class__, values(self)

    return {"__eq__": equal, "__hash__": hashed, "__repr__": shown, "__reduce__": reduced}


def _no_assignment(self: object, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _no_deletion(self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
