"""A job by its process: who belongs to it, what they have open, mapped and set, what moved.

    /proc/PID/stat       4711 (python3) S 4700 …        its parent
    /proc/PID/cgroup     0::/system.slice/slurmstepd.scope/job_17/step_0/user/task_0
    /proc/PID/fd/7       -> socket:[71344]
    /proc/PID/fd/9       -> /dev/infiniband/uverbs0

proc(5). Nothing of a process is stopped, traced or opened but these text files; those of another
user's are refused.
"""

from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.environment import kept
from rdmadiag.facts.job import (
    AskedJob,
    Extent,
    JobFacts,
    JobProcess,
    JobSample,
    WantedSample,
)
from rdmadiag.gid.variables import REPORTED
from rdmadiag.host import Host
from rdmadiag.late import late
from rdmadiag.sources.counters import clock_of
from rdmadiag.sources.environment import read_environment
from rdmadiag.sources.libraries import read_rdma_libraries
from rdmadiag.sources.port_traffic import read_port_traffic
from rdmadiag.sources.sock_diag import read_connections
from rdmadiag.sources.text import attribute, malformed, parse_text

MOST_PROCESSES: Final = 4096

_PID: Final = late(r"[1-9][0-9]{0,9}")
_SOCKET: Final = late(r"socket:\[([0-9]{1,20})\]")
_NODE: Final = "/dev/infiniband/"
_NETNS: Final = "/proc/{}/ns/net"


def parse_parent(raw: bytes) -> int | Missing:
    """/proc/PID/stat: the fourth field; the second one may hold blanks and parentheses."""
    fields = raw.rpartition(b")")[2].split()
    if len(fields) < 2 or not fields[1].isdigit() or len(fields[1]) > 10:
        return malformed(raw, "a process's stat")
    return int(fields[1])


def parse_cgroup(raw: bytes) -> str | Missing:
    """/proc/PID/cgroup: the path in the unified hierarchy, else in that of pids or memory.

    cgroups(7): hierarchy, controllers, path.
    """
    paths: dict[str, str] = {}
    for line in raw.decode("utf-8", "backslashreplace").splitlines():
        number, first, rest = line.partition(":")
        controllers, second, path = rest.partition(":")
        if not (first and second and number.isdigit() and path.startswith("/")):
            return malformed(line.encode(), "a row of /proc/PID/cgroup")
        for each in controllers.split(","):
            paths.setdefault(each, path)
    own = paths.get("")
    legacy = paths.get("pids", paths.get("memory"))
    found = legacy if own in (None, "/") and legacy else own
    return found or Missing(Why.UNSUPPORTED, "neither a unified control group, nor one of pids")


def read_job(host: Host, job: AskedJob) -> JobFacts | Missing:
    """The processes of `job`; ABSENT where there is none of that number."""
    command = attribute(host, f"/proc/{job.pid}/comm", parse_text)
    if isinstance(command, Missing) and command.why is not Why.MALFORMED:
        return command
    cgroup: str | Missing | None = None
    pids: tuple[int, ...] | Missing = (job.pid,)
    if job.extent is Extent.CHILDREN:
        pids = _descendants(host, job.pid)
    elif job.extent is Extent.CGROUP:
        cgroup = attribute(host, f"/proc/{job.pid}/cgroup", parse_cgroup)
        if isinstance(cgroup, Missing):  # the process is there: that is not what is absent
            why = Why.UNSUPPORTED if cgroup.why is Why.ABSENT else cgroup.why
            return Missing(why, cgroup.detail)
        pids = _members(host, job.pid, cgroup)
    if isinstance(pids, Missing):
        return pids
    if len(pids) > MOST_PROCESSES:
        return Missing(Why.UNSUPPORTED, f"{len(pids)} processes, more than {MOST_PROCESSES}")
    processes = tuple(_process(host, pid) for pid in pids)
    return JobFacts(job, processes, host.readlink(_NETNS.format("self")), cgroup)


def _all(host: Host) -> tuple[int, ...] | Missing:
    names = host.list("/proc")
    if isinstance(names, Missing):
        return names
    return tuple(sorted(int(name) for name in names if _PID.fullmatch(name)))


def _descendants(host: Host, pid: int) -> tuple[int, ...] | Missing:
    """It and those below it. One whose parent has ended is init's, or a subreaper's."""
    every = _all(host)
    if isinstance(every, Missing):
        return every
    below: dict[int, list[int]] = {}
    for each in every:
        parent = attribute(host, f"/proc/{each}/stat", parse_parent)
        if not isinstance(parent, Missing):
            below.setdefault(parent, []).append(each)
    found = {pid: None}
    to_do = [pid]
    while to_do:
        for each in below.get(to_do.pop(), ()):
            if each not in found:
                found[each] = None
                to_do.append(each)
    first, *rest = found
    return (first, *sorted(rest))


def _members(host: Host, pid: int, cgroup: str) -> tuple[int, ...] | Missing:
    """All of that control group and of those below it."""
    every = _all(host)
    if isinstance(every, Missing):
        return every
    inside = f"{cgroup.rstrip('/')}/"
    found = [pid]
    for each in every:
        own = attribute(host, f"/proc/{each}/cgroup", parse_cgroup)
        if isinstance(own, str) and each != pid and (own == cgroup or own.startswith(inside)):
            found.append(each)
    return tuple(found)


def _process(host: Host, pid: int) -> JobProcess:
    environment = read_environment(host, str(pid))
    opened = _descriptors(host, pid)
    return JobProcess(
        pid=pid,
        command=attribute(host, f"/proc/{pid}/comm", parse_text),
        environment=environment
        if isinstance(environment, Missing)
        else kept(environment, REPORTED),
        libraries=read_rdma_libraries(host, pid),
        nodes=opened
        if isinstance(opened, Missing)
        else tuple(sorted({each.removeprefix(_NODE) for each in opened if each.startswith(_NODE)})),
        netns=host.readlink(_NETNS.format(pid)),
    )


def _descriptors(host: Host, pid: int) -> tuple[str, ...] | Missing:
    """What the open descriptors of a process lead to; one that is closed meanwhile is none.

    Root may list another user's without CAP_SYS_PTRACE, and not follow them (proc(5)).
    """
    folder = f"/proc/{pid}/fd"
    names = host.list(folder)
    if isinstance(names, Missing):
        return names
    found = []
    for name in names:
        link = host.readlink(f"{folder}/{name}")
        if not isinstance(link, Missing):
            found.append(link)
        elif link.why is not Why.ABSENT:
            return link
    return tuple(found)


def read_job_sample(host: Host, deadline: float, sampled: WantedSample) -> JobSample:
    """What the job's connections and the ports have moved by now."""
    seconds = clock_of(host)()
    ports = tuple(read_port_traffic(host, *each) for each in sampled.ports)
    unread: dict[int, Missing] = {}
    inodes: set[int] = set()
    for pid in sampled.pids:
        opened = _descriptors(host, pid)
        if isinstance(opened, Missing):
            unread[pid] = opened
        else:
            inodes |= {int(found[1]) for each in opened if (found := _SOCKET.fullmatch(each))}
    if len(unread) == len(sampled.pids):
        return JobSample(seconds, next(iter(unread.values())), unread, ports)
    sockets = read_connections(host, deadline, inodes, sampled.foreign)
    return JobSample(seconds, sockets, unread, ports)
