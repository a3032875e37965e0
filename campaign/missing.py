"""Evidence taken away: subsets of sources, and single values, for each reason that there is.

What is left must give what the whole gave, or unknown: see docs/rules.md. Hosts are the samples,
the recorded machines of the tests, and those that the tests of rules build.
"""

import importlib.util
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import combinations
from pathlib import Path
from types import ModuleType, UnionType
from typing import Any, Final, get_args, get_type_hints
from xml.etree.ElementTree import fromstring

from campaign.result import Held, Result
from lab.mac import Mac
from lab.machine import Machine
from rdmadiag import facts
from rdmadiag.facts import (
    Identity,
    Missing,
    Why,
    bonding,
    dcb,
    devlink,
    ethtool,
    kernel_log,
    libraries,
    limits,
    macos,
    modules,
    naming,
    packet_filter,
    pci,
    programs,
    routing,
    system,
    topology,
    traffic_control,
    verbs,
    vfs,
)
from rdmadiag.facts.evidence import Evidence
from rdmadiag.host.recorded import open_snapshot
from rdmadiag.preflight.judge import judge
from rdmadiag.preflight.verdict import Finding, Verdict
from rdmadiag.render import junit, prometheus
from rdmadiag.samples import folder as sample_folder
from rdmadiag.samples import samples
from rdmadiag.sources.run import gather, sources_of
from rdmadiag.view.unshown import FAILED

ROOT: Final = Path(__file__).parent.parent
HOST: Final = Identity("campaign", "linux", "6.1", recorded=True)
WHEN: Final = datetime(2026, 1, 1, tzinfo=UTC)
ORDER: Final = ("info", "warn", "unknown", "critical")
GRAVE: Final = ("warn", "critical")

VERDICT: Final = "a verdict with less evidence is what it was, or unknown"
GRAVER: Final = "no finding is graver, or new, with less evidence"
LOST: Final = "no finding is lost with less evidence but where its rule is skipped"
PROOF: Final = "a proof names only what was read"
JUNIT: Final = "JUnit skips what could not be checked, and passes none of it"
PROMETHEUS: Final = "Prometheus counts what could not be checked, and has no 0 for it"
COMPARING: Final = ("mtu-differs-in-subnet", "rate-below-siblings", "shared-subnet")
"""Rules on two ports whose findings stand at one of them."""

PROPERTIES: Final = (VERDICT, GRAVER, LOST, PROOF, JUNIT, PROMETHEUS)


# --- hosts ------------------------------------------------------------------------------------


_MODULES = tuple(f"test_{subject}rules" for subject in ("linux_", "netdev_", "speed_", "mac_", ""))


def hosts() -> Iterator[tuple[str, Callable[[], Evidence]]]:
    """All of them, by name; what is on one is read when it is called."""
    folders = {name: sample_folder(name) for name in samples()}
    folders |= {each.name: str(each) for each in sorted((ROOT / "tests/fixtures").iterdir())}
    for name, path in folders.items():
        yield name, partial(_recorded, path)
    for module in _MODULES:
        for number, subject in enumerate(_subjects(_loaded(module))):
            yield f"{module.removeprefix('test_')} {number}", partial(_made, subject)


def _recorded(path: str) -> Evidence:
    return gather(open_snapshot(path), time.monotonic() + 60)


def _made(subject: Machine | Mac | Evidence) -> Evidence:
    if isinstance(subject, Evidence):
        return subject
    return gather(subject.host(), time.monotonic() + 60)


def _loaded(name: str) -> ModuleType:
    path = ROOT / "tests/preflight/rules" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"campaign_{name}", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses of a module look it up
    spec.loader.exec_module(module)
    return module


def _subjects(module: ModuleType) -> Iterator[Machine | Mac | Evidence]:
    """The hosts among the parameters of a module's tests."""
    seen: list[Any] = []
    for test in vars(module).values():
        for mark in getattr(test, "pytestmark", ()):
            for row in mark.args[1] if mark.name == "parametrize" else ():
                held = getattr(row, "values", row)  # of a pytest.param
                for value in held if isinstance(held, tuple) else (row,):
                    if isinstance(value, Machine | Mac | Evidence) and value not in seen:
                        seen.append(value)
                        yield value


