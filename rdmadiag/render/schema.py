"""JSON Schema 2020-12 of the documents, from their models."""

import inspect
from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from rdmadiag import SCHEMA_VERSION
from rdmadiag.render.documents import DOCUMENTS

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def identifier(document: str) -> str:
    """Its $id, which changes with the version."""
    return f"urn:rdmadiag:schema:{document}:{SCHEMA_VERSION}"


class _Described(GenerateJsonSchema):
    """The same of every pydantic: what a dataclass is was left out by earlier ones (2.10)."""

    def dataclass_schema(self, schema: Any) -> JsonSchemaValue:
        found = super().dataclass_schema(schema)
        if described := schema["cls"].__doc__:
            found.setdefault("description", inspect.cleandoc(described))
        return found


def schema(document: str) -> dict[str, Any]:
    """The schema of a document of DOCUMENTS."""
    model = DOCUMENTS[document]
    found = model.model_json_schema(False, schema_generator=_Described, mode="serialization")
    return {"$schema": DIALECT, "$id": identifier(document)} | found
