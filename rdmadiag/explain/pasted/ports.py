"""Ports as ibstat, ibv_devinfo, ibdev2netdev, rdma(8) and mlxconfig list them in one paste.

ibstat is of infiniband-diags, ibv_devinfo of rdma-core (libibverbs/examples/devinfo.c), and
ibdev2netdev, show_gids and mlxconfig are of the vendor's tools. A port that is down is a sign of
explain.log; here is what shows by comparison.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from rdmadiag.explain.pasted.session import LONGEST, Line, Part, Shown
from rdmadiag.late import late

_DEVICE: Final = late(r"CA '(\S+)'|\s*hca_id:\s*(\S+)|Infiniband device '(\S+)'")
_PORT: Final = late(r"\s*[Pp]ort:?\s+(\d+):?\s*$")
_FIELD: Final = late(
    r"\s*(State|Physical state|Rate|Link layer|CA type|state|phys state|active_mtu|link_layer|rate)"
    r":\s+(\S.*?)\s*$"
)
_MAPS: Final = late(r"(\S+) port (\d+) ==> (\S+) \((Up|Down)\)\s*$")
_SECOND: Final = late(r"f[1-9](?:np\d+)?$|np[1-9]$|d1$")
"""A netdev of the second port of a card: often without a cable."""
_TRANSPORT: Final = late(r"\s*transport:\s+(iWARP|InfiniBand) \(\d\)\s*$")
_NAMED: Final = late(r"(?:\d+/\d+: )?link (?:(iw|roce|ib)p\d+s\d\S*|(mlx5)_\w+)/\d+ ")
"""Of 60-rdma-persistent-naming.rules; and the kernel's name of what is never iWARP."""
_HEADS: Final = late(
    r"\W{0,3}(?:the )?(?:server|client|peer|remote|other (?:host|node|end|side|machine))\b"
    r".{0,20}:\s*$",
    re.IGNORECASE,
)
"""A remark before what was run at the other host."""
_CHANGED: Final = late(
    r"\b(?:modprobe|rmmod|insmod|reboot|Set-NetAdapter\w+)\b|\bdevlink .*\bset\b"
)
_NETWORK_DIRECT: Final = late(r"\bGet-NetAdapterAdvancedProperty\b.*\bNetworkDirect Technology\b")
_POWERSHELL: Final = late(r"(?:\[([\w.-]+)\]: )?PS [A-Z]:\\\S*> ")
_AT_ANOTHER: Final = late(r"(?:\bInvoke-Command (?:-ComputerName )?|-CimSession )([\w.-]+)")
_VALUES: Final = late(r"\s*Name\s+(?:\w+\s+)*DisplayValue(?:\s+\w+)*\s*$")
_TECHNOLOGY: Final = late(
    r" (iWARP|RoCE)(?:v\d)?(?:\s+\*?NetworkDirectTechnology\b.*)?\s*$", re.IGNORECASE
)
_TYPE: Final = late(r"\s*(?:\*\s*)?LINK_TYPE_P\d\s+(?:\S+\s+)?(ETH|IB)\(\d\)")
_SDR: Final = late(r"\s*10(?: Gb/sec \(4X SDR\))?\s*$|.*\(1X ")
_REFUSED: Final = late(r"\bmulticast join failed for .* status -22\b|\bERR 1B12: ")
"""By a subnet manager: since the group has a higher rate, where that of the port is so low."""
_ADAPTER: Final = late(r"MT4\d{3}$")  # of FDR and faster
_ROCE: Final = late(
    r"link ((?:mlx\d_|bnxt_re|irdma|roce|rocep|rxe)\w*/\d+) state ACTIVE physical_state LINK_UP\s*$"
)
"""rdma(8), of a device with Ethernet below it, whose netdev is not to be seen."""
_NETDEV: Final = late(r"(?:\d+/\d+: )?link \S+/\d+ .* netdev (\S+)\s*$")
_LINK: Final = late(r"\d+: ([^:@\s]+)(?:@\S+)?: <([A-Z_,]*)>")
_SWITCHED_OFF: Final = late(r"==\( *Down/ ?Disabled\)==>")
_CONFIGURED: Final = late(r"IB/RoCE v1|RoCE v2")
_LANES: Final = late(r"\s*([a-z]\w*\d)\b.*\b\d+ Gb/sec \((\d+)X (\w+)\)\s*$")
"""Of /sys/class/infiniband/*/ports/*/rate, with the device before it."""
_MTU: Final = late(r"\s*active_mtu:\s+(\d+)\b")
_BYTES: Final = late(r"[1-9]\d{2,4}(?: \(\d\))?$")
_NO_GUID: Final = late(r"\s*(?:Node|Port) GUID: 0x0{16}\s*$|\s*node_guid:\s+0{4}(?::0{4}){3}\s*$")
_DOWN: Final = late(r"\s*State: Down\s*$|\s*state:\s+PORT_DOWN\b")
MOST: Final = 3  # of several ports that are up, of which one is not


