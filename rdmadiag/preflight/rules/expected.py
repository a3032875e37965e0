"""What was expected of this host and is not so: one rule a key of an expectations file."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from rdmadiag.facts import Missing, Why
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.expectations.compare import Compared
from rdmadiag.preflight.expectations.keys import KEYS, Key, Relation
from rdmadiag.preflight.remedy import Verbatim
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.quoting import printable

_MEANING: Final = (
    '{meaning} Critical unless the table says `severity = "warn"`; unknown where it could not '
    "be looked at. Said where --expect, or an option such as --expect-devices, asked for it."
)


def _rule(key: Key) -> Rule:
    def check(this: Rule, case: Case) -> Iterable[Finding]:
        for each in case.expected:
            if each.key == key.name and each.met is not True:
                yield _finding(this, each, key, case)

    return rule(
        key.code,
        Severity.CRITICAL,
        f"Expected: {key.noun}",
        _MEANING.format(meaning=key.meaning),
        remedy=tuple(line for line in (key.look, key.repair) if line),
    )(check)


def _finding(this: Rule, each: Compared, key: Key, case: Case) -> Finding:
    want = each.want.text
    where = _place(each)
    if isinstance(each.met, Missing):
        text = f"{where}{key.noun} {want} expected, could not be looked at: {_why(each.met)}"
    elif each.key == "count" and each.want.relation is Relation.AT_LEAST:
        text = f"no RDMA device {each.expected.pattern}, which is expected"
    elif key.name in _COUNTED:
        noun = key.noun.removesuffix("s") if want == "1" else key.noun
        text = f"{where}{want} {noun} expected, {each.actual.text} found"
    elif each.want.relation is Relation.ALL_OF:
        lacking = sorted(set(each.want.value) - set(each.actual.value))
        text = f"{where}{key.noun} {want} expected, not loaded: {' '.join(lacking)}"
    else:
        text = f"{where}{key.noun} {want} expected, is {each.actual.text}"
    return this.finding(
        text,
        device=each.device,
        port=each.port,
        severity=Severity.UNKNOWN if isinstance(each.met, Missing) else each.expected.severity,
        evidence=(each.actual.proof, _origin(each)),
        lines=_lines(each, key, case),
        fill=_fill(each, case),
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


def _origin(each: Compared) -> Proof:
    """Who expects it: the line of the file, and what stands there."""
    own = each.expected
    value = own.want.text if own.key == each.key else f"{own.want.text}, of an active port"
    subject = own.where if own.is_option else f"{own.where} {own.key}"
    return Proof("expectations", subject, value)


_MEANT: Final = "# if it is meant to be so: {where} expects otherwise"


def _lines(each: Compared, key: Key, case: Case) -> Iterator[str]:
    mac = case.evidence.is_mac
    look, repair = (key.mac_look, key.mac_repair) if mac else (key.look, key.repair)
    yield look
    if repair and not isinstance(each.met, Missing):
        yield repair
    yield _MEANT


def _fill(each: Compared, case: Case) -> dict[str, Any]:
    netdevs = (
        port.netdev
        for device, port in case.ports
        if (device.name, port.number) == (each.device, each.port)
    )
    return {
        "device": each.device or "DEVICE",
        "port": each.port or 1,
        "netdev": next((name for name in netdevs if not isinstance(name, Missing)), "NETDEV"),
        "want": Verbatim(each.want.text),
        "where": Verbatim(printable(each.expected.where)),
    }


RULES: Final[tuple[Rule, ...]] = tuple(map(_rule, KEYS.values()))
