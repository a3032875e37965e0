"""The Ethernet links below a port, as ethtool netlink shows them."""

from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from rdmadiag.facts import Missing
from rdmadiag.facts.ethtool import ExtendedState, NetdevEthtool
from rdmadiag.facts.evidence import Evidence
from rdmadiag.late import late
from rdmadiag.view.bonds import found_below
from rdmadiag.view.reconcile import DeviceView, PortView

_SPEED: Final = late(r"([0-9]{1,8})base.*/Full")
"""Of a link mode's name, in Mb/s: "100000baseCR4/Full"."""


def links_below(
    device: DeviceView, port: PortView, evidence: Evidence
) -> Iterator[NetdevEthtool | Missing]:
    """Those of a RoCE or iWARP port; of a bond that is one device, each leg's."""
    return found_below(device, port, evidence, evidence.ethtool)


class DownBecause(NamedTuple):
    """Why a link is down, as its driver says."""

    netdev: str
    state: ExtendedState
    substate: str | Missing


def down_because(device: DeviceView, port: PortView, evidence: Evidence) -> DownBecause | None:
    """Of the first link that is down and has a cause."""
    for each in links_below(device, port, evidence):
        link = each if isinstance(each, Missing) else each.link
        if isinstance(each, Missing) or isinstance(link, Missing) or link.up is not False:
            continue
        if not isinstance(link.extended, Missing):
            return DownBecause(each.netdev, link.extended, link.substate)
    return None


class Faster(NamedTuple):
    """A speed that both ends of a link can do, and more than it has."""

    netdev: str
    speed_mbps: int
    best_mbps: int
    modes: tuple[str, ...]  # of the best speed, that both ends can do
    is_advertised: bool  # one of them, here
    autoneg: bool | Missing


def could_be_faster(link: NetdevEthtool) -> Faster | None:
    """None where it could not, or one of the ends does not say what it can do."""
    modes = link.modes
    if isinstance(modes, Missing) or isinstance(modes.speed_mbps, Missing):
        return None
    if isinstance(modes.supported, Missing) or isinstance(modes.peer, Missing):
        return None
    both = [each for each in modes.supported if each in modes.peer]
    best = fastest(both)
    if best <= modes.speed_mbps:
        return None
    of_best = tuple(each for each in both if fastest((each,)) == best)
    advertised = () if isinstance(modes.advertised, Missing) else modes.advertised
    return Faster(
        link.netdev,
        modes.speed_mbps,
        best,
        of_best,
        any(each in advertised for each in of_best),
        modes.autoneg,
    )


def fastest(modes: Collection[str]) -> int:
    """Mb/s; 0 where none has a speed."""
    found = map(_SPEED.fullmatch, modes)
    return max((int(each[1]) for each in found if each), default=0)
