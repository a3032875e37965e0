"""The words by which a line is taken up: those of RDMA, and those of trouble.

A line is looked at if it has a word of each kind, or one that is both. Words are lowercase
ASCII of four bytes or more (what the sieve looks for), and match in any case. `recognise`
looks at no other line, so that what is explained does not hang on who chose the lines.

>>> is_candidate(b"ibvwrap.c:262 NCCL WARN Call to ibv_modify_qp failed with 110")
True
>>> is_candidate(b"NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA")
False
"""

from collections.abc import Iterable
from typing import Final

from rdmadiag.explain.log.recognition.catalogue import has_needle, needles

# fmt: off
CONTEXT: Final = (
    "ibv_", "rdma", "net/ib", "infiniband", "openfabrics",
    "ibstat", "ibdev2netdev", "perfquery", "mlxlink",
    "openib", "roce", "mlx4",
    "mlx5", "bnxt_", "ionic_", "qedr", "siw0", "rxe0", "rxe_", "queue pair",
    "queue-pair", "modify qp", "modify_qp", " qp ", "_qp ", "_qp(", "_qp:", "qp to", "qp state",
    "create qp", " qp:", " qps", " gid", "gid ", "gid_", "gids", "gid:", "gid=", "jaccl",
    "libfabric", "fi_getinfo", "fi_mr_", "fi_cq_", "prov/", "fi_enable", "fi_domain", "fi_endpoint",
    "fi_fabric", "verbs", "ucx ", "uct_", "ucp_", "ucs_", "nixl", "mooncake",
    "wr_id", "completion", "wc status", "work request", "vendor", "syndrom", "memlock",
    "locked memory", "ulimit -l", "thunderbolt", "hca ", "hcas", "[handshake]", "rnic",
    "protection domain", "memory region", "alloc_pd", "reg_mr", "create_cq", "pkey", "ibrc",
    "ibgda", "ib dev", "ib port", "tbt_", "pingpong", "subnet manager", "cm event",
    "reg mr", "register memory", "srd ", "efa ", "efa:", "ib_core", "alloc pd",
    "allocate pd", "create cq", "creating cq", "creating qp", "resize cq", "create mr",
    "allocate mr", "register mr", "context for ", "create srq", "create ah", "sgid", "post receive",
    "post recv", "post send", "cmatose: ", "udaddy: ", "mckey: ", "o2ib", "open mpi",
    "qp size", "ice 0000:", "active mtu", "active_mtu", "port number", "link layer",
    "hfi1", "psm_", "psm ", "psm2", "psm3", "mana_", "cxgb", "i40iw", "usnic", "mthca", "iwarp",
    "iser:", "iser_", "isert", "ib_srp", "ib_cm", "ib_mad", "ib_iser",
    "ib_send", "ib_read", "ib_write", "ibwarn", "iberror", "ibpanic", "umad", "opensm", "net/ofi",
    "libpsm", "vma error", "xlio", "devx", "gdrcopy", "peermem", "peer_mem", "gpudirect",
    "gpu direct", "ib0:", "ib1:", " cq ", " ofi", "ofi ", "ofi:", " fi_", ":fi_", "iwpm", "kiblnd",
    "smbdirect", "rsocket", "ud endpoint", "rping", "deepep", "uccl", "mr pool", "ib transport",
    "ud_iface", "ud_ep.c", "rc_iface", "qpair", "gpu mr", "gpu memory", "gpu buffer", "dmabuf",
    "dma-buf", "dma_buf", "ctran", "ib_umem", "hfi_", "hfi unit", "smbd_", "nvme-fabrics", "hca's",
    "memoryregion", "nccl-net", "net/plugin", "nccl warn", "nccl failure", "sm/sa",
    "sa_get_handle", "transmit queue", "tx timeout", "tx_timeout", "mori", "monarch",
    "libefa", "endpoint timeout", "sockaddr", "event channel", "physical_state",
    "peermapping", "iomemory", "bind to the sa", "local nic",
    "common_ucx", "siw: ", "smb_direct", "gdrdrv", "osm_",
    "addrinfo() failed", "pml_ucx", "transfer_task", "transfer_engine", "nvme nvme",
    # stacks and drivers whose names say that they are of RDMA
    "dapl", "libdat", "mpidi_", "_ofi", "mxm_", "mxm:", "hcoll", "sharp_", "sharpd", "srpt",
    "nvmet",
    "rds/ib", "rds_ib", "smc_", "smc-r", "rtrs", "rnbd", "ibacm", "acm_", "fm0_", "gasnet",
    "daos", "ibsocket", "ibvsocket", "mmfs", "accelio", "xio_", "disni", "jucx",
    "zap_", "mscclpp", "sriov", "sr-iov", "numvfs", "mstflint", "mlxfw", "mlxconfig",
    "mlnx", "mellanox", "connectx", "ofed", "bluefield", "doca", "qpn ", "qpn:",
    "qpn=", "rkey", "lkey",
    "mkey", "srq ", "wqe ", "cqe ", "gpunetio", "cufile", "nvfs", "ipath", "iwcm", "iw_cm", "ucma",
    "hns3", "hns ", "qede", "ipoib", "opafm", "omni-path", "opa ", "hmem", "gdr ", "gdr_",
    "local_id",
    "transport layer", "aws-ofi", "scsi target", "lnet", "lustre", "ksock", "ceph",
    "beegfs", "gluster", "spdk", "nvmf", "nvme_", "intel mpi", "mvapich", "mpich", "pscom", " ib_",
    "cm_id", "cm id", "qp_num", "local port", "ca '", "port 1:",
    "pcieport", "virtual function", " vf ",
    "pmix", "btl_", "mtl_", "osc_", "gin ", "gin_", "gda_",
    "xccl", "kvcache", "kv_connector", "disagg", "lmcache", "ep buffer", "internode", "ibgid",
    "ccom warn", "rccl warn",
    "p_key", "deep_ep", "qed ", "qed_", "ucxpy", "ucx-py", "ucxx", "ucx://",
    "mv2_", " cq:", "smcr_", "qib ",
    "cxi0", "cxi1", "cxi2", "cxil_", "cxip_", "slingshot", "mana ", "hccl(", "hccp(",
    " mad ", "op_mod(", "context found",
    "rconnect", "rbind:", "rlisten:", "raccept:", "rpoll:", "rsend:", "rrecv:", "comp_channel",
)
"""Words that a line about RDMA has."""

