"""Whether a session shows one host, of whose RDMA ports all are of Ethernet.

The tools of InfiniBand's management (infiniband-diags) then have nothing to open, and no failure
of theirs is one. Nothing less shows it: another host, a container, or a device that the listing
was not asked for may have ports of InfiniBand.
"""

import re
from collections.abc import Sequence
from typing import Final

from rdmadiag.explain.pasted.session import Part, parts
from rdmadiag.late import late

_LISTS_ALL: Final = late(r"(?:sudo )?(?:ibstat|ibv_devinfo|ibstatus)\s*$")
_NAMES_ONE: Final = late(r"(?:sudo )?(?:ibstat|ibstatus|ibv_devinfo -d) +(?!-)(\S+)\s*$")
_LAYER: Final = late(r"\s*link[_ ]layer:\s+(InfiniBand|Ethernet)\s*$", re.IGNORECASE)
_ACTIVE: Final = late(r"\s*state:\s+(?:Active|PORT_ACTIVE \(4\)|4: ACTIVE)\s*$", re.IGNORECASE)
_ELSEWHERE: Final = late(
    r"\b(?:ssh|pdsh|clush|srun|mpirun|kubectl|oc|docker|podman|nsenter|virsh|chroot|enroot) "
)
_ANOTHER: Final = late(
    r"==> ib|\bnetdev ib|\b(?:ib\d+|ib[ps]\d\w*): |link/infiniband|\bIPoIB\b|/IB\b|\buverbs[1-9]"
    r"|\bInfiniband controller\b"
    # a heading, below which another host's lines may stand
    r"|^\W{0,3}(?:server|client|peer|other|remote|node|host)\w*\W{0,3}$"
)
"""Ports or devices that are none of those, or another host."""
_DEVICE: Final = late(r"\b(?:mlx[45]_\w+|(?:roce|ib)p\d+s\d+\w*|irdma\d+|bnxt_re\w+|qedr\d+)\b")


def is_of_ethernet(text: str) -> bool:
    """Whether it lists all ports of its only host, one of them active and none of InfiniBand."""
    several = [part for part in parts(text) if part.command or part.lines]
    hosts = {part.host for part in several}
    if len(hosts) != 1 or "" in hosts or any(_ELSEWHERE.search(part.command) for part in several):
        return False
    lines = [line.text for part in several for line in part.lines]
    layers = {found[1].lower() for line in lines if (found := _LAYER.match(line))}
    if layers != {"ethernet"} or not any(map(_ACTIVE.match, lines)):
        return False
    return not any(map(_ANOTHER.search, lines)) and _lists_all(several, text)


def _lists_all(several: Sequence[Part], text: str) -> bool:
    """Whether a listing was asked for all devices, or for the only one that the session names."""
    if any(_LISTS_ALL.match(part.command) for part in several):
        return True
    asked = {found[1] for part in several if (found := _NAMES_ONE.match(part.command))}
    return len(asked) == 1 and {*_DEVICE.findall(text)} <= asked
