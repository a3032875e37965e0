"""The causes of a failure, ranked by what a host's report shows of them.

A finding of the preflight confirms a cause, a row of the GID table confirms or contradicts
one, and a finding that explains the failing stage is a cause even where the number alone
would not have named it: errno 22 at RTR, on a host whose GID table is empty.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from rdmadiag.explain.log.account import Account, Failure, LikelyCause
from rdmadiag.facts import GidEntry, Missing
from rdmadiag.facts.gid import Scope
from rdmadiag.facts.ib import GidType
from rdmadiag.facts.pingpong import Stage
from rdmadiag.gid.netdev import NetDevState, netdev_state
from rdmadiag.preflight.verdict import Finding, Severity
from rdmadiag.view.reconcile import DeviceView, PortView

MOST_CAUSES: Final = 6

CONFIRMED_BY: Final[dict[str, frozenset[str]]] = {
    label: frozenset(codes.split())
    for label, codes in {
        "abi-mismatch": "driver-abi-mismatch",
        "acs-or-iommu": "acs-redirects iommu-translates",
        "container-without-device": "uverbs-node-missing",
        "device-absent": "env-names-absent-device",
        "device-renamed": "env-names-absent-device",
        "device-resetting": "device-unhealthy-in-log",
        "driver-wedged": "provider-wedged",
        "firmware-failed": "device-unhealthy-in-log",
        "firmware-silent": "provider-wedged device-unhealthy-in-log",
        "gdr-off": "gpu-memory-unreachable",
        "gid-does-not-route": "no-usable-gid route-netdev-down route-netdev-absent route-fallback "
        "gid-link-local-only gid-v1-only env-gid-index stack-gid-unfit stack-wants-ipv4 "
        "mooncake-prefers-ipv6",
        "gid-index-or-family": "env-gid-index",
        "gid-row-empty": "no-usable-gid stack-uses-empty-gid stack-finds-no-gid "
        "mooncake-stops-at-empty-row",
        "interface-down": "route-netdev-down",
        "ipv6-only": "gid-ipv6-only",
        "iwarp-needs-rdma-cm": "iwarp-device",
        "link-flaps": "link-flaps-in-log",
        "link-lost": "link-not-up link-was-lost link-flaps-in-log",
        "mac-slept": "sleep-enabled",
        "memlock": "memlock-too-low launcher-memlock-too-low",
        "mtu-above-port": "mtu-below-netdev",
        "mtu-mismatch": "mtu-differs-in-subnet mtu-below-netdev",
        "netdev-in-other-netns": "route-netdev-absent",
        "no-ipv4-gid": "no-ipv4-gid ipv4-gid-not-index-1",
        "no-path": "arp-flux",
        "no-rdma-device": "no-rdma-device no-thunderbolt-rdma-device",
        "no-subnet-manager": "no-subnet-manager",
        "no-usable-gid": "no-usable-gid",
        "pd-exhausted": "protection-domains-exhausted",
        "pkey-index": "env-pkey-index no-usable-pkey",
        "port-down": "link-not-up port-not-active no-subnet-manager thunderbolt-port-down",
        "port-in-bridge": "port-in-bridge",
        "provider-missing": "provider-library-missing device-not-in-verbs driver-abi-mismatch",
        "qp-exhausted": "queue-pairs-exhausted",
        "rdma-disabled": "rdma-disabled macos-too-old",
        "register-refused": "register-refused-in-log",
        "shared-subnet": "shared-subnet",
        "slot-power": "slot-power-in-log",
        "stale-queue-pairs": "queue-pairs-exhausted resources-without-owner",
        "thunderbolt-4": "thunderbolt-4",
        "too-many-contexts": "contexts-exhausted-in-log",
        "uverbs-node-missing": "uverbs-node-missing",
        "uverbs-node-not-openable": "uverbs-node-not-openable",
        "uverbs-node-stale": "uverbs-node-stale",
        "verbs-library-missing": "verbs-library-missing",
    }.items()
}
"""Label of a cause → rules whose findings show that it holds."""

_PATH: Final = frozenset({Stage.RTR, Stage.RTS, Stage.DATA, Stage.CONNECT})
_MAKING: Final = frozenset({Stage.REG_MR, Stage.CREATE_CQ, Stage.CREATE_QP})
EXPLAINS: Final[dict[str, tuple[frozenset[Stage], str]]] = {
    "no-usable-gid": (_PATH, "gid-row-empty"),
    "stack-uses-empty-gid": (_PATH, "gid-row-empty"),
    "stack-wants-ipv4": (_PATH, "gid-does-not-route"),
    "stack-gid-unfit": (_PATH, "gid-does-not-route"),
    "route-netdev-absent": (_PATH, "netdev-in-other-netns"),
    "route-netdev-down": (_PATH, "interface-down"),
    "link-not-up": (_PATH, "link-lost"),
    "port-not-active": (_PATH, "port-down"),
    "no-subnet-manager": (_PATH, "no-subnet-manager"),
    "gid-link-local-only": (_PATH, "gid-does-not-route"),
    "gid-v1-only": (_PATH, "gid-does-not-route"),
    "env-gid-index": (_PATH, "gid-does-not-route"),
    "arp-flux": (_PATH, "no-path"),
    "mtu-differs-in-subnet": (_PATH, "mtu-mismatch"),
    "link-flaps-in-log": (_PATH, "link-lost"),
    "no-usable-pkey": (frozenset({Stage.INIT}), "pkey-index"),
    "env-pkey-index": (frozenset({Stage.INIT}), "pkey-index"),
    "no-ipv4-gid": (_PATH, "no-ipv4-gid"),
    "ipv4-gid-not-index-1": (_PATH, "no-ipv4-gid"),
    "port-in-bridge": (_PATH, "port-in-bridge"),
    "shared-subnet": (_PATH, "shared-subnet"),
    "memlock-too-low": (_MAKING, "memlock"),
    "launcher-memlock-too-low": (_MAKING, "memlock"),
    "device-unhealthy-in-log": (frozenset(Stage), "firmware-failed"),
    "contexts-exhausted-in-log": (frozenset({Stage.OPEN}), "too-many-contexts"),
    "driver-abi-mismatch": (frozenset({Stage.OPEN}), "abi-mismatch"),
    "env-names-absent-device": (frozenset({Stage.OPEN}), "device-absent"),
    "uverbs-node-stale": (frozenset({Stage.OPEN}), "uverbs-node-stale"),
    "uverbs-node-missing": (frozenset({Stage.OPEN}), "uverbs-node-missing"),
    "uverbs-node-not-openable": (frozenset({Stage.OPEN}), "uverbs-node-not-openable"),
    "verbs-library-missing": (frozenset({Stage.OPEN}), "verbs-library-missing"),
    "provider-library-missing": (frozenset({Stage.OPEN}), "provider-missing"),
    "no-rdma-device": (frozenset({Stage.OPEN}), "no-rdma-device"),
    "rdma-disabled": (frozenset({Stage.OPEN}), "rdma-disabled"),
    "thunderbolt-4": (frozenset({Stage.OPEN, Stage.ALLOC_PD, Stage.REG_MR}), "thunderbolt-4"),
}
"""Rule → the stages that its findings explain, and the label of the cause."""


def ranked(
    account: Account, findings: Sequence[Finding], devices: Sequence[DeviceView], platform: str
) -> Account:
    """The account with each failure's causes in the order that the report gives them."""
    host = _Host(findings, devices, platform)
    return replace(
        account,
        failures=tuple(host.rank(each) for each in account.failures),
        consequences=tuple(host.rank(each) for each in account.consequences),
    )


