"""DEV[:PORT] on the command line."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rdmadiag.cli.exits import CannotTell, Refused
from rdmadiag.facts.evidence import Evidence
from rdmadiag.view.select import NoSuchDevice, Selector

if TYPE_CHECKING:
    from rdmadiag.view.reconcile import DeviceView


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


def selected(texts: Sequence[str], evidence: Evidence) -> "tuple[DeviceView, ...]":
    """The devices and ports that were asked for, or all; raises Refused or CannotTell."""
    from rdmadiag.view.reconcile import devices
    from rdmadiag.view.select import select

    wanted = selectors(texts)
    try:
        return select(devices(evidence), wanted)
    except NoSuchDevice as error:
        raise not_there(error, evidence) from error
