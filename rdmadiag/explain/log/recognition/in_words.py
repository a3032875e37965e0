"""What a line that no sign and no call fits still says of its cause, by the words that it has.

A word suggests causes with a weight of 1 to 4: 4 if it says what the cause is, 1 if it only
does not contradict it. The sums order the causes. The rows hold of every stack; what one
stack prints in words of its own is a sign (explain.log.recognition.signs).

>>> from rdmadiag.explain.log.line.fields import fields
>>> [each.label for each in in_words(fields("dapl: open_hca: device mlx5_0 not found"))][:2]
['no-rdma-device', 'provider-missing']
"""

from collections import Counter
from functools import cache
from typing import Final

from rdmadiag.explain.causes import Known, stated
from rdmadiag.explain.log.line.fields import Fields
from rdmadiag.explain.log.line.literals import Places
from rdmadiag.explain.log.recognition.words_around import ROWS, row
from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.errnos import errno_name
from rdmadiag.late import late

LEAST: Final = 2
"""A sum below it says nothing."""

_NOT: Final = (
    r"(?:no|not|n't|0|zero|none|never|without|missing|empty|unable|cannot|fail\w*"
    r"|invalid|lost|lack\w*)"
)
_DEVICE: Final = r"(?:devices?|hcas?|nics?|rnics?|adapters?|hfis?|units?|ca|interfaces?|dev)"
_REGISTER: Final = (
    r"(?:regist\w*|reg_?mr\w*|\bmr\b|mr_reg\w*|pin\w*|memory region|mkey|umem|memhandle|\bmem_?map)"
)
_GPU: Final = (
    r"(?:gpus?|cuda|cumem\w*|hip|rocm|hmem|dma-?_?bufs?|nv_?peer_?mem\w*|nvidia[-_]peermem"
    r"|peer_?mem\w*|gpu ?direct|gdr(?:copy|drv)?|device memory|vram|p2pdma)"
)


