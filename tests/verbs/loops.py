"""Both ends of the timed loop on the fake library: `loops.py LIBRARY OPTIONS`.

OPTIONS is a JSON object that changes what stands in DEFAULTS. Prints one JSON object.
"""

import ctypes
import json
import sys
import time
from typing import Any

from driver import PAGE, RC, SIGNALED, End, say

from rdmadiag.verbs.abi import IbvContext, IbvContextOps, IbvRecvWr, IbvSendWr, IbvSge
from rdmadiag.verbs.loop import RECEIVE, SEND, Loop, Stopped, TimedEnd, compiled

DEFAULTS: dict[str, Any] = {
    "compiled": None,  # the library of the loop
    "kind": RC,
    "iterations": 10,
    "depth": 4,
    "payload": 64,
    "sent": 64,  # bytes that the second end sends
    "starting": 0,
    "slice": 0.5,  # seconds of each run
    "seconds": 20.0,  # after which it is not run again
}


class Ready:
    """An end with its two work requests, and one receive posted."""

    def __init__(self, end: End, payload: int, sent: int) -> None:
        self.end = end
        self._out = IbvSge(end.address, sent, end.lkey)
        self._in = IbvSge(end.address + PAGE // 2, payload, end.lkey)
        self._send = IbvSendWr(
            wr_id=SEND, sg_list=ctypes.pointer(self._out), num_sge=1, opcode=2, send_flags=SIGNALED
        )
        self._receive = IbvRecvWr(wr_id=RECEIVE, sg_list=ctypes.pointer(self._in), num_sge=1)
        end.receive(payload)

    def timed(self, device: str, payload: int, *, starts: bool) -> TimedEnd:
        """Its addresses."""
        ops = IbvContextOps.from_address(self.end.context + IbvContext.ops.offset)
        return TimedEnd(
            device,
            self.end.qp,
            self.end.cq,
            ops.post_send,
            ops.post_recv,
            ops.poll_cq,
            ctypes.addressof(self._send),
            ctypes.addressof(self._receive),
            starts,
            payload,
        )


def run(loop: Loop, options: dict[str, Any]) -> dict[str, Any]:
    """How it ended, and after how many runs."""
    end = time.monotonic() + options["seconds"]
    runs, done = 0, False
    try:
        while not done and time.monotonic() < end:
            runs += 1
            done = loop.run(min(end, time.monotonic() + options["slice"]))
    except Stopped as stopped:
        return {"stopped": {name: value for name, value in vars(stopped).items() if value}}
    return {"done": done, "runs": runs}


def main() -> None:
    options = DEFAULTS | json.loads(sys.argv[2])
    ends = End(0, options["kind"]), End(1, options["kind"])
    ends[0].connect(ends[1])
    ends[1].connect(ends[0])
    lengths = options["payload"], options["sent"]
    ready = [Ready(end, lengths[0], sent) for end, sent in zip(ends, lengths, strict=True)]
    timed_ends = [
        each.timed("ab"[at], lengths[0], starts=at == options["starting"])
        for at, each in enumerate(ready)
    ]
    loop = Loop(compiled(options["compiled"]), timed_ends, options["iterations"], options["depth"])
    result = run(loop, options) | {"rounds": loop.rounds, "times": loop.times_ns}
    if result.get("done"):
        ends[0].send(b"one")
        ends[0].send(b"two")
        result["after"] = [status for _, status, _ in ends[0].poll()]
    say(result)
    for end in ends:
        end.close()


main()
