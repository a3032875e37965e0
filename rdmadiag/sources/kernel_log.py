"""The kernel's log: what RDMA drivers, their netdevs and their PCI functions wrote lately.

    6,416,17717449968,-;mlx5_core 0000:08:00.0 eth0: Link down
     SUBSYSTEM=pci

Read from /dev/kmsg and not by dmesg or journalctl: no process, no file of the journal.
"""

from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.kernel_log import KernelLine, KernelLogFacts
from rdmadiag.host import Host
from rdmadiag.late import late

LAST: Final = "10m"
LINES: Final = 100

WORDS: Final = (
    "mlx4", "mlx5", "bnxt", "irdma", "i40e", "ice 0000", "ionic", "qede", "qedr", "cxgb4",
    "hns_roce", "hns3", "hfi1", "efa 0000", "erdma", "mana", "be2net", "ocrdma", "ib_qib",
    "infiniband", "ib_core", "ib_uverbs", "rdma", "AER:", "PCIe Bus Error", "Link is ",
)  # fmt: skip
"""A line that holds none of these is not read: the rest of the log is not for a record."""

_WINDOW: Final = late(r"([1-9][0-9]{0,5})([smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_HEADER: Final = late(rb"([0-9]{1,10}),[0-9]{1,20},([0-9]{1,18}),[^;]{0,200};")
_LEVELS: Final = 8  # the facility stands above the lowest three bits


def parse_window(text: str) -> int | Missing:
    """ "10m" → 600 seconds."""
    match = _WINDOW.fullmatch(text)
    if not match:
        return Missing(Why.MALFORMED, f"{text[:20]!r} is no time such as 30s, 10m, 2h")
    return int(match[1]) * _SECONDS[match[2]]


def parse_kernel_log(raw: bytes) -> tuple[KernelLine, ...]:
    """Records of /dev/kmsg → lines; what is no record, and the keys below one, are passed over."""
    lines = []
    for row in raw.split(b"\n"):
        match = _HEADER.match(row)
        if match:
            text = row[match.end() :].decode("utf-8", "backslashreplace")
            level = int(match[1]) % _LEVELS
            lines.append(KernelLine(int(match[2]) / 1_000_000, level, text))
    return tuple(lines)


def read_kernel_log(
    host: Host, deadline: float, log_last: str = LAST, log_lines: int = LINES
) -> KernelLogFacts | Missing:
    """The last `log_lines` of the window; `deadline` as in Host.kernel_log."""
    seconds = parse_window(log_last)
    if isinstance(seconds, Missing):
        return seconds
    raw = host.kernel_log(seconds, WORDS, deadline)
    if isinstance(raw, Missing):
        return KernelLogFacts(log_last, raw)
    found = parse_kernel_log(raw)
    kept = max(log_lines, 1)
    return KernelLogFacts(log_last, found[-kept:], max(0, len(found) - kept))
