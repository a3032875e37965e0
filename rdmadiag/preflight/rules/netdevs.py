"""The netdevs below RoCE: MTU, carrier, addresses of several in one subnet."""

from collections.abc import Collection, Iterator
from itertools import combinations
from typing import Final

from rdmadiag.facts import Missing, NetDev, NetDevFacts, NldevDevice, Why, known, present
from rdmadiag.facts.address import packed_ipv4, packed_ipv6, printed
from rdmadiag.facts.gid import Family
from rdmadiag.facts.ib import MTU_BYTES, DriverId, roce_mtu
from rdmadiag.facts.routing import BridgePortState
from rdmadiag.gid.netdev import DORMANT
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.kernel_lines import flapping
from rdmadiag.preflight.proofs import seen, verbs_answer
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.reconcile import PortView, Protocol

CHANGES: Final = 20
"""Of the carrier since the netdev was made; a start, a switch's restart and a new cable
together make fewer."""


def _ports(case: Case) -> Iterator[tuple[PortView, NetDev]]:
    """Active RoCE ports with the netdev that they belong to."""
    for _, port in case.ports:
        if port.protocol is Protocol.ROCE and port.is_active:
            netdev = _own(port, case.evidence.netdev)
            if netdev:
                yield port, netdev


def _own(port: PortView, facts: NetDevFacts | Missing) -> NetDev | None:
    """The port's netdev by nldev, else that of its route GID."""
    if isinstance(facts, Missing):
        return None
    entry = port.route_entry
    name = port.nldev.netdev if port.nldev else None
    if name is None or isinstance(name, Missing):
        name = entry.netdev if entry else None
    return _here(port, name, facts)


def _here(port: PortView, name: str | Missing | None, facts: NetDevFacts) -> NetDev | None:
    """The netdev of that name, unless GIDs name it and it is another namespace's."""
    if name is None or isinstance(name, Missing):
        return None
    here = name in port.netdevs_here or name not in port.netdevs
    return facts.netdev(name) if here else None


def _routed(case: Case) -> Iterator[tuple[PortView, NetDev]]:
    """Active ports with the netdev of the address that they send from: it may be a VLAN's."""
    facts = case.evidence.netdev
    if isinstance(facts, Missing):
        return
    for _, port in case.ports:
        if port.protocol not in (Protocol.ROCE, Protocol.IWARP) or not port.is_active:
            continue
        entry = port.route_entry
        name = entry.netdev if entry else port.nldev.netdev if port.nldev else None
        netdev = _here(port, name, facts)
        if netdev:
            yield port, netdev


def _active_mtu(port: PortView) -> int | None:
    active = port.verbs.active_mtu if port.verbs else None
    return active if isinstance(active, int) else None


def _mtu_proofs(port: PortView, netdev: NetDev) -> tuple[Proof, ...]:
    return (
        Proof("netdev", f"{netdev.name} IFLA_MTU", seen(netdev.mtu)),
        verbs_answer(port, "active_mtu", _active_mtu(port)),
    )


@rule(
    "mtu-below-netdev",
    Severity.WARN,
    "RoCE MTU below what its netdev allows",
    "The port's active MTU is smaller than the netdev's MTU allows. The netdev's was perhaps "
    "raised after the RDMA device was made, or the driver was not notified. Peers that agree on "
    "the larger value fail at RTR, or lose packets.",
    (
        "https://github.com/tensorflow/tensorflow/issues/9667",
        "https://github.com/kvcache-ai/Mooncake/pull/3878",
    ),
    remedy=(
        "sudo ip link set dev {netdev} mtu {mtu}   # the driver looks again",
        "ibv_devinfo -d {device} -i {port} | grep active_mtu",
    ),
    needs=(
        "ports",
        "port state",
        "nldev",
        "netdev",
        "netdevs of GIDs",
        "MTU of netdevs",
        "active MTU",
    ),
)
def mtu_below_netdev(this: Rule, case: Case) -> Iterator[Finding]:
    """By the kernel's own arithmetic (roce_mtu)."""
    for port, netdev in _ports(case):
        active = _active_mtu(port)
        if active is None or isinstance(netdev.mtu, Missing) or port.verbs is None:
            continue
        fits = roce_mtu(netdev.mtu)
        most = port.verbs.max_mtu
        if fits is None or isinstance(most, Missing) or active >= min(fits, most):
            continue
        yield this.finding(
            f"{port.name} uses MTU {active}, and {netdev.name} (MTU {netdev.mtu}) allows {fits}",
            device=port.device,
            port=port.number,
            evidence=_mtu_proofs(port, netdev),
            fill={"netdev": netdev.name, "mtu": netdev.mtu},
        )


