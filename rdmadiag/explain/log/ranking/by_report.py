"""The causes of a failure, ranked by what a host's report shows of them.

A finding of the preflight confirms a cause, a row of the GID table confirms or contradicts
one, and a finding that explains the failing stage is a cause even where the number alone
would not have named it: errno 22 at RTR, on a host whose GID table is empty.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from rdmadiag.explain.causes import CAUSES, ROWS, stated
from rdmadiag.explain.causes.cause import Shown
from rdmadiag.explain.log.account import Account, Failure, LikelyCause, Standing
from rdmadiag.facts import GidEntry, Missing
from rdmadiag.facts.gid import Scope
from rdmadiag.facts.ib import GidType
from rdmadiag.gid.netdev import NetDevState, netdev_state
from rdmadiag.preflight.verdict import Finding, Severity
from rdmadiag.view.reconcile import DeviceView, PortView

MOST_WITH_REPORT: Final = 6
"""One more than a log has by itself (meaning.MOST_CAUSES): a report may add it."""
_PROOFS: Final = 3
_LIKELIEST: Final = 2
"""Causes by the log alone that come before those which a finding names."""
_ORDER: Final = (Standing.CONFIRMED, Standing.POSSIBLE, Standing.CONTRADICTED)

NAMED_BY: Final = {rule: row for row in ROWS for rule in row.named_by}
"""Rule → the cause that its findings name at the cause's stages."""


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
        of_findings = tuple(self._of_findings(failure, findings))
        for each in (*self._of_row(failure), *of_findings):
            known = causes.get(each.label)
            if known is None or known.standing != Standing.CONFIRMED:
                causes[each.label] = replace(each, text=known.text if known else each.text)
        # How alike logs are says little beside a finding that names the cause of the stage.
        sure = {each.label for each in (*failure.causes[:_LIKELIEST], *of_findings)}
        order = sorted(causes.values(), key=lambda each: (_rank(each), each.label not in sure))
        chosen = tuple(order[:MOST_WITH_REPORT])
        confirmed = {proof for each in chosen for proof in CAUSES[each.label].proofs}
        remedy = [
            line
            for finding in findings
            if finding.rule in confirmed and chosen[0].standing == Standing.CONFIRMED
            for line in finding.remedy
        ]
        steps = tuple(dict.fromkeys((*remedy[:3], *failure.next)))[: max(6, len(failure.next))]
        here = None if failure.device is None else failure.device in self._names
        # Readings of logs alone say nothing of what a report has confirmed, or put first.
        same = chosen[:1] == failure.causes[:1]
        return replace(
            failure,
            causes=chosen,
            next=steps,
            device_in_report=here,
            rests_on=failure.rests_on if same else None,
            probability=failure.probability if same else None,
            tells_apart=failure.tells_apart if same else None,
        )

    def _is_about(self, finding: Finding, failure: Failure) -> bool:
        if finding.device is None or failure.device is None:
            return True
        same_port = None in (finding.port, failure.port) or finding.port == failure.port
        return finding.device == self._device(failure) and same_port

    def _judged(
        self, cause: LikelyCause, failure: Failure, findings: Sequence[Finding]
    ) -> LikelyCause:
        row = CAUSES[cause.label]
        proofs = tuple(
            _proof(each)
            for each in findings
            # What a rule only notes is so on hosts that are well, too.
            if each.rule in row.proofs and each.severity is not Severity.INFO
        )
        if proofs:
            return replace(cause, standing=Standing.CONFIRMED, evidence=proofs[:_PROOFS])
        if Shown.PORT_ACTIVE in row.contradicted_by and failure.device:
            ports = [port for port in self._ports if port.device == self._device(failure)]
            if ports and all(port.is_active for port in ports):
                text = f"the report shows {ports[0].name} ACTIVE"
                return replace(cause, standing=Standing.CONTRADICTED, evidence=(text,))
        return cause

    def _of_row(self, failure: Failure) -> Iterator[LikelyCause]:
        """What the row of the GID table that the line names confirms and contradicts."""
        port = self._port(failure)
        if port is None or failure.gid_index is None or isinstance(port.gids, Missing):
            return
        for shown, text in _of_gid(port, failure.gid_index):
            for row in ROWS:
                for proofs, standing in (
                    (row.contradicted_by, Standing.CONTRADICTED),
                    (row.confirmed_by, Standing.CONFIRMED),
                ):
                    if shown in proofs:
                        yield _likely(row.label, standing, f"the report: {text}")

    def _of_findings(self, failure: Failure, findings: Sequence[Finding]) -> Iterator[LikelyCause]:
        for finding in findings:
            row = NAMED_BY.get(finding.rule)
            if row is None or failure.stage not in row.stages:
                continue
            if finding.severity in (Severity.CRITICAL, Severity.WARN):
                contexts = (finding.rule, self._platform)
                yield _likely(row.label, Standing.CONFIRMED, _proof(finding), *contexts)

    def _device(self, failure: Failure) -> str | None:
        return self._names.get(failure.device or "")

    def _port(self, failure: Failure) -> PortView | None:
        for port in self._ports:
            if port.device == self._device(failure) and failure.port in (None, port.number):
                return port
        return None


def _of_gid(port: PortView, index: int) -> Iterator[tuple[Shown, str]]:
    """What the report shows of one row, and the row in words."""
    assert not isinstance(port.gids, Missing)
    name = f"{port.name} GID {index}"
    if index in port.gids.unreadable:
        return
    entry = next((each for each in port.gids.entries if each.index == index), None)
    if entry is None:
        what = "is empty" if index < port.gids.length else "is beyond the end of the table"
        yield Shown.ROW_EMPTY, f"{name} {what}"
    else:
        yield from _of_entry(port, entry, name)


def _of_entry(port: PortView, entry: GidEntry, name: str) -> Iterator[tuple[Shown, str]]:
    yield Shown.ROW_FILLED, f"{name} is {entry.gid}"
    state = netdev_state(entry, port.netdevs)
    if state is NetDevState.ABSENT:
        yield Shown.NETDEV_ABSENT, f"{name}: {entry.netdev} is not here"
    elif state is NetDevState.DOWN:
        yield Shown.NETDEV_DOWN, f"{name}: {entry.netdev} is down"
    if entry.index in port.unassigned:
        yield Shown.GID_UNASSIGNED, f"{name} is {entry.gid}, and no address"
    if entry.gid.scope is Scope.LINK_LOCAL or entry.type is GidType.ROCE_V1:
        yield Shown.GID_NOT_ROUTED, f"{name} is {entry.gid}, {entry.type}"


def _likely(label: str, standing: Standing, evidence: str, *contexts: str) -> LikelyCause:
    return LikelyCause(label, stated(label, *contexts).text, standing, (evidence,))


def _rank(cause: LikelyCause) -> int:
    return _ORDER.index(Standing(cause.standing))


def _proof(finding: Finding) -> str:
    return f"the report: {finding.rule}: {finding.summary}"
