"""Limits that no program of this cgroup or user gets past: the rdma cgroup's and other ones of
cgroups, open files, memory, processor time, local ports, connections that are followed.
"""

from collections.abc import Iterator
from typing import Final

from rdmadiag.facts import Limit, Missing, known, present
from rdmadiag.facts.limits import CgroupRdma, CgroupRoom
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity

_LEAST_OBJECTS: Final = 4
"""Of a program with one connection: a protection domain, a CQ, a memory region, a queue pair."""
_WORDS: Final = {"hca_handle": "contexts", "hca_object": "objects"}
_NEAR: Final = 0.9
"""Of a limit: as limit_share of `rdmadiag resources`."""
_LEAST_SPACE: Final = 2 << 30
"""Bytes of address space: libraries, threads' stacks and arenas, mapped queues and buffers."""
_LEAST_DATA: Final = 512 << 20
"""Bytes of data: what is written to and not shared, heaps and stacks and most buffers."""
_LEAST_COMMIT: Final = 512 << 20
"""Bytes that may still be asked for."""
_LEAST_PROCESSES: Final = 16
"""Of a program, its shell and its threads: UCX, NCCL and Open MPI start several of each."""
_LEAST_CPUS: Final = 0.5
"""Of a program that polls for completions."""
_LEAST_MEMORY: Final = 128 << 20
"""Bytes of a cgroup: a program, its libraries, queues and registered buffers."""
_LEAST_PORTS: Final = 64
"""Local ports that are free to connect from: of a host that has anything else to do."""
_LEAST_FILES: Final = 64
"""Of a program with a few connections: its libraries, device nodes, event channels, sockets."""


@rule(
    "rdma-cgroup-limit",
    Severity.CRITICAL,
    "The rdma cgroup has no room for another program",
    "A limit of this process's cgroup, or of one above it, allows a device no context "
    "(hca_handle), or fewer objects than one connection has (hca_object: a protection domain, a "
    "CQ, a memory region, a queue pair). ibv_open_device, ibv_create_cq and the like fail with "
    "EAGAIN there. A warning where a limit is large enough and what is in use leaves no more room, "
    "or has reached nine tenths of it: what runs there goes on, and the next program fails; and "
    "where the kernel counts (Linux 7.2) that it has refused something since the cgroup was made.",
    ("https://docs.kernel.org/admin-guide/cgroup-v2.html",),
    remedy=(
        "cat {file:rdma.max}",
        "echo '{device} hca_handle=max hca_object=max' | sudo tee {file:rdma.max}",
        "# or in what made the cgroup: the container runtime, the job scheduler",
    ),
    needs=("devices", "limits of the rdma cgroup"),
)
def rdma_cgroup_limit(this: Rule, case: Case) -> Iterator[Finding]:
    """One of each cgroup, device and kind."""
    limits = case.limits
    names = {device.name for device in case.devices}
    for row in present(limits.rdma_cgroups) if limits else ():
        if row.device not in names:
            continue
        for word, most, used, refused, least in kinds(row):
            severity = _severity(most, used, least)
            if severity is None and not known(refused):
                continue
            there = "" if isinstance(used, Missing) else f", of which {used} are in use"
            there += f", and has refused {refused} so far" if known(refused) else ""
            yield this.finding(
                f"the cgroup {row.folder} allows {most} {_WORDS[word]} of {row.device}{there}",
                device=row.device,
                severity=severity or Severity.WARN,
                evidence=[
                    Proof("system", f"{row.folder}/rdma.max", f"{row.device} {word}={most}"),
                    Proof("system", f"{row.folder}/rdma.current", f"{row.device} {word}={used}"),
                ],
                fill={"file": f"{row.folder}/rdma.max"},
            )


def kinds(row: CgroupRdma) -> Iterator[tuple[str, int, int | Missing, int | Missing, int]]:
    """What is limited of contexts and objects: its name, the limit, its use, what it has refused,
    the least that a program needs.
    """
    if row.most_handles is not None:
        yield "hca_handle", row.most_handles, row.handles, row.refused_handles, 1
    if row.most_objects is not None:
        yield "hca_object", row.most_objects, row.objects, row.refused_objects, _LEAST_OBJECTS