@rule(
    "jumbo-not-used",
    Severity.INFO,
    "Small RoCE MTU",
    "The netdev's MTU leaves no room for RoCE's largest, 4096 bytes. It works, with more packets; "
    "a program that has 4096 built in fails at RTR with EINVAL. Both ends and the switches "
    "between them need the larger MTU.",
    (
        "https://github.com/tensorflow/tensorflow/issues/9667",
        "https://github.com/NVIDIA/nccl/pull/2135",
    ),
    remedy=(
        "sudo ip link set dev {netdev} mtu 4200",
        "# the same at the other end, and on the switch, or packets are lost",
    ),
    needs=("ports", "port state", "netdev", "software device", "MTU of netdevs", "active MTU"),
)
def jumbo_not_used(this: Rule, case: Case) -> Iterator[Finding]:
    """Hardware alone: a software device is no faster for it. One finding for the host."""
    small = []
    for port, netdev in _ports(case):
        active = _active_mtu(port)
        if active is None or port.is_software or isinstance(netdev.mtu, Missing):
            continue
        most = port.verbs.max_mtu if port.verbs else 0
        if most == max(MTU_BYTES.values()) and active == roce_mtu(netdev.mtu) and active < most:
            small.append((port, netdev))
    if not small:
        return
    first, below = small[0]
    others = f" (and {len(small) - 1} more)" if len(small) > 1 else ""
    yield this.finding(
        f"{first.name}{others}: RoCE MTU {_active_mtu(first)}, as {below.name} has MTU {below.mtu}",
        device=first.device if len(small) == 1 else None,
        port=first.number if len(small) == 1 else None,
        evidence=[proof for each in small[:4] for proof in _mtu_proofs(*each)],
        fill={"netdev": tuple(netdev.name for _, netdev in small[:4])},
    )


Subnet = str


