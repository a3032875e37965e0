"""What stands below a line of trouble, or came first, decides what the line is."""

import pytest

from rdmadiag.explain.log.account import Account
from rdmadiag.explain.log.kind import Kind
from rdmadiag.explain.log.text.outcome import outcome_of
from tests.explain.score import Excerpt, score

TRIED = "n1:7:9 [0] NCCL WARN NET/OFI No eligible providers were found"
NODE = "/sys/class/infiniband_verbs/uverbs0"
RESULTS = (
    "# Avg bus bandwidth    : 12.3",
    "# Out of bounds values : 0 OK",
    "# Collective test concluded: all_reduce_perf",
    "     1048576        262144     float     sum      -1    55.1   19.03   35.68      0",
    "65536               13732.91",
    "# All processes entering MPI_Finalize",
    "Final:                  1000    201.639   253.497   253.497    15779.29",
    "step 40: loss 2.31, 0.81 sec/step",
    "100%|##########| 3/3 [00:00<00:00, 671.98it/s, loss=0.058]",
    "INFO:     Application startup complete.",
    "SERVE_STANDARD_PASS",
    " 2       1000          1.88           4.02         1.93     \t       1.95\t0.05   \t\t2.31",
)


def explained(*lines: str) -> Account:
    return score(Excerpt("x", {}, "\n".join((*lines, "")).encode())).account


def went_on(*lines: str) -> int:
    return outcome_of(enumerate(lines, 1)).went_on


@pytest.mark.parametrize("result", RESULTS)
def test_what_was_tried_in_vain_is_noted_where_results_follow(result: str) -> None:
    account = explained(TRIED, result)
    assert account.first is None
    assert not account.unknown
    assert [each.kind for each in account.notes] == [Kind.NOTE]
    assert explained(TRIED).first
    assert explained(result, TRIED).first


def test_results_of_another_command_of_a_session_prove_nothing() -> None:
    asked, found = "[user@n1 ~]$ fi_info -p verbs", "fi_getinfo: -61 (No data available)"
    result = "     1048576        262144     float     sum      -1    55.1   19.03   35.68      0"
    assert explained(asked, found, "[user@n1 ~]$ ./all_reduce_perf", result).first
    assert explained(asked, found, "[user@n1 ~]$ tail -1 out.log", result).first is None
    assert explained(found, "[rank 0] # Avg bus bandwidth : 184.2", result).first is None
    assert explained(asked, found, result).first is None


@pytest.mark.parametrize(
    ("before", "after", "fails"),
    [
        ("[srv] finished transferring dataset.tar", "wr_id=3", False),
        ("[srv] all 512 transfers done", "wr_id=3 opcode=RECV", False),
        ("[srv] memory exchange done", "wr_id=3", True),
        ("sending 4096 MB in 4096 chunks", "chunk 811:", True),
        ("[srv] all tests done", "wr_id=3 of a write", True),
        ("[srv] all tests done", "wr_id=3\nreceived 0 of 512 messages", True),
    ],
)
def test_receives_that_are_left_when_the_peer_has_gone_are_flushed(
    before: str, after: str, *, fails: bool
) -> None:
    left = "[srv] RDMA_CM_EVENT_DISCONNECTED"
    what, _, last = after.partition("\n")
    flush = f"[srv] wc error: {what} status=5 (Work Request Flushed Error) vendor_err=0xf9"
    assert bool(explained(before, left, flush, last).first) is fails
    assert explained(flush, before, left).first


def test_a_pingpong_shows_that_a_driver_of_others_was_done_without() -> None:
    driver = (
        "libibverbs: Warning: couldn't load driver 'libmana-rdmav34.so': libmana-rdmav34.so: no"
    )
    result = "8192000 bytes in 0.01 seconds = 7264.61 Mbit/sec"
    assert explained(driver, result).first is None
    assert explained("IB device mlx5_9 not found", result).first
    assert explained(driver, "[user@n1 ~]$ ibv_rc_pingpong n2", result).first


