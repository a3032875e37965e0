"""How a program ended that failed of something else is quoted: no log of it is called OK."""

import io

import pytest

from rdmadiag.explain.log.account import Account
from rdmadiag.explain.log.recognition.vocabulary import NEEDLES
from rdmadiag.explain.log.scan import collect
from rdmadiag.explain.log.text.endings import Ending, end_of, ending_in_short, ending_of, read_end
from rdmadiag.sieve.lines import Sieve


def read(log: str) -> Account:
    """As the command reads a log, but for what was learned."""
    sieve = Sieve(NEEDLES)
    collector = collect(sieve.segments(io.BytesIO(log.encode())))
    read_end(collector, sieve.end, sieve.lines)
    return collector.account(sieve.lines, sieve.bytes)


@pytest.mark.parametrize(
    "line",
    [
        "ValueError: invalid sample",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "[rank3]: RuntimeError: DataLoader worker (pid 7) exited unexpectedly",
        "(RayWorker pid=7, ip=192.0.2.7) KeyError: 'model'",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "[  400.000001] Out of memory: Killed process 4411 (python) total-vm:812kB",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.",
        "n1:9:9 [0] include/alloc.h:125 NCCL WARN Cuda failure 2 'out of memory'",
        "job.sh: line 1: 4411 Segmentation fault (core dumped) ./solver",
        "[ 2853.9] BUG: unable to handle kernel NULL pointer dereference at 0",
    ],
)
def test_a_reason(line: str) -> None:
    assert ending_of(line) is Ending.REASON


NOT_STARTED = [
    # bash, dash, util-linux, coreutils, sudo
    "bash: line 1: solver: command not found",
    "./run.sh: 4: exec: /opt/solver: Argument list too long",
    "bash: ./solver: cannot execute binary file: Exec format error",
    "taskset: failed to set pid 812's affinity: Invalid argument",
    "chrt: failed to set pid 0's policy: Operation not permitted",
    "timeout: failed to run command 'solver': No such file or directory",
    "sudo: a password is required",
    "zsh: command not found: solver",
    "job: this host is in maintenance, nothing is started",
    "start: backups run on this host, no server is started",
    "Fatal Python error: init_fs_encoding: failed to get the Python codec of the filesystem",
    "sh: 1: solver: not found",
]


@pytest.mark.parametrize("line", NOT_STARTED)
def test_a_program_that_was_not_started_is_no_log_without_a_failure(line: str) -> None:
    assert ending_in_short(line) is Ending.REASON
    found = read(f"{line}\n")
    assert found.other or found.failures


@pytest.mark.parametrize(
    "line",
    [
        "srun: error: node01: tasks 0-7: Exited with exit code 1",
        "slurmstepd: error: *** STEP 811.0 ON node01 CANCELLED AT 2026-05-02T01:05:30 ***",
        "= BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
        "mpirun noticed that process rank 3 with PID 7 on node n1 exited on signal 9 (Killed).",
        "  exitcode  : -9 (pid: 4411)",
        "Warning  BackOff  kubelet  Back-off restarting failed container",
    ],
)
def test_a_status(line: str) -> None:
    assert ending_of(line) is Ending.STATUS


@pytest.mark.parametrize(
    "line",
    [
        "step 40: exit code 0",
        "exitcode : 0",
        "[INFO] retried after a TimeoutError: the peer was late",
        "# RuntimeError: in a comment",
        "If you see a RuntimeError: restart the job",
        "the solver returns a ValueErrors object",
    ],
)
def test_no_ending(line: str) -> None:
    assert ending_of(line) is None
    assert ending_in_short(line) is None


@pytest.mark.parametrize(
    "line",
    [
        "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install.",
        "triton.runtime.errors.OutOfResources: out of resource: shared memory",
        "CMake Error at CMakeLists.txt:12 (find_package):",
        "solver.c:3:10: fatal error: infiniband/verbs.h: No such file or directory",
        "/usr/bin/ld: cannot find -libverbs: No such file or directory",
        "E: Unable to locate package perftest",
        'Error from server (Forbidden): pods is forbidden: User "user" cannot list resource "pods"',
    ],
)
def test_what_failed_of_something_else_is_no_log_without_a_failure(line: str) -> None:
    account = read(f"{line}\n")
    assert account.first is None
    assert account.other is not None