TROUBLE: Final = (
    "fail", "error", "err=", "err:", "err ", "errno", "unable", "could not", "couldn't", "cannot",
    "can't", "can not", "timed out", "exceeded", "not found", "not find", "refused", "unreachable",
    "invalid", "denied", "fatal", "down", "disconnect", "unplugged", "removed", "flush", "abort",
    "lost", "not permitted", "missing", "not support", "unsupported", "n't support", "no device",
    "no ib ", "no suitable", "no active", "no rdma", "no ipv4", "no usable", "no such", "no data",
    "n't match", "not match", "no available", "no subnet", "no hca", "no infiniband",
    "no package", "not built", "not compile", "too old", "outdated", "without ",
    "unconfigured", "not active",
    "not available", "is not ", "not in ", "null ", "exhaust", "segfault",
    "segmentation", "sigsegv", "catastrophic", "violation", "severely", "too low", "insufficient",
    "disabled", "compromised", "timeout", "state is init", "too big", "remote i/o", "nonexist",
    "exceeds ", "higher than", "out of ", "no match", "inactive", "state: init",
    "initializing", "busy", "reset", "unlimited",
    "unresponsive", "not detect", "neither ", "no gid", "no valid", "no protection",
    "empty", "einval", "enomem", "ehostunreach", "enetunreach", "enodev",
    "eacces", "enodata", "eperm", "enoent", "eagain", "efault", "eopnotsupp", "econnre",
    "eaddrnotavail", "input/output", "no message", "try again", "not configured", "no route",
    "limits", "no resources", "status=", "incorrect", "mismatch", "not register",
    "incompat", "reject", "not respond", "no response", "panic", "abnormal", "n't found",
    "not loaded", "timedout", "disagrees",
    "not defined", "canceled", "no hfi", "no nic ", "not insert", "non-zero",
    "no sm/sa", "fork()", "returned 38", "returned -", "bug: ", "warning: cpu", "_fault", " fault",
    "didn't", "did not", "wasn't completed", "stall", "hung", "stuck", "corrupt", "overrun",
    "overflow", "truncat",
    "illegal", "crash", "unexpected", "unhandled", "exception", "assert", "too many", "too large",
    "too small", "too long", "not enough", "wrong", "bad ", "dropped", "broken", "killed",
    "backtrace", "now in progress", "not ready", "not enabled", "not implemented", "not valid",
    "not connected",
    "not present", "not reachable", "not accept",
    "no path", "no free", "retries", "unknown", "closed", "unavailable", "lacks ",
    "dead", "hang", "expired", "undefined", "conflict", "inconsistent", "no space", "does n",
    "missed", "status: -", "rc = -", "already in use", "bogus", "no context",
    " rip: ", " ip: ", " pc is at ",
)
"""Words that a line about a failure has."""

