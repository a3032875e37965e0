"""Limits of this host against the size of the fleet that it is to work in."""

from collections.abc import Iterator
from typing import Final

from rdmadiag.facts import Limit, Missing, NetDev, known, present
from rdmadiag.facts.limits import HostLimits, NeighbourTable
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.proofs import seen
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.reconcile import Protocol

_OWN_FILES: Final = 64
"""Files of a process beside its connections: libraries, device nodes, event channels, pipes."""
_OWN_OBJECTS: Final = 3
"""Objects of a process beside its queue pairs: a protection domain, a CQ, a memory region."""
_GC_SHARE: Final = 2
"""gc_thresh2, above which entries go after 5 s, is half of gc_thresh3 by the kernel's default."""
_TABLES: Final = {4: "ipv4", 6: "ipv6"}
_STATISTICS: Final = {4: "arp_cache", 6: "ndisc_cache"}


@rule(
    "neighbour-table-overflowed",
    Severity.WARN,
    "The neighbour table was full",
    "The kernel's table of neighbours (ARP, or IPv6's) has been full since the host was booted: "
    'a new peer was not reachable then, by rdma_cm, RoCE or TCP, and the kernel logged "neighbour '
    'table overflow". One table serves all network namespaces of the host. When it was is not '
    "known.",
    ("https://github.com/torvalds/linux/blob/v6.1/net/core/neighbour.c",),
    remedy=(
        "cat /proc/net/stat/{statistics:arp_cache}   # table_fulls: does it rise?",
        "sudo sysctl -w net.{version:ipv4}.neigh.default.gc_thresh3={most:NUMBER}",
        "sudo sysctl -w net.{version:ipv4}.neigh.default.gc_thresh2={soft:NUMBER}",
    ),
    needs=("every device",),
)
def neighbour_table_overflowed(this: Rule, case: Case) -> Iterator[Finding]:
    limits = case.limits
    for number, table in _tables(limits) if limits and case.devices else ():
        overflows = known(table.overflows)
        if overflows:
            yield this.finding(
                f"the {_TABLES[number]} neighbour table was full {overflows} times since boot "
                f"(gc_thresh3 {seen(table.most)})",
                evidence=list(_table_proofs(number, table)),
                fill=_raised(number, 4 * (known(table.most) or 1024)),
            )


@rule(
    "too-small-for-this-fleet",
    Severity.WARN,
    "A limit of this host is too small for the fleet",
    "With --fleet-size N this host's limits are held against N hosts, at the least that a program "
    "needs which connects to each of them once by each RDMA device. Neighbour table: one entry a "
    "host and RoCE netdev, as far as the netdev's own subnet has room for them. Ports: rdma_cm and "
    "TCP take one of ip_local_port_range for a connection that asks for none. Open files: one a "
    "connection, for the soft limit; a program may raise it to the hard one, as NCCL does, and "
    "then it is a note. rdma cgroup: a queue pair a host, and what goes with them. Programs with "
    "several processes a host need a multiple.",
    (
        "https://github.com/torvalds/linux/blob/v6.1/Documentation/networking/ip-sysctl.rst",
        "https://docs.kernel.org/admin-guide/cgroup-v2.html",
        "https://github.com/AMD-AGI/Primus/pull/712",
    ),
    remedy={
        "neighbours": (
            "sudo sysctl -w net.{version:ipv4}.neigh.default.gc_thresh3={most:NUMBER}",
            "sudo sysctl -w net.{version:ipv4}.neigh.default.gc_thresh2={soft:NUMBER}",
            "# to keep it: /etc/sysctl.d, on every host; in a container: on its host",
        ),
        "ports": ("sudo sysctl -w net.ipv4.ip_local_port_range='1024 65535'",),
        "files": (
            "ulimit -n {files:NUMBER}",
            "# for all jobs: LimitNOFILE= of the unit that starts them, /etc/security/limits.d",
        ),
        "cgroup": (
            "echo {device} hca_handle=max hca_object=max | sudo tee {file:rdma.max}",
            "# or in what made the cgroup: the container runtime, the job scheduler",
        ),
    },
    needs=("devices", "ports", "netdev", "limits of this host"),
)
def too_small_for_this_fleet(this: Rule, case: Case) -> Iterator[Finding]:
    limits, size = case.limits, case.fleet_size
    if limits is None or not size or size < 2 or not case.devices:
        return
    others = size - 1
    yield from _neighbours(this, case, limits, others)
    yield from _ports(this, case, limits, others)
    yield from _files(this, case, limits, others)
    yield from _cgroups(this, case, limits, others)


def _neighbours(this: Rule, case: Case, limits: HostLimits, others: int) -> Iterator[Finding]:
    for number, table in _tables(limits):
        netdevs = _netdevs(case)
        wanted = sum(neighbours_of(netdev, number, others) for netdev in netdevs)
        most = known(table.most)
        if most is not None and most < wanted:
            yield this.finding(
                f"{_TABLES[number]}: {wanted} neighbours of {others + 1} hosts, and the table has "
                f"room for {most}",
                evidence=list(_table_proofs(number, table)),
                when="neighbours",
                fill=_raised(number, wanted),
            )