class _Host:
    def __init__(
        self, findings: Sequence[Finding], devices: Sequence[DeviceView], platform: str
    ) -> None:
        self._findings = findings
        self._ports = [port for device in devices for port in device.ports]
        self._platform = platform
        self._names = {device.name: device.name for device in devices}
        for device in devices:  # the kernel's log names a device by its PCI function
            if not isinstance(device.pci, Missing):
                self._names[device.pci.address] = device.name

    def rank(self, failure: Failure) -> Failure:
        if failure.platform != self._platform:
            return failure
        findings = [each for each in self._findings if self._is_about(each, failure)]
        causes = {each.label: self._judged(each, failure, findings) for each in failure.causes}
        for each in (*self._of_row(failure), *_of_findings(failure, findings)):
            stated = causes.get(each.label)
            if stated is None or stated.standing != "confirmed":
                causes[each.label] = replace(each, text=stated.text if stated else each.text)
        order = ("confirmed", "possible", "contradicted")
        sorted_causes = sorted(causes.values(), key=lambda each: order.index(each.standing))
        chosen = tuple(sorted_causes[:MOST_CAUSES])
        confirmed = {code for each in chosen for code in CONFIRMED_BY.get(each.label, ())}
        remedy = [
            line
            for finding in findings
            if finding.rule in confirmed and chosen[0].standing == "confirmed"
            for line in finding.remedy
        ]
        steps = tuple(dict.fromkeys((*remedy[:3], *failure.next)))[: max(6, len(failure.next))]
        here = None if failure.device is None else failure.device in self._names
        return replace(failure, causes=chosen, next=steps, device_in_report=here)

    def _is_about(self, finding: Finding, failure: Failure) -> bool:
        if finding.device is None or failure.device is None:
            return True
        same_port = None in (finding.port, failure.port) or finding.port == failure.port
        return finding.device == self._device(failure) and same_port

    def _judged(
        self, cause: LikelyCause, failure: Failure, findings: Sequence[Finding]
    ) -> LikelyCause:
        codes = CONFIRMED_BY.get(cause.label, frozenset())
        proofs = tuple(_proof(each) for each in findings if each.rule in codes)
        if proofs:
            return replace(cause, standing="confirmed", evidence=proofs[:3])
        if cause.label in ("port-down", "link-lost") and failure.device:
            ports = [port for port in self._ports if port.device == self._device(failure)]
            if cause.label == "port-down" and ports and all(port.is_active for port in ports):
                text = f"the report shows {ports[0].name} ACTIVE"
                return replace(cause, standing="contradicted", evidence=(text,))
        return cause

    def _of_row(self, failure: Failure) -> Iterator[LikelyCause]:
        """What the row of the GID table shows that the line names."""
        port = self._port(failure)
        if port is None or failure.gid_index is None or isinstance(port.gids, Missing):
            return
        index = failure.gid_index
        row = f"{port.name} GID {index}"
        if index in port.gids.unreadable:
            return
        entry = next((each for each in port.gids.entries if each.index == index), None)
        if entry is None:
            what = "is empty" if index < port.gids.length else "is beyond the end of the table"
            yield _seen("gid-row-empty", f"the report: {row} {what}")
            return
        yield LikelyCause(
            "gid-row-empty",
            _TEXTS["gid-row-empty"],
            "contradicted",
            (f"the report: {row} is {entry.gid}",),
        )
        yield from _of_entry(port, entry, row)

    def _device(self, failure: Failure) -> str | None:
        return self._names.get(failure.device or "")

    def _port(self, failure: Failure) -> PortView | None:
        for port in self._ports:
            if port.device == self._device(failure) and failure.port in (None, port.number):
                return port
        return None


