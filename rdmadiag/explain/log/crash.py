"""A program or a kernel that crashed, where the frame to blame is one of RDMA's.

Whoever catches a crash is in its frames, too: the C library, Open MPI's and UCX' handlers, the
linker. They are passed over; the first frame behind them is where it stopped. If that is of
another program, the crash is that program's, whatever of RDMA called it.

>>> crash_of("[n1:7] Signal: Segmentation fault (11)",
...     ["[n1:7] [ 0] /lib64/libc.so.6(+0x3e9a0)[0x7f1]",
...      "[n1:7] [ 1] /lib64/libmlx5.so.1(+0x12345)[0x7f2]"]).text
'[n1:7] Signal: Segmentation fault (11): [n1:7] [ 1] /lib64/libmlx5.so.1(+0x12345)[0x7f2]'
>>> crash_of("Segmentation fault", ["#0 0x7f1 in main () at a.c:7", "#1 0x7f in ibv_poll_cq ()"])
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from rdmadiag.explain.causes import Labels, all_stated, remedy
from rdmadiag.explain.log.fields import fields
from rdmadiag.explain.log.kind import CRASH, HANGS, IN_WORDS, Kind
from rdmadiag.explain.log.meaning import Meaning
from rdmadiag.explain.log.trouble import names_rdma
from rdmadiag.late import late

FRAMES: Final = 24
"""Lines below a crash in which its frame is looked for."""

CRASHES: Final = late(
    rb"\bSIG(?:SEGV|ABRT|BUS|ILL|FPE)\b|\bsegmentation (?:fault|violation)|\bsegfault\b"
    rb"|\bcaught signal (?:4|6|7|8|11)\b|\bgeneral protection\b|\bAddressSanitizer: "
    rb"|<signal handler called>|==== backtrace|\bBUG: |\bOops\b|\bkernel BUG at "
    rb"|\bunable to handle kernel|\brefcount_t: |\blist_(?:add|del) corruption"
    rb"|\bstack smashing|\bdouble free\b|\bfree\(\): invalid|\bmalloc\(\): |\bpanic: "
    rb"|\bfatal python error\b|\bthread '[^']{0,40}' panicked\b|\bassertion\b.{0,200}\bfailed"
    rb"|\bcut here \]|\bWARNING: CPU: \d|\bCheck failed: |\bCall Trace:|\bUBSAN: "
    rb"|\bnon-static key|\binconsistent lock state|\bpossible (?:circular|recursive) locking"
    rb"|\bsuspicious RCU usage|\bbad unlock balance|\bblocked for more than \d",
    re.IGNORECASE,
)
"""What says that a program, or the kernel, stopped in its own code."""

_LIBRARY: Final = (
    r"lib(?:ibverbs|rdmacm|ibumad|ibmad|ibnetdisc|osm\w+|opensm|mlx[45]|mthca|efa|bnxt_re|irdma"
    r"|i40iw|hns|qedr|ionic|erdma|siw|rxe|cxgb4|hfi1verbs|ipathverbs|mana|ocrdma|vmw_pvrdma"
    r"|uc[cmtp]|uct_\w+|fabric|psm[23]?|psm_infinipath|nccl(?:-net\w*)?|rccl(?:-net\w*)?"
    r"|nvshmem\w*|nixl\w*|plugin_(?:UCX|LIBFABRIC)\w*|cxi|vma|xlio|hcoll|mxm|sharp\w*|rte_\w+_mlx5"
    r"|doca_rdma|mscclpp\w*|infinipath)"
)
_MODULE: Final = (
    r"\[(?:\w*(?:rdma|mlx[45]|peermem|peer_mem)\w*|ib_\w+|iw_\w+|bnxt_\w+|irdma|i40iw|qedr"
    r"|hns_roce\w*|efa|mana_ib|erdma|siw|hfi1|qib|ko2iblnd|rtrs_\w+|rnbd_\w+|gdrdrv|nvidia_fs"
    r"|ksmbd|smc|smbdirect)\]"
)
_OF_RDMA: Final = late(
    # the kernel's own line for a program: "… error 4 in libmlx5.so.1.24[7f…+4f000]"
    rf"\berror:? ?\d+ in (?:{_LIBRARY}"
    r"|mca_(?:btl_(?:openib|ofi|uct)|pml_ucx|mtl_\w+|osc_ucx))[\w.-]*"
    # backtrace_symbols(3), Open MPI, UCX, gdb
    rf"|(?:^|[/\s]){_LIBRARY}[\w.-]*\.(?:so|dylib)[\w.]*(?:\s|\(|:|$)|\bmca_(?:btl_openib|btl_ofi|btl_uct"
    r"|pml_ucx|mtl_(?:ofi|psm2?)|osc_ucx|coll_hcoll|common_ucx)\.so\("
    # the frame's function
    r"|(?:^|[ (*])_{0,2}(?:ibv|rdma|mlx[45]|mlx5dv|efa|efadv|bnxt_re|irdma|hns_roce|fi|ofi|rxm|rxd"
    r"|rxr|psm[23x]x?2?|psmx2|uct|ucp|ucm|ucc|rs|umad|osm|nvshmem\w*?|ibgda|nccl|rccl|nvmf_rdma"
    r"|spdk_rdma|nixl|cmtime|rxe|smcr?)_\w+(?:\+0x|\(|\.| \(| at | in |$)"
    rf"|\+0x[0-9a-f]+/0x[0-9a-f]+ {_MODULE}"
    # files that debuggers and reports print
    r"|\b(?:drivers/infiniband|net/rds|xprtrdma|drivers/net/ethernet/mellanox"
    r"|prov/(?:efa|verbs|psm3|opx|cxi)|libibverbs|providers/(?:mlx[45]|efa|bnxt_re|rxe|siw|irdma|hns)"
    r"|uct/ib|pyverbs"
    r"|rdma-core|rdmamap|rdma_cm|net_ib\.c)\b"
    r"|\bFile \"[^\"]*\b(?:pyverbs|nixl\w*|deep_ep|mooncake|ucp|ucxx|uccl|mori"
    r"|nvshmem|rdma\w*|mlnx\w*|ofed\w*)\b"
    r"|\b\w*(?:rdma|verbs|infiniband)\w*(?:/\S+)?\.(?:rs|go|cc?|cpp|hpp|h|pyx?|cu)\b",
)
_FRAME: Final = late(
    r"\+0x[0-9a-f]+(?:/0x[0-9a-f]+)?(?:\)| \[|$|\s)|(?:^|\s)#\d+\s+\S|\(\)? ?\[0x[0-9a-f]+\]"
    r"|^\s*(?:\[[^\]]{1,80}\]\s*)*\d{1,3}:?\s+(?:0x[0-9a-f]+\s+)?[\w/:]\S*(?:\(|\s)"
    r"|\berror:? ?\d+ in \S|^\s*File \"|^\w[\w./-]*\.\(?[\w*]+\)?\.?\w*\(0x"
    r"|\.dylib\s+\S|\bkernel BUG at \S|\bWARNING: CPU: \d+ PID: \d+ at \S| in \S+ \(\) (?:from|at) "
    r"|\bAssertion\b|\bCheck failed: |\bpanicked at\b",
)
_CATCHES: Final = late(
    r"\blib(?:c|pthread|asan|stdc\+\+|gcc_s|m|open-(?:pal|rte)|opal|rte|dl|ucs)[-.\d]*\.so"
    r"|\bld-linux|\blinux-vdso|^\s*#?\d+:?\s+(?:0x[0-9a-f]+ in )?\?\?(?! \(\) from)"
    r"|\bucs_(?:handle_error|debug_\w+|error_\w+|fatal_\w+|log_\w+)"
    r"|<signal handler called>|<unknown>|\b(?:raise|abort|gsignal|killpg|pthread_kill|__GI_\w+"
    r"|__assert_\w+|__restore_rt|__mem\w+|mem(?:cpy|set|move)\w*|malloc\w*|free|cfree|_int_\w+"
    r"|__libc_\w+|__str\w+|strlen|pthread_mutex_\w+|__pthread_\w+|std::terminate\w*|__cxa_\w+"
    r"|__verbose_\w+|print_stackframe|show_stackframe|opal_backtrace_\w+|syscall|clone|__sigaction)\b"
    r"|\b(?:refcount_warn_saturate|__list_(?:add|del)\w*|dump_stack\w*|kasan_\w+|print_\w+report\w*"
    r"|__warn\w*|report_bug|handle_bug|exc_\w+|asm_exc_\w+|do_(?:trap|error_trap|invalid_op)"
    r"|page_fault_oops|__die\w*|die|oops_end|no_context|invalid_op|__might_sleep|lib/\w+\.c)\b"
)
"""Frames of whoever caught the crash, and of what each program is built of."""
_OF_THE_KERNEL: Final = late(r"\+0x[0-9a-f]+/0x[0-9a-f]+(?! \[)")
_ASSERTS: Final = late(r"\bAssertion [`'].{1,300}' failed|\bCheck failed: ")
_UNSURE: Final = late(r"\] +\? |^\s*\? ")


def crash_of(text: str, below: Iterable[str], above: str = "") -> Meaning | None:
    """A crash in code of RDMA, by the line that says that there was one and those below it."""
    if _HANGS.search(text):
        return _hung(text, below)
    if text.endswith(_TRACE) and _NO_CRASH.search(above):
        return None
    lines = [*islice(below, FRAMES)]
    found = _blamed(text, lines, of_target=any("nvmet_rdma" in each for each in (above, *lines)))
    if found is None:
        return None
    said = text if found == text else f"{text.rstrip(':')}: {found}"
    of = fields(said)
    labels: Labels = ("program-fault", "provider-fault", "library-mismatch")
    if _OF_A_MAC.search(said):
        of = replace(of, platform="darwin")
        labels = ("thunderbolt-4", "no-rdma-device", "provider-fault", "program-fault")
    return Meaning(Kind.FAILURE, CRASH, of, all_stated(labels), remedy(labels[0], of.platform))


def _hung(text: str, below: Iterable[str]) -> Meaning | None:
    """A task of the kernel that waits in code of RDMA."""
    frames = (each for each in islice(below, FRAMES) if _FRAME.search(each))
    found = next((e for e in frames if _OF_RDMA.search(e) and not _UNSURE.search(e)), None)
    if found is None:
        return None
    labels: Labels = ("program-fault", "driver-going", "firmware-silent")
    if _OF_A_DEVICE.search(found):
        labels = ("firmware-silent",)
    elif _OF_A_PEER.search(found):
        labels = ("peer-gone",)
    of = fields(f"{text}: {found}")
    return Meaning(Kind.FAILURE, HANGS, of, all_stated(labels), remedy(labels[0], of.platform))


_HANGS: Final = late(r"\bblocked for more than \d")
_OF_A_DEVICE: Final = late(r"_cmd_|cmd_exec|mbox|mailbox|_fw_|rcfw|_cqp_")
_OF_A_PEER: Final = late(r"nvme_rdma|rpcrdma|xprt_rdma|smbd_|\biser_|\bsrp_|kiblnd|rds_")
_TRACE: Final = "Call Trace:"
_NO_CRASH: Final = late(
    r"blocked for more than|lockup|stall|sysrq|NMI backtrace|page allocation failure|oom-killer"
    r"|FAULT_INJECTION",
    re.IGNORECASE,
)
"""Why the kernel shows where it is, though nothing stopped in its own code."""
_OF_A_MAC: Final = late(r"\.dylib\b|\bEXC_(?:BAD_ACCESS|CRASH)\b|\bjaccl\b|\bKERN_\w+")


def raised_in(text: str, above: Sequence[str]) -> Meaning | None:
    """An error of Python's that a fault of the program raises, where its file is one of RDMA."""
    file = next((each for each in reversed(above) if _FILE.match(each)), None)
    if file is None or not _OF_RDMA.search(file):
        return None
    several = all_stated(("program-fault", "library-mismatch", "versions-differ"))
    return Meaning(Kind.UNKNOWN, IN_WORDS, fields(text), several, remedy("program-fault", "linux"))


_FILE: Final = late(r"\s*(?:\[[^\]]{1,80}\]:?\s*|\([^)]{1,80}\)\s*)*File \"")
RAISES: Final = late(rb"\b(?:Attribute|Name|UnboundLocal|Type|Index|ZeroDivision|Syntax)Error: ")
"""The last line of a traceback whose reason is the program's own."""


def _blamed(text: str, below: Iterable[str], *, of_target: bool) -> str | None:
    """The first frame that caught nothing, if it is one of RDMA, or of a target over RDMA."""
    for each in (text, *below):
        if not _FRAME.search(each) or _UNSURE.search(each):
            continue
        if _CATCHES.search(each):
            continue
        if _OF_RDMA.search(each) or _asserts(each) or (of_target and each.endswith("[nvmet]")):
            return each
        if not _OF_THE_KERNEL.search(each):
            return None
    return None


def _asserts(text: str) -> bool:
    """Whether it is an assertion about something of RDMA, by its words or its file."""
    return _ASSERTS.search(text) is not None and names_rdma(_OF_MPI.sub(" ", text))


_OF_MPI: Final = late(r"\bmpi[drl]\w*", re.IGNORECASE)
"""MPICH, whatever carries it."""