ABROAD: Final = (
    " adres", " datei", " dispo", " długi", " está ", " jest ", " non s", "a dużo", "adresse",
    "arquivos", "bindun", "brak d", "brisé ", "błąd w", "conexión", "conexão", "connecté",
    "connexion", "corrisponde", "datenübergabe", "demasiado", "denegado", "dirección",
    "dispositivo", "dostęp", "e non ", "e trop", "ede nã", "endereço", "entrada", "esaurito",
    "fehler", "ficher", "gerät ", "ichier", "implementada", "inaccesible", "indirizzo",
    "indisponível", "interrotta", "invalide", "istnieje", "katalogu", "keine ", "memoria",
    "mensagem", "mento ", "messaggio", "miejsca", "mémoire", "n non ", "nicht ", "non è ",
    "não há", "o exis", "o nega", "onness", "operac", "operação", "oppi f", "possível", "połącz",
    "protocolo", "protok", "przerwany", "przydzielić", "périphérique", "quebrado", "remota",
    "rreur ", "rrore ", "stente", "sy do ", "t ist ", "tubería", "urządz", "verfügbar",
    "zaimplementowana", "éseau ", "ôte ci", "ły arg", "Невозможно", "Недопустимый",
    "Недостаточно", "Неправильный", "Ошибка", "выключен", "держив", "доступ", "используется",
    "канала", "каталога", "лишком", "маршрута", "оедине", "работает", "стройс", "существует",
    "ция не", "です", "ました", "ます", "ません", "ルエラー", "不支持的", "主机关闭", "地址",
    "尚未连接", "拒绝连接", "数未实现", "文件", "断开", "无效的参", "无法分配", "权限不够",
    "没有", "消息过长", "网络", "许的操作", "资源", "连接被对", "连接超时", "错误", "니다",
    "부적절한", "없음", "연결", "오류", "자원이", "주소가", "파이프가", "파일이", "하지", "허가",
)
"""Words of trouble, too: each text of explain.log.line.errno_texts has one."""

