"""The table of facts, held against the schema of the document that its paths are of."""

from collections.abc import Iterator
from typing import Any

import pytest

from rdmadiag.fleet.fact_rows import FACTS, Kind, Of, is_named, kind_of, source_of
from rdmadiag.render.judged import PreflightDocument

SCHEMA = PreflightDocument.model_json_schema()


def fields(node: dict[str, Any], path: str, above: frozenset[str]) -> Iterator[str]:
    """Every path of a schema that a value can stand at, and those on the way to it."""
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        if name != "Missing" and name not in above:
            yield from fields(SCHEMA["$defs"][name], path, above | {name})
        return
    yield path
    for each in node.get("anyOf", ()):
        yield from fields(each, path, above)
    for name, each in node.get("properties", {}).items():
        yield from fields(each, f"{path}.{name}" if path else name, above)
    if isinstance(node.get("additionalProperties"), dict):
        yield from fields(node["additionalProperties"], path + "{}", above)
    for each in (node.get("items"), *node.get("prefixItems", ())):
        if isinstance(each, dict):
            yield from fields(each, path + "[]", above)


PATHS = frozenset(fields(SCHEMA, "", frozenset()))


def test_every_path_of_a_row_is_one_of_the_document() -> None:
    assert {path for fact in FACTS for path in fact.paths} - PATHS == set()


def test_every_value_of_the_document_has_a_row() -> None:
    inner = {path[:at] for path in PATHS for at in range(len(path)) if path[at] in ".[{"}
    assert len(PATHS - inner) > 400
    assert [path for path in sorted(PATHS - inner - {""}) if kind_of(path) is None] == []


def test_a_fact_has_one_name_and_a_path_one_kind() -> None:
    named = [(fact.of, fact.name) for fact in FACTS if fact.name]
    assert len(named) == len(set(named))
    kinds: dict[str, set[Kind]] = {}
    for fact in FACTS:
        for path in fact.paths:
            kinds.setdefault(path, set()).add(fact.kind)
    # The addresses of a netdev are its own; the networks that they are in are not.
    assert {path for path, found in kinds.items() if len(found) > 1} <= {
        "evidence.netdev.netdevs[].addresses",
        "evidence.mac_network.interfaces[].addresses",
    }


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("evidence.sysfs.devices[].firmware", Kind.EQUAL),
        ("host.kernel", Kind.EQUAL),
        ("host.machine", Kind.HARDWARE),
        ("evidence.sysfs.devices[].node_guid", Kind.IDENTITY),
        ("evidence.sysfs.devices[].ports[].gids.entries[].gid", Kind.IDENTITY),
        ("evidence.netdev.netdevs[].addresses[].address", Kind.IDENTITY),
        ("evidence.netdev.netdevs[].ifindex", Kind.NOISE),
        ("evidence.process.uid", Kind.MAY_DIFFER),
        ("evidence.process.environment{}", Kind.EQUAL),
        ("verdict.findings[].summary", Kind.MAY_DIFFER),
        ("generated_at", Kind.NOISE),
        ("nowhere.at.all", None),
    ],
)
def test_what_a_difference_means(path: str, kind: Kind | None) -> None:
    assert kind_of(path) is kind


def test_what_a_named_row_reads_is_told_by_its_name() -> None:
    assert is_named("evidence.sysfs.devices[].firmware")
    assert is_named("evidence.sysfs.devices[].ports[].gids.entries[].type")
    assert not is_named("evidence.sysfs.devices[].ports[].gids.entries[].gid")
    assert not is_named("evidence.netdev.netdevs[].addresses[].address")
    assert not is_named("nowhere.at.all")


def test_a_fact_is_of_the_source_that_it_is_looked_up_in_first() -> None:
    assert source_of(Of.ADAPTER, "firmware") == "sysfs"
    assert source_of(Of.HOST, "kernel") == "system"
    assert source_of(Of.PORT, "active_mtu") == "verbs"
    assert source_of(Of.HOST, "platform") is None