_ROWS: Final = (
    # --- devices, nodes, libraries ---------------------------------------------------------
    row(
        rf"\b{_NOT}\b(?! space)[^(:=]{{0,40}}\b{_DEVICE}\b(?!=|:\s*\S)"
        rf"|\b{_DEVICE}\b[^(:=]{{0,40}}\b(?:not (?:found|exist|present"
        r"|detected|available|usable)|is missing|no such)|no such device\b",
        no_rdma_device=3,
        provider_missing=2,
        device_absent=2,
        uverbs_node_missing=1,
        container_without_device=1,
    ),
    row(r"/dev/infiniband|\buverbs\d|\brdma_cm\b.{0,30}no such file", uverbs_node_missing=2),
    row(
        r"no such file or directory|\benoent\b|does not exist",
        uverbs_node_missing=2,
        container_without_device=1,
        ib_uverbs_not_loaded=1,
    ),
    row(
        r"\blib[\w+-]+\.(?:so|dylib)\b|shared (?:object|library)|dlopen|dlsym|\bdynamic library",
        verbs_library_missing=3,
        provider_missing=2,
        provider_release=1,
        network_plugin_unfit=1,
    ),
    row(r"\bplug-?in\b", network_plugin_unfit=2),
    row(
        r"\bsymbols?\b|\babi\b|version mismatch|disagrees about version|incompatible|ioctl"
        r"|protocol not supported"
        r"|function not implemented|not implemented|comp_mask|\benosys\b|\beproto\w*",
        provider_release=3,
        abi_mismatch=1,
        device_lacks_capability=1,
    ),
    row(
        r"\bmodprobe\b|\binsmod\b|\bkernel module|\bload(?:ing)? (?:the )?module"
        r"|\bmodules? .{0,40}(?:not found|not loaded|missing|fail)|not? (?:been )?loaded\b",
        kernel_module_missing=3,
        ib_uverbs_not_loaded=1,
        no_rdma_device=1,
    ),
    row(
        r"permission denied|not permitted|\beacces\b|\beperm\b|access denied|privilege",
        uverbs_node_not_openable=3,
        container_without_device=2,
        memlock=1,
        selinux=1,
    ),
    row(
        r"\bproviders?\b|fi_getinfo|\bfabric_info\b|\bno (?:ofi|fabric)",
        no_provider=2,
        provider_missing=1,
    ),
    row(
        r"\b(?:ofi|libfabric|fabric)\b.{0,80}no data available|fi_getinfo.{0,40}-61", no_provider=3
    ),
    row(r"\bnetns\b|namespace", device_in_other_netns=2, netdev_in_other_netns=2),
    row(r"\bfork\w*\b", fork_unsafe=3),
    row(r"too many open files|\bemfile\b", open_files_limit=4),
    # --- memory ----------------------------------------------------------------------------
    row(
        r"cannot allocate memory|out of memory|not enough memory|insufficient memory|\benomem\b"
        r"|no memory|alloc\w* .{0,40}fail|(?:fail\w*|unable|could ?n[o']t|can ?n[o']t"
        r"|can't) (?:to )?(?:create|alloc\w*)|\(-12\)|-12\b|no resources"
        r"|insufficient resources|no space left",
        memlock=2,
        no_memory=2,
        mr_exhausted=1,
        qp_exhausted=1,
    ),
    row(r"memlock|locked memory|ulimit|\bmlock\w*", memlock=4),
    row(
        rf"\b{_REGISTER}.{{0,80}}|fail\w* to .{{0,20}}{_REGISTER}",
        memlock=2,
        mr_exhausted=1,
        memory_not_mapped=1,
        gdr_off=1,
    ),
    row(rf"\b{_GPU}|\bp2p\b", gdr_off=2, memory_kind=1, acs_or_iommu=1),
    row(
        # from the beginning of a line alone: tried at each letter, a long line takes its square
        rf"(?m)^(?=.*\b{_GPU})(?=.*(?:{_REGISTER}|bad address|invalid argument|\bmap))",
        gdr_off=3,
        memory_kind=2,
        acs_or_iommu=1,
    ),
    row(r"\b(?:on.?demand|odp|implicit mr)\b", device_lacks_capability=3, access_flags=1),
    row(r"bad address|\befault\b", memory_not_mapped=3, gdr_off=2, memory_kind=1),
    row(r"\biommu\b|\bdmar\b|\bacs\b|\bamd-vi\b|\bsmmu\b|\bswiotlb\b", acs_or_iommu=4),
    # --- keys and access -------------------------------------------------------------------
    row(
        r"\brkey|remote key|remote[_ -]?access|remote memory|access (?:error|violation|rights)"
        r"|protection (?:error|fault|violation)|invalid (?:remote )?(?:address|key)\b|remote_mr",
        remote_key_wrong=4,
        access_flags=1,
    ),
    row(r"\blkey|local key|local protection|local access", local_key_wrong=3, acs_or_iommu=2),
    row(
        r"user[_ ]pages|\bumem\w*|get_pages|pin\w* pages",
        memory_not_mapped=2,
        memory_kind=2,
        memlock=2,
        gdr_off=1,
    ),
    # --- requests and their completions ------------------------------------------------------
    row(
        r"\b(?:completions?|wc|cqe?s?|request|work request|wr_id|transfer|rma|rdma (?:read"
        r"|write)|read|write"
        r"|put|get|opcode|poll\w*)\b.{0,60}(?:error|err\b|fail\w*|status|abort\w*)",
        peer_gone=2,
        remote_key_wrong=1,
        no_path=1,
        flushed=1,
    ),
    row(
        r"(?:invalid|bad|unknown|no such|wrong|stale|unrecogni[sz]ed) (?:\w+ ){0,2}"
        r"(?:qps?|qpn|queue pairs?|address handle|ah|receiver|dest\w*|endpoint|ep|peer"
        r"|connection|cm_?id)\b",
        peer_gone=3,
        connection_stale=2,
    ),
    row(
        r"invalid argument|\beinval\b|\(-?22\)|= ?-22\b",
        device_lacks_capability=1,
        driver_refused=2,
        gid_index_or_family=1,
        memory_not_taken=1,
        access_flags=1,
    ),
    row(
        r"(?:invalid|unknown|unexpected|wrong|bad|unsupported|malformed) (?:\w+ ){0,2}"
        r"(?:opcode|type|flags?|length|size|operation|format|combination|completion|event|request)",
        request_malformed=3,
        provider_release=1,
    ),
    # --- queues ----------------------------------------------------------------------------
    row(
        r"\bqps?\b|\bqpairs?\b|queue pairs?|\bsrqs?\b|\bdct\b|\bdci\b",
        qp_exhausted=1,
        qp_too_large=1,
    ),
    row(
        r"\bmax_(?:send|recv|qp_wr|sge|inline)\w*|too (?:large|big|many|long)|exceed\w*|larger than"
        r"|greater than|maximum|\blimits?\b|(?:queue|qp|sq|rq) (?:depth|size)",
        qp_too_large=2,
        cq_too_large=1,
        mr_exhausted=1,
        qp_exhausted=1,
    ),
    row(r"\bcqs?\b|completion queue|\bcqe\b", cq_too_large=1, cq_exhausted=1, cq_overrun=1),
    row(r"overrun|overflow", cq_overrun=3, queue_full=1),
    row(
        r"\bpost(?:ing|ed)?[_ ]?(?:an? )?(?:send|recv|receives?|wr|read|write)"
        r"|\bsend queue|(?:queue|ring|wqe?s?) (?:is )?full|no (?:free|available) (?:wqe|slot|wr)",
        queue_full=2,
        qp_state=2,
        request_malformed=1,
    ),
    row(
        r"\b(?:qp|queue pair|endpoint|ep)\b.{0,30}(?:error|err|wrong|bad|invalid|unknown|failed)"
        r"[ _]?state|state.{0,20}(?:qps_|to )?err(?:or)?\b",
        qp_error=2,
        qp_state=2,
        peer_qp_error=1,
        flushed=1,
    ),
    row(r"\brnr\b|receiver not ready|no (?:posted )?recv|no receives?\b", peer_posts_no_receives=4),
    row(r"\b(?:error|fail\w*|time\w*) (?:during|in|of) (?:\w+ )?flush\b", peer_gone=3, no_path=2),
    row(r"\bflushed\b|\bflush[ _]err|\bwr[ _]flush", flushed=4),
    row(
        r"\b(?:extended|_ex)\b.{0,80}(?:invalid argument|not supported)", device_lacks_capability=5
    ),
    row(
        r"not support\w*|unsupported|does(?:n't| not) support|lacks?\b|capabilit\w+"
        r"|\beopnotsupp\b|\benotsup\b|not available on this",
        device_lacks_capability=3,
        provider_release=2,
        qp_type_unsupported=1,
    ),
    row(r"\bpkey|\bp_key|partition", pkey_index=4),
    # --- the path --------------------------------------------------------------------------
    row(
        r"\bgids?\b|\bgid_?(?:index|idx|tbl|table)|\bsgid|\bdgid",
        no_usable_gid=3,
        gid_index_or_family=2,
        gid_row_empty=2,
    ),
    row(r"\bmtu\b", mtu_above_port=3, mtu_mismatch=3, mtu_too_large=1),
    row(
        r"(?:link|port|carrier|interface).{0,30}\b(?:down|not (?:in )?active|inactive|disabled"
        r"|polling|not up|not ready|no carrier|lost)\b|link ?down|linkdown",
        port_down=4,
        link_lost=3,
        no_subnet_manager=1,
    ),
    row(
        r"\bno (?:\w+ ){0,3}(?:active|up|usable|available)\b|\b(?:not|n't|in)[ _-]?active\b"
        r"|\bdown\b",
        port_down=3,
        no_rdma_device=2,
        link_lost=1,
    ),
    row(
        r"subnet manager|\bopensm|\bsm[ _](?:lid|is)|\bsa[ _](?:query|request)|path record"
        r"|\blid 0\b"
        r"|port_init\b|(?:port|state|link).{0,20}initializing|multicast|\bu?mads?(?:\b|_)"
        r"|\bib(?:warn|panic|error)\b",
        no_subnet_manager=4,
        port_down=1,
        no_path=1,
    ),
    row(
        r"connection refused|\beconnrefused\b|refused to connect|connect.{0,30}refused|\(-?111\)",
        peer_not_listening=4,
        peer_refused=2,
        firewall=1,
    ),
    row(r"\breject\w*", peer_refused=4, peer_not_listening=2, connection_stale=1),
    row(
        r"connection (?:was |is |has been )?(?:reset|closed|lost|aborted|broken|terminated|dropped)"
        r"|clos(?:ed|ing) (?:its |the )?connection|broken pipe|disconnect\w*"
        r"|peer (?:is )?(?:gone|dead|lost|down|fail\w*)"
        r"|remote (?:end|side|peer)"
        r".{0,40}(?:clos|gone|exit|fail|dead)|\beconnreset\b|\beconnaborted\b|\bepipe\b|shut ?down"
        r"|not connected|keep.?alive|heartbeat",
        peer_gone=4,
        link_lost=2,
        no_path=1,
    ),
    row(
        r"tim(?:ed|e) ?-?out|\betimedout\b|no (?:response|reply|answer)|not respond\w*|unresponsive"
        r"|\(-?110\)",
        peer_unreachable=2,
        peer_gone=2,
        no_path=2,
        firewall=1,
        link_lost=1,
    ),
    row(
        r"(?<!destination is )unreachable|no route|\behostunreach\b|\benetunreach\b"
        r"|\(-?(?:101|113)\)",
        no_route=3,
        peer_unreachable=3,
        no_path=2,
    ),
    row(  # UCX has no transport in common with the peer, or lost the last one
        r"destination is unreachable|ucs_err_unreachable",
        transport_unusable=3,
        port_down=3,
        no_path=2,
        peer_gone=2,
        no_rdma_device=1,
    ),
    row(r"event channel", rdma_ucm_not_loaded=3, no_rdma_device=3, rdma_cm_node_not_openable=1),
    row(r"\bqps?\b.{0,20}\berror\b", qp_error=1, remote_key_wrong=1, peer_gone=1, flushed=1),
    row(
        r"retry (?:count\w*|limit|exceed\w*)|retr(?:y|ies) (?:exceeded|exhausted)"
        r"|transport (?:error|retry)|transmission",
        no_path=3,
        gid_does_not_route=3,
        peer_gone=2,
        link_lost=1,
        mtu_too_large=1,
    ),
    row(
        r"resolv\w*|getaddrinfo|\baddr(?:ess)?_?(?:error|info)\b",
        no_rdma_at_address=3,
        no_route=2,
        peer_unreachable=2,
    ),
    row(
        r"\bbind\b|\blisten\w*|\brdma_bind",
        no_rdma_at_address=2,
        not_this_hosts_address=2,
        cm_port_taken=1,
    ),
    row(r"address already in use|\beaddrinuse\b", cm_port_taken=4),
    row(
        r"cannot assign requested address|\beaddrnotavail\b|address not (?:valid|available)",
        no_rdma_at_address=3,
        not_this_hosts_address=3,
    ),
    row(r"\bno such device\b|\benodev\b|\(-?19\)", no_rdma_at_address=2, netdev_in_other_netns=1),
    row(
        r"\bconnect\w*\b|\baccept\w*|handshake|wireup|rendezvous",
        peer_not_listening=1,
        peer_gone=1,
        no_path=1,
        firewall=1,
    ),
    row(r"\bsecurity.?group|unresponsive (?:receiver|remote)", security_group=4),
    # --- the device itself -----------------------------------------------------------------
    row(
        r"\bfirmware\b|\bfw\b|hardware error|catastrophic|\bhealth\b|\bsyndrome?\b"
        r"|\bfatal (?:error|event)|adapter (?:failure|error)|device (?:fatal|error)"
        r"|remote i/o error",
        firmware_failed=3,
        driver_refused=2,
        device_resetting=1,
        firmware_silent=1,
    ),
    row(
        r"\b(?:command 0x|(?:fw|firmware|admin) command|cmdq?\b|cmd_\w*|mailbox|admin queue"
        r"|aq|adminq|cqp|hwrm|mbox|wait_func|devx\w*)\b.{0,60}"
        r"(?:tim(?:ed|e) ?-?out|no response|fail|error|cancel)",
        firmware_silent=3,
        firmware_failed=2,
        driver_refused=1,
    ),
    row(
        r"\baer\b|\bpcie?\b.{0,40}(?:error|fail|recover|reset|slot)|bus error|surprise",
        pcie_error=4,
    ),
    row(r"\breset\w*\b|\bre-?init\w*", device_resetting=1, firmware_failed=1),
    row(
        r"hot.?(?:un)?plug|device (?:is )?(?:removed|removal|gone)|\beio\b|input/output error",
        device_removed=3,
        firmware_failed=2,
    ),
    row(r"\bcgroup", rdma_cgroup=4),
    row(
        r"\brxe_cfg (?:add|start)|\brdma link add\b|\bnewlink\b",
        device_absent=4,
        kernel_module_missing=2,
        interface_down=1,
    ),
)

