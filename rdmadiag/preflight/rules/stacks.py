"""What the stacks that were asked for (`--stack`) would do on this host's active ports."""

from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import Any, Final

from rdmadiag.facts import Missing, or_else
from rdmadiag.facts.gid import Family
from rdmadiag.facts.ib import GidType, LinkLayer
from rdmadiag.frozen import dataclass
from rdmadiag.gid.pick import Outcome, Pick
from rdmadiag.gid.registry import Chosen
from rdmadiag.gid.route import Route
from rdmadiag.gid.stack import Stack, Version
from rdmadiag.gid.variables import set_indexes
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.proofs import port_attribute, seen
from rdmadiag.preflight.remedy import Verbatim
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.reconcile import PortView, Protocol
from rdmadiag.view.stack_environment import NoDeviceName, NoVariable, setting
from rdmadiag.view.stack_picks import BY_GID, made_for, picks, variables

_NCCL_SCAN: Final = ("nccl", "rccl", "nvshmem", "deepep")
_MOONCAKE: Final = "mooncake"


@dataclass(frozen=True, slots=True)
class _Chosen:
    """What one stack picks on one port."""

    stack: Stack
    version: Version
    port: PortView
    pick: Pick

    @property
    def name(self) -> str:
        any_version = self.version.name == "any"
        return self.stack.title if any_version else f"{self.stack.title} {self.version.name}"


def _environment(case: Case) -> Mapping[str, str]:
    found = variables(case.evidence)
    return or_else(found, {})


def _ports(case: Case) -> Iterator[PortView]:
    for _, port in case.ports:
        if port.is_active and port.protocol in BY_GID and isinstance(port.route, Route):
            yield port


def _every(case: Case) -> Iterator[_Chosen]:
    """Each rule of each stack on each port."""
    found = variables(case.evidence)
    for port in _ports(case):
        chosen = made_for(case.stacks, port)
        for (stack, version), pick in zip(chosen, picks(port, chosen, found), strict=True):
            yield _Chosen(stack, version, port, pick)


def _newest(case: Case) -> Iterator[_Chosen]:
    """The newest range that was asked for; JACCL has rules of its own."""
    seen_on: set[tuple[str, str]] = set()
    for each in _every(case):
        key = (each.stack.name, each.port.name)
        if key not in seen_on and each.port.protocol is not Protocol.THUNDERBOLT:
            seen_on.add(key)
            # A row that the stack's own variable names is what env-gid-index judges.
            if each.pick.pinned_by is None or not _is_own_pin(each):
                yield each


def _is_own_pin(each: _Chosen) -> bool:
    return each.stack.pin is not None and each.pick.pinned_by == each.stack.pin.variable


def _proofs(each: _Chosen) -> tuple[Proof, ...]:
    """The row that it picks, and its type; of one that picks none, row 0."""
    index = 0 if each.pick.index is None else each.pick.index
    entry = next((row for row in each.port.entries if row.index == index), None)
    proofs = [port_attribute(each.port, f"gids/{index}", entry.gid if entry else "empty")]
    if entry and not isinstance(entry.type, Missing) and each.port.protocol is Protocol.ROCE:
        word = "RoCE v2" if entry.type is GidType.ROCE_V2 else "IB/RoCE v1"
        proofs.append(port_attribute(each.port, f"gid_attrs/types/{index}", word))
    return tuple(proofs)


_OF_PICKS: Final = (
    "ports",
    "port state",
    "GID table",
    "netdevs of GIDs",
    "environment, where it is recorded",
)
"""What has to be read for a stack's pick to be known."""

_SHOW: Final = "rdmadiag gids --stack {stack} --device {device}:{port}"


def _settings(each: _Chosen, case: Case) -> dict[str, Any]:
    """What makes this stack use the route GID of this port."""
    return {
        "stack": each.stack.name,
        "device": each.port.device,
        "port": each.port.number,
        "setting": tuple(map(Verbatim, _setting(each, case))),
    }


def _setting(each: _Chosen, case: Case) -> tuple[str, ...]:
    route = each.port.route
    chosen: Chosen = (each.stack, each.version)
    if not isinstance(route, Route):
        return ()
    try:
        return setting(chosen, (each.port,), _environment(case)).lines
    except NoDeviceName:
        return ()
    except NoVariable:
        return (f"# {each.stack.title}: {each.stack.option_with(route.index)}",)


