"""Transcripts of the verbs query for machines that are described, and scripts for the fake library.

Format: rdmadiag/verbs/query.py. Numbers by infiniband/verbs.h.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import GidType, LinkLayer, NodeType, PhysState, PortState
from rdmadiag.facts.verbs import DeviceLimits
from rdmadiag.gid.scan import route_gid_scan_limit
from rdmadiag.verbs.abi import IbvDeviceAttr, IbvPortAttr

APPLE_LIMITS = {
    "max_qp": 11,
    "max_pd": 11,
    "max_cq": 11,
    "max_mr": 100,
    "max_qp_wr": 4095,
    "max_cqe": 4096,
    "max_sge": 1,
}


@dataclass(frozen=True)
class Gids:
    """One row of a port's table."""

    gid: str
    type: GidType = GidType.IB
    ifindex: int = 0


@dataclass(frozen=True)
class TranscribedPort:
    """A port as ibv_query_port shows it."""

    state: PortState = PortState.ACTIVE
    layer: LinkLayer = LinkLayer.THUNDERBOLT
    phys: PhysState = PhysState.LINK_UP
    lid: int = 0
    sm_lid: int = 0
    gids: Mapping[int, Gids] = field(default_factory=dict)
    gid_table_length: int = 32
    active_mtu: int = 5  # enum ibv_mtu

    def numbers(self) -> dict[str, int]:
        """struct ibv_port_attr."""
        known = {
            "state": self.state.number,
            "phys_state": self.phys.number,
            "link_layer": self.layer.number,
            "max_mtu": 5,
            "active_mtu": self.active_mtu,
            "gid_tbl_len": self.gid_table_length,
            "pkey_tbl_len": 1,
            "max_msg_sz": 1 << 24,
            "lid": self.lid,
            "sm_lid": self.sm_lid,
            "active_width": 4,
            "active_speed": 4,
        }
        # As the symbol ibv_query_port has it, which leaves port_cap_flags2 alone.
        names = (name for name, *_ in IbvPortAttr._fields_ if name != "port_cap_flags2")
        return {name: known.get(name, 0) for name in names}


@dataclass(frozen=True)
class TranscribedDevice:
    """A device as the verbs library shows it."""

    name: str
    ports: tuple[TranscribedPort, ...]
    guid: str = "0000:0000:0000:0000"
    firmware: str = ""
    node_type: NodeType = NodeType.CA
    transport: int = 0
    limits: Mapping[str, int] = field(default_factory=dict)
    extended: Mapping[str, int] | None = None  # ibv_query_device_ex; None: it was not called
    unread: bool = False  # but for limits, nothing is known of struct ibv_device_attr

    def numbers(self) -> dict[str, int]:
        """The integer fields of struct ibv_device_attr, but for the GUIDs."""
        known = {"max_qp": 1024, "max_pd": 1024, "max_cq": 1024, "max_mr": 1024, "max_sge": 16}
        if self.unread:
            known |= {"max_srq": 1024, "max_ah": 1024}
        known |= dict(self.limits) | {"phys_port_cnt": len(self.ports)}
        skipped = ("fw_ver", "node_guid", "sys_image_guid")
        names = (name for name, *_ in IbvDeviceAttr._fields_ if name not in skipped)
        return {name: known.get(name, 0) for name in names}

    def written(self) -> dict[str, int]:
        """What a record of it holds."""
        every = self.numbers()
        if not self.unread:
            return every
        read = {*DeviceLimits.__dataclass_fields__, *_ALWAYS, *self.limits}
        return {name: value for name, value in every.items() if name in read}


_ALWAYS = ("vendor_id", "vendor_part_id", "hw_ver", "phys_port_cnt")


@dataclass(frozen=True)
class Stop:
    """A call that does not come back, or fails."""

    call: str
    device: str | None = None
    errno: int | None = None  # None: it hangs until the child is killed


class _Ended(Exception):
    pass


class _Writer:
    def __init__(self, stops: Iterable[Stop]) -> None:
        self.rows: list[dict[str, Any]] = []
        self._stops = tuple(stops)

    def write(self, **row: Any) -> None:
        self.rows.append(row | {"at": round(len(self.rows) * 0.0004, 6)})

    def step(
        self, call: str, answer: Any, device: str | None = None, port: int | None = None
    ) -> bool:
        self.write(call=call, device=device, port=port)
        for stop in self._stops:
            if stop.call == call and stop.device in (None, device):
                if stop.errno is None:
                    raise _Ended
                self.write(errno=stop.errno)
                return False
        self.write(answer=answer)
        return True


