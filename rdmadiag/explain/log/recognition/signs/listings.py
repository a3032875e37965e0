"""Ports, devices and GIDs as tools list them, in a state in which nothing works.

ibv_devinfo (rdma-core's libibverbs/examples/devinfo.c), ibstat (infiniband-diags), rdma(8) of
iproute2 (rdma/link.c), show_gids and mlxlink; and files of sysfs that are not there.
"""

from typing import Final

from rdmadiag.explain.log.kind import Kind
from rdmadiag.explain.log.recognition.settings import LISTED_DOWN
from rdmadiag.explain.log.recognition.signs.sign import Errno, sign
from rdmadiag.explain.remedies import ADDRESSES, DEVICES, DMESG_OF_RDMA, GIDS
from rdmadiag.facts.attempt import Stage
from rdmadiag.late import late

LISTED_INITIALIZING: Final = "port-listed-initializing"
"""The link is there, and no subnet manager has set the port up."""
_IBSTAT: Final = "ibstat   # the physical state: Polling has no link, Disabled was switched off"
NO_DEVICE: Final = (
    "no-rdma-device",
    "provider-missing",
    "container-without-device",
    "ib-uverbs-not-loaded",
)
"""Causes of a listing of devices in which there is none."""
HEADER: Final = late(rb"\s*device\s+node GUID\s*$")
"""What ibv_devices prints before them, and dashes below it."""
_ROW: Final = late(rb"\s*-+\s+-+[ \t]*\r?\n\s*[\w.-]+\s+[0-9a-fA-Fx:*]{4}")


def lists_no_device(text: str, after: bytes) -> bool:
    """Whether the line is the header of ibv_devices, and no device stands below it."""
    rules = after.lstrip().startswith(b"---")
    return HEADER.match(text.encode()) is not None and rules and not _ROW.match(after)


SIGNS: Final = (
    sign(
        LISTED_DOWN,
        Kind.FAILURE,
        Stage.OPEN,
        r"^\s*state: +(?:down$|port_down \(1\))|^\w+ port \d+ ==> \w+ \(down\)$"
        # rdma(8), of the second port of a card
        r"|^(?:\d+/\d+: )?link \w+/\d+:? .{0,160}\bstate down\b.* netdev \w+(?:f[1-9]|np[1-9])\b",
        ("port-down", "link-lost", "no-subnet-manager"),
        (DEVICES, _IBSTAT),
    ),
    sign(
        LISTED_INITIALIZING,
        Kind.FAILURE,
        Stage.OPEN,
        r"^\s*state: +initializing$"
        r"|^(?:\d+/\d+: )?(?:link )?\w+/\d+:? .{0,160}\bsm_lid 0\b.{0,40}\bstate (?:init|armed)\b",
        ("no-subnet-manager",),
    ),
    # ibqueryerrors, of a port: a host that was rebooted leaves a few
    sign(
        "link-errors-listed",
        Kind.FAILURE,
        None,
        r"^(?!.*\bport all: ).*\["
        r"(?:linkerrorrecoverycounter == \d{2,}"
        r"|symbolerrorcounter == 65535\].{0,200}\[(?:linkerror|linkdowned|portrcverrors))",
        ("cable-or-module", "link-flaps", "link-lost"),
    ),
    sign(
        "no-gids",
        Kind.FAILURE,
        Stage.OPEN,
        r"^n_gids_found=0$",
        ("no-usable-gid", "interface-down", "no-rdma-device"),
        (GIDS, ADDRESSES),
    ),
    sign(
        "no-class",
        Kind.FAILURE,
        Stage.OPEN,
        r"/sys/class/infiniband(?:_verbs|_mad)?/?[*]?['\"]?"
        r"(?: \(|: )(?:no such file|not found|does ?n[o']t exist)",
        ("no-rdma-device", "kernel-module-missing", "container-without-device"),
        (DEVICES, DMESG_OF_RDMA),
        errno=Errno.LAST,
    ),
    sign(
        "not-in-class",
        Kind.FAILURE,
        Stage.OPEN,
        r"/sys/class/infiniband/\w[^ :'\"]*['\"]?: no such file",
        ("device-absent", "no-rdma-device", "kernel-module-missing", "device-renamed"),
        (DEVICES, DMESG_OF_RDMA),
        errno=Errno.LAST,
    ),
    # mlxlink, of what the firmware says of a link that does not come up
    sign(
        "link-not-up",
        Kind.FAILURE,
        None,
        r"^recommendation +: .{0,80}(?:cable|module|unplugged|eeprom|unsupported|compliance)",
        ("cable-or-module", "link-lost", "port-down"),
    ),
    sign(
        "link-not-up",
        Kind.FAILURE,
        None,
        r"^recommendation +: (?!no issue)\w",
        ("link-lost", "port-down", "cable-or-module"),
    ),
)
