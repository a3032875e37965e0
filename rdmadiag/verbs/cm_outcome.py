"""What an error is of an attempt by librdmacm: the records.Result that is written for it."""

from typing import Final

from rdmadiag.facts.attempt import Outcome, Problem, Stage
from rdmadiag.verbs import protocol
from rdmadiag.verbs.bounds import Interrupted, Late
from rdmadiag.verbs.cm_events import EventFailed, NoEvent
from rdmadiag.verbs.cm_meeting import AnotherDevice, Nobody
from rdmadiag.verbs.exchange import Differs, Stalled
from rdmadiag.verbs.lib import CallFailed
from rdmadiag.verbs.loop import Stopped
from rdmadiag.verbs.open_end import Failed
from rdmadiag.verbs.protocol import ProtocolError
from rdmadiag.verbs.records import Result


class OtherGroup(Exception):
    """The two ends were started with different multicast groups."""

    def __init__(self, ours: str | None, theirs: object) -> None:
        said = "no --multicast" if theirs is None else f"--multicast {protocol.shown(theirs)}"
        super().__init__(f"the peer has {said}, this end {ours or 'none'}")


def result_of(error: BaseException, stage: Stage) -> Result | None:
    """Of all but a completion with an error; None for a bug of ours."""
    if isinstance(error, Failed):
        return Result(
            outcome=Outcome.CALL_FAILED,
            stage=error.stage,
            text=error.text,
            call=error.call,
            errno=error.errno,
        )
    if isinstance(error, CallFailed):  # rdma_get_cm_event, which is nobody's step
        return Result(
            outcome=Outcome.CALL_FAILED,
            stage=stage,
            text=str(error),
            call=error.call,
            errno=error.errno,
        )
    if isinstance(error, EventFailed):
        return Result(outcome=Outcome.CM_EVENT, stage=error.stage)
    if isinstance(error, NoEvent):
        return Result(outcome=Outcome.NO_EVENT, stage=error.stage)
    if code := _PROBLEMS.get(type(error)):
        problem = Problem(code, str(error))
        return Result(outcome=Outcome.MISMATCH, stage=stage, problems=(problem,))
    for kind, outcome in _OUTCOMES.items():
        if isinstance(error, kind):
            return Result(outcome=outcome, stage=stage, text=str(error))
    return None


def wrong_data(error: Stopped, expected: int) -> Result:
    """Of a timed loop that stopped for what arrived; `expected` bytes of each message."""
    text = "a message arrived that was not sent"
    if error.wrong_length is not None:
        text = f"{error.wrong_length} bytes arrived, {expected} were sent"
    return Result(outcome=Outcome.DATA_MISMATCH, stage=Stage.DATA, text=text)


_PROBLEMS: Final[dict[type[BaseException], str]] = {
    AnotherDevice: "another_device",
    OtherGroup: "multicast_group_mismatch",
}
_OUTCOMES: Final[dict[type[BaseException], Outcome]] = {
    Nobody: Outcome.NO_PEER,
    ProtocolError: Outcome.PEER_REFUSED,
    Differs: Outcome.DATA_MISMATCH,
    Stalled: Outcome.NO_DATA,
    Late: Outcome.LATE,
    Interrupted: Outcome.INTERRUPTED,
}
