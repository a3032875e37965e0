"""The text of `explain --log`: the answer first, then why, then what to paste."""

import io

import pytest

from rdmadiag.explain.log.account import Account
from rdmadiag.explain.log.recognition.vocabulary import NEEDLES
from rdmadiag.explain.log.scan import collect
from rdmadiag.explain.log.text.beside_candidates import read_rest
from rdmadiag.render.console import console
from rdmadiag.render.explain import show_log
from rdmadiag.sieve.lines import Sieve

USES = "n1:9:9 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:192.0.2.11<0>\n"
FULL = "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
MEMLOCK = "ibv_reg_mr failed: Cannot allocate memory\n"
STATUS_12 = (
    "n3:9:9 [0] net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 192.0.2.11<5> with "
    "status=12 opcode=0 len=0 vendor err 129 (Send) localGid ::ffff:192.0.2.13 "
    "remoteGids ::ffff:192.0.2.11 hca mlx5_0\n"
)
ODD = "n1:1:2 [0] NCCL WARN NET/IB : mlx5_0:1 the frobnicator failed\n"


def account_of(log: str) -> Account:
    sieve = Sieve(NEEDLES)
    collector = collect(sieve.segments(io.BytesIO(log.encode())))
    read_rest(collector, sieve)
    return collector.account(sieve.lines, sieve.bytes)


def text_of(log: str, *, quiet: bool = False) -> str:
    out = io.StringIO()
    show_log(account_of(log), "job.log", to=console(out), quiet=quiet)
    return out.getvalue()


def test_what_failed_first_has_its_cause_in_the_answer_and_what_failed_later_below() -> None:
    text = text_of(MEMLOCK + STATUS_12)
    answer, _, below = text.partition("\n")
    assert answer.startswith("FAILED  at reg_mr: ibv_reg_mr failed: errno 12")
    assert "; likely the limit on locked memory (ulimit -l) is too low (and 1 more)" in answer
    assert "Also failed, later:" in below
    assert "completion status 12" in below.partition("Also failed, later:")[2]
    assert "ulimit -l" in below.partition("Next:")[2]


def test_the_answer_alone_is_one_line() -> None:
    assert text_of(MEMLOCK, quiet=True).count("\n") == 1


def test_of_a_completion_both_ends_and_the_peer_are_shown() -> None:
    text = text_of(STATUS_12)
    assert "local GID ::ffff:192.0.2.13; remote GID ::ffff:192.0.2.11" in text
    assert "peer 192.0.2.11" in text


def test_what_is_none_of_rdma_is_answered_with_what_is_known_of_it() -> None:
    text = text_of(USES + FULL)
    assert text.startswith(
        "OTHER  no line here says that RDMA failed; likely the memory of the GPU is used up  ["
    )
    assert "    known message of cuda: the memory of the GPU is used up" in text
    assert "[gpu-memory-full]" in text.partition("Likely causes of it:")[2]
    assert "nvidia-smi" in text.partition("Next:")[2]


def test_what_ended_a_program_before_is_said_in_the_answer_and_quoted() -> None:
    text = text_of(USES + FULL + STATUS_12)
    answer = text.partition("\n")[0]
    assert answer.startswith("FAILED  at data on mlx5_0: completion status 12")
    assert "since a program had ended (line 2): the memory of the GPU is used up" in answer
    assert f"    2: {FULL.strip()}" in text.partition("May have come first:")[2]


@pytest.mark.parametrize(
    ("log", "answer"),
    [
        ("", "UNKNOWN  there is nothing in this log"),
        ("step 1 loss 2.0\n", "OK  nothing of RDMA failed in this log"),
        (ODD, "UNKNOWN  "),
        ("ValueError: bad shape\n", "OTHER  something failed, and no line here says that RDMA did"),
    ],
    ids=["an empty log", "a healthy one", "a line that is not understood", "an exception"],
)
def test_an_answer_begins_with_its_word(log: str, answer: str) -> None:
    assert text_of(log).startswith(answer)


def test_a_line_that_is_not_understood_is_quoted() -> None:
    assert "the frobnicator failed" in text_of(ODD)


LISTED = (
    "[root@n1 ~]# cat /etc/nccl.conf\nNCCL_IB_HCA=mlx5_0\n"
    "[root@n1 ~]# ibv_devices\n    rocep65s0f0     \tb83fd20300c1a230\n"
)


def test_what_a_listing_shows_is_answered_with_its_cause_the_device_and_the_host() -> None:
    answer = text_of(LISTED).partition("\n")[0]
    cause = "the device has another name since the last reboot (mlx5_0 at n1)"
    assert answer.startswith(f"FAILED  a listing shows it: {cause}  [")


def test_what_a_listing_shows_comes_before_what_failed_by_it() -> None:
    answer, _, below = text_of(MEMLOCK + LISTED).partition("\n")
    assert answer.startswith("FAILED  a listing shows it: the device has another name")
    assert "errno 12" in below.partition("Also failed, later:")[2]


def test_what_may_be_meant_so_is_no_failure_that_is_known() -> None:
    listed = "[root@n1 ~]# lspci -vv\n\t\tACSCtl:\tSrcValid+ ReqRedir+ CmpltRedir+\n"
    answer = text_of(listed).partition("\n")[0]
    assert answer.startswith("UNKNOWN  this may be what is wrong: ACS or the IOMMU redirects")
    assert not text_of(MEMLOCK + listed).startswith("FAILED  a listing")


def test_a_job_that_slurm_lists_as_out_of_memory_explains_what_its_peers_say() -> None:
    listed = "$ sacct -j 7\n7       OUT_OF_ME+    0:125   00:21:37\n"
    gone = "n2:1:2 [0] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer"
    assert text_of(USES + f"{gone} n1<57210>\n" + listed).startswith(
        "OTHER  no line here says that RDMA failed; likely it was killed"
    )


def test_a_line_that_only_names_trouble_is_not_said_to_be_a_failure() -> None:
    answer = text_of("loading\nSCSI               : Unsupported\ndone\n").partition("\n")[0]
    assert answer.startswith(
        "OTHER  no line here says that RDMA failed, and one may be of other trouble: line 2: SCSI"
    )
    assert "something failed" in text_of("loading\nValueError: bad shape\n")
