"""Words of what stands around a device and its connections, and the causes that they suggest.

Launchers, containers, services, GPUs, firmware, cables, limits: the rows are read with those of
`in_words`, by the same weights, of lowercase text.
"""

import re
from typing import Final

from rdmadiag.late import late

Row = tuple["re.Pattern[str]", dict[str, int]]


def row(pattern: str, **weights: int) -> Row:
    """A pattern, and the weight of each cause that its words suggest."""
    return late(pattern), {label.replace("_", "-"): each for label, each in weights.items()}


_BAD: Final = r"(?:fail\w*|error|unable|could ?n[o']t|cannot|can't)"

ROWS: Final = (
    # --- memory and limits -------------------------------------------------------------------
    row(
        r"huge ?-?pages?\b|\bhuge[_ ]?(?:tlb|mem)\w*|\bmap_hugetlb",
        hugepages_missing=4,
        no_memory=2,
    ),
    row(r"\bpin(?:ned|ning)? (?:host |user |locked )?(?:memory|buffer|pages)", memlock=3),
    row(
        r"\bdev/shm\b|shared[ _]memory|\bshm(?:_open|get|at|em)?\b|\bposix shm|\bsysv\b",
        shm_too_small=3,
        process_memory_refused=1,
    ),
    row(
        r"process_vm_(?:readv|writev)|\bptrace\b|\bxpmem\b|\bknem\b|yama",
        process_memory_refused=4,
    ),
    row(
        r"(?:too many|no (?:free|more|available)|out of) .{0,16}contexts?\b"
        r"|contexts? .{0,20}(?:exhaust|in use|available)",
        too_many_contexts=4,
    ),
    row(r"\becc\b|machine check|\bmce\b|uncorrect\w*|\bpoison", memory_fault=4, pcie_error=1),
    # --- rights and the kernel ---------------------------------------------------------------
    row(
        r"(?:must|need|require)\w* (?:be |run |to be |to run )?(?:as )?(?:root|sudo)\b"
        r"|root (?:privileg|permission|user|access)|are you root|superuser|cap_(?:net|sys)_admin",
        needs_root=4,
    ),
    row(r"cap_net_raw|\braw (?:packet|ethernet|socket|qp)", raw_packet_privilege=4),
    row(
        r"secure ?boot|key was rejected|required key not available|module verification"
        r"|kernel lockdown",
        secure_boot=4,
    ),
    row(r"\bmodule\b.{0,40}\bin use\b|is in use by\b", module_in_use=4),
    row(
        r"lost interrupt|missed interrupt|interrupts? .{0,30}(?:lost|missed|stuck)",
        interrupts_lost=4,
    ),
    row(r"\bmsi-?x\b|\b(?:irq|interrupt|completion) vectors?\b", too_few_vectors=4),
    row(
        r"\bdmar: .{0,40}fault|io_page_fault|arm-smmu.{0,60}(?:fault|event)|\biommu fault"
        r"|\bevent logged \[io",
        iommu_fault=4,
    ),
    row(
        r"\bnetns\b|network namespace|(?:in|inside) (?:a |the )?container\b",
        netdev_in_other_netns=3,
        container_without_device=2,
        netns_mode_shared=1,
    ),
    row(r"netns.{0,20}(?:exclusive|shared)|exclusive mode", netns_mode_shared=3),
    # --- clusters ----------------------------------------------------------------------------
    row(
        r"insufficient (?:rdma|nvidia|mellanox|intel|hugepages)|\ballocatable\b|device.?plugin"
        r"|failedscheduling|unschedulable|resource pool|no devices? in pool",
        resource_not_advertised=4,
    ),
    row(r"\bcni\b|\bmultus\b|network-?attachment|\bipam\b", cni_config=4),
    row(
        r"sr-?iov|numvfs|num_of_vfs|virtual functions?\b|\bvfs\b",
        sriov_off=3,
        pf_unready=1,
    ),
    row(
        r"\bvf\b.{0,40}(?:not ready|denied|refus|mailbox|reset)|\bpf\b.{0,40}not ready",
        pf_unready=4,
    ),
    row(
        r"\bpmix?2?\b|process manager|\bsingleton\b|launched (?:via|by|with|using)",
        launcher_mismatch=3,
    ),
    row(
        r"\b(?:orte|prte|pmixp?|pmi2?)_\w+|\b(?:orted|prted|mpirun|mpiexec|hydra|slurmstepd)\b",
        launcher_mismatch=2,
    ),
    row(r"\[c10d\]|master_?addr", bootstrap_service_unreachable=2),
    row(
        r"\b(?:nccl|rccl|ccom|gloo|socket\w*)\b.{0,80}\b(?:connect|accept)\w*\b.{0,60}"
        r"(?:refused|tim(?:ed|e) ?out|fail\w*|retrying)|\bdocker0\b|\b127\.0\.0\.1\b",
        bootstrap_interface=3,
    ),
    row(
        r"\betcd\b|metadata (?:server|service)|tcp_?store|zookeeper|\bredis\b|coordinator\b"
        r"|\bbootstrap\w*|rendezvous (?:server|service|backend)",
        bootstrap_service_unreachable=3,
    ),
    row(
        r"socket_ifname|(?:no|find any|find a) (?:socket|network|suitable|usable|matching) "
        r"(?:network )?interfaces?|\bbootstrap\b.{0,40}interface",
        bootstrap_interface=4,
    ),
    row(
        r"\bbarrier\b|watchdog|\bstraggl|(?:collective|all_?reduce|all_?gather|broadcast)\b.{0,40}"
        r"(?:tim(?:e|ed) ?out|hang|stuck)|(?:ranks?|process(?:es)?|workers?)\b.{0,30}"
        r"(?:missing|did not|not join|absent)",
        rank_missing=3,
        peer_gone=1,
    ),
    row(
        r"\bibacm\b|\biwpmd\b|\bsharp_?(?:am|d)\b|aggregation manager|\bsrp_daemon\b"
        r"|(?:daemon|service)\b.{0,30}not running",
        helper_service_down=3,
    ),
    row(
        r"\bnqn\b|subsystem.{0,30}(?:not found|invalid|does not exist)"
        r"|(?:no such|unknown) (?:target|export|share|volume)"
        r"|(?:target|export|share|volume|lun)\b.{0,20}(?:not found|does not exist|not exported)",
        target_not_exported=3,
    ),
    row(r"\bnids?\b|\blnet\b.{0,60}(?:no route|network|peer)", lnet_nids_differ=3),
    row(r"\bcxi\d?\b|\bvni\b|slingshot|\bhsn\d", cxi_service=4),
    row(r"\bhccn?\w*|\bhccl\b|\bgaudi\b|\bhabana|\bascend\b", accelerator_port_not_configured=2),
    # --- programs and libraries --------------------------------------------------------------
    row(
        r"not (?:built|compiled|configured)\b|(?:compiled|built|configured) without\b"
        r"|without (?:\w+ )?support\b|support (?:is |was )?not (?:compiled|built|included|enabled"
        r"|found)|re-?(?:compile|build|configure) with|\bnot (?:been )?enabled at (?:compile"
        r"|build)",
        feature_not_built=4,
    ),
    row(
        r"versions? (?:mismatch|differ|conflict)|incompatible (?:\w+ )?versions?"
        r"|(?:different|mismatch\w*) versions?|protocol version",
        versions_differ=4,
    ),
    row(
        r"undefined symbol|symbol lookup|version [`'\"]?\w+_[\d.]+.{0,4}not found|wrong elf"
        r"|(?:built|compiled) (?:for|against)\b",
        library_mismatch=4,
    ),
    row(r"libnccl-net|librccl-net|net(?:work)?[ _-]?plugin", network_plugin_missing=2),
    row(
        r"segmentation fault|\bsegfault|\bsigsegv\b|core dumped|null pointer",
        program_fault=2,
        provider_fault=1,
    ),
    row(
        r"\bassert(?:ion)?\b|double free|use.after.free|stack smashing|\bkernel bug\b|\bbug: ",
        program_fault=4,
        provider_fault=2,
    ),
    row(
        r"\bhas no attribute\b|unexpected keyword argument|referenced before assignment"
        r"|object is not (?:callable|iterable|subscriptable)|nil pointer|syntax error near"
        r"|unbound variable|\b(?:name|syntax|unboundlocal|zerodivision|index|type)error: ",
        program_fault=4,
    ),
    row(
        r"(?:unknown|unrecogni[sz]ed|invalid|illegal|bad|unsupported) (?:\w+ )?(?:option|parameter"
        r"|value|setting|config\w*)s?\b|must be (?:set|specified|given|between|at least|a power"
        r"|a multiple)|missing (?:required )?(?:argument|option|parameter)|is required\b",
        argument_refused=3,
    ),
    row(
        r"\bargs? mismatch|(?:settings?|parameters?|config\w*) (?:mismatch|differ)",
        arguments_differ=3,
    ),
    row(
        r"(?:bad|wrong|unexpected|invalid) (?:magic|protocol|handshake|hello|header|message type)",
        other_program=3,
        versions_differ=2,
    ),
    row(
        r"\bauth\w* (?:fail|error|mismatch)|\bsecret\b|\bchap\b|hmac|credentials?\b",
        secrets_differ=3,
    ),
    row(
        r"\bsig(?:term|int|kill)\b|keyboard ?interrupt|\bkilled\b|\binterrupted\b|time limit",
        interrupted=3,
        peer_gone=1,
    ),
    # --- objects -----------------------------------------------------------------------------
    row(
        r"\b(?:is|still|resource|device or resource) busy\b|\bebusy\b|still (?:in use|referenced"
        r"|bound|open|has references)|(?:non-?zero|outstanding|dangling) ref",
        object_in_use=4,
    ),
    row(
        rf"{_BAD}.{{0,40}}\b(?:destroy|dealloc|deregister|dereg_mr|disconnect|unmap|unregister"
        r"|finaliz\w*|tear(?:ing)? ?down|clean(?:ing)? ?up)",
        only_teardown=3,
        object_in_use=2,
    ),
    row(
        r"(?:data|payload|message|content)s? (?:mismatch|corrupt\w*|verification|validation)"
        r"|checksum|digest error|\bcrc (?:error|mismatch)|data corruption",
        payload_mismatch=4,
    ),
    row(
        r"truncat\w+|buffer (?:is |was )?too small|larger than (?:the )?(?:receive|posted)",
        peer_buffer_small=3,
    ),
    # --- GPUs --------------------------------------------------------------------------------
    row(r"\bgdrdrv\b|\bgdrcopy\b|\bgdr_(?:open|pin|map)|\bgdrapi\b", gdrdrv_missing=4),
    row(
        r"\bcuda (?:failure|error)|\bhip error|\bnvswitch|fabric ?manager|\bxid\b"
        r"|system not yet initiali[sz]ed",
        gpu_not_usable=3,
        imex_not_ready=1,
    ),
    row(r"\bbar1\b|\bbar ?1? .{0,20}(?:exhaust|full|space|too small)", gpu_bar_exhausted=4),
    row(r"\bimex\b|\bmnnvl\b|fabric (?:manager|handle)|\bnvlink domain", imex_not_ready=4),
    row(
        r"\binvalid (?:device )?context\b|\bcontext is destroyed\b|\bno current context\b",
        gpu_not_usable=4,
    ),
    row(
        r"\bcuinit\b|no (?:cuda|gpu|hip)\b.{0,20}(?:device|found|available|capable)"
        r"|cuda driver version|\bxid\b|gpu .{0,20}(?:fallen|lost|not found)|\bnvml\b"
        r"|(?:cuda|hip|rocm)\b.{0,40}(?:not initiali[sz]ed|invalid device|no device)",
        gpu_not_usable=3,
    ),
    row(
        r"peermappingoverride|nvreg_\w+|\bibgda\b.{0,80}(?:\buar\b|doorbell|\bbar\b|map)"
        r"|host(?:_)?register.{0,40}io_?memory",
        gpu_peer_mapping_off=4,
    ),
    # --- the device and its firmware ---------------------------------------------------------
    row(
        r"\b(?:device|hca|nic|adapter|interface) ['\"]?[a-z]+[\w-]*\d\w*['\"]? (?:was |is )?"
        r"(?:not found|missing|does not exist)",
        device_absent=3,
    ),
    row(
        r"(?:firmware|\bfw\b).{0,40}(?:too old|out ?dated|upgrade|update|unsupported|requir"
        r"|not support|mismatch)|direct firmware load|\bddp\b.{0,30}(?:package|fail)"
        r"|request_firmware",
        firmware_old=4,
    ),
    row(r"\bmst(?:flint|config)?\b|/dev/mst", mst_not_started=4),
    row(r"temperature|thermal|overheat\w*|too hot", too_hot=4),
    row(r"slot power|slot .{0,20}insufficient power", slot_power=4),
    row(
        r"(?:rdma|roce)\b.{0,30}(?:disabled|not enabled|switched off|turned off)"
        r"|enable_(?:rdma|roce)\b",
        rdma_off_on_device=3,
        rdma_disabled=1,
    ),
    row(r"\blink_?type\b|\bport_?type\b|port type", port_type_other=4),
    row(r"flow steering|\bdmfs\b|log_num_mgm\w*|steering (?:mode|rule)", flow_steering_off=3),
    row(r"\brenam(?:e|ed|ing)\b|persistent nam\w+", device_renamed=3),
    row(r"\bguid\b.{0,20}(?:zero|is 0|0000:0000:0000:0000|0x0{8,})", guid_zero=4),
    row(r"duplicat\w+ .{0,20}(?:guid|gid)\b", duplicate_guid=4),
    row(r"\biwarp\b", iwarp_needs_rdma_cm=2),
    row(
        r"\bport\b.{0,24}(?:out of range|does not exist|is not valid)|invalid port\b",
        no_such_port=3,
    ),
    # --- the fabric --------------------------------------------------------------------------
    row(r"\bcables?\b|transceiver|\bq?sfp\w*|module (?:event|un)?plug|\boptic", cable_or_module=4),
    row(r"\bpfc\b|pause (?:frame|storm)|flow control", pause_storm=3, traffic_not_lossless=2),
    row(r"\bdscp\b|traffic class|\blossless\b|\bprio\d_discards", traffic_not_lossless=3),
    row(r"neighbou?r table overflow|\bgc_thresh\d", neighbour_table_full=5),
    row(r"full member(?:ship)?\b|limited member", partition_limited=4),
    row(r"duplicate (?:ip|address)|address conflict|conflict\w* address", address_twice=4),
    row(
        r"\bflap\w*|symbol errors?|bit error|\bber\b|\bfec\b|crc errors?|link degrad\w*",
        link_flaps=4,
    ),
    row(r"\bport[_ ]err(?:or)?\b|ibv_event_port_err", port_went_down=2, link_flaps=1),
    row(
        r"\b(?:lid|sm|pkey)[_ ]change|client_?reregister|\breregist\w+",
        fabric_changed=4,
    ),
    row(r"\bgid[_ ](?:change|removed|deleted)|gid table (?:change|update)", gid_changed=4),
    row(r"\bmulticast|\bmcast\b|\bmcg\b|(?:join|leave)\w* .{0,20}\bgroup", multicast_refused=4),
    row(r"\bmads?\b|\bsmps?\b|perfquery|\bm_?key\b|\bsa query", mad_unanswered=3),
    row(r"\bumad\w*|\bib_umad\b", umad_missing=3),
    row(
        r"link.?layers?\b.{0,40}(?:differ|mismatch|not match|!=)",
        link_layers_differ=4,
    ),
    row(
        r"(?:different|another|other|not (?:in|on) the same) (?:ip )?(?:sub)?net(?:work)?s?\b"
        r"|subnet mismatch|different rails?",
        subnets_differ=4,
    ),
    row(r"roce ?v1\b|gid type", gid_types_differ=2),
    row(
        r"\bgrh\b|gid[_ ]?index.{0,30}(?:not (?:set|given|specified)|required|must)", no_gid_given=4
    ),
    row(r"\b4791\b", roce_udp_port_taken=2, roce_port_dropped=2),
    row(r"ipv6.only|no ipv4 (?:address|gid)|without (?:an )?ipv4", ipv6_only=3, no_ipv4_gid=1),
    row(
        r"port (?:\d+ )?(?:is )?(?:already )?(?:in use|taken|occupied)|address already in use"
        r"|\beaddrinuse\b",
        tcp_port_taken=3,
    ),
    row(
        r"error (?:from|on|at) (?:the )?(?:remote|peer)|(?:remote|peer)\b.{0,30}(?:reported"
        r"|returned|sent) .{0,20}error",
        failed_at_peer=3,
    ),
    row(
        r"\b(?:slow|low|poor|degraded) (?:bandwidth|performance|throughput|speed)"
        r"|performance (?:may|will|can) be",
        slow_path=3,
    ),
    row(r"event_unreachable|unreachable event|\bcm\b.{0,30}tim(?:ed|e) ?out", cm_datagrams_lost=3),
)
