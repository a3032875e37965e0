"""Addresses that two hosts both have, as ifconfig(8) and ip-address(8) list them."""

from collections.abc import Iterator, Sequence
from typing import Final

from rdmadiag.explain.pasted.session import Line, Part, Shown
from rdmadiag.late import late

_INTERFACE: Final = late(r"(\w+\d+): flags=")
_NAMED: Final = late(r"\bifconfig (\w+\d+)\b")
_OF_A_MAC: Final = late(r"\s*inet ([\d.]+) netmask 0x")
_OF_LINUX: Final = late(r"\s*(?:\d+: \S+ +)?inet ([\d.]+)/\d+ .*scope global(?: \w+)* (\w[\w.-]*)$")
_ALIKE: Final = late(
    r"(?:lo|docker|virbr|cni|br-|podman|lxc|lxd|veth|flannel|cali|kube|nerdctl|tailscale|wg|bridge"
    r"|vmnet|utun|awdl|llw|anpi)"
)
"""Interfaces of which every host has the same address, or which no other host reaches."""


def of_addresses(several: Sequence[Part]) -> Iterator[Shown]:
    """The second of two hosts that have one address."""
    owners: dict[str, str] = {}
    for part in several:
        for address, line in _listed(part) if part.host else ():
            if owners.setdefault(address, part.host) != part.host:
                yield Shown(("peer-is-own-address", "peer-address-wrong"), line)


def _listed(part: Part) -> Iterator[tuple[str, Line]]:
    named = _NAMED.search(part.command)
    name = named[1] if named else ""
    for line in part.lines:
        if found := _INTERFACE.match(line.text):
            name = found[1]
        elif found := _OF_A_MAC.match(line.text):
            if name and not _ALIKE.match(name):
                yield found[1], line
        elif (found := _OF_LINUX.match(line.text)) and not _ALIKE.match(found[2]):
            yield found[1], line