def neighbours_of(netdev: NetDev, version: int, others: int) -> int:
    """The hosts of `others` that may be neighbours there: at most what its largest subnet holds.

    A link-local address reaches whoever is on the link: it alone does not make a peer.
    """
    bits = 32 if version == 4 else 128
    rooms = [
        _room(bits - each.prefix_length, version)
        for each in netdev.addresses
        if (":" in each.address) == (version == 6) and each.scope == "global"
    ]
    return min(others, max(rooms, default=0))


def _room(host_bits: int, version: int) -> int:
    """Other hosts of a subnet; IPv4 keeps its first and last address, but of two (RFC 3021)."""
    if host_bits < 1:
        return 0
    return (1 << host_bits) - (3 if version == 4 and host_bits > 1 else 1)


def _ports(this: Rule, case: Case, limits: HostLimits, others: int) -> Iterator[Finding]:
    ports = known(limits.local_ports)
    wanted = others * len(case.devices)
    if ports and (there := ports[1] - ports[0] + 1) < wanted:
        yield this.finding(
            f"{wanted} connections to {others + 1} hosts, and {there} local ports",
            evidence=[
                Proof(
                    "system",
                    "/proc/sys/net/ipv4/ip_local_port_range",
                    f"{ports[0]} {ports[1]}",
                )
            ],
            when="ports",
        )


def _files(this: Rule, case: Case, limits: HostLimits, others: int) -> Iterator[Finding]:
    files = known(limits.open_files)
    wanted = others * len(case.devices) + _OWN_FILES
    if files is None or _reaches(files.soft, wanted):
        return
    yield this.finding(
        f"{wanted} open files for connections to {others + 1} hosts, and the limit is "
        f"{files.soft} (hard: {files.hard})",
        evidence=[Proof("system", "limits: Max open files", _limit_text(files))],
        when="files",
        severity=Severity.INFO if _reaches(files.hard, wanted) else None,
        fill={"files": 2 ** (wanted - 1).bit_length()},
    )


def _reaches(limit: int | str, wanted: int) -> bool:
    return isinstance(limit, str) or limit >= wanted


def _limit_text(limit: Limit) -> str:
    return f"{limit.soft} {limit.hard}"


def _cgroups(this: Rule, case: Case, limits: HostLimits, others: int) -> Iterator[Finding]:
    names = {device.name for device in case.devices}
    wanted = others + _OWN_OBJECTS
    for row in present(limits.rdma_cgroups):
        if row.device not in names or row.most_objects is None or row.most_objects >= wanted:
            continue
        yield this.finding(
            f"{wanted} objects on {row.device} for {others + 1} hosts, and the rdma cgroup "
            f"allows {row.most_objects}",
            device=row.device,
            evidence=[
                Proof("system", f"{row.folder}/rdma.max", f"hca_object={row.most_objects}"),
                Proof("system", f"{row.folder}/rdma.current", f"hca_object={seen(row.objects)}"),
            ],
            when="cgroup",
            fill={"file": f"{row.folder}/rdma.max"},
        )


# --- what they look at ------------------------------------------------------------------------


def _tables(limits: HostLimits) -> tuple[tuple[int, NeighbourTable], ...]:
    return ((4, limits.ipv4_neighbours), (6, limits.ipv6_neighbours))


def _netdevs(case: Case) -> tuple[NetDev, ...]:
    """Those of RoCE and iWARP ports, each once."""
    facts = case.evidence.netdev
    if isinstance(facts, Missing):
        return ()
    wanted = (Protocol.ROCE, Protocol.IWARP)
    names = {
        name
        for _, port in case.ports
        if port.protocol in wanted
        for name in (port.netdevs_here or {str(port.netdev)})
    }
    return tuple(each for each in facts.netdevs if each.name in names)


def _table_proofs(number: int, table: NeighbourTable) -> Iterator[Proof]:
    path = f"/proc/sys/net/{_TABLES[number]}/neigh/default/gc_thresh3"
    yield Proof("system", path, seen(table.most))
    statistics = f"/proc/net/stat/{_STATISTICS[number]}"
    text = f"{seen(table.entries)} entries, table_fulls {seen(table.overflows)}"
    yield Proof("system", statistics, text)


def _raised(number: int, wanted: int) -> dict[str, object]:
    """Room for twice as many: gc_thresh2, which entries stay below for long, is what counts."""
    most = 2 ** (_GC_SHARE * wanted - 1).bit_length()
    return {
        "version": _TABLES[number],
        "statistics": _STATISTICS[number],
        "most": most,
        "soft": most // _GC_SHARE,
    }


RULES: Final[tuple[Rule, ...]] = (neighbour_table_overflowed, too_small_for_this_fleet)
