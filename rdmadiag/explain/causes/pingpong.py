"""Causes that only a pingpong of ours meets: what its two ends were started with."""

from typing import Final

from rdmadiag.explain.causes.cause import Cause, Of
from rdmadiag.explain.remedies import (
    ADDRESSES,
    ASK_PEER,
    AT_PEER,
    COUNTERS,
    DEVICES_OF_BOTH,
    FIREWALL,
    GIDS,
    LISTENING_AT_PEER,
    NAME_A_ROW,
    PREFLIGHT,
    PREFLIGHT_AT_PEER,
    PREFLIGHT_ON,
    ROUTE,
    SHORTER,
    SWITCHES,
    UDP_OF_ROCE,
)
from rdmadiag.facts.attempt import Stage

ROWS: Final = (
    # --- before the device is touched ----------------------------------------------------
    Cause(
        "peer-not-started",
        "the other end was not started, or its own preflight kept it from coming",
        of=Of.PEER,
        linux=(AT_PEER, PREFLIGHT_AT_PEER, "# start it, within the time that this end waits"),
        darwin=(ASK_PEER, PREFLIGHT_AT_PEER, "# start it, within the time that this end waits"),
    ),
    Cause(
        "peer-address-wrong",
        "another address or TCP port than the one it listens on",
        {"listen": "it went to another address or TCP port"},
        linux=(LISTENING_AT_PEER, ROUTE, "# that address and port, at both ends: -p PORT"),
        darwin=(
            "ifconfig | grep 'inet '   # at the peer: its addresses",
            "netstat -an -p tcp | grep LISTEN   # at the peer: at which address and TCP port?",
        ),
    ),
    Cause(
        "peer-is-own-address",
        "the PEER that was given is an address of this host itself",
        {"two hosts": "two hosts have one address: a packet to the peer never leaves"},
        linux=(ADDRESSES, "# the PEER is an address of the other host"),
        darwin=("ifconfig | grep 'inet '   # on both: no address is of both",),
    ),
    Cause(
        "not-this-hosts-address",
        "no interface of this host has the address to listen at",
        linux=(ADDRESSES, "# listen at one of them: rping -s -a ADDRESS, rdma_server -s ADDRESS"),
        darwin=("ifconfig | grep 'inet '   # listen at one of these",),
    ),
    Cause(
        "tcp-port-taken",
        "another program listens at that TCP port: perhaps an earlier one",
        {"local-ports-few": "no local port is left to connect from"},
        named_by=("local-ports-few",),
        stages=frozenset({Stage.CONNECT}),
        linux=("sudo ss -tlnp   # who listens there?", "# or another port, at both ends: -p"),
        darwin=("sudo lsof -nP -iTCP -sTCP:LISTEN   # who listens there?",),
    ),
    Cause(
        "tcp-port-privileged",
        "the TCP port is one that root alone may listen at",
        linux=(
            "sysctl -n net.ipv4.ip_unprivileged_port_start   # below it root alone listens",
            "# a port from there on, at both ends: -p PORT",
        ),
        darwin=("# a port from 1024 on, at both ends",),
    ),
    Cause(
        "firewall-rejects",
        "perhaps a firewall that rejects the connection",
        of=Of.WAY,
        linux=(
            FIREWALL,
            "sudo firewall-cmd --list-all   # firewalld: are its ports among them?",
            "# sudo firewall-cmd --add-port=PORT/tcp; until a reload, --permanent for good",
        ),
    ),
    Cause(
        "other-program",
        "another program listens there, or another version of this one",
        of=Of.BOTH,
        linux=(
            "sudo ss -tlnp   # at the peer: which program listens at that port?",
            "# the same program and version at both ends; or another port, at both: -p PORT",
        ),
        darwin=(
            "sudo lsof -nP -iTCP -sTCP:LISTEN   # at the peer: which program listens at that port?",
        ),
    ),
    Cause(
        "secrets-differ",
        "the two ends have different secrets, or only one has one",
        of=Of.BOTH,
        linux=(
            "sha256sum FILE   # of the secret, at both ends: the same?",
            "# the same at both ends: --secret-file, connAuthFile (BeeGFS), munge.key (Slurm)",
        ),
    ),
    Cause(
        "attempt-not-permitted",
        "a preflight found a reason against an attempt",
        {"peer_refused": "perhaps the peer's preflight does not permit an attempt"},
        linux=(
            PREFLIGHT_ON,
            PREFLIGHT_AT_PEER,
            "# mend what it names; --accept-risk CODE leaves one reason aside",
        ),
        darwin=(PREFLIGHT,),
    ),
    # --- what the ends agreed on ---------------------------------------------------------
    Cause(
        "link-layers-differ",
        "the devices are of two kinds: one of them is not the one meant",
        of=Of.BOTH,
        linux=(
            DEVICES_OF_BOTH,
            "# name it: -d DEVICE, NCCL_IB_HCA=DEVICE, UCX_NET_DEVICES=DEVICE:PORT",
        ),
    ),
    Cause(
        "gid-types-differ",
        "one end uses a RoCE v1 row of its GID table, the other a v2 row",
        of=Of.BOTH,
        linux=(
            "rdmadiag gids   # here and at the peer: which rows are RoCE v2?",
            NAME_A_ROW,
            "# rdma_cm: cma_roce_mode -d DEVICE -p PORT -m 2, at both ends",
        ),
    ),
    Cause(
        "gid-families-differ",
        "one end uses an IPv4 GID, the other an IPv6 GID",
        linux=(GIDS, "# at both ends a row of the same family: -g, of perftest -x"),
        of=Of.BOTH,
    ),
    Cause(
        "subnets-differ",
        "the two addresses are on different cables, rails or VLANs",
        of=Of.WAY,
        linux=(
            ADDRESSES,
            ROUTE,
            "# ports of one subnet: -d DEVICE, NCCL_IB_HCA=DEVICE, UCX_NET_DEVICES=DEVICE:PORT",
        ),
        darwin=("ifconfig | grep 'inet '   # at both ends: which are of one cable?",),
    ),
    Cause(
        "peer-address-unusable",
        "what the peer gives as its address is none of a port",
        of=Of.PEER,
        linux=("rdmadiag gids   # at the peer: which row did it give?", PREFLIGHT_AT_PEER),
    ),
    Cause(
        "qp-types-differ",
        "the ends were started with different queue pair types",
        linux=("# at both ends the same type: of perftest -c RC, UC or UD",),
        of=Of.BOTH,
    ),
    Cause(
        "arguments-differ",
        "the ends were started with different arguments: what must be the same is not",
        linux=("# both ends: the same program, of the same version, with the same options?",),
        darwin=("# both ends: the same program, of the same version, with the same options?",),
    ),
    Cause(
        "payloads-differ",
        "the ends were started with different payloads",
        of=Of.BOTH,
        linux=(
            "env | grep ^NCCL_   # of every rank: NCCL_ALGO, NCCL_PROTO the same?",
            "# the same size at both ends: -s BYTES; counts and types of a collective at all ranks",
        ),
    ),
    Cause(
        "iterations-differ",
        "the ends were started with different numbers of iterations",
        linux=("# at both ends the same number: -n",),
        of=Of.BOTH,
    ),
    Cause(
        "groups-differ",
        "the ends were started with different multicast groups",
        linux=(
            "ip maddress show   # at both ends: the groups that were joined",
            "# the same group at both ends: mckey -m ADDRESS, perftest -M MGID",
        ),
    ),
    # --- data ----------------------------------------------------------------------------
    Cause(
        "uc-reports-no-loss",
        "UC gives no error for a lost message: the path drops frames, or the peer has stopped",
        of=Of.WAY,
        linux=(
            COUNTERS,
            "# RC says which request was lost: perftest -c RC, ibv_rc_pingpong",
            AT_PEER,
        ),
    ),
    Cause(
        "ud-reports-no-loss",
        "UD gives no error for a lost datagram: the path drops frames, or the peer has stopped",
        of=Of.WAY,
        linux=(
            COUNTERS,
            "grep -H . /sys/class/infiniband/*/ports/*/hw_counters/out_of_buffer",
            "# it grows at the peer: no receive was posted there (mlx5)",
            "# RC says which request was lost: perftest -c RC, ibv_rc_pingpong",
            AT_PEER,
        ),
    ),
    Cause(
        "multicast-not-forwarded",
        "a switch on the way does not forward the group: IGMP or MLD snooping without a querier, "
        "or the ends are in different subnets",
        linux=("ip maddress show", "# the switch: its groups, and a querier in the VLAN"),
    ),
    # Soft RoCE and NICs alike: IANA's port of RoCE v2, IBTA Annex A17
    Cause(
        "roce-port-dropped",
        "RoCE v2 (UDP port 4791) does not get through, where TCP does: a firewall or an ACL",
        {
            "from here": "RoCE v2 (UDP port 4791) does not get from this host to the peer, where "
            "TCP does: a firewall or an ACL",
            "to here": "RoCE v2 (UDP port 4791) does not get from the peer to this host, where "
            "TCP does: a firewall or an ACL",
            "from here and perhaps back": "RoCE v2 (UDP port 4791) does not get from this host "
            "to the peer, perhaps neither way, where TCP does: a firewall or an ACL",
            "to here and perhaps back": "RoCE v2 (UDP port 4791) does not get from the peer to "
            "this host, perhaps neither way, where TCP does: a firewall or an ACL",
        },
        of=Of.WAY,
        linux=(UDP_OF_ROCE, SWITCHES),
    ),
    # ml-explore/mlx#3910, #4278; exo PR#2160; TN3205 and JACCL: the MTU must match
    Cause(
        "cables-mixed-up",
        "each end named another of several cables",
        darwin=(
            "system_profiler SPThunderboltDataType   # who is at which cable?",
            "route -n get {target}   # by the interface of this port?",
        ),
    ),
    Cause(
        "memory-fault",
        "perhaps a fault of memory, of the PCIe path or of the IOMMU",
        linux=(
            "sudo dmesg -T | grep -iE 'EDAC|Hardware Error|AER|DMAR|AMD-Vi'",
            "grep -H . /sys/devices/system/edac/mc/mc*/?e_count   # ue: uncorrected errors",
            "sudo lspci -vvv | grep -E 'LnkSta|UESta'",
            "nvidia-smi -q -d ECC   # of GPU memory",
        ),
    ),
    Cause(
        "foreign-sender",
        "perhaps another queue pair sent to this one",
        linux=(
            "rdma res show qp   # while it runs: whose rqpn is the lqpn of this queue pair?",
            "# both ends make their queue pairs anew, with other PSNs",
        ),
    ),
    # --- the end -------------------------------------------------------------------------
    Cause(
        "deadline-short",
        "the deadline was too short for so many round trips",
        linux=("ping -c 10 {target}   # how long is a round trip?", SHORTER),
    ),
    Cause(
        "slow-path",
        "perhaps a slow path, or a busy host",
        of=Of.WAY,
        linux=(
            COUNTERS,
            "sudo lspci -vvv | grep -E 'LnkCap:|LnkSta:'   # slower or narrower than it can be?",
            "rdmadiag topology   # is the adapter near the CPU and GPU that use it?",
            "uptime   # is the host busy?",
        ),
    ),
    Cause(
        "failed-at-peer",
        "what failed is at the peer; this end was only notified of it",
        of=Of.PEER,
        linux=(AT_PEER, "rdmadiag explain --log FILE   # with what the peer printed"),
    ),
    Cause(
        "peer-host-down",
        "the peer's host or its network went down",
        of=Of.PEER,
        linux=(
            "ping -c 1 {target}   # does it answer?",
            "ip neigh show {target}   # FAILED, INCOMPLETE: not on the link",
            "# its console or BMC; after it is up, start both ends again",
        ),
    ),
    Cause(
        "only-teardown",
        "the data had arrived: only putting things back failed",
        linux=(
            "rdma res   # was anything left behind?",
            "# the data is good; if nothing is left behind, there is nothing to mend",
        ),
    ),
    Cause(
        "interrupted",
        "a signal, or the end of the command that had started it",
        linux=(
            "sudo dmesg -T | grep -iE 'out of memory|killed process'",
            "sacct -j JOBID --format=State,ExitCode,Elapsed,Timelimit   # Slurm: out of time?",
            "kubectl describe pod POD | tail -20   # Kubernetes: evicted?",
        ),
        darwin=("# who ended it: a signal, a limit of time, or the command that had started it",),
    ),
)
