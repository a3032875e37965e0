"""Of every kind of document that a command prints, no name of a host is left."""

import json
from typing import Any

import pytest

from rdmadiag.redact.record import redact_document

KEY = bytes(range(32))


def said(document: dict[str, Any], spread: Any = None) -> tuple[dict[str, Any], str]:
    made = redact_document({"schema_version": "1.1", **document}, KEY, spread).document
    return made, json.dumps(made)


def by_hand(nodes: str) -> list[str]:
    """As fleet.nodes spreads the only set here."""
    return {"node[017,203]": ["node017", "node203"]}.get(nodes, nodes.split(","))


MERGE = {
    "groups": [
        {
            "reason": "link-not-up",
            "nodes": "node[017,203]",
            "summary": "node017: no cable; node203 at 10.1.2.3 too",
        }
    ],
    "unused": [{"gap": "absent", "node": "login1", "where": None, "detail": "login1: no answer"}],
    "classes": [{"name": "A", "nodes": "node[017,203]", "like": None}],
    "drift": [
        {
            "fact": "firmware",
            "hardware_class": "A",
            "odd": [{"value": "20.1", "nodes": "node203"}],
            "unread": "login1",
        }
    ],
    "compatibility": [{"stack": "nccl", "one": "node017", "other": "node203,login1", "why": "?"}],
    "rows": [{"node": "node017"}],
    "unjudged": "n9",
}
PAIRS = {
    "matrix": {
        "ends": ["node017:mlx5_0", "n9:mlx5_0"],
        "cells": [{"sender": "node017:mlx5_0", "receiver": "n9:mlx5_0", "gbps": 90.0}],
        "groups": ["leaf-b7", "leaf-b7"],
    },
    "odd": [{"kind": "path", "names": ["node017:mlx5_0"], "evidence": ["node017:mlx5_0 is slow"]}],
    "unreported": ["n9:mlx5_0 in round 2"],
    "left_out": [{"end": "n9", "round": 2, "why": "it went"}],
}
HISTORY = {"nodes": [{"node": "node017", "status": "ok"}], "unknown": ["n9"]}
LEFT = ("node017", "node203", "017", "203", "login1", "n9", "leaf-b7", "10.1.2.3")


@pytest.mark.parametrize("document", [MERGE, PAIRS, HISTORY], ids=["merge", "pairs", "history"])
def test_of_a_fleet_no_node_is_named(document: dict[str, Any]) -> None:
    _, text = said(document, by_hand)
    assert [name for name in LEFT if name in text] == []


def test_a_node_of_a_set_has_the_pseudonym_that_it_has_alone() -> None:
    made, _ = said(MERGE, by_hand)
    nodes = made["groups"][0]["nodes"].split(",")
    assert nodes[0] == made["rows"][0]["node"] == made["compatibility"][0]["one"]
    assert made["drift"][0]["odd"][0]["nodes"] == nodes[1]
    assert made["groups"][0]["summary"].startswith(f"{nodes[0]}: no cable; {nodes[1]} at ")


def test_a_device_of_a_node_stays() -> None:
    made, _ = said(PAIRS, by_hand)
    ends = made["matrix"]["ends"]
    assert [each.partition(":")[2] for each in ends] == ["mlx5_0", "mlx5_0"]
    assert made["unreported"] == [f"{ends[1]} in round 2"]
    assert made["odd"][0]["evidence"] == [f"{ends[0]} is slow"]


@pytest.mark.parametrize(
    "document",
    [
        {"failures": [{"speakers": ["rank 3", "node017"], "text": "node017: errno 110"}]},
        {"wavefront": {"hosts": ["node017", "node203"]}, "answer": "node203 fell silent"},
        {"node": "node017", "ending": "answered", "stderr": "node017: warning"},
        {"environment": {}, "master_addr": "10.1.2.3"},
        {"kind": "watch", "subject": "node017", "details": {"line": "node017 went"}},
        {"before": {"host": {"hostname": "node017"}}, "after": {"host": {"hostname": "node203"}}},
    ],
    ids=["a log", "a job's logs", "an answer", "a variable", "an event", "two hosts"],
)
def test_nor_is_a_host_in_the_others(document: dict[str, Any]) -> None:
    _, text = said(document)
    assert [name for name in LEFT if name in text] == []
    assert "rank 3" in text or "speakers" not in text


def test_of_a_hosts_file_no_name_and_no_address_is_left() -> None:
    naming = {
        "hostname": "node017",
        "hosts": [{"address": "10.1.2.3", "host_names": ["node203.site", "login1"]}],
        "services": ["files", "dns"],
        "servers": ["10.1.2.3"],
        "search": ["node203.site", "site"],
    }
    programs = {
        "listeners": [{"address": "0.0.0.0", "port": 18515, "waiting": 0}],
        "untaken": [{"local": "10.1.2.3", "remote": "10.1.2.3", "state": "established"}],
        "holders": [{"device": "mlx5_0", "pid": 7, "command": "n9solver", "state": "S"}],
    }
    made, text = said({"evidence": {"naming": naming, "programs": programs}})
    assert not [each for each in (*LEFT, "site", "n9solver") if each in text]
    assert made["evidence"]["naming"]["services"] == ["files", "dns"]
    assert made["evidence"]["programs"]["listeners"] == programs["listeners"]
