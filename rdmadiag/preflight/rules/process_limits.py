"""Limits that no program of this cgroup or user gets past: the rdma cgroup's, open files, address
space, processor time, local ports.
"""

from collections.abc import Iterator
from typing import Final

from rdmadiag.facts import Limit, Missing, known, present
from rdmadiag.facts.limits import CgroupRdma, HostLimits
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
_LEAST_PORTS: Final = 64
"""Local ports that are free to connect from: of a host that has anything else to do."""
_LEAST_FILES: Final = 64
"""Of a program with a few connections: its libraries, device nodes, event channels, sockets."""


def _limits(case: Case) -> HostLimits | None:
    system = case.evidence.system
    return None if isinstance(system, Missing) else known(system.limits)


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
    limits = _limits(case)
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
    limits = _limits(case)
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
    limits = _limits(case)
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
    limits = _limits(case)
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
    limits = _limits(case)
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


RULES: Final[tuple[Rule, ...]] = (
    rdma_cgroup_limit,
    open_files_limit_low,
    address_space_limit_low,
    cpu_time_limited,
    local_ports_few,
)
"""Lowest cause first."""
