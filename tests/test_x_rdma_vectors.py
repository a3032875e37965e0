"""The two decisions of x/rdma as vectors: written from its page as a specification, then held to.

`python tests/test_x_rdma_vectors.py` writes tests/vectors/x_rdma.jsonl anew. The functions
named `spec_` are the specification (x/rdma v0.6.10, SelectRouteGID and
DerivePreflightSafety); they use nothing of rdmadiag.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

VECTORS = Path(__file__).parent / "vectors" / "x_rdma.jsonl"
ROUTES, SAFETIES = 1100, 1100
THUNDERBOLT, INFINIBAND, ETHERNET, UNSPECIFIED = 100, 1, 2, 0
ZERO = "00" * 16
MAPPED = "00" * 10 + "ffff"
SCAN = 8


def spec_route(rows: list[tuple[int, str]], preferred: int, link_layer: int) -> int | None:
    """An explicit index must match a non-zero candidate; automatic selection rejects
    Thunderbolt index 0, prefers IPv4-mapped, then accepts index 1; other link layers may fall
    back to the first non-zero candidate."""
    candidates = [(index, raw) for index, raw in rows if raw != ZERO]
    if preferred >= 0:
        return preferred if preferred in [index for index, _ in candidates] else None
    scanned = [each for each in candidates if each[0] < SCAN]
    if link_layer == THUNDERBOLT:
        scanned = [each for each in scanned if each[0] != 0]
    mapped = [index for index, raw in scanned if raw.startswith(MAPPED)]
    if mapped:
        return mapped[0]
    if 1 in [index for index, _ in scanned]:
        return 1
    if link_layer != THUNDERBOLT and scanned:
        return scanned[0][0]
    return None


def spec_safety(case: dict[str, Any]) -> tuple[bool, list[str]]:
    """The reasons of x/rdma in its order, as our codes; what it reports twice is once here."""
    reasons = []
    active = False
    for device in case["devices"]:
        if device["state"] == 4 and device["link_layer"] == THUNDERBOLT:
            active = True
            if device["route"] is None:
                reasons.append("no_route_gid")
            elif device["route"] == 0:
                reasons.append("route_gid_index_zero")
    if not active:
        reasons.append("no_active_thunderbolt_device")
    if case["peers"] == 0:
        reasons.append("no_peer_interface")
    if case["services"] == 0:
        reasons.append("no_xdomain_service")
    if not case["log"]:
        reasons.append("no_recent_log")
    failed = [line for line in case["log"] if "Failed INIT->RTR" in line.replace("\u2192", "->")]
    if failed:
        reasons.append("recent_rtr_failure")
    unique = sorted(set(reasons), key=reasons.index)
    return (True, ["read_only_preflight"]) if not unique else (False, unique)


# --- the cases ----------------------------------------------------------------------------


def some_gid(dice: random.Random) -> str:
    return dice.choice(
        [
            ZERO,
            ZERO,
            MAPPED + bytes(dice.randrange(256) for _ in range(4)).hex(),
            MAPPED + "a9fe" + bytes(dice.randrange(256) for _ in range(2)).hex(),
            "fe80" + "00" * 6 + bytes(dice.randrange(1, 256) for _ in range(8)).hex(),
            bytes(dice.randrange(256) for _ in range(16)).hex(),
            "00" * 9 + "01ffff" + "01020304",  # nearly mapped
            "00" * 15 + "01",
        ]
    )


def route_case(dice: random.Random) -> dict[str, Any]:
    indexes = sorted(dice.sample(range(12), dice.randrange(0, 9)))
    rows = [(index, some_gid(dice)) for index in indexes]
    preferred = dice.choice([-1, -1, -1, dice.randrange(12)])
    link_layer = dice.choice([THUNDERBOLT, THUNDERBOLT, UNSPECIFIED, ETHERNET, INFINIBAND])
    return {"rows": rows, "preferred": preferred, "link_layer": link_layer}


LINES = [
    "AppleThunderboltRDMA context allocation",
    "Failed INIT->RTR",
    "port 1: Failed INIT\u2192RTR, errno 22",
    "Failed RTR->RTS",
    "INIT->RTR done",
    "failed init->rtr",
    "Failed INIT -> RTR",
    "RDMA enabled, starting..",
]


def safety_case(dice: random.Random) -> dict[str, Any]:
    healthy = dice.random() < 0.4
    devices = [
        {
            "state": 4 if healthy else dice.choice([0, 1, 2, 3, 4, 4, 5]),
            "link_layer": THUNDERBOLT if healthy else dice.choice([0, 1, 2, 100, 100]),
            "route": dice.randrange(1, 8) if healthy else dice.choice([None, 0, 1, 2, 7]),
        }
        for _ in range(dice.randrange(1 if healthy else 0, 4))
    ]
    return {
        "devices": devices,
        "peers": dice.choice([1, 1, 2, 0]),
        "services": dice.choice([1, 1, 3, 0]),
        "log": [dice.choice(LINES if dice.random() < 0.5 else LINES[:1])]
        * dice.choice([0, 1, 1, 2]),
    }


def cases() -> Iterator[dict[str, Any]]:
    dice = random.Random(20260521)
    for _ in range(ROUTES):
        case = route_case(dice)
        case["index"] = spec_route(case["rows"], case["preferred"], case["link_layer"])
        yield {"route": case}
    for _ in range(SAFETIES):
        case = safety_case(dice)
        case["safe"], case["reasons"] = spec_safety(case)
        yield {"safety": case}


def written(every: Iterator[dict[str, Any]]) -> str:
    return "".join(json.dumps(case, separators=(",", ":")) + "\n" for case in every)


# --- the code against the vectors -----------------------------------------------------------


def vectors(kind: str) -> list[dict[str, Any]]:
    rows = (json.loads(line) for line in VECTORS.read_text().splitlines())
    return [row[kind] for row in rows if kind in row]


def test_the_vectors_are_those_of_the_specification() -> None:
    assert VECTORS.read_text() == written(cases())


def test_every_outcome_is_among_the_vectors() -> None:
    outcomes = {case["index"] is None for case in vectors("route")}
    reasons = {reason for case in vectors("safety") for reason in case["reasons"]}
    safe = [case for case in vectors("safety") if case["safe"]]
    assert outcomes == {True, False}
    assert len(reasons) == 8
    assert len(safe) > 100


def entries(case: dict[str, Any]) -> list[Any]:
    from rdmadiag.facts import GidEntry, Missing, Why
    from rdmadiag.facts.gid import Gid

    nothing = Missing(Why.NOT_COLLECTED)
    return [
        GidEntry(index, Gid(bytes.fromhex(raw)), nothing, nothing) for index, raw in case["rows"]
    ]


def index_of(found: Any) -> int | None:
    return getattr(found, "index", None)


@pytest.mark.parametrize("form", ["entries", "documents", "GIDInfo"])
def test_the_route_is_that_of_x_rdma_on_thunderbolt_and_unspecified_link_layers(form: str) -> None:
    from rdmadiag.facts.gid import Gid
    from rdmadiag.facts.ib import LinkLayer
    from rdmadiag.gid.route import select_route_gid, select_route_gid_info

    checked = 0
    for case in vectors("route"):
        layer = LinkLayer.from_number(case["link_layer"])
        assert layer is not None
        preferred = case["preferred"]
        if layer in (LinkLayer.ETHERNET, LinkLayer.INFINIBAND) and preferred < 0:
            continue  # RoCE and InfiniBand have a policy of their own
        if form == "entries":
            found = select_route_gid(entries(case), layer, preferred)
        elif form == "GIDInfo":
            rows = [
                {"Index": index, "Raw": raw, "IPv4Mapped": raw.startswith(MAPPED)}
                for index, raw in case["rows"]
            ]
            found = select_route_gid_info(rows, layer, preferred)
        else:
            rows = [
                {"index": index, "gid": str(Gid(bytes.fromhex(raw)))} for index, raw in case["rows"]
            ]
            found = select_route_gid_info(rows, layer, preferred)
        assert index_of(found) == case["index"], case
        checked += 1
    assert checked > 600


def test_the_stack_x_rdma_picks_as_specified_on_every_link_layer() -> None:
    from rdmadiag.facts.ib import LinkLayer
    from rdmadiag.gid.stacks import x_rdma

    for case in vectors("route"):
        layer = LinkLayer.from_number(case["link_layer"])
        assert layer is not None
        if case["preferred"] < 0:
            assert index_of(x_rdma.select(entries(case), layer)) == case["index"], case


def test_the_safety_decision_is_that_of_x_rdma() -> None:
    from rdmadiag.preflight.x_rdma import (
        LinkLayer,
        PortState,
        PreflightDevice,
        PreflightReport,
        derive_preflight_safety,
    )

    for case in vectors("safety"):
        devices = [
            PreflightDevice(
                "rdma_en1",
                PortState.from_number(each["state"]),  # type: ignore[arg-type]
                LinkLayer.from_number(each["link_layer"]),  # type: ignore[arg-type]
                each["route"],
            )
            for each in case["devices"]
        ]
        report = PreflightReport(devices, case["peers"], case["services"], case["log"])
        safe, reasons = derive_preflight_safety(report)
        assert (safe, [reason.value for reason in reasons]) == (case["safe"], case["reasons"]), case


if __name__ == "__main__":
    VECTORS.parent.mkdir(exist_ok=True)
    VECTORS.write_text(written(cases()))
