"""The verbs library: what a child process that called it wrote down.

    {"call": "ibv_query_port", "device": "mlx5_0", "port": 1, "at": 0.0021}
    {"answer": {"state": 4, "lid": 7, "link_layer": 1}, "at": 0.0024}

The calls are those that ibv_devinfo makes: list, open, query, close. Opening a device
makes a user context in the kernel for as long as the child lives, and nothing else.
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.errnos import errno_name, errno_text
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import (
    MTU_BYTES,
    GidType,
    LinkLayer,
    NodeType,
    Numbered,
    PhysState,
    PortState,
)
from rdmadiag.facts.verbs import (
    KILLED,
    NOT_RECORDED,
    DeviceLimits,
    Operation,
    Unanswered,
    VerbsDevice,
    VerbsFacts,
    VerbsFailure,
    VerbsGid,
    VerbsPort,
)
from rdmadiag.gid.scan import MAX_ROUTE_GID_SCAN
from rdmadiag.host import Host
from rdmadiag.late import late

N = TypeVar("N", bound=Numbered)

SECONDS: Final = 6.0
"""For the whole query: x/rdma's limit for Apple's provider."""

SECONDS_A_DEVICE: Final = 0.2
"""More for each device of a Linux host: 64 HCAs that each take their time do not hang."""

_NO_EXTENDED: Final = Missing(Why.UNSUPPORTED, "ibv_query_device_ex: not in this provider")
_NO_DLADDR: Final = Missing(Why.UNSUPPORTED, "dladdr: not in this C library")
_ALL_ONES: Final = (1 << 64) - 1

_GUID: Final = late(r"[0-9a-f]{16}")
_CHARDEVS: Final = "/sys/class/infiniband_verbs"


def read_verbs(
    host: Host, deadline: float, gid_rows: int = MAX_ROUTE_GID_SCAN
) -> VerbsFacts | Missing:
    """What the library says; `deadline` is absolute, and the query has one of its own."""
    chardevs = host.list(_CHARDEVS) if host.identity.platform == "linux" else ()
    if isinstance(chardevs, Missing):
        # libibverbs asks nldev for a character device, and the kernel loads ib_uverbs for it.
        if chardevs.why is not Why.ABSENT:
            return chardevs
        return Missing(Why.ABSENT, "ib_uverbs is not loaded, so libibverbs was not queried")
    seconds = SECONDS + SECONDS_A_DEVICE * len(chardevs)
    transcript = host.verbs(gid_rows, min(deadline, time.monotonic() + seconds))
    return transcript if isinstance(transcript, Missing) else parse_verbs(transcript)


def parse_verbs(transcript: bytes) -> VerbsFacts | Missing:
    """A transcript of verbs.query → what was answered before it ended.

    Missing where the library could not be loaded, or nothing was written.
    """
    rows = list(_rows(transcript))
    head = rows[0] if rows else {}
    platform = head.get("platform")
    if platform not in ("linux", "darwin"):
        return _no_head(rows)
    reading = _Reading(platform, _text(head, "library"))
    for row in rows[1:]:
        if "unloadable" in row:
            return Missing(Why.ABSENT, _text(row, "unloadable"))
    try:
        for row in rows[1:]:
            reading.take(row)
        return reading.facts()
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        return Missing(Why.MALFORMED, f"verbs: not what the query writes: {error!r}")


def _rows(transcript: bytes) -> Iterator[dict[str, Any]]:
    for line in transcript.splitlines():
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue  # the line that was being written when the child was killed
        if isinstance(row, dict):
            yield row


def _no_head(rows: list[dict[str, Any]]) -> Missing:
    end = rows[-1] if rows else {}
    if end.get("end", 0) is None:
        return Missing(Why.TIMEOUT, "verbs: the query had not started at the deadline")
    last = _text(end, "stderr").strip().splitlines()
    said = f"verbs: the query did not start: {last[-1]}" if last else "verbs: no answer"
    return Missing(Why.MALFORMED, said)


@dataclass
class _Device:
    """What was answered of one device so far."""

    name: str
    node_type: NodeType | Missing
    transport: int
    attributes: dict[str, Any] = field(default_factory=dict)
    opened: bool = False
    extended: dict[str, int] | Missing = NOT_RECORDED
    operations: tuple[Operation, ...] | Missing = NOT_RECORDED
    ports: dict[int, dict[str, Any]] = field(default_factory=dict)
    gids: dict[int, list[VerbsGid]] = field(default_factory=dict)
    asked: dict[int, int] = field(default_factory=dict)
    unreadable: dict[int, dict[int, Missing]] = field(default_factory=dict)
    refused: dict[str, Missing] = field(default_factory=dict)  # by call

    def why_not(self, call: str) -> Missing:
        """Why there is no answer of `call`."""
        return self.refused.get("ibv_open_device") or self.refused.get(call) or _no_answer(call)


class _Reading:
    """Takes the rows of a transcript one by one."""

    def __init__(self, platform: Literal["linux", "darwin"], library: str) -> None:
        self._platform = platform
        self._library = library
        self._devices: dict[str, _Device] = {}
        self._failures: list[VerbsFailure] = []
        self._call: dict[str, Any] | None = None  # begun and not answered
        self._last: dict[str, Any] = {"at": 0.0}
        self._done = False
        self._end: dict[str, Any] = {}

    def take(self, row: dict[str, Any]) -> None:
        if "end" not in row:
            self._last = row
        if "done" in row:
            self._done = True
        elif "call" in row:
            self._call = row
        elif "end" in row:
            self._end = row
        elif self._call is not None and ("answer" in row or "errno" in row):
            call, self._call = self._call, None
            if "errno" in row:
                self._failed(call, int(row["errno"]))
            else:
                self._answered(call, row["answer"])

    def _failed(self, call: dict[str, Any], errno: int) -> None:
        name = errno_name(errno, self._platform) if errno else "no errno"
        function, device = _text(call, "call"), _subject(call)
        self._failures.append(VerbsFailure(function, device, _port_number(call), errno, name))
        if device in self._devices:
            refused = self._refusal(function, errno)
            self._devices[device].refused.setdefault(function, refused)

    def _refusal(self, call: str, errno: int) -> Missing:
        said = errno_text(errno, self._platform) if errno else "it failed without an errno"
        return Missing(Why.UNSUPPORTED, f"{call}: {said}")

    def _answered(self, call: dict[str, Any], answer: Any) -> None:
        name = _text(call, "call")
        if name == "ibv_get_device_list":
            for each in answer:
                kind = _numbered(NodeType, int(each["node_type"]))
                device = _Device(_text(each, "name"), kind, int(each["transport"]))
                self._devices[device.name] = device
        found = self._devices.get(_subject(call) or "")
        if found is None:
            return
        if name == "ibv_open_device":
            found.opened = True
        elif name == "ibv_query_device":
            found.attributes = dict(answer)
        elif name == "ibv_query_device_ex":
            found.extended = _numbers(answer) or _NO_EXTENDED
        elif name == "dladdr":
            found.operations = _operations(answer) or _NO_DLADDR
        elif name == "ibv_query_port":
            found.ports[int(call["port"])] = dict(answer)
        elif name in ("ibv_query_gid", "_ibv_query_gid_table"):
            self._gids(found, call, answer)

    def _gids(self, device: _Device, call: dict[str, Any], answer: Any) -> None:
        if isinstance(answer, list):  # the table of the whole device
            device.asked = {port: _row_count(row) for port, row in device.ports.items()}
            for entry in answer:
                self._gid(device, int(entry["port"]), entry)
            return
        port = int(call["port"])
        device.asked[port] = int(answer["asked"])
        for entry in answer["rows"]:
            if "errno" in entry:
                self._failed(call, int(entry["errno"]))
                refused = self._refusal("ibv_query_gid", int(entry["errno"]))
                device.unreadable.setdefault(port, {})[int(entry["index"])] = refused
            else:
                self._gid(device, port, entry)

    def _gid(self, device: _Device, port: int, entry: dict[str, Any]) -> None:
        gid = Gid(bytes.fromhex(_text(entry, "gid")))
        if gid.is_zero:
            return
        kind: GidType | Missing = _not_told("type")
        netdev: int | Missing = _not_told("netdev")
        if "type" in entry:
            kind = _numbered(GidType, int(entry["type"]))
            netdev = int(entry["ifindex"]) or Missing(Why.ABSENT, "none")
        device.gids.setdefault(port, []).append(VerbsGid(int(entry["index"]), gid, kind, netdev))

    def facts(self) -> VerbsFacts:
        stderr = _text(self._end, "stderr")
        return VerbsFacts(
            platform=self._platform,
            library=self._library,
            pid=_pid(self._end),
            devices=tuple(map(_device, self._devices.values())),
            failures=tuple(self._failures),
            unanswered=self._unanswered(),
            warnings=tuple(line.strip() for line in stderr.splitlines() if line.strip()),
        )

    def _unanswered(self) -> Unanswered | None:
        if self._done:
            return None
        call = self._call or {"call": "between two calls", "at": self._last["at"]}
        code = self._end.get("end")
        ending = KILLED if code is None else f"ended with code {code}"
        if isinstance(code, int) and code < 0:
            ending = f"ended by signal {-code}"
        since = float(self._end.get("at", 0.0)) - float(call["at"])
        return Unanswered(
            call=_text(call, "call"),
            device=_subject(call),
            port=_port_number(call),
            seconds=round(max(0.0, since) * 1000) / 1000,  # raises for what is not finite
            end=ending,
            pid=_pid(self._end),
            unkillable=bool(self._end.get("unkillable")),
        )


def _no_answer(call: str) -> Missing:
    return Missing(Why.NOT_COLLECTED, f"{call}: no answer")


def _not_told(what: str) -> Missing:
    return Missing(Why.UNSUPPORTED, f"ibv_query_gid does not give the {what}")


def _text(row: dict[str, Any], key: str) -> str:
    value = row.get(key, "")
    # JSON can spell half a character, UTF-8 cannot.
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else ""


def _pid(end: dict[str, Any]) -> int:
    return int(end.get("pid", 0))


def _subject(call: dict[str, Any]) -> str | None:
    return _text(call, "device") or None


def _port_number(call: dict[str, Any]) -> int | None:
    port = call.get("port")
    return port if isinstance(port, int) else None


def _numbered(kind: type[N], number: int) -> N | Missing:
    return kind.from_number(number) or Missing(Why.MALFORMED, f"{number} is no {kind.__name__}")


def _row_count(port: dict[str, Any]) -> int:
    return max(0, int(port["gid_tbl_len"]))


def _device(device: _Device) -> VerbsDevice:
    row = device.attributes
    missing = device.why_not("ibv_query_device")

    def number(name: str) -> int | Missing:
        return int(row[name]) if row else missing

    def text(name: str, parse: Callable[[str], str | Missing]) -> str | Missing:
        return parse(_text(row, name)) if row else missing

    return VerbsDevice(
        name=device.name,
        node_type=device.node_type,
        transport=device.transport,
        node_guid=text("node_guid", _guid),
        sys_image_guid=text("sys_image_guid", _guid),
        firmware=text("fw_ver", _firmware),
        vendor_id=number("vendor_id"),
        vendor_part_id=number("vendor_part_id"),
        hw_version=number("hw_ver"),
        port_count=number("phys_port_cnt"),
        limits=_limits(row) if row else missing,
        ports=(
            tuple(_port(at, row, device) for at, row in sorted(device.ports.items()))
            if device.ports
            else device.why_not("ibv_query_port")
        ),
        attributes=_numbers(row) if row else missing,
        extended=device.refused.get("ibv_query_device_ex", device.extended),
        operations=device.operations,
    )


def _guid(text: str) -> str | Missing:
    """Eight bytes as sysfs writes them: 0c42:a103:0000:0001."""
    if not _GUID.fullmatch(text):
        return Missing(Why.MALFORMED, f"{text[:40]!r} is no GUID")
    return ":".join(text[at : at + 4] for at in range(0, 16, 4))


def _firmware(text: str) -> str | Missing:
    if not text.strip() or not text.isprintable():
        return Missing(Why.ABSENT, "fw_ver: empty")
    return text.strip()


def _limits(row: dict[str, Any]) -> DeviceLimits:
    return DeviceLimits(**{name: int(row[name]) for name in DeviceLimits.__dataclass_fields__})


def _port(number: int, row: dict[str, Any], device: _Device) -> VerbsPort:
    asked = device.asked.get(number)
    why_not = device.why_not("ibv_query_gid")
    if "_ibv_query_gid_table" in device.refused:
        why_not = device.refused["_ibv_query_gid_table"]
    gids = tuple(sorted(device.gids.get(number, ()), key=lambda each: each.index))
    return VerbsPort(
        number=number,
        state=_numbered(PortState, int(row["state"])),
        phys_state=_numbered(PhysState, int(row["phys_state"])),
        link_layer=_numbered(LinkLayer, int(row["link_layer"])),
        max_mtu=_mtu(row["max_mtu"]),
        active_mtu=_mtu(row["active_mtu"]),
        lid=int(row["lid"]),
        lmc=int(row["lmc"]),
        sm_lid=int(row["sm_lid"]),
        sm_sl=int(row["sm_sl"]),
        active_width=int(row["active_width"]),
        active_speed=int(row["active_speed"]),
        max_msg_size=int(row["max_msg_sz"]),
        gid_table_length=_row_count(row),
        pkey_table_length=int(row["pkey_tbl_len"]),
        gids=gids if asked is not None else why_not,
        gids_asked=asked or 0,
        gids_unreadable=device.unreadable.get(number, {}),
        attributes=_numbers(row),
    )


def _numbers(row: dict[str, Any]) -> dict[str, int]:
    """The numbers of a structure; raises ValueError for one that C has no room for."""
    found = {name: each for name, each in row.items() if type(each) is int}
    if any(not -(1 << 63) <= each <= _ALL_ONES for each in found.values()):
        raise ValueError("a number of more than 64 bits")
    return {_text({"": name}, ""): each for name, each in found.items()}


def _operations(row: dict[str, Any]) -> tuple[Operation, ...]:
    return tuple(
        Operation(_text({"": name}, ""), None if file is None else _text({"": file}, ""))
        for name, file in row.items()
    )


def _mtu(number: int) -> int | Missing:
    return MTU_BYTES.get(number, Missing(Why.MALFORMED, f"{number} is no ibv_mtu"))