def _severity(most: int, used: int | Missing, least: int) -> Severity | None:
    if most < least:
        return Severity.CRITICAL
    if isinstance(used, Missing):
        return None
    return Severity.WARN if most - used < least or used >= _NEAR * most else None


@rule(
    "open-files-limit-low",
    Severity.WARN,
    "A program may hardly open a file",
    f"The soft limit on open files of this process, or of that of --pid, is below {_LEAST_FILES}: "
    "libraries, device nodes, completion channels, event channels and sockets are one each, and "
    "the next one fails with EMFILE. A note where the hard limit lets a program raise it, as NCCL "
    "and Open MPI do.",
    ("https://man7.org/linux/man-pages/man2/getrlimit.2.html",),
    remedy=(
        "ulimit -n 65536",
        "# for all jobs: LimitNOFILE= of the unit that starts them, /etc/security/limits.d",
    ),
    needs=("devices", "limit on open files"),
)
def open_files_limit_low(this: Rule, case: Case) -> Iterator[Finding]:
    """By "Max open files" of /proc/PID/limits."""
    limits = case.limits
    files = known(limits.open_files) if limits else None
    if files is None or not case.devices or _allows(files.soft):
        return
    yield this.finding(
        f"open files are limited to {files.soft} (hard: {files.hard})",
        evidence=[Proof("system", "limits: Max open files", _text(files))],
        severity=Severity.INFO if _allows(files.hard) else None,
    )


def _allows(limit: int | str) -> bool:
    return _is_enough(limit, _LEAST_FILES)


def _is_enough(limit: int | str, least: int) -> bool:
    return isinstance(limit, str) or limit >= least


def _text(limit: Limit) -> str:
    return f"{limit.soft} {limit.hard}"


@rule(
    "address-space-limit-low",
    Severity.WARN,
    "A program may have little address space",
    f"The limit on address space of this process, or of that of --pid, is below "
    f"{_LEAST_SPACE >> 30} GiB (ulimit -v, RLIMIT_AS), the hard one too. All that a program maps "
    "counts, used or not: libraries, stacks and arenas of threads, queues, huge buffers, a GPU's "
    "memory. What exceeds it fails with ENOMEM, however much memory is free.",
    ("https://man7.org/linux/man-pages/man2/getrlimit.2.html",),
    remedy=(
        "ulimit -v unlimited",
        "# for all jobs: LimitAS= of the unit that starts them, /etc/security/limits.d",
    ),
    needs=("devices", "limits of this host"),
)
def address_space_limit_low(this: Rule, case: Case) -> Iterator[Finding]:
    """By "Max address space" of /proc/PID/limits.

    A soft one alone may be that of rdmadiag itself: cli.budget sets it where a record is read.
    """
    limits = case.limits
    space = known(limits.address_space) if limits else None
    if space is None or not case.devices:
        return
    if _is_enough(space.soft, _LEAST_SPACE) or _is_enough(space.hard, _LEAST_SPACE):
        return
    yield this.finding(
        f"the address space is limited to {space.soft} bytes (hard: {space.hard})",
        evidence=[Proof("system", "limits: Max address space", _text(space))],
    )


@rule(
    "cpu-time-limited",
    Severity.WARN,
    "A program is killed after a time of computing",
    "The processor time of this process, or of that of --pid, is limited (ulimit -t, RLIMIT_CPU): "
    "login nodes often do so. A program that polls for completions computes all the time that it "
    "runs, and is ended by SIGXCPU or SIGKILL in the middle of a transfer, with no word on the "
    "network. Its peers see a queue pair that does not answer.",
    ("https://man7.org/linux/man-pages/man2/getrlimit.2.html",),
    remedy=(
        "ulimit -t   # seconds",
        "# run it as a job, and not on the login node; or raise it in /etc/security/limits.d",
    ),
    needs=("devices", "limits of this host"),
)
def cpu_time_limited(this: Rule, case: Case) -> Iterator[Finding]:
    """By "Max cpu time" of /proc/PID/limits."""
    limits = case.limits
    cpu = known(limits.cpu_time) if limits else None
    if cpu is not None and case.devices and not isinstance(cpu.soft, str):
        yield this.finding(
            f"processor time is limited to {cpu.soft} s (hard: {cpu.hard})",
            evidence=[Proof("system", "limits: Max cpu time", _text(cpu))],
        )


