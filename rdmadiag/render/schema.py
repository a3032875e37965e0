"""JSON Schema 2020-12 of the documents, from their models and from how `plain` writes them."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import Numbered
from rdmadiag.render.documents import DOCUMENTS
from rdmadiag.render.json import SCHEMA_VERSION

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def identifier(document: str) -> str:
    """Its $id, which changes with the version."""
    return f"urn:rdmadiag:schema:{document}:{SCHEMA_VERSION}"


def schema(document: str) -> dict[str, Any]:
    """The schema of a document of DOCUMENTS."""
    found = DOCUMENTS[document].model_json_schema(
        by_alias=False, mode="serialization", schema_generator=_AsPlain
    )
    return {"$schema": DIALECT, "$id": identifier(document)} | found


class _AsPlain(GenerateJsonSchema):
    """As `rdmadiag.render.json.plain` writes: a number beside each word that has one."""

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        if schema["cls"] is Gid:
            return {"type": "string", "description": "A GID, as an IPv6 address."}
        return super().dataclass_schema(schema)

    def dataclass_args_schema(self, schema: core_schema.DataclassArgsSchema) -> JsonSchemaValue:
        found = super().dataclass_args_schema(schema)
        properties = found.get("properties", {})
        spread: dict[str, Any] = {}
        for field in schema["fields"]:
            name = field["name"]
            spread[name] = properties[name]
            numbers = [n for kind in self._enums(field["schema"]) for n in kind]
            if numbers:
                spread[f"{name}_number"] = {
                    "type": "integer",
                    "title": f"{properties[name].get('title', name)} Number",
                    "description": f"The number of {name}; not there where {name} is not known.",
                }
        return found | {"properties": spread} if properties else found

    def _enums(self, schema: Any) -> Iterator[type[Numbered]]:
        """Of a field that is one, or one of several."""
        kind = schema["type"]
        if kind == "enum" and issubclass(schema["cls"], Numbered):
            yield schema["cls"]
        elif kind == "definition-ref":
            yield from self._enums(self.definitions_of(schema["schema_ref"]))
        elif kind in ("nullable", "default"):
            yield from self._enums(schema["schema"])
        elif kind == "union":
            for choice in schema["choices"]:
                yield from self._enums(choice[0] if isinstance(choice, tuple) else choice)

    def definitions_of(self, reference: str) -> Mapping[str, Any]:
        """The schema that a reference stands for; one of another kind where it is not an enum."""
        known = self._definitions_by_ref.get(reference)
        return known if known is not None else {"type": "other"}

    _definitions_by_ref: Mapping[str, Any] = {}

    def generate(self, schema: Any, mode: Any = "validation") -> JsonSchemaValue:
        if schema["type"] == "definitions":
            self._definitions_by_ref = {each["ref"]: each for each in schema["definitions"]}
        return super().generate(schema, mode)
