"""What one line of a log holds, by its structure: tool, call, stage, numbers, device, GIDs.

>>> found = fields("h1:7:9 [5] ibvwrap.c:262 NCCL WARN Call to ibv_modify_qp failed with 110 "
...     "Connection timed out, on dev mlx5_2:1, curr state INIT, next state RTR, local GID "
...     "index 3, local GID ::ffff:192.0.2.1, remote GID ::ffff:192.0.2.9")
>>> found.tool, found.call, found.stage, found.errno, found.device, found.port, found.gid_index
('nccl', 'ibv_modify_qp', 'rtr', 110, 'mlx5_2', 1, 3)
"""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from rdmadiag.explain.completions import completion, statuses
from rdmadiag.facts.errnos import ERRNOS, Platform
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.pingpong import Stage

CONNECT: Final = Stage.CONNECT
"""rdma_cm and TCP: no call on the device yet."""


@dataclass(frozen=True)
class Fields:
    """One line, taken apart."""

    text: str  # without colours, on one line
    after: str  # what follows it, for what a tool says on several lines
    above: str  # what stands before it
    tool: str
    platform: Platform
    call: str | None  # "ibv_modify_qp"
    stage: Stage | None
    errno: int | None
    status: int | None  # enum ibv_wc_status
    vendor_error: int | None
    device: str | None
    port: int | None
    who: str | None  # rank or host that speaks
    clock: tuple[str, float] | None  # (kind, seconds): only the same kind compares

    @cached_property
    def gid_index(self) -> int | None:
        """The row of the GID table that was used."""
        return _number(_GID_INDEX, self.text)

    @cached_property
    def local_gid(self) -> Gid | None:
        """The GID that was sent from."""
        return _gid(_LOCAL_GID, self.text) or self._end("local")

    @cached_property
    def remote_gid(self) -> Gid | None:
        """The GID that was sent to."""
        # UCX tells the path on the line below.
        below = self.after.partition("\n")[0]
        return _gid(_REMOTE_GID, self.text) or _gid(_REMOTE_GID, below) or self._end("remote")

    @cached_property
    def peer(self) -> str | None:
        """The other end's address or name, as the tool gives it."""
        found = _PEER.search(self.text)
        return found[1] if found else None

    @cached_property
    def link_layer(self) -> str | None:
        """ib or roce, where the line says so, or what speaks is of one of them alone."""
        found = _LINK_LAYER.search(self.text)
        if found:
            return found[1].lower()
        return "ib" if _INFINIBAND_ALONE.search(self.text) else None

    def _end(self, which: str) -> Gid | None:
        """The last that perftest or a pingpong has said of this end."""
        told = [each for each in _ENDS.finditer(self.above) if each["which"] == which]
        if not told or self.stage not in (Stage.RTR, Stage.RTS, Stage.DATA):
            return None
        address = told[-1]["gid"]
        parts = address.split(":")
        try:
            if len(parts) == _GID_BYTES:  # perftest prints each byte, in decimal
                return Gid(bytes(map(int, parts)))
            return Gid.parse(address)
        except ValueError:
            return None

    def has(self, pattern: "re.Pattern[str]") -> bool:
        """Whether the line has this."""
        return pattern.search(self.text) is not None


_ENDS: Final = re.compile(
    r"(?P<which>local|remote) address: [^\n]{0,120}\n?[^\n]{0,80}?"
    r"\bGID:? (?P<gid>[0-9a-fA-F:.]{2,64})"
)
"""
  local address:  LID 0x0000, QPN 0x000011, PSN 0x8bb31a, GID ::
 local address: LID 0000 QPN 0x0117 PSN 0x32a1c2 RKey 0x1ff000 VAddr 0x007f5522a00000
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:198:51:100:60
"""
_GID_BYTES: Final = 16


def fields(text: str, after: str = "", above: str = "") -> Fields:
    """The line's fields; what it does not say is None."""
    text = cleaned(text)
    tool = _tool(text)
    platform = _platform(text, tool)
    call = _call(text)
    status = _status(text)
    errno = None if status is not None else _errno(text, after, platform, call)
    stage = Stage.DATA if status is not None else stage_of(text, call)
    device, port = _device(text, after)
    return Fields(
        text=text,
        after=after,
        above=above,
        tool=tool,
        platform=platform,
        call=call,
        stage=stage,
        errno=errno,
        status=status,
        vendor_error=_vendor_error(text),
        device=device,
        port=port,
        who=_who(text),
        clock=_clock(text),
    )


_COLOURS: Final = re.compile(
    r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])"
)


