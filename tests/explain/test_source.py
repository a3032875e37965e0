"""What is no log: a page of the manual, or a part of one."""

import pytest

from rdmadiag.explain.log.text.source import is_manual, is_page

PAGE = """\
IBV_REG_MR(3)         Libibverbs Programmer's Manual         IBV_REG_MR(3)

NAME
       ibv_reg_mr, ibv_dereg_mr - register or deregister a memory region (MR)

RETURN VALUE
       ibv_reg_mr() returns NULL if the request fails.

NOTES
       ibv_dereg_mr() fails if any memory window is still bound to this MR.
"""
OPTIONS = """\
-r, --reassign_lids
       This option causes OpenSM to reassign LIDs to all end nodes.

-t, --timeout <value>
       Timeout values should be > 0, else transactions failed.
--retries <number>
       This option specifies the number of retries.
"""


def page(text: str) -> bool:
    return is_page(text.splitlines())


@pytest.mark.parametrize(
    "asked",
    [
        "",
        "do I have to call this in a thread of its own or can I leave it out for the lab?\n",
        'Does "fails if any memory window is still bound" mean EBUSY?\n',
        'What does "returns NULL if the request fails" mean? Just asking, before I write it.\n',
    ],
)
def test_a_page_of_the_manual_and_a_question_of_what_it_means(asked: str) -> None:
    assert page(PAGE + asked)


@pytest.mark.parametrize(
    "said",
    [
        "Does this mean my ibv_reg_mr fails for memlock?\n",
        "What does it mean that we get NULL?\n",
        "why does it hang?\n",
        "how can my server get past that error?\n",
        'What does "ibv_reg_mr failed: Cannot allocate memory" mean?\n',  # which is not in it
        "What does IBV_WC_RETRY_EXC_ERR mean, which ib_write_bw prints on mlx5_0?\n",
        'What does "if the request fails" mean? ib_write_bw says that and stops.\n',
        "ibv_reg_mr: Cannot allocate memory\n",
        "ib_write_bw: Couldn't allocate MR\n",
        "       storage-7: ibv_reg_mr failed: Cannot allocate memory\n",
        "       the worker exits with IBV_WC_RETRY_EXC_ERR.\n",
        "       It is bound to mlx5_3.\n",
        "       ibv_reg_mr cannot allocate memory\n",  # no sentence
        "       ibv_reg_mr() returned NULL: Cannot allocate memory (12)\n",
        "       Our log is as that of the page.\n",
        "       rdma_listen: Invalid argument\n       That is what the server prints here.\n",
        "$ ib_write_bw -d mlx5_0\n",
    ],
    ids=str.strip,
)
def test_what_stands_below_a_page_is_read(said: str) -> None:
    assert not page(PAGE + said)


def test_a_head_alone_makes_no_page() -> None:
    head, _, rest = PAGE.partition("\n")
    assert not page(f"{head}\n\nNAME\n       ibv_reg_mr - register a memory region.\n")
    assert not is_manual(rest.splitlines())  # without it DESCRIPTION or OPTIONS are wanted


def test_options_with_what_they_do() -> None:
    assert page(OPTIONS)


@pytest.mark.parametrize(
    "text",
    [
        OPTIONS + "opensm: invalid option -- 'q'\n",
        "opensm: unrecognized option '--retry'\n" + OPTIONS,
        OPTIONS.replace("       This option specifies the number of retries.\n", ""),
        OPTIONS.partition("--retries")[0],
        OPTIONS + "       May 11 09:00:01 the subnet manager failed.\n",
        OPTIONS + "\n       opensm: Error: no local ports detected.\n",
        OPTIONS + "    worker exits with IBV_WC_RETRY_EXC_ERR on mlx5_3\n",
        "-node1\n   Couldn't allocate MR.\n-node2\n   It ended.\n-node3\n   92.4 Gb/s.\n",
        OPTIONS.replace("--retries <number>", "--retries 7"),
        "--rc\n    RTR: Connection timed out (110)\n--ud\n    Works.\n--uc\n    Works.\n",
        "--rc\n    rdma_connect: RDMA_CM_EVENT_REJECTED.\n--ud\n    Works.\n--uc\n    Works.\n",
    ],
    ids=[
        *("an error below", "an error above", "an option without a word", "two alone", "a clock"),
        *("an error that is indented", "a device", "hosts", "an option with a value"),
        *("an errno", "an event"),
    ],
)
def test_what_is_not_of_options_alone(text: str) -> None:
    assert not page(text)


COMMIT = """commit 3c1f0a8e5d2b
Author: A Developer <developer@example.com>
Date:   Tue Feb 6 11:20:44 2024 +0200

    RDMA/mlx5: Relax access upon modify commands

    Before this change mlx5dv_devx_obj_modify failed, errno 16 (Device or resource busy)

 drivers/infiniband/hw/mlx5/devx.c | 8 ++++----
 1 file changed, 4 insertions(+), 4 deletions(-)
"""


def test_a_commit_about_a_failure_is_of_none() -> None:
    assert page(COMMIT)


@pytest.mark.parametrize(
    "said",
    [
        "mlx5_0: ibv_modify_qp failed: Connection timed out\n",
        "ib_write_bw: Couldn't allocate MR\n",
        "    It fails on two nodes of ours.\n",
        "    root@node1:~# ib_write_bw: Couldn't allocate MR\n",
        "node1:10:12 [0] NCCL WARN NET/IB : Got completion with error 12\n",
    ],
    ids=str.strip,
)
def test_what_stands_beside_a_commit_is_read(said: str) -> None:
    assert not page(COMMIT + said)
    assert not page(said + COMMIT)


def test_a_commit_without_its_files_and_who_signed_it_is_read() -> None:
    assert not page(COMMIT.partition(" drivers/")[0])


STATUSES = """\
IBV_WC_RETRY_EXC_ERR (12)
    Transport Retry Counter Exceeded: The retry counter was exceeded while trying to send
    this message.
IBV_WC_WR_FLUSH_ERR (5)
    Work Request Flushed Error: A Work Request was in process when the QP went into Error.
"""


def test_statuses_with_what_they_mean() -> None:
    assert page(STATUSES)
    assert not page(f"{STATUSES}2024-11-08 02:11:43 ERROR poll_cq: IBV_WC_RETRY_EXC_ERR\n")
    assert not page(f"{STATUSES}our server prints the first\n")
    assert not page(f"{STATUSES}Failed status 12: wr_id 0 syndrom 0x81\n")
    assert not page(f"rank 3: Transport retry count exceeded on mlx5_0\n{STATUSES}")
    assert not page("IBV_WC_RETRY_EXC_ERR (12)\nIBV_WC_WR_FLUSH_ERR (5)\n")
