"""/etc/hosts: names that need no question to anybody.

192.0.2.2    node2 node2.example
"""

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.address import packed_ipv4, packed_ipv6, printed
from rdmadiag.host import Host

PATH = "/etc/hosts"


def parse_hosts(raw: bytes) -> dict[str, tuple[str, ...]]:
    """Name → its addresses, in their order; what is no row of hosts(5) is left out."""
    found: dict[str, list[str]] = {}
    for line in raw.decode("utf-8", "replace").splitlines():
        address, *names = line.partition("#")[0].split() or [""]
        try:
            own = printed(packed_ipv6(address) if ":" in address else packed_ipv4(address))
        except (OSError, ValueError):
            continue
        for name in names:
            found.setdefault(name.lower(), []).append(own)
    return {name: tuple(addresses) for name, addresses in found.items()}


def addresses_of(host: Host, name: str) -> tuple[str, ...] | Missing:
    """Those that the file has for a name."""
    raw = host.read(PATH)
    if isinstance(raw, Missing):
        return raw
    return parse_hosts(raw).get(name.lower()) or Missing(Why.ABSENT, f"{PATH} has no {name!r}")
