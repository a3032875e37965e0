"""A fleet of any size, merged: what a page, or a table of it, is drawn from. By a seed."""

from collections.abc import Sequence
from random import Random

from rdmadiag.facts.attempt import Outcome
from rdmadiag.fleet.merged import (
    Compatibility,
    Drift,
    Gap,
    Group,
    HardwareClass,
    HostCounts,
    Merged,
    NodeRow,
    Odd,
    Unused,
)
from rdmadiag.fleet.pair_results import Cell, Matrix, OddKind, OddPart, Tournament
from rdmadiag.preflight.verdict import Proof, Severity, Status

FAULTS = (
    # reason, severity, status, one host in so many, summary, evidence, remedy
    (
        "no-subnet-manager",
        Severity.CRITICAL,
        Status.CRITICAL,
        170,
        "mlx5_0/1 is INIT: no subnet manager has configured it",
        Proof("sysfs", "/sys/class/infiniband/mlx5_0/ports/1/state", "2: INIT"),
        ("sminfo   # is there a subnet manager?", "# on its host: systemctl status opensm"),
    ),
    (
        "link-not-up",
        Severity.CRITICAL,
        Status.CRITICAL,
        400,
        "mlx5_3/1 has no link",
        Proof("sysfs", "/sys/class/infiniband/mlx5_3/ports/1/phys_state", "3: Disabled"),
        ("ethtool ens3f0np0   # does it see the cable's module?",),
    ),
    (
        "memlock-low",
        Severity.WARN,
        Status.WARN,
        25,
        "a job may lock 64 KiB of memory",
        Proof("process", "/proc/self/limits: Max locked memory", "65536 65536 bytes"),
        ("# in the unit of slurmd: LimitMEMLOCK=infinity",),
    ),
)
VERSIONS = ("0.1.0", "0.2.0")
LEAST_LATENCY_US, LINE_RATE_GBPS, NOISE = 1.8, 392.0, 0.03


