"""Schemas as tests use them: with an independent validator, strictly, and beside each other."""

import copy
from collections.abc import Iterator
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator


def strictly(of: Any) -> Any:
    """The schema with every object closed: a field that it does not describe is then an error."""
    found = copy.deepcopy(of)
    _close(found)
    return found


def _close(node: Any) -> None:
    if isinstance(node, dict):
        if "properties" in node and "additionalProperties" not in node:
            node["additionalProperties"] = False
        for each in node.values():
            _close(each)
    elif isinstance(node, list):
        for each in node:
            _close(each)


@cache
def _validator(name: str) -> Draft202012Validator:
    from rdmadiag.render.schema import schema

    return Draft202012Validator(strictly(schema(name)))


def problems(name: str, document: Any) -> list[str]:
    """What is wrong with a document, or is not described."""
    return [f"{each.json_path}: {each.message}" for each in _validator(name).iter_errors(document)]


def dumped(name: str, line: str) -> str:
    """What the model of a document dumps, once it has read the printed one back."""
    from rdmadiag.render.documents import DOCUMENTS

    return DOCUMENTS[name].model_validate_json(line).model_dump_json()


def kind_of(document: Any) -> str | None:
    """The name of a document of ours, by what stands in it."""
    if "evidence" in document and "verdict" not in document:
        return "report"
    for name, key in (
        ("error", "error"),
        ("explain-ring", "ring"),
        ("node-answer", "ending"),
        ("preflight-since", "changed_since"),
        ("preflight", "evidence"),
        ("diff", "folded"),
        ("compat", "beside"),
        ("fleet-merge", "drift"),
        ("fleet-pairs", "matrix"),
        ("explain-job", "wavefront"),
        ("explain-log", "log"),
        ("fleet-history", "unknown"),
        ("counters", "sample"),
        ("gid-pairs", "pairs"),
        ("capabilities", "unanswered"),
        ("capability-pairs", "differences"),
        ("route", "route"),
        ("lossless", "stacks"),
        ("topology", "exports"),
        ("job", "because"),
        ("resources", "verdict"),
        ("gids", "unread"),
        ("devices", "functions_without_device"),
        ("expect", "expectations"),
        ("explain", "answers"),
        ("exercise", "cells"),
        ("pingpong", "teardown"),
        ("samples", "samples"),
        ("watch", "event"),
    ):
        if key in document:
            return name
    return None


def breaks(old: Any, new: Any, path: str = "$") -> Iterator[str]:
    """Where a reader of the old schema would fail with documents of the new one."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        if old != new:
            yield f"{path} changed"
        return
    for name in ("type", "$ref", "pattern"):
        if old.get(name) != new.get(name):
            yield f"{path}: {name} {old.get(name)} became {new.get(name)}"
    yield from _went(old, new, path)
    for group, below in (("properties", path), ("$defs", f"{path}.$defs")):
        for name, each in old.get(group, {}).items():
            if name in new.get(group, {}):
                yield from breaks(each, new[group][name], f"{below}.{name}")
            else:
                yield f"{below}.{name} went"
    if "items" in old:
        yield from breaks(old["items"], new.get("items"), f"{path}[]")


def _went(old: Any, new: Any, path: str) -> Iterator[str]:
    """Of lists: what is always there, words, choices."""
    for name in set(old.get("required", [])) - set(new.get("required", [])):
        yield f"{path}.{name} is no longer always there"
    if missing := set(old.get("enum", [])) - set(new.get("enum", [])):
        yield f"{path}: {sorted(missing)} went"
    if any(choice not in new.get("anyOf", []) for choice in old.get("anyOf", [])):
        yield f"{path}: a choice went"
