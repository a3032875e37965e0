"""A job whose logs say of no failure of RDMA: of another program's it is told."""

import pytest

from rdmadiag.explain.job.story import Story
from rdmadiag.render.explain_job import answer
from tests.explain.job.telling import placed

HEALTHY = "step 1\nstep 2\n"
FAILED = "step 1\nRuntimeError: shape mismatch\n"
DOWN = "{} node2 kernel: mlx5_core 0000:08:00.0 e: Link down\n"
UP = "{} node2 kernel: mlx5_core 0000:08:00.0 e: Link up\n"
COMPLETION = (
    "{} node2:7:9 [5] net_ib.cc:9 NCCL WARN NET/IB: Got completion from peer 192.0.2.2<7> with "
    "status=12 opcode=0 len=0 vendor err 129\n"
)


def test_another_program_that_failed_is_quoted_with_its_line() -> None:
    story = placed({"r0.log": FAILED, "r1.log": HEALTHY})
    assert story.other is not None
    assert (story.other.where, story.other.line) == ("r0.log", 2)
    assert answer(story) == (
        "something failed, and no line here says that RDMA did: RuntimeError: shape mismatch"
    )


def test_a_job_in_which_nothing_failed_has_no_such_line() -> None:
    story = placed({"r0.log": HEALTHY, "r1.log": HEALTHY})
    assert story.other is None
    assert answer(story) == "nothing of RDMA failed in these files"


def test_what_says_most_of_an_end_is_quoted_whichever_file_it_is_in() -> None:
    status = "srun: error: node7: task 3: Exited with exit code 1\n"
    story = placed({"a.log": status, "b.log": FAILED})
    assert story.other is not None
    assert story.other.where == "b.log"


def test_beside_a_failure_of_rdma_nothing_else_is_the_answer() -> None:
    story = placed({"r0.log": FAILED, "r1.log": COMPLETION.format("2026-03-13T22:26:31Z")})
    assert story.first is not None
    assert not story.is_other


def with_flap(failed_at: str | None, up: str = UP) -> Story:
    kernel = DOWN.format("2026-03-13T22:26:01Z") + up.format("2026-03-13T22:26:05Z")
    own = COMPLETION.format(failed_at) if failed_at else HEALTHY
    return placed({"dmesg": kernel, "job.log": own})


@pytest.mark.parametrize(
    ("failed_at", "first"),
    [
        (None, None),
        ("2026-03-13T22:26:31Z", "link-down"),
        ("2026-03-13T23:26:31Z", "completion"),
        ("2026-03-13T21:26:31Z", "completion"),
    ],
)
def test_a_link_that_came_up_again_counts_where_something_failed_soon_after_it_went(
    failed_at: str | None, first: str | None
) -> None:
    story = with_flap(failed_at)
    assert (story.first and story.first.failure.what) == first


def test_a_link_that_stayed_down_is_what_failed_first_on_its_host() -> None:
    story = with_flap("2026-03-13T23:26:31Z", up="{} node2 kernel: nothing\n")
    assert story.first is not None
    assert (story.first.who.host, story.first.failure.what) == ("node2", "link-down")


def test_a_syslog_in_iso_form_names_its_host_and_is_marked_by_no_launcher() -> None:
    story = placed({"dmesg": DOWN.format("2026-03-13T22:26:01Z") * 2})
    assert story.first is not None
    assert story.first.who.host == "node2"


# --- one program ended by itself, and the others saw that it was gone -----------------------------

USES = "node1:7:9 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:192.0.2.2<0>\n"
FULL = "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
GONE = (
    "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting "
    "prematurely.\n"
)


def test_where_others_only_saw_that_it_was_gone_its_own_end_is_the_answer() -> None:
    story = placed({"r0.log": USES + FULL, "r1.log": GONE})
    assert (story.first, story.is_other) == (None, True)
    assert story.other is not None
    assert story.other.causes[0].label == "gpu-memory-full"
    assert answer(story).endswith("likely the memory of the GPU is used up")
    assert "nvidia-smi" in story.next[0] or "nvidia-smi" in story.next[1]


def test_what_fails_towards_it_is_first_of_the_peer_that_is_gone() -> None:
    story = placed({"r0.log": USES + FULL, "r1.log": COMPLETION.format("")})
    assert story.first is not None
    cause = story.first.failure.causes[0]
    assert (cause.label, cause.standing) == ("peer-gone", "possible")
    assert cause.evidence == (f"r0.log:2: {FULL.strip()}",)
    assert answer(story).endswith("ended: the memory of the GPU is used up")
    assert not [each for each in story.silent if each.host == "node1"]


