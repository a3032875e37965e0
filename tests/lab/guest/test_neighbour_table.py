"""A full table of neighbours, of which the kernel keeps the count: last on its host."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.rxe import Rxe

Run = Callable[..., Any]
THRESHOLD = "net.ipv4.neigh.default.gc_thresh3"
RULE = "neighbour-table-overflowed"


def summaries(document: Any) -> list[str]:
    return [each["summary"] for each in document["verdict"]["findings"] if each["rule"] == RULE]


def test_a_neighbour_table_that_was_full_is_said(
    rxe_pair: tuple[Rxe, Rxe], run: Run, rdmadiag_json: Callable[..., tuple[int, Any]]
) -> None:
    before = Path(f"/proc/sys/{THRESHOLD.replace('.', '/')}").read_text().strip()
    assert summaries(rdmadiag_json("preflight")[1]) == []
    try:
        run(["sysctl", "-w", f"{THRESHOLD}=8"], timeout=60)
        for number in range(50, 70):  # stale ones: the kernel keeps them for 5 s even when full
            words = f"192.0.2.{number} lladdr 02:00:00:00:00:{number} nud stale dev veth0"
            run(["ip", "neigh", "replace", *words.split()], timeout=60)
        (summary,) = summaries(rdmadiag_json("preflight")[1])
        rows = Path("/proc/net/stat/arp_cache").read_text().splitlines()
        at = rows[0].split().index("table_fulls")
        fulls = sum(int(row.split()[at], 16) for row in rows[1:])
        assert fulls > 0
        assert f"was full {fulls} times since boot" in summary
    finally:
        run(["sysctl", "-w", f"{THRESHOLD}={before}"], timeout=60)
        run(["ip", "neigh", "flush", "dev", "veth0"], timeout=60)
