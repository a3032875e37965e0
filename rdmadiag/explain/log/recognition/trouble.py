"""Whether a line that nothing else understood names RDMA and trouble: it must not pass as fine.

Both must stand in the line as words of it: a setting, a counter, a path or a manual that names
an error has none. What its program itself marks as information is no trouble either.

>>> is_trouble("nvmet_rdma: post_recv cmd failed")
True
>>> is_trouble("NCCL INFO dlvsym failed on mlx5dv_reg_dmabuf_mr - libmlx5.so: undefined symbol")
False
>>> is_trouble("UCX_RC_MLX5_TIMEOUT=1000000.00us UCX_HANDLE_ERRORS=bt")
False
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from rdmadiag.explain.log.recognition.of_the_job import is_of_the_job
from rdmadiag.late import late

_NAMED: Final = late(
    r"rdma|ibv_|(?<!py)verbs|infiniband|\broce|iwarp|openib|openfabrics|o2ib|kiblnd|net/ib"
    # drivers and devices
    r"|mlx[45]|bnxt_(?:re|en|qplib)|\bi40iw|\bionic|\bqedr|\bhns_|\befa(?:\b|_)|mana_ib|hfi1|\bqib"
    r"|usnic|cxgb4|\bsiw\d|\brxe|mthca|\bib\d{1,2}:|\b(?:roce|ib)p\d|thunderbolt(?! \d)"
    # kernel modules, nodes and tools
    r"|\b_{0,2}ib_[a-z]|_gid_(?:add|del|modify)\b|\bib(?:warn|error|panic|netdisc)"
    r"|\bumad|\biwpm|uverbs|\biser[ _:]|isert|smbdirect"
    r"|subnet manager|opensm|\bu?cmatose|\budaddy|\bmckey|\brping"
    # stacks
    r"|libfabric|\bofi\b|_ofi_|\bofi_|\bfi_[a-z]|\bucx|\buc[tp]_|\bud endpoint|nvshmem|ibgda|ibrc"
    r"|\bnixl|mooncake|\bjaccl|\bpsm[23x]?[ _:]|psm[23x][ _:]|hfi_userinit|libpsm"
    r"|deepep|\buccl|rsocket|\bxlio|\bvma (?:error|warning|panic)"
    # objects
    r"|queue[ -]pair|protection domain|memory region|work request|\bp_?key\b|\b[sd]gid|devx"
    r"|peer_?mem\b|gpu ?direct|gdrcopy|gids?_u?\d|\bqpair|prov_err|smbd_|nvme-fabrics|\bctran"
    r"|\bmv2_|fabtests|[ce]q_readerr|\bsmcr_|ethernet_(?:read|write)_keys"
    r"|\bCM event\b|\bcompletion with error"
    r"|smb_?direct|gdrdrv|gdr_open|osm_vendor|\bsiw:|\blocal_?nic\b|transfer_(?:task|engine)"
    r"|\bmori\b|monarch|rdmaxcel|dma[-_]?buf"
    r"|transport list|libnccl-net|\bmem registration|\bconnect eps\b|transport map|deep_?ep"
    r"|pingpong|\blid\b"
    # what is named after its hardware or its stack
    r"|mellanox|connect-?x\b|\bmlnx|\bofed|bluefield|\bdoca(?:\b|_)|\bopenibd|\bmst(?:flint)?\b"
    r"|mlxfw|mlxconfig"
    r"|(?<!i915-)sr-?iov|\bnum_?vfs|\bipoib|\bib_?srpt|\bsrpt?[ _:]|\bnvmet|nvmf|\brds[_/]ib"
    r"|\bsmc[_-][rd]|\brtrs"
    r"|\brnbd|ibacm|\bacm_|dapl\b|\blibdat\b|mpidi_|mpir_|\bmxm|\bhcoll|\bsharp[_d]|gasnet|oshmem"
    r"|\bna_ofi|\bxio_|accelio|\bdisni|jucx|jverbs|\bzap_|mscclpp|ib(?:v)?socket|\bmmfs"
    r"|omni-?path|\bopafm|fm0_|\bipath|\bionic_|\bocrdma|\berdma|pvrdma|\bqede?\b|\bhns3|\biw_?cm"
    r"|\bmkey|\bq_?key\b|\b[rl]_?keys?\b|\bqpn\b|\bqp_num|\bcm_id\b|\bwqes?\b|\bsrqs?\b"
    r"|\bcqe\b|wc_status"
    r"|\blnet(?:_|error|:)|\bhmem|\bgdr[ _]|cu_?file|\bnvfs|\bgds err|rocshmem|gpunetio|\bkvcache"
    r"|\bcxi[0-9lp_:]|cxip?_|slingshot|\bmana [0-9a-f]{4}:|\bhcc[lp]\("
    r"|\b[rt]xc_id\b|\bVNI_[A-Z]|\bkv_?transfer|\bKVPoll\b|\bnic unit\b"
    r"|ucxx|\bib_?mads?\b|\bgniu?_"
    r"|\b(?:btl|mtl|pml|osc)[_:](?:openib|ofi|ucx|psm|mxm|verbs)|endpoint address"
    # what a program calls its own objects: rnic_create_qp, cq_poll
    r"|\b\w*_(?:qp|cq|mr|pd|srq|hca|rma|ib)\b|\b(?:qp|cq|mr|srq|hca)_\w",
    re.IGNORECASE,
)
_IN_CAPITALS: Final = late(r"\b(?:(?:QP|CQ|CQE|SRQ|MR|HCA|RNIC|IB|GID)s?|RT[RS] failed)\b")
"""Short ones, which are other words in small letters: "Mr", and Unix has a gid."""

_HARMLESS: Final = late(
    r"https?://\S+"
    r"|(?<!\S)\S+\.(?:ya?ml|json|toml|conf|cfg|ini|md|rst|txt|log|sh|py|csv|git|tar|gz|service)\b"
    r"|(?:^|(?<=[\s'\"(]))(?:~|/home|/Users|/root|/scratch|/data|/mnt|/tmp)/\S+"
    # counts, and their absence
    r"|\bmore process(?:es)? ha(?:s|ve) sent help message.*"
    r"|\bto see all help / error messages\b"
    r"|(?:\b|_)error(?: \w+){1,3} *[=:] *0\b(?!x)"
    r"|#wrong\b|\bnumber of (?:skipped|nan) \w+: +0\b"
    r"|\b(?:(?<!port )(?<!rank )(?<!node )(?<!gpu )(?<!device )(?<!worker )(?<!queue )(?<!task )"
    r"(?<!thread )(?<!channel )(?<!rail )(?<!nic )(?<!process )(?<!stage )"
    r"(?<!qp )(?<!cq )(?<!mr )(?<!pe )(?<!hca )0"
    r"|no|zero|without(?: an?)?) (?:\w+ )?(?:errors?|fail(?:ed|ures?)|time-?outs?)\b"
    r"|(?:\b|_)(?:errors|failures|failed|time-?outs?|aborts)[\"']?[ =:]+\d+\b"
    r"|(?:\b|_)error[\"']?[ =:]+0\b(?!x)|\berrors?[ =:]+0x0+\b"
    r"|^\\\\.* 0\s*$"  # of Windows, by the path of the counter
    r"|\b[Ff]ailed \w+: +0\s*$|\b[Ee]rror is \d+\.\d+(?:[eE][-+]?\d+)?\s*$"
    r"|\bskipping \w+ +\(not supported\)"
    r"|\b0 (?:tests|checks|cases) (?:\w+ and )?(?:failed|skipped)\b"
    r"|[\"']?\berrors?[\"']?\s*[=:]\s*(?:null|None|nil|false|\"\"|''|\[\])"
    # a counter of none, flags of lspci, what lanes count before FEC, and options
    r"|^\s*(?:[\w.-]{1,60}|(?:\w+ ){1,4}(?:[Ee]rrors?|[Cc]ounters?|[Dd]rops|[Ff]ailures))"
    r"\s*[:=]\s*0\s*$"
    r"|^\s*(?:\w+ ){0,4}"
    r"(?:(?:failed|rejected) (?:\w+ )?(?:attempts|operations|connections|requests)"
    r"|packets dropped)\s*[:=]\s*0\s*$"
    r"|(?:\b[A-Z]\w{1,20}[-+](?: |$)){3,}"
    r"|\bRaw (?:Physical )?(?:Errors|BER)\b.*|(?<=\s)--[a-z][a-z-]+|\(0 \w+ not found\)"
    # a list that an oops has, of all that is loaded
    r"|\bModules linked in: .*"
    # settings and what is named after an error
    r"|\btime-?out[\"']?(?: \([a-z]+\))?(?: value| of| is| set| was)?(?: to)?[ =:(]+\d[\w.]*"
    r"|\berror handling:[^|]*|\bfail-?(?:over|safe|back)\w*"
    r"|\berrors? (?:handl|correct|count|rate|report|inject|detect|path|polic)\w*"
    r"|\bfailure (?:rate|domain|detect|inject|handl|mode|threshold)\w*"
    r"|\baborts?(?=[\"',}]|$| COMPLETE)|module verification failed|on_error: \w+",
    re.IGNORECASE,
)
_LEFT: Final = r"(?<![\w./=])"
_RIGHT: Final = r"(?![\w/=]|\.\w|-\w)"
_STRONG: Final = late(
    rf"(?i:{_LEFT}(?:fail(?:ed|ures?|s|ing)?|errors?|fatal|abort(?:s|ed|ing)?|timed[ -]?out"
    r"|time-?outs?|unreachable|refused|denied|reject(?:s|ed)?|unable|cannot|can'?t|could ?n[o']t"
    r"|exhausted|exceeded|invalid|abnormal|incompatible|mismatch\w*|unresponsive|no response"
    r"|not respond\w*|panic|catastrophic|null value|out of memory|fault"
    r"|did(?: not|n't) (?:send|respond|answer|arrive|complete|reply)"
    r"|(?:not|\w+n't) (?:found|loaded|ready|reachable|responding|running|permitted|accept\w*)"
    r"|stall(?:ed|s)?|hung|stuck|deadlock\w*|corrupt(?:ed|ion)?|overruns?|overflow(?:ed|s)?|illegal"
    r"|crash(?:ed|es)?|not enough|insufficient (?:memory|resources|space|privileges?)|assertion"
    r"|assert|exception|segmentation|broken|dropped|no (?:response|route|path|reply|such)"
    r"|inconsistent|wrong|conflict(?:s|ing)?|connection (?:closed|lost|reset)"
    r"|bad (?!debt)\w+|lost connection|unexpected(?:ly)?|unhandled|killed|hang"
    rf"|unavailable|unsupported|does ?n[o']t|skipp(?:ed|ing)){_RIGHT})"
    # a constant or a class is named after what it says
    r"|_(?:ERR|ERROR|FAULT|FATAL|UNREACHABLE|REJECTED|REMOVAL|FAILED"
    r"|NOT_FOUND|NOT_SUPPORTED|UNSUPPORTED|DENIED|TIMEDOUT|ABORTED|EXHAUSTED)\b|[A-Za-z](?:Error"
    r"|Failure)\b(?!\()"
    r"|\b[a-z]\w*_(?:err|error|fail|failed|failure): (?!\d+\s*$)"
    r"|(?i:\bno (?:\w+ ){1,3}(?:active|usable|detected|available)\b)|\berr(?:no)?=-?[1-9]\d*\b"
    r"|\b(?:[Pp]rotocol|[Oo]peration) not supported|disagrees about version"
    r"|\b[Uu]nknown symbol|unrecogni[sz]ed status"
    # the kernel's own: rpcrdma's end of a connection, and its warnings
    # and a status of bnxt_re's command queue (bnxt_qplib_process_qp_event, qplib_rcfw.c)
    r"|\bcmdq\[0x[\da-f]+\]=0x[\da-f]+ status 0x0*[1-9a-f]"
    r"|\bclosed \(-\d+\)|prov_err\w*: *-?[1-9]|_(?:error|fatal)\w*\(\)  ?/|not match transport"
    r"|\bno RDMA connection\b"
    r"|\b(?:R?IP|PC is at|pc ?): ?(?:[\da-f]{4}:)?(?:\[<\w+>\] )?\w+\+0x"
    r"|<signal handler called>|\bcaught signal \d|\bBUG: |IBV_WC_SUCCESS\. [1-9]"
    r"|\bWARNING: CPU: \d+ PID: \d+ at |-\[ cut here \]-"
    r"|\b(?:status|ret|rc) ?[:=] ?-[1-9]\d{0,2}\b|\bheartbeat missed"
    r"|\blink removed|closed connection|\b[Bb]ogus\b|\berr handler for\b"
    # a number beside the limit that it passes, and what rxe does not find
    r"|\b\w+ ?\(?\d+\)? ?> ?max_\w+|\bno (?:MR|MW|QP|CQ|SRQ) match|what\(\): "
    r"|\bE(?:INVAL|IO|NOMEM|TIMEDOUT|NODEV|FAULT|ACCES|PERM|BUSY)\b",
)
_WEAK: Final = late(
    _LEFT + r"(?:too (?:many|large|big|small|long)|not (?:available|supported|registered|permitted"
    r"|connected|usable)|missing"
    r"|lost|disconnected|disabled|unavailable|unsupported|does ?n[o']t|no (?:usable|suitable|active"
    r"|such|matching|available|\w+ devices?))" + _RIGHT,
    re.IGNORECASE,
)
"""Trouble where the program says that it is some."""

_SEVERE: Final = late(
    r"\b(?:WARN(?:ING)?|ERROR|ERR|FATAL|CRITICAL|CRIT|ALERT|EMERG|PANIC)\b"
    r"|<(?:warn|error|critical)>"
    r"|(?:^|[\s\[])[EFW]\d{4} \d\d:|\blevel[\"']?[=:] ?[\"']?(?:warn|err|fatal|crit)|\bUCX  ?Fatal"
    r"|^(?:Warning|Error)\b"
)
_MILD: Final = late(
    r"\b(?:INFO|DEBUG|TRACE|NOTICE|DIAG|VERBOSE)\b|<(?:info|debug|trace)>"
    r"|(?:^|[\s\[])[ID]\d{3,4} \d\d:|\blevel[\"']?[=:] ?[\"']?(?:info|debug|trace)|^[ID]: "
)
_OTHER: Final = late(
    # tests and builds
    r"::test_|\bPASSED\b|\bFAILED tests?/|^not ok |^ok \d|\[ +(?:FAILED|PASSED|OK) +\]"
    r"|:\d+:\d+: (?:fatal )?(?:error|warning|note)|undefined reference"
    r"|\.\w{1,4}\(\d+\): (?:fatal )?(?:error|warning)\b"
    r"|^(?:g?make|ninja|CMake|cc1?|ld)(?:\[\d+\])?[ :]|^\[ *\d+ ?%\]|-W[a-z]"
    # packages and repositories
    r"|satisfies the requirement|matching distribution|locate package|unmet dep"
    r"|^(?:E|Err): |^fatal: |\brdma-ndd\b|\bconfigure: error|Could NOT find \w+ \(missing"
    # a provider that is not installed, and a socket that was closed before
    r"|^ENV parameter: |ofi_reg_dl_prov\(\).*dlopen|\bsend\(fd=-1\)"
    # scripts, lists of options, and commits
    r"|^\s*(?:#|--?[A-Za-z]|export |declare -|set -|module load|[A-Z][A-Z0-9_]+=\S*(?: |$))"
    r"|^\s*(?:[-*] )?(?:[\w/.,+-]+: ){0,3}(?:Fix(?:es)?|Add|Avoid|Handle|Remove|Prevent|Correct"
    r"|Improve|Introduce|Revert|Merge|Document|Increase|Return|Don't|Do not)\b(?! to\b)"
    r"|^\s*(?:[\w/.,+-]+: ){1,3}(?:Move|Use|Make|Rename|Convert|Replace|Drop|Refactor|Simplify"
    r"|Clean|Update|Expose|Implement|Extend|Ensure|Support|Allow|Switch|Split) (?!to\b)"
    r"|\.ko\] undefined!"
    # adapters that have no RDMA, transports that are none, and plugins that were not built in
    r"|\b(?:ixgbe(?:vf)?|igbv?f?|igc|e1000e?|tg3|bnx2x?|r8169|be2net|atlantic) [0-9a-f]{4}:"
    r"|^libfabric:[\w:]{0,40}:(?:tcp|sockets|udp|shm|net|sm2):|\b(?:mpi|udp|smp)-conduit\b"
    r"|\btcp_(?:ep|iface|cm|md|sockcm|sockcm_ep|listener)\.c:\d+ +UCX\b|\bAMUDP_"
    r"|\b(?:lib)?bpf_|\blibbpf\b|CONFIG_BPF"
    r"|(?:\bModule |\bcould not insert (?:module )?['\"]?)"
    r"(?!\S*(?:rdma|mlx|ib_|iw_|rxe|siw|verbs|efa|bnxt|hfi1|qed|hns|nvme|nvidia|peer|gdr|xpmem|knem"
    r"|lnet|lustre|iser|srp|mana|cxi|erdma|cxgb|usnic|ksmbd|cifs|nfs|svc|scst|target|tcm|ceph"
    r"|beegfs|mmfs|mst_|rds|smc|rnbd|rtrs|ionic|ice\b|idxd|vfio|uio))"
    r"[\w./-]+(?: not found\b|['\"]?: )"
    # packages of Python, code on a GPU, and what a node of Kubernetes is marked with
    r"|\bNo module named\b|\billegal memory access\b|\bdevice-side assert\b|\bpin memory thread\b"
    # what an installer does
    r"|\b[Tt]hose packages are removed\b"
    r"|\bnode\.kubernetes\.io/|\bInsufficient (?:nvidia|amd)\.com/gpu\b"
    r"|\bgetPluginParams\b|createBackend: unsupported|[Cc]annot change \w+ when RDMA is active"
    r"|\bnvmet?_tcp\b|\blibplugin_(?!UCX|LIBFABRIC)|\b(?:EXT4-fs|XFS|BTRFS)\b"
    r"|^\s*(?:Subject: |Re: )*\[(?:PATCH|RFC)\b|[Cc]ould not install packages"
    # memory of the host, and what follows an oops, whose own lines say where it was
    r"|\bEDAC [A-Z]+\d*: "
    r"|\bKernel panic - not syncing: Fatal exception(?: in interrupt)?$"
    # what was typed, and what Ansible tries again
    r"|^\$ [\w./-]+(?: |$)"
    r"|^FAILED - RETRYING: "
    # tables
    r"|^\s*\|.*\|\s*$|_total\{"
    # linkers, packages, and files that a script makes
    r"|\bmake\[\d+\]: \*\*\* |\bC\+\+ compilation of rule\b|\bbuild stopped: |\bnvlink error\b"
    r"|\bld: cannot find|\bcollect2: |\bscript(?:let| .{0,40}) (?:failed|returned)|\bscriptlet\b"
    r"|^(?:dpkg|dpkg-deb|rpm|apt(?:-get)?|yum|dnf|zypper|pip3?|conda|brew|dracut|depmod|ldconfig)"
    r"(?:\[\d+\])?: |\btrying to overwrite\b|\bconflicts (?:with|between) .{0,80}\b(?:file|package)"
    r"|\bdependency problems\b|\b(?:nothing provides|but it is not (?:going to be )?install)"
    r"|^(?:/\S+/)?(?:ln|cp|mv|rm|mkdir|rmdir|touch|chmod|chown|install|tar|unzip|gzip|sed|cat|ls|cd"
    r"|find|wget|curl|patch|diff|tee|rsync|scp)(?:\(\d+\))?: "
    # an Ethernet port as such, and what UCX has for looking into it
    r"|\bADDRCONF\(NETDEV_\w+\): \S+ link "
    r"|\bSIOC[A-Z]{4,}\b|\bETHTOOL_[GS][A-Z]+|\b(?:add|remov|set|delet|chang)\w* (?:the )?MAC addr"
    r"|\b(?:promiscuous|allmulti\w*) mode\b|\bvfs_(?:fuse|sock)\.c|\binotify_\w+"
    # how the processes of a job find each other
    r"|\bPMIX?_(?:SUCCESS|ERR\w*)\b|\bpmi-spawner\b"
    r"|\bmunge\.service: |\b[Mm]unge (?:de|en)code failed\b|\bmunge/munge\.socket\b"
    r"|\b(?:nvshmem_bootstrap|bootstrap_(?:loader_)?init)\b|\bbootstrap\.cpp:\d"
    # what says that it may be passed over
    r"|\b(?:can|may|should|could) (?:be )?(?:safely )?(?:be )?ignored?\b|\b(?:harmless|benign)\b"
    r"|\bsafe(?:ly)? (?:to )?ignore\b|\bignore (?:this|these|the) (?:error|warning|message)"
    # people, and other programs than those of RDMA, whatever the host is called
    r"|^\s*(?:I|I'm|I've|We|We're|My|Our|Thanks|Thank you|Sorry|Hi|Hello)\b(?! (?:said|see):)"
    r"|\b[Tt]his (?:patch|commit|change|series|page|section|document|option|parameter|chapter)\b"
    r"|\bThe following (?:errors?|messages?|output)\b"
    r"|\berrors? (?:is|are) (?:gone|fixed|resolved)\b"
    r"|^[Uu]sage:|: command not found$"
    r"|^(?:ssh|scp|git|iperf3?|ping|sudo|bash|kubectl|helm)(?:\[\d+\])?: "
    r"|\bFailed to pull image\b|\bError from server\b|\bFailedScheduling\b|\bapt does not have\b"
    r"|^configure: |^(?:configure:\d+: )?checking (?:\S+ )?(?:for|whether|if|of|\S+\.h) "
    r"|^-- MCA component |^Ran \d+ tests?\b|^[A-Z]+_[A-Z_]+: The "
    r"|\bfatal error: \S+\.h: No such file|\bFailed dependencies\b"
    r"|\b[Ss]kipp(?:ing|ed)\b.{0,20}\btest"
    # a question, or advice
    r"|^[^:]*\?\s*$|^\s*(?:[-*\d.]+ )?(?:If|When|Whenever|Why|How|What|Does|Is|Are|Has|Have|Can"
    r"|Could|Did)"
    r" (?:you|your|the|a|an|anyone|anybody|it|there|this|I|we|to)\b"
)
_PROSE: Final = late(
    r"\bfor (?:more information|example|instance)\b|\bin case (?:of|the|a)\b"
    r"|\bcan be (?:increased|set|used|changed|caused)|\bshould be\b|\bis used (?:to|when|for)"
    r"|\bcontrols? (?:the|how|whether)"
    r"|\bspecif(?:y|ies) (?:the|how|which)|\bdefault(?: value)? is\b|\bsee (?:section|also)\b"
    r"|\bCauses the\b|\bvariable (?:is|controls|specifies)|\bgenerated (?:on|when)\b|\bindicates\b",
    re.IGNORECASE,
)
_CLOCK: Final = late(r"\d\d:\d\d:\d\d|^\W{0,3}\[ *\d+\.\d{3,6}\]")
_SYSLOG: Final = late(
    r"^(?:\w{3} +\d+ \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\S+) [\w.-]+ (?=[\w./-]+(?:\[\d+\])?:)"
)
"""The host's name is none of the line's words."""
_SUCCEEDED: Final = late(
    r"(?<!errno 0: )(?<!errno says: )(?<!errno: 0, )(?<!failed: )(?<!un)"
    r"\bsuccess(?:ful(?:ly)?)?\b|\bsucceeded\b|\brecovered\b",
    re.IGNORECASE,
)


_asked_again: Final = lru_cache(maxsize=64)
"""Several readers ask the same of a line, one after another."""


@_asked_again
def names_rdma(text: str) -> bool:
    """Whether it has a word of RDMA, outside of addresses, files, counts and settings."""
    left = _HARMLESS.sub(" ", _SYSLOG.sub("", text))
    return bool(_NAMED.search(left) or _IN_CAPITALS.search(left))


@_asked_again
def may_tell(text: str) -> bool:
    """Whether the line may tell of trouble: it is none of information, prose or other programs."""
    return is_no_prose(text) and not _OTHER.search(text)


def is_no_prose(text: str) -> bool:
    """Whether the line may tell of trouble, of whatever program."""
    return not (is_mild(text) or _SUCCEEDED.search(text) or _PROSE.search(text))


def is_mild(text: str) -> bool:
    """Whether its program marks it as information."""
    return _SEVERE.search(text) is None and _MILD.search(text) is not None


def names_trouble(text: str) -> bool:
    """Whether it has a word of trouble, of whatever, and none that takes it back."""
    return _STRONG.search(_HARMLESS.sub(" ", text)) is not None


@_asked_again
def is_trouble(text: str) -> bool:
    """Whether the line itself says that something of RDMA is in trouble."""
    if text.strip() in _BARE or _STANDS_STILL.search(text) or is_of_the_job(text):
        return True
    severe = _SEVERE.search(text) is not None
    if not severe and _MILD.search(text):
        return False
    text = _SYSLOG.sub("", text)
    left = _HARMLESS.sub(" ", text)
    if not (_NAMED.search(left) or _IN_CAPITALS.search(left)):
        return False
    strong = _STRONG.search(left)
    if not strong and not (severe and _WEAK.search(left)):
        return False
    if _OTHER.search(text) or _SUCCEEDED.search(text):
        return False
    return severe or _CLOCK.search(text) is not None or _PROSE.search(text) is None


def is_trouble_beside(text: str, around: Iterable[str]) -> bool:
    """Whether the line is of trouble, names no other subject, and stands among lines of RDMA.

    What is only said for information, as the devices that are used, names no subject.
    """
    if is_mild(text):
        return False
    if not _STRONG.search(_HARMLESS.sub(" ", text)) or _ELSEWHERE.search(text):
        return False
    if _OTHER.search(text) or _SUCCEEDED.search(text) or _PROSE.search(text):
        return False
    if _SUBSYSTEM.search(text):
        return False
    if _OF_THE_KERNEL.search(text) and not (_STOPS.search(text) or is_warning(text)):
        return False
    said = " ".join(
        _HARMLESS.sub(" ", _SYSLOG.sub("", each))
        for each in around
        if _SEVERE.search(each) or not _MILD.search(each)
    )
    return _NAMED.search(said) is not None or _IN_CAPITALS.search(said) is not None


_ELSEWHERE: Final = late(
    r"\bcuda (?:error|failure|out of)|\bcudaError|\bout ?of ?memory|\bOOM\b|\bHTTP|\bSSL"
    r"|\bssh\b|\bNVLS"
    r"|\bno module named|ImportError|KeyError|TypeError|ValueError|AttributeError|IndexError"
    r"|\bdisk|\bfile system|\bext4|\bxfs|\bUSB\b|\bACPI|\bDNS|\bimage|\bpip\b|\bapt\b|\byum\b"
    r"|\bdnf\b"
    r"|\bcmake|\bcompil|\btests?\b|huggingface|\btoken|\bgit\b|\bnpm\b|\bplugin|\bkeyring"
    r"|\bmodprobe -r"
    r"|`|\bplease\b|\bnvcc|toolkit|configuration error|\bBAR \d|\bthunderbolt|\bDROM"
    r"|\bfirmware (?:load|file)|\bdevice link|\bpath starting|\blibmpi\b"
    r"|: Failed to start [A-Z]|\bRTNETLINK answers|\bnetwork\.service\b",
    re.IGNORECASE,
)
"""Trouble whose subject is another, whatever stands beside it."""

_SUBSYSTEM: Final = late(
    r"(?:^\W{0,3}\[ *\d+\.\d{3,6}\]|\bkernel:)\s*(?:\[[^\]]{1,16}\]\s*)?"
    r"(?!WARNING|INFO|BUG|Oops|RIP|Kernel panic|watchdog|general protection|Call Trace|Modules)"
    r"[A-Za-z][\w/.-]*(?: [0-9a-f:.]{7,})?: "
)
"""A line of the kernel that begins with whose it is: `overlayfs: failed to set xattr on upper`."""

_OF_THE_KERNEL: Final = late(r"^\W{0,3}\[ *\d+\.\d{3,6}\]|\bkernel: ")
"""Its lines follow each other as they come: one that does not say whose it is, is nobody's."""
_STOPS: Final = late(r"\bBUG: |\bOops\b|\bgeneral protection|\bpanic\b|\bstack segment")
"""A crash of the kernel, of whatever was done before."""
_WARNING: Final = late(r"-\[ cut here \]-|\bWARNING: CPU: \d+ PID: \d+ at ")


def is_warning(text: str) -> bool:
    """A report of the kernel's: the file in it, or the calls below it, say whose it is."""
    return _WARNING.search(text) is not None


_STANDS_STILL: Final = late(
    r"\btask (?:rdma|ib_?\w*|iw_\w+|mlx\w+|k?iblnd\w*|rping|ucmatose|iwpmd|opensm|nvme(?:t_rdma)?)"
    r"[^:]{0,20}:\d+ blocked for more than"
    # nvme_rdma_timeout: that of PCIe goes on after the comma, that of TCP names a queue
    r"|\bnvme nvme\d+: I/O .{0,60}QID \d+ timeout$"
    r"|\b[a-z]\w*: ERR [0-9A-F]{4}: "
    r"|^\s*\d+: \(RDMA\w+::\w+\(.*\[0x[0-9a-f]+\]$",
    re.IGNORECASE,
)
"""A task or a request that hangs, an error of OpenSM, a frame of a crash in code of RDMA."""

_BARE: Final = (
    "Failed to open device",
    "Couldn't read/write remote address",
    "Parser function exited with Error",
    "CUDA DMA-BUF cannot be used without CUDA",
)
"""All that ibv_devinfo, the pingpongs of rdma-core and perftest say of it."""
