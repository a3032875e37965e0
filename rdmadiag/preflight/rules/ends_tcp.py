"""TCP between two hosts, by which programs of RDMA meet, and meet again when they are done."""

from collections.abc import Iterator
from typing import Final

from rdmadiag.facts import known, present
from rdmadiag.facts.job import TcpState
from rdmadiag.preflight.rules.ends_values import values_of
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.ends import Towards

_TIMES: Final = 3
"""Retransmissions in a row, from which on nothing is heard: some two seconds for data."""


_WRONG: Final = 3
"""Segments: as many as are sent again before a program gives up; one may be a broken cable's."""


@rule(
    "ends-checksums-wrong",
    Severity.WARN,
    "The peer drops TCP for its checksums",
    "The peer's kernel has counted segments of TCP that came with a wrong checksum "
    "(InCsumErrors of /proc/net/snmp, since its start), and drops each. On one network they are of "
    "a sender whose interface is to compute checksums and does not, or does so wrong: an offload "
    "that a driver, a virtual switch or a tunnel does not keep its word about. What arrives from "
    "others may be well, so that a small test passes. RDMA itself has checksums of its own.",
    ("https://docs.kernel.org/networking/checksum-offloads.html",),
    remedy=(
        "ethtool -k {netdev} | grep checksum   # on this host: what its interface computes",
        "sudo ethtool -K {netdev} tx off   # does TCP get through then?",
        "# on the peer: does the count grow while this host sends?",
        "nstat -az TcpInCsumErrors",
    ),
)
def checksums_wrong(this: Rule, case: Towards) -> Iterator[Finding]:
    """By what the other host has counted, of whoever sends to it."""
    programs = known(case.far.evidence.programs)
    count = known(programs.wrong_checksums) if programs else None
    if count is None or count < _WRONG:
        return
    yield this.finding(
        f"{case.far.name} has got {count} segments of TCP with wrong checksums, and "
        f"{case.near.name} sends to it",
        evidence=[Proof("programs", f"InCsumErrors of TCP of {case.far.name}", str(count))],
        fill=values_of(case),
    )


@rule(
    "ends-tcp-unanswered",
    Severity.WARN,
    "The peer does not answer what TCP sends",
    "The kernel of this host has sent the same to the peer at least three times, and got no "
    "acknowledgement: of a connection that is to be made (SYN_SENT) the first packet, else data, "
    "or that it ends. Programs of RDMA exchange their addresses over TCP, and say over it that "
    "they are done: they wait here, and print nothing. Where the hosts reach each other on the "
    "link, what lies between them drops TCP: a firewall, a middlebox that has forgotten a "
    "connection which was idle for long, a route that has changed for one direction. A connection "
    "whose program has ended is still seen for some minutes (FIN_WAIT1, LAST_ACK).",
    ("https://www.rfc-editor.org/rfc/rfc6298",),
    remedy=(
        "ss -tnoi dst {peer}   # timer:(on,…,N): sent again N times; the process: -p, as root",
        "ip route get {peer}; ip neigh show {peer}",
        "# at both hosts: is it sent, and does it arrive?",
        "sudo tcpdump -ni {netdev} tcp and host {peer}",
    ),
)
def tcp_unanswered(this: Rule, case: Towards) -> Iterator[Finding]:
    """By the retransmissions of /proc/net/tcp, between the two addresses."""
    programs = known(case.near.evidence.programs)
    pair = (case.mine.address, case.theirs.address)
    found = [
        each
        for each in (present(programs.unanswered) if programs else ())
        if (each.local, each.remote) == pair and each.retransmits >= _TIMES
    ]
    if not found:
        return
    made = "" if any(each.state is not TcpState.SYN_SENT for each in found) else ", to connect"
    yield this.finding(
        f"{case.far.name} does not acknowledge what {case.near.name} sends it by TCP{made}",
        evidence=[
            Proof(
                "programs",
                f"{each.local}:{each.local_port} to {each.remote}:{each.remote_port}",
                f"{each.state}, {each.queued_bytes} bytes, sent again {each.retransmits} times",
            )
            for each in found[:3]
        ],
        fill=values_of(case),
    )
