"""How facts stand in documents where JSON has no form of its own for them."""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, get_args

from rdmadiag.facts.ib import Numbered


class Dumped:
    """`__pydantic_serializer__` of a class: what pydantic-core writes for its instances.

    Made when a document is first dumped, so that facts alone do not import pydantic-core.
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self._made: Any = None

    def __get__(self, instance: object, owner: type) -> Any:
        if self._made is None:
            from pydantic_core import SchemaSerializer, core_schema

            how = core_schema.plain_serializer_function_ser_schema(self._function)
            self._made = SchemaSerializer(core_schema.any_schema(serialization=how))
        return self._made


class WithNumbers:
    """Base of a dataclass in whose documents a number stands beside each Numbered word.

    "state": "active", "state_number": 4; beside a value that is not known there is none.
    """

    __slots__ = ()

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def members(self) -> dict[str, Any]:
        """What stands in a document, by name."""
        found: dict[str, Any] = {}
        for name in self.__dataclass_fields__:
            found[name] = value = getattr(self, name)
            if isinstance(value, Numbered):
                found[f"{name}_number"] = value.number
        return found

    __pydantic_serializer__: ClassVar[Any] = Dumped(members)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        found = handler(source)
        members = core_schema.plain_serializer_function_ser_schema(WithNumbers.members)
        found["serialization"] = members
        return found

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        found: dict[str, Any] = handler(schema)
        if handler.mode == "serialization":
            described = handler.resolve_ref_schema(found)
            described["properties"] = dict(cls._described(described["properties"]))
        return found

    @classmethod
    def _described(cls, properties: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        for name, each in properties.items():
            yield name, each
            if _is_numbered(cls.__dataclass_fields__[name].type):
                title = f"{each.get('title', name)} Number"
                text = f"The number of {name}; not there where {name} is not known."
                yield f"{name}_number", {"type": "integer", "title": title, "description": text}


def _is_numbered(kind: Any) -> bool:
    """Of a type, or of a union in which one is."""
    choices = get_args(kind) or (kind,)
    return any(isinstance(each, type) and issubclass(each, Numbered) for each in choices)
