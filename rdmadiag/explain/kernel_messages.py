r"""What lines of the kernel's log say of RDMA devices: one table for a host's log and a job's.

    mlx5_core 0000:08:00.0 eth0: Link down
    mlx5_core 0000:08:00.0: Port module event: module 0, Cable unplugged
    bnxt_en 0000:09:00.0 eth1: NIC Link is Down
    mlx5_core 0000:08:00.0: mlx5_pcie_event:299:(pid 7): Detected insufficient power on the
    PCIe slot (27W).
    mlx5_core 0000:08:00.0: mlx5_cmd_out_err:838:(pid 1): ACCESS_REG(0x805) op_mod(0x1) failed, …

By structure (the driver's verb and what it says of it), not by whole sentences.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """What a line says."""

    LINK_DOWN = "link_down"
    LINK_UP = "link_up"
    REGISTER_REFUSED = "register_refused"  # ACCESS_REG failed
    CONTEXTS_EXHAUSTED = "contexts_exhausted"  # ALLOC_UAR: limits exceeded
    SLOT_POWER = "slot_power"
    UNHEALTHY = "unhealthy"
    RECOVERED = "recovered"
    HOT = "hot"


@dataclass(frozen=True, slots=True)
class Message:
    """One row: a verdict on a host rests on `pattern` alone."""

    kind: Kind
    pattern: str
    sign: str | None = None  # the word of a sign of explain.log.signs
    loosely: str | None = None  # further wordings, taken in a job's log only


MESSAGES: Final = (
    Message(
        Kind.REGISTER_REFUSED,
        r"ACCESS_REG\b.*\bfailed",
        "access-register",
        r"ACCESS_REG\w*\(0x",
    ),
    Message(Kind.CONTEXTS_EXHAUSTED, r"ALLOC_UAR\b.*\blimits? exceeded"),
    Message(Kind.SLOT_POWER, r"insufficient power on the PCIe slot", "slot-power"),
    # Older kernels write "health revovery succeded".
    Message(Kind.RECOVERED, r"health re\w+ succ"),
    Message(
        Kind.UNHEALTHY,
        r"will cause a leak of a command resource|firmware (?:is )?not responding",
        "firmware-silent",
        r"(?:timeout|timed out).{0,20}leak of a command resource"
        r"|cmd(?:_work|_exec)?\w*.{0,40}timeout|\bfw stall",
    ),
    Message(
        Kind.UNHEALTHY,
        r"health compromised|handling bad device|health recovery failed"
        r"|fatal error [0-9]+ detected|firmware (?:is )?fatal",
        "firmware-failed",
        r"health issue|device'?s? health|fw_fatal|assert_var\[0\]|irisc"
        r"|firmware (?:is )?(?:in )?(?:fatal|internal|failed|error|reset)|fw.{0,12}fatal"
        r"|internal error|hardware error|catastrophic",
    ),
    Message(
        Kind.UNHEALTHY,
        r"severity=Uncorrect\w+ \((?:Non-)?Fatal\)",
        "pcie-error",
        r"\bAER\b|PCIe Bus Error|pci_err|Slot has been reset",
    ),
    Message(Kind.HOT, r"high temperature"),
    Message(
        Kind.LINK_DOWN,
        r"\blink (?:is )?down\b|cable unplugged",
        "link-down",
        r"link (?:is |status )?down|cable is unplugged|lost carrier|link.{0,12}not ready"
        r"|module.{0,20}unplugged",
    ),
    Message(Kind.LINK_UP, r"\blink (?:is )?up\b|cable plugged"),
)
_COMPILED: list[tuple[Kind, re.Pattern[str]]] = []


def kind_of(message: str) -> Kind | None:
    """What a line of a host's own log says; None for nothing that matters here."""
    if not _COMPILED:  # where there is a line at all
        _COMPILED.extend((row.kind, re.compile(row.pattern, re.IGNORECASE)) for row in MESSAGES)
    return next((kind for kind, pattern in _COMPILED if pattern.search(message)), None)


def pattern_of(sign: str) -> str:
    """All wordings of a sign in a job's log."""
    rows = [row for row in MESSAGES if row.sign == sign]
    return "|".join(each for row in rows for each in (row.pattern, row.loosely) if each)