@pytest.mark.parametrize(
    "below",
    [
        "RuntimeError: NCCL error: unhandled system error",
        "n1:7:9 [0] proxy.cc:1 NCCL WARN Call to recv failed",
        "srun: error: node7: task 3: Exited with exit code 1",
    ],
)
def test_results_with_trouble_below_them_prove_nothing(below: str) -> None:
    assert went_on(RESULTS[0]) == 1
    assert went_on(RESULTS[0], below) == 0
    assert went_on(RESULTS[0], below, RESULTS[1]) == 3
    assert explained(TRIED, RESULTS[0], below).first


@pytest.mark.parametrize(
    "failed",
    [
        "n1:7:9 [0] NCCL WARN NET/IB : Got completion with error 12, opcode 0, vendor err 129",
        "[1.1] [n1:7:0] ucp_context.c:690 UCX  WARN  network device 'mlx5_3:1' is not available",
        "ERROR: NET/OFI No eligible providers were found",
    ],
)
def test_a_failure_that_nothing_does_without_stays_one(failed: str) -> None:
    assert explained(failed, RESULTS[0]).first


@pytest.mark.parametrize(
    "ended",
    [
        "Performance:      114.618        0.209",
        "||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=        0.0000521 ...... PASSED",
        "Finalising parallel run",
        "[1,0]<stdout>:Total img/sec on 8 GPU(s): 6090.9 +-7.4",
        "   JOB DONE.",
        "Total wall time: 0:12:04",
        "d01 2026-01-02_00:00:00 wrf: SUCCESS COMPLETE WRF",
    ],
)
def test_a_program_that_ends_well_does_not_show_what_it_went_by(ended: str) -> None:
    forked = "An MPI process has executed an operation involving a call to the"
    forked += '\n"fork()" system call to create a child process.'
    unused = "WARNING: There was an error initializing an OpenFabrics device."
    assert explained(forked, unused, ended).first is None
    crashed = "mpirun noticed that rank 1 exited on signal 11"
    assert explained(forked, ended, crashed).first
    assert explained(forked, crashed, ended).first
    aborts = "Warning: fork() support could not be enabled. Your job will now abort."
    assert explained(forked, aborts, ended).first
    assert explained(TRIED, ended).first
    lacks = f"libibverbs: Warning: no userspace device-specific driver found for {NODE}"
    assert explained(lacks, ended).first


UNUSED = "WARNING: There was an error initializing an OpenFabrics device."


@pytest.mark.parametrize(
    ("rows", "is_well"),
    [
        (("440121        COMPLETED      0:0 ",), True),
        (("440121        COMPLETED      0:0 ", "440121.0      COMPLETED      0:0 "), True),
        (("440121        COMPLETED      0:0 ", "440121.0      FAILED         6:0 "), False),
        (("440121        COMPLETED      0:0 ", "440122        COMPLETED      0:0 "), False),
        (("440121_1      COMPLETED      0:0 ", "440121_2      COMPLETED      0:0 "), False),
        (("440121        TIMEOUT", "440121        COMPLETED      0:0 "), False),
        (("440121        COMPLETED      0:9 ",), False),
        (("440121+0      COMPLETED      0:0 ", "440121+1      TIMEOUT        0:0 "), False),
        (("Submitted batch job 440120", "440121        COMPLETED      0:0 "), False),
        (
            ("440120  gpu  job  user  R  0:41  2  n[1-2]", "440121        COMPLETED      0:0 "),
            False,
        ),
    ],
)
def test_a_job_ended_well_where_all_rows_of_sacct_say_so_of_one(
    rows: tuple[str, ...], is_well: bool
) -> None:
    assert (explained(UNUSED, *rows).first is None) == is_well
    forked = "An MPI process has executed an operation involving a call to the"
    forked += '\n"fork()" system call to create a child process.'
    assert explained(forked, *rows).first  # its data may be wrong