def cleaned(text: str) -> str:
    """Without terminal codes and control characters."""
    if "\x1b" in text:
        text = _COLOURS.sub("", text)
    if not text.isprintable():
        text = "".join(each if each.isprintable() else " " for each in text)
    return text.strip()


# --- who speaks --------------------------------------------------------------------------

_TOOLS: Final = tuple(
    (name, re.compile(pattern, flags))
    for name, pattern, flags in (
        ("jaccl", r"\[jaccl\]|\bjaccl\b", re.IGNORECASE),
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


def _tool(text: str) -> str:
    return next((name for name, pattern in _TOOLS if pattern.search(text)), "verbs")


_MAC: Final = re.compile(
    r"\bjaccl\b|\brdma_en\d|\bMlxJaccl|AppleThunderbolt|\btbt_|\bThunderbolt", re.IGNORECASE
)


def _platform(text: str, tool: str) -> Platform:
    return "darwin" if tool in ("jaccl", "exo") or _MAC.search(text) else "linux"


_WHO: Final = tuple(
    re.compile(pattern)
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


def _who(text: str) -> str | None:
    for pattern in _WHO:
        if found := pattern.search(text):
            groups = found.groupdict()
            return f"rank {groups['rank']}" if groups.get("rank") else groups.get("host")
    return None


_DATED: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?")
_GLOG: Final = re.compile(r"\b[IWEF](?:\d{4})?(\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{6})")
_EPOCH: Final = re.compile(r"\[(1[0-9]{9}\.\d{1,6})\]")
_UPTIME: Final = re.compile(r"\[ *(\d{1,8}\.\d{6})\]")


def _clock(text: str) -> tuple[str, float] | None:
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


# --- devices and addresses ---------------------------------------------------------------

_NAME: Final = (
    r"(?:mlx[45]_(?:bond_|ib|vf|roce)?\d+|bnxt_re(?:_bond)?\d+|irdma\d+|ionic_\d+|qedr\d+"
    r"|hns_\d+|erdma_\d+|mana_\d+|hfi1_\d+|cxgb4_\d+|i40iw\d+|siw\d+|rxe\d+|rxe_\w+|efa_\d+"
    r"|usnic_\d+|ocrdma\d+|qib\d+|vmw_pvrdma\d+|rdma_en\d+"
    r"|(?:rocep|ibp|rdmap|roceo|ibo|roceP|ibP)\d\w*)"
)
_DEVICE: Final = re.compile(
    rf"(?<![\w.-])({_NAME})(?:[:/](\d{{1,3}})\b|\b[^\w]{{0,2}}[ ,]*port[ =:]+(\d+))?"
)
_NAMED: Final = re.compile(
    r"(?:\b(?:hca|IB device|RDMA device|ibdev|Local device|Local adapter)[: =]+|\bon dev )"
    r"['\"]?([A-Za-z]\w*)(?::(\d+))?"
)
_BELOW: Final = re.compile(r"(?:\s*Local host:.*\n)?\s*Local (?:device|adapter):\s+(\w+)()")
_PCI: Final = re.compile(
    r"\b(?:mlx[45]_core|bnxt_en|irdma|ice|ionic|hns3) ([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d)"
)
_NOT_NAMES: Final = frozenset({"not", "found", "error", "failed", "is", "no", "for", "with", "was"})


def _device(text: str, after: str) -> tuple[str | None, int | None]:
    if found := _DEVICE.search(text):
        port = found[2] or found[3]
        return found[1], int(port) if port else None
    if found := _PCI.search(text):
        return found[1], None
    found = _NAMED.search(text) or _BELOW.match(after)
    if found and found[1].lower() not in _NOT_NAMES:
        return found[1], int(found[2]) if found[2] else None
    return None, None


_GID_INDEX: Final = re.compile(
    r"\bs?gid[ _]?(?:index|idx)[ _=:]*(\d{1,4})\b|\bGID (\d{1,4})\b|\bgid\[(\d{1,4})\]",
    re.IGNORECASE,
)
_ADDRESS: Final = r"([0-9a-fA-F:]{2,39}(?:\.\d{1,3}){0,3})"
_LOCAL_GID: Final = re.compile(
    rf"\b(?:local|source|src)[ _-]?s?gids?[ =:]*{_ADDRESS}", re.IGNORECASE
)
_REMOTE_GID: Final = re.compile(
    rf"\b(?:remote|peer|dest|dst|d)[ _-]?gids?[ =:]*?{_ADDRESS}", re.IGNORECASE
)
_PEER: Final = re.compile(
    r"\b(?:peer|from|to|with|remote)[ =:]+\[?([A-Za-z0-9][\w.:%-]*?)\]?<\d+>"
    r"|\bpeer(?: |=|: )((?:\d{1,3}\.){3}\d{1,3})"
)
_INFINIBAND_ALONE: Final = re.compile(r"\bbtl_openib|\bib\d+: |\b(?:mthca|qib|ipath|hfi1_)\d")
_LINK_LAYER: Final = re.compile(r"\d/(IB|RoCE)\b", re.IGNORECASE)


def _number(pattern: "re.Pattern[str]", text: str) -> int | None:
    found = pattern.search(text)
    return int(next(each for each in found.groups() if each)) if found else None


def _gid(pattern: "re.Pattern[str]", text: str) -> Gid | None:
    found = pattern.search(text)
    if not found:
        return None
    address = found[1]
    # "remoteGids::ffff:192.0.2.1": the colon that belongs to the address was not taken.
    for candidate in (address, f"::{address}", f":{address}", address.rstrip(":")):
        try:
            return Gid.parse(candidate)
        except ValueError:
            continue
    return None


# --- calls and stages --------------------------------------------------------------------

_CALL: Final = re.compile(
    r"\b((?:ibv|mlx5dv|efadv)_[a-z0-9_]+"
    r"|rdma_(?:create_(?:qp|id|ep|event_channel)|resolve_(?:addr|route)|connect|accept|listen"
    r"|bind_addr|get_cm_event|getaddrinfo|reg_\w+|post_\w+)"
    r"|fi_(?:getinfo|eq_\w+|fabric|domain|endpoint|enable|cq_\w+|mr_\w+|connect|accept|av_\w+|ep_\w+))\b"
)
_NO_CALLS: Final = re.compile(r"ibv_(?:wc|event|qps?|access|mtu)_", re.IGNORECASE)


def _call(text: str) -> str | None:
    for found in _CALL.finditer(text):
        if not _NO_CALLS.match(found[1]):
            return str(found[1])
    return None


_STAGES: Final = tuple(
    (stage, re.compile(pattern, re.IGNORECASE))
    for stage, pattern in (
        (
            Stage.RTR,
            (
                r"INIT2RTR|INIT ?(?:->|→|to) ?RTR|next state (?:IBV_QPS_)?RTR"
                r"|(?:to|into) (?:the )?(?:state )?(?:IBV_QPS_)?RTR\b|\bRTR\b.{0,20}(?:fail|error)"
                r"|ready to receive|QP.{0,30}\bRTR\b|init2rtr"
            ),
        ),
        (
            Stage.RTS,
            (
                r"RTR2RTS|RTR ?(?:->|→) ?RTS|next state (?:IBV_QPS_)?RTS"
                r"|(?:to|into) (?:the )?(?:state )?(?:IBV_QPS_)?RTS\b|QP.{0,30}\bRTS\b"
            ),
        ),
        (
            Stage.INIT,
            (
                r"RST2INIT|RESET ?(?:->|→) ?INIT|next state (?:IBV_QPS_)?INIT"
                r"|(?:to|into) (?:the )?(?:state )?(?:IBV_QPS_)?INIT\b|QP.{0,30}\bto INIT\b"
            ),
        ),
        (
            Stage.TEARDOWN,
            (
                r"\b(?:ibv|rdma)_(?:destroy|dealloc|dereg|close)\w*"
                r"|2RST_QP|DESTROY_(?:QP|CQ|MKEY)|DEALLOC_"
            ),
        ),
        (
            Stage.REG_MR,
            (
                r"ibv_(?:exp_)?(?:reg_\w*mr\w*|advise_mr)|rdma_reg_\w+|fi_mr_reg\w*|CREATE_MKEY"
                r"|(?:regist\w*|reg) (?:the )?(?:user |gpu |local |host )?(?:memory|MR|buffer)"
                r"|mem(?:ory)? regist|(?:allocate|create|register) (?:an? )?(?:MR|memory region)"
                r"|reg_mr|\bmr_reg|:mr:"
            ),
        ),
        (
            Stage.CREATE_CQ,
            (
                r"ibv_create_cq\w*|CREATE_CQ|(?:creat|resiz)\w* (?:an? |the )?(?:CQ\b"
                r"|completion queue)"
            ),
        ),
        (
            Stage.CREATE_QP,
            (
                r"(?:ibv|rdma|mlx5dv|efadv)_create_(?:qp|srq|dct)\w*|CREATE_(?:QP|DCT|SRQ|XRC)"
                r"|creat\w+ (?:an? |the )?(?:\w+ )?(?:QP\b|queue pair)"
            ),
        ),
        (
            Stage.ALLOC_PD,
            (
                r"ibv_alloc_(?:pd|parent)\w*|ALLOC_PD"
                r"|(?:alloc\w*|creat\w+) (?:an? |the )?(?:PD\b|protection domain)"
            ),
        ),
        (
            Stage.OPEN,
            (
                r"ibv_(?:open|get_device|import|query_(?:device|port|gid|pkey))\w*|mlx5dv_open"
                r"|ALLOC_UAR|open(?:ing)? (?:the )?(?:ib |rdma |infiniband |verbs )?device"
                r"|/dev/infiniband|\buverbs\d|get (?:the )?(?:device )?context"
                r"|query (?:the )?(?:port|device|gid)"
            ),
        ),
        (
            Stage.RTR,
            (
                r"ibv_modify_qp|modify[ _](?:the )?qp|chang\w+ (?:the )?queue pair"
                r"|ibv_create_ah|create[ _](?:an? )?(?:ah\b|address handle)"
            ),
        ),
        (
            CONNECT,
            (
                r"rdma_(?:resolve|connect|accept|listen|bind|create_id|create_ep|getaddrinfo"
                r"|get_cm|create_event)\w*|RDMA_CM_EVENT|rdma_cm\b|CM event"
                r"|(?:bind address|resolv\w+ (?:address|addr|route)) failed"
                r"|rdma connection establishment|rpcrdma: connection|fi_eq_\w+"
            ),
        ),
        (
            Stage.DATA,
            (
                r"ibv_(?:post|poll|req_notify)\w*|\bpost[ _](?:send|recv|receive)"
                r"|poll(?:ing)? (?:the )?(?:\w+ )?(?:CQ|completion)|\bcompletion\b|\bCQE\b"
            ),
        ),
    )
)


def stage_of(text: str, call: str | None = None) -> Stage | None:
    """Where in the life of a queue pair the line is; by the call, else by words."""
    if call:
        for stage, pattern in _STAGES:
            if pattern.search(call) and call != "ibv_modify_qp":
                return stage
    return next((stage for stage, pattern in _STAGES if pattern.search(text)), None)


# --- statuses of completions -------------------------------------------------------------

_WC_NAMES: Final = {row.name: row.number for row in statuses() if row.number}
_WC_NAME: Final = re.compile(
    r"\bIBV_WC_([A-Z_]+)\b|\b("
    + "|".join(name for name in _WC_NAMES if name not in ("GENERAL_ERR", "FATAL_ERR", "TM_ERR"))
    + r")\b"
)
_WC_TEXTS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), number)
    for pattern, number in (
        (
            (
                r"rnr retry (?:counter )?exceeded|receiver not ready retry exceeded"
                r"|receive-no-ready retry count"
            ),
            13,
        ),
        (r"transport retry count(?:er)? exceeded|(?<!ready )retry exceeded error", 12),
        (r"work request flush\w*|wr flush\w*|request flushed error|flushed because", 5),
        (r"local protection(?: error| on)?\b", 4),
        (r"local length(?: error| on)", 1),
        (r"local qp operation", 2),
        (r"remote access (?:error|on)", 10),
        (r"(?:remote )?invalid request error|invalid request on", 9),
        (r"remote operation(?:al)? error|remote QP on", 11),
        (r"local access error", 8),
        (r"memory management operation error", 6),
        (r"response timeout error", 20),
        (r"bad response error", 7),
    )
)
_COMPLETION: Final = re.compile(
    r"completion(?! (?:queue|channel|vector))|\bwc\b|\bwc[._]|\bcqe?\b|wr_?id|opcode|vendor[ _]"
    r"|syndrom|work request",
    re.IGNORECASE,
)
_MAKING_A_QUEUE: Final = re.compile(
    r"(?:creat|resiz|destroy|allocat)\w* .{0,24}(?:\bcq\b|completion queue)", re.IGNORECASE
)
_WC_NUMBER: Final = re.compile(
    r"\b(?:wc[._ ])?(?:failed )?(?:status|error|err)(?: code"
    r"| number)?[ =:(]*\(?(\d{1,2})\b(?![.:]\d)",
    re.IGNORECASE,
)
_IN_BRACKETS: Final = re.compile(r"\((\d{1,2})\) for wr_id")
_MLX5_SYNDROME: Final = re.compile(
    r"\bsynd(?:rome)? 0x([0-9a-f]{1,2})[ ,]+(?:vend\b|vendor)", re.IGNORECASE
)
_OF_MLX5: Final = {
    0x01: 1,
    0x02: 2,
    0x04: 4,
    0x05: 5,
    0x06: 6,
    0x10: 7,
    0x11: 8,
    0x12: 9,
    0x13: 10,
    0x14: 11,
    0x15: 12,
    0x16: 13,
    0x22: 16,
}
"""MLX5_CQE_SYNDROME_*, include/linux/mlx5/cq.h → enum ibv_wc_status."""


