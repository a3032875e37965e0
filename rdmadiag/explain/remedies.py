"""Lines to paste that several remedies share; advice stands behind "#".

They are templates: a place such as {device} is filled in with what is known of a host, an
attempt or a log's line, and a line that needs more than is known is left out. So one list
serves RoCE, InfiniBand and an attempt that ended before it knew its peer.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from rdmadiag.quoting import plain_comment

Lines = tuple[str, ...]


def fill(templates: Iterable[str], facts: Mapping[str, str]) -> Lines:
    """The lines with what is known in them, each once, without those that need more."""
    lines = []
    for template in templates:
        try:
            lines.append(plain_comment(template.format_map(facts)))
        except KeyError:
            continue
    return tuple(dict.fromkeys(lines))


GIDS: Final = "rdmadiag gids{on}"
DEVICES: Final = "rdmadiag devices{on}"
PREFLIGHT: Final = "rdmadiag preflight"
PREFLIGHT_THERE: Final = "rdmadiag preflight   # on the host that wrote it"
PREFLIGHT_ON: Final = "rdmadiag preflight{on}"
ADDRESSES: Final = "ip -brief address"
RDMA_CGROUP: Final = (
    "grep -rs hca_ /sys/fs/cgroup --include=rdma.max | grep -v 'handle=max hca_object=max'"
)
DMESG: Final = "sudo dmesg | tail -50"
DMESG_OF_RDMA: Final = "sudo dmesg -T | grep -iE 'mlx|infiniband|rdma|bnxt|irdma' | tail -50"
MAC_LOG: Final = (
    "sudo log show --last 5m --info --debug --predicate "
    "'subsystem == \"com.apple.AppleThunderboltRDMA\"'"
)
LOG: Final = {"linux": (DMESG,), "darwin": (MAC_LOG,)}

ASK_PEER: Final = "# look at what the peer printed: it names what failed{away}"
CAUSE_AT_PEER: Final = "# the cause is at the peer: look at what it printed, and at its kernel log"
AT_PEER: Final = "# at the peer: look at what it printed, and at its kernel log"
PREFLIGHT_AT_PEER: Final = "rdmadiag preflight   # at the peer"
DEVICES_OF_BOTH: Final = "rdmadiag devices   # here and at the peer: which one is meant?"
ROUTE: Final = "ip route get {target}   # by which interface, and from which address?"
LISTENING_AT_PEER: Final = "ss -tln   # at the peer: does it listen, and at which address and port?"
FIREWALL: Final = "sudo nft list ruleset   # here and at the peer: what is dropped or rejected?"
UDP_OF_ROCE: Final = "sudo nft list ruleset   # here and at the peer: does UDP port 4791 pass?"
SWITCHES: Final = "# switches, security groups: RoCE v2 is UDP port 4791, in both directions"
MTU_OF_BOTH: Final = "ip link show   # here and at the peer; and the MTU of the switch"
ONLY_TCP: Final = "# this is TCP between the ends, not RDMA yet"
LOCAL_NETWORK: Final = (
    "# No route to host? Settings, Privacy and Security, Local Network: allow the terminal"
)

NODES: Final = "ls -l /dev/infiniband/"
LOAD_UVERBS: Final = "sudo modprobe ib_uverbs"
LIBRARY_STDERR: Final = "ibv_devices   # what it writes on stderr names the reason"
PROVIDERS: Final = "dpkg -l ibverbs-providers || rpm -q libibverbs   # as new as the kernel?"
IN_CONTAINER: Final = (
    "# in a container: docker run --device=/dev/infiniband --cap-add=IPC_LOCK IMAGE"
)
LIBRARIES: Final = (
    LIBRARY_STDERR,
    "dpkg -l libibverbs1 ibverbs-providers || rpm -q libibverbs   # as new as the host's driver?",
    IN_CONTAINER,
)
RESOURCES: Final = "rdmadiag resources{on}   # how many are in use, of how many, and by whom"
QUEUE_PAIRS: Final = "rdma res show qp   # of each its state, while the program runs: ERR?"
COUNTERS: Final = "rdmadiag counters{on} --interval 10   # which of them rise?"
NAME_A_ROW: Final = (
    "# name a row: -g INDEX, perftest -x INDEX, NCCL_IB_GID_INDEX=INDEX, UCX_IB_GID_INDEX=INDEX"
)
SHORTER: Final = "# another time: fewer --iterations, or a longer --deadline"
LIMIT: Final = "ulimit -l"
LIMIT_OF_SERVICE: Final = (
    "# raise it for a service (slurmd, kubelet, sshd): LimitMEMLOCK=infinity in its unit"
)
LIMIT_IN_CONTAINER: Final = (
    "# in a container: docker run --ulimit memlock=-1 --cap-add=IPC_LOCK IMAGE"
)
HOST_NETWORK: Final = (
    "# a container needs host networking, or an interface of the NIC (SR-IOV, macvlan)"
)
PARTITION_KEYS: Final = "grep -rv 0x0000 {pkeys}   # the partition keys of the port"
ACTIVE_MTU: Final = "ibv_devinfo -d {device} -i {port} | grep active_mtu"
PING_OF_MTU: Final = (
    "ping -M do -s {ping_bytes} -c 1 -I {source} {target}   # as long as its frames"
)
AT_ONCE: Final = "# at once: GID or routing; after a while: loss, or a link that flaps"
UCX_DEVICES: Final = ("env | grep ^UCX_", "ucx_info -d | grep -E 'Transport|Device'")

PATH: Final = {
    "linux": (
        "ip route get {target} from {source}",
        "ip neigh show {target}",
        "ping -c 1 -I {source} {target}",
        'ping -c 1 -I "$(cat {ndev})" {neighbour}',
        'ip neigh show {neighbour} dev "$(cat {ndev})"',
        "sudo ibtracert -C {hca} -P {port} {lid} {to_lid}",
        "sudo sminfo -C {hca} -P {port}   # does a subnet manager answer?",
    ),
    "darwin": (
        "route -n get {target}   # by the interface of this port?",
        "arp -an | grep -F '({target})'   # the address of the peer, not of this Mac",
        "ping -c 1 -S {source} {target}",
    ),
}
LEFTOVERS: Final = {
    "linux": "rdma res show qp link {device}   # was anything left behind?",
    "darwin": "ioreg -r -l -c AppleThunderboltRDMAInterface -n {device}   # anything left?",
}

RDMA_CTL: Final = "rdma_ctl status"
THUNDERBOLT_SPEED: Final = (
    "system_profiler SPThunderboltDataType | grep Speed   # 40 Gb/s: Thunderbolt 4"
)
THUNDERBOLT_PEER: Final = "system_profiler SPThunderboltDataType   # is the peer seen?"
CRASH_REPORTS: Final = (
    "ls -t ~/Library/Logs/DiagnosticReports | head -3   # the newest names the call"
)
MAC_ADDRESS: Final = (
    GIDS,
    "ifconfig {netdev} | grep 'inet '",
    "ifconfig bridge0 | grep member   # a member has no address of its own",
)
NO_REPEAT: Final = "# no second RTR before something has changed: failed ones wedge the driver"
REBOOT: Final = "sudo shutdown -r now   # what has no owner any more goes with a reboot alone"
IN_BRIDGE: Final = "ifconfig bridge0 | grep member   # is this port among them?"
HOLDERS: Final = (
    "ioreg -r -l -c AppleThunderboltRDMAInterface -n {device}   # IOUserClientCreator: who holds it"
)
