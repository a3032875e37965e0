"""Whether an RTR of ours on Thunderbolt did not succeed since this Mac started.

`pingpong` and `exercise` write $XDG_STATE_HOME/rdmadiag/failed_rtr.json before RTR and take it
back when it has succeeded (rdmadiag.verbs.rtr_record); the log forgets such a failure, and a
second one can wedge the driver for good (exo-explore/exo#1711, #1847).
"""

import json
import os
from collections.abc import Mapping
from typing import Any, Final

from rdmadiag.facts import NOT_IN_RECORD, Missing, Why
from rdmadiag.host import Host
from rdmadiag.sources.text import malformed

FILE: Final = "failed_rtr.json"
LIMIT: Final = 64 * 1024  # bytes


def folder(environment: Mapping[str, str]) -> str | None:
    """Where states of ours are kept: the XDG base directory specification."""
    state, home = environment.get("XDG_STATE_HOME", ""), environment.get("HOME", "")
    if os.path.isabs(state):
        return os.path.join(state, "rdmadiag")
    return os.path.join(home, ".local/state/rdmadiag") if os.path.isabs(home) else None


def parse_failed_rtr(raw: bytes) -> list[dict[str, Any]] | Missing:
    """The file's rows: "boot_id", null where the host did not say, "device" and "port"."""
    try:
        rows = json.loads(raw)
    except (ValueError, RecursionError):
        rows = None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return malformed(raw, "a list of attempts")
    return rows


def in_this_boot(rows: list[dict[str, Any]], boot: str | None) -> bool:
    """Whether an attempt is recorded of this boot; of a boot that is not known, any counts."""
    return any(boot is None or row.get("boot_id") in (boot, None) for row in rows)


def read_rtr_failed(host: Host, deadline: float) -> bool | Missing:
    """Of the user who looks; the boot is looked at only where something is recorded."""
    environment = host.environ(("HOME", "XDG_STATE_HOME"))
    where = None if isinstance(environment, Missing) else folder(environment)
    if where is None:
        return NOT_IN_RECORD
    raw = host.read(f"{where}/{FILE}", LIMIT)
    if isinstance(raw, Missing):
        return False if raw.why is Why.ABSENT else raw
    rows = parse_failed_rtr(raw)
    if isinstance(rows, Missing) or not rows:
        return rows if isinstance(rows, Missing) else False
    from rdmadiag.sources.mac_counters import BOOT_SESSION, parse_boot_session
    from rdmadiag.sources.output import parsed

    boot = parsed(host, BOOT_SESSION, deadline, "kern.bootsessionuuid", parse_boot_session)
    return in_this_boot(rows, None if isinstance(boot, Missing) else boot)
