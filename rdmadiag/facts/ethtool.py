"""Links of the netdevs below RDMA ports, as ethtool shows them: linux/ethtool_netlink.h.

What a driver leaves out of a message is a Missing, and a message that it refuses is one as a
whole: unsupported is never "off".
"""

from typing import Final

from rdmadiag.facts import Missing
from rdmadiag.facts.dumped import WithNumbers
from rdmadiag.facts.ib import Numbered
from rdmadiag.frozen import dataclass


class ExtendedState(Numbered):
    """ETHTOOL_LINK_EXT_STATE_*: why a link is down."""

    AUTONEG = "autoneg", 0
    LINK_TRAINING_FAILURE = "link_training_failure", 1
    LINK_LOGICAL_MISMATCH = "link_logical_mismatch", 2
    BAD_SIGNAL_INTEGRITY = "bad_signal_integrity", 3
    NO_CABLE = "no_cable", 4
    CABLE_ISSUE = "cable_issue", 5
    EEPROM_ISSUE = "eeprom_issue", 6
    CALIBRATION_FAILURE = "calibration_failure", 7
    POWER_BUDGET_EXCEEDED = "power_budget_exceeded", 8
    OVERHEAT = "overheat", 9
    MODULE = "module", 10


SUBSTATES: Final[dict[ExtendedState, tuple[str, ...]]] = {
    ExtendedState.AUTONEG: (
        "no_partner_detected",
        "ack_not_received",
        "next_page_exchange_failed",
        "no_partner_detected_force_mode",
        "fec_mismatch_during_override",
        "no_hcd",  # highest common denominator
    ),
    ExtendedState.LINK_TRAINING_FAILURE: (
        "kr_frame_lock_not_acquired",
        "kr_link_inhibit_timeout",
        "kr_link_partner_did_not_set_receiver_ready",
        "remote_fault",
    ),
    ExtendedState.LINK_LOGICAL_MISMATCH: (
        "pcs_did_not_acquire_block_lock",
        "pcs_did_not_acquire_am_lock",
        "pcs_did_not_get_align_status",
        "fc_fec_is_not_locked",
        "rs_fec_is_not_locked",
    ),
    ExtendedState.BAD_SIGNAL_INTEGRITY: (
        "large_number_of_physical_errors",
        "unsupported_rate",
        "serdes_reference_clock_lost",
        "serdes_alos",  # no signal from the other end
    ),
    ExtendedState.CABLE_ISSUE: ("unsupported_cable", "cable_test_failure"),
    ExtendedState.MODULE: ("cmis_not_ready",),
}
"""ETHTOOL_LINK_EXT_SUBSTATE_*, from 1 on."""


class Duplex(Numbered):
    """DUPLEX_*."""

    HALF = "half", 0
    FULL = "full", 1


class Fec(Numbered):
    """ETHTOOL_LINK_MODE_FEC_*_BIT: forward error correction."""

    OFF = "off", 49
    RS = "rs", 50
    BASER = "baser", 51
    LLRS = "llrs", 74


@dataclass(frozen=True, slots=True)
class LinkState(WithNumbers):
    """ETHTOOL_MSG_LINKSTATE_GET."""

    up: bool | Missing  # ETHTOOL_A_LINKSTATE_LINK
    extended: ExtendedState | Missing  # ETHTOOL_A_LINKSTATE_EXT_STATE; of a link that is down
    substate: str | Missing  # ETHTOOL_A_LINKSTATE_EXT_SUBSTATE
    substate_number: int | None
    down_count: int | Missing  # ETHTOOL_A_LINKSTATE_EXT_DOWN_CNT: physical losses of the link


@dataclass(frozen=True, slots=True)
class LinkModes(WithNumbers):
    """ETHTOOL_MSG_LINKMODES_GET; modes by the kernel's names: "100000baseCR4/Full", "Autoneg"."""

    autoneg: bool | Missing  # ETHTOOL_A_LINKMODES_AUTONEG
    supported: tuple[str, ...] | Missing  # ETHTOOL_A_LINKMODES_OURS
    advertised: tuple[str, ...] | Missing  # those of ETHTOOL_A_LINKMODES_OURS that are set
    peer: tuple[str, ...] | Missing  # ETHTOOL_A_LINKMODES_PEER
    speed_mbps: int | Missing  # ETHTOOL_A_LINKMODES_SPEED
    duplex: Duplex | Missing  # ETHTOOL_A_LINKMODES_DUPLEX
    lanes: int | Missing  # ETHTOOL_A_LINKMODES_LANES


@dataclass(frozen=True, slots=True)
class Pause:
    """ETHTOOL_MSG_PAUSE_GET: pause frames for the whole link."""

    autoneg: bool | Missing
    rx: bool | Missing
    tx: bool | Missing


@dataclass(frozen=True, slots=True)
class FecState(WithNumbers):
    """ETHTOOL_MSG_FEC_GET without statistics."""

    auto: bool | Missing  # ETHTOOL_A_FEC_AUTO
    modes: tuple[Fec | Missing, ...] | Missing  # ETHTOOL_A_FEC_MODES: those that are set
    active: Fec | Missing  # ETHTOOL_A_FEC_ACTIVE


@dataclass(frozen=True, slots=True)
class Rings:
    """ETHTOOL_MSG_RINGS_GET: descriptors in each queue."""

    rx: int | Missing
    tx: int | Missing
    rx_max: int | Missing
    tx_max: int | Missing


@dataclass(frozen=True, slots=True)
class NetdevEthtool:
    """One netdev."""

    netdev: str
    link: LinkState | Missing
    modes: LinkModes | Missing
    pause: Pause | Missing
    fec: FecState | Missing
    rings: Rings | Missing


@dataclass(frozen=True, slots=True)
class EthtoolFacts:
    """The netdevs of RDMA ports, and the other legs of the bonds that these are in."""

    netdevs: tuple[NetdevEthtool, ...]

    def netdev(self, name: str) -> NetdevEthtool | None:
        """That of this name, if it was looked at."""
        return next((each for each in self.netdevs if each.netdev == name), None)
