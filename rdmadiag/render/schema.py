"""JSON Schema 2020-12 of the documents, from their models."""

from typing import Any, Final

from rdmadiag import SCHEMA_VERSION
from rdmadiag.render.documents import DOCUMENTS

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def identifier(document: str) -> str:
    """Its $id, which changes with the version."""
    return f"urn:rdmadiag:schema:{document}:{SCHEMA_VERSION}"


def schema(document: str) -> dict[str, Any]:
    """The schema of a document of DOCUMENTS."""
    found = DOCUMENTS[document].model_json_schema(by_alias=False, mode="serialization")
    return {"$schema": DIALECT, "$id": identifier(document)} | found