_STATUS: Final = late(r"Infiniband device '\S+' port (\d+) status")
"""Of ibstatus."""


class Field(NamedTuple):
    """What a line says of a port."""

    value: str
    line: Line


@dataclass
class _Port:
    """By the names of the fields in the listings."""

    host: str
    kind: str = ""  # of the adapter
    number: str = ""  # of the port
    state: Field | None = None
    physical_state: Field | None = None
    link_layer: Field | None = None
    rate: Field | None = None
    active_mtu: Field | None = None

    @property
    def is_active(self) -> bool:
        return self.state is not None and "active" in self.state.value.lower()

    @property
    def switched_off(self) -> Field | None:
        """Without a cable it is Polling: somebody, or the other end, has disabled it."""
        physical = self.physical_state
        return physical if physical and "Disabled" in physical.value else None

    @property
    def layer(self) -> str:
        return self.link_layer.value if self.link_layer else ""


def of_ports(several: Sequence[Part]) -> Iterator[Shown]:
    """What they show, the surest first."""
    listed = list(_listed(several))
    yield from _of_types(several, listed)
    yield from _of_layers(listed)
    yield from _of_mtus(listed)
    yield from _of_two_mtus(several)
    yield from _of_guids(several)
    yield from _of_transports(several)
    refused = {part.host for part in several for line in part.lines if _REFUSED.search(line.text)}
    for port in listed:
        rate = port.rate if port.is_active else None
        is_new = rate and (_ADAPTER.match(port.kind) or "SDR" in rate.value)
        if rate and is_new and _SDR.match(rate.value):
            first = ("multicast-refused",) if port.host in refused else ()
            yield Shown((*first, "cable-or-module", "slow-path"), rate.line)
        if port.layer == "InfiniBand" and port.switched_off:
            yield Shown(("port-down", "link-lost"), port.switched_off.line, False)
    yield from _of_lanes(several)
    yield from _of_netdevs(several)
    yield from _of_modes(several)
    yield from _of_one_that_is_down(several)
    yield from _of_siblings(listed)
    yield from _of_interfaces(several)
    yield from _of_sysfs(several)
    yield from _of_other_printers(several)


def _of_other_printers(several: Sequence[Part]) -> Iterator[Shown]:
    """`rdma -j link`, node_exporter and `esxcli rdma device list`, where no port is active."""
    lines = [line for part in several for line in part.lines]
    whole = [line for line in lines if len(line.text) < LONGEST]
    for pattern, active in _PRINTERS:
        rows = [(state, line) for line in whole for state in pattern.findall(line.text)]
        if rows and not any(state == active for state, _ in rows):
            yield Shown(("port-down", "link-lost", "cable-or-module"), rows[0][1])


_PRINTERS: Final = (
    (
        late(r'"ifname":\s?"\w+",\s?"port":\s?\d+,[^{}]*?"state":\s?"(\w+)",\s?"physical_state"'),
        "ACTIVE",
    ),
    (late(r"^node_infiniband_state_id\{[^}]*\} (\d)"), "4"),
    (late(r"^vmrdma\d+\s+\S+\s+(Active|Down|Init|Armed)\s"), "Active"),
)
"""What each prints of a port's state, and of one that is active."""