def _subnets(netdev: NetDev, families: Collection[Family] = tuple(Family)) -> set[Subnet]:
    """The subnets that the netdev has an address in, but for link-local ones."""
    found = set()
    for each in netdev.addresses:
        family = Family.IPV6 if ":" in each.address else Family.IPV4
        packed, bits = (packed_ipv6, 128) if family is Family.IPV6 else (packed_ipv4, 32)
        host = bits - each.prefix_length
        if family not in families or not 0 < host < bits or each.scope == "link":
            continue
        try:
            number = int.from_bytes(packed(each.address), "big") >> host << host
        except OSError:
            continue
        network = printed(number.to_bytes(bits // 8, "big"))
        if not network.startswith(("169.254.", "fe80:")):
            found.add(f"{network}/{each.prefix_length}")
    return found


@rule(
    "mtu-differs-in-subnet",
    Severity.WARN,
    "Different MTUs in one subnet",
    "Two netdevs of RDMA ports have addresses in the same subnet and different MTUs. All that "
    "is on one link should have one MTU: queue pairs between the larger and the smaller fail at "
    "RTR, or send packets that are dropped.",
    ("https://github.com/ROCm/rocSHMEM/pull/214",),
    remedy=(
        "sudo ip link set dev {netdev} mtu {mtu}",
        "# if the switch and the peers on that link have the larger one",
    ),
    needs=("ports", "port state", "netdev", "netdevs of GIDs", "MTU of netdevs"),
)
def mtu_differs_in_subnet(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding for each pair of netdevs."""
    done: set[frozenset[str]] = set()
    for (port, one), (_, other) in combinations(_routed(case), 2):
        names = frozenset((one.name, other.name))
        if len(names) < 2 or names in done or one.mtu == other.mtu:
            continue
        if isinstance(one.mtu, Missing) or isinstance(other.mtu, Missing):
            continue
        shared = sorted(_subnets(one) & _subnets(other))
        if not shared:
            continue
        done.add(names)
        smaller = one if one.mtu < other.mtu else other
        yield this.finding(
            f"{one.name} (MTU {one.mtu}) and {other.name} (MTU {other.mtu}) are both in "
            f"{shared[0]}",
            device=port.device,
            port=port.number,
            evidence=[
                Proof("netdev", f"{netdev.name} IFLA_MTU", seen(netdev.mtu))
                for netdev in (one, other)
            ],
            fill={"netdev": smaller.name, "mtu": max(one.mtu, other.mtu)},
        )


@rule(
    "carrier-changes",
    Severity.INFO,
    "The carrier came and went often",
    "The carrier of a port's netdev has changed often since the netdev was made. The number "
    "only grows, and has no times: a link that flaps now, or a switch that was restarted "
    "long ago. Where the kernel's log shows flaps in its window, that is said instead.",
    (
        "https://github.com/NVIDIA/nccl/issues/905",
        "https://github.com/NVIDIA/nccl/issues/1819",
    ),
    remedy=(
        "cat /sys/class/net/{netdev}/carrier_changes   # again later: does it grow?",
        "sudo dmesg -T | grep {netdev}",
    ),
    needs=("ports", "port state", "netdev"),
)
def carrier_changes(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding a netdev."""
    in_log = {each.device for each in flapping(case)}
    done = set()
    for port, netdev in _ports(case):
        changes = netdev.carrier_changes
        if isinstance(changes, Missing) or changes < CHANGES:
            continue
        if netdev.name in done or port.device in in_log:
            continue
        done.add(netdev.name)
        yield this.finding(
            f"{port.name}: the carrier of {netdev.name} has changed {changes} times",
            device=port.device,
            port=port.number,
            evidence=[Proof("netdev", f"{netdev.name} IFLA_CARRIER_CHANGES", str(changes))],
            fill={"netdev": netdev.name},
        )


@rule(
    "netdev-dormant",
    Severity.WARN,
    "The netdev of a port waits for a supplicant",
    "The netdev has a carrier and is dormant: it waits for a supplicant of 802.1X. Where a switch "
    "asks for none, IPv4 and RoCE over it pass, and IPv6 alone is held up: its addresses stay "
    "tentative. Where the switch asks, nothing passes. This host does not show which.",
    ("https://docs.kernel.org/networking/operstates.html",),
    remedy=(
        "ip -d link show dev {netdev}   # mode DORMANT: somebody has set it so",
        "pgrep -a wpa_supplicant   # does a supplicant run for it?",
        "# where none is used:",
        "sudo ip link set dev {netdev} mode default state up   # the link stays up meanwhile",
    ),
    needs=("ports", "port state", "nldev", "netdev"),
)
def netdev_dormant(this: Rule, case: Case) -> Iterator[Finding]:
    """IF_OPER_DORMANT of the netdev that RDMA netlink names for an active port."""
    facts = case.evidence.netdev
    if isinstance(facts, Missing):
        return
    for _, port in case.ports:
        name = port.nldev.netdev if port.nldev else None
        netdev = facts.netdev(name) if isinstance(name, str) else None
        if netdev is None or netdev.operstate != DORMANT or not port.is_active:
            continue
        yield this.finding(
            f"{port.name}: {netdev.name} is dormant, and waits for a supplicant of 802.1X",
            device=port.device,
            port=port.number,
            evidence=[Proof("netdev", f"{netdev.name} IFLA_OPERSTATE", DORMANT)],
            fill={"netdev": netdev.name},
        )


@rule(
    "arp-flux",
    Severity.WARN,
    "Several RDMA netdevs in one subnet answer for each other",
    "Two netdevs of RDMA ports have addresses in the same subnet, and arp_ignore is 0: the "
    "kernel answers ARP for any of its addresses on any of them, so peers may learn the wrong "
    "MAC, and packets arrive at a port whose GID table does not have their address. A note for "
    "software devices, which hand packets to the IP stack anyway.",
    (
        "https://github.com/NVIDIA/nccl/issues/1269",
        "https://github.com/NVIDIA/nccl/issues/1348",
    ),
    remedy=(
        "sudo sysctl -w net.ipv4.conf.all.arp_ignore=2 net.ipv4.conf.all.arp_announce=2",
        "# and a routing table for each port (ip rule add from ADDRESS table N)",
        "# or one subnet a port",
    ),
    needs=("ports", "port state", "netdev", "arp_ignore", "software device", "netdevs of GIDs"),
)
def arp_flux(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding a subnet."""
    facts = case.evidence.netdev
    if isinstance(facts, Missing) or isinstance(facts.arp_ignore, Missing):
        return
    members: dict[Subnet, dict[str, tuple[PortView, NetDev]]] = {}
    for port, netdev in _routed(case):
        for subnet in sorted(_subnets(netdev, (Family.IPV4,))):
            members.setdefault(subnet, {}).setdefault(netdev.name, (port, netdev))
    for subnet, each in members.items():
        # The kernel takes the larger of conf/all and the netdev's own.
        answering = [
            netdev
            for _, netdev in each.values()
            if not isinstance(netdev.arp_ignore, Missing)
            and max(facts.arp_ignore, netdev.arp_ignore) == 0
        ]
        if len(each) < 2 or not answering:
            continue
        software = all(port.is_software for port, _ in each.values())
        names = " ".join(each)
        yield this.finding(
            f"{names} are all in {subnet}, and each answers ARP for the others",
            severity=Severity.INFO if software else None,
            evidence=[
                Proof("netdev", "/proc/sys/net/ipv4/conf/all/arp_ignore", str(facts.arp_ignore)),
                *(
                    Proof("netdev", f"{netdev.name} IPV4_DEVCONF_ARP_IGNORE", "0")
                    for netdev in answering
                ),
            ],
        )


@rule(
    "soft-roce-on-other-netdev",
    Severity.CRITICAL,
    "Packets for this address do not reach the soft RoCE device",
    "The address that the soft RoCE device (rxe) sends from is on a netdev above its own: a bond, "
    "a bridge, a macvlan, an ipvlan. The GID table has it, and rxe takes packets of its own netdev "
    "and of VLANs on that alone; what comes in by another is dropped, and counted nowhere "
    "(rxe_udp_encap_recv).",
    ("https://github.com/torvalds/linux/blob/v6.1/drivers/infiniband/sw/rxe/rxe_net.c",),
    remedy=(
        "ip -brief address   # which netdev has the address?",
        "sudo rdma link delete {device}",
        "sudo rdma link add {device} type rxe netdev {netdev}   # where the kernel takes it",
        "# or the address to the netdev of the device",
    ),
    needs=(
        *("ports", "port state", "GID table", "netdevs of GIDs", "netdev"),
        *("nldev", "netdev of software ports", "bonds of netdevs"),
    ),
)
def soft_roce_on_other_netdev(this: Rule, case: Case) -> Iterator[Finding]:
    """Of the GID that routes."""
    for port, netdev in _routed(case):
        own = port.netdev
        if port.protocol is not Protocol.ROCE or not port.is_software or netdev.kind == "vlan":
            continue
        if isinstance(own, Missing):
            if own.why is not Why.ABSENT:  # else it is another network namespace's
                continue
            own = "a netdev of another network namespace"
        elif netdev.name == own:
            continue
        yield this.finding(
            f"{port.name} is on {own}, and the address that it sends from is on {netdev.name}: "
            "what is sent to that does not reach it",
            device=port.device,
            port=port.number,
            evidence=[
                Proof("netdev", f"{netdev.name} IFLA_IFNAME", netdev.name),
                Proof("nldev", f"{port.name} netdev", own),
            ],
            fill={"netdev": netdev.name},
        )


@rule(
    "netdev-is-bridge-port",
    Severity.WARN,
    "The netdev has an address, and is a port of a bridge",
    "What arrives at a port of a bridge is the bridge's: the host's IP stack sees it as coming in "
    "by the bridge, if at all. ARP answers to the netdev's own lookups are lost, so that TCP, "
    "rdma_cm and RoCE find no way to their neighbours. The address is to be on the bridge, or the "
    "netdev is to leave it.",
    ("https://docs.kernel.org/networking/bridge.html",),
    remedy=(
        "ip -d link show {netdev}   # master",
        "sudo ip link set dev {netdev} nomaster   # if it is not meant to be in the bridge",
        "# else: the address, and the RDMA device, to {master}",
    ),
    needs=("ports", "port state", "GID table", "netdevs of GIDs", "netdev", "routing"),
)
def netdev_is_bridge_port(this: Rule, case: Case) -> Iterator[Finding]:
    """By the master of the netdev that has the route's address."""
    routing = case.evidence.routing
    kinds = {} if isinstance(routing, Missing) else {each.name: each.kind for each in routing.links}
    for port, netdev in _routed(case):
        master = netdev.master
        if isinstance(master, Missing) or kinds.get(master) not in ("bridge", "openvswitch"):
            continue
        yield this.finding(
            f"{netdev.name}, which {port.name} sends from, is a port of {master}",
            device=port.device,
            port=port.number,
            evidence=[Proof("netdev", f"{netdev.name} IFLA_MASTER", f"{master} ({kinds[master]})")],
            fill={"netdev": netdev.name, "master": master},
        )


@rule(
    "bridge-forwards-nothing",
    Severity.CRITICAL,
    "No port of the bridge forwards",
    "The address that the port sends from is on a bridge, and none of the bridge's ports that have "
    "a link is in the state forwarding: the spanning tree has not settled yet (listening, "
    "learning: 30 seconds after a port came up), or blocks them, or somebody has disabled them. "
    "Nothing leaves the host by it, and nothing comes in.",
    ("https://docs.kernel.org/networking/bridge.html",),
    remedy=(
        "bridge link show   # state",
        "ip -d link show {netdev} | grep -o 'stp_state . \\|forward_delay [0-9]*'",
        "sudo ip link set dev {netdev} type bridge stp_state 0   # where no loop is possible",
    ),
    needs=("ports", "port state", "GID table", "netdevs of GIDs", "netdev", "routing"),
)
def bridge_forwards_nothing(this: Rule, case: Case) -> Iterator[Finding]:
    """By the states of the links below it; one without any state is no port that is known."""
    routing = case.evidence.routing
    links = () if isinstance(routing, Missing) else routing.links
    for port, netdev in _routed(case):
        ports = [each for each in links if each.master == netdev.name and each.carrier]
        states = [each.port_state for each in ports]
        if netdev.kind != "bridge" or not ports or None in states:
            continue
        if BridgePortState.FORWARDING in states:
            continue
        yield this.finding(
            f"no port of {netdev.name}, which {port.name} sends from, forwards",
            device=port.device,
            port=port.number,
            evidence=[
                Proof("routing", f"{each.name} IFLA_BRPORT_STATE", seen(each.port_state))
                for each in ports[:4]
            ],
            fill={"netdev": netdev.name},
        )


@rule(
    "netdev-of-two-devices",
    Severity.WARN,
    "Two RDMA devices are on one netdev",
    "A software device (rxe, siw) shares its netdev, and so the addresses, with another RDMA "
    "device. A program that names its device gets that one; rdma_cm goes by an address, and takes "
    "the device that has it and was registered first (cma_acquire_dev). The peer's may be of "
    "another protocol: RoCE and iWARP do not talk, and the peer seems not to listen. Where both "
    "are of RoCE the software one is slower by orders of magnitude.",
    ("https://github.com/torvalds/linux/blob/v6.1/drivers/infiniband/core/cma.c",),
    remedy=(
        "rdma link   # which of them is meant?",
        "sudo rdma link delete {software}   # the software one that is not",
    ),
    needs=("ports", "nldev"),
)
def netdev_of_two_devices(this: Rule, case: Case) -> Iterator[Finding]:
    """By NDEV_NAME, which nldev gives of netdevs of this network namespace alone."""
    nldev = case.evidence.nldev
    if isinstance(nldev, Missing):
        return
    by_netdev: dict[str, list[NldevDevice]] = {}
    for each in sorted(nldev.devices, key=_registered):
        for name in _netdevs_of(each):
            by_netdev.setdefault(name, []).append(each)
    for _, port in case.ports:
        own = port.nldev.netdev if port.nldev else None
        if own is None or isinstance(own, Missing):
            continue
        there = by_netdev.get(own, [])
        software = [each.name for each in there if _is_made_of_a_netdev(each)]
        if len(there) < 2 or not software:
            continue
        names = [each.name for each in there]
        yield this.finding(
            f"{own} has the devices {' and '.join(names)}: of its addresses rdma_cm takes "
            f"{names[0]}",
            device=port.device,
            port=port.number,
            evidence=[
                Proof("nldev", f"{each.name} NDEV_NAME", f"{own} ({seen(each.protocol)})")
                for each in there
            ],
            fill={"software": next((e for e in software if e != port.device), software[0])},
        )


def _netdevs_of(device: NldevDevice) -> frozenset[str]:
    return frozenset(known(each.netdev) or "" for each in present(device.ports))


def _registered(device: NldevDevice) -> int:
    """Indexes are given in the order of registration (assign_name of core/device.c)."""
    return device.index


def _is_made_of_a_netdev(device: NldevDevice) -> bool:
    driver = device.chardev if isinstance(device.chardev, Missing) else device.chardev.driver
    return driver in (DriverId.RXE, DriverId.SIW)


RULES: Final[tuple[Rule, ...]] = (
    soft_roce_on_other_netdev,
    netdev_is_bridge_port,
    bridge_forwards_nothing,
    netdev_of_two_devices,
    mtu_differs_in_subnet,
    mtu_below_netdev,
    arp_flux,
    netdev_dormant,
    carrier_changes,
    jumbo_not_used,
)
