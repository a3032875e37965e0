"""The processes of a job, and what their descriptors lead to: proc(5), cgroups(7)."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.job import AskedJob, Extent, JobFacts, WantedSample
from rdmadiag.host.recording import Recording
from rdmadiag.sources import job, sampling
from rdmadiag.sources.job import parse_cgroup, parse_parent, read_job, read_job_sample

DENIED = Missing(Why.DENIED, "EACCES")
MAPS = "7f1c5e000000-7f1c60000000 r-xp 0003f000 08:02 1312  {}\n"
STEP = "0::/system.slice/slurmstepd.scope/job_17/step_0"

Hosts = Callable[[Recording], Any]


def process(
    pid: int, parent: int = 1, cgroup: str = f"{STEP}/user/task_0", **links: str
) -> Recording:
    """One process: `links` are its descriptors, fd7="socket:[71344]"."""
    at = f"/proc/{pid}"
    opened = {f"{at}/fd/{name[2:]}": target for name, target in links.items()}
    return Recording(
        files={
            f"{at}/comm": b"python3\n",
            f"{at}/stat": f"{pid} (a) b (c) S {parent} 1 1 0 -1 4194304\n".encode(),
            f"{at}/cgroup": f"{cgroup}\n".encode(),
            f"{at}/environ": b"UCX_TLS=tcp\0SECRET=x\0UCX_TOKEN=y\0",
            f"{at}/maps": MAPS.format("/usr/lib/libibverbs.so.1.14.50.0").encode(),
        },
        links={f"{at}/ns/net": "net:[4026531840]"} | opened,
        listings={f"{at}/fd": tuple(name[2:] for name in links)},
    )


def together(*recordings: Recording) -> Recording:
    whole = Recording(links={"/proc/self/ns/net": "net:[4026531840]"})
    for each in recordings:
        whole.add(each)
    pids = tuple(path.split("/")[2] for path in whole.files if path.endswith("/comm"))
    whole.listings["/proc"] = (*pids, "self", "meminfo")
    return whole


JOB = together(
    process(10, fd7="socket:[71344]", fd8="/dev/infiniband/uverbs0", fd9="/dev/infiniband/rdma_cm"),
    process(11, 10, f"{STEP}/user/task_1", fd3="socket:[71344]", fd4="pipe:[1]"),
    process(12, 11, f"{STEP}/extern"),
    process(13, 1, f"{STEP}0/user/task_0"),
)


def pids(found: JobFacts | Missing) -> list[int]:
    assert isinstance(found, JobFacts)
    return [each.pid for each in found.processes]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"4711 (python3) S 4700 4711 4700 0\n", 4700),
        (b"4711 (a) S 1 (b) R 17 1\n", 17),
        (b"4711 (python3)", None),
        (b"", None),
        (b"1 (init) S x 1\n", None),
    ],
)
def test_the_parent_stands_behind_a_name_that_may_hold_anything(
    raw: bytes, expected: int | None
) -> None:
    found = parse_parent(raw)
    assert (None if isinstance(found, Missing) else found) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"0::/user.slice/a:b\n", "/user.slice/a:b"),
        (b"12:pids:/slurm/job_1\n4:memory:/slurm/job_1/m\n0::/\n", "/slurm/job_1"),
        (b"4:memory:/slurm/job_1/m\n1:name=systemd:/x\n", "/slurm/job_1/m"),
        (b"0::/\n", "/"),
        (b"1:name=systemd:/x\n", Why.UNSUPPORTED),
        (b"nonsense\n", Why.MALFORMED),
        (b"", Why.UNSUPPORTED),
    ],
)
def test_the_control_group_is_the_unified_one_else_that_of_pids(
    raw: bytes, expected: str | Why
) -> None:
    found = parse_cgroup(raw)
    assert (found.why if isinstance(found, Missing) else found) == expected


@given(st.binary(max_size=200))
def test_no_bytes_break_the_parsers(raw: bytes) -> None:
    assert isinstance(parse_parent(raw), int | Missing)
    assert isinstance(parse_cgroup(raw), str | Missing)


def test_one_process_with_what_it_has_open_mapped_and_set(host_in_memory: Hosts) -> None:
    found = read_job(host_in_memory(JOB), AskedJob(10, Extent.PROCESS))
    assert isinstance(found, JobFacts)
    (only,) = found.processes
    assert (only.pid, only.command, only.netns) == (10, "python3", "net:[4026531840]")
    assert only.nodes == ("rdma_cm", "uverbs0")
    assert only.environment == {"UCX_TLS": "tcp", "UCX_TOKEN": "(not recorded)"}
    assert [(each.name, each.version) for each in only.libraries] == [("ibverbs", "1.14.50.0")]
    assert found.cgroup is None


@pytest.mark.parametrize(
    ("pid", "extent", "expected"),
    [
        (10, Extent.CHILDREN, [10, 11, 12]),
        (11, Extent.CHILDREN, [11, 12]),
        (12, Extent.CHILDREN, [12]),
        (10, Extent.CGROUP, [10]),
        (12, Extent.CGROUP, [12]),
    ],
)
def test_who_belongs_to_it(
    pid: int, extent: Extent, expected: list[int], host_in_memory: Hosts
) -> None:
    assert pids(read_job(host_in_memory(JOB), AskedJob(pid, extent))) == expected


def test_control_groups_below_are_of_it_and_one_with_a_longer_name_is_not(
    host_in_memory: Hosts,
) -> None:
    above = together(JOB, process(9, 1, STEP))
    found = read_job(host_in_memory(above), AskedJob(9, Extent.CGROUP))
    assert pids(found) == [9, 10, 11, 12]
    assert isinstance(found, JobFacts)
    assert found.cgroup == STEP[3:]


@pytest.mark.parametrize("extent", [Extent.CHILDREN, Extent.CGROUP])
def test_without_a_list_of_processes_nobody_else_is_known(
    extent: Extent, host_in_memory: Hosts
) -> None:
    refused = together(JOB)
    del refused.listings["/proc"]
    assert isinstance(read_job(host_in_memory(refused), AskedJob(10, extent)), Missing)


@pytest.mark.parametrize("kept", [b"", None], ids=["none is mounted", "the kernel has none"])
def test_a_process_without_a_control_group_is_there_all_the_same(
    kept: bytes | None, host_in_memory: Hosts
) -> None:
    without = together(JOB)
    if kept is None:
        del without.files["/proc/10/cgroup"]
    else:
        without.files["/proc/10/cgroup"] = kept
    found = read_job(host_in_memory(without), AskedJob(10, Extent.CGROUP))
    assert isinstance(found, Missing)
    assert found.why is Why.UNSUPPORTED


def test_too_many_are_refused_and_not_half_of_them(
    host_in_memory: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "MOST_PROCESSES", 2)
    found = read_job(host_in_memory(JOB), AskedJob(10, Extent.CHILDREN))
    assert isinstance(found, Missing)
    assert found.detail == "3 processes, more than 2"


def test_a_process_that_is_not_there_is_absent(host_in_memory: Hosts) -> None:
    found = read_job(host_in_memory(JOB), AskedJob(99, Extent.PROCESS))
    assert isinstance(found, Missing)
    assert found.why is Why.ABSENT


def test_another_users_process_is_refused_piece_by_piece(host_in_memory: Hosts) -> None:
    host = host_in_memory(together(JOB))
    host.recording.refused = {
        "read": {"/proc/10/environ": DENIED, "/proc/10/maps": DENIED},
        "list": {"/proc/10/fd": DENIED},
    }
    found = read_job(host, AskedJob(10, Extent.PROCESS))
    assert isinstance(found, JobFacts)
    only = found.processes[0]
    assert (only.environment, only.libraries, only.nodes) == (DENIED, DENIED, DENIED)
    sample = read_job_sample(host, 0.0, WantedSample((10,), ()))
    assert (sample.sockets, sample.unread) == (DENIED, {10: DENIED})


def test_descriptors_that_may_be_listed_and_not_followed_are_not_none(
    host_in_memory: Hosts,
) -> None:
    host = host_in_memory(together(JOB))
    host.recording.refused = {"readlink": {f"/proc/10/fd/{each}": DENIED for each in (7, 8, 9)}}
    found = read_job(host, AskedJob(10, Extent.PROCESS))
    assert isinstance(found, JobFacts)
    assert found.processes[0].nodes == DENIED
    sample = read_job_sample(host, 0.0, WantedSample((10,), ()))
    assert (sample.sockets, sample.unread) == (DENIED, {10: DENIED})


def test_a_descriptor_that_is_closed_meanwhile_is_none(host_in_memory: Hosts) -> None:
    host = host_in_memory(together(JOB))
    host.recording.refused = {"readlink": {"/proc/10/fd/8": Missing(Why.ABSENT, "ENOENT")}}
    found = read_job(host, AskedJob(10, Extent.PROCESS))
    assert isinstance(found, JobFacts)
    assert found.processes[0].nodes == ("rdma_cm",)


def test_a_sample_has_each_connection_once_and_names_whom_it_could_not_read(
    host_in_memory: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = host_in_memory(together(JOB))
    host.recording.refused = {"list": {"/proc/12/fd": DENIED}}
    asked: list[Any] = []
    monkeypatch.setattr(
        job, "read_connections", lambda host, deadline, *rest: asked.append(rest) or ()
    )
    sample = read_job_sample(host, 5.0, WantedSample((10, 11, 12), (), 11))
    assert asked == [({71344}, 11)]
    assert (sample.sockets, sample.unread) == ((), {12: DENIED})


def test_of_a_mac_there_is_none(host_in_memory: Hosts, soon: float) -> None:
    host = host_in_memory(JOB, "darwin")  # type: ignore[call-arg]
    for found in (
        sampling.job(host, soon, AskedJob(10, Extent.PROCESS)),
        sampling.job_sample(host, soon, WantedSample((10,), ())),
        sampling.netdevs(host, soon),
    ):
        assert isinstance(found, Missing)
