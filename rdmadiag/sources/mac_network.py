"""Network interfaces of a Mac: ifconfig, and which receptacle each one belongs to.

en1: flags=8863<UP,BROADCAST,SMART,RUNNING,SIMPLEX,MULTICAST> mtu 1500
        ether 36:4d:04:ea:4e:40
        inet 169.254.205.255 netmask 0xffff0000 broadcast 169.254.255.255
        inet6 fe80::1021:1bac:fe1:b5e3%en1 prefixlen 64 secured scopeid 0xb
        status: active
bridge0: …
        member: en2 flags=3<LEARNING,DISCOVER>

Hardware Port: Thunderbolt 2
Device: en6
"""

import re
import time
from ipaddress import IPv4Address, ip_address
from itertools import pairwise
from typing import Final

from rdmadiag.facts import Address, Missing, Why
from rdmadiag.facts.macos import HardwarePort, MacInterface, MacNetworkFacts
from rdmadiag.host import Host
from rdmadiag.late import late
from rdmadiag.sources.output import parsed
from rdmadiag.sources.text import malformed

SECONDS: Final = 3.0

IFCONFIG: Final = ("/sbin/ifconfig", "-a")
HARDWARE_PORTS: Final = ("/usr/sbin/networksetup", "-listallhardwareports")

_HEAD: Final = late(r"^([A-Za-z0-9_.-]{1,32}): flags=[0-9a-f]+<([A-Z0-9_,]*)>(.*)$")
_MTU: Final = late(r"\bmtu ([0-9]{1,6})")
_PORT: Final = late(r"^Hardware Port: (.+)\nDevice: (\S+)$", re.MULTILINE)


def read_mac_network(host: Host, deadline: float) -> MacNetworkFacts | Missing:
    """Both commands; `deadline` is absolute."""
    limit = min(deadline, time.monotonic() + SECONDS)
    interfaces = parsed(host, IFCONFIG, limit, "ifconfig", parse_ifconfig)
    ports = parsed(host, HARDWARE_PORTS, limit, "networksetup", parse_hardware_ports)
    if isinstance(interfaces, Missing) and isinstance(ports, Missing):
        return interfaces
    return MacNetworkFacts(interfaces, ports)


def parse_hardware_ports(raw: bytes) -> tuple[HardwarePort, ...] | Missing:
    """networksetup -listallhardwareports → port names and devices."""
    found = tuple(HardwarePort(*match) for match in _PORT.findall(raw.decode("utf-8", "replace")))
    if not found and raw.strip():
        return malformed(raw, "a list of hardware ports")
    return found


def parse_ifconfig(raw: bytes) -> tuple[MacInterface, ...] | Missing:
    """ifconfig -a → interfaces; an address that makes no sense is left out.

    What hangs below an interface begins with a tab: net-tools, whose netmasks are of
    another form, writes blanks.
    """
    blocks: list[tuple[re.Match[str], list[list[str]]]] = []
    for line in raw.decode("utf-8", "replace").splitlines():
        head = _HEAD.match(line)
        if head:
            blocks.append((head, []))
        elif not line.strip():
            continue
        elif blocks and line[0] == "\t":
            blocks[-1][1].append(line.split())
        else:
            return malformed(line.encode(), "a line of ifconfig")
    if not blocks:
        return malformed(raw, "ifconfig's list of interfaces")
    return tuple(_interface(head, rows) for head, rows in blocks)


def _interface(head: re.Match[str], rows: list[list[str]]) -> MacInterface:
    mtu = _MTU.search(head[3])
    values = {row[0]: row[1] for row in rows if len(row) > 1}
    return MacInterface(
        name=head[1],
        up="UP" in head[2].split(","),
        status=values.get("status:", Missing(Why.ABSENT, "no status")),
        mtu=int(mtu[1]) if mtu else Missing(Why.ABSENT, "no mtu"),
        mac=values.get("ether", Missing(Why.ABSENT, "no ether")),
        addresses=tuple(address for row in rows if (address := _address(row)) is not None),
        members=tuple(row[1] for row in rows if row[0] == "member:" and len(row) > 1),
    )


def _address(row: list[str]) -> Address | None:
    if row[0] not in ("inet", "inet6") or len(row) < 2:
        return None
    try:
        address = ip_address(row[1].partition("%")[0])
    except ValueError:
        return None
    options = dict(pairwise(row))
    if isinstance(address, IPv4Address):
        length = _netmask(options.get("netmask", ""))
    else:
        length = _prefix_length(options.get("prefixlen", ""))
    if length is None:
        return None
    scope = "link" if address.is_link_local else "host" if address.is_loopback else "global"
    # in6_addr's flags, as words behind an inet6 address.
    return Address(str(address), length, scope, "tentative" in row, "duplicated" in row)


def _prefix_length(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,3}", text) and int(text) <= 128 else None


def _netmask(text: str) -> int | None:
    """ "0xffff0000" → 16; None for a mask with holes."""
    if not re.fullmatch(r"0x[0-9a-f]{8}", text):
        return None
    bits = f"{int(text, 16):032b}"
    return None if "01" in bits else bits.count("1")
