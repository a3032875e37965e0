"""Remembers until the host starts again that an RTR on Thunderbolt did not succeed.

A second attempt can wedge the driver for good (exo-explore/exo#1711, #1847), and the log
forgets. The record is $XDG_STATE_HOME/rdmadiag/failed_rtr.json; it is written before RTR
is attempted and taken back when RTR has succeeded, so that a killed attempt counts too.
"""

import json
import os
import tempfile
import time
from contextlib import suppress
from typing import Any, Final

from rdmadiag.facts import Missing
from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.ib import LinkLayer
from rdmadiag.host import Host
from rdmadiag.host.given_file import read_given
from rdmadiag.sources import rtr_record as source
from rdmadiag.verbs.protocol import End
from rdmadiag.verbs.records import Record, StageBegan, Step

_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"


def folder() -> str:
    """Where states of ours are kept, of a user without HOME by the list of users."""
    return source.folder(os.environ) or os.path.expanduser("~/.local/state/rdmadiag")


def boot_id(host: Host, deadline: float) -> str | None:
    """What changes when the host starts; None where it does not say."""
    if host.identity.platform == "linux":
        content = host.read(_BOOT_ID)
        return None if isinstance(content, Missing) else content.decode("ascii", "replace").strip()
    ran = host.run(["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"], deadline)
    if isinstance(ran, Missing) or ran.returncode:
        return None
    return ran.stdout.decode("ascii", "replace").strip() or None


def failed_since_start(boot: str | None) -> bool:
    """Whether an RTR was recorded in this boot; of a boot that is not known, any counts."""
    return source.in_this_boot(_read(), boot)


def remember(boot: str | None, device: str, port: int) -> None:
    """Record an RTR that is about to be attempted; raises OSError."""
    kept = [each for each in _read() if boot is None or each.get("boot_id") == boot]
    _write([*kept, _entry(boot, device, port)])


def forget(boot: str | None, device: str, port: int) -> None:
    """A success on that port takes back what was recorded of it; raises OSError."""
    entry = _entry(boot, device, port)
    _write([each for each in _read() if each != entry])


class Remembered:
    """Keeps the record true to what a child does on Thunderbolt."""

    def __init__(self, end: End, boot: str | None) -> None:
        self._end = end
        self._boot = boot
        self._stage: Stage | None = None

    def note(self, record: Record) -> None:
        """Before RTR it is written down; once RTR has succeeded it is taken back."""
        if self._end.link_layer is not LinkLayer.THUNDERBOLT:
            return
        if not isinstance(record, StageBegan | Step) or record.stage is self._stage:
            return
        self._stage = record.stage
        # A folder that cannot be written must not keep anybody from the attempt.
        with suppress(OSError):
            if record.stage is Stage.RTR:
                remember(self._boot, self._end.device, self._end.port)
            elif record.stage is Stage.RTS:
                forget(self._boot, self._end.device, self._end.port)


def _entry(boot: str | None, device: str, port: int) -> dict[str, Any]:
    return {"boot_id": boot, "device": device, "port": port}


def _read() -> list[dict[str, Any]]:
    """What is recorded; a record that cannot be read counts as one of no known boot."""
    try:
        content = read_given(os.path.join(folder(), source.FILE), source.LIMIT, time.monotonic())
    except FileNotFoundError:
        return []
    except OSError:
        return [{"boot_id": None}]
    rows = source.parse_failed_rtr(content)
    return [{"boot_id": None}] if isinstance(rows, Missing) else rows


def _write(rows: list[dict[str, Any]]) -> None:
    where = folder()
    os.makedirs(where, mode=0o700, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f"{source.FILE}.", dir=where)
    try:
        with open(handle, "w", encoding="utf-8") as file:
            json.dump(rows, file)
        os.replace(name, os.path.join(where, source.FILE))
    except OSError:
        with suppress(OSError):
            os.unlink(name)
        raise
