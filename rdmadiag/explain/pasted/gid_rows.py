"""GIDs as show_gids and ibv_devinfo -v list them, and as perftest prints those of both ends."""

from collections.abc import Iterator, Sequence
from ipaddress import IPv6Address
from typing import Final, NamedTuple

from rdmadiag.explain.pasted.session import Line, Part, Shown, hosts_of, is_followed
from rdmadiag.late import late

_ROW: Final = late(
    r"(\S+)\s+(\d+)\s+(\d+)\s+((?:[0-9a-f]{4}:){7}[0-9a-f]{4})\s+(?:([\d.]+)\s+)?(v[12])\b"
)
_COUNT: Final = late(r"n_gids_found=\d+\s*$")
"""The last line of show_gids: without it the rest of the table may have been cut off."""
_MAC_DEVICE: Final = late(r"\s*hca_id:\s*(rdma_en\d+)")
_MAC_ROW: Final = late(r"\s*GID\[\s*(\d+)\]:\s*([0-9a-f:.]+)")
_OF_AN_END: Final = late(r"\s*GID: (\d{2,3}(?::\d{2,3}){15})\s*$")
"""perftest, print_gid: sixteen decimal numbers."""
_END: Final = late(r"\s*(local|remote) address: ")
_FAILED: Final = late(r"\s*(?:Completion with error at|Failed status \d+)")
_PICKS: Final = late(r"\b(?:grep|head|tail|awk|sed)\b")


class _Gid(NamedTuple):
    row: int
    gid: IPv6Address
    version: str
    line: Line

    @property
    def family(self) -> str:
        return _family(self.gid)


def _family(gid: IPv6Address) -> str:
    if gid.is_link_local:
        return "link-local"
    return "IPv4" if gid.ipv4_mapped else "IPv6"


def of_gids(several: Sequence[Part]) -> Iterator[Shown]:
    """What they show, the surest first."""
    tables = _tables(several)
    whole = any(_COUNT.match(line.text) for part in several for line in part.lines)
    for rows in tables.values():
        if all(row.gid.is_link_local for row in rows):
            yield Shown(("no-usable-gid", "gid-does-not-route"), rows[-1].line, whole)
    yield from _of_macs(several)
    yield from _of_global_routes(several)
    yield from _of_routed(several, tables)
    for part in several:
        yield from _of_both_ends(part)
    if hosts_of(several) > 1:
        yield from _of_two_hosts(tables)


def _of_global_routes(several: Sequence[Part]) -> Iterator[Shown]:
    """Attributes of RTR without a global route, for a port of Ethernet, which takes none."""
    lines = [line for part in several for line in part.lines]
    texts = [line.text for line in lines]
    on_ethernet = any(map(_OF_ETHERNET.search, texts)) and not any(
        map(_OF_INFINIBAND.search, texts)
    )
    is_refused = any(map(_INVALID.search, texts)) and any(map(_TO_RTR.search, texts))
    for line in lines if on_ethernet and is_refused else ():
        if _NOT_GLOBAL.search(line.text):
            yield Shown(("no-gid-given",), line)


_OF_ETHERNET: Final = late(r"\blink_layer:\s+Ethernet\b")
_OF_INFINIBAND: Final = late(r"(?i:\blink[_ ]layer\W{1,10}InfiniBand\b)")
_INVALID: Final = late(r"\bInvalid argument\b|\bEINVAL\b|\bInvalidInput\b")
_NOT_GLOBAL: Final = late(r"\bis_global\W{1,3}(?:0|[Ff]alse)\b")
_TO_RTR: Final = late(r"\bRTR\b")


def _of_routed(
    several: Sequence[Part], tables: dict[tuple[str, str], list[_Gid]]
) -> Iterator[Shown]:
    """perftest with a row of RoCE v1, which no router passes on, and a peer in another subnet."""
    for part in several:
        device, index, gids = "", None, list[IPv6Address]()
        for line in part.lines:
            if found := _DEVICE.search(line.text):
                device = found[1]
            elif found := _INDEX.match(line.text):
                index = int(found[1])
            elif row := _OF_AN_END.match(line.text):
                numbers = [int(each) for each in row[1].split(":")]
                if max(numbers) < 256:
                    gids.append(IPv6Address(bytes(numbers)))
        rows = tables.get((part.host, device), ())
        used = next((row for row in rows if row.row == index and row.version == "v1"), None)
        if used and len(gids) == 2 and all(each.ipv4_mapped for each in gids):
            here, there = (each.packed[:15] for each in gids)
            if here != there and any(_FAILED.match(line.text) for line in part.lines):
                causes = ("gid-does-not-route", "gid-index-or-family", "no-path")
                yield Shown(causes, used.line)


_DEVICE: Final = late(r"\bDevice +: (\S+)\s*$")
_INDEX: Final = late(r"\s*GID index +: (\d+)\s*$")


def _tables(several: Sequence[Part]) -> dict[tuple[str, str], list[_Gid]]:
    """By host and device; only whole ones."""
    found: dict[tuple[str, str], list[_Gid]] = {}
    for part in several:
        if _PICKS.search(part.command):
            continue
        for line in part.lines:
            if row := _ROW.match(line.text):
                gid = _Gid(int(row[3]), IPv6Address(row[4]), row[6], line)
                found.setdefault((part.host, row[1]), []).append(gid)
    return found


def _of_both_ends(part: Part) -> Iterator[Shown]:
    """Of a test that has failed: GIDs of two families never meet."""
    end, gids = "", dict[str, IPv6Address]()
    for line in part.lines:
        if found := _END.match(line.text):
            end = found[1]
        elif (row := _OF_AN_END.match(line.text)) and end:
            numbers = [int(each) for each in row[1].split(":")]
            if max(numbers) < 256:
                gids[end] = IPv6Address(bytes(numbers))
        elif _FAILED.match(line.text) and len({_family(each) for each in gids.values()}) > 1:
            yield Shown(("gid-families-differ", "gid-index-or-family", "gid-does-not-route"), line)
            return


def _of_two_hosts(tables: dict[tuple[str, str], list[_Gid]]) -> Iterator[Shown]:
    """A row of one device that is of another kind on another host."""
    seen: dict[tuple[str, int], _Gid] = {}
    for (_, device), rows in tables.items():
        for row in rows:
            other = seen.setdefault((device, row.row), row)
            if (other.family, other.version) != (row.family, row.version):
                yield Shown(("gid-index-or-family", "gid-families-differ"), row.line, False)


def _of_macs(several: Sequence[Part]) -> Iterator[Shown]:
    for part in several:
        device, rows = "", list[tuple[str, Line]]()
        for line in (*part.lines, Line(0, "hca_id: rdma_en0")):
            if found := _MAC_DEVICE.match(line.text):
                if device and rows and all(gid.startswith("fe80") for gid, _ in rows):
                    sure = is_followed(rows[-1][1], several)
                    yield Shown(("no-ipv4-gid", "gid-does-not-route"), rows[0][1], sure)
                device, rows = found[1], []
            elif row := _MAC_ROW.match(line.text):
                rows.append((row[2], line))