def test_what_only_names_trouble_counts_in_a_short_text() -> None:
    line = "ERROR: failed to save the checkpoint: no space left on /mnt/ckpt"
    assert ending_of(line) is None
    assert ending_in_short(line) is Ending.TROUBLE
    assert read(f"step 1\n{line}\n").other is not None
    assert read("step 1\n" * 100 + f"{line}\n").other is None


def test_the_first_reason_is_kept_before_what_followed_from_it() -> None:
    other = read(
        "srun: error: n1: task 0: Exited with exit code 1\n"
        "ValueError: invalid sample\n"
        "RuntimeError: a worker died\n"
        "ERROR: the job failed\n"
    ).other
    assert other is not None
    assert (other.line, other.text) == (2, "ValueError: invalid sample")


def test_the_end_of_a_long_log_is_looked_at_with_the_numbers_of_its_lines() -> None:
    other = read("step\n" * 100_000 + "ValueError: invalid sample\nbye\n").other
    assert other is not None
    assert other.line == 100_001


def test_far_above_the_end_of_a_long_log_nothing_is_looked_for() -> None:
    assert read("ValueError: it was caught\n" + "step\n" * 100_000).other is None


def test_a_failure_that_is_known_needs_no_other() -> None:
    account = read("NCCL WARN Call to ibv_modify_qp failed with 110\nValueError: bad\n")
    assert account.first is not None
    assert account.other is None


NO_HEADERS = "Error! Your kernel headers for kernel 6.1.0-18-amd64 cannot be found at /lib/modules"


def test_a_message_that_names_its_cause_is_shown_before_how_the_program_ended() -> None:
    other = read(f"building\n{NO_HEADERS}\n" + "make\n" * 100 + "ValueError: bad\n").other
    assert other is not None
    assert (other.line, other.text) == (2, NO_HEADERS)
    assert [each.label for each in other.causes] == ["kernel-module-missing"]
    assert other.next


def test_a_message_that_names_its_cause_says_nothing_in_a_long_log_that_ends_well() -> None:
    assert read(f"{NO_HEADERS}\n" + "step\n" * 100).other is None


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("ValueError: bad\n", ["program-error"]),
        ("bench exited with code 1\n", []),
        ("it failed\n", []),
    ],
    ids=["an exception", "a status, whatever it came of", "trouble"],
)
def test_an_exception_is_the_programs_own_and_a_status_may_be_of_anything(
    text: str, labels: list[str]
) -> None:
    other = read(text).other
    assert other is not None
    assert ([each.label for each in other.causes], other.next) == (labels, ())


def test_a_healthy_log_has_none() -> None:
    assert read("NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE\nstep 1 loss 2\n").other is None


@pytest.mark.parametrize("piece", ["[a] ", "(a) ", "1: ", "a.", "ERROR 1 ", "exit "])
def test_no_line_takes_long(piece: str) -> None:
    import time

    began = time.process_time()
    ending_of((piece * 4096)[:4096] + "Error")
    assert time.process_time() - began < 1.0


def test_a_message_that_healthy_hosts_print_too_ends_no_program() -> None:
    healthy = "Use reduced queue depth 127 (from 128)"
    line = f"LNetError: 12:0:(o2iblnd.c:873:kiblnd_create_conn()) {healthy}"
    assert end_of(line.encode(), 1) is None
    assert end_of(line.replace(healthy, "frobnication failed").encode(), 1) is not None


def test_beside_a_result_a_command_that_was_not_found_is_nothing() -> None:
    result = (
        "  local address:  LID 0x0000, QPN 0x000011, PSN 0x1, GID ::ffff:192.0.2.1\n"
        "  remote address: LID 0x0000, QPN 0x000012, PSN 0x2, GID ::ffff:192.0.2.2\n"
        "409600 bytes in 0.03 seconds = 129.52 Mbit/sec\n"
        "50 iters in 0.03 seconds = 505.98 usec/iter\n"
    )
    assert read(f"bash: line 3: module: command not found\n{result}").other is None


JOB = "n1:9:9 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:192.0.2.11<0>\n"