def _listed(several: Sequence[Part]) -> Iterator[_Port]:
    for part in several:
        port, kind = _Port(part.host), ""
        for line in part.lines:
            found = _FIELD.match(line.text)
            name, value = (found[1].lower().replace(" ", "_"), found[2]) if found else ("", "")
            is_next = name == "state" and port.state
            if is_next or _DEVICE.match(line.text) or _PORT.match(line.text):
                if port.state or port.active_mtu:
                    yield port
                kind = "" if _DEVICE.match(line.text) else kind
                at = _PORT.match(line.text) or _STATUS.match(line.text)
                port = _Port(part.host, kind, at[1] if at else "")
            name = "physical_state" if name == "phys_state" else name
            if name == "ca_type":
                port.kind = kind = value
            elif name:
                setattr(port, name, Field(value, line))
        if port.state or port.active_mtu:
            yield port


def _of_lanes(several: Sequence[Part]) -> Iterator[Shown]:
    """One of many with fewer lanes than the others, at their speed; or one end of a splitter."""
    rows = [found for part in several for line in part.lines if (found := _lanes(line))]
    several_lanes = Counter(lanes for _, lanes, _ in rows)
    usual, often = several_lanes.most_common(1)[0] if rows else (0, 0)
    few = [line for line, lanes, _ in rows if lanes < usual]
    if len(few) == 1 and often > MOST and len({speed for _, _, speed in rows}) == 1:
        yield Shown(("cable-or-module", "slow-path"), few[0], False)


def _lanes(line: Line) -> tuple[Line, int, str] | None:
    found = _LANES.match(line.text)
    return (line, int(found[2]), found[3]) if found else None


def _of_mtus(listed: Sequence[_Port]) -> Iterator[Shown]:
    """Of active ports of Ethernet, where two hosts have different ones."""
    of = [each for each in listed if each.is_active and each.layer == "Ethernet"]
    # An active MTU that is none is printed as "invalid MTU (0)".
    known = (each for each in of if each.active_mtu and _BYTES.match(each.active_mtu.value))
    hosts = {each.host: each.active_mtu for each in known if each.active_mtu}
    if len({mtu.value for mtu in hosts.values()}) > 1:
        least = min(hosts.values(), key=lambda mtu: int(mtu.value.split()[0]))
        yield Shown(("mtu-mismatch", "mtu-too-large"), least.line)


def _of_two_mtus(several: Sequence[Part]) -> Iterator[Shown]:
    """Of one device, listed by the same command at two hosts, by their prompts or by a remark."""
    seen: dict[str, tuple[str, str]] = {}
    for part in several:
        command = part.command.partition("|")[0].strip()
        if any(_DOWN.match(line.text) for line in part.lines):
            continue  # what it will be is not known
        rows = ((line, _MTU.match(line.text)) for line in part.lines)
        line, found = next((each for each in rows if each[1]), (None, None))
        if line is None or found is None or not command.startswith("ibv_devinfo -d"):
            continue
        where = f"{part.host} {part.command}"
        mtu, first = seen.setdefault(command, (found[1], where))
        if mtu != found[1] and first != where:
            yield Shown(("mtu-mismatch", "mtu-too-large"), line)


def _of_guids(several: Sequence[Part]) -> Iterator[Shown]:
    """A device without a GUID whose port is down: a virtual function that nobody has set up."""
    for part in several:
        zero = None
        for line in part.lines:
            if _DEVICE.match(line.text):
                zero = None
            elif _NO_GUID.match(line.text):
                zero = zero or line
            elif zero and _DOWN.match(line.text):
                yield Shown(("guid-zero", "port-down"), zero)
                break