def merged(hosts: int, seed: int = 0) -> Merged:
    """Some of the hosts have a fault of FAULTS, and one in 300 never reported."""
    random = Random(seed)  # noqa: S311 # no secret
    names = names_of(hosts)
    silent = {name for name in names if random.randrange(300) == 0}
    faulty = {
        reason: {name for name in names if name not in silent and random.randrange(rare) == 0}
        for reason, _, _, rare, *_ in FAULTS
    }
    rows = tuple(_row(name, name in silent, faulty, random) for name in names)
    groups = [
        Group(
            reason,
            severity,
            folded(sorted(faulty[reason])),
            len(faulty[reason]),
            summary,
            remedy,
            (proof,),
        )
        for reason, severity, _, _, summary, proof, remedy in FAULTS
        if faulty[reason]
    ]
    if silent:
        detail = "expected, and nothing of it was read"
        never = Group(
            Gap.NEVER_REPORTED, Severity.UNKNOWN, folded(sorted(silent)), len(silent), detail, ()
        )
        groups.insert(len(groups) - 1, never)
    older = names[hosts * 9 // 10 :]
    newer = names[: hosts * 9 // 10]
    odd = sorted(random.sample(newer, max(2, len(newer) // 60)))
    return Merged(
        status=max((row.status or Status.UNKNOWN for row in rows), key=list(Status).index),
        hosts=HostCounts(
            hosts,
            hosts - len(silent),
            sum(row.status in (Status.OK, Status.WARN) for row in rows),
        ),
        groups=tuple(groups),
        unused=(
            *(Unused(Gap.NEVER_REPORTED, name, None, detail) for name in sorted(silent)),
            Unused(Gap.FOREIGN, None, "stdin, line 17", "slurmstepd: error: task 3 was killed"),
        ),
        classes=(
            HardwareClass(
                "A", folded(newer), len(newer), {"device": "ConnectX-7", "rate": "400 Gb/s"}
            ),
            HardwareClass(
                "B",
                folded(older),
                len(older),
                {"device": "ConnectX-6 Dx", "rate": "100 Gb/s"},
                compared=False,
                like="A",
                unlike={"device": "ConnectX-6 Dx"},
            ),
        ),
        drift=(
            Drift(
                "firmware of mlx5_0",
                "A",
                "28.39.1002",
                len(newer) - len(odd),
                (
                    Odd("28.36.1010", folded(odd[1:]), len(odd) - 1),
                    Odd("28.39.2048", odd[0], 1),
                ),
                "",
            ),
            Drift("kernel", "B", None, 0, (Odd("6.1.0-30", folded(older), len(older)),), ""),
        ),
        compatibility=(
            Compatibility(
                "NCCL 2.21",
                folded(newer),
                folded(older),
                False,
                "one picks GID index 3 (RoCE v2), the other 0 (RoCE v1)",
            ),
            Compatibility("NCCL 2.21", folded(newer), folded(newer), True, "both pick RoCE v2"),
            Compatibility("UCX 1.17", folded(newer), folded(older), None, "P_Keys were not read"),
        ),
        rows=rows,
    )


def tournament(nodes: int, rails: int = 1, rounds: int = 5, seed: int = 0) -> Tournament:
    """One node that is slow, one path that fails, and a noise; what is odd stands first."""
    random = Random(seed)  # noqa: S311 # no secret
    names = names_of(nodes)
    slow, one, other = random.sample(names, 3)
    cells = []
    for _ in range(rounds):
        order = random.sample(names, nodes)
        for left, right in zip(order[::2], order[1::2], strict=False):
            for rail in range(rails):
                for sender, receiver in ((left, right), (right, left)):
                    ends = (f"{sender}:mlx5_{rail}", f"{receiver}:mlx5_{rail}")
                    factor = random.lognormvariate(0, NOISE) * (1.6 if sender == slow else 1.0)
                    cells.append(_cell(*ends, factor, random))
    failing = (f"{one}:mlx5_0", f"{other}:mlx5_0")
    cells = [cell for cell in cells if (cell.sender, cell.receiver) != failing]
    cells.append(Cell(*failing, Outcome.NO_DATA, None, None))
    first = [name for name in names if name in (slow, one, other)]
    ordered = [*first, *(name for name in names if name not in first)]
    return Tournament(
        rounds=rounds,
        nodes=nodes,
        matrix=Matrix(
            tuple(f"{name}:mlx5_{rail}" for name in ordered for rail in range(rails)),
            tuple({(cell.sender, cell.receiver): cell for cell in cells}.values()),
        ),
        odd=(
            OddPart(
                OddKind.PATH,
                failing,
                None,
                4,
                True,
                ("round 3: no_data", "repeated in round 6: no_data"),
            ),
            OddPart(
                OddKind.NODE,
                (slow,),
                1.6,
                rounds,
                True,
                (f"as a sender 60 % slower than {rounds} partners expect",),
            ),
        ),
        unreported=(f"{names[-1]}:mlx5_0 in round 2",),
    )


def names_of(hosts: int) -> list[str]:
    """node0001 and so on, as wide as the last."""
    width = len(str(hosts))
    return [f"node{number:0{width}}" for number in range(1, hosts + 1)]


def folded(names: Sequence[str]) -> str:
    """node[1-3,7], of names in order that differ in their number alone."""
    if len(names) < 2:
        return "".join(names)
    stem = names[0].rstrip("0123456789")
    runs: list[list[str]] = []
    for text in (name.removeprefix(stem) for name in names):
        if runs and int(text) == int(runs[-1][-1]) + 1:
            runs[-1][1:] = [text]
        else:
            runs.append([text])
    return f"{stem}[{','.join('-'.join(run) for run in runs)}]"


def _row(name: str, silent: bool, faulty: dict[str, set[str]], random: Random) -> NodeRow:
    if silent:
        return NodeRow(name, None, None, (Gap.NEVER_REPORTED,), None, None)
    reasons = tuple(reason for reason, nodes in faulty.items() if name in nodes)
    found = [status for reason, _, status, *_ in FAULTS if reason in reasons]
    return NodeRow(
        name,
        found[0] if found else Status.OK,
        random.choice(("A", "A", "A", "B")),
        reasons,
        f"2026-11-23T06:{random.randrange(60):02}:{random.randrange(60):02}Z",
        random.choice(VERSIONS),
    )


def _cell(sender: str, receiver: str, factor: float, random: Random) -> Cell:
    again = random.lognormvariate(0, NOISE)
    return Cell(
        sender,
        receiver,
        Outcome.VERIFIED,
        LEAST_LATENCY_US * factor,
        LINE_RATE_GBPS / (factor * again),
    )