NO_DEVICE = "n1:7:9 [0] NCCL INFO NET/IB : No device found."
NO_LIBRARY = "n1:7:9 [0] NCCL INFO Failed to open libibverbs.so[.1]"
BY_SOCKETS = "n1:7:9 [0] NCCL INFO Using network Socket"


@pytest.mark.parametrize("tried", [NO_DEVICE, NO_LIBRARY])
@pytest.mark.parametrize(
    "there",
    [
        '      rdma/hca_shared_devices_a: "1"',
        "      rdma/hca_shared_devices_a:  1",
        "uverbs0",
        "ibstat on the node shows all 8 ports Active 400",
        (
            "libibverbs: Warning: Driver bnxt_re does not support the kernel ABI of 6 "
            "(supports 1 to 1) for device /sys/class/infiniband/rdma0"
        ),
    ],
)
def test_sockets_are_not_what_was_meant_where_a_device_is_there(tried: str, there: str) -> None:
    assert explained(tried, BY_SOCKETS, RESULTS[0]).first is None
    account = explained(tried, BY_SOCKETS, RESULTS[0], there)
    assert account.first
    assert explained(tried, BY_SOCKETS, there, RESULTS[0]).first
    for none in ("ibstat shows no active port", "ibstat: ports are not active"):
        assert explained(tried, BY_SOCKETS, RESULTS[0], none).first is None
    none = '      rdma/hca_shared_devices_a: "0"'
    assert explained(tried, BY_SOCKETS, RESULTS[0], none).first is None


def test_a_transport_of_gpus_alone_is_lived_without_where_the_job_ends_well() -> None:
    lacks = (
        "[1.4] [n1:7:0]  ucp_context.c:1234 UCX  WARN  transport '{}' is not available, please use"
        " one or more of: cma, {}, self, shm, sm, sysv, tcp"
    )
    gpus, rdma = lacks.format("cuda_ipc", "ib, rc_mlx5"), lacks.format("rc_mlx5", "cma")
    ended = "440121        COMPLETED      0:0 "
    assert explained(gpus, ended).first is None
    assert explained(gpus).first
    assert explained(gpus, "440121        FAILED      1:0 ").first
    assert explained(rdma, ended).first
    assert explained(lacks.format("cuda_ipc", "cma"), ended).first
    gave_up = "[n1:02211] pml_ucx.c:313  Error: Failed to create UCP worker"
    assert explained(gpus, gave_up, ended).first
    assert explained(gpus, gave_up, RESULTS[0]).first


def test_errors_of_a_sweep_of_opensm_are_over_when_the_subnet_is_up() -> None:
    swept = "Aug 27 10:03:11 640114 [799F7700] 0x80 -> Errors during initialization"
    up = "Aug 27 10:03:12 131992 [799F7700] 0x80 -> SUBNET UP"
    assert explained(swept).first
    assert explained(swept, up).first is None
    assert explained(up, swept).first
    assert explained(swept, up, swept, up).first
    assert explained(up.replace("03:12", "01:12"), swept, up, up).first is None
    assert explained(swept.replace("Aug 27", "Aug 28"), up).first  # of another day
    assert explained(swept, "[root@sm2 ~]# tail -1 opensm.log", up).first
    assert explained(swept, up, "leaf1 17[ ] ==( Initialize/  LinkUp)==> node7").first
    assert explained(swept, up, "        State: Initializing").first
    assert explained(UNUSED, up).first


def test_a_server_of_pmix_that_went_with_a_killed_task_is_no_mismatch() -> None:
    gone = "[n2:11790] PMIX ERROR: UNREACHABLE in file server/pmix_server.c at line 2198"
    killed = "srun: error: n1: task 37: Out Of Memory"
    oom = (
        "slurmstepd: error: Detected 1 oom_kill event in StepId=99.0. Some of the step tasks have "
        "been OOM Killed."
    )
    first = explained(gone).first
    assert first
    assert first.causes[0].label == "launcher-mismatch"
    first = explained(gone, oom, killed).first
    assert first
    assert first.causes[0].label == "killed-for-memory"


