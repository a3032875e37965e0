"""rdmadiag and the tools that users have today, on the guest: `python -m bench.peers ROUNDS`.

Runs inside the emulated host and writes the wall times, in seconds, to $RDMADIAG_LAB_OUT/walls.json
as {"walls": {name: [one a round]}, "half_round_trips": {name: [µs, one a round]},
"failures": [text], "latency_failures": [text]}.
"""

import json
import os
import sys

from bench import latency
from bench.child import Command, CouldNotRun
from bench.commands import gids, imports, preflight
from bench.pairs import check, in_turn

SECONDS = 120.0  # for one run on an emulated processor
WALLS = "walls.json"
DEVICES = 2  # the pair of lab.rxe, one port each

OURS = (gids(ports=DEVICES), preflight(ports=DEVICES))
INTERPRETER = imports("click")
PEERS = (
    Command("ibv_devinfo -v", ("ibv_devinfo", "-v"), key=b"hca_id:", count=DEVICES),
    Command("rdma -j -d link", ("rdma", "-j", "-d", "link"), key=b'"ifname":"rxe', count=DEVICES),
    Command("ibstat", ("ibstat",), key=b"CA 'rxe", count=DEVICES),
)


def main(rounds: str) -> None:
    """Make the devices, measure, and write down."""
    from lab.command import run
    from lab.rxe import add_pair

    add_pair()
    run(["modprobe", "ib_umad"], timeout=60.0)  # ibstat reads /sys/class/infiniband_mad
    usable, failures = [], []
    for command in (*OURS, INTERPRETER, *PEERS):
        try:
            check(command, SECONDS)
        except CouldNotRun as failure:
            failures.append(str(failure))
        else:
            usable.append(command)
    costs = in_turn(usable, int(rounds), SECONDS)
    walls = {command.name: [cost.wall for cost in costs[command]] for command in usable}
    half, unmeasured = latency.measure(int(rounds))
    found = {
        "walls": walls,
        "half_round_trips": half,
        "failures": failures,
        "latency_failures": unmeasured,
    }
    with open(os.path.join(os.environ["RDMADIAG_LAB_OUT"], WALLS), "w", encoding="utf-8") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
