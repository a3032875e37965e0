"""python -m faults.diffs [FAULT…]: what `rdmadiag diff` says of hosts before and during each fault.

Before is the record of a healthy twin. Hosts are new for each fault, and their MACs are drawn: here
each end has one in all records, so that what differs is what the fault changed. Exits 1 where it
does not say what changes.toml has, or says that healthy twins differ.
"""

import json
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

import rdmadiag
from faults.score import RECORDS, snapshot
from faults.table import ENDS, HERE, Fault, faults
from rdmadiag.fleet.changed import Differences
from rdmadiag.fleet.record_diff import Judged, differences
from rdmadiag.render.judged_record import judged
from rdmadiag.report import Report

MACS: Final = {"left": bytes.fromhex("0242c0a81a11"), "right": bytes.fromhex("0242c0a82b22")}
SECONDS: Final = 60.0
_GUID: Final = re.compile(r'"node_guid":"([0-9a-f:]{19})"')


TWIN: Final = "healthy-rxe-rc_pingpong"
_TWIN_OF_SIW: Final = "healthy-siw-rping"
_BY_ITSELF: Final = re.compile(r"\bfe80::|^naming\.(?:servers|search): ")
"""Link-local addresses, and their routes, are there once the kernel has looked for duplicates;
/etc/resolv.conf is that of the machine, and in no record of the first five rounds."""


@dataclass(frozen=True)
class Told:
    """What diff says of one end."""

    changes: tuple[str, ...]  # "RULE" of a finding, "DEVICE/PORT FACT: BEFORE > AFTER"
    unknown: tuple[str, ...]  # what one record could not look at

    @property
    def code(self) -> int:
        """The exit code of diff."""
        return 1 if self.changes else 3 if self.unknown else 0


def main(argv: list[str]) -> int:
    """Prints a line a record."""
    wrong = 0
    for name in () if argv else twins():
        for end in ENDS:
            wrong += _print(name, end, told(twin_of(name), name, end), expected=())
    table = changes()
    for fault in faults():
        if argv and fault.name not in argv:
            continue
        for end in ENDS:
            found = told(twin(fault), fault.name, end)
            wrong += _print(fault.name, end, found, expected(fault, end, table))
    print(f"{wrong} wrong")
    return int(bool(wrong))


def _print(name: str, end: str, found: Told | None, expected: tuple[str, ...] | None) -> bool:
    if found is None:
        print(f"{name} {end}: no snapshot")
        return False
    lacks = missed(found, expected)
    word = {0: "the same", 1: "differs", 3: "not known"}[found.code]
    print(f"{'WRONG ' if lacks else ''}{name} {end}: {word}{lacks and f': {lacks}'}")
    for line in (*found.changes, *found.unknown) if lacks else ():
        print(f"    {line[:160]}")
    return bool(lacks)


def missed(found: Told, expected: tuple[str, ...] | None) -> str:
    """What is not said, or is and should not be; empty where all is well.

    None of `expected` asks for nothing; of no patterns, both are to be the same.
    """
    if expected is None:
        return ""
    if not expected:
        return "should be the same" if found.code else ""
    every = (*found.changes, *found.unknown)
    lacks = [each for each in expected if not any(re.search(each, line) for line in every)]
    return f"does not name {', '.join(lacks)}" if lacks else ""


def expected(
    fault: Fault, end: str, table: Mapping[str, Mapping[str, list[str]]]
) -> tuple[str, ...] | None:
    """Of one end: what changes.toml has. Of the end that a fault is not at nothing is asked."""
    row = table.get(fault.name)
    if row is None:
        return ()
    return tuple(row[end]) if end in row else None


def changes() -> dict[str, dict[str, list[str]]]:
    """changes.toml: fault → end → patterns."""
    found: dict[str, dict[str, list[str]]] = tomllib.loads((HERE / "changes.toml").read_text())
    return found


def twin(fault: Fault) -> str:
    """The record of the same devices, and if there is one of the same tool, without a fault."""
    named = (each for each in fault.twins if snapshot(each, "left").exists())
    return next(named, _TWIN_OF_SIW if fault.setting == "siw" else TWIN)


def twin_of(twin: str) -> str:
    """What a healthy record is held against."""
    return TWIN if twin.startswith("healthy-rxe") else _TWIN_OF_SIW


def twins() -> tuple[str, ...]:
    """All of them, by name."""
    return tuple(sorted(path.name.split(".")[0] for path in RECORDS.glob("healthy-*.left.tar.gz")))


def told(before: str, after: str, end: str) -> Told | None:
    """Of one end of two records; None where there is no snapshot of it during the second."""
    if not snapshot(after, end).exists():
        return None
    found = differences(record(before, end), record(after, end), same=True)
    return Told(tuple(_lines(found)), tuple(_unknown(found)))


def _lines(found: Differences) -> Iterator[str]:
    for each in found.changes:
        line = str(each.rule)
        if each.fact is not None:
            fact = re.sub(r"^adapter\[\d+\]\.(?:port\[\d+\]\.)?", "", each.fact)
            place = f"{each.device or ''}{'' if each.port is None else f'/{each.port}'} "
            line = f"{place.lstrip()}{fact}: {each.before} > {each.after}"
        if not _BY_ITSELF.search(line):
            yield line


def _unknown(found: Differences) -> Iterator[str]:
    for each in found.not_compared:
        if each.counts:
            yield f"not known: {each.rule or each.fact}"


# --- one record ---------------------------------------------------------------------------


@cache
def record(name: str, end: str) -> Judged:
    """The host as it was recorded, with the MACs of MACS."""
    text = rdmadiag.collect(snapshot(name, end), timeout=SECONDS).model_dump_json()
    forms = dict(_forms(text, end))
    if forms:
        pattern = re.compile("|".join(map(re.escape, sorted(forms, key=len, reverse=True))))
        text = pattern.sub(lambda found: forms[found[0]], text)
    report = Report.model_validate_json(text)
    return judged(report.host, report.evidence)


def _forms(text: str, end: str) -> Iterator[tuple[str, str]]:
    """How each MAC of both hosts stands in a report → how the one of MACS would."""
    other = next(each for each in ENDS if each != end)
    netdevs = json.loads(text)["evidence"]["netdev"].get("netdevs", ())
    macs_here = (each.get("mac") for each in netdevs)  # a neighbour's stands elsewhere
    own = {bytes.fromhex(each.replace(":", "")) for each in macs_here if isinstance(each, str)}
    macs = dict.fromkeys(_mac(each) for each in _GUID.findall(text))
    for at, mac in enumerate(macs):
        whose = (end if mac in own else other) if own else ENDS[at]
        yield from zip(_written(mac), _written(MACS[whose]), strict=True)


def _mac(guid: str) -> bytes:
    raw = bytes.fromhex(guid.replace(":", ""))
    return bytes((raw[0] ^ 2, *raw[1:3], *raw[5:]))


def _written(mac: bytes) -> tuple[str, ...]:
    """As a MAC, a GUID, the end of an IPv6 address, and a GID of iWARP."""
    raw = bytes((mac[0] ^ 2, *mac[1:3], 0xFF, 0xFE, *mac[3:]))
    groups = [int.from_bytes(raw[at : at + 2]) for at in range(0, 8, 2)]
    iwarp = [int.from_bytes(mac[at : at + 2]) for at in range(0, 6, 2)]
    return (
        mac.hex(":"),
        raw.hex(":", 2),
        "fe80::" + ":".join(f"{each:x}" for each in groups),
        ":".join(f"{each:x}" for each in iwarp) + "::",
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
