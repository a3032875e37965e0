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
from enum import StrEnum
from typing import Final

from rdmadiag.frozen import dataclass

STARTING: Final = 300.0
"""Seconds after the kernel started in which a link that is down is still coming up."""


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
    """One wording, and in which logs it is taken."""

    pattern: str
    kind: Kind | None  # in a host's own log, where a verdict rests on it; None: not taken there
    sign: str | None = None  # in a job's log: the word of a sign of explain.log.recognition.signs


MESSAGES: Final = (
    Message(r"ACCESS_REG\b.*\bfailed", Kind.REGISTER_REFUSED, "access-register"),
    Message(r"ACCESS_REG\w*\(0x", None, "access-register"),
    # A job's log has it as a firmware command that failed, at its stage.
    Message(r"ALLOC_UAR\b.*\blimits? exceeded", Kind.CONTEXTS_EXHAUSTED),
    Message(r"insufficient power on the PCIe slot", Kind.SLOT_POWER, "slot-power"),
    # Older kernels write "health revovery succeded".
    Message(r"health re\w+ succ", Kind.RECOVERED),
    Message(r"will cause a leak of a command resource", Kind.UNHEALTHY, "firmware-silent"),
    Message(r"(?:timeout|timed out).{0,20}leak of a command resource", None, "firmware-silent"),
    Message(r"cmd(?:_work|_exec)?\w*.{0,40}timeout|\bfw stall", None, "firmware-silent"),
    Message(
        r"(?:cqp|cmdq|hwrm|rcfw|\bmsg \{).{0,60}tim(?:ed ?out|eout)|error \(timeout: \d+\) msg"
        r"|command 0x[0-9a-f]+ timed out|cqp command timed",
        None,
        "firmware-silent",
    ),
    Message(r"firmware (?:is )?not responding", Kind.UNHEALTHY),
    Message(r"health:? compromised|firmware (?:is )?fatal", Kind.UNHEALTHY, "firmware-failed"),
    Message(r"handling bad device|health recovery (?:flow )?(?:failed|aborted)", Kind.UNHEALTHY),
    # print_health_info of mlx5: the severities of the kernel's log, emergency to error.
    Message(r"health issue observed,.*\bseverity\([0-3]\)", Kind.UNHEALTHY),
    Message(r"fatal error [0-9]+ detected", Kind.UNHEALTHY),
    Message(
        r"health issue|device'?s? health|fw_fatal|fw.{0,12}fatal|assert_var\[0\]|irisc"
        r"|firmware (?:is )?(?:in )?(?:fatal|internal|failed|error|reset)"
        r"|internal error|hardware error|catastrophic|pre-initializing state|enable hca failed"
        r"|mlx5_init_one failed|probe_one.{0,40}failed",
        None,
        "firmware-failed",
    ),
    Message(r"severity=Uncorrect\w+ \((?:Non-)?Fatal\)", Kind.UNHEALTHY),
    # What the link corrected by itself stands in logs of healthy hosts too.
    Message(r"^(?!.*\bcorrect(?:ed|able)\b).*(?:\bAER\b|PCIe Bus Error)", None, "pcie-error"),
    Message(r"pci_err|Slot has been reset", None, "pcie-error"),
    Message(r"high temperature", Kind.HOT),
    Message(r"\blink (?:is )?down\b|cable unplugged", Kind.LINK_DOWN, "link-down"),
    Message(
        r"link (?:is |status )?down|cable is unplugged|lost carrier|link.{0,12}not ready"
        r"|module.{0,20}unplugged|port module event\[error\]",
        None,
        "link-down",
    ),
    Message(r"\blink (?:is )?up\b|cable plugged", Kind.LINK_UP),
)
_COMPILED: list[tuple[Kind, re.Pattern[str]]] = []


def kind_of(message: str) -> Kind | None:
    """What a line of a host's own log says; None for nothing that matters here."""
    if not _COMPILED:  # where there is a line at all
        _COMPILED.extend(
            (row.kind, re.compile(row.pattern, re.IGNORECASE)) for row in MESSAGES if row.kind
        )
    return next((kind for kind, pattern in _COMPILED if pattern.search(message)), None)


def pattern_of(sign: str) -> str:
    """All wordings of a sign in a job's log."""
    return "|".join(row.pattern for row in MESSAGES if row.sign == sign)