BOTH: Final = (
    "rip: 0010:",
    "ibv_wc_", "ibv_event_", "rdma_cm_event_", "_exc_err", "retry counter", "retry count ",
    "request flushed", "flush_err", "local protection", "local length err", "rnr retry",
    "remote invalid request", "remote operation err", "remote access on",
    "vendor err", "vendor_err", "vend 0x", "vendor syndrome", "failed status", "rlimit_memlock",
    "init->rtr", "port error", "table change", "access err", "prot_err", "inv_req_err",
    "memory management operation err", "bad response err", "response timeout err",
    "invalid request error", "invalid request on", "remote qp on", "wr flush",
    "flushed because", "local length on", "remote operational", "no userspace", "loc_len_err",
    "loc_qp_op_err", "mw_bind_err", "bad_resp_err", "loc_access_err",
    "rem_access_err", "rem_abort_err", "resp_timeout_err", "remote_access", "retry exceeded",
    "async event", "rem_op_err", "local qp operation", "vend_err", "connect rejected: status",
    "init the socket connection", "times addr_error", "data mismatch!", "cma detected", "fw stall",
    "infiniband_pkey", "failed to open device", "couldn't connect to ",
    "couldn't read/write remote", "cuda dma-buf cannot",
    "qplib: cmdq[", "prov_err", "fi_getinfo: -", "remote memory access",
    "gid_index set by environment to 0", "gid index       : 0", "has no associated network",
    "max locked memory    ", "network gib not", "devices() returned 0", "function:    ibv_",
    "nccl_ib_disable set by environment to ", "nccl_ib_timeout set by environment to ",
    "nccl_ib_retry_cnt set by environment to ", "using network socket", "net/socket : using [0]",
    "net/ib : using [0]",
    "net plugin socket", "nccl_ib_hca set ", "nccl_ib_tc set ",
    "nccl_ib_roce_version_num set ", "nccl_net set by environment to ib", "p2p plugin ibext",
    "unresponsive receiver", "invalid receiver queue",
    "receiver connection aborted", "address handle at remote", "remote memory registration",
    "(sgl) too short", "peermappingoverride", "involving a call",
    "connection schemes reported", "ud-capable verbs devices",
    "not used by default.  the intent is to use ucx", "no local ports", "fallback fabric",
    "peer closed its memory", "destination resource not", "unsupported operation type",
    "remote feature mismatch", "memory registration is invalid", "no verbs device", "glue library",
    "rej received", "tx that wasn't", "mem registration failed", "connect eps failed",
    "transport map failed",
    "desc error in msg", " -g 0", " -x 0", "gid-idx", "gid-index", "state: down",
    " -m 2048", " -m 4096", "--mtu=2048", "--mtu=4096", "--mtu 2048", "--mtu 4096",
    "state: initializing", "state init physical", "port_down (", "n_gids_found=0", "node guid",
    "recommendation   ",
    # of rdma(8), below the command that was given: explain.log.recognition.recognise
    "error: operation not supported", "error: invalid argument", "error: no such device",
    "error: file exists", "error: operation not permitted",
    "state: active", "port_active",
    "state active", "==> ", "0000000000000000",
    "registering part of", "log_num_mtt", "log_mtts_per", "inadequate memlock",
    "handler for new connection", "get device attributes", "only efa provider",
    "compile libfabric", "(null) port", "oicr event", "blocked for more than", ": (rdma",
    "_readerr", "grh is mandatory", "ethernet_read_keys", "srp abort", "state_mgr_", "mad_ctrl_",
    "any net plugin", "device mtts",
    "assign_context", "abnormal ae_id", "no active hca", "@o2ib",
    # perftest and rdma-core's pingpongs: explain.log.recognition.signs.tools
    "couldn't listen to port", "couldn't read remote address", "read/write: ", "server read: ",
    "send/recv local address", "couldn't send local address", "couldn't send reports",
    "couldn't read reports", "between server and client", "from socket/rdma_cm",
    "allocate hugepage", "free hugepages", "allocate huge pages",
    "to socket/rdma_cm", "inline should be between", "parser function exited", "query port ",
    "couldn't get port info", "mismatch: local=", "versions older than", "couldn't parse line <",
    "size larger than port mtu", "cannot be greater than mtu", "completion channel",
    "setup_qp failed", "xrc domain", "xrc resources", "couldn't allocate work buf",
    "name resolution for ", "service not known for ", "associated with hostname for ",
    "invalid hostname or ip address",
    "start a server and wait for", ": invalid option", ": unrecognized option", ": option '",
    ": option requires an", "(valid range is ", "command or flag", "message size should be",
    "invalid command line. please", "invalid count ", "invalid option argument for -",
    "invalid option substring", "rpoll: success", "rconnect: success", "rsend: success",
    "rrecv: success", "usage: ", "rping -",
    # rdmadiag's own: explain.log.recognition.signs.own
    "not attempted  ", "turned away ", "failed  at ", "_mismatch: ", "_not_active: ", "_unusable: ",
    "not_permitted: ", "mtu_above_port: ", "another_device: ",
    ": err 0", ": err 1", ": err 2", ": err 3", ": err 4", ": err 5", ": err 6", ": err 7",
    "no mr match", "no mw match", "no qp match", "> max_", "pyverbsrdmaerror", "dpt=4791",
    # launchers, and the sockets by which ranks meet: explain.log.recognition.trouble
    "orte_error_log: ", "prte error: ", "opal error: ", "pmix error: ", "ncclsocket",
    "socket interface found", "(ei00", "gloo/transport/", "the client socket has ", "-e- ",
    "[mpiexec@", "[proxy:", "[bstrap:", "pmixp_", "occurred in mpi_init", "mpi_init: ",
    "mpi_init_thread: ", "internal_init: ", "internal_init_thread: ", "systemnotready",
    "system not yet initialized", "connectfullmesh",
    "gloo::ioexc", "gloo::timeout", "distnetworkerror", "diststoreerror", "rendezvousconn",
    "rendezvoustime", "rendezvousclosed", "  assertion `", "  fatal: ",
    "ncclinternalerror", "socketpoll", "socketstart", "socketfinalize",
    "port_init (", "wc[0]", "wc[i]", "so => not found", "so.0 => not found", "so.1 => not found",
    "so.2 => not found", "so.4 => not found", "gid is all zero", "gid is zero",
    "flash recovery", "livefish", "using internal network socket",
    "linkdownedcounter == ", "linkerrorrecoverycounter == ",
)
"""Of RDMA and of trouble at once."""

