"""Which MAC address answers for which address: arping(8), and ip-neighbour(8) beside ip-address(8).

Where two interfaces of a host are in one subnet, Linux answers ARP for the address of each by
either (arp_ignore in Documentation/networking/ip-sysctl.rst), so that RDMA for the one arrives
at the other.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from rdmadiag.explain.pasted.session import Part, Shown
from rdmadiag.late import late

_IPV4: Final = r"(\d{1,3}(?:\.\d{1,3}){3})"
_REPLY: Final = late(
    rf"\s*(?:Unicast|Broadcast) reply from {_IPV4} \[([0-9A-Fa-f:]{{17}})\]"  # of iputils
    rf"|\s*\d+ bytes from ([0-9a-f:]{{17}}) \({_IPV4}\)"  # of Thomas Habets
)
_NEIGHBOUR: Final = late(rf"\s*{_IPV4} (?:dev \S+ )?lladdr ([0-9a-f:]{{17,59}})\b")
_BRIEF: Final = late(r"(\w\S*)\s+(?:UP|UNKNOWN)\s+(\d.*)$")
_FAILED: Final = late(r" (?:FAILED|INCOMPLETE)\b")
_LISTED: Final = late(rf"{_IPV4}/\d+")


def of_neighbours(several: Sequence[Part]) -> Iterator[Shown]:
    """What they show, the surest first."""
    yield from _of_two_answers(several)
    yield from _of_one_answer(several)


def _of_two_answers(several: Sequence[Part]) -> Iterator[Shown]:
    """Two MAC addresses answer for one address."""
    seen: dict[str, str] = {}
    for part in several:
        for line in part.lines:
            if found := _REPLY.match(line.text):
                address, mac = (found[1], found[2]) if found[1] else (found[4], found[3])
                if seen.setdefault(address, mac.lower()) != mac.lower():
                    yield Shown(("address-twice", "no-path"), line)
                    return


def _of_one_answer(several: Sequence[Part]) -> Iterator[Shown]:
    """One MAC address answers for addresses that are on two interfaces of a host."""
    on: dict[str, tuple[str, str]] = {}
    for part in several:
        for line in part.lines:
            if row := _BRIEF.match(line.text):
                on |= dict.fromkeys(_LISTED.findall(row[2]), (part.host, row[1]))
    of: dict[str, str] = {}
    for part in several:
        for line in part.lines:
            if not (found := _NEIGHBOUR.match(line.text)) or _FAILED.search(line.text):
                continue
            other = of.setdefault(found[2], found[1])
            here, there = on.get(found[1]), on.get(other)
            if here and there and here != there and here[0] == there[0]:
                yield Shown(("no-path", "gid-does-not-route"), line, context="arp-flux")
                return
