"""What macOS lists: ifconfig(8), system_profiler(8), rdma_ctl."""

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Interface, IPv4Network
from typing import Final

from rdmadiag.explain.pasted.session import Line, Part, Shown
from rdmadiag.late import late

_OF_RDMA: Final = late(r"\brdma(?:_|\b)|\bRDMA\b|\bibv_|\bjaccl\b")
_MEMBER: Final = late(r"\s*member: en\d+ ")
_THUNDERBOLT: Final = late(r"en(?:[2-9]|\d\d)$")  # en0 and en1 may be in one subnet
_SLEPT: Final = late(r"\bEntering Sleep state due to\b")
_ERRNO_65: Final = late(r"\[Errno 65\] No route to host")
_ANSWERED: Final = late(r"\d+ packets transmitted, [1-9]\d* packets received")
_INTERFACE: Final = late(r"(\w+\d+): flags=")
_NAMED: Final = late(r"\bifconfig (en\d+)\b")
_INET: Final = late(r"\s*inet ([\d.]+) netmask 0x([0-9a-f]{8})\b")
_UP_TO: Final = late(r"\s*Speed: Up to (\d+) Gb/s")
_DEVICE: Final = late(r"\s*hca_id:\s*(rdma_en\d+)")
_DOWN: Final = late(r"\s*state:\s+PORT_DOWN\b")
_NAMES: Final = late(r"\"(rdma_en\d+)\"")
_CHIP: Final = late(r"(?:\s*Chip: )?Apple M[1-4]\s*$")
"""A Mac's, whose ports are of Thunderbolt 4 at most; those of M4 Pro, M4 Max and M5 are of 5."""
_NO_DEVICE: Final = late(r"\s*-{6,}\s+-{6,}\s*$")
"""The head of ibv_devices."""
FASTEST_4: Final = 40  # Gb/s of Thunderbolt 4


def of_macs(several: Sequence[Part]) -> Iterator[Shown]:
    """What they show, the surest first; nothing of a paste that is not about RDMA."""
    yield from _of_privacy(several)
    yield from _of_subnets(several)
    if not any(
        _OF_RDMA.search(text)
        for part in several
        for text in (part.command, *(line.text for line in part.lines))
    ):
        return
    for part in several:
        yield from _of_a_command(part)
    yield from _of_chips(several)
    yield from _of_ports(several)


def _of_a_command(part: Part) -> Iterator[Shown]:
    if "rdma_ctl" in part.command:
        for line in part.lines:
            if line.text.strip().lower() == "disabled":
                yield Shown(("rdma-disabled",), line)
    speeds = [(int(f[1]), line) for line in part.lines if (f := _UP_TO.match(line.text))]
    if speeds and max(speeds)[0] <= FASTEST_4:
        yield Shown(("thunderbolt-4",), speeds[0][1])  # the ports of a Mac are of one kind
    for line in part.lines:
        if _SLEPT.search(line.text):
            yield Shown(("mac-slept",), line, False)
            break
    for line in part.lines:
        if _MEMBER.match(line.text):
            yield Shown(("port-in-bridge", "no-ipv4-gid"), line)
            break


def _of_chips(several: Sequence[Part]) -> Iterator[Shown]:
    """No device is listed on a Mac of a kind that has none."""
    has_none = any(
        "ibv_devices" in part.command and part.lines[-1:] and _NO_DEVICE.match(part.lines[-1].text)
        for part in several
    )
    for line in (line for part in several for line in part.lines) if has_none else ():
        if _CHIP.match(line.text):
            yield Shown(("thunderbolt-4", "no-rdma-device"), line, platform="darwin")
            return


def _of_ports(several: Sequence[Part]) -> Iterator[Shown]:
    """A port that is down, and that something else than the listing names."""
    down: dict[str, Line] = {}
    named = set[str]()
    for part in several:
        device = ""
        for line in part.lines:
            if found := _DEVICE.match(line.text):
                device = found[1]
            elif device and _DOWN.match(line.text):
                down[device] = line
            else:
                named.update(_NAMES.findall(line.text))
    for device, line in down.items():
        if device in named:
            yield Shown(("port-down", "cables-mixed-up"), line)


def _of_subnets(several: Sequence[Part]) -> Iterator[Shown]:
    """Two ports of one host in one subnet."""
    seen: dict[tuple[str, IPv4Network], str] = {}
    for part in several:
        named = _NAMED.search(part.command)
        name = named[1] if named else ""
        for line in part.lines:
            if found := _INTERFACE.match(line.text):
                name = found[1]
            elif (found := _INET.match(line.text)) and _THUNDERBOLT.match(name):
                bits = int(found[2], 16).bit_count()
                try:
                    subnet = IPv4Interface(f"{found[1]}/{bits}").network
                except ValueError:
                    continue  # no address
                if seen.setdefault((part.host, subnet), name) != name:
                    yield Shown(("shared-subnet", "no-route"), line, not subnet.is_link_local)


def _of_privacy(several: Sequence[Part]) -> Iterator[Shown]:
    """A program that finds no route to a host that answers pings: macOS keeps it from there."""
    lines = [line for part in several for line in part.lines]
    if any(_ANSWERED.match(line.text) for line in lines):
        yield from (Shown(("local-network-privacy",), e) for e in lines if _ERRNO_65.search(e.text))
