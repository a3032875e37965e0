"""A Mac's system: the RDMA switch, the release, sleep, boot time, panics.

rdma_ctl status            enabled
sw_vers                    BuildVersion:		25C56
pmset -g                    sleep                1 (sleep prevented by powerd)
sysctl -n kern.boottime    { sec = 1763600000, usec = 123456 } Thu Nov 20 …
"""

import re
import time
from collections.abc import Callable
from datetime import datetime
from typing import Final, TypeVar

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.macos import MacosFacts, Panic
from rdmadiag.host import Host
from rdmadiag.late import late
from rdmadiag.sources.output import parsed
from rdmadiag.sources.rtr_record import read_rtr_failed
from rdmadiag.sources.text import malformed

T = TypeVar("T")

SECONDS: Final = 3.0
"""For each command."""

RDMA_CTL: Final = ("rdma_ctl", "status")
SW_VERS: Final = ("/usr/bin/sw_vers",)
PMSET: Final = ("/usr/bin/pmset", "-g")
BOOT_TIME: Final = ("/usr/sbin/sysctl", "-n", "kern.boottime")
PANICS: Final = "/Library/Logs/DiagnosticReports"

_DRIVER: Final = "AppleThunderboltRDMA"
_VERSION: Final = late(r"^ProductVersion:\s+([0-9][0-9.]{0,15})\s*$", re.MULTILINE)
_BUILD: Final = late(r"^BuildVersion:\s+([0-9A-Za-z]{1,16})\s*$", re.MULTILINE)
_SLEEP: Final = late(r"^[ \t]*sleep[ \t]+([0-9]{1,6})\b", re.MULTILINE)
_BOOT: Final = late(r"\{ sec = ([0-9]{1,12}), usec = ([0-9]{1,6}) \}")
_PANIC_TIME: Final = late(r'"(?:timestamp|date)"\s*:\s*"([0-9: .+-]{10,40})"')
_LOADED: Final = late(r"(last (started|stopped|loaded|unloaded) kext|loaded kexts)", re.IGNORECASE)
_PANIC_BYTES: Final = 4 * 1024 * 1024
_PANICS_READ: Final = 10
_SHOWN: Final = 100  # characters of a report's line to either side of the driver's name


def read_macos(host: Host, deadline: float) -> MacosFacts | Missing:
    """Each command on its own; `deadline` is absolute."""

    def answer(argv: tuple[str, ...], parse: Callable[[bytes], T | Missing]) -> T | Missing:
        name = " ".join((argv[0].rpartition("/")[2], *argv[1:]))
        return parsed(host, argv, min(deadline, time.monotonic() + SECONDS), name, parse)

    release = answer(SW_VERS, parse_sw_vers)
    version, build = (release, release) if isinstance(release, Missing) else release
    return MacosFacts(
        rdma_enabled=answer(RDMA_CTL, parse_rdma_ctl),
        version=version,
        build=build,
        sleep_minutes=answer(PMSET, parse_pmset),
        boot_seconds=answer(BOOT_TIME, parse_boot_time),
        panics=_panics(host),
        rtr_failed=read_rtr_failed(host, min(deadline, time.monotonic() + SECONDS)),
    )


def parse_rdma_ctl(raw: bytes) -> bool | Missing:
    """rdma_ctl status → whether RDMA is switched on, whatever the hardware can."""
    match = re.fullmatch(rb"(enabled|disabled)\.?", raw.strip().lower())
    return match[1] == b"enabled" if match else malformed(raw, '"enabled" or "disabled"')


def parse_sw_vers(raw: bytes) -> tuple[str, str] | Missing:
    """sw_vers → ProductVersion and BuildVersion."""
    text = raw.decode("utf-8", "replace")
    version, build = _VERSION.search(text), _BUILD.search(text)
    if not version or not build:
        return malformed(raw, "a release with ProductVersion and BuildVersion")
    return version[1], build[1]


def parse_pmset(raw: bytes) -> int | Missing:
    """pmset -g → minutes until sleep, 0 for never."""
    match = _SLEEP.search(raw.decode("utf-8", "replace"))
    return int(match[1]) if match else malformed(raw, "power settings with sleep")


def parse_boot_time(raw: bytes) -> float | Missing:
    """sysctl kern.boottime → seconds since the epoch."""
    match = _BOOT.search(raw.decode("utf-8", "replace"))
    return int(match[1]) + int(match[2]) / 1e6 if match else malformed(raw, "a boot time")


def parse_panic(raw: bytes, file: str) -> Panic | None:
    """A panic report, if it names the RDMA driver before its list of what was loaded."""
    text = raw.decode("utf-8", "replace")
    # Every report lists all loaded drivers at its end; only those above were in the panic.
    loaded = _LOADED.search(text)
    at = text.find(_DRIVER, 0, loaded.start() if loaded else len(text))
    if at < 0:
        return None
    # The report's text is one JSON string: its lines end in a written \\n.
    before = re.split(r"\\n|\n", text[max(0, at - _SHOWN) : at])[-1]
    line = before + re.split(r"\\n|\n", text[at : at + _SHOWN])[0]
    shown = "".join(letter if letter.isprintable() else " " for letter in line).strip()
    return Panic(file, _panic_time(text), shown)


def _panic_time(text: str) -> float | Missing:
    match = _PANIC_TIME.search(text)
    if not match:
        return Missing(Why.ABSENT, "no timestamp")
    try:
        # "2026-05-01 03:04:05.00 -0700": fromisoformat wants no blank before the zone.
        when = datetime.fromisoformat(match[1].replace(" -", "-").replace(" +", "+"))
        if when.tzinfo:
            return when.timestamp()
    except (ValueError, OverflowError):
        pass
    return Missing(Why.MALFORMED, f"{match[1]!r} is no time with a zone")


def _panics(host: Host) -> tuple[Panic, ...] | Missing:
    names = host.list(PANICS)
    if isinstance(names, Missing):
        return () if names.why is Why.ABSENT else names
    newest = sorted(name for name in names if name.endswith(".panic"))[-_PANICS_READ:]
    found, denied = [], None
    for name in newest:
        raw = host.read(f"{PANICS}/{name}", _PANIC_BYTES)
        if isinstance(raw, Missing):
            denied = raw if raw.why is Why.DENIED else denied
            continue
        panic = parse_panic(raw, name)
        if panic:
            found.append(panic)
    return tuple(found) if found or denied is None else denied
