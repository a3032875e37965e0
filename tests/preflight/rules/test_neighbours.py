"""How neighbours are asked for: as kernels do, and by none at all."""

import struct

import pytest

from rdmadiag.facts import Missing
from rdmadiag.facts.routing import Soliciting
from rdmadiag.host import netlink
from rdmadiag.preflight.judge import judge
from rdmadiag.sources.routing import parse_soliciting
from tests.preflight.test_judge_route import host

ARP, ND = 2, 10


def table(family: int, multicast: int, program: int = 0, index: int | None = None) -> bytes:
    """As neightbl_fill_info and neightbl_fill_param_info of the kernel do."""
    rows = [(9, program), (10, 3), (11, multicast)]
    if index is not None:
        rows.append((1, index))
    own = b"".join(netlink.attribute(kind, struct.pack("=I", value)) for kind, value in rows)
    head = struct.pack("=Bxxx", family)
    return netlink.request(64, 0, head + netlink.attribute(6, own))


USUAL = table(ARP, 3) + table(ND, 3)


def test_rows_that_are_as_their_table_are_left_out() -> None:
    reply = USUAL + table(ARP, 3, index=2) + table(ND, 0, index=2)
    assert parse_soliciting(reply, {2: "eth0"}) == (
        Soliciting(4, None, 3, 3, 0),
        Soliciting(6, None, 3, 3, 0),
        Soliciting(6, "eth0", 0, 3, 0),
    )


def test_a_reply_that_is_cut_short_is_missing() -> None:
    assert isinstance(parse_soliciting(USUAL[:20], {}), Missing)


def said(reply: bytes) -> list[tuple[str, str]]:
    machine = host(("192.0.2.1/24",), traffic={"route-getneightbl": reply})
    found = judge(machine.evidence()).findings
    return [(e.summary, e.severity.value) for e in found if e.rule == "neighbours-not-asked"]


@pytest.mark.parametrize(
    ("reply", "version"),
    [
        (USUAL, None),
        (USUAL + table(ARP, 0, index=2), 4),
        (USUAL + table(ND, 0, index=2), None),
        (USUAL + table(ARP, 0, program=1, index=2), None),
        (USUAL + table(ARP, 0, index=3), None),
        (table(ARP, 0) + table(ND, 3), 4),
    ],
    ids=[
        "as usual",
        "by none",
        "IPv6, of which there is no address",
        "by a program",
        "another's",
        "of the whole table",
    ],
)
def test_a_netdev_looks_for_neighbours(reply: bytes, version: int | None) -> None:
    wanted = (
        [] if version is None else [(f"eth0 looks for no neighbour by IPv{version}", "critical")]
    )
    assert said(reply) == wanted