# --- what is taken away -------------------------------------------------------------------------


@dataclass(frozen=True)
class Removed:
    """What a report has no more, and for which reason."""

    names: tuple[str, ...]  # sources, or the path to one value
    why: Why

    def __str__(self) -> str:
        return f"without {', '.join(self.names)} ({self.why})"

    @property
    def is_failure(self) -> bool:
        """Whether it could have been read. The kernel's log is not for an ordinary user."""
        of_a_user = self.why is Why.DENIED and all(
            name.startswith(("kernel_log", "macos.panics")) or name.endswith(".redirects")
            for name in self.names
        )
        return self.why in FAILED and not of_a_user


def without(evidence: Evidence, names: Iterable[str], why: Why) -> Evidence:
    """The same without some sources."""
    return replace(evidence, **{name: Missing(why, f"{name}: taken away") for name in names})


def subsets(names: tuple[str, ...], most: int) -> Iterator[tuple[str, ...]]:
    """Of one name up to `most`."""
    for count in range(1, most + 1):
        yield from combinations(names, count)


Path_ = tuple[str | int, ...]


def values(found: Any, path: Path_ = ()) -> Iterator[Path_]:
    """The way to each value below `found` that may be a Missing and is none."""
    if is_dataclass(found) and not isinstance(found, type):
        hints = _hints(type(found))
        for field in fields(found):
            value = getattr(found, field.name)
            here = (*path, field.name)
            if (
                isinstance(hints[field.name], UnionType)
                and Missing in get_args(hints[field.name])
                and not isinstance(value, Missing)
            ):
                yield here
            yield from values(value, here)
    elif isinstance(found, tuple):
        for at, value in enumerate(found):
            yield from values(value, (*path, at))


_NAMES: Final = {
    name: value
    for module in (
        *(bonding, dcb, devlink, ethtool, facts, kernel_log),
        *(libraries, limits, macos, modules, naming, pci, programs, routing, system, topology),
        *(traffic_control, packet_filter, verbs, vfs),
    )
    for name, value in vars(module).items()
}
_KNOWN: Final[dict[type, dict[str, Any]]] = {}


def _hints(kind: type) -> dict[str, Any]:
    if kind not in _KNOWN:
        _KNOWN[kind] = get_type_hints(kind, localns=_NAMES)
    return _KNOWN[kind]


def taken(found: Any, path: Path_, missing: Missing) -> Any:
    """`found` with `missing` at `path`."""
    if not path:
        return missing
    first, *rest = path
    if isinstance(first, int):
        changed = taken(found[first], tuple(rest), missing)
        return (*found[:first], changed, *found[first + 1 :])
    return replace(found, **{first: taken(getattr(found, first), tuple(rest), missing)})


# --- what must hold -----------------------------------------------------------------------------


def broken(full: Verdict, part: Verdict, removed: Removed) -> Iterator[tuple[str, str]]:
    """Each property that `part`, of less evidence, breaks beside `full`, and how."""
    if removed.is_failure and part.status not in (full.status, "unknown"):
        yield VERDICT, f"{full.status} became {part.status}"
    for each in part.findings:
        if each.severity in GRAVE and not any(_explains(other, each) for other in full.findings):
            yield GRAVER, f"{_words(each)} was {_at(full, each) or 'not there'}"
        for proof in each.evidence:
            if proof.source in removed.names and not proof.value.startswith(removed.why):
                yield PROOF, f"{each.rule}: {proof.source} {proof.subject}: {proof.value}"
    for each in full.findings:
        if each.severity == "info" or _is_about_sources(each) or _is_skipped(part, each):
            continue
        if not {each.severity, "unknown"} & {*_at(part, each), *_at(part, each, None)}:
            yield LOST, f"{_words(each)} became {_at(part, each) or 'nothing'}"
    yield from _forms(part)


def _explains(other: Finding, each: Finding) -> bool:
    """Whether the full report has said at least as much of that place."""
    same_place = (other.device, other.port) == (each.device, each.port)
    anywhere = each.device is None or each.rule in COMPARING
    if other.rule == each.rule and (same_place or anywhere):
        return other.severity == each.severity
    covers = other.device is None or (
        other.device == each.device and other.port in (None, each.port)
    )
    return covers and ORDER.index(other.severity) >= ORDER.index(each.severity)


