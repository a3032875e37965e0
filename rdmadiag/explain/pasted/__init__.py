"""Listings and sessions of a terminal: what they show of a host, though no line says so.

Whoever asks for help pastes what ibstat, ethtool or show_gids print. Each file reads some of
these listings; all are pure functions on the parts of the paste.
"""

from collections.abc import Iterator
from itertools import chain

from rdmadiag.explain.pasted.session import Shown, parts


def shown(text: str) -> Iterator[Shown]:
    """What the listings of a paste show to be wrong, each kind of it once."""
    from rdmadiag.explain.pasted.accelerators import of_accelerators
    from rdmadiag.explain.pasted.addresses import of_addresses
    from rdmadiag.explain.pasted.beegfs import of_beegfs
    from rdmadiag.explain.pasted.beside import of_others
    from rdmadiag.explain.pasted.counters import of_counters
    from rdmadiag.explain.pasted.gid_rows import of_gids
    from rdmadiag.explain.pasted.host_state import of_host
    from rdmadiag.explain.pasted.libraries import of_libraries
    from rdmadiag.explain.pasted.macs import of_macs
    from rdmadiag.explain.pasted.names import of_names
    from rdmadiag.explain.pasted.neighbours import of_neighbours
    from rdmadiag.explain.pasted.opensm import of_opensm
    from rdmadiag.explain.pasted.peers import of_peers
    from rdmadiag.explain.pasted.ports import of_ports
    from rdmadiag.explain.pasted.services import of_services
    from rdmadiag.explain.pasted.two_hosts import of_two_hosts
    from rdmadiag.explain.pasted.ways import of_ways
    from rdmadiag.explain.pasted.windows import of_windows

    several = parts(text)
    hosts = {line: part.host for part in several for line in part.lines}
    seen = set[tuple[str, ...]]()
    first = {each.causes[0] for each in of_libraries(several)}
    for each in chain(
        of_others(several),
        of_addresses(several),
        of_neighbours(several),
        of_macs(several),
        of_libraries(several),
        of_names(several),
        of_two_hosts(several),
        of_peers(several),
        of_ports(several),
        of_gids(several),
        of_counters(several),
        of_host(several),
        of_ways(several),
        of_beegfs(several),
        of_opensm(several),
        of_accelerators(several),
        of_services(several),
        of_windows(several),
    ):
        if each.causes[0] == "netdev-in-other-netns" and "provider-release" in first:
            continue  # no device is opened, wherever its netdev is
        if each.causes not in seen:
            seen.add(each.causes)
            yield each._replace(host=hosts.get(each.line, ""))
