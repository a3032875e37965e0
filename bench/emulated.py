"""Boots one emulated host, has `bench.peers` run there, and makes ratios of its figures."""

import json
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from bench import latency
from bench.pairs import ratio
from bench.peers import INTERPRETER, OURS, PEERS, WALLS
from bench.table import Section, code, factor, spread

DEADLINE_SECONDS = 3600.0  # boot, measurements, power off


def emulated(rounds: int) -> tuple[Section, Section]:
    """Start-up and latency; what could not run is among a section's failures."""
    from lab.failure import LabFailure

    section = _section()
    try:
        found = _in_guest(rounds)
    except LabFailure as failure:
        section.failures.append(f"the emulated host: {failure}")
        return section, latency.section({}, ())
    walls: Mapping[str, Sequence[float]] = found["walls"]
    section.failures += found["failures"]
    for ours in OURS:
        for peer in PEERS:
            if {ours.name, peer.name, INTERPRETER.name} <= walls.keys():
                mine, theirs, bare = (walls[each.name] for each in (ours, peer, INTERPRETER))
                section.rows.append(
                    (
                        code(ours.name),
                        code(peer.name),
                        spread(ratio(mine, theirs)),
                        spread(ratio(bare, theirs)),
                        factor(ratio(mine, bare).median),
                    )
                )
    return section, latency.section(found["half_round_trips"], found["latency_failures"])


def _section() -> Section:
    return Section(
        "Beside today's tools",
        "On an emulated host with two soft RoCE devices (`lab/README.md`), wall time, all commands "
        "in turn; ratios only, as no time measured there means anything by itself. The peers are C "
        "programs that start in milliseconds; an interpreter cannot, and emulation makes it some "
        f"30 times slower than it is. The second ratio is what `{INTERPRETER.name}` alone costs "
        "beside the same peer, the third what rdmadiag costs beside that. The peers show one "
        "source each; preflight reads all of them and judges.",
        (
            "command",
            "beside",
            "ratio",
            f"`{INTERPRETER.name}` beside the same",
            "command beside that import",
        ),
    )


def _in_guest(rounds: int) -> dict[str, Any]:
    from lab import qemu
    from lab.boot import Guest, Job, watch
    from lab.failure import LabFailure
    from lab.image import image
    from lab.kernel import stock_kernel
    from lab.prepare import prepare
    from lab.results import claim

    out = claim("bench")
    argv = ["python", "-m", "bench.peers", str(rounds)]
    prepare()
    job = Job(argv, {"RDMADIAG_LAB": "guest"})
    start = partial(qemu.start, Guest("bench", out), stock_kernel(), image(), job)
    (boot,) = watch([start], time.monotonic() + DEADLINE_SECONDS, side_by_side=1)
    if code := boot.exit_code():
        raise LabFailure(f"bench.peers ended with exit code {code}; see {out.name}/console.txt")
    found: dict[str, Any] = json.loads((out / WALLS).read_text())
    return found
