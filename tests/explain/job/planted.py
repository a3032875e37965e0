"""A job whose first failure is known: logs as NCCL, launchers and kernels write them.

Forms read in NCCL src/debug.cc (prefix, [%F %T] before WARN), src/init.cc, src/transport/net_ib.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

START = datetime(2026, 3, 13, 12, 0, 0, tzinfo=UTC)
BROKE = 67.0  # seconds after the start


@dataclass
class Job:
    """Ranks on hosts; the link of one host is cut, and ranks of the others say so, one a second."""

    ranks: int = 16
    per_host: int = 4
    cut: int = 2  # number of a host
    skew: Mapping[int, float] = field(default_factory=dict)  # of a host's clock
    missing: frozenset[int] = frozenset()  # ranks without a log

    @property
    def hosts(self) -> int:
        """How many."""
        return self.ranks // self.per_host

    def host_of(self, rank: int) -> int:
        """Its number."""
        return rank // self.per_host

    @property
    def writers(self) -> list[int]:
        """Ranks that say that the cut host is not reached, in order of time."""
        return [each for each in range(self.ranks) if self.host_of(each) != self.cut]

    @property
    def first(self) -> int:
        """The rank that says so first: not the lowest one."""
        writers = [each for each in self.writers if each not in self.missing]
        return writers[len(writers) // 2]

    def after(self, rank: int) -> float:
        """Seconds after the break at which it says so."""
        return float((rank - self.first) % self.ranks) / 4

    def lines(self, rank: int) -> list[tuple[float, str]]:
        """(seconds after the start, line) of a rank."""
        host, device = self.host_of(rank), rank % self.per_host
        prefix = f"node{host}:{8000 + rank}:{9000 + rank} [{device}]"
        ring = f"comm 0x55d0 rank {rank} nranks {self.ranks} cudaDev {device} nvmlDev {device}"
        complete = f"ncclCommInitRank {ring} busId 1b000 commId 0xabcdef12 - Init"
        nics = " ".join(f"[{number}]mlx5_{number}:1/RoCE" for number in range(4))
        using = f"NET/IB : Using {nics} [RO]; OOB eth0:10.0.0.{host}<0>"
        found = [
            (0.0, f"{prefix} NCCL INFO {complete} START"),
            (1.0, f"{prefix} NCCL INFO {using}"),
            (5.0, f"{prefix} NCCL INFO {complete} COMPLETE"),
        ]
        found += [(6.0 + step, f"rank {rank} step {step} timeout 600 s") for step in range(3)]
        if rank in self.writers:
            at = BROKE + self.after(rank)
            completion = (
                f"Got completion from peer 10.0.0.{self.cut}<4{rank:04d}> with "
                "status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) vendor_err=129  localGid "
                f"{gid(host, device)} remoteGids{gid(self.cut, device)} hca mlx5_{device}"
            )
            place = "transport/net_ib/p2p.cc:688 (ncclIbLogCompletionWithError)"
            found.append((at, f"{prefix} {place} NCCL WARN NET/IB: {completion}"))
            watchdog = f"[rank{rank}]:[E313 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught"
            found.append((at + 1, f"{watchdog} collective operation timeout"))
        return found

    def stamped(self, rank: int) -> list[tuple[float, str]]:
        """The same with the time that the rank's host has."""
        skew = self.skew.get(self.host_of(rank), 0.0)
        return [(at, f"[{shown(at + skew)}] {line}") for at, line in self.lines(rank)]

    def files(self, folder: Path) -> None:
        """One log a rank."""
        for rank in range(self.ranks):
            if rank not in self.missing:
                text = "".join(f"{line}\n" for _, line in self.stamped(rank))
                (folder / f"job-rank{rank}.log").write_text(text)

    def together(self, mark: str) -> str:
        """All ranks in one stream, as a launcher marks it: srun, kubectl, or clush."""
        lines = sorted(
            (at, rank, line)
            for rank in range(self.ranks)
            if rank not in self.missing
            for at, line in self.stamped(rank)
        )
        width = len(str(self.ranks - 1))
        marks = {
            "srun": lambda rank: f"{rank:{width}d}: ",
            "kubectl": lambda rank: f"[pod/trainer-{rank}/main] ",
            "clush": lambda rank: f"node{self.host_of(rank)}: ",
        }
        return "".join(f"{marks[mark](rank)}{line}\n" for _, rank, line in lines)


def gid(host: int, device: int) -> str:
    """The GID of a NIC."""
    return f"::ffff:192.0.{device}.{host + 1}"


def shown(seconds: float) -> str:
    """As NCCL prints a time."""
    return (START + timedelta(seconds=seconds)).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