def test_a_benchmark_of_mpi_does_not_do_without_the_provider_of_a_device() -> None:
    loads = "libibverbs: Warning: couldn't load driver 'libmlx5-rdmav34.so': No such file"
    lacks = f"libibverbs: Warning: no userspace device-specific driver found for {NODE}"
    osu = ("# OSU MPI Bandwidth Test v5.9", "2097152              1139.88")
    account = explained(loads, lacks, *osu)
    assert account.first
    assert account.first.causes[0].label == "provider-missing"
    assert explained(loads, *osu).first is None  # of a device that this host has not
    assert explained(loads, lacks, RESULTS[-1]).first is None
    fast = ("# OSU MPI Bandwidth Test v7.3", "4194304             24570.55")
    assert explained(lacks, *fast).first is None  # by another device
    for head, row in (
        ("# OSU MPI Latency Test v7.3", "8                      24.11"),
        ("# OSU MPI Multiple Bandwidth / Message Rate Test v7.3", "4096   1102.35   269128.31"),
        ("#    Intel(R) MPI Benchmarks 2019 Update 6", "4096   1000   3.67   1114.16"),
    ):
        assert explained(lacks, head, row).first, head


def test_zeros_of_a_dump_are_no_results() -> None:
    assert went_on("00000000 00000000 00000000 00000000") == 0


GONE = (
    "n1:7:9 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer n2<7>"
)


@pytest.mark.parametrize(
    "first",
    [
        "TypeError: 'int' object is not iterable",
        "[rank3]: KeyError: 'labels'",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    ],
)
def test_peers_that_go_after_a_program_failed_are_no_failure_of_rdma(first: str) -> None:
    account = explained(first, GONE)
    assert account.first is None
    assert not account.unknown
    assert account.other
    assert account.other.text == first
    assert explained(GONE, first).first
    assert explained(GONE).first


def test_a_failure_of_rdma_before_the_program_gave_up_stays_one() -> None:
    refused = "n1:7:9 [0] ibvwrap.c:130 NCCL WARN Call to ibv_create_qp failed with error 12"
    assert explained("TypeError: 'int' object is not iterable", refused).first


@pytest.mark.parametrize(
    "over_tcp",
    [
        "[ 175.284154] nvme nvme1: failed to connect socket: -111",
        "[ 175.238676] nvmet_tcp: queue 18 unhandled state 5",
        "# nvme connect-all --transport tcp --traddr 192.0.2.1",
    ],
)
def test_nvme_over_tcp_is_not_of_rdma(over_tcp: str) -> None:
    again = "[ 175.320352] nvme nvme1: Reconnecting in 10 seconds..."
    by_rdma = "[ 175.320350] nvme nvme1: rdma connection establishment failed (-110)"
    assert explained(over_tcp, again).first is None
    assert explained(over_tcp, by_rdma, again).first


def test_an_event_that_breaks_nothing_is_noted_where_a_program_failed_by_itself() -> None:
    event = (
        "n1:7:9 [0] net_ib.cc:100 NCCL WARN NET/IB : mlx5_3:1 Got async event : GID table change"
    )
    fault = "AttributeError: 'NoneType' object has no attribute 'numel'"
    assert explained(event, fault).first is None
    assert explained(event).first


@pytest.mark.parametrize(
    "named",
    [
        "export NCCL_IB_HCA=mlx5_0",
        "hca_id: mlx5_0",
        "n1:7:9 [0] NCCL INFO Bootstrap : Using ibp12s0:192.0.2.1<0>",
    ],
)
def test_a_device_that_is_named_is_wanted(named: str) -> None:
    start = "n1:7:9 [0] NCCL INFO NET/Plugin : No plugin found, using internal implementation"
    absent = "n1:7:9 [0] NCCL INFO NET/IB : No device found."
    assert explained(start, absent).first is None
    assert explained(named, start, absent).first
