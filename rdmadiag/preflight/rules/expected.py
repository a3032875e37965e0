"""What was expected of this host and is not so: one rule a key of an expectations file."""

from collections.abc import Iterable, Iterator
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.evidence import LINUX_ONLY
from rdmadiag.preflight.expectations.compare import Compared
from rdmadiag.preflight.expectations.keys import KEYS, Key, Relation
from rdmadiag.preflight.rules.rule import Case, Rule, Speaker, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.quoting import shell_word

_MEANING: Final = (
    '{meaning} Critical unless the table says `severity = "warn"`; unknown where it could not '
    "be looked at. Said where --expect, or an option such as --expect-devices, asked for it."
)


def _rule(key: Key) -> Rule:
    def check(speaker: Speaker, case: Case) -> Iterable[Finding]:
        for each in case.expected:
            if each.key == key.name and each.met is not True:
                yield _finding(speaker, each, key, case)

    place = {"device": "DEVICE", "port": "PORT", "netdev": "NETDEV", "want": "WANTED"}
    return rule(
        key.code,
        Severity.CRITICAL,
        f"Expected: {key.noun}",
        _MEANING.format(meaning=key.meaning),
        remedy=tuple(line.format(**place) for line in (key.look, key.repair) if line),
    )(check)


def _finding(speaker: Speaker, each: Compared, key: Key, case: Case) -> Finding:
    want = each.want.text
    where = _place(each)
    if isinstance(each.met, Missing):
        told = f"{where}{key.noun} {want} expected, could not be looked at: {_why(each.met)}"
    elif each.key == "count" and each.want.relation is Relation.AT_LEAST:
        told = f"no RDMA device {each.expected.pattern}, which is expected"
    elif key.name in _COUNTED:
        noun = key.noun.removesuffix("s") if want == "1" else key.noun
        told = f"{where}{want} {noun} expected, {each.actual.text} found"
    elif each.want.relation is Relation.ALL_OF:
        lacking = sorted(set(each.want.value) - set(each.actual.value))
        told = f"{where}{key.noun} {want} expected, not loaded: {' '.join(lacking)}"
    else:
        told = f"{where}{key.noun} {want} expected, is {each.actual.text}"
    return speaker.finding(
        told,
        device=each.device,
        port=each.port,
        severity=Severity.UNKNOWN if isinstance(each.met, Missing) else each.expected.severity,
        evidence=(each.actual.proof, _asked(each)),
        remedy=tuple(_remedy(each, key, case)),
        expected=want,
        actual=None if isinstance(each.met, Missing) else each.actual.text,
    )


def _why(missing: Missing) -> str:
    return missing.detail if missing.why is Why.NOT_COLLECTED and missing.detail else str(missing)


_COUNTED: Final = ("devices", "active_ports", "count", "ports")


def _place(each: Compared) -> str:
    if each.key == "count":
        return f"{each.expected.pattern}: "
    if each.device is None:
        return ""
    return f"{each.device}: " if each.port is None else f"{each.device}/{each.port}: "


def _asked(each: Compared) -> Proof:
    """Who expects it: the line of the file, and what stands there."""
    own = each.expected
    value = own.want.text if own.key == each.key else f"{own.want.text}, of an active port"
    subject = own.where if own.where.startswith("--") else f"{own.where} {own.key}"
    return Proof("expectations", subject, value)


def _remedy(each: Compared, key: Key, case: Case) -> Iterator[str]:
    netdev = next(
        (
            str(port.netdev)
            for device, port in case.ports
            if device.name == each.device and port.number == each.port
            if not isinstance(port.netdev, Missing)
        ),
        "NETDEV",
    )
    place = {
        "device": shell_word(each.device or "DEVICE"),
        "port": each.port or 1,
        "netdev": shell_word(netdev),
    }
    mac = case.evidence.sysfs == LINUX_ONLY
    look, repair = (key.mac_look, key.mac_repair) if mac else (key.look, key.repair)
    yield look.format(**place)
    if repair and not isinstance(each.met, Missing):
        yield repair.format(want=each.want.text, **place)
    yield f"# if it is meant to be so: {each.expected.where} expects otherwise"


RULES: Final[tuple[Rule, ...]] = tuple(map(_rule, KEYS.values()))
