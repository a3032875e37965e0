"""By which transport a client of BeeGFS is connected to its servers: beegfs-net, beegfs-ctl."""

from collections.abc import Iterator, Sequence
from typing import Final

from rdmadiag.explain.pasted.session import Line, Part, Shown
from rdmadiag.late import late

_SECTION: Final = late(r"(\w+)_nodes\s*$")
_CONNECTIONS: Final = late(r"\s*Connections: (RDMA|TCP): \d+ \(\S+:(\d+)\b")
_OF_MANAGEMENT: Final = "8008"  # connMgmtdPort; mgmtd is reached by TCP alone, always
_FALLBACK: Final = late(r"\s*Connections: TCP: .*\[fallback route\]")
"""An address that is tried once the preferred ones have failed."""
_OFFERED: Final = late(r"\s*\+ \S+\[ip addr: \S+; type: RDMA\]")


def of_beegfs(several: Sequence[Part]) -> Iterator[Shown]:
    """TCP to one of the servers alone, or to all, though they offer RDMA."""
    offered = any(_OFFERED.match(line.text) for part in several for line in part.lines)
    for part in several:
        connected: dict[str, Line] = {}
        section = ""
        for line in part.lines:
            if found := _SECTION.match(line.text):
                section = found[1]
            found = _CONNECTIONS.match(line.text)
            if found and section != "mgmt" and found[2] != _OF_MANAGEMENT:
                connected.setdefault(found[1], line)
        if "TCP" in connected and "RDMA" in connected:
            causes = ("feature-not-built", "no-rdma-at-address", "peer-interface-down")
            yield Shown(causes, connected["TCP"], False)
        elif "TCP" in connected and offered:
            yield Shown(("feature-not-built", "rdma-off-by-variable"), connected["TCP"], False)
        elif "TCP" in connected and _FALLBACK.match(connected["TCP"].text):
            causes = ("feature-not-built", "peer-unreachable", "no-rdma-at-address")
            yield Shown(causes, connected["TCP"], False)