def _found(this: Rule, case: Case, words: Callable[[_Chosen], str]) -> Iterator[Finding]:
    for each in _newest(case):
        if _code(each) == this.code:
            yield this.finding(
                words(each),
                device=each.port.device,
                port=each.port.number,
                evidence=_proofs(each),
                fill=_settings(each, case),
            )


def _code(each: _Chosen) -> str | None:
    """The one rule that a pick is a finding of; it has one at most."""
    pick = each.pick
    if pick.outcome is Outcome.DROPS_PORT:
        return "stack-drops-port"
    if each.stack.name == _MOONCAKE and pick.ended_at is not None:
        return "mooncake-stops-at-empty-row"
    if pick.outcome is Outcome.FAILS:
        return "stack-finds-no-gid"
    if each.stack.name in _NCCL_SCAN and pick.agrees is False and not _has_ipv4(each.port):
        return "stack-wants-ipv4"
    if pick.outcome in (Outcome.EMPTY, Outcome.OUTSIDE):
        return "stack-uses-empty-gid"
    if each.stack.name == _MOONCAKE and pick.agrees is False and _prefers_ipv6(each):
        return "mooncake-prefers-ipv6"
    return "stack-gid-unfit" if pick.problem else None


def _has_ipv4(port: PortView) -> bool:
    return any(entry.gid.is_ipv4_mapped for entry in port.entries)


def _prefers_ipv6(each: _Chosen) -> bool:
    entry = each.port.route_entry
    return (
        entry is not None
        and entry.gid.family is Family.IPV4
        and each.pick.entry is not None
        and not each.pick.entry.is_ipv4
    )