def _status(text: str) -> int | None:
    for named in _WC_NAME.finditer(text):
        number = _WC_NAMES.get(named[1] or named[2])
        if number:
            return number
    if found := _MLX5_SYNDROME.search(text):
        return _OF_MLX5.get(int(found[1], 16))
    for pattern, number in _WC_TEXTS:
        if pattern.search(text):
            return number
    if not _COMPLETION.search(text) or _MAKING_A_QUEUE.search(text):
        return None
    for found in (_IN_BRACKETS.search(text), *_WC_NUMBER.finditer(text)):
        if found and int(found[1]) and completion(int(found[1])):
            return int(found[1])
    return None


_VENDOR_ERROR: Final = re.compile(
    r"\b(?:vend(?:or)?(?:[ _-]?(?:err(?:or)?|synd(?:rome)?|code))?"
    r"|syndrom)(?:_synd)?[ =:(]*(0x[0-9a-f]+|\d+)\b",
    re.IGNORECASE,
)


def _vendor_error(text: str) -> int | None:
    found = _VENDOR_ERROR.search(text)
    return int(found[1], 0) if found and len(found[1]) < 11 and found[1].lstrip("0x") else None


# --- errnos ------------------------------------------------------------------------------

_ERRNO: Final = re.compile(r"\berrno(?:\s+is|\s+code)?[ =:(]*-?(\d{1,3})\b", re.IGNORECASE)
_ENAME: Final = re.compile(r"(?<![\w])(E[A-Z0-9]{3,14})\b")
_BRACKETED: Final = re.compile(r"^\W{0,2}(?:[\[(]-?(\d{1,3})[\])]|[=:]-?(\d{1,3})\b)")
_BEFORE: Final = re.compile(r"(?:^|[ (\[=:-])(\d{1,3})[\])]?[ :=,(-]{1,3}$")
_RETURNED: Final = re.compile(
    r"\b(?:closed|failed with(?: error| status| code| rc| ret)*|non-zero status:?|os error"
    r"|ret(?:urn(?:ed|s)?|val)?(?: (?:value|code))?|\brc|\berr(?:or)?(?: code)?|status|result)"
    r"[ =:(]*-?(\d{1,3})\b",
    re.IGNORECASE,
)
_LONE: Final = re.compile(r"[\[(]-?(\d{1,3})[\])]")


