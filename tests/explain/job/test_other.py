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