@rule(
    "stack-cannot-use-iwarp",
    Severity.CRITICAL,
    "A stack that iWARP does not serve",
    "iWARP queue pairs are connected by rdma_cm alone, and the stack connects its own by GID: it "
    "fails at RTR or RTS with EINVAL, or leaves the device out and uses TCP. A warning where the "
    "host has another port that serves it.",
    ("https://github.com/NVIDIA/nccl/issues/622",),
    remedy=(
        "rdmadiag pingpong --cm --allow-rtr --device {device}   # what does connect",
        "# stacks that connect by rdma_cm: librdmacm's, libfabric's verbs MSG",
        "rdmadiag gids --stack {stack}",
    ),
    needs=("ports", "port state"),
)
def stack_cannot_use_iwarp(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding a stack and device."""
    others = any(port.protocol in BY_GID and port.is_active for _, port in case.ports)
    named = {
        stack.name: stack
        for stack, _ in case.stacks
        if stack.supports(LinkLayer.ETHERNET) and not stack.by_rdma_cm
    }
    for device, port in case.ports:
        if port.protocol is not Protocol.IWARP or not port.is_active:
            continue
        node = device.sysfs.node_type if device.sysfs else "RNIC"
        path = f"/sys/class/infiniband/{device.name}/node_type"
        for stack in named.values():
            yield this.finding(
                f"{stack.title} cannot use {port.name}, which is iWARP",
                device=port.device,
                port=port.number,
                severity=Severity.WARN if others else None,
                evidence=[Proof("sysfs", path, seen(node))],
                fill={"stack": stack.name},
            )


@rule(
    "stack-gid-unfit",
    Severity.WARN,
    "A stack would use a GID that is not fit",
    "By its rule and with the variables of this process, the stack takes a row of another type, "
    "family or scope than the best one: RoCE v1, link-local, or of a netdev that is down or "
    "elsewhere. What counts is type, family and scope at both ends, not the number of the row.",
    ("https://github.com/NVIDIA/nccl/issues/426",),
    remedy=("{setting:export NCCL_IB_GID_INDEX=INDEX}", _SHOW),
    needs=_OF_PICKS,
)
def stack_gid_unfit(this: Rule, case: Case) -> Iterator[Finding]:
    """Picks of a row with a problem that no other rule here names."""
    yield from _found(
        this,
        case,
        lambda each: (
            f"{each.name} would use GID {each.pick.index} of {each.port.name}: {each.pick.problem}"
        ),
    )


@rule(
    "stack-uses-empty-gid",
    Severity.CRITICAL,
    "A stack would use an empty row",
    "By its rule the stack takes a row that is empty or that the table does not have: RTR fails. "
    "Many take row 0 without a look where they find nothing better.",
    ("https://github.com/NVIDIA/nccl/issues/1573",),
    remedy=("{setting:export NCCL_IB_GID_INDEX=INDEX}", _SHOW),
    needs=_OF_PICKS,
)
def stack_uses_empty_gid(this: Rule, case: Case) -> Iterator[Finding]:
    """Picks of an empty row, or of one that the table does not have."""
    yield from _found(
        this,
        case,
        lambda each: (
            f"{each.name} would use GID {each.pick.index} of {each.port.name}, "
            f"which is empty ({each.pick.why})"
        ),
    )


@rule(
    "stack-drops-port",
    Severity.CRITICAL,
    "A stack would leave the port out",
    "UCX looks at row 0, or at the row that UCX_IB_GID_INDEX names, before it chooses: where that "
    "is empty the port is left out, and another port or TCP is used without a word. psm3 leaves "
    "out a port without a RoCE v2 row that this network namespace has the address of.",
    ("https://github.com/openucx/ucx/issues/10939",),
    remedy=("{setting:export UCX_IB_GID_INDEX=INDEX}", _SHOW),
    needs=_OF_PICKS,
)
def stack_drops_port(this: Rule, case: Case) -> Iterator[Finding]:
    """Picks whose outcome is that the stack leaves the port out."""
    yield from _found(
        this,
        case,
        lambda each: f"{each.name} would leave {each.port.name} out: {each.pick.why}",
    )


@rule(
    "stack-wants-ipv4",
    Severity.CRITICAL,
    "No IPv4 GID for a stack that looks for one",
    "NCCL, RCCL, NVSHMEM and DeepEP look for IPv4 GIDs unless a variable is set, and where there "
    "is none they stay at row 0 without a word: link-local, RoCE v1 or empty.",
    ("https://github.com/uccl-project/uccl/issues/803",),
    remedy=("{setting:export NCCL_IB_ADDR_FAMILY=AF_INET6}", _SHOW),
    needs=_OF_PICKS,
)
def stack_wants_ipv4(this: Rule, case: Case) -> Iterator[Finding]:
    """Picks by NCCL's scan that are not the route, on ports without an IPv4 GID."""
    yield from _found(
        this,
        case,
        lambda each: (
            f"{each.name} would stay at GID {each.pick.index} of {each.port.name}: "
            "the port has no IPv4 GID"
        ),
    )


@rule(
    "stack-finds-no-gid",
    Severity.CRITICAL,
    "A stack would find no GID",
    "By its rule the stack ends with an error on this port: no row fits, or a variable makes no "
    "sense. ibv_rc_pingpong without -g is one on every RoCE port.",
    ("https://github.com/kvcache-ai/Mooncake/issues/1593",),
    remedy=("{setting:export MC_GID_INDEX=INDEX}", _SHOW),
    needs=_OF_PICKS,
)
def stack_finds_no_gid(this: Rule, case: Case) -> Iterator[Finding]:
    """Picks whose outcome is that the stack fails."""
    yield from _found(
        this,
        case,
        lambda each: f"{each.name} would fail on {each.port.name}: {each.pick.why}",
    )


@rule(
    "mooncake-prefers-ipv6",
    Severity.WARN,
    "Mooncake takes IPv6 before private IPv4",
    "Mooncake 0.3.12 and newer ranks IPv4 addresses of 10/8, 172.16/12 and 100.64/10 below "
    "routable IPv6 ones, and not those of 192.168/16: hosts of one cluster with different "
    "addresses, or other stacks beside it, then use another family.",
    ("https://github.com/kvcache-ai/Mooncake/issues/2729",),
    remedy=("{setting:export MC_GID_INDEX=INDEX}", _SHOW),
    needs=_OF_PICKS,
)
def mooncake_prefers_ipv6(this: Rule, case: Case) -> Iterator[Finding]:
    """Mooncake's picks of IPv6 on ports that route by IPv4."""
    yield from _found(
        this,
        case,
        lambda each: (
            f"{each.name} would use GID {each.pick.index} of {each.port.name} "
            f"({each.pick.entry and each.pick.entry.gid}) instead of its private IPv4 address"
        ),
    )


@rule(
    "mooncake-stops-at-empty-row",
    Severity.CRITICAL,
    "Mooncake 0.3.10 and 0.3.11 stop at the first empty row",
    "These two releases end their scan at the first empty row. In a container, and after an "
    "address was removed, low rows are often empty: the device fails, though GIDs stand behind.",
    ("https://github.com/kvcache-ai/Mooncake/issues/1592",),
    remedy=("{setting:export MC_GID_INDEX=INDEX}", _SHOW),
    needs=_OF_PICKS,
)
def mooncake_stops_at_empty_row(this: Rule, case: Case) -> Iterator[Finding]:
    """Mooncake's picks that an empty row kept from the rows behind it."""
    yield from _found(
        this,
        case,
        lambda each: f"{each.name} would fail on {each.port.name}: {each.pick.why}",
    )


@rule(
    "pin-for-one-stack",
    Severity.INFO,
    "A pin that other stacks do not read",
    "A variable names a GID index, and stacks that were asked for beside it do not read it: they "
    "choose by their own rules. A warning where they then use another GID. Mooncake reads "
    "NCCL_IB_GID_INDEX where MC_GID_INDEX is not set.",
    ("https://github.com/kvcache-ai/Mooncake/issues/1593",),
    remedy=("{setting:export UCX_IB_GID_INDEX=INDEX}", _SHOW),
    needs=_OF_PICKS,
)
def pin_for_one_stack(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding for each variable that is set, of the stacks with a variable of their own."""
    environment = _environment(case)
    every = [each for each in _every(case) if each.port.protocol is Protocol.ROCE]
    for row, index in set_indexes(environment):
        variable = row.name
        without = [
            each for each in every if each.stack.pin and variable not in each.stack.variables
        ]
        differ = [each for each in without if each.pick.index != index]
        names = dict.fromkeys(each.stack.title for each in (differ or without))
        if not names:
            continue
        first = (differ or without)[0]
        ending = f"; it would use GID {first.pick.index}" if differ and len(names) == 1 else ""
        yield this.finding(
            f"{variable}={environment[variable]} is not read by {', '.join(names)}{ending}",
            device=first.port.device if differ else None,
            port=first.port.number if differ else None,
            severity=Severity.WARN if differ else None,
            evidence=(
                Proof("process", f"environment: {variable}", seen(environment[variable])),
                *(_proofs(first) if differ else ()),
            ),
            fill=_settings(first, case),
        )


@rule(
    "stack-version-matters",
    Severity.INFO,
    "Versions of a stack choose differently",
    "The stack was asked for without a version, and on this port its versions do not choose the "
    "same: which one runs decides. Name it: --stack NAME@VERSION.",
    ("https://github.com/NVIDIA/nccl/issues/1131",),
    remedy=("rdmadiag gids --stack {stack:NAME}@VERSION",),
    needs=_OF_PICKS,
)
def stack_version_matters(this: Rule, case: Case) -> Iterator[Finding]:
    """Stacks whose versions differ in outcome or index on a port."""
    for key, group in groupby(_every(case), key=lambda each: (each.port.name, each.stack.name)):
        held = list(group)
        by_choice: dict[str, list[str]] = {}
        for each in held:
            by_choice.setdefault(_choice(each.pick), []).append(each.version.name)
        if len(by_choice) < 2:
            continue
        choices = "; ".join(f"{' '.join(names)}: {what}" for what, names in by_choice.items())
        first = held[0]
        yield this.finding(
            f"{first.stack.title} on {key[0]} depends on the version: {choices}",
            device=first.port.device,
            port=first.port.number,
            evidence=[Proof("stack", first.stack.title, each.pick.source) for each in held[:2]],
            fill={"stack": key[1]},
        )


def _choice(pick: Pick) -> str:
    if pick.outcome in (Outcome.ENTRY, Outcome.EMPTY, Outcome.OUTSIDE, Outcome.LID):
        return "by LID" if pick.index is None else f"GID {pick.index}"
    return pick.outcome.value.replace("_", " ")


@rule(
    "ucx-probe-assumed",
    Severity.INFO,
    "UCX tries each GID on the device",
    "UCX also makes an address handle towards a GID before it takes it. No table shows whether "
    "that succeeds: what is said of UCX here assumes it.",
    ("https://github.com/openucx/ucx/issues/10939",),
    remedy=("UCX_LOG_LEVEL=debug ucx_info -d 2>&1 | grep gid_index",),
    needs=_OF_PICKS,
)
def ucx_probe_assumed(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding a host, of the first pick of UCX that depends on the probe."""
    for each in _every(case):
        if each.stack.name == "ucx" and each.pick.assumed:
            yield this.finding(
                f"UCX is taken to use GID {each.pick.index} of {each.port.name}; it also tries "
                "an address handle, which was not tried here",
                evidence=_proofs(each),
            )
            return


RULES: Final[tuple[Rule, ...]] = (
    stack_cannot_use_iwarp,
    stack_drops_port,
    stack_uses_empty_gid,
    stack_wants_ipv4,
    stack_finds_no_gid,
    mooncake_stops_at_empty_row,
    mooncake_prefers_ipv6,
    stack_gid_unfit,
    pin_for_one_stack,
    stack_version_matters,
    ucx_probe_assumed,
)
