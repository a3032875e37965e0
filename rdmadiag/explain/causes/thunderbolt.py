"""Causes on a Mac: Thunderbolt, its driver, macOS."""

from typing import Final

from rdmadiag.explain.causes.cause import OPENING, PATH, Cause, Used
from rdmadiag.explain.remedies import (
    DEVICES,
    HOLDERS,
    IN_BRIDGE,
    LOCAL_NETWORK,
    MAC_ADDRESS,
    NO_REPEAT,
    PREFLIGHT,
    RDMA_CTL,
    REBOOT,
    THUNDERBOLT_SPEED,
)
from rdmadiag.explain.remedies import PATH as LOOK_AT_PATH
from rdmadiag.facts.attempt import Stage

_REPLUG: Final = (
    "# else unplug the cable, wait ten seconds, plug it in, and look once: rdmadiag preflight"
)
_ROUTE: Final = LOOK_AT_PATH["darwin"][:2]
_HERE_OR_THERE: Final = "the port is a member of a bridge on this host or on the peer"

ROWS: Final = (
    Cause(
        "address-absent",
        "this Mac does not have that address",
        darwin=(
            "ifconfig | grep 'inet '   # the addresses of this Mac",
            "ifconfig bridge0 | grep member   # a member has no address of its own",
        ),
    ),
    Cause(
        "driver-wedged",
        "perhaps the driver is wedged: only a replug or a reboot has helped",
        {"hang": "the driver is wedged: each further program that opens the device hangs too"},
        darwin=(
            "# start no other RDMA program: it would hang too, and make it worse",
            IN_BRIDGE,
            "# if it is: no replug, which wedges the driver as well, but a reboot",
            _REPLUG,
            "sudo shutdown -r now   # if it still hangs; nothing less has helped",
        ),
        confirmed_by=("provider-wedged",),
    ),
    Cause(
        "gid-index-0",
        "GID index 0 was used",
        darwin=(*_ROUTE, NO_REPEAT, *MAC_ADDRESS),
        excluded_by=(Used.INDEX_NOT_0,),
    ),
    Cause(
        "local-network-privacy",
        "macOS keeps this program from the local network: Privacy & Security",
        darwin=(LOCAL_NETWORK,),
    ),
    Cause(
        "mac-slept",
        "perhaps this Mac slept: TN3205 says to disable it",
        confirmed_by=("sleep-enabled",),
        darwin=("pmset -g | grep sleep   # 0: it does not", "# sudo pmset -a sleep 0"),
    ),
    Cause(
        "no-ipv4-gid",
        "the port has no IPv4 GID, or the index names another entry",
        darwin=(*MAC_ADDRESS, NO_REPEAT, *_ROUTE),
        excluded_by=(Used.IPV4_GID,),
        named_by=("no-ipv4-gid", "ipv4-gid-not-index-1"),
        stages=PATH,
    ),
    Cause(
        "port-in-bridge",
        "the port is a member of a bridge on this host",
        {"errno 22": _HERE_OR_THERE, "no-ipv4-gid": _HERE_OR_THERE},
        named_by=("port-in-bridge",),
        stages=PATH,
        darwin=(
            IN_BRIDGE,
            "# Settings, Network, Thunderbolt Bridge: Make Inactive; it then needs an address",
            NO_REPEAT,
            *MAC_ADDRESS[:2],
        ),
    ),
    Cause(
        "rc-on-thunderbolt",
        "an RC queue pair: Thunderbolt has UC alone",
        excluded_by=(Used.UC,),
        darwin=("# leave --qp rc out: Thunderbolt has UC alone",),
    ),
    Cause(
        "rdma-disabled",
        "RDMA is switched off, or this macOS is older than 26.2",
        darwin=(RDMA_CTL, "ibv_devices", PREFLIGHT),
        confirmed_by=("macos-too-old",),
        named_by=("rdma-disabled",),
        stages=OPENING,
    ),
    Cause(
        "shared-subnet",
        "no route to the peer by that interface: several cables share a subnet",
        excluded_by=(Used.ONE_PORT,),
        named_by=("shared-subnet",),
        stages=PATH,
        darwin=(
            "ifconfig | grep 'inet '   # two interfaces in one subnet?",
            *_ROUTE,
            "# a subnet of its own for every cable: rdmadiag explain shared-subnet",
        ),
    ),
    Cause(
        "stale-queue-pairs",
        "queue pairs of programs that ended are still held: reboot",
        darwin=(NO_REPEAT, HOLDERS, REBOOT),
        confirmed_by=("queue-pairs-exhausted", "resources-without-owner"),
    ),
    Cause(
        "thunderbolt-4",
        "the hardware is Thunderbolt 4, which has no RDMA",
        {"alloc_pd": "the hardware is Thunderbolt 4, where RDMA is enabled and does not work"},
        darwin=(THUNDERBOLT_SPEED,),
        named_by=("thunderbolt-4",),
        stages=frozenset({Stage.OPEN, Stage.ALLOC_PD, Stage.REG_MR}),
    ),
    Cause(
        "thunderbolt-loopback",
        "perhaps a Thunderbolt port does not reach itself: name two with --device, or a peer",
        darwin=(DEVICES,),
    ),
    Cause(
        "wedged-after",
        "it has followed failed RTRs, idle hours, and a replug while a bridge held the port",
        darwin=(IN_BRIDGE, "# if it is: no replug, which wedges the driver as well, but a reboot"),
    ),
)