def _of_entry(port: PortView, entry: GidEntry, row: str) -> Iterator[LikelyCause]:
    state = netdev_state(entry, port.netdevs)
    if state is NetDevState.ABSENT:
        yield _seen("netdev-in-other-netns", f"the report: {row}: {entry.netdev} is not here")
    elif state is NetDevState.DOWN:
        yield _seen("interface-down", f"the report: {row}: {entry.netdev} is down")
    if entry.index in port.unassigned:
        yield _seen("gid-not-an-address", f"the report: {row} is {entry.gid}, and no address")
    if entry.gid.scope is Scope.LINK_LOCAL or entry.type is GidType.ROCE_V1:
        yield _seen("gid-does-not-route", f"the report: {row} is {entry.gid}, {entry.type}")


def _of_findings(failure: Failure, findings: Sequence[Finding]) -> Iterator[LikelyCause]:
    for finding in findings:
        stages, label = EXPLAINS.get(finding.rule, (frozenset(), ""))
        if failure.stage in stages and finding.severity in (Severity.CRITICAL, Severity.WARN):
            yield LikelyCause(label, _TEXTS[label], "confirmed", (_proof(finding),))


def _seen(label: str, evidence: str) -> LikelyCause:
    return LikelyCause(label, _TEXTS[label], "confirmed", (evidence,))


def _proof(finding: Finding) -> str:
    return f"the report: {finding.rule}: {finding.summary}"


_TEXTS: Final = {
    "gid-row-empty": "the row of the GID table at this index is empty",
    "gid-not-an-address": "the GID is a default link-local one that its interface lacks",
    "gid-does-not-route": "on RoCE, a GID that does not route: link-local, v1, or a wrong index",
    "netdev-in-other-netns": "the interface of the GID is not in this network namespace",
    "interface-down": "the interface of the GID is down, or has lost the address",
    "link-lost": "the link is down: cable, transceiver, switch port or peer",
    "port-down": "the port is not ACTIVE",
    "no-subnet-manager": "no subnet manager has configured the InfiniBand port",
    "no-path": "no path between the ends: several RDMA interfaces answer ARP for each other",
    "mtu-mismatch": "the two ends use different path MTUs",
    "pkey-index": "the port's partition key table has no such index",
    "firmware-failed": "the device's firmware failed",
    "too-many-contexts": "too many programs have the device open",
    "abi-mismatch": "libibverbs and the kernel have different verbs ABIs",
    "device-absent": "no usable device has the name that was asked for",
    "uverbs-node-stale": "the node there has the numbers of another device",
    "no-ipv4-gid": "the port has no IPv4 GID, or not at the index that is used",
    "port-in-bridge": "the port is a member of a bridge on this host",
    "shared-subnet": "several cables share a subnet",
    "memlock": "the limit on locked memory (ulimit -l) is too low",
    "uverbs-node-missing": "the device has no node in /dev/infiniband",
    "uverbs-node-not-openable": "this user may not open the device's node in /dev/infiniband",
    "verbs-library-missing": "libibverbs is not where the dynamic linker looks",
    "provider-missing": "no provider library for the device",
    "no-rdma-device": "this host, or this container, has no RDMA device",
    "rdma-disabled": "RDMA is switched off, or this macOS is older than 26.2",
    "thunderbolt-4": "the hardware is Thunderbolt 4, which has no RDMA",
}
"""Sentences of causes that a number alone would not have named."""