_OF_STAGE: Final[dict[Stage, dict[str, int]]] = {
    Stage.REG_MR: {"memlock": 2, "mr-exhausted": 1, "gdr-off": 1},
    Stage.CREATE_CQ: {"memlock": 2, "cq-exhausted": 1, "cq-too-large": 1},
    Stage.CREATE_QP: {"memlock": 4, "qp-too-large": 2, "qp-exhausted": 1, "qp-type-unsupported": 1},
    Stage.OPEN: {"no-rdma-device": 2, "provider-missing": 2, "uverbs-node-missing": 1},
    Stage.ALLOC_PD: {"pd-exhausted": 2, "no-memory": 1},
    Stage.INIT: {"pkey-index": 2},
    Stage.RTR: {"peer-unreachable": 2, "gid-index-or-family": 1, "no-path": 1},
    Stage.CONNECT: {"peer-not-listening": 2, "peer-unreachable": 2, "no-path": 1},
    Stage.DATA: {"peer-gone": 2, "no-path": 1},
}


_OF_A_MAC: Final[dict[Stage | None, dict[str, int]]] = {
    Stage.OPEN: {"rdma-disabled": 3, "thunderbolt-4": 2, "device-renamed": 1},
    Stage.ALLOC_PD: {"pd-exhausted": 3, "thunderbolt-4": 2, "port-down": 1},
    Stage.REG_MR: {"mr-exhausted": 3, "memory-not-taken": 2, "thunderbolt-4": 2},
    Stage.CREATE_QP: {"qp-exhausted": 3, "stale-queue-pairs": 2, "rc-on-thunderbolt": 1},
    Stage.RTR: {
        "no-ipv4-gid": 5,
        "port-in-bridge": 4,
        "driver-wedged": 3,
        "gid-row-empty": 2,
        "shared-subnet": 2,
        "stale-queue-pairs": 1,
    },
    Stage.CONNECT: {"peer-gone": 3, "peer-not-there": 2, "local-network-privacy": 2},
    Stage.DATA: {"driver-wedged": 3, "link-lost": 2, "peer-gone": 2},
}
_ON_A_MAC: Final = frozenset(
    {"peer-gone", "link-lost", "port-down", "no-route", "peer-not-listening", "shared-subnet"}
)
"""What words may say of a Mac as well."""


