"""The rules: one file a family; `CATALOGUE` holds every rule by its code.

A family is imported only for hosts that it applies to: half of them are about Macs, GPUs or
lines of a log.
"""

from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from rdmadiag.facts import Missing
from rdmadiag.facts.evidence import MACOS_ONLY
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.rules.rule import Rule
from rdmadiag.preflight.verdict import Finding
from rdmadiag.view.reconcile import Protocol

if TYPE_CHECKING:
    CATALOGUE: dict[str, Rule]


def _always(case: Case) -> bool:
    return True


def _mac(case: Case) -> bool:
    evidence = case.evidence
    sources = (evidence.macos, evidence.ioreg, evidence.thunderbolt, evidence.mac_network)
    return (
        evidence.is_mac
        or any(source != MACOS_ONLY for source in (*sources, evidence.mac_log))
        or any(port.protocol is Protocol.THUNDERBOLT for _, port in case.ports)
    )


def _linux_devices(case: Case) -> bool:
    return bool(case.devices) and not case.evidence.is_mac


def _netdevs(case: Case) -> bool:
    return any(port.protocol in (Protocol.ROCE, Protocol.IWARP) for _, port in case.ports)


def _variables(case: Case) -> bool:
    process = case.evidence.process
    return not isinstance(process, Missing) and bool(process.environment)


def _stacks(case: Case) -> bool:
    return bool(case.stacks)


def _gpus(case: Case) -> bool:
    system = case.evidence.system
    return not isinstance(system, Missing) and bool(system.gpus.functions)


def _log(case: Case) -> bool:
    log = case.evidence.kernel_log
    return not isinstance(log, Missing) and bool(log.lines)


def _expected(case: Case) -> bool:
    return bool(case.expected)


_FAMILIES: Final[tuple[tuple[str, Callable[[Case], bool]], ...]] = (
    ("discovery", _always),
    ("mac_host", _mac),
    ("provider", _always),
    ("access", _always),
    ("mac_log", _mac),
    ("kernel_log", _log),
    ("ports", _always),
    ("thunderbolt_link", _mac),
    ("thunderbolt_address", _mac),
    ("thunderbolt_resources", _mac),
    ("gids", _always),
    ("stacks", _stacks),
    ("environment", _variables),
    ("netdevs", _netdevs),
    ("speed", _linux_devices),
    ("gpu", _gpus),
    ("kinds", _linux_devices),
    ("expected", _expected),
    ("witnesses", _always),
    ("sources", _always),
)
"""Each with the hosts that it applies to. Lowest cause first: of findings of one severity the
first is the answer."""

_OF_OTHER_COMMANDS: Final = (
    "rdmadiag.preflight.rules.counters",
    "rdmadiag.preflight.rules.resources",
)
"""Their rules are in `CATALOGUE`, and are given cases of other commands."""


def _rules(family: str) -> tuple[Rule, ...]:
    rules: tuple[Rule, ...] = import_module(f"{__name__}.{family}").RULES
    return rules


@cache
def _catalogue() -> dict[str, Rule]:
    found = {rule.code: rule for family, _ in _FAMILIES for rule in _rules(family)}
    for module in _OF_OTHER_COMMANDS:
        rules: tuple[Rule, ...] = import_module(module).RULES
        found |= {rule.code: rule for rule in rules}
    return found


def __getattr__(name: str) -> Any:
    if name == "CATALOGUE":
        return _catalogue()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def findings(case: Case) -> Iterator[Finding]:
    """What all rules that apply find."""
    for family, applies in _FAMILIES:
        if applies(case):
            for rule in _rules(family):
                yield from rule.check(case)


def codes(case: Case) -> Iterator[str]:
    """The codes of the rules that `findings` runs, expectations' only where there is one."""
    expected = {f"expected-{each.key.replace('_', '-')}" for each in case.expected}
    for family, applies in _FAMILIES:
        if applies(case):
            for rule in _rules(family):
                if family != "expected" or rule.code in expected:
                    yield rule.code
