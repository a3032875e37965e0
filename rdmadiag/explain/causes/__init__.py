"""Every cause of a failure that is known, one row a label; other tables name labels.

>>> stated("firewall").text
'perhaps a firewall drops the connection'
>>> stated("firewall", "no_peer").text
'a firewall drops the TCP connection'
"""

from collections.abc import Iterable
from typing import Final

from rdmadiag.explain.causes import (
    adapters,
    connecting,
    machine,
    objects,
    opening,
    path,
    peer,
    pingpong,
    software,
    thunderbolt,
)
from rdmadiag.explain.causes.cause import Cause, Used
from rdmadiag.explain.remedies import Lines
from rdmadiag.frozen import dataclass

ROWS: Final = (
    *opening.ROWS,
    *objects.ROWS,
    *path.ROWS,
    *peer.ROWS,
    *thunderbolt.ROWS,
    *pingpong.ROWS,
    *connecting.ROWS,
    *software.ROWS,
    *machine.ROWS,
    *adapters.ROWS,
)
CAUSES: Final[dict[str, Cause]] = {row.label: row for row in ROWS}

Labels = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Known:
    """A cause with its label."""

    label: str
    text: str


def stated(label: str, *contexts: str) -> Known:
    """The sentence for the first of the contexts that has its own; raises KeyError."""
    row = CAUSES[label]
    text = next((row.where[each] for each in contexts if each in row.where), row.text)
    return Known(label, text)


def all_stated(labels: Iterable[str], *contexts: str) -> tuple[Known, ...]:
    """The same of several, in their order."""
    return tuple(stated(label, *contexts) for label in labels)


def possible(several: Iterable[Known], used: frozenset[Used]) -> tuple[Known, ...]:
    """Those that what was used does not exclude."""
    return tuple(each for each in several if used.isdisjoint(CAUSES[each.label].excluded_by))


def remedy(label: str, platform: str) -> Lines:
    """Templates of what to look at; empty where nothing is on record for the platform."""
    row = CAUSES[label]
    return {"linux": row.linux, "darwin": row.darwin}.get(platform, ())
