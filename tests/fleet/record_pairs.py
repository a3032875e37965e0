"""Two records of a host with one planted change, and what is to be said of it."""

import json
from collections.abc import Callable
from dataclasses import replace

from lab.machine import Machine
from rdmadiag.facts.evidence import Evidence
from rdmadiag.fleet.changed import Change, ChangeKind, Differences
from rdmadiag.fleet.fact_names import place_of
from rdmadiag.fleet.record_diff import Judged, differences
from rdmadiag.fleet.record_sides import Side
from rdmadiag.preflight.judge import judge
from rdmadiag.render.json import document

Planted = Callable[[Machine], Machine]


def judged(machine: Machine, evidence: Evidence | None = None) -> Judged:
    """As `diff` reads a record."""
    found = machine.evidence() if evidence is None else evidence
    verdict = judge(found)
    printed = document({"host": machine.identity(), "verdict": verdict, "evidence": found})
    return Judged(Side.of(json.loads(printed)), verdict)


def between(before: Machine, after: Machine, same: bool | None = None) -> Differences:
    return differences(judged(before), judged(after), same=same)


def said(found: Differences, kind: ChangeKind) -> set[str]:
    """What is said of one kind: codes of rules, and facts as text shows them."""
    return {_short(each) for each in found.of_kind(kind)}


def _short(change: Change) -> str:
    if change.fact is None:
        return str(change.rule)
    place = change.device or ""
    if change.port is not None:
        place += f"/{change.port}"
    name = place_of(change.fact)[2] if change.device else change.fact
    return f"{place} {name}: {_value(change.before)} > {_value(change.after)}".strip()


def _value(text: str | None) -> str:
    """Of an object that it is there."""
    return "{…}" if text and text.startswith("{") else str(text)


def other_host(machine: Machine) -> Machine:
    """A host like it, with names, GUIDs and addresses of its own."""
    devices = tuple(
        replace(
            each,
            node_guid=each.node_guid.replace("0c42", "0c43"),
            ports=tuple(
                replace(
                    port,
                    lid=port.lid + 40 if port.lid else 0,
                    gids={
                        at: replace(row, gid=_other_gid(row.gid)) for at, row in port.gids.items()
                    },
                )
                for port in each.ports
            ),
        )
        for each in machine.devices
    )
    netdevs = tuple(
        replace(
            each,
            mac=each.mac.replace("0c:42", "0c:43"),
            addresses=tuple(map(_other_address, each.addresses)),
        )
        for each in machine.netdevs
    )
    return machine.change(hostname=f"{machine.hostname}-2", devices=devices, netdevs=netdevs)


def _other_gid(text: str) -> str:
    return _other_address(text.replace("c42:a1", "c43:a1"))


def _other_address(text: str) -> str:
    return text.replace("e42:a1", "e43:a1").replace(".10", ".11")
