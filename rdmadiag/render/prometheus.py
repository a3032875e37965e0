"""Prometheus' text format, for node_exporter's textfile collector.

Names are rdmadiag_*: node_infiniband_* are node_exporter's own. `device` and `port` are
labelled as it labels them, so that both can be joined. No timestamps: the collector refuses
a file that has one. The format:
https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from math import inf, isfinite
from typing import Final

from rdmadiag import __version__
from rdmadiag.facts import Missing
from rdmadiag.preflight.checks import checks, skipped_by_why
from rdmadiag.preflight.verdict import Verdict
from rdmadiag.render.plain import printable
from rdmadiag.view.reconcile import DeviceView, PortView

NUMBER_OF_STATUS: Final = {"ok": 0, "warn": 1, "critical": 2, "unknown": 3}
STATUS_HELP: Final = "0 ok, 1 warn, 2 critical, 3 unknown."
_PORT: Final = ("device", "port")
_BYTES_OF_GBPS: Final = 1e9 / 8
_ESCAPED: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_PLAIN_DIGITS: Final = 6  # before the point; a larger number is written with an exponent


def text(verdict: Verdict, devices: Iterable[DeviceView], when: datetime) -> str:
    """The file; `devices` are those that the verdict is on."""
    return "".join((*_of_verdict(verdict, when), *_of_devices(tuple(devices))))


def family(
    name: str,
    help_text: str,
    labels: Sequence[str],
    rows: Iterable[tuple[Sequence[str], float | None]],
) -> str:
    """A gauge with its rows; those without a value, which could not be read, are left out."""
    name = f"rdmadiag_{name}"
    lines = [f"# HELP {name} {help_text}\n# TYPE {name} gauge\n"]
    for values, found in rows:
        if found is not None:
            pairs = sorted(zip(labels, values, strict=True))
            inner = ",".join(
                f'{label}="{printable(value).translate(_ESCAPED)}"' for label, value in pairs
            )
            lines.append(
                f"{name}{{{inner}}} {number(found)}\n" if inner else f"{name} {number(found)}\n"
            )
    return "".join(lines)


def number(value: float) -> str:
    """As Prometheus' own libraries write it, which take an exponent sooner than Python."""
    if not isfinite(value):
        return {inf: "+Inf", -inf: "-Inf"}.get(value, "NaN")
    digits = repr(float(value))
    whole, point, rest = digits.partition(".")
    if value <= 0 or not point or len(whole) <= _PLAIN_DIGITS:
        return digits
    return f"{f'{whole[0]}.{whole[1:]}{rest}'.rstrip('0.')}e+{len(whole) - 1:02d}"


def _of_verdict(verdict: Verdict, when: datetime) -> Iterable[str]:
    yield family("build_info", "The version that wrote this.", ("version",), [((__version__,), 1)])
    yield family(
        "last_run_timestamp_seconds", "When this was written.", (), [((), when.timestamp())]
    )
    status = NUMBER_OF_STATUS[verdict.status]
    yield family("status", f"The verdict: {STATUS_HELP}", (), [((), status)])
    yield family(
        "check_status",
        f"Each rule, for each device and port that it names: {STATUS_HELP}",
        ("check", *_PORT),
        (
            (
                (check.rule, check.device or "", str(check.port or "")),
                NUMBER_OF_STATUS[check.status],
            )
            for check in checks(verdict)
            if not check.lacks
        ),
    )
    yield family(
        "checks_skipped",
        "Rules that could not be checked, or not everywhere, by why what they need was not read.",
        ("why",),
        (((str(why),), number) for why, number in skipped_by_why(verdict).items()),
    )
    yield family(
        "port_safe_to_attempt_rtr",
        "Whether one bounded RTR attempt is permitted: necessary, not sufficient.",
        _PORT,
        (((port.device, str(port.port)), port.safe_to_attempt_rtr) for port in verdict.ports),
    )
    yield family(
        "port_route_gid_index",
        "The index of the GID that a queue pair should use.",
        _PORT,
        (((port.device, str(port.port)), port.route_gid_index) for port in verdict.ports),
    )
    if count := verdict.expectations:
        unmet = count.compared - count.met - count.unknown
        results = {"met": count.met, "unmet": unmet, "unknown": count.unknown}
        yield family(
            "expectations",
            "Comparisons with the expectations, by their result.",
            ("result",),
            (((result,), number) for result, number in results.items()),
        )
    if "expected-gid-index" in verdict.rules_asked:
        yield _drift(verdict)


def _drift(verdict: Verdict) -> str:
    moved = {
        (each.device, each.port): each
        for each in verdict.findings
        if each.rule == "expected-gid-index"
    }
    rows = []
    for port in verdict.ports:
        finding = moved.get((port.device, port.port))
        drift: float | None = 0
        if finding:
            index, expected = port.route_gid_index, finding.expected
            drift = None if index is None or expected is None else index - int(expected)
        rows.append(((port.device, str(port.port)), drift))
    return family(
        "gid_index_drift", "The route GID's index less the one that was expected.", _PORT, rows
    )


def _of_devices(devices: tuple[DeviceView, ...]) -> Iterable[str]:
    ports = [port for device in devices for port in device.ports]
    yield family(
        "device_info",
        "What each device is.",
        ("device", "board_id", "driver", "firmware", "hca_type", "node_guid", "pci_address"),
        ((_device_labels(device), 1) for device in devices),
    )
    yield family(
        "port_info",
        "What each port is.",
        (*_PORT, "link_layer", "netdev", "protocol"),
        (
            ((*_place(port), _label(port.link_layer), _label(port.netdev), str(port.protocol)), 1)
            for port in ports
        ),
    )
    for name, help_text, attribute in (
        ("state", "enum ib_port_state: 4 is active.", "state"),
        ("physical_state", "enum ib_port_phys_state: 5 is link up.", "phys_state"),
    ):
        yield family(
            f"port_{name}_id",
            help_text,
            _PORT,
            ((_place(port), getattr(getattr(port, attribute), "number", None)) for port in ports),
        )
    yield family(
        "port_rate_bytes_per_second",
        "The rate of the link.",
        _PORT,
        ((_place(port), _rate(port)) for port in ports),
    )


def _place(port: PortView) -> tuple[str, str]:
    return port.device, str(port.number)


def _label(value: object) -> str:
    return "" if isinstance(value, Missing) else str(value)


def _device_labels(device: DeviceView) -> tuple[str, ...]:
    known, pci = device.sysfs, device.pci
    return (
        device.name,
        _label(known.board_id) if known else "",
        _label(device.driver),
        _label(known.firmware) if known else "",
        _label(known.hca_type) if known else "",
        _label(known.node_guid) if known else "",
        "" if isinstance(pci, Missing) else pci.address,
    )


def _rate(port: PortView) -> float | None:
    rate = port.sysfs.rate_gbps if port.sysfs else None
    return None if rate is None or isinstance(rate, Missing) else rate * _BYTES_OF_GBPS
