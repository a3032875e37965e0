"""What one node answered to a command that was started there, and how that ended."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from rdmadiag.quoting import printable

LEAST_PYTHON: Final = (3, 11)
"""Of rdmadiag itself."""


class Ending(StrEnum):
    """How the command ended on one node."""

    ANSWERED = "answered"  # whatever its exit code
    NOT_INSTALLED = "not_installed"  # there is no such program on the node
    UNREACHABLE = "unreachable"  # the launcher did not get there
    LATE = "late"  # killed at the node's deadline
    NOT_REACHED_IN_TIME = "not_reached_in_time"  # the deadline of the whole came first
    TOO_MUCH = "too_much"  # it wrote more than is kept
    KILLED = "killed"  # by a signal that was not ours
    COPY_FAILED = "copy_failed"  # what --copy sends did not run there
    NOT_STARTED = "not_started"  # this machine could not start one more process


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """Of one node. What it wrote is hostile text."""

    node: str
    ending: Ending
    code: int | None  # of the command, or of what launched it; None: not known
    stdout: bytes
    stderr: bytes
    cut: bool = False  # whether stderr was longer

    @property
    def said(self) -> str:
        """The last line of stderr: that is where programs say why they gave up."""
        lines = [line for line in self.stderr.decode("utf-8", "replace").splitlines() if line]
        return printable(lines[-1].strip())[:_LINE] if lines else ""

    @property
    def why(self) -> str | None:
        """Why there is no answer, in one line; None where there is one."""
        said = f": {self.said}" if self.said else ""
        match self.ending:
            case Ending.ANSWERED:
                return None
            case Ending.NOT_INSTALLED:
                return f"no rdmadiag there, or not in its PATH{said}"
            case Ending.UNREACHABLE:
                return f"not reached{said}"
            case Ending.LATE:
                return f"did not end before its deadline{said}"
            case Ending.NOT_REACHED_IN_TIME:
                return "the deadline of the whole came first"
            case Ending.TOO_MUCH:
                return "wrote more than is kept, and was ended"
            case Ending.KILLED:
                return f"ended by a signal{said}"
            case Ending.COPY_FAILED:
                return f"the copy did not run there{said}"
            case Ending.NOT_STARTED:
                return "no process could be started for it here"


def ending_of(code: int, stdout: bytes, stderr: bytes, *, by_ssh: bool) -> Ending:
    """How a command ended that was not killed by us. `code` is negative for a signal, as in
    subprocess."""
    if code < 0:
        return Ending.KILLED
    if code == _NOT_FOUND or (not stdout and code and _ABSENT.search(stderr)):
        return Ending.NOT_INSTALLED
    if by_ssh and code == _OF_SSH and not stdout:
        return Ending.UNREACHABLE
    return Ending.ANSWERED


_LINE: Final = 200
_NOT_FOUND: Final = 127  # POSIX.1-2024, Shell Command Language, 2.8.2
_OF_SSH: Final = 255  # ssh(1), EXIT STATUS
# csh and kubectl have exit code 1 for it, runc says it with 126 or 127, slurmstepd with 2.
_ABSENT: Final = re.compile(
    rb"command not found|executable file not found|execve\(\): .*No such file|: not found\s*\Z",
    re.IGNORECASE,
)