@rule(
    "local-ports-few",
    Severity.WARN,
    "Hardly any local ports",
    f"The range of ports that TCP and rdma_cm take a local one of has fewer than {_LEAST_PORTS} "
    "(net.ipv4.ip_local_port_range). Each connection to one peer's port takes one, and keeps it "
    "for a minute after it ended (TIME_WAIT). Without one left connect() fails with EADDRNOTAVAIL, "
    "before any packet is sent.",
    ("https://docs.kernel.org/networking/ip-sysctl.html",),
    remedy=(
        "sysctl net.ipv4.ip_local_port_range",
        "ss -tan | wc -l   # how many are in use?",
        "sudo sysctl -w net.ipv4.ip_local_port_range='32768 60999'",
    ),
    needs=("devices", "limits of this host"),
)
def local_ports_few(this: Rule, case: Case) -> Iterator[Finding]:
    """Both ends of the range are in it."""
    limits = case.limits
    ports = known(limits.local_ports) if limits else None
    if ports is not None and case.devices and ports[1] - ports[0] + 1 < _LEAST_PORTS:
        yield this.finding(
            f"local ports are {ports[0]} to {ports[1]} alone",
            evidence=[
                Proof(
                    "system",
                    "/proc/sys/net/ipv4/ip_local_port_range",
                    f"{ports[0]} {ports[1]}",
                )
            ],
        )


@rule(
    "cgroup-limit-low",
    Severity.WARN,
    "The cgroup leaves a program little room",
    f"A limit of this process's cgroup, or of one above it, leaves fewer than {_LEAST_PROCESSES} "
    "processes and threads (pids.max: fork and pthread_create fail with EAGAIN), less than "
    f"{_LEAST_CPUS:g} processors (cpu.max: a program that polls for completions is held back for "
    "most of each period, its peers' timeouts go on), or less than "
    f"{_LEAST_MEMORY >> 20} MiB of memory (memory.max: registered memory counts, and the kernel "
    "kills what exceeds it).",
    ("https://docs.kernel.org/admin-guide/cgroup-v2.html",),
    remedy=(
        "cat {file}",
        "# in what made the cgroup: a container runtime, a job scheduler",
        "# of a unit of systemd: TasksMax=, CPUQuota=, MemoryMax=",
    ),
    needs=("devices", "limits of the cgroup"),
)
def cgroup_limit_low(this: Rule, case: Case) -> Iterator[Finding]:
    """One of each cgroup and file."""
    limits = case.limits
    for row in present(limits.cgroups) if limits and case.devices else ():
        for file, said, value in _short(row):
            yield this.finding(
                f"the cgroup {row.folder} leaves {said}",
                evidence=[Proof("system", f"{row.folder}/{file}", value)],
                fill={"file": f"{row.folder}/{file}"},
            )


def _short(row: CgroupRoom) -> Iterator[tuple[str, str, str]]:
    """The file, what is left by it, and its value."""
    most, used = row.most_processes, row.processes
    if isinstance(most, int) and isinstance(used, int) and most - used < _LEAST_PROCESSES:
        yield "pids.max", f"{max(most - used, 0)} of {most} processes and threads", str(most)
    if isinstance(row.cpus, int | float) and row.cpus < _LEAST_CPUS:
        yield "cpu.max", f"{row.cpus:g} processors", f"{row.cpus:g}"
    if isinstance(row.memory, int) and row.memory < _LEAST_MEMORY:
        yield "memory.max", f"{row.memory} bytes of memory", str(row.memory)


