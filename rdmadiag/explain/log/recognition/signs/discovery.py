"""How a program finds its device, port and GID, and why it finds none."""

from typing import Final

from rdmadiag.explain.log.kind import Kind
from rdmadiag.explain.log.recognition.signs.sign import OF_RDMA, Errno, sign
from rdmadiag.explain.remedies import (
    ADDRESSES,
    AT_PEER,
    DEVICES,
    GIDS,
    LIBRARIES,
    ONLY_TCP,
    UCX_DEVICES,
)
from rdmadiag.facts.attempt import Stage

SIGNS: Final = (
    sign(
        "guid-zero",
        Kind.FAILURE,
        Stage.OPEN,
        r"^\s*mlx[45]_\w+\s+0{16}$",
        ("guid-zero", "no-subnet-manager", "port-down"),
    ),
    sign(
        "gid-row-empty",
        Kind.FAILURE,
        Stage.RTR,
        r"\bgid is (?:all )?zeros?\b",
        ("gid-row-empty", "gid-index-or-family", "netdev-in-other-netns"),
        platform="linux",
        names_row=True,
    ),
    sign(
        "gid-query-failed",
        Kind.FAILURE,
        Stage.RTR,
        r"ibv?_query_gid\w*.{0,40}(?:fail|error)|"
        r"(?:query|get|find|read|select|choose|pick)\w*.{0,24}\bgids?\b.{0,80}(?:no data"
        r"|not found|fail|invalid|error)"
        r"|(?:fail\w* to|could ?n[o']t|can't|cannot|unable to) (?:query|get|find|read"
        r"|select).{0,24}\bs?gids?\b|\bgid.{0,30}(?:not found|is (?:empty|zero|null|invalid))"
        r"|no (?:suitable|valid|usable|matching|available)?.{0,16}\bgids?\b|invalid gid\["
        r"|\bgid \d+ not available",
        ("no-usable-gid", "netdev-in-other-netns", "ipv6-only"),
        platform="linux",
        errno=Errno.FIRST,
        names_row=True,
    ),
    sign(
        "interface-open-failed",
        Kind.FAILURE,
        Stage.OPEN,
        r"uct_iface_open(?!\(tcp).{0,60}(?:fail|error)",
        ("no-usable-gid", "netdev-in-other-netns", "port-down"),
        (GIDS, DEVICES, ADDRESSES),
    ),
    sign(
        "side-channel",
        Kind.FAILURE,
        Stage.CONNECT,
        r"init the socket connection|couldn't connect to [^ ]{1,200}:\d{2,5}",
        ("peer-not-listening", "firewall"),
        (f"{ONLY_TCP}: perftest's port is 18515", AT_PEER),
    ),
    sign(
        "named-device-absent",
        Kind.FAILURE,
        Stage.OPEN,
        r"network device.{0,40}is not available",
        ("device-absent", "transport-unusable", "no-rdma-device"),
        (*UCX_DEVICES, DEVICES),
        only=r"\bUCX\b",
    ),
    sign(
        "no-device",
        Kind.FAILURE,
        Stage.OPEN,
        r"find the infiniband/roce device|did not detect devices",
        ("no-rdma-device", "container-without-device", "uverbs-node-missing", "provider-missing"),
    ),
    sign(
        "named-device-absent",
        Kind.FAILURE,
        Stage.OPEN,
        r"no match\w* (?:\w+ )?(?:devices?|HCAs?|NICs?)|(?<!Directory )\bnonexistent\b"
        # but an assignment that a shell takes for a command
        r"|\b(?:device|HCA|port|NIC|adapter)s?\b(?!=[^ ]{0,80}: (?:command )?not found)"
        r".{0,50}(?:not found|is not available"
        r"|does not exist|not exist|no match)"
        r"|(?:unable to|could ?n[o']t|cannot|can't|fail\w* to|did not) (?:find|locate"
        r"|get).{0,40}(?:device|HCA|NIC)"
        r"|(?:device|HCA) list.{0,20}(?:empty|no match)",
        ("device-absent", "no-rdma-device", "uverbs-node-missing"),
        only=OF_RDMA + r"|ucx",
    ),
    sign(
        "no-device",
        Kind.FAILURE,
        Stage.OPEN,
        r"\bno (?!such|space)(?:\w+[ /]){0,3}?(?:devices?|HCAs?|NICs?|RNICs?|adapters?)\b(?! ?-)"
        r"|\b(?:0|zero) (?:IB|RDMA|InfiniBand)\w* devices|did not (?:find"
        r"|detect) (?:any )?(?:\w+ )?devices?",
        ("no-rdma-device", "container-without-device", "provider-missing", "uverbs-node-missing"),
        (DEVICES, *LIBRARIES),
        only=OF_RDMA,
    ),
    sign(
        "port-not-initialized",
        Kind.FAILURE,
        Stage.OPEN,
        r"(?:port|link).{0,60}\b(?:state(?: is|:) ?(?:2: ?)?INIT\b|Initializing(?! port)|PORT_INIT)"
        r"|^\s*state:\s+port_init\b|no subnet manager|SM lid 0\b(?!\?)"
        r"|sm_lid:? 0\b(?!.*(?:state down|link_layer: ethernet))",
        ("no-subnet-manager",),
        only=OF_RDMA + "|port",
    ),
    sign(
        "port-not-active",
        Kind.FAILURE,
        Stage.OPEN,
        r"\bport\b.{0,50}(?:not (?:in )?(?:an? |the )?active|(?:is|state is|state:?) \(?(?:down"
        r"|inactive|PORT_DOWN|polling))"
        r"|no (?:\w+ )?active (?:\w+ )?ports?|PORT_DOWN",
        ("port-down", "link-lost"),
        only=OF_RDMA + r"|port number|open mpi",
    ),
    sign(
        "mtu-lowered",  # perftest takes the smaller one and goes on
        Kind.NOTE,
        Stage.RTR,
        r"^\s*requested mtu is higher than active mtu",
        ("mtu-above-port",),
    ),
    sign(
        "mtu-too-large",
        Kind.FAILURE,
        Stage.RTR,
        r"\bmtu\b.{0,40}(?:higher|larger|greater|bigger|exceeds?|more) than",
        ("mtu-above-port",),
        only=OF_RDMA + r"|active",
    ),
    sign(
        "pkey",
        Kind.FAILURE,
        Stage.INIT,
        r"\bp_?key\b.{0,50}(?:not found|invalid|fail|not in|no such|error)"
        r"|(?:unable to|could ?n[o']t|cannot|fail\w* to) (?:find|get|query).{0,30}\bp_?key\b",
        ("pkey-index",),
        ("grep -rv 0x0000 /sys/class/infiniband/*/ports/*/pkeys",),
    ),
    sign(
        "no-provider",
        Kind.FAILURE,
        Stage.OPEN,
        r"fi_getinfo.{0,60}(?:-61|no data|fail|error)",
        ("no-provider", "no-rdma-device", "no-rdma-at-address"),
    ),
)

NOTES: Final = (
    sign(
        "gdr-off",
        Kind.NOTE,
        None,
        r"GPU ?Direct RDMA (?:is )?(?:Disabled|not)|neither nv_peer_mem|nvidia_peermem.{0,40}not"
        r"|GDR.{0,20}(?:disabled|not supported)|(?:could ?n[o']t|unable to) enable GPU ?Direct",
        ("gdr-off",),
    ),
    sign(
        "openib-not-used",
        Kind.NOTE,
        Stage.OPEN,
        r"not used by default\.  the intent is to use ucx|ib port not selected",
        ("openib-not-used",),
    ),
)
