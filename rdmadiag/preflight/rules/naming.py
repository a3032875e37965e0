"""Names and addresses in this host's own files."""

from collections.abc import Iterator
from typing import Final

from rdmadiag.facts import Missing, known
from rdmadiag.facts.naming import NamingFacts
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.ends import all_addresses
from rdmadiag.view.peer_route import is_loopback

_HOSTS: Final = "/etc/hosts"
_SWITCH: Final = "/etc/nsswitch.conf"
_READ_IT: Final = frozenset({"files", "resolve"})
"""Services that read /etc/hosts; systemd-resolved does by default (ReadEtcHosts)."""


def _naming(case: Case) -> NamingFacts | None:
    return known(case.evidence.naming)


@rule(
    "own-name-elsewhere",
    Severity.WARN,
    "/etc/hosts has an address for this host that it has not",
    "The row of this host's own name in /etc/hosts is an address that no interface here has: the "
    "host was given another one since, or the file was copied. A program that listens at its own "
    "name (rping -a, MPI, NCCL and Gloo by the host name) fails with EADDRNOTAVAIL, and the "
    "address that it hands to its peers is another host's, or nobody's. 127.0.1.1, as Debian has "
    "it, is not meant here.",
    ("https://man7.org/linux/man-pages/man5/hosts.5.html",),
    remedy=(
        "getent ahosts {name}",
        "ip -brief address",
        "# in /etc/hosts: the address that this host has, or no row of its name",
    ),
    needs=("devices", "names of /etc/hosts", "netdev", "routing tables"),
)
def own_name_elsewhere(this: Rule, case: Case) -> Iterator[Finding]:
    """Of all its addresses, none of which is loopback."""
    naming = _naming(case)
    name = known(naming.hostname) if naming else None
    if naming is None or name is None:
        return
    own = all_addresses(case.evidence)
    for address in naming.addresses_of(name):
        if address not in own and not is_loopback(address):
            yield this.finding(
                f"{_HOSTS} has {address} for {name}, and no interface of this host has it",
                evidence=[Proof("naming", _HOSTS, f"{address} {name}")],
                fill={"name": name},
            )


@rule(
    "hosts-file-unused",
    Severity.WARN,
    "Nobody looks into /etc/hosts",
    "The row of hosts in /etc/nsswitch.conf names neither files nor resolve, and /etc/hosts has "
    "addresses of other hosts: a program that is given such a name asks DNS alone, and gets no "
    "address, or another one. ping of busybox and tools that read the file themselves find it.",
    ("https://man7.org/linux/man-pages/man5/nsswitch.conf.5.html",),
    remedy=(
        "grep ^hosts: /etc/nsswitch.conf",
        "# hosts: files dns",
    ),
    needs=("devices", "names of /etc/hosts"),
)
def hosts_file_unused(this: Rule, case: Case) -> Iterator[Finding]:
    """Where it has a row of another address than loopback's."""
    naming = _naming(case)
    if naming is None or isinstance(naming.services, Missing):
        return
    if not _READ_IT.isdisjoint(naming.services):
        return
    rows = [each for each in known(naming.hosts) or () if not is_loopback(each.address)]
    if rows:
        said = " ".join(naming.services) or "nothing"
        yield this.finding(
            f"{_SWITCH} names {said} for hosts, and {_HOSTS} has {len(rows)} of other addresses",
            evidence=[
                Proof("naming", f"{_SWITCH}: hosts", said),
                Proof("naming", _HOSTS, f"{rows[0].address} {rows[0].host_names[0]}"),
            ],
        )


RULES: Final[tuple[Rule, ...]] = (own_name_elsewhere, hosts_file_unused)
"""Lowest cause first."""
