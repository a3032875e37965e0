"""Tools for NVIDIA's adapters: mst, flint, mlxconfig, mlxfwmanager (github.com/Mellanox/mstflint).

Messages stand in flint/err_msgs.h, mlxfwops/lib/fw_ops.cpp, mtcr_ul/mtcr_ul_com.c and
mlxconfig/mlxcfg_generic_commander.cpp; an error begins with -E-.
"""

from typing import Final

from rdmadiag.explain.log.kind import Kind
from rdmadiag.explain.log.recognition.signs.sign import sign
from rdmadiag.explain.remedies import DMESG_OF_RDMA
from rdmadiag.facts.attempt import Stage

_TOOL: Final = r"-e-|\bmst|flint|\bmlx|\bmfe_|mellanox|connect-?(?:x|ib)|bluefield|\bhca\b|firmware"
_POWER: Final = "# power the host off, not only down: the adapter keeps its state over a reboot"

SIGNS: Final = (
    sign(
        "in-recovery",
        Kind.FAILURE,
        None,
        r"\bflash recovery\b|\blive-?fish\b"
        r"|\b(?:device|adapter|hca|firmware|card) is in (?:\w+ )?recovery|\brecovery mode\b",
        ("firmware-failed", "firmware-old", "driver-refused"),
        (
            "lspci -nn | grep -i mellanox   # Flash Recovery: the firmware did not boot",
            "mstflint -d ADDRESS -i IMAGE burn   # an image of this card's PSID",
            _POWER,
        ),
        only=_TOOL,
    ),
    sign(
        "no-mst-node",
        Kind.FAILURE,
        Stage.OPEN,
        r"/dev/mst/[^ ]+.{0,40}(?:no such file|not found|doesn't exist|does not exist)",
        ("mst-not-started", "device-absent"),
    ),
    sign(
        "flash-locked",
        Kind.FAILURE,
        None,
        r"\bwrite protected\b|\bsecure (?:host|fw|firmware)\b.{0,60}(?:not|fail|den|refus)"
        r"|-e- .{0,120}\b(?:rejected|not allowed|signature|is not signed|security)\b"
        r"|\bhw access is disabled\b|\bhardware access (?:is )?(?:disabled|locked)",
        ("driver-refused", "argument-refused", "firmware-failed"),
        ("mstflint -d ADDRESS query full | grep -i secur",),
        only=_TOOL,
    ),
    sign(
        "tool-needs-root",
        Kind.FAILURE,
        None,
        r"-e- .{0,120}(?:permission denied|must be root|operation not permitted|root privileg)",
        ("needs-root", "secure-boot", "mst-not-started"),
        ("sudo mst start", "mokutil --sb-state   # a kernel that is locked down refuses, too"),
    ),
    sign(
        "register-not-answered",
        Kind.FAILURE,
        None,
        r"\bcrspace access\b|\bicmd (?:failed|error|interface (?:busy|not)|semaphore|unknown|size"
        r"|icm not|write protect)|\bregister access (?:failed|bad|not|is not|resource|exceed"
        r"|unknown)|\btake the icmd semaphore|\bicmd busy-bit"
        r"|\bmfe_(?:icmd|cmdif|reg_access|tools_cmdif|unsupported|not_supported|bad_status|error"
        r"|timeout)\w*|-e- .{0,80}(?:failed to (?:query|get|set|send|read|write|run|access).{0,60}"
        r"(?:icmd|register|configuration|device|fw|nv ?config|tlv|parameter))",
        ("driver-refused", "firmware-old", "firmware-silent"),
        (DMESG_OF_RDMA, _POWER),
        only=r"-e-|\bmfe_|\bmst|\bmlx|flint",
    ),
    sign(
        "burn-failed",
        Kind.FAILURE,
        None,
        r"-e- .{0,40}(?:burning|burn|fw image verification|flash (?:read|write|erase)|erase sector)"
        r".{0,60}failed|-e- .{0,60}failed to (?:burn|erase|identify|verify) ",
        ("firmware-failed", "firmware-silent", "driver-refused", "argument-refused"),
        (DMESG_OF_RDMA, _POWER),
    ),
)