def _at(verdict: Verdict, finding: Finding, *of_host: None) -> list[str]:
    """The severities of the rule there, or on the host as a whole."""
    place = (None, None) if of_host else (finding.device, finding.port)
    same = (each for each in verdict.findings if each.rule == finding.rule)
    return [each.severity for each in same if (each.device, each.port) == place]


def _words(finding: Finding) -> str:
    place = "/".join(str(each) for each in (finding.device, finding.port) if each is not None)
    return " ".join(filter(None, (finding.rule, place, finding.severity)))


def _is_about_sources(finding: Finding) -> bool:
    """It says what could not be read, of which there is less now."""
    return finding.rule in ("source-failed", "source-incomplete", "source-not-collected")


def _is_skipped(verdict: Verdict, finding: Finding) -> bool:
    return any(
        each.rule == finding.rule
        and (
            finding.rule in COMPARING
            or None in (each.device, finding.device)
            or (each.device == finding.device and each.port in (None, finding.port))
            or (each.device == finding.device and finding.port is None)
        )
        for each in verdict.skipped
    )


def _forms(verdict: Verdict) -> Iterator[tuple[str, str]]:
    found = {finding.rule for finding in verdict.findings}
    silent = {each.rule for each in verdict.skipped} - found
    report = junit.text(verdict, HOST, frozenset({"warn", "critical"}), WHEN)
    root = fromstring(report)  # noqa: S314  # our own
    passed = {
        str(case.get("name")).partition(" ")[0]
        for case in root.iter("testcase")
        if case.find("skipped") is None and case.find("failure") is None
    }
    yield from ((JUNIT, f"{rule} passes") for rule in sorted(silent & passed))
    if int(root[0].get("skipped", "")) != len(root.findall(".//skipped")):
        yield JUNIT, "the number of skipped cases"
    rows = dict(
        line.rsplit(" ", 1)
        for line in prometheus.text(verdict, (), WHEN).splitlines()
        if not line.startswith("#")
    )
    for rule in sorted(silent):
        if any(f'check_status{{check="{rule}",' in name for name in rows):
            yield PROMETHEUS, f"{rule} has a status"
    for why in Why:
        count = len({each.rule for each in verdict.skipped if each.why is why})
        if float(rows[f'rdmadiag_checks_skipped{{why="{why}"}}']) != count:
            yield PROMETHEUS, f"checks_skipped of {why} is not {count}"


# --- the campaign ---------------------------------------------------------------------------------


def run(short: bool, seed: int, folder: Path, seconds: float) -> Result:
    """Each host, without each subset of its sources and each value, for each reason."""
    began = time.monotonic()
    chance = random.Random(seed)
    violations: dict[str, list[str]] = {each: [] for each in PROPERTIES}
    inputs = 0
    every = list(hosts())
    chance.shuffle(every)  # where the time ends first, it is not always the last ones that miss
    limit = began + seconds
    for name, read in every:
        if time.monotonic() > limit:
            break
        evidence = read()
        full = judge(evidence)
        for removed, part in _parts(evidence, chance, short=short):
            if time.monotonic() > limit:
                break
            inputs += 1
            for what, how in broken(full, judge(part), removed):
                violations[what].append(f"{name} {removed}: {how}")
    folder.joinpath("violations.txt").write_text(
        "".join(f"{what}: {each}\n" for what, found in violations.items() for each in found)
    )
    held = [Held(what, inputs, found) for what, found in violations.items()]
    return Result("missing", inputs, held, time.monotonic() - began)


def _parts(
    evidence: Evidence, chance: random.Random, *, short: bool
) -> Iterator[tuple[Removed, Evidence]]:
    own = sources_of("darwin" if evidence.is_mac else "linux")
    for names in subsets(own, 1 if short else len(own)):
        for why in (chance.choice(list(Why)),) if short and len(names) > 1 else Why:
            yield Removed(names, why), without(evidence, names, why)
    every = list(values(evidence))
    for path in chance.sample(every, min(len(every), 20 if short else len(every))):
        why = chance.choice(FAILED)
        removed = Removed((".".join(map(str, path)),), why)
        yield removed, taken(evidence, path, Missing(why, f"{removed.names[0]}: taken away"))
