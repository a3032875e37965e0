"""Failures that are neither an errno nor a status: events, discovery, drivers, firmware.

A sign is recognised by a few words in one line, never by a whole sentence. The first that
fits speaks; what it means, and what to do, stands beside it.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from rdmadiag.explain.cause import Cause
from rdmadiag.explain.causes import causes
from rdmadiag.explain.log.fields import CONNECT
from rdmadiag.facts.pingpong import Stage


class Kind(StrEnum):
    """What a line is in the story of the job."""

    FAILURE = "failure"
    CONSEQUENCE = "consequence"  # of RDMA, and of an earlier failure
    AFTERMATH = "aftermath"  # of whatever failed: a watchdog, an abort
    NOTE = "note"  # no failure by itself
    UNKNOWN = "unknown"  # of RDMA and of trouble, and not understood


Lines = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sign:
    """One row."""

    word: str  # what happened, as a stable label
    kind: Kind
    stage: Stage | None
    pattern: "re.Pattern[str]"
    causes: tuple[Cause, ...]  # the likeliest first
    next: Lines = ()  # templates, as in explain.attempt
    platform: str | None = None  # only there
    only: "re.Pattern[str] | None" = None  # something else that the line must have


def sign_of(text: str, platform: str) -> Sign | None:
    """The first row that fits the line."""
    text = text.lower()
    for row in SIGNS:
        if row.platform not in (None, platform):
            continue
        if row.pattern.search(text) and (row.only is None or row.only.search(text)):
            return row
    return None


# --- causes ------------------------------------------------------------------------------

LINK_LOST: Final = Cause("link-lost", "the link went down: cable, transceiver, switch port or peer")
_FIRMWARE: Final = Cause("firmware-failed", "the device's firmware failed")
_PEER_FIRST: Final = Cause(
    "peer-gone", "the peer's process ended or failed first: look at what it printed"
)
_NO_DEVICE: Final = Cause("no-rdma-device", "this host, or this container, has no RDMA device")
_NO_GID: Final = Cause(
    "no-usable-gid",
    "the interface has no address here, so that the GID table has nothing to send from",
)
_OTHER_NETNS: Final = Cause(
    "netdev-in-other-netns", "the interface of the GID is not in this network namespace"
)
_IPV6_ONLY: Final = Cause(
    "ipv6-only", "the host has IPv6 addresses alone, and the program takes IPv4 GIDs alone"
)
_GDR_OFF: Final = Cause(
    "gdr-off", "GPU memory is not registered with the NIC: nvidia_peermem or dmabuf is missing"
)
_UNUSABLE: Final = Cause(
    "transport-unusable", "UCX_TLS and UCX_NET_DEVICES leave no usable transport or device"
)
_NOT_GIVEN: Final = Cause("container-without-device", "the container was not given /dev/infiniband")
_NOT_USABLE: Final = (
    Cause(
        "uverbs-node-missing",
        "the device has no node in /dev/infiniband, or the container was not given it",
    ),
    Cause(
        "provider-missing",
        "no provider library for the device, or one of another ABI than the driver's",
    ),
)
_ABSENT: Final = Cause(
    "device-absent", "no usable device has the name that was asked for: renamed, or of another host"
)
_NOT_ACTIVE: Final = Cause("port-down", "the port is not ACTIVE: no link, or no subnet manager")
_MEMLOCK: Final = Cause("memlock", "the limit on locked memory (ulimit -l) is too low")
_NO_SM: Final = Cause("no-subnet-manager", "no subnet manager has configured the InfiniBand port")
_NO_ROUTE: Final = Cause("no-route", "there is no route to the peer from this host's address")
_UNREACHABLE: Final = Cause(
    "peer-unreachable",
    "the peer's address does not answer on the link: other subnet, VLAN, rail or port",
)
_NO_RDMA_ADDRESS: Final = Cause(
    "no-rdma-at-address", "no RDMA device has the address that is used towards the peer"
)
_NOT_LISTENING: Final = Cause(
    "peer-not-listening", "nobody listens there: not started yet, ended, or another port"
)
_NO_PATH: Final = Cause(
    "no-path", "no path between the ends: other subnet, VLAN or rail, or a switch that drops it"
)
_FIREWALL: Final = Cause("firewall", "perhaps a firewall drops the connection")
_WEDGED: Final = Cause(
    "driver-wedged", "perhaps the driver is wedged: only a replug or a reboot has helped"
)

CONNECTING: Final[dict[tuple[str, int], tuple[Cause, ...]]] = {
    ("linux", 19): (_NO_RDMA_ADDRESS, _NO_DEVICE),
    ("linux", 99): (_NO_RDMA_ADDRESS,),
    ("linux", 101): (_NO_ROUTE,),
    ("linux", 104): (_PEER_FIRST,),
    ("linux", 110): (_UNREACHABLE, _FIREWALL),
    ("linux", 111): (_NOT_LISTENING,),
    ("linux", 113): (_NO_ROUTE, _UNREACHABLE),
    # dryvist/nix-ai; exo-explore/exo#1035
    ("darwin", 49): (Cause("address-absent", "this Mac does not have that address"),),
    ("darwin", 60): (
        Cause("peer-not-there", "the peer is not up yet, or its address is another one"),
        Cause("shared-subnet", "no route to the peer by that interface: cables share a subnet"),
    ),
    ("darwin", 61): (_NOT_LISTENING,),
    ("darwin", 65): (
        Cause(
            "local-network-privacy",
            "macOS keeps this program from the local network: Privacy & Security",
        ),
        _NO_ROUTE,
    ),
}
"""(platform, errno) of rdma_cm and of TCP between the ends: no call on the device yet."""

# --- what to look at ---------------------------------------------------------------------

_DMESG: Final = "sudo dmesg -T | grep -iE 'mlx|infiniband|rdma|bnxt|irdma' | tail -50"
_PREFLIGHT: Final = "rdmadiag preflight{on}"
_DEVICES: Final = "rdmadiag devices{on}"
_GIDS: Final = "rdmadiag gids{on}"
_AT_PEER: Final = "# at the peer: look at what it printed, and at its kernel log"
_LINK: Final = (
    "rdma link show",
    _DMESG,
    "ethtool -S INTERFACE | grep -E 'link_down|discard|symbol'   # does it flap?",
    "# reseat or replace cable and transceiver; look at the switch port's log",
)
_IN_CONTAINER: Final = (
    "# in a container: docker run --device=/dev/infiniband --cap-add=IPC_LOCK IMAGE"
)
_LIBRARIES: Final = (
    "ibv_devices   # what it writes on stderr names the reason",
    "dpkg -l libibverbs1 ibverbs-providers || rpm -q libibverbs   # as new as the host's driver?",
    _IN_CONTAINER,
)
_LIMIT: Final = (
    "ulimit -l",
    "grep 'locked memory' /proc/$(pgrep -o 'slurmd|kubelet|dockerd')/limits   # the launcher's",
    "# raise it for a service (slurmd, kubelet, sshd): LimitMEMLOCK=infinity in its unit",
    "# in a container: docker run --ulimit memlock=-1 --cap-add=IPC_LOCK IMAGE",
)
_PEERMEM: Final = (
    "sudo modprobe nvidia_peermem",
    "ls /sys/kernel/mm/memory_peers /sys/module/nvidia_peermem",
)
_SIDE_CHANNEL: Final = (
    "# this is TCP between the ends, not RDMA yet",
    _AT_PEER,
    "# No route to host? Settings > Privacy & Security > Local Network: allow the terminal",
)


def _row(
    word: str,
    kind: Kind,
    stage: Stage | None,
    pattern: str,
    found: tuple[Cause, ...] = (),
    lines: Lines = (),
    *,
    platform: str | None = None,
    only: str | None = None,
) -> Sign:
    return Sign(
        word,
        kind,
        stage,
        _lowercase(pattern),
        found,
        lines,
        platform,
        _lowercase(only) if only else None,
    )


def _lowercase(pattern: str) -> "re.Pattern[str]":
    """Of lowercase text: several times as fast as a pattern that ignores case."""
    if re.search(r"\\[A-Z]", pattern):
        raise ValueError(f"{pattern!r} would mean something else in lowercase")
    return re.compile(pattern.lower())


_FAILS: Final = (
    r"fail|error|unable|could ?n[o']t|cannot|can't|not found|no such|invalid|no available|missing"
)
_OF_RDMA: Final = (
    r"\bIB\b|ibv|verbs|rdma|infiniband|\bHCA|RoCE|RNIC|NET/IB|openfabrics|mlx[45]|uverbs"
)
_DRIVER: Final = r"mlx[45]|bnxt|irdma|\bice\b|ionic|qedr|qede|hns3|infiniband|\bib\d|rdma"

SIGNS: Final = (
    # --- events of the device ------------------------------------------------------------
    _row(
        "port-error",
        Kind.FAILURE,
        Stage.DATA,
        r"IBV_EVENT_PORT_ERR|\bport error\b",
        (LINK_LOST,),
        _LINK,
        only=r"event|NET/IB|ibv|rdma|ucx|hca|mlx",
    ),
    _row(
        "device-fatal",
        Kind.FAILURE,
        Stage.DATA,
        r"IBV_EVENT_DEVICE_FATAL|local catastrophic error|device fatal",
        (_FIRMWARE, Cause("device-removed", "the device or its driver was removed")),
        (_DMESG, _DEVICES),
        only=r"event|NET/IB|ibv|rdma|ucx|hca|mlx",
    ),
    _row(
        "gid-table-change",
        Kind.FAILURE,
        Stage.DATA,
        r"IBV_EVENT_GID_CHANGE|GID table change",
        (
            Cause("gid-changed", "an address came or went: GIDs moved to other rows of the table"),
            LINK_LOST,
        ),
        (_GIDS, "ip -brief address", "# static addresses; and no pinned GID index"),
    ),
    _row(
        "queue-pair-event",
        Kind.FAILURE,
        Stage.DATA,
        r"IBV_EVENT_QP_(?:FATAL|REQ_ERR|ACCESS_ERR)|local access violation|local work queue"
        r"|invalid request local work queue",
        (
            Cause("remote-key-wrong", "a remote key, an address or access flags are wrong"),
            Cause("acs-or-iommu", "ACS or the IOMMU redirects peer-to-peer traffic"),
        ),
        (_AT_PEER, _DMESG),
    ),
    _row(
        "cq-event",
        Kind.FAILURE,
        Stage.DATA,
        r"IBV_EVENT_(?:CQ|SRQ)_ERR|\bS?R?CQ (?:catastrophic )?error\b",
        (Cause("cq-overrun", "more completions came than the queue holds"),),
        (_DMESG,),
        only=r"event",
    ),
    _row(
        "fabric-event",
        Kind.NOTE,
        Stage.DATA,
        r"IBV_EVENT_(?:LID|PKEY|SM)_CHANGE|IBV_EVENT_CLIENT_REREGISTER|\b(?:LID|SM|P_Key) change\b",
        (Cause("fabric-changed", "the subnet manager configured the fabric anew"),),
    ),
    # --- before the rest: it names what every transport said ---------------------------
    _row(
        "transport-not-usable",
        Kind.FAILURE,
        Stage.OPEN,
        r"no (?:\w+ ){0,5}?(?:transports?|resources) (?:to|are|available|for)"
        r"|transports?.{0,40}not available"
        r"|no usable transports",
        (
            _UNUSABLE,
            _NO_PATH,
            _NO_GID,
            _NO_DEVICE,
        ),
        ("env | grep ^UCX_", "ucx_info -d | grep -E 'Transport|Device'", _GIDS),
        only=r"\bUCX\b",
    ),
    # --- rdma_cm -------------------------------------------------------------------------
    _row(
        "address-error",
        Kind.FAILURE,
        CONNECT,
        r"RDMA_CM_EVENT_ADDR_ERROR|\baddr[_ ]error\b",
        (_NO_RDMA_ADDRESS, _UNREACHABLE),
        ("ip route get PEER", _GIDS, "rdma link show"),
    ),
    _row(
        "route-error",
        Kind.FAILURE,
        CONNECT,
        r"RDMA_CM_EVENT_ROUTE_ERROR",
        # RoCE resolves no route: on InfiniBand the subnet manager knew of none, or was silent.
        (_NO_PATH, _NO_SM, _NO_ROUTE),
        ("ip route get PEER", _GIDS, "sudo sminfo"),
    ),
    _row(
        "unreachable",
        Kind.FAILURE,
        CONNECT,
        r"RDMA_CM_EVENT_UNREACHABLE|rdma\w*\b.{0,60}\bunreachable",
        (_UNREACHABLE, _NO_PATH, _NOT_LISTENING),
        ("ip route get PEER", "ip neigh", _AT_PEER),
    ),
    _row(
        "rejected",
        Kind.FAILURE,
        CONNECT,
        r"RDMA_CM_EVENT_(?:REJECTED|CONNECT_ERROR)|\bconnect rejected: status"
        r"|\brejected: (?:no listener|invalid service)",
        (_NOT_LISTENING, _PEER_FIRST),
        (_AT_PEER,),
    ),
    _row(
        "device-removal",
        Kind.FAILURE,
        CONNECT,
        r"RDMA_CM_EVENT_DEVICE_REMOVAL|cma detected device removal",
        (Cause("device-removed", "the device or its driver was removed"),),
        (_DMESG, _DEVICES),
    ),
    _row(
        "disconnected",
        Kind.CONSEQUENCE,
        CONNECT,
        r"RDMA_CM_EVENT_(?:DISCONNECTED|ADDR_CHANGE)",
        (_PEER_FIRST,),
        (_AT_PEER,),
    ),
    # --- Macs ----------------------------------------------------------------------------
    _row(
        "no-ipv4-gid",
        Kind.FAILURE,
        Stage.RTR,
        r"No IPv4[- ]?(?:mapped )?GID",
        causes(22, Stage.RTR, "darwin"),
        (
            _GIDS,
            "ifconfig {netdev} | grep 'inet '",
            "sudo ifconfig {netdev} inet 169.254.11.1 netmask 255.255.0.0 alias   # .2 at the peer",
        ),
        platform="darwin",
    ),
    _row(
        "rdma-disabled",
        Kind.FAILURE,
        Stage.OPEN,
        r"find device.{0,40}\(0 available\)",
        causes(0, Stage.OPEN, "darwin"),
        ("rdma_ctl status", _PREFLIGHT),
        platform="darwin",
    ),
    _row(
        "thunderbolt-4",
        Kind.FAILURE,
        Stage.OPEN,
        r"does(?: not|n't) support Thunderbolt 5",
        (Cause("thunderbolt-4", "the hardware is Thunderbolt 4, which has no RDMA"),),
        ("system_profiler SPThunderboltDataType | grep Speed   # 40 Gb/s: Thunderbolt 4",),
    ),
    _row(
        "provider-crash",
        Kind.FAILURE,
        Stage.DATA,
        r"tbt_post_(?:recv|send)",
        (
            Cause("link-lost", "the link dropped while the provider used it"),
            Cause("provider-fault", "the provider has crashed so with the link up, too"),
        ),
        (
            "ls -t ~/Library/Logs/DiagnosticReports | head -3   # the newest names the call",
            _PREFLIGHT,
        ),
        only=r"SIGSEGV|segmentation|signal 11|crash|EXC_BAD",
    ),
    _row(
        "provider-crash",
        Kind.FAILURE,
        Stage.REG_MR,
        r"ibv_reg_mr",
        (
            Cause("thunderbolt-4", "the hardware is Thunderbolt 4, which has no RDMA"),
            Cause("pd-exhausted", "protection domains are exhausted: the program went on without"),
        ),
        (
            "system_profiler SPThunderboltDataType | grep Speed   # 40 Gb/s: Thunderbolt 4",
            "rdma_ctl status",
        ),
        platform="darwin",
        only=r"SIGSEGV|segmentation|signal 11|crash|EXC_BAD",
    ),
    _row(
        "rdma-disabled",
        Kind.FAILURE,
        Stage.OPEN,
        r"RDMA (?:is )?(?:not enabled|disabled|switched off|not available)|rdma_ctl.*disabled",
        causes(0, Stage.OPEN, "darwin"),
        ("rdma_ctl status", _PREFLIGHT),
        platform="darwin",
    ),
    _row(
        "side-channel",
        Kind.FAILURE,
        CONNECT,
        r"\[jaccl\].{0,40}\b(?:connect|bind|listen|accept)\b.{0,30}(?:error|errno|fail)"
        r"|\[jaccl\].{0,20}(?:could ?n[o']t|fail\w* to) (?:connect|bind|listen|accept)\b",
        (_PEER_FIRST,),
        _SIDE_CHANNEL,
        platform="darwin",
    ),
    _row(
        "side-channel-broken",
        Kind.FAILURE,
        CONNECT,
        r"\[jaccl\].{0,30}\b(?:Recv|Send|Receiv\w+|Sending)\b.{0,20}(?:fail|error)",
        (_PEER_FIRST, _WEDGED),
        (*_SIDE_CHANNEL[:2], _PREFLIGHT),
        platform="darwin",
    ),
    # --- libraries and drivers -----------------------------------------------------------
    _row(
        "abi-mismatch",
        Kind.FAILURE,
        Stage.OPEN,
        r"does(?:n't| not) support the kernel ABI|kernel ABI.{0,30}does(?:n't| not) match",
        (
            Cause(
                "abi-mismatch",
                "the provider library and the host's driver are of different releases",
            ),
            Cause(
                "provider-missing",
                "no provider library for the device, or one of another ABI than the driver's",
            ),
        ),
        _LIBRARIES,
    ),
    _row(
        "uverbs-not-loaded",
        Kind.FAILURE,
        Stage.OPEN,
        r"couldn't read uverbs abi version",
        causes(38, Stage.OPEN, "linux"),
        ("sudo modprobe ib_uverbs", _DEVICES),
    ),
    _row(
        "no-nodes",
        Kind.FAILURE,
        Stage.OPEN,
        r"/dev/infiniband/?['\"]?[ :]+(?:no such file|does ?n[o']t exist|not found)",
        (
            _NOT_GIVEN,
            Cause("ib-uverbs-not-loaded", "the module ib_uverbs is not loaded"),
            _NO_DEVICE,
        ),
        (_IN_CONTAINER, "sudo modprobe ib_uverbs", _DEVICES),
    ),
    _row(
        "no-node",
        Kind.FAILURE,
        Stage.OPEN,
        r"/dev/infiniband/uverbs\d+['\"]?[ :]+(?:no such file|does ?n[o']t exist|not found)",
        (
            Cause("uverbs-node-missing", "the device has no node in /dev/infiniband"),
            _NOT_GIVEN,
        ),
        (_IN_CONTAINER, _DEVICES),
    ),
    _row(
        "selinux",
        Kind.FAILURE,
        Stage.INIT,
        r"avc:\s+denied.{0,200}\binfiniband_(?:pkey|endport)",
        (Cause("selinux", "SELinux keeps this process from the partition key"),),
        ("sudo ausearch -m avc -ts recent", "sudo semanage ibpkey -l"),
    ),
    _row(
        "cq-too-large",
        Kind.FAILURE,
        Stage.CREATE_CQ,
        r"exceed\w*.{0,30}\bmax_cqe|\bmax_cqe\b.{0,30}exceed",
        (Cause("cq-too-large", "more entries than the device allows (max_cqe)"),),
        ("ibv_devinfo -v | grep max_cqe",),
    ),
    _row(
        "provider-missing",
        Kind.FAILURE,
        Stage.OPEN,
        r"no userspace device-specific driver|(?:load|open)\w* (?:the )?(?:driver"
        r"|provider).{0,60}(?:rdmav\d+|lib\w+)"
        r"|lib(?:mlx|bnxt|irdma|efa|hns|qedr|ionic)\w*-?rdmav\d+\.so",
        (
            Cause(
                "provider-missing",
                "no provider library for the device, or one of another ABI than the driver's",
            ),
        ),
        _LIBRARIES,
        only=_FAILS + "|no userspace",
    ),
    _row(
        "verbs-library-missing",
        Kind.FAILURE,
        Stage.OPEN,
        r"lib(?:ibverbs|rdmacm|mlx5|rdma)(?:-\w+)?\.(?:so|dylib)",
        (Cause("verbs-library-missing", "libibverbs is not where the dynamic linker looks"),),
        _LIBRARIES,
        only=_FAILS,
    ),
    _row(
        "memlock-limit",
        Kind.FAILURE,
        Stage.REG_MR,
        r"RLIMIT_MEMLOCK|locked memory limit|(?:memlock|locked memory).{0,60}(?:too low|severely"
        r"|unlimited|insufficient|limits? (?:is|are)\b)",
        (_MEMLOCK,),
        _LIMIT,
    ),
    _row(
        "wrong-netns-mode",
        Kind.FAILURE,
        Stage.OPEN,
        r"(?:incorrect|wrong|invalid) RDMA subsystem network namespace|netns mode.{0,20}exclusive",
        (
            Cause(
                "device-in-other-netns",
                "the device belongs to another network namespace (netns mode exclusive)",
            ),
        ),
        (
            "rdma system show",
            "sudo rdma system set netns shared   # with no other network namespace",
        ),
    ),
    # --- firmware and kernel -------------------------------------------------------------
    _row(
        "access-register",
        Kind.NOTE,
        None,
        r"ACCESS_REG\w*\(0x",
        (
            Cause(
                "register-refused",
                "a register of the firmware was refused: usual on restricted functions",
            ),
        ),
    ),
    _row(
        "slot-power",
        Kind.NOTE,
        None,
        r"insufficient power on the PCIe slot",
        (Cause("slot-power", "the PCIe slot advertises less power than the NIC may want"),),
    ),
    _row(
        "firmware-silent",
        Kind.FAILURE,
        None,
        r"(?:timeout|timed out).{0,20}(?:will cause a )?leak of a command resource|cmd(?:_work"
        r"|_exec)?\w*.{0,40}timeout|\bfw stall",
        (Cause("firmware-silent", "perhaps the device's firmware does not answer"),),
        (_DMESG,),
        only=r"mlx5|bnxt|irdma|ionic",
    ),
    _row(
        "firmware-failed",
        Kind.FAILURE,
        None,
        r"health (?:compromised|issue)|device'?s? health|fw_fatal|assert_var\[0\]|irisc"
        r"|firmware (?:is )?(?:in )?(?:fatal|internal|failed|error|reset)|fw.{0,12}fatal"
        r"|internal error"
        r"|hardware error|catastrophic",
        (
            _FIRMWARE,
            Cause("device-resetting", "the device is being started, stopped or reset (mlx5)"),
        ),
        (_DMESG, _DEVICES, "# update the firmware; if it returns, replace the NIC"),
        only=r"mlx[45]_core|mlx5_|bnxt_en|irdma|ionic|\bice\b",
    ),
    _row(
        "pcie-error",
        Kind.FAILURE,
        None,
        r"\bAER\b|PCIe Bus Error|pci_err|Slot has been reset",
        (Cause("pcie-error", "the PCIe link of the NIC has errors"),),
        (_DMESG, "sudo lspci -vvv | grep -E 'LnkSta|UESta'"),
        only=_DRIVER,
    ),
    _row(
        "link-down",
        Kind.FAILURE,
        None,
        r"link (?:is |status )?down|cable (?:is )?unplugged|lost carrier|link.{0,12}not ready"
        r"|NIC Link is Down"
        r"|module.{0,20}unplugged",
        (LINK_LOST,),
        _LINK,
        only=_DRIVER,
    ),
    # --- discovery -----------------------------------------------------------------------
    _row(
        "gid-query-failed",
        Kind.FAILURE,
        Stage.RTR,
        r"ibv_query_gid\w*.{0,40}(?:fail|error)|"
        r"(?:query|get|find|read|select|choose|pick)\w*.{0,24}\bgids?\b.{0,80}(?:no data"
        r"|not found|fail|invalid|error)"
        r"|(?:fail\w* to|could ?n[o']t|can't|cannot|unable to) (?:query|get|find|read"
        r"|select).{0,24}\bs?gids?\b|\bgid.{0,30}(?:not found|is (?:empty|zero|null|invalid))"
        r"|no (?:suitable|valid|usable|matching|available)?.{0,16}\bgids?\b|invalid gid\[",
        (_NO_GID, _OTHER_NETNS, _IPV6_ONLY),
        (
            _GIDS,
            "ip -brief address",
            "# a container needs host networking, or an interface of the NIC (SR-IOV, macvlan)",
        ),
        platform="linux",
    ),
    _row(
        "interface-open-failed",
        Kind.FAILURE,
        Stage.OPEN,
        r"uct_iface_open.{0,60}(?:fail|error)",
        (_NO_GID, _OTHER_NETNS, _NOT_ACTIVE),
        (_GIDS, _DEVICES, "ip -brief address"),
    ),
    _row(
        "side-channel",
        Kind.FAILURE,
        CONNECT,
        r"init the socket connection|couldn't connect to [^ ]{1,200}:\d{2,5}",
        (_NOT_LISTENING, _FIREWALL),
        ("# this is TCP between the ends, not RDMA yet: perftest's port is 18515", _AT_PEER),
    ),
    _row(
        "named-device-absent",
        Kind.FAILURE,
        Stage.OPEN,
        r"network device.{0,40}is not available",
        (_ABSENT, _UNUSABLE, _NO_DEVICE),
        ("env | grep ^UCX_", "ucx_info -d | grep -E 'Transport|Device'", _DEVICES),
        only=r"\bUCX\b",
    ),
    _row(
        "no-device",
        Kind.FAILURE,
        Stage.OPEN,
        r"find the infiniband/roce device|did not detect devices",
        (_NO_DEVICE, _NOT_GIVEN, *_NOT_USABLE),
        (_DEVICES, *_LIBRARIES),
    ),
    _row(
        "named-device-absent",
        Kind.FAILURE,
        Stage.OPEN,
        r"no match\w* (?:\w+ )?(?:devices?|HCAs?|NICs?)|\bnonexistent\b|(?:device|HCA|port|NIC"
        r"|adapter)s?\b.{0,50}(?:not found|is not available|does not exist|not exist|no match)"
        r"|(?:unable to|could ?n[o']t|cannot|can't|fail\w* to|did not) (?:find|locate"
        r"|get).{0,40}(?:device|HCA|NIC)"
        r"|(?:device|HCA) list.{0,20}(?:empty|no match)",
        (
            _ABSENT,
            _NO_DEVICE,
            Cause("uverbs-node-missing", "the device has no node in /dev/infiniband"),
        ),
        (
            _DEVICES,
            "env | grep -E 'NCCL_IB_HCA|UCX_NET_DEVICES|MC_|FI_'   # which names are asked for?",
        ),
        only=_OF_RDMA + r"|ucx",
    ),
    _row(
        "no-device",
        Kind.FAILURE,
        Stage.OPEN,
        r"\bno (?!such)(?:\w+[ /]){0,3}?(?:devices?|HCAs?|NICs?|RNICs?|adapters?)\b(?! ?-)"
        r"|\b(?:0|zero) (?:IB|RDMA|InfiniBand)\w* devices|did not (?:find"
        r"|detect) (?:any )?(?:\w+ )?devices?",
        (*_NOT_USABLE, _NO_DEVICE),
        (_DEVICES, *_LIBRARIES),
        only=_OF_RDMA,
    ),
    _row(
        "port-not-initialized",
        Kind.FAILURE,
        Stage.OPEN,
        r"(?:port|link).{0,60}\b(?:state(?: is|:) ?(?:2: ?)?INIT\b|Initializing|PORT_INIT)"
        r"|no subnet manager|SM lid 0\b|sm_lid:? 0\b",
        (_NO_SM,),
        (
            "ibstat",
            "sudo sminfo",
            "sudo systemctl enable --now opensm   # on one host of this fabric, if none does",
        ),
        only=_OF_RDMA + "|port",
    ),
    _row(
        "port-not-active",
        Kind.FAILURE,
        Stage.OPEN,
        r"\bport\b.{0,50}(?:not (?:in )?(?:an? |the )?active|(?:is|state is|state:?) \(?(?:down"
        r"|inactive|PORT_DOWN|polling))"
        r"|no (?:\w+ )?active (?:\w+ )?ports?|PORT_DOWN",
        (_NOT_ACTIVE, LINK_LOST),
        (_DEVICES, "rdma link show", "ibstat"),
        only=_OF_RDMA + r"|port number|open mpi",
    ),
    _row(
        "mtu-too-large",
        Kind.FAILURE,
        Stage.RTR,
        r"\bmtu\b.{0,40}(?:higher|larger|greater|bigger|exceeds?|more) than",
        (Cause("mtu-above-port", "the path MTU is larger than the port's active MTU"),),
        ("ibv_devinfo{on_device} | grep active_mtu", "ip link show"),
        only=_OF_RDMA + r"|active",
    ),
    _row(
        "pkey",
        Kind.FAILURE,
        Stage.INIT,
        r"\bp_?key\b.{0,50}(?:not found|invalid|fail|not in|no such|error)"
        r"|(?:unable to|could ?n[o']t|cannot|fail\w* to) (?:find|get|query).{0,30}\bp_?key\b",
        (Cause("pkey-index", "the port's partition key table has no such index"),),
        ("grep -rv 0x0000 /sys/class/infiniband/*/ports/*/pkeys",),
    ),
    # --- libfabric and UCX ---------------------------------------------------------------
    _row(
        "no-provider",
        Kind.FAILURE,
        Stage.OPEN,
        r"fi_getinfo.{0,60}(?:-61|no data|fail|error)",
        (
            Cause(
                "no-provider",
                "no libfabric provider fits what was asked for: name, device or address",
            ),
            _NO_DEVICE,
        ),
        ("fi_info -l", "fi_info -p verbs", "fi_info -p efa", _DEVICES),
    ),
    _row(
        "peer-gone",
        Kind.FAILURE,
        Stage.DATA,
        r"peer process is no longer present|bad queue pair \(qp\) number",
        (_PEER_FIRST,),
        (_AT_PEER,),
    ),
    _row(
        "efa-unreachable",
        Kind.FAILURE,
        Stage.DATA,
        r"unresponsive (?:receiver|remote|peer)|unreachable remote|reachable by EFA device",
        (
            Cause(
                "security-group", "the EFA security group does not allow all traffic within itself"
            ),
            _PEER_FIRST,
        ),
        (
            "# AWS: the security group must allow all traffic from and to itself",
            _AT_PEER,
            "fi_info -p efa",
        ),
    ),
    # --- what the end of a connection looks like -----------------------------------------
    _row(
        "peer-disconnected",
        Kind.CONSEQUENCE,
        Stage.DATA,
        r"NIXL_ERR_REMOTE_DISCONNECT|reset by remote peer|Endpoint timeout"
        r"|UCS_ERR_(?:CONNECTION_RESET|ENDPOINT_TIMEOUT)",
        (_PEER_FIRST, LINK_LOST),
        (_AT_PEER, _DMESG),
    ),
    _row(
        "gdr-off",
        Kind.FAILURE,
        Stage.REG_MR,
        r"neither nv_peer_mem.{0,60}skipping transport",
        (_GDR_OFF,),
        _PEERMEM,
    ),
    _row(
        "payload-mismatch",
        Kind.FAILURE,
        Stage.DATA,
        r"^(?:[^ ]{1,40} ){0,3}data mismatch!$",
        (Cause("payload-mismatch", "the two ends disagree about the payload"),),
        (_AT_PEER,),
    ),
    # --- notes ---------------------------------------------------------------------------
    _row(
        "gdr-off",
        Kind.NOTE,
        None,
        r"GPU ?Direct RDMA (?:is )?(?:Disabled|not)|neither nv_peer_mem|nvidia_peermem.{0,40}not"
        r"|GDR.{0,20}(?:disabled|not supported)|(?:could ?n[o']t|unable to) enable GPU ?Direct",
        (_GDR_OFF,),
        _PEERMEM,
    ),
    _row(
        "openib-not-used",
        Kind.NOTE,
        Stage.OPEN,
        r"error initializing an OpenFabrics device|no preset parameters|ib port not selected",
        (
            Cause(
                "openib-not-used",
                "Open MPI's openib was left aside; UCX is used instead where it is built in",
            ),
        ),
    ),
)
"""The first that fits speaks."""

AFTERMATH: Final = re.compile(
    r"watchdog caught|ncclRemoteError|ncclSystemError|unhandled system error|remote process exited"
    r"|closed by remote|MPI_ABORT|communicator was aborted|exited on signal|socketProgress"
    r"|NIXL_ERR_|reset by remote peer",
    re.IGNORECASE,
)
"""What follows a failure of any kind."""