def of_a_mac(found: Counter[str], stage: Stage | None) -> Counter[str]:
    """What holds of Thunderbolt, and the causes that only it has."""
    kept = Counter({label: weight for label, weight in found.items() if label in _ON_A_MAC})
    kept.update(_OF_A_MAC.get(stage, {}))
    return kept


@cache
def _places() -> Places:
    return Places(pattern.pattern for pattern, _ in (*_ROWS, *ROWS))


def weights(text: str, stage: Stage | None = None) -> Counter[str]:
    """The weight of each cause by the words."""
    found: Counter[str] = Counter()
    text = text.lower()
    rows = (*_ROWS, *ROWS)
    for place in _places().that_may_match(text):
        pattern, of_row = rows[place]
        if pattern.search(text):
            found.update(of_row)
    if stage:
        found.update(_OF_STAGE.get(stage, {}))
    if found["no-memory"] and _OF_KERNEL.search(text):
        found["memlock"] = 0  # the limit is that of a process
    return found


_OF_KERNEL: Final = late(
    r"^\W{0,3}\[ *\d+\.\d{3,6}\]|\bkernel: |\b(?:mlx[45]_core|bnxt_en|ice|irdma|efa|qede|hns3)"
    r"(?::| [0-9a-f]{4}:)(?!.{0,160}(?:umem|\bpin|user pages))"
)
"""What the kernel itself prints, but not of the pages of a process."""


def likeliest(found: Counter[str], most: int) -> tuple[Known, ...]:
    """Those of most weight."""
    labels = [label for label, weight in found.most_common() if weight >= LEAST]
    return tuple(stated(label) for label in labels[:most])


def in_words(found: Fields, most: int = 5) -> tuple[Known, ...]:
    """The causes that the line's words suggest, those of most weight first."""
    number = errno_name(found.errno, found.platform) if found.errno else None
    several = weights(f"{found.text} {number or ''}", found.stage)
    if found.platform == "darwin":
        several = of_a_mac(several, found.stage)
    return likeliest(several, most)