def _of_transports(several: Sequence[Part]) -> Iterator[Shown]:
    """ibv_devinfo of two hosts, one of which has iWARP alone and the other none of it."""
    of: dict[str, dict[str, Line]] = {}
    for part in several:
        for line in part.lines:
            if found := _TRANSPORT.match(line.text):
                of.setdefault(part.host, {})[found[1]] = line
    yield from _of_links(several)
    yield from _of_windows(several)
    alone = {each.popitem() for each in of.values() if len(each) == 1}
    if {name for name, _ in alone} == {"iWARP", "InfiniBand"}:
        yield Shown(("link-layers-differ", "no-path"), dict(alone)["iWARP"])


def _of_links(several: Sequence[Part]) -> Iterator[Shown]:
    """The same of rdma(8), by the names that udev gives, at two hosts."""
    if any(_CHANGED.search(part.command) for part in several):
        return  # a list above it may be of before
    kinds: dict[tuple[str, str], tuple[str, Line]] = {}
    heading = ""
    for part in several:
        named = ((line, _NAMED.match(line.text)) for line in part.lines)
        rows = [(found[1] or found[2], line) for line, found in named if found]
        is_list = part.command in ("rdma link", "rdma link show")
        if is_list and len({kind for kind, _ in rows}) == 1:
            kinds[part.host, heading] = rows[0]
        elif is_list:
            return
        heading = next((e.text for e in part.lines[-1:] if _HEADS.match(e.text)), heading)
    if {kind for kind, _ in kinds.values()} in ({"iw", "roce"}, {"iw", "mlx5"}):
        yield Shown(("link-layers-differ", "no-path"), dict(kinds.values())["iw"])


def _of_windows(several: Sequence[Part]) -> Iterator[Shown]:
    """NetworkDirect Technology of Get-NetAdapterAdvancedProperty, here and at another computer."""
    tables: dict[str, list[tuple[str, Line]]] = {}
    asked = is_row = False
    where = ""
    lines = [line for part in several for line in part.lines]
    if any(_CHANGED.search(line.text) for line in lines):
        return
    for line in lines:
        if found := _POWERSHELL.match(line.text):
            asked, is_row = _NETWORK_DIRECT.search(line.text) is not None, False
            there = _AT_ANOTHER.search(line.text)
            where = found[1] or (there[1] if there else "")
        elif _VALUES.match(line.text):
            is_row = asked
        elif is_row and (found := _TECHNOLOGY.search(line.text)):
            tables.setdefault(where.lower(), []).append((found[1].lower(), line))
    kinds = [rows[0] for rows in tables.values() if len({kind for kind, _ in rows}) == 1]
    if len(kinds) == len(tables) and {kind for kind, _ in kinds} == {"iwarp", "roce"}:
        yield Shown(("link-layers-differ", "no-path"), dict(kinds)["iwarp"])


def _of_types(several: Sequence[Part], listed: Sequence[_Port]) -> Iterator[Shown]:
    """A port that is set to Ethernet, and has no link, beside ones of InfiniBand."""
    layers = {each.layer for each in listed if each.is_active}
    down = {each.host for each in listed if each.state and not each.is_active}
    for part in several:
        for line in part.lines:
            found = _TYPE.match(line.text)
            other = {"ETH": "InfiniBand", "IB": "Ethernet"}[found[1]] if found else ""
            is_for_other = found and found[1] == "ETH" and not layers and _sold_for_ib(part)
            if found and part.host in down and (other in layers or is_for_other):
                yield Shown(("port-type-other", "port-down"), line)


def _sold_for_ib(part: Part) -> bool:
    """Whether somebody asks for the types of an adapter that its description calls one of
    InfiniBand first.
    """
    asks = "LINK_TYPE" in part.command
    return asks and any(_DESCRIBED.match(line.text) for line in part.lines)


_DESCRIBED: Final = late(r"Description: .*?\b(?:[EHFNQ]DR|NDR200|XDR)\w* IB\b")


def _of_layers(listed: Sequence[_Port]) -> Iterator[Shown]:
    """One port each of two hosts, one of Ethernet and one of InfiniBand: the former has no link,
    and the latter has none or is beside it as it should be.
    """
    ports = {each.host: each for each in listed if each.host and each.layer}
    if len(ports) != 2 or len(listed) != len(ports):
        return
    of = {each.layer: each for each in ports.values()}
    ethernet, infiniband = of.get("Ethernet"), of.get("InfiniBand")
    if ethernet and infiniband and ethernet.link_layer and not ethernet.is_active:
        yield Shown(("port-type-other", "link-layers-differ"), ethernet.link_layer.line)


