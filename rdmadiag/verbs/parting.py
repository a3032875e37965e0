"""How a run ends by its peer, or by what bounds it from outside."""

from typing import Final

from rdmadiag.facts.attempt import Outcome, Problem, Stage
from rdmadiag.verbs.bounds import Interrupted, Late
from rdmadiag.verbs.meeting import NoPeer
from rdmadiag.verbs.peer import Mismatched, PeerFailed, PeerLost
from rdmadiag.verbs.protocol import ProtocolError
from rdmadiag.verbs.records import Result

_OUTCOMES: Final[dict[type[BaseException], Outcome]] = {
    ProtocolError: Outcome.PEER_REFUSED,
    PeerLost: Outcome.PEER_LOST,
    Late: Outcome.LATE,
    Interrupted: Outcome.INTERRUPTED,
}


def ended_by(error: BaseException, stage: Stage) -> Result | None:
    """What this error is of a run; None for one that is neither of the peer nor of bounds."""
    if isinstance(error, PeerFailed):
        return Result(
            outcome=Outcome.PEER_FAILED,
            stage=stage,
            text=error.failure.text,
            peer_failure=error.failure,
        )
    if isinstance(error, NoPeer):
        return Result(
            outcome=Outcome.NO_PEER,
            stage=stage,
            text=str(error),
            errno=error.errno,
            is_this_host=error.is_this_host,
        )
    if isinstance(error, Mismatched):
        problems = tuple(Problem(each.code, each.text) for each in error.ours or error.theirs)
        return Result(outcome=Outcome.MISMATCH, stage=stage, text=str(error), problems=problems)
    for kind, outcome in _OUTCOMES.items():
        if isinstance(error, kind):
            return Result(outcome=outcome, stage=stage, text=str(error))
    return None