def _texts(platform: str) -> dict[str, int]:
    return {
        text.lower(): number
        for number, (_, text) in ERRNOS[platform].items()
        if len(text) > 8 and text != "Reserved"
    }


_TEXTS: Final = {platform: _texts(platform) for platform in ERRNOS}
_TEXT: Final = {
    platform: re.compile(
        "|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True)), re.IGNORECASE
    )
    for platform, texts in _TEXTS.items()
}
_NUMBERS: Final = {
    platform: {name: number for number, (name, _) in rows.items()}
    for platform, rows in ERRNOS.items()
}


def _errno(text: str, after: str, platform: Platform, call: str | None) -> int | None:
    """By number, name or text, whichever the tool gives; 0 is no failure."""
    if found := _ERRNO.search(text):
        return int(found[1]) or None
    for name in _ENAME.findall(text):
        if name in _NUMBERS[platform]:
            return _NUMBERS[platform][name]
    if found := _TEXT[platform].search(text):
        return _TEXTS[platform][found[0].lower()]
    if found := _RETURNED.search(text):
        return int(found[1]) or None
    if call and (lone := _LONE.findall(text)):
        return int(lone[-1]) or None
    return _errno_below(after, platform)


def _errno_below(after: str, platform: Platform) -> int | None:
    """What perftest and others print on a line of its own."""
    for line in after.splitlines()[:3]:
        if found := re.match(r"\s*(?:.*\b)?errno[ =:]+-?(\d{1,3})\s*$", line, re.IGNORECASE):
            return int(found[1]) or None
        if found := re.match(r"\s*ERRNO: (.+?)\.?\s*$", line):
            return _TEXTS[platform].get(found[1].lower())
    return None