@pytest.mark.parametrize(
    "end",
    [
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2251\n",
        "RuntimeError: Connection closed by peer [192.0.2.9]:51234\n",
        "RuntimeError: Rank 1 successfully reached monitoredBarrier, others timed out\n",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n",
        "ConnectionResetError: [Errno 104] Connection reset by peer\n",
        "socket.timeout: timed out\n",
        "EOFError: Ran out of input\n",
        "  exitcode  : -9 (pid: 4411)\n",
        "Received 15 death signal, shutting down workers\n",
        "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 10:00 DUE TO TIME LIMIT ***\n",
        "RuntimeError: Engine core initialization failed. See root cause above.\n",
        "ray.exceptions.RayTaskError: ray::train() (pid=7, ip=192.0.2.2)\n",
    ],
)
def test_an_end_that_another_end_may_have_caused_is_no_reason(end: str) -> None:
    story = placed({"r0.log": USES + end, "r1.log": COMPLETION.format("")})
    assert story.first is not None
    assert story.first.failure.completion is not None
    assert not [each for each in story.first.failure.causes if each.evidence]
    assert story.other is None


@pytest.mark.parametrize(("at", "is_reason"), [("22:20:00", True), ("22:30:00", False)])
def test_what_ended_later_is_no_reason(at: str, is_reason: bool) -> None:
    full = f"2026-03-13T{at}Z node1 CUDA out of memory. Tried to allocate 2.00 GiB\n"
    story = placed({"r0.log": USES + full, "r1.log": COMPLETION.format("2026-03-13T22:26:31Z")})
    assert (story.other is not None) is is_reason


def test_a_program_that_ended_at_a_host_to_which_nothing_failed_is_no_reason() -> None:
    elsewhere = USES.replace("node1", "node3").replace("192.0.2.2", "192.0.2.3")
    story = placed({"r0.log": USES, "r1.log": COMPLETION.format(""), "r3.log": elsewhere + FULL})
    assert story.first is not None
    assert story.other is None


def test_a_name_that_one_end_does_not_resolve_is_why_the_other_waits() -> None:
    streams = "name      bytes   xfers   iters   total       time     Gb/sec    usec/xfer\n"
    left = f"{streams}getaddrinfo: Name or service not known\n"
    story = placed({"left.log": left, "right.log": streams})
    assert story.first is None
    assert story.other
    assert story.other.causes[0].label == "name-not-resolved"
    assert story.other.where == "left.log"


def test_the_time_limit_of_a_job_does_not_say_why_its_ends_hung() -> None:
    end = "  local address:  LID 0x0000, QPN 0x00001{}, PSN 0xb56823, GID ::ffff:192.0.2.{}\n"
    cancelled = (
        "slurmstepd: error: *** JOB 1 ON n1 CANCELLED AT 2024-01-11T03:22:48 DUE TO {} ***\n"
    )
    left = end.format(1, 1) + cancelled.format("TIME LIMIT")
    story = placed({"left.log": left, "right.log": end.format(2, 2)})
    assert story.first
    assert story.first.failure.what == "stopped"


LAST = "librdmacm: using rxe0\nrbind failed: Address already in use\n"


@pytest.mark.parametrize(
    ("other", "failed"),
    [
        ("waiting for the client\n", True),
        ("step 1\nFAILED: 1 of 1 shards\n", True),
        (FAILED, False),
        (COMPLETION.format("2026-07-01T10:00:00"), False),
    ],
    ids=["waits", "says that it failed", "says why it ended", "failed itself"],
)
def test_what_fails_where_nothing_goes_on_below_is_the_failure_of_both_logs(
    other: str, failed: bool
) -> None:
    first = placed({"a.log": LAST, "b.log": other}).first
    labels = [each.label for each in first.failure.causes] if first else []
    assert (labels[:1] == ["cm-port-taken"]) is failed


@pytest.mark.parametrize(
    "text",
    [
        "starting the backup\nrbind failed: Address already in use\n",
        f"{LAST}65536               13732.91\n",
        f"{LAST}KeyError: 'x'\n",
    ],
    ids=["of another program", "a result below", "an exception below"],
)
def test_what_may_be_of_another_program_or_was_passed_over_is_no_failure(text: str) -> None:
    assert placed({"a.log": text, "b.log": HEALTHY}).first is None
