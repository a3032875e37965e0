"""Which program wrote a line, on which platform, rank or host, and when."""

import re
from typing import Final

from rdmadiag.facts.errnos import Platform
from rdmadiag.late import late

_TOOLS: Final = tuple(
    (name, late(pattern, flags))
    for name, pattern, flags in (
        (
            "jaccl",  # its messages are quoted without its name, too
            (
                r"\bjaccl\b|\bchanging queue pair to (?:init|rt[rs]) failed\b"
                r"|^(?:\w*error: )?couldn't allocate protection domain$"
            ),
            re.IGNORECASE,
        ),
        ("rccl", r"\brccl\b", re.IGNORECASE),
        ("nvshmem", r"nvshmem|\bibrc\.cpp|\bibgda", re.IGNORECASE),
        (
            "mooncake",
            (
                r"mooncake|rdma_(?:endpoint|context|transport)\.cpp|worker_pool\.cpp"
                r"|\[handshake\]|transfer_engine|process failed for slice"
            ),
            re.IGNORECASE,
        ),
        ("nixl", r"\bnixl", re.IGNORECASE),
        ("mori", r"\bmori\b|RegisterRdmaMemoryRegion", re.IGNORECASE),
        (
            "kernel",
            (
                r"mlx[45]_core|mlx[45]_ib\b|mlx5_cmd|\bkernel:|bnxt_en |infiniband \w+:"
                r"|^\s*(?:\w+ )?\[ *\d{1,9}\.\d{6}\]|AppleThunderboltRDMA|ib_core|rdma_rxe"
            ),
            0,
        ),
        ("libfabric", r"\blibfabric\b|NET/OFI|aws-ofi", 0),
        ("nccl", r"\bNCCL\b|\bNET/IB\b|ncclRemoteError|ncclSystemError", 0),
        (
            "libfabric",
            (
                r"\blibfabric\b|\bfi_[a-z_]+\b|\bprov/(?:verbs|efa)|NET/OFI|aws-ofi"
                r"|\bOFI\b"
            ),
            0,
        ),
        ("openmpi", r"openib|OpenFabrics|\bbtl_|pml_ucx|MPI_A|mpirun|\[\[\d+,\d+\],\d+\]", 0),
        (
            "ucx",
            (
                r"\bUCX\b|\bib_mlx5|\buct_|\bucp_|\bUCS_|\bib_(?:md|device|iface|log)\.c"
                r"|(?:rc|ud|dc)_\w+\.c:\d"
            ),
            0,
        ),
        (
            "perftest",
            (
                r"ompletion with error at|Failed status \d+: wr_id|\bscnt=|\bib_(?:write|read|"
                r"send|atomic)_(?:bw|lat)|Unable to Connect the HCA|ERRNO:|RDMA CM event error"
                r"|Couldn't (?:create|get|find|connect)|Failed to modify QP \d+|Requested mtu"
                r"|Unable to (?:create|find|open)|Port number \d|^ ?IB device \w+ not found"
            ),
            0,
        ),
        (
            "rc_pingpong",
            (
                r"for wr_id \d|pingpong|ouldn't connect to remote QP|Failed to modify QP to"
                r"|parse WC failed|poll CQ failed"
            ),
            0,
        ),
        (
            "librdmacm",
            r"\brdma_cm\b|RDMA_CM_EVENT|\brdma_(?:resolve|connect|bind|create|get)\w*",
            0,
        ),
        ("exo", r"\bexo\b|MlxJaccl", 0),
        ("pytorch", r"c10d|ProcessGroupNCCL|DistBackendError|\btorch\b", 0),
    )
)


NO_TOOL: Final = "verbs"
"""Of a line that names no program."""


def tool_of(text: str) -> str:
    """The program or library; NO_TOOL where none is known."""
    return next((name for name, pattern in _TOOLS if pattern.search(text)), NO_TOOL)


_MAC: Final = late(
    r"\bjaccl\b|\brdma_en\d|\bMlxJaccl|AppleThunderbolt|\btbt_|\bThunderbolt|\.dylib\b|\brdma_ctl\b"
    r"|\bmlx\.launch\b|\[(?:distributed|ring)\] (?:Couldn't|The only valid)|\bEXC_[BC]\w+"
    r"|\bKERN_INVALID_"
    r"|(?-i:\(Resource busy\))",  # strerror(3) of EBUSY; Linux has "Device or resource busy"
    re.IGNORECASE,
)


def platform_of(text: str, tool: str) -> Platform:
    """Whose errnos the line has."""
    return "darwin" if tool in ("jaccl", "exo") or _MAC.search(text) else "linux"


_WHO: Final = tuple(
    late(pattern)
    for pattern in (
        r"^\[(\d+),(?P<rank>\d+)\]<std(?:err|out)>",  # mpirun --tag-output
        r"^\[?(?:default)?(?:\[)?rank ?(?P<rank>\d+)\]?:",
        r"^\[?rank (?P<rank>\d+)\]",
        r"^\s{0,4}(?P<rank>\d{1,6}): ",  # srun -l
        r"(?P<host>[A-Za-z0-9][\w.-]*):\d+(?::\d+)? \[\d+\]",  # NCCL
        r"\[(?P<host>[A-Za-z][\w.-]*):\d+ *:[\w ]+(?::\d+)?\]",  # UCX
        r"\w{3} +\d+ \d\d:\d\d:\d\d (?P<host>[\w.-]+) kernel:",
        r"\((?:\w+ )?pid=(?P<host>\d+(?:, ip=[\d.]+)?)\)",  # Ray
    )
)


def who_of(text: str) -> str | None:
    """The rank or the host."""
    for pattern in _WHO:
        if found := pattern.search(text):
            groups = found.groupdict()
            return f"rank {groups['rank']}" if groups.get("rank") else groups.get("host")
    return None


_DATED: Final = late(r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?")
_GLOG: Final = late(r"\b[IWEF](?:\d{4})?(\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{6})")
_EPOCH: Final = late(r"\[(1[0-9]{9}\.\d{1,6})\]")
_UPTIME: Final = late(r"\[ *(\d{1,8}\.\d{6})\]")


def clock_of(text: str) -> tuple[str, float] | None:
    """A time that can be compared with others of its kind; days are long months apart."""
    if found := _DATED.search(text):
        year, month, day, hour, minute, second = map(int, found.groups()[:6])
        days = (year * 12 + month) * 31 + day
        fraction = float(f"0.{found[7]}") if found[7] else 0.0
        return "date", ((days * 24 + hour) * 60 + minute) * 60 + second + fraction
    if found := _GLOG.search(text):
        month, day, hour, minute, second, micro = map(int, found.groups())
        return "glog", (((month * 31 + day) * 24 + hour) * 60 + minute) * 60 + second + micro / 1e6
    if found := _EPOCH.search(text):
        return "epoch", float(found[1])
    if found := _UPTIME.search(text):
        return "uptime", float(found[1])
    return None
