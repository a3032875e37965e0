"""rdmadiag schema."""

import sys

import click

from rdmadiag.cli.exits import Refused
from rdmadiag.cli.output import printing
from rdmadiag.cli.page import Page
from rdmadiag.nearest import instead


def _names(context: click.Context, option: click.Parameter, typed: str) -> list[str]:
    from rdmadiag.render.documents import DOCUMENTS

    return [name for name in DOCUMENTS if name.startswith(typed)]


@click.command(
    "schema",
    cls=Page,
    examples=(
        ("which documents there are", "rdmadiag schema"),
        ("the schema of one", "rdmadiag schema preflight > preflight.schema.json"),
        (
            "hold a document to it",
            "check-jsonschema --schemafile preflight.schema.json report.json",
        ),
    ),
)
@click.argument("document", required=False, metavar="[DOCUMENT]", shell_complete=_names)
def command(document: str | None) -> None:
    """The JSON Schema (2020-12) of a document that rdmadiag prints with --json.

    Without DOCUMENT: their names, and the $id of each. The schema's version is that of
    schema_version: a minor step adds fields, a major one takes them away or changes them.
    """
    from rdmadiag.render.documents import DOCUMENTS
    from rdmadiag.render.schema import identifier, schema

    if document is None:
        with printing():
            for name in DOCUMENTS:
                click.echo(f"{name:<{max(map(len, DOCUMENTS))}}  {identifier(name)}")
        return
    if document not in DOCUMENTS:
        raise Refused(f"no document {document!r}; {instead(document, DOCUMENTS)}")
    import json

    with printing():
        json.dump(schema(document), sys.stdout, indent=2)
        sys.stdout.write("\n")
