"""Counters of RDMA devices: sysfs, and RDMA netlink beside it.

    mlx5_0/ports/1/counters/symbol_error              0
    mlx5_0/ports/1/hw_counters/out_of_sequence        17
    mlx5_0/hw_counters/…                              of the device as a whole
    mlx5_0/ports/1/cm_tx_retries/req                  0
    mlx5_0/mr_cache/12/miss                           3, of a driver that has it

Reading has a price: on some hardware each read runs a firmware command, and one that is
rejected floods the kernel log (prometheus/node_exporter#3434). So nothing of an excluded
device is read, and what was refused once is not read again (`Spared`).
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from rdmadiag.facts import Missing, Why, first_known, present
from rdmadiag.facts.counters import (
    ALL,
    NOTHING,
    CountedDevice,
    CountedPort,
    CounterFacts,
    CounterSet,
    CounterSource,
    Spared,
    Wanted,
)
from rdmadiag.host import Host
from rdmadiag.late import late
from rdmadiag.sources.nldev_counters import PortNetdevs, read_device_indexes, read_statistics
from rdmadiag.sources.sysfs import CLASS, parse_link_layer
from rdmadiag.sources.text import attribute, malformed, parse_text

_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
_UPTIME: Final = "/proc/uptime"
_LIFESPAN: Final = "lifespan"  # beside the counters in hw_counters, and none
_DIGITS: Final = 20  # of 2^64
_SECONDS: Final = late(rb"([0-9]{1,12}\.[0-9]{2}) ")
_PORT: Final = late(r"[1-9][0-9]{0,2}")
_ROWS: Final = 4  # of a GID table whose first one may be empty
_CM: Final = ("cm_rx_duplicates", "cm_rx_msgs", "cm_tx_msgs", "cm_tx_retries")
_PAGES: Final = ("fw_pages", "reg_pages")  # of mlx4 and mlx5
_ROWED: Final = ("mr_cache", "mad_sa_cc")  # of mlx5 and ib_mad as NVIDIA delivers them
_MOST_ROWS: Final = 64
_FOLDERS: Final = ((CounterSource.PORT, "counters"), (CounterSource.HW, "hw_counters"))


def parse_count(raw: bytes) -> int | Missing:
    """ "17": a value below 2^64; mlx4 and hfi1 write blanks before it.

    A device without a performance management agent has "N/A (no PMA)" in each file
    (show_pma_counter, drivers/infiniband/core/sysfs.c).
    """
    digits = raw.strip()
    if digits.startswith(b"N/A"):
        return Missing(Why.UNSUPPORTED, raw.decode("latin-1").strip())
    if digits.isdigit() and len(digits) <= _DIGITS and (value := int(digits)) < 2**64:
        return value
    return malformed(raw, "a count")


def parse_uptime(raw: bytes) -> float | Missing:
    """/proc/uptime: "12345.67 45678.90", seconds since the start, with those asleep."""
    match = _SECONDS.match(raw)
    return float(match[1]) if match else malformed(raw, "an uptime")


def read_counters(
    host: Host,
    deadline: float,
    wanted: Wanted = ALL,
    spared: Spared = NOTHING,
) -> CounterFacts:
    """One sample: sysfs, then nldev, port by port in this order.

    What nldev says of a counter lies between what sysfs says in this sample and in the next.
    `deadline` is absolute on `time.monotonic`'s clock, and for netlink alone.
    """
    clock = clock_of(host)
    now = clock()
    names = host.list(CLASS)
    wanted = wanted.among(tuple(present(names)))
    facts = CounterFacts(
        boot=attribute(host, _BOOT_ID, parse_text),
        seconds=now,
        names=names,
        excluded=wanted.excluded,
        devices=(),
        sets=(),
        failed=(),
    )
    listed = [] if isinstance(names, Missing) else [each for each in names if wanted.device(each)]
    if not listed:
        return facts
    indexes = read_device_indexes(host, deadline)
    netdevs = PortNetdevs(host, indexes, deadline)
    devices = tuple(_device(host, name, indexes, wanted, netdevs) for name in listed)
    reader = _Reader(host, deadline, spared, clock)
    sets = tuple(each for device in devices for each in reader.sets(device))
    if host.identity.recorded and isinstance(facts.boot, Missing) and not _any(sets):
        # The file is in every record whose counters were read.
        return replace(facts, devices=devices, failed=(_NOT_RECORDED,))
    return replace(facts, devices=devices, sets=sets)


_NOT_RECORDED: Final = Missing(Why.NOT_COLLECTED, "this record holds no counters")


def _any(sets: tuple[CounterSet, ...]) -> bool:
    return any(not isinstance(each.values, Missing) for each in sets)


def clock_of(host: Host) -> Callable[[], float | Missing]:
    """Seconds since the host started: of a record, the moment that it was made."""
    started = attribute(host, _UPTIME, parse_uptime)
    if host.identity.recorded:
        return lambda: started
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return lambda: time.clock_gettime(clock)


def read_port_numbers(host: Host, name: str) -> tuple[int, ...] | Missing:
    """The ports of a device, in order."""
    numbers = host.list(f"{CLASS}/{name}/ports")
    if isinstance(numbers, Missing):
        return numbers
    return tuple(sorted(int(each) for each in numbers if _PORT.fullmatch(each)))


def read_netdev(host: Host, name: str, number: int, netdevs: PortNetdevs) -> str | Missing:
    """The netdev of a device's port: RDMA netlink's word, else that of sysfs."""
    netdev = netdevs.of(name, number)
    if isinstance(netdev, Missing) and netdev.why is not Why.ABSENT:
        return _netdev_in_sysfs(host, name, f"{CLASS}/{name}/ports/{number}")
    return netdev


def _netdev_in_sysfs(host: Host, name: str, port: str) -> str | Missing:
    """The parent of rxe, else the first that a GID names; of whichever network namespace."""
    parent = attribute(host, f"{CLASS}/{name}/parent", parse_text)
    if not isinstance(parent, Missing):
        return parent
    rows = (attribute(host, f"{port}/gid_attrs/ndevs/{row}", parse_text) for row in range(_ROWS))
    return first_known(*rows)


def _device(
    host: Host,
    name: str,
    indexes: Mapping[str, int] | Missing,
    wanted: Wanted,
    netdevs: PortNetdevs,
) -> CountedDevice:
    driver = host.readlink(f"{CLASS}/{name}/device/driver")
    numbers = read_port_numbers(host, name)
    return CountedDevice(
        name=name,
        index=indexes
        if isinstance(indexes, Missing)
        else indexes.get(name, Missing(Why.ABSENT, "RDMA netlink does not show the device")),
        driver=driver if isinstance(driver, Missing) else driver.rstrip("/").rpartition("/")[2],
        ports=numbers
        if isinstance(numbers, Missing)
        else tuple(
            CountedPort(
                number,
                attribute(host, f"{CLASS}/{name}/ports/{number}/link_layer", parse_link_layer),
                read_netdev(host, name, number, netdevs),
            )
            for number in numbers
            if wanted.port(name, number)
        ),
    )


class _Reader:
    """Reads the sets of a device, sparing what is known to be refused."""

    def __init__(
        self, host: Host, deadline: float, spared: Spared, clock: Callable[[], float | Missing]
    ) -> None:
        self._host = host
        self._deadline = deadline
        self._spared = spared
        self._clock = clock

    def sets(self, device: CountedDevice) -> Iterator[CounterSet]:
        index = None if isinstance(device.index, Missing) else device.index
        for port in present(device.ports):
            folder = f"{CLASS}/{device.name}/ports/{port.number}"
            for source, name in _FOLDERS:
                empty = self._empty(source, device.name, port.number, index)
                yield self._folder(empty, f"{folder}/{name}")
            yield self._statistics(
                self._empty(CounterSource.NLDEV, device.name, port.number, index)
            )
            empty = self._empty(CounterSource.CM, device.name, port.number, index)
            yield from _there(self._several(empty, folder, _CM))
        folder = f"{CLASS}/{device.name}"
        empty = self._empty(CounterSource.DEVICE_HW, device.name, None, index)
        yield from _there(self._folder(empty, f"{folder}/hw_counters"))
        empty = self._empty(CounterSource.DRIVER, device.name, None, index)
        rows = (f"{name}/{row}" for name in _ROWED for row in self._rows(f"{folder}/{name}"))
        yield from _there(self._several(empty, folder, tuple(rows), _PAGES))

    def _rows(self, folder: str) -> tuple[str, ...]:
        names = present(self._host.list(folder))
        return tuple(sorted(filter(_PORT.fullmatch, names), key=int))[:_MOST_ROWS]

    def _several(
        self, empty: CounterSet, folder: str, parts: Sequence[str], files: Sequence[str] = ()
    ) -> CounterSet:
        """Several folders, and files beside them, as one set: "cm_tx_retries/req"."""
        key = (empty.key, empty.identity)
        if key in self._spared.sets:
            return replace(empty, values=self._spared.sets[key])
        spared = self._spared.counters.get(key, {})
        read: dict[str, bytes | Missing] = {
            name: raw
            for name in files
            if name not in spared and not _is_absent(raw := self._host.read(f"{folder}/{name}"))
        }
        missing: Missing | None = None
        for part in parts:
            of_part = {name.rpartition("/")[2] for name in spared if name.startswith(f"{part}/")}
            found = self._host.attributes(f"{folder}/{part}", of_part)
            if isinstance(found, Missing):
                missing = missing or found
            else:
                read |= {f"{part}/{name}": raw for name, raw in found.items()}
        if not read and not spared:
            return replace(empty, values=missing or Missing(Why.ABSENT, f"{folder}: none"))
        return _counted(empty, read, dict(spared), folder)

    def _empty(
        self, source: CounterSource, device: str, port: int | None, index: int | None
    ) -> CounterSet:
        return CounterSet(source, device, port, None, index, self._clock(), {}, {})

    def _folder(self, empty: CounterSet, folder: str) -> CounterSet:
        key = (empty.key, empty.identity)
        if key in self._spared.sets:
            return replace(empty, values=self._spared.sets[key])
        refused = dict(self._spared.counters.get(key, {}))
        found = self._host.attributes(folder, refused)
        if isinstance(found, Missing):
            return replace(empty, values=found)
        return _counted(empty, found, refused, folder)

    def _statistics(self, empty: CounterSet) -> CounterSet:
        key = (empty.key, empty.identity)
        if empty.identity is None:
            return replace(empty, values=Missing(Why.NOT_COLLECTED, "no DEV_INDEX is known"))
        assert empty.port is not None
        return replace(
            empty,
            values=self._spared.sets[key]
            if key in self._spared.sets
            else read_statistics(self._host, empty.identity, empty.port, self._deadline),
        )


def _counted(
    empty: CounterSet,
    found: Mapping[str, bytes | Missing],
    refused: dict[str, Missing],
    folder: str,
) -> CounterSet:
    values = {}
    for name, raw in found.items():
        value = raw if isinstance(raw, Missing) else parse_count(raw)
        if isinstance(value, int):
            values[name] = value
        else:
            where = value.detail if value is raw else f"{folder}/{name}: {value.detail}"
            refused[name] = Missing(value.why, where)
    lifespan = values.pop(_LIFESPAN, None)
    refused.pop(_LIFESPAN, None)
    # Not `replace`, which takes three times as long: a large host has hundreds of sets.
    return CounterSet(
        empty.source,
        empty.device,
        empty.port,
        empty.netdev,
        empty.identity,
        empty.seconds,
        values,
        refused,
        lifespan,
        empty.speed_mbps,
        empty.leg,
    )


def _is_absent(value: object) -> bool:
    return isinstance(value, Missing) and value.why is Why.ABSENT


def _there(found: CounterSet) -> Iterator[CounterSet]:
    """The set, if the driver has it."""
    if not _is_absent(found.values):
        yield found