@pytest.mark.parametrize(
    ("line", "label"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.", "gpu-memory-full"),
        ("RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED", "gpu-memory-full"),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "gpu-fault"),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.", "killed-for-memory"),
        ("  Reason: OOMKilled", "killed-for-memory"),
        ("RuntimeError: can't start new thread", "process-limit"),
        ("OSError: [Errno 28] No space left on device: '/scratch/step7.pt'", "disk-full"),
        ("OSError: [Errno 122] Disk quota exceeded", "disk-full"),
        ("The node was low on resource: ephemeral-storage.", "disk-full"),
        (
            "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 10:00 DUE TO TIME LIMIT ***",
            "job-ended",
        ),
        (
            "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 10:00 DUE TO PREEMPTION ***",
            "job-ended",
        ),
        ("=>> PBS: job killed: walltime 3612 exceeded limit 3600", "job-ended"),
        ("torch.distributed.elastic.multiprocessing.errors.ChildFailedError:", "program-error"),
        ("mpirun has detected an attempt to run as root.", "program-not-started"),
        ("OSError: We couldn't connect to 'https://huggingface.co' to load", "outside-unreachable"),
    ],
)
def test_what_ends_most_jobs_and_is_none_of_rdma_is_named(line: str, label: str) -> None:
    account = read(f"{JOB}{line}\n")
    assert account.first is None
    assert account.other is not None
    assert account.other.causes[0].label == label


def test_dev_shm_that_is_full_is_no_disk() -> None:
    full = "OSError: [Errno 28] No space left on device: '/dev/shm/torch_7'"
    first = read(f"{JOB}{full}\n").first
    assert first is not None
    assert first.causes[0].label == "shm-too-small"


@pytest.mark.parametrize(
    "traceback",
    [
        'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n    import b\n',
        'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    g(x)\n    ~^^^\n',
        '[rank3]: Traceback (most recent call last):\n[rank3]:   File "a.py"\n[rank3]: g()\n',
    ],
    ids=["a frame", "a frame of 3.11", "a rank's"],
)
def test_of_a_traceback_the_exception_is_quoted(traceback: str) -> None:
    other = read(f"{JOB}{traceback}ModuleNotFoundError: No module named 'b'\n").other
    assert other is not None
    assert other.text == "ModuleNotFoundError: No module named 'b'"


def test_an_exception_says_more_than_the_launcher_that_saw_a_rank_fail() -> None:
    launcher = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
    other = read(f"{JOB}ValueError: bad shape\n{launcher}").other
    assert other is not None
    assert other.text == "ValueError: bad shape"
    assert [each.label for each in other.causes] == ["program-error"]


def test_what_a_batch_system_says_below_a_line_is_no_part_of_it() -> None:
    ended = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 10:00 DUE TO TIME LIMIT ***"
    account = read(f"RDMA: frobnication failed\n{ended}\n")
    assert account.other is not None
    assert (account.other.line, account.other.text) == (2, ended)


def test_what_is_known_of_its_message_is_shown_beside_it() -> None:
    other = read(f"{JOB}slurmstepd: error: Exceeded step memory limit at some point.\n").other
    assert other is not None
    assert other.message is not None
    assert other.message.about == "the memory of the step is used up (--mem)"


FULL = "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
STATUS_12 = (
    "n3:9:9 [0] net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 192.0.2.11<5> with "
    "status=12 opcode=0 len=0 vendor err 129 (Send) hca mlx5_0"
)
GONE = "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting"


def test_what_ended_a_program_before_rdma_failed_is_told_beside_it() -> None:
    account = read(f"{JOB}{FULL}\n{STATUS_12}\n")
    assert account.first is not None
    assert account.other is not None
    assert (account.other.line, account.other.causes[0].label) == (2, "gpu-memory-full")


def test_what_ended_a_program_after_it_is_not() -> None:
    account = read(f"{JOB}{STATUS_12}\n{FULL}\n")
    assert account.first is not None
    assert account.other is None


def test_of_a_long_log_what_only_followed_from_it_is_no_failure() -> None:
    account = read("step\n" * 400 + f"{JOB}{FULL}\n{GONE}\n")
    assert account.first is None
    assert account.other is not None
    assert account.other.causes[0].label == "gpu-memory-full"
