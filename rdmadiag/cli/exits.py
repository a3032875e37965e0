"""Exit codes, and how commands end early."""

import errno
from collections.abc import Mapping
from typing import Final

import click

from rdmadiag.frozen import dataclass

OK: Final = 0
WARN: Final = 1
CRITICAL: Final = 2
UNKNOWN: Final = 3
NOT_ATTEMPTED: Final = 3
USAGE: Final = 64
BUG: Final = 70
NOT_WRITTEN: Final = 74
NOT_PERMITTED: Final = 77
WATCHDOG: Final = 124

OF_STATUS: Final = {"ok": OK, "warn": WARN, "critical": CRITICAL, "unknown": UNKNOWN}
"""Status of a verdict → exit code."""


FAILS_ON: Final[dict[str, frozenset[str]]] = {
    "warn": frozenset({"warn", "unknown", "critical"}),
    "unknown": frozenset({"unknown", "critical"}),
    "critical": frozenset({"critical"}),
}
"""--fail-on → the statuses that count; the others exit 0."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What a program that runs us makes of exit codes."""

    fail_on: str  # where --fail-on is not given
    codes: Mapping[str, int]  # of the statuses that count
    failed: int | None  # what is no verdict: usage, output, rights, bugs; None: their own codes
    form: str = "text"  # where -o is not given

    def code(self, status: str, fail_on: str | None) -> int:
        """The exit code of a verdict."""
        counts = FAILS_ON[fail_on or self.fail_on]
        return self.codes[status] if status in counts else OK


MILDEST_FIRST: Final = (OK, WARN, UNKNOWN, CRITICAL)

PROFILES: Final[dict[str, Profile]] = {
    # The Monitoring Plugins' guidelines: what is no answer, a mistake of ours too, is UNKNOWN.
    "nagios": Profile("warn", OF_STATUS, UNKNOWN, "nagios"),
    # A Prolog that fails drains its node and requeues the job, so nothing but a critical
    # verdict may: with a mistake in a file that all nodes read, all would be drained.
    "slurm": Profile("critical", {"warn": 1, "unknown": 1, "critical": 1}, OK),
    # node-problem-detector's custom plugins: 0 OK, 1 a problem, all others unknown.
    "npd": Profile("unknown", {"warn": 1, "unknown": 2, "critical": 1}, 2),
    # An exec probe fails with every other code than 0.
    "k8s": Profile("unknown", {"warn": 1, "unknown": 1, "critical": 1}, 1),
}
"""--profile → what is different with it."""

PLAIN: Final = Profile("warn", OF_STATUS, None)
"""Without --profile."""


SHORTAGE: Final = {
    errno.ENOMEM: "out of memory",
    errno.EMFILE: "too many open files",
    errno.ENFILE: "too many open files",
    errno.EAGAIN: "no process could be started",
}


class Refused(click.ClickException):
    """Something the user asked for cannot be had: one line on stderr, exit 64.

    77 where it is raised from a PermissionError: the host does not let this user have it;
    3 from what this process has too little of.
    """

    exit_code = USAGE


class CannotTell(Refused):
    """Whether it can be had is not known: exit 3."""

    exit_code = UNKNOWN


class NotWritten(Refused):
    """A document cannot be written: exit 74."""

    exit_code = NOT_WRITTEN


def code_of(error: click.ClickException) -> int:
    """The exit code of a command that ended with it."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, PermissionError):
            return NOT_PERMITTED
        if isinstance(cause, OSError) and cause.errno in SHORTAGE:
            return UNKNOWN
        cause = cause.__cause__
    return error.exit_code
