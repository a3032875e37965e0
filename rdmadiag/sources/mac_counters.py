"""The one counter that a Mac shows of Thunderbolt RDMA: how often a port's link came up."""

import time
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.counters import (
    ALL,
    CountedDevice,
    CountedPort,
    CounterFacts,
    CounterSet,
    CounterSource,
    Wanted,
)
from rdmadiag.facts.ib import LinkLayer
from rdmadiag.facts.macos import ThunderboltIpPort
from rdmadiag.host import Host
from rdmadiag.late import late
from rdmadiag.sources.ioreg import read_ip_ports
from rdmadiag.sources.output import parsed
from rdmadiag.sources.text import malformed

BOOT_SESSION: Final = ("/usr/sbin/sysctl", "-n", "kern.bootsessionuuid")
_UUID: Final = late(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_NO_CLOCK: Final = Missing(Why.NOT_COLLECTED, "a record of a Mac does not say when it was made")


def parse_boot_session(raw: bytes) -> str | Missing:
    """sysctl kern.bootsessionuuid."""
    text = raw.decode("latin-1").strip()
    return text if _UUID.fullmatch(text) else malformed(raw, "a UUID")


def read_mac_counters(host: Host, deadline: float, wanted: Wanted = ALL) -> CounterFacts:
    """One sample; a device is named after its netdev: en1 has rdma_en1 (TN3205)."""
    boot = parsed(host, BOOT_SESSION, deadline, "kern.bootsessionuuid", parse_boot_session)
    ports = read_ip_ports(host, deadline)
    now = _NO_CLOCK if host.identity.recorded else time.clock_gettime(time.CLOCK_MONOTONIC)
    if isinstance(ports, Missing):
        return CounterFacts(boot, now, ports, wanted.excluded, (), (), (ports,))
    named = {f"rdma_{port.netdev}": port for port in ports if isinstance(port.netdev, str)}
    chosen = {
        name: port for name, port in named.items() if wanted.device(name) and wanted.port(name, 1)
    }
    return CounterFacts(
        boot=boot,
        seconds=now,
        names=tuple(sorted(named)),
        excluded=wanted.excluded,
        devices=tuple(
            CountedDevice(
                name=name,
                index=Missing(Why.UNSUPPORTED, "the registry has no such number"),
                driver=Missing(Why.UNSUPPORTED, "not on macOS"),
                ports=(CountedPort(1, LinkLayer.THUNDERBOLT, port.netdev),),
            )
            for name, port in sorted(chosen.items())
        ),
        sets=tuple(_set(name, port, now) for name, port in sorted(chosen.items())),
        failed=(),
    )


def _set(name: str, port: ThunderboltIpPort, now: float | Missing) -> CounterSet:
    count = port.link_active_count
    return CounterSet(
        source=CounterSource.REGISTRY,
        device=name,
        port=1,
        netdev=str(port.netdev),
        identity=None,
        seconds=now,
        values=count if isinstance(count, Missing) else {"IOLinkActiveCount": count},
        refused={},
    )
