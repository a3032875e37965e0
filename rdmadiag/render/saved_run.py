"""What `exercise --json`, `pingpong --json` and `job --json` printed into a file, read back."""

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rdmadiag.facts import Identity
from rdmadiag.facts.exercise import Cell
from rdmadiag.facts.job import JobFacts

if TYPE_CHECKING:
    from rdmadiag.preflight.judge_job import JobVerdict
    from rdmadiag.view.job import JobView

_MOST_BYTES: Final = 1 << 20
_MOST_OF_A_JOB: Final = 16 << 20


class SavedRunError(Exception):
    """A saved run that cannot be used; the message is one line."""


class SavedExercise(NamedTuple):
    """What of a matrix is read back."""

    hostname: str
    device: str | None
    cells: tuple[Cell, ...]


class SavedPingpong(NamedTuple):
    """What of an outcome is read back."""

    hostname: str
    verified: tuple[tuple[str, int], ...]  # devices and ports of that host


class SavedJob(NamedTuple):
    """A job's part on another host."""

    host: Identity
    facts: JobFacts
    verdict: "JobVerdict"
    view: "JobView"


def read_exercise(path: str, deadline: float) -> SavedExercise:
    """What `exercise --json` printed into a file; raises SavedRunError."""
    from rdmadiag.render.documents import ExerciseDocument

    found = _read(path, "exercise", ExerciseDocument, deadline)
    return SavedExercise(found.host.hostname, found.device, found.cells)


def read_pingpong(path: str, deadline: float) -> SavedPingpong:
    """What `pingpong --json` printed into a file; raises SavedRunError."""
    from rdmadiag.facts.attempt import Outcome
    from rdmadiag.render.documents import PingpongDocument

    found = _read(path, "pingpong", PingpongDocument, deadline)
    is_verified = found.outcome is Outcome.VERIFIED and found.data_verified
    ours = (found.local, found.remote) if found.role is None else (found.local,)
    ports = tuple((each.device, each.port) for each in ours if each) if is_verified else ()
    return SavedPingpong(found.host.hostname, ports)


def read_job(path: str, deadline: float) -> SavedJob:
    """What `job --json` printed into a file: with --watch its last line; raises SavedRunError."""
    from rdmadiag.render.documents import JobDocument
    from rdmadiag.view.job import JobView

    found: Any = _read(path, "job", JobDocument, deadline, _MOST_OF_A_JOB, last=True)
    view = JobView(**{name: getattr(found, name) for name in JobView.__dataclass_fields__})
    return SavedJob(found.host, found.job, found.verdict, view)


def _read(
    path: str,
    command: str,
    model: Any,
    deadline: float,
    most: int = _MOST_BYTES,
    *,
    last: bool = False,
) -> Any:
    from pydantic import ValidationError

    from rdmadiag.host.given_file import read_given

    try:
        content = read_given(path, most, deadline)
        if len(content) > most:
            raise SavedRunError(f"{path}: longer than {most // 1024} KiB")
        if last:
            content = content.rstrip().rpartition(b"\n")[2]
        return model.model_validate_json(content)
    except OSError as error:
        raise SavedRunError(f"{path}: {error.strerror}") from error
    except ValidationError as error:
        what = error.errors()[0]["msg"]
        raise SavedRunError(f"{path}: not a document of {command} --json: {what}") from error
