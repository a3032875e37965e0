"""Jobs with a planted first failure: it is named, and the end that was cut."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdmadiag.explain.job.collected import Collected
from rdmadiag.explain.job.compose import compose
from rdmadiag.explain.job.ras import parse_ras
from rdmadiag.explain.job.story import Silence, Story
from rdmadiag.render.explain_job import answer
from tests.explain.job.planted import Job
from tests.explain.job.telling import part_of, placed


def of_files(job: Job) -> dict[str, str]:
    return {
        f"job-rank{rank}.log": "".join(f"{line}\n" for _, line in job.stamped(rank))
        for rank in range(job.ranks)
        if rank not in job.missing
    }


def check(job: Job, story: Story) -> None:
    """The planted pair, whoever printed it."""
    assert story.first is not None
    who, whom = story.first.who, story.first.whom
    assert (who.rank, who.host) == (job.first, f"node{job.host_of(job.first)}")
    assert who.device == f"mlx5_{job.first % job.per_host}"
    assert whom is not None
    assert whom.host == f"node{job.cut}"
    assert story.common_end is not None
    assert story.common_end.host == f"node{job.cut}"
    speaking = [each for each in job.writers if each not in job.missing]
    assert story.failed_after == len(speaking) - 1


def test_the_first_failing_pair_is_named_with_its_nic_and_time() -> None:
    job = Job()
    story = placed(of_files(job))
    check(job, story)
    assert answer(story) == (
        "rank 6 on node1 (mlx5_2) could not reach node2 at 12:01:07; "
        "11 ranks failed after it, 1 host is silent"
    )
    assert (story.world_size, story.ranks) == (16, 16)


@pytest.mark.slow
@settings(max_examples=settings().max_examples // 4)  # each is a job of up to 32 ranks
@given(
    st.sampled_from((8, 16, 32)),
    st.integers(0, 1000),
    st.sampled_from(("files", "srun", "kubectl", "clush")),
    st.data(),
)
def test_it_is_named_in_any_form_with_skewed_clocks_and_missing_ranks(
    ranks: int, cut: int, form: str, data: st.DataObject
) -> None:
    per_host = 2 if ranks == 8 else 4
    job = Job(ranks, per_host, cut % (ranks // per_host))
    few = st.sets(st.integers(0, ranks - 1), max_size=ranks // 8)
    # Of the host whose link is cut one log is there: else nothing has its name.
    job.missing = frozenset(data.draw(few) - {job.cut * per_host})
    skewed = data.draw(st.sets(st.integers(0, job.hosts - 1), max_size=(job.hosts - 1) // 2))
    job.skew = {host: data.draw(st.sampled_from((-3600.0, 45.0, 7200.0))) for host in skewed}
    check(job, placed(of_files(job) if form == "files" else {"job.out": job.together(form)}))


def test_clocks_that_are_off_are_set_by_the_communicator_that_all_saw_begin() -> None:
    job = Job(skew={3: 3600.0})
    (setting,) = placed(of_files(job)).clocks
    assert (setting.host, setting.clock, setting.basis) == ("node3", "local", "meetings")
    assert setting.offset_s == pytest.approx(-3600.0)


def test_clocks_less_than_two_seconds_apart_stay_as_they_are() -> None:
    assert placed(of_files(Job(skew={3: 1.5}))).clocks == ()


def test_two_ends_of_a_broken_connection_set_a_clock_that_nothing_else_sets() -> None:
    def line(host: str, peer: str, at: str) -> str:
        return (
            f"[{at}] {host}:1:2 [0] p2p.cc:688 NCCL WARN NET/IB: Got completion from peer "
            f"{peer}<7> with status=IBV_WC_RETRY_EXC_ERR(12) vendor_err=129 hca mlx5_0\n"
        )

    story = placed(
        {
            "a.log": line("node1", "node2", "2026-03-13 12:00:00"),
            "b.log": line("node2", "node1", "2026-03-13 14:00:03"),
        }
    )
    (setting,) = story.clocks
    assert (setting.host, setting.basis) == ("node2", "broken-connection")
    assert story.wavefront[-1].until_s == 1.0


def test_a_syslog_sets_the_clock_of_its_kernel() -> None:
    job = Job()
    files = of_files(job)
    files["dmesg-node2"] = "[ 400.000000] mlx5_core 0000:1c:00.0: Port: 1 Link DOWN\n"
    files["syslog"] = (
        "Mar 13 12:00:00 node2 kernel: [ 400.000000] mlx5_core 0000:1b:00.0: Port: 1 Link DOWN\n"
    )
    story = placed(files)
    assert story.first is not None
    assert (story.first.who.host, story.first.failure.what) == ("node2", "link-down")
    assert story.first.at == "2026-03-13T12:00:00.000Z"
    assert ("node2", "uptime", "two-clocks") in {
        (each.host, each.clock, each.basis) for each in story.clocks
    }


def test_of_kernels_seconds_alone_the_first_is_first() -> None:
    text = (
        "node1: [ 900.000000] mlx5_core 0000:1b:00.0: Port: 1 Link DOWN\n"
        "node1: [ 100.000000] mlx5_core 0000:1c:00.0: Port: 1 Link DOWN\n"
    )
    story = placed({"dmesg": text})
    assert story.first is not None
    assert (story.first.who.device, story.first.at) == ("0000:1c:00.0", "100.000 s")


def test_the_host_whose_port_failed_is_looked_at_first() -> None:
    line = "[{}] {}:1:2 [0] p2p.cc:688 NCCL WARN NET/IB: {}\n"
    story = placed(
        {
            "a": line.format(
                "2026-03-13 12:00:00",
                "node1",
                "Got completion from peer node2<7> with status=IBV_WC_RETRY_EXC_ERR(12) hca mlx5_0",
            ),
            "b": line.format(
                "2026-03-13 12:00:01", "node2", "mlx5_4:1 Got async event : port error"
            ),
        }
    )
    assert story.common_end is not None
    assert (story.common_end.host, story.common_end.devices) == ("node2", ("mlx5_4",))
    assert story.first is not None
    assert story.first.whom is not None
    assert story.first.whom.device == "mlx5_4"


# --- who is silent ----------------------------------------------------------------------------


def test_ranks_without_a_log_are_silent() -> None:
    job = Job(missing=frozenset({0, 1, 2, 3, 9}))
    silent = placed(of_files(job)).silent
    found = {rank for each in silent if each.why is Silence.NO_LOG for rank in each.ranks}
    assert found == {0, 1, 2, 3, 9}


def test_a_host_of_which_only_the_address_is_known_is_still_the_common_end() -> None:
    files = of_files(Job(missing=frozenset(range(8, 12))))
    story = placed(files)
    assert story.common_end is not None
    assert story.common_end.host == "10.0.0.2"
    assert [(each.host, each.ranks) for each in story.silent] == [(None, (8, 9, 10, 11))]


def test_a_healthy_log_that_is_called_after_the_peer_is_heard() -> None:
    line = (
        "[2026-03-13 12:00:00] node1:1:2 [0] NCCL WARN NET/IB: Got completion from peer "
        "node2.example.com<7> with status=IBV_WC_RETRY_EXC_ERR(12) vendor_err=129 hca mlx5_0\n"
    )
    files = {"node1.log": line, "node2.log": "[2026-03-13 12:00:01] step 1\n"}
    assert placed(files).silent == ()


def test_a_log_that_ends_before_is_silent_and_an_empty_one_too() -> None:
    files = {**of_files(Job()), "job-rank99.log": ""}
    why = {each.why: each for each in placed(files).silent}
    assert why[Silence.ENDED_EARLY].host == "node2"
    assert why[Silence.EMPTY].ranks == (99,)


def test_a_process_that_was_killed_before_is_told_of() -> None:
    text = Job().together("srun")
    killed = "srun: error: node2: task 8: Out Of Memory\n"
    story = placed({"job.out": killed + text})
    (ended,) = story.ended
    assert (ended.host, ended.rank, ended.is_before) == ("node2", 8, True)


def test_a_task_that_was_killed_for_memory_is_why_its_peers_saw_it_gone() -> None:
    killed = "srun: error: node2: task 8: Out Of Memory\n"
    gone = "3: ncclRemoteError: A call failed possibly due to a network error or a remote process\n"
    story = placed({"job.out": killed + gone})
    assert story.first is None
    assert story.other is not None
    assert story.other.text == killed.strip()
    assert story.other.causes[0].label == "killed-for-memory"


def test_an_answer_of_ras_names_the_dead() -> None:
    collected = Collected()
    ras = parse_ras(
        b"Job summary\n===========\n\nErrors\n======\n\nDEAD\n"
        b"  1 job process is considered dead (unreachable via the RAS network)\n"
        b"  Process 8008 on node 10.0.0.2 managing GPU 0\n\n"
    )
    collected.processes.extend(ras.processes)
    story = placed(of_files(Job()), collected)
    (dead,) = (each for each in story.silent if each.why is Silence.DEAD)
    assert dead.host == "node2"


# --- hostile texts ----------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=200), max_size=20), st.binary(max_size=400))
def test_any_bytes_have_a_story(lines: list[bytes], more: bytes) -> None:
    job = Job(8, 2, 1)
    text = job.together("srun").encode().splitlines()
    mixed = b"\n".join(each for pair in zip(lines, text, strict=False) for each in pair)
    collected = Collected(parts=[part_of("a", mixed), part_of("b", more)])
    assert answer(compose(collected))
