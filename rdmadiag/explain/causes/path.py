"""Causes on the way to the peer: GIDs, addresses, routes, links, the subnet manager."""

from typing import Final

from rdmadiag.explain.causes.cause import PATH, Cause, Of, Shown, Used
from rdmadiag.explain.remedies import (
    ACTIVE_MTU,
    ADDRESSES,
    AT_ONCE,
    AT_PEER,
    COUNTERS,
    DEVICES,
    DMESG,
    DMESG_OF_RDMA,
    FIREWALL,
    GIDS,
    HOST_NETWORK,
    LISTENING_AT_PEER,
    LOCAL_NETWORK,
    MAC_LOG,
    MTU_OF_BOTH,
    NAME_A_ROW,
    NO_REPEAT,
    PARTITION_KEYS,
    PING_OF_MTU,
    ROUTE,
    THUNDERBOLT_PEER,
)
from rdmadiag.explain.remedies import PATH as LOOK_AT_PATH

_NAMESPACE: Final = (
    GIDS,
    "cat {ndev}   # the interface of this GID",
    "ip -brief address   # is it here, and has it the GID?",
    HOST_NETWORK,
)

_OF_LINK: Final = (
    DMESG_OF_RDMA,
    "ethtool -S INTERFACE | grep -E 'link_down|discard|symbol'   # does it flap?",
    "# reseat or replace cable and transceiver; look at the switch port's log",
)
_BOTH_ROWS: Final = "rdmadiag gids   # here and at the peer: which rows are of one kind and subnet?"

