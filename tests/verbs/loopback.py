"""The program of test_end.py: two ends on one device of the library that argv names.

Prints one JSON object: what was received, or where it failed.
"""

import contextlib
import json
import sys
import time
from ctypes import byref, c_int
from typing import Any

from rdmadiag.gid.gid import Gid
from rdmadiag.ib import LinkLayer, QpType
from rdmadiag.verbs.end import BadCompletion, End, Failed, Local, Remote
from rdmadiag.verbs.lib import CallFailed, Library

SECONDS = 5.0


def main() -> None:
    path, layout, kind, payload = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    library = Library(path)
    count = c_int(0)
    devices = library.call("ibv_get_device_list", byref(count))

    def call(name: str, device: str, *arguments: Any) -> Any:
        return library.call(name, *arguments)

    apple = layout == "darwin"
    local = Local(
        device="rdma_en1" if apple else "mlx5_0",
        port=1,
        link_layer=LinkLayer.THUNDERBOLT if apple else LinkLayer.ETHERNET,
        gid_index=1,
        qp_type=QpType[kind.upper()],
        payload=payload,
        psn=100,
    )
    ends: list[End] = []
    result: dict[str, Any] = {}
    try:
        ends.append(End(call, devices[0], local))
        ends.append(End(call, devices[0], local))
        result |= exchange(*ends)
    except Failed as failed:
        result["failed"] = [failed.stage, failed.call, failed.errno]
    except BadCompletion as bad:
        result["completion"] = [bad.completion.status, bad.completion.vendor_error]
    for end in reversed(ends):
        try:
            end.close()
        except Failed as failed:
            result.setdefault("teardown", [failed.stage, failed.call, failed.errno])
    with contextlib.suppress(CallFailed):
        library.call("ibv_free_device_list", devices)
    sys.stdout.write(json.dumps(result))


def exchange(one: End, other: End) -> dict[str, Any]:
    gid = Gid.parse("::ffff:192.0.2.1")
    for end in (one, other):
        end.to_init()
    for end, far in ((one, other), (other, one)):
        end.to_rtr(Remote(far.queue_pair.number, far.local.psn, 0, gid, 1024))
    for end in (one, other):
        end.to_rts()
    states = [str(end.queue_pair.state()) for end in (one, other)]
    got = []
    for sender, receiver in ((one, other), (other, one)):
        receiver.expect()
        content = bytes(at * 7 & 255 for at in range(sender.local.payload))
        sender.send(content)
        got.append(wait(sender, receiver) == content)
    return {"states": states, "verified": got}


def wait(sender: End, receiver: End) -> bytes | None:
    limit = time.monotonic() + SECONDS
    arrived, sent = None, False
    while time.monotonic() < limit and (arrived is None or not sent):
        arrived = receiver.arrived() if arrived is None else arrived
        sent = sent or sender.sent()
    return arrived


main()
