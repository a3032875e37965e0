"""Completions of several hosts that all name one peer (NCCL, src/transport/net_ib.cc)."""

from collections.abc import Iterator, Sequence
from typing import Final

from rdmadiag.explain.pasted.session import Part, Shown
from rdmadiag.late import late

_ENDED: Final = late(
    r".*?([\w.-]+):\d+:\d+ \[\d+\].*\bGot completion from peer ([\d.]+)<\d+> with status=12\b"
    r".*\blocalGid (\S+)"
)
_SAYS: Final = late(r"([\w.-]{1,64}):\d+:\d+ \[\d+\] ")
ENDS, RAILS = 2, 3


def of_peers(several: Sequence[Part]) -> Iterator[Shown]:
    """Two hosts or more that lose the same third one, by many adapters at once: it is gone."""
    rows = [
        (found, line)
        for part in several
        for line in part.lines
        if (found := _ENDED.match(line.text))
    ]
    hosts, peers, gids = ({found[place] for found, _ in rows} for place in (1, 2, 3))
    speak = {found[1] for part in several for e in part.lines if (found := _SAYS.match(e.text))}
    if speak - hosts:
        return  # perhaps the peer itself, with the reason
    if len(peers) == 1 and len(hosts) >= ENDS and len(gids) >= RAILS:
        yield Shown(("peer-host-down", "peer-gone"), rows[0][1])
