"""The messages of an attempt by librdmacm, once its ends are connected, or in a group."""

import time
from typing import Any, Final

from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.ib import DataOp, QpType
from rdmadiag.verbs.cm_end import CmEnd
from rdmadiag.verbs.cm_steps import Steps
from rdmadiag.verbs.cm_talk import Talk
from rdmadiag.verbs.exchange import STALL_SECONDS, Stalled
from rdmadiag.verbs.open_end import BadCompletion
from rdmadiag.verbs.payloads import Payloads
from rdmadiag.verbs.protocol import ProtocolError

_GREETING: Final = b"rdmadiag"
_SLICE_SECONDS: Final = 0.002  # between two looks at the queues


def exchange(steps: Steps, talk: Talk | None, seed: int) -> Payloads:
    """Verified, again and again, and verified at the end: each message compared.

    Without `talk` both ends are here. Raises Failed, BadCompletion, Stopped, Stalled, Differs,
    ProtocolError, EventFailed, Late and Interrupted.
    """
    steps.begin(Stage.DATA)
    # The end that connects, or the local one of two on one host, sends first.
    starting = [steps.request.meet != "listen", False]
    ends = [
        (side.end, starts)
        for side, starts in zip(steps.members or steps.sides, starting, strict=False)
        if side.end
    ]
    for end, _ in ends:
        end.ask()
    is_send = steps.request.ends[0].op is DataOp.SEND
    is_ud = steps.request.ends[0].qp_type is QpType.UD
    if talk is None and not is_send:
        _greet(steps, ends[0][0], ends[1][0])
    barrier = talk.barrier if talk and not is_send else _none
    payloads = Payloads(
        ends,
        seed,
        steps.request.sizes,
        steps.transcript.write,
        steps.glance,
        barrier,
        # Between two hosts nothing keeps what one SENDs next from coming while the other
        # still waits for its own last send.
        is_timed=(talk is None and not is_ud) or not is_send,
    )
    payloads.move()
    if talk is None:
        payloads.move_last()
    elif steps.request.meet == "connect":
        payloads.move_last()
        talk.send("done")
    else:
        assert steps.sides[0].end
        _move_last_of_listener(steps, payloads, talk, steps.sides[0].end)
    return payloads


def _greet(steps: Steps, local: CmEnd, remote: CmEnd) -> None:
    """iWARP: nothing comes from the end that accepted before it got something: RFC 5044, 7."""
    local.send_message(_GREETING)
    until = time.monotonic() + STALL_SECONDS[QpType.RC]
    got = None
    while got is None or local.sends:
        got = got or remote.received_message()
        local.poll()
        steps.glance()
        if time.monotonic() > until:
            raise Stalled
    if got != _GREETING:
        raise ProtocolError("the first message did not arrive as it was sent")


def _move_last_of_listener(steps: Steps, payloads: Payloads, talk: Talk, end: CmEnd) -> None:
    """The end that connects says that it is done, and may go at once."""
    talk.glance = steps.bounds.glance
    flushed: BadCompletion | None = None
    try:
        payloads.move_last(steps.bounds.glance)
    except BadCompletion as error:
        flushed = error
    _await_done(steps, talk, end, flushed)


def _await_done(steps: Steps, talk: Talk, end: CmEnd, flushed: BadCompletion | None) -> None:
    """Raises `flushed` where the other end went without a word."""
    until = time.monotonic() + STALL_SECONDS[QpType.RC]
    while (content := end.last()) is None:
        if flushed:
            raise flushed
        if time.monotonic() > until:
            raise Stalled
        gone = steps.events.fatal(steps.sides[0].identifier)
        if gone and end.last() is None:
            steps.glance()
        steps.bounds.ready([], time.monotonic() + _SLICE_SECONDS)
        steps.events.take()
    talk.read(content, "done")


def _none(step: str, **content: Any) -> dict[str, Any]:
    """Of SEND, which is strictly in turns, and of two ends on one host."""
    return {}