_OPA_STATE: Final = late(r"\s*PortState:\s+Init \(LinkUp\)\s*$")
"""Of opainfo(1)."""
_OPA_DOWN: Final = late(r"\s*PortState:\s+Down \(")


def _of_netdevs(several: Sequence[Part]) -> Iterator[Shown]:
    for part in several:
        for line in part.lines:
            if _ROCE.match(line.text):
                yield Shown(("netdev-in-other-netns", "gid-without-netdev"), line)


def _of_modes(several: Sequence[Part]) -> Iterator[Shown]:
    """cma_roce_mode of several hosts."""
    of: dict[str, Line] = {}
    for part in several:
        if "cma_roce_mode" in part.command:
            for line in part.lines:
                if _CONFIGURED.fullmatch(line.text.strip()):
                    of[line.text.strip()] = line
    if len(of) > 1:
        yield Shown(("gid-types-differ", "no-path"), min(of.values()))


def _of_one_that_is_down(several: Sequence[Part]) -> Iterator[Shown]:
    for part in several:
        rows = [(found, line) for line in part.lines if (found := _MAPS.match(line.text))]
        down = [(found, line) for found, line in rows if found[4] == "Down"]
        first = [line for found, line in down if not _SECOND.search(found[3]) and found[2] == "1"]
        if len(first) == len(down) and first and len(rows) - len(down) >= MOST * len(down):
            yield Shown(("port-down", "link-lost", "cable-or-module"), first[0], False)


def _of_siblings(listed: Sequence[_Port]) -> Iterator[Shown]:
    """One of many ports of a host of InfiniBand, each the only one of its adapter, that is down or
    slower than all others.
    """
    of: dict[str, list[_Port]] = {}
    for each in listed:
        if each.layer == "InfiniBand" and each.number == "1":
            of.setdefault(each.host, []).append(each)
    for ports in of.values():
        down = [each for each in ports if not each.is_active]
        up = [each.rate for each in ports if each.is_active and each.rate]
        if len(down) == 1 and len(ports) > MOST and (state := down[0].state):
            yield Shown(("port-down", "link-lost", "cable-or-module"), state.line, False)
        rates = Counter(each.value for each in up)
        rare = [each for each in up if rates[each.value] == 1]
        if len(rates) == 2 and len(rare) == 1 and len(up) > MOST:
            usual = rates.most_common(1)[0][0]
            if _gigabits(rare[0].value) < _gigabits(usual):
                yield Shown(("cable-or-module", "slow-path"), rare[0].line, False)


def _gigabits(rate: str) -> float:
    found = _NUMBER.match(rate)
    return float(found[0]) if found else 0.0


_NUMBER: Final = late(r"\d+(?:\.\d+)?")


def _of_interfaces(several: Sequence[Part]) -> Iterator[Shown]:
    """A netdev of a device that somebody has asked for, and that nobody brought up."""
    lines = [line for part in several for line in part.lines]
    of = {found[1] for line in lines if (found := _NETDEV.match(line.text))}
    for line in lines:
        found = _LINK.match(line.text)
        if found and found[1] in of and "UP" not in found[2].split(","):
            yield Shown(("interface-down", "port-down"), line, False)


def _of_sysfs(several: Sequence[Part]) -> Iterator[Shown]:
    """The files `state` of ports, a port of Omni-Path, and a port of a switch that iblinkinfo lists
    as disabled.
    """
    for part in several:
        for line in part.lines:
            is_init = "/ports/" in part.command and line.text.strip() == "2: INIT"
            if is_init or _OPA_STATE.match(line.text):
                yield Shown(("no-subnet-manager", "port-down"), line)
            elif _OPA_DOWN.match(line.text) or _SWITCHED_OFF.search(line.text):
                yield Shown(("port-down", "link-lost"), line, False)
