"""Causes that only a pingpong of ours meets: what its two ends were started with."""

from typing import Final

from rdmadiag.explain.causes.cause import Cause

ROWS: Final = (
    # --- before the device is touched ----------------------------------------------------
    Cause(
        "peer-not-started",
        "the other end was not started, or its own preflight kept it from coming",
    ),
    Cause(
        "peer-address-wrong",
        "another address or TCP port than the one it listens on",
        {"listen": "it went to another address or TCP port"},
    ),
    Cause("other-program", "another program listens there, or another version of this one"),
    Cause("secrets-differ", "the two ends have different secrets, or only one has one"),
    Cause(
        "attempt-not-permitted",
        "a preflight found a reason against an attempt",
        {"peer_refused": "perhaps the peer's preflight does not permit an attempt"},
    ),
    # --- what the ends agreed on ---------------------------------------------------------
    Cause("link-layers-differ", "the devices are of two kinds: one of them is not the one meant"),
    Cause("gid-types-differ", "one end uses a RoCE v1 row of its GID table, the other a v2 row"),
    Cause("gid-families-differ", "one end uses an IPv4 GID, the other an IPv6 GID"),
    Cause("subnets-differ", "the two addresses are on different cables, rails or VLANs"),
    Cause("qp-types-differ", "the ends were started with different queue pair types"),
    Cause("payloads-differ", "the ends were started with different payloads"),
    Cause("iterations-differ", "the ends were started with different numbers of iterations"),
    # --- data ----------------------------------------------------------------------------
    Cause(
        "uc-reports-no-loss",
        "UC gives no error for a lost message: the path drops frames, or the peer has stopped",
    ),
    # ml-explore/mlx#3910, #4278; exo PR#2160; TN3205 and JACCL: the MTU must match
    Cause("cables-mixed-up", "each end named another of several cables"),
    Cause("memory-fault", "perhaps a fault of memory, of the PCIe path or of the IOMMU"),
    Cause("foreign-sender", "perhaps another queue pair sent to this one"),
    # --- the end -------------------------------------------------------------------------
    Cause("deadline-short", "the deadline was too short for so many round trips"),
    Cause("slow-path", "perhaps a slow path, or a busy host"),
    Cause("failed-at-peer", "what failed is at the peer; this end only heard of it"),
    Cause("peer-host-down", "the peer's host or its network went down"),
    Cause("only-teardown", "the data had arrived: only putting things back failed"),
    Cause("interrupted", "a signal, or the end of the command that had started it"),
)
