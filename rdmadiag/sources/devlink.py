"""devlink: health reporters, versions, parameters and eswitch of what RDMA devices stand on.

Reporters are one dump of all devices, from the kernel's own memory; everything else is
queried of each device by itself, since a dump would query the drivers of all others too.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeVar

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.devlink import (
    DevlinkDevice,
    DevlinkFacts,
    EswitchMode,
    Info,
    ParamMode,
    ParamValue,
    Reporter,
    ReporterState,
    Version,
)
from rdmadiag.facts.ib import Numbered
from rdmadiag.frozen import dataclass
from rdmadiag.host import Host, netlink
from rdmadiag.late import late
from rdmadiag.sources.dump import dump
from rdmadiag.sources.generic import generic_attributes, generic_request, read_family
from rdmadiag.sources.sysfs import CLASS, NET_CLASS
from rdmadiag.sources.text import attribute, parse_text

T = TypeVar("T")
N = TypeVar("N", bound=Numbered)
Handle = tuple[str, str]  # bus and name

_BUS_NAME, _DEV_NAME, _PORT_INDEX, _ESWITCH_MODE = 1, 2, 3, 25  # DEVLINK_ATTR_*
_PARAM, _PARAM_NAME, _PARAM_TYPE, _VALUES_LIST, _VALUE_DATA, _VALUE_CMODE = 80, 81, 83, 84, 86, 87
_DRIVER_NAME, _FIXED, _RUNNING, _STORED, _VERSION_NAME, _VERSION_VALUE = 98, 100, 101, 102, 103, 104
_REPORTER, _NAME, _STATE, _ERR_COUNT, _RECOVER_COUNT = 114, 115, 116, 117, 118
_FLAG: Final = 6  # NLA_FLAG

_MOST: Final = 4096
_PCI: Final = late(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_FILE_NAME: Final = late(r"[A-Za-z0-9_.:-]{1,64}")


# --- messages ----------------------------------------------------------------------------


def parse_reporters(reply: bytes) -> dict[Handle, tuple[Reporter, ...]] | Missing:
    """The reply to a HEALTH_REPORTER_GET dump: by device."""
    found: dict[Handle, list[Reporter]] = {}
    try:
        for at, message in enumerate(netlink.messages(reply)):
            if at >= _MOST:
                return Missing(Why.UNSUPPORTED, f"more than {_MOST} health reporters")
            raw = netlink.body(reply, message, netlink.GENERIC_HEADER.size)
            row = dict(netlink.attributes(raw))
            bus, device = netlink.text(row.get(_BUS_NAME)), netlink.text(row.get(_DEV_NAME))
            reporter = dict(netlink.attributes(row.get(_REPORTER, b"")))
            name = netlink.text(reporter.get(_NAME))
            if bus and device and name:
                found.setdefault((bus, device), []).append(
                    Reporter(
                        name,
                        netlink.number(row.get(_PORT_INDEX)),
                        _one_of(reporter, _STATE, "state", ReporterState),
                        _count(reporter, _ERR_COUNT, "number of errors"),
                        _count(reporter, _RECOVER_COUNT, "number of recoveries"),
                    )
                )
    except ValueError as error:
        return Missing(Why.MALFORMED, str(error))
    return {handle: tuple(reporters) for handle, reporters in found.items()}


def parse_info(reply: bytes) -> Info | Missing:
    """The reply to INFO_GET: one attribute a version, any number of each kind."""
    found = generic_attributes(reply)
    if isinstance(found, Missing):
        return found
    message = next(netlink.messages(reply))
    versions: dict[int, list[Version]] = {_FIXED: [], _RUNNING: [], _STORED: []}
    body = netlink.body(reply, message, netlink.GENERIC_HEADER.size)
    for kind, content in netlink.attributes(body):
        if kind not in versions:
            continue
        version = dict(netlink.attributes(content))
        name = netlink.text(version.get(_VERSION_NAME))
        value = netlink.text(version.get(_VERSION_VALUE))
        if name and value and len(versions[kind]) < _MOST:
            versions[kind].append(Version(name, value))
    return Info(
        netlink.text(found.get(_DRIVER_NAME)) or _left_out("name of its own"),
        *(tuple(versions[kind]) for kind in (_FIXED, _RUNNING, _STORED)),
    )


def parse_param(reply: bytes) -> tuple[ParamValue, ...] | Missing:
    """The reply to PARAM_GET for a parameter that is on or off."""
    found = generic_attributes(reply)
    if isinstance(found, Missing):
        return found
    param = dict(netlink.attributes(found.get(_PARAM, b"")))
    if netlink.number(param.get(_PARAM_TYPE)) != _FLAG:
        return Missing(Why.MALFORMED, "a parameter that is no flag")
    values = []
    for _, content in netlink.attributes(param.get(_VALUES_LIST, b"")):
        value = dict(netlink.attributes(content))
        mode = _one_of(value, _VALUE_CMODE, "configuration mode", ParamMode)
        values.append(ParamValue(mode, _VALUE_DATA in value))
    return tuple(values[: len(ParamMode) + 1])


def parse_eswitch(reply: bytes) -> EswitchMode | Missing:
    """The reply to ESWITCH_GET."""
    found = generic_attributes(reply)
    if isinstance(found, Missing):
        return found
    return _one_of(found, _ESWITCH_MODE, "eswitch mode", EswitchMode)


def _left_out(what: str) -> Missing:
    return Missing(Why.UNSUPPORTED, f"the driver gives no {what}")


def _count(found: Mapping[int, bytes], kind: int, what: str) -> int | Missing:
    value = netlink.number(found.get(kind))
    return _left_out(what) if value is None else value


def _one_of(found: Mapping[int, bytes], kind: int, what: str, words: type[N]) -> N | Missing:
    value = _count(found, kind, what)
    if isinstance(value, Missing):
        return value
    known = words.from_number(value)
    return known or Missing(Why.UNSUPPORTED, f"{what} {value} is not known here")


# --- reading -----------------------------------------------------------------------------


def read_devlink(host: Host, deadline: float) -> DevlinkFacts | Missing:
    """What each RDMA device stands on, once; `deadline` as in Host.netlink."""
    names = host.list(CLASS)
    if isinstance(names, Missing) and names.why is not Why.ABSENT:
        return names
    below: dict[Handle, list[str]] = {}
    for name in () if isinstance(names, Missing) else names:
        for handle in _handles(host, name):
            below.setdefault(handle, []).append(name)
    if not below:
        return DevlinkFacts(())
    reader = _Reader(host, read_family(host, netlink.DEVLINK_GENL_NAME, deadline), deadline)
    reporters = reader.reporters()
    return DevlinkFacts(
        tuple(reader.device(handle, tuple(names), reporters) for handle, names in below.items())
    )


def _handles(host: Host, device: str) -> Iterator[Handle]:
    """Bus and name of what an RDMA device stands on; of software, what its netdev stands on."""
    folder = f"{CLASS}/{device}/device"
    target = host.readlink(folder)
    if isinstance(target, Missing):
        parent = attribute(host, f"{CLASS}/{device}/parent", parse_text)
        if isinstance(parent, Missing) or "/" in parent:
            return
        folder = f"{NET_CLASS}/{parent}/device"
        target = host.readlink(folder)
    if isinstance(target, Missing):
        return
    name = target.rpartition("/")[2]
    if _PCI.fullmatch(name):
        yield "pci", name
        return
    subsystem = host.readlink(f"{folder}/subsystem")
    bus = "" if isinstance(subsystem, Missing) else subsystem.rpartition("/")[2]
    if _FILE_NAME.fullmatch(name) and _FILE_NAME.fullmatch(bus):
        yield bus, name


@dataclass(frozen=True, slots=True)
class _Reader:
    """One message after the other."""

    host: Host
    family: int | Missing
    deadline: float

    def reporters(self) -> dict[Handle, tuple[Reporter, ...]] | Missing:
        """Of all devices."""
        if isinstance(self.family, Missing):
            return self.family
        command = netlink.DEVLINK_CMD_HEALTH_REPORTER_GET
        request = generic_request(self.family, command, b"", netlink.NLM_F_DUMP)
        name, protocol = "devlink-health-reporters", netlink.NETLINK_GENERIC
        reply = dump(self.host, name, protocol, request, self.deadline)
        return reply if isinstance(reply, Missing) else parse_reporters(reply)

    def device(
        self,
        handle: Handle,
        devices: tuple[str, ...],
        reporters: dict[Handle, tuple[Reporter, ...]] | Missing,
    ) -> DevlinkDevice:
        """All of one device."""
        return DevlinkDevice(
            *handle,
            devices,
            reporters if isinstance(reporters, Missing) else reporters.get(handle, ()),
            self._get(handle, "info", netlink.DEVLINK_CMD_INFO_GET, parse_info),
            self._param(handle, "enable_roce"),
            self._param(handle, "enable_iwarp"),
            self._get(handle, "eswitch", netlink.DEVLINK_CMD_ESWITCH_GET, parse_eswitch),
        )

    def _param(self, handle: Handle, name: str) -> tuple[ParamValue, ...] | Missing:
        named = netlink.attribute(_PARAM_NAME, f"{name}\0".encode())
        return self._get(handle, name, netlink.DEVLINK_CMD_PARAM_GET, parse_param, named)

    def _get(
        self,
        handle: Handle,
        what: str,
        command: int,
        parse: Callable[[bytes], T | Missing],
        more: bytes = b"",
    ) -> T | Missing:
        if isinstance(self.family, Missing):
            return self.family
        bus, name = handle
        payload = netlink.attribute(_BUS_NAME, f"{bus}\0".encode())
        payload += netlink.attribute(_DEV_NAME, f"{name}\0".encode()) + more
        request = generic_request(self.family, command, payload)
        reply = self.host.netlink(
            f"devlink-{what}-{bus}-{name}", netlink.NETLINK_GENERIC, request, self.deadline
        )
        found = reply if isinstance(reply, Missing) else parse(reply)
        if isinstance(found, Missing) and found.why is Why.UNSUPPORTED:
            return Missing(found.why, f"the driver of {bus}/{name} has no {what}")
        return found
