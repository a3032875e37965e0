"""Frozen dataclasses with slots, whose methods are compiled when the first instance is made.

`dataclasses.dataclass` compiles six functions for each class as it is defined, about 0.3 ms. A
command defines some 230 classes and makes instances of half of them: that was a third of the time
that `preflight` took. Classes are used as those of `dataclasses`, which is what type checkers see.
"""

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414  # typed readers import it here
    from inspect import Signature
else:

    def dataclass(*, frozen: bool, slots: bool, kw_only: bool = False) -> Callable[[type], type]:
        """As dataclasses.dataclass of these arguments; frozen and slots are always wanted."""
        assert (frozen, slots) == (True, True)
        return lambda cls: _made(cls, kw_only)


def _made(cls: type, kw_only: bool) -> type:
    for name, method in _METHODS.items():
        if name not in cls.__dict__:
            setattr(cls, name, method)
    cls.__doc__ = cls.__doc__ or cls.__name__  # else dataclasses writes one of inspect.signature
    cls.__setattr__ = cls.__delattr__ = _refuse  # type: ignore[assignment]
    # Not frozen and without these: it has nothing left to compile.
    make = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True, kw_only=kw_only)
    made: Any = make(cls)

    def compile_first(self: Any, *args: Any, **kwargs: Any) -> None:
        made.__init__ = _initializer(made)
        made.__init__(self, *args, **kwargs)

    compile_first.__name__ = "__init__"
    compile_first.__qualname__ = f"{made.__qualname__}.__init__"
    made.__init__ = compile_first
    return made  # type: ignore[no-any-return]


def _initializer(made: Any) -> Callable[..., None]:
    """`__init__(self, a, b=…, *, c=…)`: a slot's own descriptor passes over __setattr__."""
    names: dict[str, Any] = {"_absent": dataclasses.MISSING}
    body = []
    for each in dataclasses.fields(made):
        name = each.name
        names[f"_set_{name}"] = getattr(made, name).__set__
        value = name
        if each.default_factory is not dataclasses.MISSING:
            names[f"_make_{name}"] = each.default_factory
            value = f"_make_{name}() if {name} is _absent else {name}"
        names[f"_default_{name}"] = each.default
        body.append(f" _set_{name}(self, {value})")
    if hasattr(made, "__post_init__"):
        body.append(" self.__post_init__()")
    written = ", ".join(["self", *_parameters(made)])
    exec(f"def __init__({written}):\n" + "\n".join(body or [" pass"]), names)  # noqa: S102
    method: Callable[..., None] = names["__init__"]
    method.__qualname__ = f"{made.__qualname__}.__init__"
    return method


def _parameters(made: Any) -> list[str]:
    """["a", "b=_default_b", "*", "c"]: what has a factory has the default `_absent`."""
    found = dataclasses.fields(made)
    by_place = [_parameter(each) for each in found if not each.kw_only]
    by_name = [_parameter(each) for each in found if each.kw_only]
    return [*by_place, *(["*"] if by_name else []), *by_name]


def _parameter(field: "dataclasses.Field[Any]") -> str:
    if field.default_factory is not dataclasses.MISSING:
        return f"{field.name}=_absent"
    has_default = field.default is not dataclasses.MISSING
    return f"{field.name}=_default_{field.name}" if has_default else field.name


class _Signature:
    """What `inspect.signature` and `help` show of the class, before and after it is compiled."""

    def __get__(self, instance: object, owner: type) -> "Signature":
        from inspect import Parameter, Signature

        parameters = []
        for each in dataclasses.fields(owner):
            kind = Parameter.KEYWORD_ONLY if each.kw_only else Parameter.POSITIONAL_OR_KEYWORD
            default: Any = each.default
            if each.default_factory is not dataclasses.MISSING:
                default = each.default_factory
            absent = default is dataclasses.MISSING
            parameters.append(
                Parameter(
                    each.name,
                    kind,
                    default=Parameter.empty if absent else default,
                    annotation=each.type,
                )
            )
        return Signature(sorted(parameters, key=lambda each: each.kind))


_getters: dict[type, Callable[[Any], tuple[Any, ...]]] = {}
_names: dict[type, tuple[str, ...]] = {}


def _values(self: Any) -> tuple[Any, ...]:
    cls = type(self)
    if cls not in _getters:
        names = [each.name for each in dataclasses.fields(cls)]
        if len(names) > 1:
            _getters[cls] = attrgetter(*names)
        else:
            _getters[cls] = lambda of: tuple(getattr(of, name) for name in names)
    return _getters[cls](self)


def _equal(self: Any, other: Any) -> Any:
    return _values(self) == _values(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_values(self))


def _repr(self: Any) -> str:
    names = (each.name for each in dataclasses.fields(self))
    pairs = zip(names, _values(self), strict=True)
    return f"{type(self).__qualname__}({', '.join(f'{name}={value!r}' for name, value in pairs)})"


def _refuse(self: Any, name: str, value: object = None) -> None:
    raise dataclasses.FrozenInstanceError(f"field {name!r} of a frozen {type(self).__qualname__}")


def _restore(self: Any, state: tuple[Any, ...]) -> None:
    cls = type(self)
    if cls not in _names:
        _names[cls] = tuple(each.name for each in dataclasses.fields(cls))
    for name, value in zip(_names[cls], state, strict=True):
        object.__setattr__(self, name, value)


_METHODS: Final[dict[str, Any]] = {
    "__signature__": _Signature(),
    "__eq__": _equal,
    "__hash__": _hash,
    "__repr__": _repr,
    "__getstate__": _values,  # pickle: an answer of a child process
    "__setstate__": _restore,
}
