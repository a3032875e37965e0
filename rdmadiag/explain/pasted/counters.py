"""Counters that rise between two readings of one paste: perfquery, ethtool -S, rdma statistic.

The names are those of infiniband-diags (perfquery.c), of mlx5's ethtool counters
(Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst) and of
/sys/class/infiniband/*/ports/*/counters and hw_counters.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from rdmadiag.explain.pasted.session import Line, Part, Shown
from rdmadiag.late import late

_ROW: Final = late(r"(?:[<>] )?\s*([A-Za-z]\w+)(?::\.*\s*|\s*[=:]\s*|\s+)(\d{1,20})\s*$")
_RISE: Final = late(
    r"\s*(?:(?P<of>ethtool|[\w-]+/|[\w.-]+:) ?)?(?P<name>[A-Za-z]\w+)(?:\s+|: ?|=)"
    r"\+(?P<by>\d{1,20})\s*$"
)
"""By how much one has risen, as a script prints it that reads them twice."""
_OF_A_PORT: Final = late(r"\s*GUID (0x[\da-f]+) port (\d+): +\[")
_ERRORS: Final = late(r"\[(\w+) == (\d{1,20})\]")
"""Of ibqueryerrors: those of a port that are above their thresholds."""
_DOWN: Final = late(r"\s*State:\s+(?:Down|Initializing)\b|\s*state:\s+PORT_(?:DOWN|INIT)\b")
_PAIRS: Final = late(r"^link (\S+) (?=\w+ \d+ \w+ \d+)")
_OBJECT: Final = late(
    r"(?:-S|--statistics)\s+(\S+)|\b(?:link|-C|-d|-Ca)\s+([a-z]\w*_?\d\S*)|\b(mlx\d_\d+|ib\d+)\b"
)
_WAITS: Final = late(r"\bsleep (\d{1,6})\b")

_OF_THE_CABLE: Final = late(
    r"SymbolErrorCounter|LinkErrorRecoveryCounter|PortRcvErrors|LocalLinkIntegrityErrors"
    r"|symbol_error|link_error_recovery|port_rcv_errors|local_link_integrity_errors"
    r"|rx_symbol_err_phy|rx_crc_errors_phy|rx_pcs_symbol_err_phy|rx_err_lane_\d_phy|rx_crc_errors"
)
_OF_FLAPS: Final = late(r"LinkDownedCounter|link_downed|link_down_events_phy|carrier_down_count")
_STORM: Final = late(r"[rt]x_pause_storm_(?:warning|error)_events")
_STORM_ENDED: Final = late(r"[rt]x_pause_storm_error_events")
_PAUSED: Final = late(r"[rt]x_(?:prio\d|global)_pause_duration")
_OF_A_PRIORITY: Final = late(r"rx_prio(\d)_discards")
_CARRIED: Final = late(r"[rt]x_prio(\d)_(?:bytes|packets)")
_LOST: Final = late(
    r"rx_discards_phy|out_of_sequence|packet_seq_err|local_ack_timeout_err|rx_out_of_buffer"
    r"|implied_nak_seq_err"
)
_OUT_OF_ORDER: Final = late(r"out_of_sequence|packet_seq_err|implied_nak_seq_err")
_OF_ROCE: Final = late(r"(?:np|rp|roce)_\w")
"""Counters of congestion and of slow restarts, which on a port of RoCE alone are above 0."""
_OF_ETHERNET: Final = late(r"[rt]x_prio\d_packets$")
"""Counters of ethtool."""
_OF_INFINIBAND: Final = late(r"(?i:link[_ ]layer:\s+InfiniBand)|link/infiniband|==> ib")
"""A port of it is listed: which of the counters are its own is not known."""
_SATURATED: Final = {"SymbolErrorCounter": 0xFFFF, "PortRcvErrors": 0xFFFF}
"""Of PortCounters of InfiniBand: they stay where they cannot rise any more."""
FEW: Final = 10  # errors of a link, below which nothing is said
OFTEN: Final = 50  # losses of a link since the driver started
MANY: Final = 100  # packets
LOSSY: Final = 100_000  # packets out of order, or discarded, since the driver started
PAUSED: Final = 0.3  # of the time between two readings
MICROSECOND: Final = 1e-6
MOST_DIGITS: Final = 20  # of 64 bits


class _Read(NamedTuple):
    first: int
    last: int
    line: Line  # of the last
    seconds: int | None  # between both, as the command says

    @property
    def is_paused(self) -> bool:
        """Whether what rises is microseconds of so large a part of that time."""
        paused = (self.last - self.first) * MICROSECOND
        return bool(self.seconds) and paused >= PAUSED * (self.seconds or 1)


def of_counters(several: Sequence[Part]) -> Iterator[Shown]:
    """What they show, the surest first."""
    read = _all(several)
    for (_, _, name), each in read.items():
        rise = each.last - each.first
        if (_STORM_ENDED.fullmatch(name) and each.last) or (_STORM.fullmatch(name) and rise):
            yield Shown(("pause-storm",), each.line)
        elif _PAUSED.fullmatch(name) and each.is_paused:
            yield Shown(("pause-storm", "slow-path"), each.line)
    lines = (line.text for part in several for line in part.lines)
    has_infiniband = any(map(_OF_INFINIBAND.search, lines))
    if not has_infiniband:
        yield from _of_priorities(several, read)
    yield from _of_rises(read, has_infiniband=has_infiniband)
    if not has_infiniband:
        yield from _of_one_priority(read)
    yield from _of_a_fabric(several)
    yield from _of_mlxlink(several)


def _of_one_priority(read: Mapping[tuple[str, str, str], _Read]) -> Iterator[Shown]:
    """Of the priorities that are listed, only one carries traffic, and it has discarded much."""
    used: dict[tuple[str, str], dict[str, int]] = {}
    for (host, device, name), each in read.items():
        if found := _CARRIED.fullmatch(name):
            of = used.setdefault((host, device), {})
            of[found[1]] = max(each.last, of.get(found[1], 0))
    for (host, device, name), each in read.items():
        of = used.get((host, device), {})
        only = [priority for priority, carried in of.items() if carried]
        found = _OF_A_PRIORITY.fullmatch(name)
        if found and each.last >= LOSSY and len(of) > 1 and only == [found[1]]:
            causes = ("traffic-not-lossless", "slow-path")
            yield Shown(causes, each.line, False, if_unanswered=True)


def _of_priorities(
    several: Sequence[Part], read: Mapping[tuple[str, str, str], _Read]
) -> Iterator[Shown]:
    """mlnx_qos of a host with PFC for no priority, where one has discarded much."""
    without = {p.host for p in several for line in p.lines if _NO_PRIORITY.match(line.text)}
    for (host, _, name), each in read.items():
        if host in without and _OF_A_PRIORITY.fullmatch(name) and each.last >= LOSSY:
            yield Shown(("traffic-not-lossless", "slow-path"), each.line, False)


_NO_PRIORITY: Final = late(r"\s*enabled(?:\s+0){8}\s*$")


def _of_a_fabric(several: Sequence[Part]) -> Iterator[Shown]:
    """ibqueryerrors: whether the job goes by that port is not known, so that a port of a host that
    is down comes before.
    """
    if any(_DOWN.match(line.text) for part in several for line in part.lines):
        return
    for part in several:
        for line in part.lines if "ibqueryerrors" in part.command or not part.command else ():
            found = {name: int(value) for name, value in _ERRORS.findall(line.text)}
            full = [name for name, value in found.items() if value == _SATURATED.get(name)]
            bad = [name for name in found if _OF_THE_CABLE.fullmatch(name) and found[name] >= FEW]
            if _OF_A_PORT.match(line.text) and full and len(bad) > 1:
                yield Shown(("cable-or-module", "link-flaps"), line, False, if_unanswered=True)


def _of_mlxlink(several: Sequence[Part]) -> Iterator[Shown]:
    """A link that was lost often since the driver started, and that has counted errors, too."""
    for part in several:
        of_one: dict[str, int] = {}
        for line in part.lines:
            if row := _MLXLINK.match(line.text):
                of_one = {} if row[1] in of_one else of_one  # of the next device
                of_one[row[1]] = int(row[2])
                errors = max((n for name, n in of_one.items() if name != _LINK_DOWNS), default=0)
                if of_one.get(_LINK_DOWNS, 0) >= FEW and errors >= MANY:
                    yield Shown(("link-flaps", "cable-or-module", "link-lost"), line, False)
                    return


_LINK_DOWNS: Final = "Link Down Counter"
_MLXLINK: Final = late(
    rf"\s*({_LINK_DOWNS}|Effective Physical Errors|Symbol Errors)\s*: (\d{{1,20}})\s*$"
)


def _of_rises(
    read: Mapping[tuple[str, str, str], _Read], *, has_infiniband: bool
) -> Iterator[Shown]:
    """Errors and losses, by host, device and name."""
    bad = Counter(
        (host, device)
        for (host, device, name), each in read.items()
        if _OF_THE_CABLE.fullmatch(name) and each.last >= FEW
    )
    on_roce = {key[:2] for key, each in read.items() if _OF_ROCE.match(key[2]) and each.last}
    of_ethernet = {host for host, _, name in read if _OF_ETHERNET.match(name)}
    if not has_infiniband:
        on_roce |= {key[:2] for key in read if key[0] in of_ethernet}
    for (host, device, name), each in read.items():
        rise = each.last - each.first
        if _OF_THE_CABLE.fullmatch(name) and rise >= FEW:
            yield Shown(("cable-or-module", "link-flaps"), each.line)
        elif each.last == _SATURATED.get(name):
            # Nobody knows since when: sure where others of the same port have counted, too.
            yield Shown(("cable-or-module", "link-flaps"), each.line, bad[host, device] > 1)
        elif _OF_FLAPS.fullmatch(name) and (rise or each.last >= OFTEN):
            yield Shown(("link-flaps", "cable-or-module", "link-lost"), each.line, bool(rise))
        elif _OF_A_PRIORITY.fullmatch(name) and rise >= MANY:
            yield Shown(("traffic-not-lossless", "slow-path"), each.line, False)
        elif _LOST.fullmatch(name) and rise >= MANY:
            lossy = _OUT_OF_ORDER.fullmatch(name) and (host, device) in on_roce
            first = ("traffic-not-lossless",) if lossy else ()
            causes = (*first, "slow-path", "pause-storm", "cable-or-module")
            yield Shown(causes, each.line, False)
        elif _OUT_OF_ORDER.fullmatch(name) and each.last >= LOSSY and (host, device) in on_roce:
            yield Shown(("traffic-not-lossless", "slow-path"), each.line, False, if_slow=True)


def _all(several: Sequence[Part]) -> dict[tuple[str, str, str], _Read]:
    """By host, device and name; without those that one command prints of several devices."""
    found: dict[tuple[str, str, str], _Read] = {}
    for part in several:
        waits = _WAITS.search(part.command)
        seconds = int(waits[1]) if waits else None
        what = _OBJECT.search(part.command)
        device = next(filter(None, what.groups()), "") if what else ""
        rows = list(_rows(part, device))
        times = Counter((device, name) for device, name, _, _ in rows)
        # The same one after a while, or in two files.
        again = (waits is not None or "diff " in part.command) and "$" not in device
        for of, name, value, line in rows:
            key = (part.host, of, name)
            if times[of, name] > 1 and not again:
                continue
            before = found.get(key)
            first = before.first if before else value
            since = (before.seconds or 0) + (seconds or 0) if before else None
            found[key] = _Read(first, value, line, since)
        for line in part.lines:
            if row := _RISE.match(line.text):
                of = device or row["of"] or ""
                found[part.host, of, row["name"]] = _Read(0, int(row["by"]), line, seconds)
    return found


def _rows(part: Part, device: str) -> Iterator[tuple[str, str, int, Line]]:
    for line in part.lines:
        if row := _ROW.match(line.text):
            yield device, row[1], int(row[2]), line
        elif link := _PAIRS.match(line.text):
            words = line.text.split()[2:]
            for name, value in zip(words[::2], words[1::2], strict=False):
                if value.isdecimal() and len(value) <= MOST_DIGITS:
                    yield link[1], name, int(value), line
