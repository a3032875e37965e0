"""What MLX's jaccl, exo and Apple's provider print."""

from typing import Final

from rdmadiag.explain.causes import remedy
from rdmadiag.explain.log.kind import Kind
from rdmadiag.explain.log.recognition.signs.sign import CRASH, Sign, sign
from rdmadiag.explain.remedies import (
    AT_PEER,
    CRASH_REPORTS,
    GIDS,
    LOCAL_NETWORK,
    MAC_LOG,
    ONLY_TCP,
    PREFLIGHT_ON,
    RDMA_CTL,
    THUNDERBOLT_SPEED,
)
from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.macos import MASK

_DISABLED: Final = ("rdma-disabled", "thunderbolt-4", "device-renamed")


def _tcp(errno: int, call: str, *labels: str) -> Sign:
    """A call of the sockets beside the queue pairs, by the number that mlx's tcp.cpp prints."""
    pattern = rf"\[jaccl\].{{0,40}}\b{call}\b.{{0,30}}\berror:? {errno}\b"
    return sign(
        "side-channel",
        Kind.FAILURE,
        Stage.CONNECT,
        pattern,
        labels,
        (ONLY_TCP, *remedy(labels[0], "darwin")),
        platform="darwin",
    )


SIGNS: Final = (
    sign(
        "no-ipv4-gid",
        Kind.FAILURE,
        Stage.RTR,
        r"No IPv4[- ]?(?:mapped )?GID",
        ("no-ipv4-gid", "port-in-bridge"),
        (
            GIDS,
            "ifconfig {netdev} | grep 'inet '",
            f"sudo ifconfig {{netdev}} inet {{subnet}}.1 netmask {MASK} alias",
            "# at the peer, with its name of the interface: .2; every cable has its own subnet",
        ),
        platform="darwin",
    ),
    sign(
        "rdma-disabled",
        Kind.FAILURE,
        Stage.OPEN,
        r"find device.{0,40}\(0 available\)",
        _DISABLED,
        (RDMA_CTL, PREFLIGHT_ON),
        platform="darwin",
    ),
    sign(
        "thunderbolt-4",
        Kind.FAILURE,
        Stage.OPEN,
        r"does(?: not|n't) support Thunderbolt 5",
        ("thunderbolt-4",),
        (THUNDERBOLT_SPEED,),
    ),
    sign(
        "provider-crash",
        Kind.FAILURE,
        Stage.DATA,
        r"tbt_post_(?:recv|send)",
        ("link-lost", "provider-fault"),
        (CRASH_REPORTS, PREFLIGHT_ON),
        only=CRASH,
    ),
    sign(
        "provider-crash",
        Kind.FAILURE,
        Stage.REG_MR,
        r"ibv_reg_mr",
        ("thunderbolt-4", "pd-exhausted"),
        (THUNDERBOLT_SPEED, RDMA_CTL),
        platform="darwin",
        only=CRASH,
    ),
    sign(
        "rdma-disabled",
        Kind.FAILURE,
        Stage.OPEN,
        r"RDMA (?:is )?(?:not enabled|disabled|switched off|not available)|rdma_ctl.*disabled",
        _DISABLED,
        (RDMA_CTL, PREFLIGHT_ON),
        platform="darwin",
    ),
    _tcp(48, r"bind", "tcp-port-taken"),
    _tcp(49, r"bind", "address-absent"),
    _tcp(61, r"connect", "peer-not-listening", "peer-not-started"),
    _tcp(65, r"connect", "local-network-privacy", "shared-subnet"),
    sign(
        "rdma-disabled",
        Kind.FAILURE,
        Stage.OPEN,
        r"\blibrary not loaded:.{0,80}\blibrdma\.dylib",
        ("rdma-disabled",),
        ("sw_vers   # librdma.dylib is of macOS 26.2 and newer", RDMA_CTL),
        platform="darwin",
    ),
    sign(
        "side-channel",
        Kind.FAILURE,
        Stage.CONNECT,
        r"\[jaccl\].{0,40}\b(?:connect|bind|listen|accept)\b.{0,30}(?:error|errno|fail)"
        r"|\[jaccl\].{0,20}(?:could ?n[o']t|fail\w* to) (?:connect|bind|listen|accept)\b",
        ("peer-gone",),
        (ONLY_TCP, AT_PEER, LOCAL_NETWORK),
        platform="darwin",
    ),
    sign(  # ibv_post_send and ibv_post_recv: mlx's rdma.h
        "post-failed",
        Kind.FAILURE,
        Stage.DATA,
        r"\[jaccl\] (?:Recv|Send) failed with error code",
        ("qp-error", "link-lost", "driver-wedged", "peer-gone"),
        (MAC_LOG, AT_PEER, PREFLIGHT_ON),
        platform="darwin",
    ),
    sign(  # TCP: mlx's tcp.cpp
        "side-channel-broken",
        Kind.FAILURE,
        Stage.CONNECT,
        r"\[jaccl\].{0,30}\b(?:Recv|Send|Receiv\w+|Sending)\b(?! failed with error code)"
        r".{0,20}(?:fail|error)",
        ("peer-gone", "driver-wedged"),
        (ONLY_TCP, AT_PEER, PREFLIGHT_ON),
        platform="darwin",
    ),
)
