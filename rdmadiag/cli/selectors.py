"""DEV[:PORT] on the command line."""

from collections.abc import Sequence

from rdmadiag.cli.exits import CannotTell, Refused
from rdmadiag.facts.evidence import Evidence
from rdmadiag.view.select import NoSuchDevice, Selector


def selectors(texts: Sequence[str]) -> tuple[Selector, ...]:
    """What `--device` was given; a port that is no number is refused."""
    try:
        return tuple(Selector.parse(text) for text in texts)
    except ValueError as error:
        raise Refused(f"--device {error}") from error


def not_there(error: NoSuchDevice, evidence: Evidence) -> Refused:
    """How a command ends whose --device names nothing that was seen.

    Where the list of devices could not be read that is no mistake of the user's.
    """
    from rdmadiag.view.unshown import why_unknown

    unread = why_unknown(evidence)
    return CannotTell(f"{error} ({unread})") if unread else Refused(str(error))
