"""explain --log on a large log beside grep with 20 alternatives, and its memory.

The log is ordinary output of a training job, with a failure now and then: what a user would
search with grep for the words that RDMA failures have.
"""

import os
from collections.abc import Iterator

from bench.child import Command, CouldNotRun, measure
from bench.commands import rdmadiag
from bench.pairs import in_turn, median, ratio
from bench.table import MB, Section, code, limit, mb, ms, spread

MIB = 1 << 20
SECONDS = 600.0  # for one run
MOST_RATIO = 1.3  # of wall time
MOST_MB = 150.0
FAILED = frozenset({2})  # explain's exit code for a log with a failure
EVERY = 16  # blocks from one failure to the next

ALTERNATIVES = (
    *("ibv_[a-z_]+ failed", "NET/IB.*error", "mlx5_[0-9]+.*fail", "rdma_[a-z]+:", "Got completion"),
    *("UCX +ERROR", "jaccl", "vendor err", "No IB devices", "libfabric.*warn", "completion with"),
    *("IBV_WC_", "retry count", "Transport retry", "memlock", "port error", "to RTR", "wr_id"),
    *("Failed to modify QP", "async event"),
)
GREP = "grep -cE, 20 alternatives"
FAILURE = (
    b"node07:811:902 [3] ibvwrap.c:262 NCCL WARN Call to ibv_modify_qp failed with 110 Connection "
    b"timed out, on dev mlx5_3:1, curr state INIT, next state RTR, local GID index 3, local GID "
    b"::ffff:192.0.2.10, remote GID ::ffff:198.51.100.11\n"
)


def explain(folder: str, rounds: int, mib: int) -> Section:
    """The log, and the same bytes as one line."""
    section = Section(
        "explain --log",
        f"A log of {mib} MiB, written below the folder for temporary files: training steps, NCCL "
        f"INFO, warnings, tracebacks, and a failure of RDMA every {EVERY} MiB; in turn, wall "
        "time, median of the ratios of neighbouring runs (least to most). Peak memory is "
        "wait4's; *one line* is the same log without its newlines.",
        ("command", "beside", "ratio", "limit", "holds", "ms", "ms beside"),
    )
    path = os.path.join(folder, "job.log")
    try:
        write_log(path, mib)
        ours = rdmadiag("explain", "--json", "--log", path, name="rdmadiag explain --log")
        ours = Command(ours.name, ours.argv, FAILED)
        # To a file: grep reads no further than the first match if it writes to /dev/null.
        counting = ("sh", "-c", 'exec grep -cE "$1" "$2" >"$2.count"', "sh")
        theirs = Command(GREP, (*counting, "|".join(ALTERNATIVES), path))
        costs = in_turn((ours, theirs), rounds, SECONDS)
        left, right = ([cost.wall for cost in costs[each]] for each in (ours, theirs))
        found = ratio(left, right)
        section.rows.append(
            (
                code(ours.name),
                code(theirs.name),
                spread(found),
                *limit(found.median, MOST_RATIO),
                ms(median(left)),
                ms(median(right)),
            )
        )
        peaks = [("lines", max(cost.peak for cost in costs[ours]))]
        os.unlink(path)
        write_log(path, mib, one_line=True)
        peaks.append(("one line", measure(ours, SECONDS).peak))
    except (CouldNotRun, OSError) as failure:
        section.failures.append(str(failure))
        return section
    finally:
        if os.path.exists(path):
            os.unlink(path)
    for name, peak in peaks:
        held = limit(peak / MB, MOST_MB, " MB")
        section.rows.append((code(ours.name), f"peak, {name}", f"{mb(peak)} MB", *held, "", ""))
    return section


def write_log(path: str, mib: int, *, one_line: bool = False) -> None:
    """About so many MiB; the same bytes each time."""
    block = b"".join(_lines())
    failure = FAILURE
    if one_line:
        block, failure = block.replace(b"\n", b" "), failure.replace(b"\n", b" ")
    block = (block * (MIB // len(block) + 1))[:MIB]
    with open(path, "wb") as file:
        for number in range(mib):
            file.write(block)
            if number % EVERY == EVERY - 1 or number == mib - 1:
                file.write((b" " if one_line else b"\n") + failure)


def _lines() -> Iterator[bytes]:
    for step in range(500):
        host, gpu = step % 16, step % 8
        yield (
            f"[rank{host}]: 2026-03-13 22:26:{step % 60:02d},{step:03d} - train - INFO - step "
            f"{step} loss {2 + step % 97 / 50:.4f} lr 1.2e-05 tokens/s {4000 + step} grad 0.44\n"
        ).encode()
        yield (
            f"node{host:02d}:{1000 + host}:{2000 + host} [{gpu}] NCCL INFO Channel {gpu:02d}/0 : "
            f"{host}[{gpu}] -> {host + 8}[{gpu}] [send] via NET/IB/{gpu}/GDRDMA\n"
        ).encode()
        if step % 5 == 0:
            yield (
                f"(EngineCore pid={4000 + host}) WARNING 03-13 22:26:{step % 60:02d} "
                f"[scheduler.py:{step}] Request cmpl-{step:08x} waits, timeout 600 s\n"
            ).encode()
        if step % 50 == 0:
            yield b"OSError: [Errno 110] Connection timed out\n"
            yield b'  File "/usr/lib/python3.11/site-packages/torch/utils.py", line 88, in run\n'