ROWS: Final = (
    # --- GIDs ----------------------------------------------------------------------------
    Cause(
        "gid-changed",
        "an address came or went: GIDs moved to other rows of the table",
        linux=(GIDS, ADDRESSES, "# static addresses; and no pinned GID index"),
    ),
    Cause(
        "gid-does-not-route",
        "on RoCE, a GID that does not route: link-local, v1, or a hard-coded index",
        linux=(*LOOK_AT_PATH["linux"], PING_OF_MTU, PARTITION_KEYS, AT_ONCE, GIDS),
        darwin=(*LOOK_AT_PATH["darwin"], NO_REPEAT, GIDS),
        confirmed_by=(
            "no-usable-gid",
            "route-netdev-down",
            "route-netdev-absent",
            "route-fallback",
            "mooncake-prefers-ipv6",
            Shown.GID_NOT_ROUTED,
        ),
        excluded_by=(Used.ROUTABLE_GIDS,),
        named_by=(
            "env-gid-index",
            "gid-link-local-only",
            "gid-v1-only",
            "stack-gid-unfit",
            "stack-wants-ipv4",
        ),
        stages=PATH,
    ),
    Cause(
        "gid-index-or-family",
        "the GID table has no such index, or the two GIDs are not both IPv4 or both IPv6",
        {
            "index": "the GID table has no such index",
            "family": "the two GIDs are not both IPv4 or both IPv6",
            "gids-do-not-fit": "the two GIDs are not both IPv4 or both IPv6: another row of the "
            "GID table was asked for, or an empty one",
        },
        confirmed_by=("env-gid-index",),
        excluded_by=(Used.ONE_FAMILY,),
        linux=(
            GIDS,
            _BOTH_ROWS,
            NAME_A_ROW,
            "# NCCL from 2.21 on chooses by itself: unset NCCL_IB_GID_INDEX",
        ),
    ),
    Cause(
        "gid-not-an-address",
        "the GID is a default link-local one that its interface does not have as an address",
        linux=(GIDS, 'ip address show dev "$(cat {ndev})"   # has it the GID?', ACTIVE_MTU, DMESG),
        confirmed_by=(Shown.GID_UNASSIGNED,),
        excluded_by=(Used.IPV4_GID,),
    ),
    Cause(
        "gid-row-empty",
        "the row of the GID table at this index is empty",
        {
            "darwin": "there is no entry at the GID index that was used",
            "peer": "the peer gave an empty GID (::): the row of its GID table is empty",
        },
        linux=(GIDS, "# choose a row that is not empty: --gid-index", ADDRESSES),
        confirmed_by=("stack-finds-no-gid", "mooncake-stops-at-empty-row", Shown.ROW_EMPTY),
        contradicted_by=(Shown.ROW_FILLED,),
        excluded_by=(Used.GID,),
        named_by=("no-usable-gid", "stack-uses-empty-gid"),
        stages=PATH,
    ),
    Cause(
        "gid-row-removed",
        "the row was removed meanwhile: its address or its interface went",
        excluded_by=(Used.NO_GID,),
        linux=(
            GIDS,
            ADDRESSES,
            "rdmadiag watch   # which address or interface comes and goes?",
            "# a static address, or a longer lease; then start again",
        ),
    ),
    Cause(
        "gid-table-full",
        "the port's GID table has no row left: too many addresses, VLANs and macvlans are on it",
        linux=(
            GIDS,
            "ip -d link | grep -cE 'vlan'   # how many interfaces lie on the port",
            "# fewer of them, or a virtual function of its own for each pod",
        ),
    ),
    Cause(
        "gid-without-netdev",
        "the row of the GID table has no interface any more",
        linux=(
            GIDS,
            "cat {ndev}   # the interface of this GID",
            "ip -brief link   # is it there, in this network namespace?",
            HOST_NETWORK,
        ),
    ),
    Cause(
        "ipv6-only",
        "the host has IPv6 addresses alone, and the program takes IPv4 GIDs alone",
        confirmed_by=("gid-ipv6-only",),
        linux=(
            GIDS,
            ADDRESSES,
            "# give the interface an IPv4 address; or, for NCCL, NCCL_IB_ADDR_FAMILY=AF_INET6",
            NAME_A_ROW,
        ),
    ),
    Cause(
        "no-gid-given",
        "on RoCE, no GID index was given (-g), and it needs one",
        linux=(GIDS, NAME_A_ROW, "# qperf has no index, and connects by rdma_cm: -cm1"),
    ),
    Cause(
        "no-ipv6",
        "perhaps an IPv6 GID, and a kernel without IPv6",
        linux=(
            "sysctl -n net.ipv6.conf.all.disable_ipv6   # 1, or no such file: IPv6 is off",
            GIDS,
            "# choose the row of an IPv4 address, at both ends",
            NAME_A_ROW,
        ),
    ),
    Cause(
        "no-usable-gid",
        "the interface has no address here, so that the GID table has nothing to send from",
        linux=(GIDS, ADDRESSES, HOST_NETWORK),
        confirmed_by=("no-usable-gid",),
    ),
    # --- interfaces and routes -----------------------------------------------------------
    Cause(
        "address-twice",
        "another host has the same address, too, and answers for it now and then",
        linux=(
            "sudo arping -c 5 -I INTERFACE {target}   # answers of two MAC addresses: two hosts",
            "ip neigh show {target}   # whose MAC address is it?",
            "# give one of the two another address",
        ),
        confirmed_by=("address-duplicate", "ends-mac-twice"),
        of=Of.WAY,
    ),
    Cause(
        "firewall",
        "perhaps a firewall drops the connection",
        {
            "no_peer": "a firewall drops the TCP connection",
            "ends-tcp-unanswered": "TCP between the hosts is dropped: a firewall, or a middlebox "
            "that has forgotten the connection",
        },
        confirmed_by=(
            *("filter-drops-tcp", "filter-drops-rdma"),
            *("firewall-drops-tcp", "firewall-drops-rdma"),
        ),
        of=Of.WAY,
        linux=(
            FIREWALL,
            "nc -vz -w 3 {target} PORT   # timed out: dropped; refused: nobody listens",
            LISTENING_AT_PEER,
            "# to let pass: the TCP port of the program; for RoCE v2 also UDP port 4791",
        ),
        darwin=("/usr/libexec/ApplicationFirewall/socketfilterfw --getglobalstate", LOCAL_NETWORK),
    ),
    Cause(
        "interface-down",
        "the interface of the GID is down, or has lost the address",
        confirmed_by=(Shown.NETDEV_DOWN,),
        named_by=("route-netdev-down",),
        stages=PATH,
        linux=(
            "ip -brief link   # is the interface of the GID UP?",
            ADDRESSES,
            "cat {ndev}   # the interface of this GID",
            "# sudo ip link set dev INTERFACE up; and its address again, where it has gone",
        ),
    ),
    Cause(
        "neighbour-table-full",
        "the kernel keeps no more neighbours (gc_thresh3): addresses of peers are not resolved",
        linux=(
            "sysctl net.ipv4.neigh.default.gc_thresh3; ip neigh | wc -l",
            "# sudo sysctl -w net.ipv4.neigh.default.gc_thresh3=16384; and for good in sysctl.d",
        ),
        named_by=("neighbour-table-overflowed",),
        stages=PATH,
    ),
    Cause(
        "netdev-in-other-netns",
        "the interface of the GID is not in this network namespace",
        linux=_NAMESPACE,
        confirmed_by=(Shown.NETDEV_ABSENT,),
        named_by=("route-netdev-absent",),
        stages=PATH,
    ),
    Cause(
        "multicast-refused",
        "the subnet manager, or the netdev, did not take the join: P_Key, rate or MTU of the "
        "group do not fit, or the interface knows no such group",
        linux=(
            "sudo saquery -g   # the groups of the subnet",
            "ip maddress show",
            "rdma link show",
        ),
    ),
    Cause(
        "no-path",
        "no path between the ends: other subnet, VLAN or rail, or a switch that drops it",
        {
            "arp-flux": "no path between the ends: several RDMA interfaces answer ARP for each "
            "other",
            "ends-checksums-wrong": "TCP arrives with wrong checksums, and is dropped: an "
            "interface or a virtual switch computes them wrong",
        },
        linux=("ip route get PEER", GIDS, "sudo sminfo"),
        darwin=("route -n get PEER   # by the interface of the cable?", THUNDERBOLT_PEER),
        named_by=("arp-flux",),
        stages=PATH,
        of=Of.WAY,
    ),
    Cause(
        "no-rdma-at-address",
        "no RDMA device has the address that is used towards the peer",
        linux=("ip route get PEER", GIDS, "rdma link show"),
    ),
    Cause(
        "no-route",
        "there is no route to the peer from the GID's address",
        {"connect": "there is no route to the peer from this host's address"},
        linux=(*LOOK_AT_PATH["linux"], GIDS, ADDRESSES),
    ),
    Cause(
        "peer-address-unknown",
        "perhaps the peer's address is on no interface of this network namespace",
        linux=_NAMESPACE,
        of=Of.PEER,
    ),
    Cause(
        "peer-interface-down",
        "the peer's interface is down, or has lost the address",
        of=Of.PEER,
        linux=(
            "ip neigh show {target}   # FAILED, INCOMPLETE: nobody has that address",
            "ip -brief address   # at the peer: is the interface UP, with that address?",
            "# at the peer: sudo ip link set dev INTERFACE up",
        ),
    ),
    Cause(
        "peer-is-this-host",
        "perhaps the peer's address belongs to this host, on an interface without RDMA",
        {"loopback": "the peer's address is this host's own, loopback"},
        excluded_by=(Used.ONE_HOST,),
        linux=(
            "ip route get {target}   # local: it is an address of this host",
            ADDRESSES,
            "# name the address of the RDMA interface of the peer; not 127.0.0.1 or 127.0.1.1",
        ),
    ),
    Cause(
        "peer-unreachable",
        "the peer's address does not answer on the link: other subnet, VLAN, rail or port",
        linux=(*LOOK_AT_PATH["linux"], GIDS),
        darwin=LOOK_AT_PATH["darwin"],
        of=Of.WAY,
    ),
    Cause(
        "route-unreachable",
        'a route of the type "unreachable" covers the peer',
        linux=(
            ROUTE,
            "ip route show table all type unreachable",
            "# sudo ip route del unreachable PREFIX; or a more specific route to the peer",
        ),
    ),
    Cause(
        "security-group",
        "the EFA security group does not allow all traffic within itself",
        linux=(
            "# AWS: the security group must allow all traffic from and to itself",
            AT_PEER,
            "fi_info -p efa",
        ),
    ),
    # --- links and ports -----------------------------------------------------------------
    Cause(
        "traffic-not-lossless",
        "the class of the RDMA traffic is not kept from loss: PFC, DSCP and priorities of the "
        "hosts and switches do not fit",
        linux=(
            "rdmadiag lossless{on}   # class, DSCP, priority, PFC, buffer: where it breaks",
            "ethtool -S INTERFACE | grep -E 'prio._(discards|pause)'   # which priority is it in?",
            "# the switch: PFC for that priority at both ports, and trust of the DSCP on the way",
        ),
        confirmed_by=("traffic-class-not-lossless", "pause-beside-pfc", "ends-class-differs"),
        of=Of.WAY,
    ),
    Cause(
        "ack-timeout-short",
        "the time and the retries of the queue pair are so few that a busy path runs them out",
        linux=(
            "env | grep -E 'NCCL_IB_(TIMEOUT|RETRY_CNT)|UCX_(RC|DC|UD)_TIMEOUT'",
            "export NCCL_IB_TIMEOUT=22 NCCL_IB_RETRY_CNT=7",
        ),
    ),
    Cause(
        "alternate-path-unusable",
        "the alternate path does not carry: its port is down, or its LID or partition is wrong",
        linux=("rdma link show", "ibv_devinfo -v -d {device} | grep -E 'lid|AUTO_PATH_MIG'"),
    ),
    Cause(
        "fabric-changed",
        "the subnet manager configured the fabric anew",
        linux=(
            "sudo sminfo   # which subnet manager, and is it master?",
            "ibstat   # the LIDs of now",
            "# why: /var/log/opensm.log, where it runs; programs with old LIDs start again",
        ),
    ),
    Cause(
        "link-flaps",
        "a link that flaps or loses frames, where some messages did arrive",
        confirmed_by=("link-flaps-in-log",),
        of=Of.WAY,
        linux=(*_OF_LINK, COUNTERS),
    ),
    Cause(
        "link-lost",
        "the link went down: cable, transceiver, switch port or peer",
        {
            "provider-crash": "the link dropped while the provider used it",
            "no_data": "the link dropped, or the peer's driver is wedged",
        },
        linux=(
            "rdma link show",
            *_OF_LINK,
        ),
        darwin=(THUNDERBOLT_PEER, MAC_LOG),
        confirmed_by=("link-was-lost",),
        named_by=("link-not-up", "link-down-because", "link-flaps-in-log"),
        stages=PATH,
    ),
    Cause(
        "mtu-above-port",
        "the path MTU is larger than the port's active MTU",
        {"mismatch": "a path MTU was asked for that a port does not have"},
        linux=("ibv_devinfo{on_device} | grep active_mtu", "ip link show"),
        confirmed_by=("mtu-below-netdev",),
    ),
    Cause(
        "mtu-mismatch",
        "the two ends use different path MTUs",
        confirmed_by=("mtu-below-netdev",),
        named_by=("mtu-differs-in-subnet",),
        stages=PATH,
        linux=("rdmadiag route PEER   # the path MTU of this end; and the same at the peer",),
        of=Of.BOTH,
    ),
    Cause(
        "mtu-too-large",
        "frames of the path MTU do not get through",
        {
            "no_data": "perhaps frames of the path MTU do not get through",
            "only small": "frames of the path MTU do not get through: a small message passed "
            "each way, the payload did not",
        },
        of=Of.WAY,
        linux=(
            PING_OF_MTU,
            MTU_OF_BOTH,
            "ibv_devinfo | grep -E 'hca_id|active_mtu'   # here and at the peer",
            "# does a smaller one pass? ibv_rc_pingpong -m 1024, perftest -m 1024",
        ),
        darwin=("ifconfig {netdev} | grep mtu",),
    ),
    Cause(
        "no-subnet-manager",
        "no subnet manager has configured the InfiniBand port",
        linux=(
            "ibstat",
            "sudo sminfo",
            "sudo systemctl enable --now opensm   # on one host of this fabric, if none does",
        ),
        named_by=("no-subnet-manager",),
        stages=PATH,
    ),
    Cause(
        "port-went-down",
        "this host's port is no longer ACTIVE",
        linux=("rdma link show", *_OF_LINK),
        darwin=("ifconfig {netdev} | grep status",),
    ),
    Cause(
        "port-down",
        "the port is not ACTIVE: no link, or no subnet manager",
        {
            "darwin": "the port is down",
            "mismatch": "a port has no link, or waits for its subnet manager",
        },
        linux=(DEVICES, "rdma link show", "ibstat"),
        darwin=(
            DEVICES,
            "ifconfig {netdev} | grep status",
            THUNDERBOLT_PEER,
        ),
        confirmed_by=(
            "link-not-up",
            "link-down-because",
            "no-subnet-manager",
            "thunderbolt-port-down",
        ),
        contradicted_by=(Shown.PORT_ACTIVE,),
        excluded_by=(Used.PORT_ACTIVE,),
        named_by=("port-not-active",),
        stages=PATH,
    ),
)
