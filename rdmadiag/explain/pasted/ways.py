"""What ping(8), ip-route(8) and a connection show of the way to a peer, one beside the other."""

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network
from typing import Final

from rdmadiag.explain.pasted.session import Line, Part, Shown
from rdmadiag.late import late

_PING: Final = late(r"\bping6? .*(?:-M do|-D)\b")
_SIZE: Final = late(r"\s-s ?(\d+)\b")
_PLAIN: Final = late(r"(?:sudo )?ping6?\b")
_BYTES: Final = 56  # ping(8) without -s
_RECEIVED: Final = late(r"\d+ packets transmitted, (\d+) (?:packets )?received")
_NOT_SENT: Final = late(r"\blocal error: message too long\b")
_ROW: Final = late(r" *(\d+) +\d+(?: +\d+\.\d+){3}")
"""Of perftest's table: the size of its messages."""
EVERY_ETHERNET: Final = 1500  # bytes: the MTU that each port of it has at least
_NOT_A_WAY: Final = late(r"(?:unreachable|prohibit|blackhole) (\d[\d.]*(?:/\d+)?)\s")
_ADDRESS: Final = late(r"\b(?:\d{1,3}\.){3}\d{1,3}\b")
_NO_WAY: Final = late(r"No route to host|Network is unreachable|Permission denied|Invalid argument")
_CONNECTS: Final = late(r"\b(?:nc|ncat|netcat|telnet|curl)\b")


def of_ways(several: Sequence[Part]) -> Iterator[Shown]:
    """What they show, the surest first."""
    yield from _of_sizes(several)
    yield from _of_routes(several)
    yield from _of_rejects(several)
    yield from _of_requests(several)
    yield from _of_smb(several)


def _of_smb(several: Sequence[Part]) -> Iterator[Shown]:
    """Events 30803 and 30822 of an SMB client, where the connection that failed was by RDMA."""
    for part in several:
        failed: Line | None = None
        is_refused = False
        for line in part.lines:
            if _SMB_NEXT.match(line.text):
                failed = None
            if _SMB_FAILS.search(line.text):
                failed, is_refused = line, False
            is_refused = is_refused or "attempt was refused by the remote system" in line.text
            if failed is not None and (by := _SMB_BY.search(line.text)):
                if by[1].lower() == "rdma":
                    yield Shown(_SMB_REFUSED if is_refused else _SMB_LOST, failed)
                failed = None


_SMB_FAILS: Final = late(r"\bFailed to establish an? (?:SMB multichannel )?network connection\.")
_SMB_BY: Final = late(r"\bConnection type: (\w+)")
_SMB_NEXT: Final = late(r"PS [A-Z]:|\s*(?:TimeCreated|Id|Event ID|ProviderName|Log Name)\s*:")
_SMB_LOST: Final = ("roce-port-dropped", "cm-datagrams-lost", "peer-not-listening", "firewall")
_SMB_REFUSED: Final = ("peer-not-listening", "rdma-off-on-device", "roce-port-dropped")


def _of_requests(several: Sequence[Part]) -> Iterator[Shown]:
    """All pings of an address were answered, and the connection manager's request to it was not."""
    if any(_DOWN.search(line.text) for part in several for line in part.lines):
        return
    for part in several:
        own = [each for each in several if each.host == part.host]
        answered = {to for to, all_ in _plain(own).items() if all_}
        to = set(_ADDRESS.findall(part.command)) if _ASKS_BY_CM.search(part.command) else set()
        for line in part.lines if to & answered else ():
            if _NO_REPLY.search(line.text):
                yield Shown(("cm-datagrams-lost", "roce-port-dropped"), line)


_DOWN: Final = late(r"\bPORT_DOWN\b|\bState: +Down\b|\bstate DOWN\b")
_ASKS_BY_CM: Final = late(r"\b(?:rping|ucmatose|udaddy|cmtime|riostream|rstream)\b")
_NO_REPLY: Final = late(r"RDMA_CM_EVENT_UNREACHABLE, error -110\b")
"""ETIMEDOUT: all of its tries, and no reply."""