@rule(
    "data-limit-low",
    Severity.WARN,
    "A program may have little data",
    f"The limit on data of this process, or of that of --pid, is below {_LEAST_DATA >> 20} MiB "
    "(ulimit -d, RLIMIT_DATA), the hard one too. Heaps, stacks of threads and private mappings "
    "that are written to count: what exceeds it fails with ENOMEM, however much memory is free.",
    ("https://man7.org/linux/man-pages/man2/getrlimit.2.html",),
    remedy=(
        "ulimit -d unlimited",
        "# for all jobs: LimitDATA= of the unit that starts them, /etc/security/limits.d",
    ),
    needs=("devices", "limits of this host"),
)
def data_limit_low(this: Rule, case: Case) -> Iterator[Finding]:
    """By "Max data size" of /proc/PID/limits."""
    limits = case.limits
    data = known(limits.data_size) if limits else None
    if data is None or not case.devices or _is_enough(data.hard, _LEAST_DATA):
        return
    yield this.finding(
        f"data is limited to {data.soft} bytes (hard: {data.hard})",
        evidence=[Proof("system", "limits: Max data size", _text(data))],
    )


@rule(
    "committed-memory-near-limit",
    Severity.WARN,
    "The kernel promises hardly any more memory",
    "vm.overcommit_memory is 2, by which the kernel promises programs no more memory than it has, "
    f"and less than {_LEAST_COMMIT >> 20} MiB are left to promise. malloc, mmap and fork fail with "
    "ENOMEM, although free(1) shows memory that is free. vm.overcommit_ratio is 50 by default: "
    "half of the memory, and swap.",
    ("https://docs.kernel.org/mm/overcommit-accounting.html",),
    remedy=(
        "grep Commit /proc/meminfo",
        "sudo sysctl -w vm.overcommit_memory=0   # or a larger vm.overcommit_ratio",
    ),
    needs=("devices", "limits of this host"),
)
def committed_memory_near_limit(this: Rule, case: Case) -> Iterator[Finding]:
    """CommitLimit less Committed_AS of /proc/meminfo."""
    limits = case.limits
    found = known(limits.committed) if limits else None
    if found is None or not found.is_strict or not case.devices:
        return
    most, promised = known(found.most), known(found.promised)
    if most is None or promised is None or most - promised >= _LEAST_COMMIT:
        return
    yield this.finding(
        f"{max(most - promised, 0) >> 20} MiB are left to promise, of {most >> 20} MiB",
        evidence=[
            Proof("system", "/proc/sys/vm/overcommit_memory", "2"),
            Proof("system", "/proc/meminfo: CommitLimit", f"{most >> 10} kB"),
            Proof("system", "/proc/meminfo: Committed_AS", f"{promised >> 10} kB"),
        ],
    )


@rule(
    "connection-table-full",
    Severity.WARN,
    "The table of followed connections is full",
    "nf_conntrack, which firewalls and NAT need, has no room for another connection, or has used "
    f"{_NEAR:.0%} of it: packets of a new one are dropped, in and out, and the kernel's log says "
    "'nf_conntrack: table full, dropping packet'. TCP that programs meet by, soft RoCE (each flow "
    "of UDP is one) and soft iWARP fail at random; what goes on goes on. A NIC's own RDMA does not "
    "pass it.",
    ("https://docs.kernel.org/networking/nf_conntrack-sysctl.html",),
    remedy=(
        "sysctl net.netfilter.nf_conntrack_count net.netfilter.nf_conntrack_max",
        "sudo sysctl -w net.netfilter.nf_conntrack_max=1048576",
        "# and nothing followed between RDMA hosts: notrack in a chain of priority raw",
    ),
    needs=("devices", "limits of this host"),
)
def connection_table_full(this: Rule, case: Case) -> Iterator[Finding]:
    """nf_conntrack_count beside nf_conntrack_max; 0 is no limit."""
    limits = case.limits
    table = known(limits.connections) if limits and case.devices else None
    if table is None:
        return
    most, entries = known(table.most), known(table.entries)
    if not most or entries is None or entries < _NEAR * most:
        return
    yield this.finding(
        f"{entries} of {most} connections are followed",
        evidence=[
            Proof("system", "/proc/sys/net/netfilter/nf_conntrack_max", str(most)),
            Proof("system", "/proc/sys/net/netfilter/nf_conntrack_count", str(entries)),
        ],
    )


RULES: Final[tuple[Rule, ...]] = (
    rdma_cgroup_limit,
    cgroup_limit_low,
    open_files_limit_low,
    address_space_limit_low,
    data_limit_low,
    committed_memory_near_limit,
    cpu_time_limited,
    local_ports_few,
    connection_table_full,
)
"""Lowest cause first."""
