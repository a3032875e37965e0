"""Which of two hosts it is at, where no line says so and no rule of both reports does.

A setting that somebody made, and the other host has not; a GID that a program used as its own,
and its host has no such address. Neither is a fault alone: it is where to look first.
"""

from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Final

from rdmadiag.explain.causes import stated
from rdmadiag.explain.job.story import FirstFailure, PrintedEnd
from rdmadiag.explain.log.account import LikelyCause, Standing
from rdmadiag.facts.attempt import Stage
from rdmadiag.frozen import dataclass
from rdmadiag.view.unusual import Unusual

_SHOWN: Final = 3
_NOT_AN_ADDRESS: Final = "gid-not-an-address"


@dataclass(frozen=True, slots=True)
class OddHost:
    """The host of two that alone has settings which a kernel has not by itself."""

    name: str
    settings: tuple[Unusual, ...]


def of_settings(odd: Sequence[OddHost], label: str) -> tuple[LikelyCause, str, str] | None:
    """The one host that is the odd one of each pair: the cause, it, and what it has."""
    if len({each.name for each in odd}) != 1:
        return None
    only = odd[0]
    shown = "; ".join(f"{each.object}: {each.value}" for each in only.settings[:_SHOWN])
    text = f"the reports: {only.name} alone has what somebody set: {shown}"
    cause = LikelyCause(label, stated(label).text, Standing.POSSIBLE, (text,))
    return cause, only.name, only.settings[0].object


def without_address(
    first: FirstFailure | None,
    printed: Sequence[PrintedEnd],
    addresses: Mapping[str, frozenset[str]],
) -> tuple[LikelyCause, str, str] | None:
    """The one end whose host has no such address as the GID that its program printed of itself:
    nobody answers there for it, and the other end is where that shows.
    """
    if first is None or first.failure.stage is not Stage.RTR or len(printed) < 2:
        return None
    known = [each for each in printed if each.gid and addresses.get(each.host)]
    if len({each.host for each in known}) != 2:
        return None
    missing = [each for each in known if _address(each.gid) not in addresses[each.host]]
    if len({each.host for each in missing}) != 1:
        return None
    end = missing[0]
    text = f"the reports: {end.where} has the GID {end.gid}, and no interface of {end.host} has it"
    cause = LikelyCause(_NOT_AN_ADDRESS, stated(_NOT_AN_ADDRESS).text, Standing.CONFIRMED, (text,))
    return cause, end.host, f"GID {end.gid}"


def _address(gid: str | None) -> str | None:
    """ "::ffff:192.0.2.1" is of 192.0.2.1."""
    if gid is None:
        return None
    try:
        parsed = ip_address(gid)
    except ValueError:
        return None
    mapped = getattr(parsed, "ipv4_mapped", None)
    return str(mapped or parsed)
