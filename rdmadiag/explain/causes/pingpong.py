"""Causes that only a pingpong of ours meets: what its two ends were started with."""

from typing import Final

from rdmadiag.explain.causes.cause import Cause, Of
from rdmadiag.explain.remedies import GIDS
from rdmadiag.facts.attempt import Stage

ROWS: Final = (
    # --- before the device is touched ----------------------------------------------------
    Cause(
        "peer-not-started",
        "the other end was not started, or its own preflight kept it from coming",
        of=Of.PEER,
    ),
    Cause(
        "peer-address-wrong",
        "another address or TCP port than the one it listens on",
        {"listen": "it went to another address or TCP port"},
    ),
    Cause("peer-is-own-address", "the PEER that was given is an address of this host itself"),
    Cause("not-this-hosts-address", "no interface of this host has the address to listen at"),
    Cause(
        "tcp-port-taken",
        "another program listens at that TCP port: perhaps an earlier one",
        {"local-ports-few": "no local port is left to connect from"},
        named_by=("local-ports-few",),
        stages=frozenset({Stage.CONNECT}),
        linux=("sudo ss -tlnp   # who listens there?", "# or another port, at both ends: -p"),
    ),
    Cause("tcp-port-privileged", "the TCP port is one that root alone may listen at"),
    Cause("firewall-rejects", "perhaps a firewall that rejects the connection", of=Of.WAY),
    Cause(
        "other-program", "another program listens there, or another version of this one", of=Of.BOTH
    ),
    Cause("secrets-differ", "the two ends have different secrets, or only one has one", of=Of.BOTH),
    Cause(
        "attempt-not-permitted",
        "a preflight found a reason against an attempt",
        {"peer_refused": "perhaps the peer's preflight does not permit an attempt"},
    ),
    # --- what the ends agreed on ---------------------------------------------------------
    Cause(
        "link-layers-differ",
        "the devices are of two kinds: one of them is not the one meant",
        of=Of.BOTH,
    ),
    Cause(
        "gid-types-differ",
        "one end uses a RoCE v1 row of its GID table, the other a v2 row",
        of=Of.BOTH,
    ),
    Cause(
        "gid-families-differ",
        "one end uses an IPv4 GID, the other an IPv6 GID",
        linux=(GIDS, "# at both ends a row of the same family: -g, of perftest -x"),
        of=Of.BOTH,
    ),
    Cause("subnets-differ", "the two addresses are on different cables, rails or VLANs", of=Of.WAY),
    Cause(
        "peer-address-unusable", "what the peer gives as its address is none of a port", of=Of.PEER
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
    ),
    Cause("payloads-differ", "the ends were started with different payloads", of=Of.BOTH),
    Cause(
        "iterations-differ",
        "the ends were started with different numbers of iterations",
        linux=("# at both ends the same number: -n",),
        of=Of.BOTH,
    ),
    Cause("groups-differ", "the ends were started with different multicast groups"),
    # --- data ----------------------------------------------------------------------------
    Cause(
        "uc-reports-no-loss",
        "UC gives no error for a lost message: the path drops frames, or the peer has stopped",
        of=Of.WAY,
    ),
    Cause(
        "ud-reports-no-loss",
        "UD gives no error for a lost datagram: the path drops frames, or the peer has stopped",
        of=Of.WAY,
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
    ),
    # ml-explore/mlx#3910, #4278; exo PR#2160; TN3205 and JACCL: the MTU must match
    Cause("cables-mixed-up", "each end named another of several cables"),
    Cause("memory-fault", "perhaps a fault of memory, of the PCIe path or of the IOMMU"),
    Cause("foreign-sender", "perhaps another queue pair sent to this one"),
    # --- the end -------------------------------------------------------------------------
    Cause("deadline-short", "the deadline was too short for so many round trips"),
    Cause("slow-path", "perhaps a slow path, or a busy host", of=Of.WAY),
    Cause(
        "failed-at-peer", "what failed is at the peer; this end was only notified of it", of=Of.PEER
    ),
    Cause("peer-host-down", "the peer's host or its network went down", of=Of.PEER),
    Cause("only-teardown", "the data had arrived: only putting things back failed"),
    Cause("interrupted", "a signal, or the end of the command that had started it"),
)