def transcript(
    platform: str,
    library: str,
    devices: Iterable[TranscribedDevice],
    stops: Iterable[Stop] = (),
    *,
    table: bool = False,
    unloadable: str | None = None,
    unkillable: bool = False,
    stderr: str = "",
) -> bytes:
    """What the child would have written; `table`: by _ibv_query_gid_table, as on Linux."""
    out = _Writer(stops)
    out.write(platform=platform, library=library)
    end: dict[str, Any] = {"end": 0, "pid": 4242, "unkillable": False, "at": 0.21}
    try:
        if unloadable:
            out.write(unloadable=unloadable)
        else:
            _talk(out, tuple(devices), table=table)
            out.write(done=True)
    except _Ended:
        end |= {"end": None, "unkillable": unkillable, "at": 6.02}
    rows = [*out.rows, end | {"stderr": stderr}]
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def _talk(out: _Writer, devices: tuple[TranscribedDevice, ...], *, table: bool) -> None:
    listed = [
        {"name": each.name, "node_type": each.node_type.number, "transport": each.transport}
        for each in devices
    ]
    if not out.step("ibv_get_device_list", listed):
        return
    for device in devices:
        if not out.step("ibv_open_device", True, device.name):
            continue
        guid = device.guid.replace(":", "")
        attributes = device.written() | {"fw_ver": device.firmware}
        attributes |= {"node_guid": guid, "sys_image_guid": guid}
        out.step("ibv_query_device", attributes, device.name)
        if device.extended is not None:
            out.step("ibv_query_device_ex", dict(device.extended), device.name)
        asked = [
            number
            for number, port in enumerate(device.ports, 1)
            if out.step("ibv_query_port", port.numbers(), device.name, number)
        ]
        _gids(out, device, asked, table=table)
        out.step("ibv_close_device", 0, device.name)
    out.step("ibv_free_device_list", None)


def _gids(out: _Writer, device: TranscribedDevice, asked: list[int], *, table: bool) -> None:
    if table and asked:
        rows = [
            {
                "port": number,
                "index": index,
                "gid": Gid.parse(row.gid).raw.hex(),
                "type": row.type.number,
                "ifindex": row.ifindex,
            }
            for number in asked
            for index, row in sorted(device.ports[number - 1].gids.items())
        ]
        out.step("_ibv_query_gid_table", rows, device.name)
        return
    for number in asked:
        port = device.ports[number - 1]
        limit = route_gid_scan_limit(port.gid_table_length)
        found = [
            {"index": index, "gid": Gid.parse(row.gid).raw.hex()}
            for index, row in sorted(port.gids.items())
            if index < limit
        ]
        out.step("ibv_query_gid", {"asked": limit, "rows": found}, device.name, number)


def script(devices: Iterable[TranscribedDevice], stops: Iterable[Stop] = ()) -> str:
    """The same devices for tests/verbs/fake_verbs.c."""
    lines = []
    for device in devices:
        guid = f"0x{device.guid.replace(':', '')}"
        numbers = " ".join(f"{name}={value}" for name, value in device.numbers().items())
        firmware = f" fw={device.firmware}" if device.firmware else ""
        lines.append(
            f"device {device.name} node_type={device.node_type.number} "
            f"transport={device.transport} guid={guid} sys_image_guid={guid}{firmware} {numbers}"
        )
        for number, port in enumerate(device.ports, 1):
            values = " ".join(f"{name}={value}" for name, value in port.numbers().items())
            lines.append(f"port {device.name} {number} {values}")
            lines += [
                f"gid {device.name} {number} {index} {row.gid} "
                f"type={row.type.number} ifindex={row.ifindex}"
                for index, row in sorted(port.gids.items())
            ]
    for stop in stops:
        action = "hang" if stop.errno is None else f"errno={stop.errno}"
        lines.append(f"on {' '.join(filter(None, (stop.call, stop.device)))} {action}")
    return "\n".join(lines) + "\n"
