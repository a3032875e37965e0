"""Addresses that two hosts both have, as ifconfig(8) and ip-address(8) list them."""

from collections.abc import Iterator, Sequence
from typing import Final

from rdmadiag.explain.pasted.session import Line, Part, Shown
from rdmadiag.late import late

_INTERFACE: Final = late(r"(\w+\d+): flags=")
_NAMED: Final = late(r"\bifconfig (\w+\d+)\b")
_OF_A_MAC: Final = late(r"\s*inet ([\d.]+) netmask 0x")
_CONTAINER: Final = late(r"[0-9a-f]{12}$")
_OF_LINUX: Final = late(r"\s*(?:\d+: \S+ +)?inet ([\d.]+)/\d+ .*scope global(?: \w+)* (\w[\w.-]*)$")
_ALIKE: Final = late(
    r"(?:lo|docker|virbr|cni|br-|podman|lxc|lxd|veth|flannel|cali|kube|nerdctl|tailscale|wg|bridge"
    r"|vmnet|utun|awdl|llw|anpi)"
)
"""Interfaces of which every host has the same address, or which no other host reaches."""


def of_addresses(several: Sequence[Part]) -> Iterator[Shown]:
    """The second of two hosts that have one address.

    A container in its host's network has its addresses too, so that on Linux it is a guess.
    """
    owners: dict[str, str] = {}
    for part in several:
        if not part.host or _CONTAINER.match(part.host):
            continue
        for address, line in _listed(part):
            if owners.setdefault(address, part.host) != part.host:
                of_a_mac = _OF_A_MAC.match(line.text) is not None
                yield Shown(
                    ("peer-is-own-address", "peer-address-wrong"),
                    line,
                    is_certain=of_a_mac,
                    platform="darwin" if of_a_mac else "linux",
                    context="two hosts",
                )


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