NEAR: Final = ("fatal", "failed", "failure", "abort", "unable to", "cannot", "assert", "could not",
    "signal handler called", "caught signal", "segmentation fault", "cut here ]", "warning: cpu",
    "signal (11)", "signal 11", "write error", "bug: kernel", "bug: unable", "general protection",
    # how else a crash is said: explain.log.recognition.crash
    "sigsegv", "sigabrt", "sigbus", "segfault at", "segfault encountered", "addresssanitizer",
    "kernel bug at", "refcount_t: ", "bug: kasan", "panicked at",
    "cumemcreate", "panic: ", "attributeerror: ", "nameerror: ", "syntaxerror: ", "double free",
    "stack smashing", "corruption, ", "==== backtrace", "free(): invalid", "exc_bad_access",
    "core was generated by", "munmap_chunk(): ", "realloc(): ", "corrupted size",
    "call trace:", "ubsan: ", "non-static key", "inconsistent lock", "circular locking",
    "recursive locking", "rcu usage", "unlock balance")
"""Of trouble, and rare: a line that has one is looked at for what stands around it."""

NEAR_TOO: Final = (
    "refused", "unreachable", "denied", "not found", "invalid", "exhausted", "panic", "crash",
    "reject", "mismatch", "corrupt",
)
"""The same, in a line that is a candidate for another word: the sieve does not look for them."""

AFTERMATH: Final = (
    "watchdog caught", "ncclremoteerror", "ncclsystemerror", "unhandled system error",
    "remote process exited", "closed by remote", "mpi_abort", "communicator was aborted",
    "exited on signal", "nixl_err_", "socketprogress", "reset by remote peer",
)
"""What follows a failure, of RDMA or another: never one by itself."""
STEPS: Final = (
    "local address: ", "remote address: ", "waiting for client to connect", "dual-port  ",
    "#bytes ", " iters in ", " bytes   xfers ", "alarm clock", "user defined signal ",
)
"""Of no trouble of RDMA: how far a test came, and what ended it (explain.log.text.benchmark)."""
LINKS: Final = ("link up", "link is up", ": renamed from ", "enabling device (")
"""Of no trouble, beside a word of RDMA: a link that came back, a driver that starts
(explain.log.recognition.links)."""
# fmt: on


def _bytes(words: Iterable[str]) -> tuple[bytes, ...]:
    # \xe2\x86\x92 is the arrow of "INIT→RTR".
    arrows = [word.replace("->", "\N{RIGHTWARDS ARROW}") for word in words if "->" in word]
    return tuple(word.encode() for word in (*words, *arrows))


NARROW: Final = {
    **{word.encode(): 1 for word in CONTEXT},
    **{word.encode(): 2 for word in (*TROUBLE, *ABROAD, *LINKS)},
    **{word.encode(): 3 for word in (*BOTH, *AFTERMATH)},
    "init\N{RIGHTWARDS ARROW}rtr".encode(): 3,
    **{word.encode(): 3 for word in STEPS},
    **dict.fromkeys(needles(), 3),
}
"""Word → bits; a line is a candidate once it has both."""
NEEDLES: Final = {**NARROW, **{word.encode(): 3 for word in NEAR}}
"""The same, and lines that are looked at for what stands around them."""

_CONTEXT: Final = _bytes(CONTEXT)
_TROUBLE: Final = _bytes((*TROUBLE, *ABROAD, *LINKS))
_ABROAD: Final = _bytes(ABROAD)
_ABROAD_ASCII: Final = _bytes([word for word in ABROAD if word.isascii()])
_SUFFICIENT: Final = _bytes((*BOTH, *AFTERMATH))
_NEAR: Final = _bytes(NEAR)
_NEAR_TOO: Final = _bytes(NEAR_TOO)


def _has(line: bytes, words: tuple[bytes, ...]) -> bool:
    """Of a line in lowercase: some 40 times as fast as one pattern of all words."""
    for word in words:  # noqa: SIM110  # twice as fast as any()
        if word in line:
            return True
    return False


def is_near_candidate(line: bytes) -> bool:
    """Whether it is looked at for what stands around it."""
    low = line.lower()
    return _has(low, _NEAR) or (_has(low, _NEAR_TOO) and is_candidate(line))


def is_abroad(line: bytes) -> bool:
    """Whether it may have the text of an errno in another language than English."""
    return _has(line.lower(), _ABROAD_ASCII if line.isascii() else _ABROAD)


def is_candidate(line: bytes) -> bool:
    """Whether the line is looked at; what the sieve decides, one line at a time."""
    return is_taken_up(line) or has_needle(line)


def is_taken_up(line: bytes) -> bool:
    """Whether it is looked at for the words of this file alone."""
    low = line.lower()
    return _has(low, _SUFFICIENT) or (_has(low, _TROUBLE) and _has(low, _CONTEXT))
