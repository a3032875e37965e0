"""The rules: one file a family; `CATALOGUE` holds every rule by its code.

A family is imported only for hosts that it applies to: half of them are about Macs, GPUs or
lines of a log.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rdmadiag.facts import Missing, Why, known
from rdmadiag.facts.evidence import LINUX_ONLY, MACOS_ONLY
from rdmadiag.facts.pci import Role
from rdmadiag.preflight.case import Case, Lack
from rdmadiag.preflight.needs import EVERY_PORT, NEEDS, NO_ANSWER
from rdmadiag.preflight.rules.rule import Rule
from rdmadiag.preflight.verdict import Finding, Severity, Skipped
from rdmadiag.view.ethernet import links_below
from rdmadiag.view.reconcile import Protocol
from rdmadiag.view.unshown import FAILED

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


def _unseen(case: Case) -> bool:
    """Whether there may be ports that nobody could look at."""
    return any(EVERY_PORT.lacks(case))


def _linux_devices(case: Case) -> bool:
    return not case.evidence.is_mac and (bool(case.devices) or _unseen(case))


def _netdevs(case: Case) -> bool:
    if any(port.protocol in (Protocol.ROCE, Protocol.IWARP) for _, port in case.ports):
        return True
    return not case.evidence.is_mac and _unseen(case)


# Of these, what could not be looked at applies: its rules are skipped, and are not left out.


def _variables(case: Case) -> bool:
    process = case.evidence.process
    found = process if isinstance(process, Missing) else process.environment
    return found != LINUX_ONLY and (isinstance(found, Missing) or bool(found))


def _stacks(case: Case) -> bool:
    return bool(case.stacks)


def _lacks(need: str, case: Case) -> Iterable[Lack]:
    return NEEDS[need].lacks(case)


def _classes(case: Case) -> bool:
    """Whether something chose a traffic class, or may have, or a stack was asked for."""
    if not any(port.protocol is Protocol.ROCE for _, port in case.ports):
        return False
    if case.stacks:
        return True
    recorded = all(
        each.missing.why is not Why.NOT_COLLECTED for each in _lacks("DCB settings", case)
    )
    if recorded and any(_lacks("environment, where it is recorded", case)):
        return True
    from rdmadiag.preflight.rules.lossless import chains

    return any(port.chains for port in chains(case))


def _traffic_control(case: Case) -> bool:
    """Whether a netdev has a filter or netem, or that could not be looked at."""
    routing = case.evidence.routing
    if isinstance(routing, Missing):
        return _answered(routing)
    found = routing.traffic_control
    if isinstance(found, Missing):
        return _answered(found)
    return bool(found.qdiscs)


def _neighbours(case: Case) -> bool:
    """Whether it is known how a netdev looks for neighbours, or that could not be looked at."""
    routing = case.evidence.routing
    return _answered(routing if isinstance(routing, Missing) else routing.soliciting)


def _hop_limits(case: Case) -> bool:
    """Of a record from before nothing of it is known."""
    netdev = case.evidence.netdev
    known = isinstance(netdev, Missing) or _answered(netdev.default_ttl)
    return known and _netdevs(case)


def _xdp(case: Case) -> bool:
    """Whether a netdev has said where its program is, or that could not be looked at."""
    netdev = case.evidence.netdev
    known = isinstance(netdev, Missing) or any(_answered(each.xdp) for each in netdev.netdevs)
    return known and _netdevs(case)


def _naming(case: Case) -> bool:
    """Of a record from before nothing of it is known."""
    naming = case.evidence.naming
    name = naming if isinstance(naming, Missing) else naming.hostname
    return _linux_devices(case) and _answered(name)


def _programs(case: Case) -> bool:
    programs = case.evidence.programs
    found = programs if isinstance(programs, Missing) else programs.holders
    return _linux_devices(case) and _answered(found)


def _packet_filter(case: Case) -> bool:
    """Whether nftables has a chain, or iptables-legacy a table, or that could not be looked at."""
    routing = case.evidence.routing
    if isinstance(routing, Missing):
        return routing != LINUX_ONLY
    found = routing.packet_filter
    if isinstance(found, Missing):
        return _answered(found)
    return bool(found.chains or known(found.legacy))


def _ethernet(case: Case) -> bool:
    """Whether a driver describes its link to ethtool, or could not be queried."""
    links = (
        link for device, port in case.ports for link in links_below(device, port, case.evidence)
    )
    return any(
        _answered(part)
        for link in links
        for part in ((link,) if isinstance(link, Missing) else (link.link, link.modes))
    )


def _modules(case: Case) -> bool:
    """Whether they were asked for, of a host that has netdevs below its ports."""
    return not isinstance(case.evidence.modules, Missing) or _answered(case.evidence.modules)


def _flow_control(case: Case) -> bool:
    """Whether a port has PFC, or it could not be looked at."""
    if not any(port.protocol is Protocol.ROCE for _, port in case.ports):
        return False
    from rdmadiag.preflight.rules.flow_control import with_pfc

    return any(_answered(port.pfc) for port in with_pfc(case))


def _devlink(case: Case) -> bool:
    """Whether a device has something in devlink, or it could not be queried."""
    facts = case.evidence.devlink
    if isinstance(facts, Missing):
        return _answered(facts)
    return any(_answered(part) for each in facts.devices for part in (each.reporters, each.info))


def _answered(found: object) -> bool:
    return not isinstance(found, Missing) or found.why in FAILED


def _crowded(case: Case) -> bool:
    """A fleet was named, or a table of neighbours was full once."""
    system = case.evidence.system
    limits = system if isinstance(system, Missing) else system.limits
    if case.fleet_size is not None or isinstance(limits, Missing):
        return case.fleet_size is not None
    tables = (limits.ipv4_neighbours, limits.ipv6_neighbours)
    return any(not isinstance(each.overflows, Missing) and each.overflows for each in tables)


def _gpus(case: Case) -> bool:
    system = case.evidence.system
    if isinstance(system, Missing):
        return system != LINUX_ONLY
    return bool(system.gpus.functions) or any(NEEDS["GPUs"].lacks(case))


def _on_pci(case: Case) -> bool:
    """Whether a device is on the bus, or it could not be looked at."""
    facts = case.evidence.pci
    if isinstance(facts, Missing):
        return facts != LINUX_ONLY and any(
            not isinstance(each.pci, Missing) for each in case.devices
        )
    return isinstance(facts.functions, Missing) or bool(facts.functions)


def _peers(case: Case) -> bool:
    """Whether a GPU and an adapter are on the bus."""
    facts = case.evidence.pci
    if isinstance(facts, Missing) or isinstance(facts.functions, Missing):
        return _on_pci(case) and _adapters(case)
    return any(each.role is Role.GPU for each in facts.functions)


def _adapters(case: Case) -> bool:
    """Whether there is something to choose between: a GPU, or several adapters."""
    facts = case.evidence.topology
    if isinstance(facts, Missing):
        return facts != LINUX_ONLY
    return len(case.devices) > 1 or bool(facts.gpus) or any(_lacks("PCI topology", case))


def _log(case: Case) -> bool:
    log = case.evidence.kernel_log
    found = log if isinstance(log, Missing) else log.lines
    return found != LINUX_ONLY and (isinstance(found, Missing) or bool(found))


def _expected(case: Case) -> bool:
    return bool(case.expected)


_FAMILIES: Final[tuple[tuple[str, Callable[[Case], bool]], ...]] = (
    ("discovery", _always),
    ("mac_host", _mac),
    ("process_limits", _linux_devices),
    ("provider", _always),
    ("access", _always),
    ("mac_log", _mac),
    ("kernel_log", _log),
    ("vfs", _linux_devices),  # its port stays down for it
    ("ports", _always),
    ("ethernet", _ethernet),
    ("optics", _modules),
    ("device_health", _devlink),
    ("thunderbolt_link", _mac),
    ("thunderbolt_address", _mac),
    ("thunderbolt_resources", _mac),
    ("gids", _always),
    ("stack_capabilities", _stacks),
    ("stacks", _stacks),
    ("environment", _variables),
    ("bootstrap", _variables),
    ("netdevs", _netdevs),
    ("neighbours", _neighbours),
    ("hop_limits", _hop_limits),
    ("traffic", _traffic_control),
    ("packet_filter", _packet_filter),
    ("xdp", _xdp),
    ("lossless", _classes),
    ("flow_control", _flow_control),
    ("connection_manager", _linux_devices),
    ("speed", _linux_devices),
    ("naming", _naming),
    ("programs", _programs),
    ("fleet_size", _crowded),
    ("pci", _on_pci),
    ("access_control", _peers),
    ("gpu", _gpus),
    ("bonds", _linux_devices),
    ("topology", _adapters),
    ("kinds", _linux_devices),
    ("expected", _expected),
    ("witnesses", _always),
    ("sources", _always),
)
"""Each with the hosts that it applies to. Lowest cause first: of findings of one severity the
first is the answer."""

_OF_OTHER_COMMANDS: Final = (
    "rdmadiag.preflight.rules.counters",
    "rdmadiag.preflight.rules.ends",
    "rdmadiag.preflight.rules.lossless_unknown",
    "rdmadiag.preflight.rules.peer_route",
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


class Checked(NamedTuple):
    """What all rules that apply came to."""

    findings: tuple[Finding, ...]
    skipped: tuple[Skipped, ...]
    codes: tuple[str, ...]  # of all of them; of expectations' only where there is one


def check(case: Case) -> Checked:
    """Runs every rule that applies, and skips those of which a need is not met, where it is not.

    A finding is dropped where it may rest on what could not be read.
    """
    met: dict[str, tuple[Lack, ...]] = {}
    found: list[Finding] = []
    skipped: list[Skipped] = []
    codes: list[str] = []
    unread: dict[Lack, None] = {}
    expected = {f"expected-{each.key.replace('_', '-')}" for each in case.expected}
    for family, applies in _FAMILIES:
        if not applies(case):
            continue
        for rule in _rules(family):
            if family == _LAST:
                case = replace(case, unread=tuple(_unsaid(unread, found, case)))
            if family == "expected" and rule.code not in expected:
                continue
            codes.append(rule.code)
            lacks: list[Lack] = []
            blind: list[Lack] = []
            for need in map(NEEDS.__getitem__, rule.needs):
                if need.name not in met:
                    met[need.name] = tuple(need.lacks(case))
                lacks += met[need.name]
                blind += () if need.in_part else met[need.name]
                unread |= dict.fromkeys(
                    each for each in met[need.name] if need.failed(each.missing)
                )
            skipped += dict.fromkeys(_skipped(rule, each, case) for each in lacks)
            if not any(each.device is None for each in blind):
                found += (
                    each
                    for each in rule.check(case)
                    if not any(lack.concerns(each.device, each.port) for lack in blind)
                )
    return Checked(tuple(found), tuple(skipped), tuple(codes))


def _skipped(rule: Rule, lack: Lack, case: Case) -> Skipped:
    missing = lack.missing
    silent = [name for name, value in case.evidence.missing.items() if value == missing]
    own = NEEDS[lack.need].source
    source = own if own in silent else next(iter(silent), None)
    return Skipped(
        rule.code, lack.device, lack.port, lack.need, source, missing.why, missing.detail
    )


_LAST: Final = "sources"


def _unsaid(unread: Iterable[Lack], found: Sequence[Finding], case: Case) -> Iterator[Lack]:
    """Of what could not be read, what no finding has said."""
    failed = {
        case.evidence.missing.get(proof.source)
        for each in found
        if each.rule == "source-failed" and each.severity is Severity.UNKNOWN
        for proof in each.evidence
    }
    graver = [each for each in found if each.severity in (Severity.UNKNOWN, Severity.CRITICAL)]
    for lack in unread:
        if lack.missing in failed:
            continue
        rules = NEEDS[lack.need].said_by
        said = [each for each in graver if each.rule in rules]
        if not any(
            each.rule in NO_ANSWER or lack.concerns(each.device, each.port) for each in said
        ):
            yield lack