def _of_sizes(several: Sequence[Part]) -> Iterator[Shown]:
    """Large packets that may not be split get lost, and small ones do not."""
    got = [
        (int(size[1]), int(found[1]), line, _destination(part.command))
        for part in several
        if _PING.search(part.command) and (size := _SIZE.search(part.command))
        for line in part.lines
        if (found := _RECEIVED.match(line.text))
    ]
    passed = [bytes_ for bytes_, received, _, _ in got if received]
    plain = _plain(several)
    carried = _carried(several)
    own = any(_NOT_SENT.search(line.text) for part in several for line in part.lines)
    for bytes_, received, line, to in got:
        is_less = (passed and bytes_ > min(passed)) or (bytes_ > _BYTES and plain.get(to))
        if received or plain.get(to) is False:
            continue
        if is_less:
            yield Shown(("mtu-too-large", "mtu-mismatch"), line)
        elif bytes_ >= EVERY_ETHERNET and to in carried and not own:
            yield Shown(("mtu-too-large", "mtu-mismatch"), line, False, if_unanswered=True)


def _carried(several: Sequence[Part]) -> set[str]:
    """The servers with which perftest has measured messages of one small packet each, and none
    that is larger.
    """
    sizes: dict[str, list[int]] = {}
    for part in several:
        if part.command.startswith("ib_"):
            to = part.command.partition("|")[0].split()[-1]
            rows = (found for line in part.lines if (found := _ROW.match(line.text)))
            sizes.setdefault(to, []).extend(int(found[1]) for found in rows)
    return {to for to, several in sizes.items() if several and max(several) < EVERY_ETHERNET}


def _destination(command: str) -> str:
    """Of ping: the last word that is no option, before what its lines are piped to."""
    words = _OPTIONS.sub("", command.partition("|")[0]).split()
    return words[-1] if words else ""


_OPTIONS: Final = late(r"\s-[cSIisWwMQtlpmT] ?\S+|\s-\w+")


def _plain(several: Sequence[Part]) -> dict[str, bool]:
    """By destination: whether all pings without a size were answered, some at least."""
    found: dict[str, bool] = {}
    for part in several:
        if _PLAIN.match(part.command) and not _SIZE.search(part.command):
            to = _destination(part.command)
            for line in part.lines:
                if row := _RECEIVED.match(line.text):
                    found[to] = row[1] != "0" and found.get(to, True)
    return found


def _of_routes(several: Sequence[Part]) -> Iterator[Shown]:
    """A route that refuses, and an address that somebody looked for in vain."""
    for part in several:
        for line in part.lines:
            found = _NOT_A_WAY.match(line.text)
            if found and any(each in _network(found[1]) for each in _in_vain(several)):
                yield Shown(("route-unreachable", "no-route"), line)


def _network(text: str) -> IPv4Network:
    try:
        return IPv4Network(text, strict=False)
    except ValueError:
        return IPv4Network("0.0.0.0/32")


def _in_vain(several: Sequence[Part]) -> Iterator[IPv4Address]:
    for part in several:
        if any(_NO_WAY.search(line.text) for line in part.lines):
            for each in _ADDRESS.findall(part.command):
                try:
                    yield IPv4Address(each)
                except ValueError:
                    continue


def _of_rejects(several: Sequence[Part]) -> Iterator[Shown]:
    """ping gets through, and TCP fails with "No route to host": a firewall rejects it."""
    passes = any(
        part.command.startswith(("ping", "sudo ping"))
        and (found := _RECEIVED.match(line.text))
        and found[1] != "0"
        for part in several
        for line in part.lines
    )
    for part in several:
        for line in part.lines:
            if passes and _CONNECTS.search(part.command) and "No route to host" in line.text:
                yield Shown(("firewall-rejects", "firewall"), line)
