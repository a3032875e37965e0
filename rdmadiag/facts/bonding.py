"""Bonds as the kernel's driver has them: mode, and what each leg does. linux/if_bonding.h.

The words of modes, policies and states are those of `ip -d link`.
"""

from rdmadiag.facts import Missing
from rdmadiag.facts.dumped import WithNumbers
from rdmadiag.facts.ib import Numbered
from rdmadiag.frozen import dataclass


class BondMode(Numbered):
    """BOND_MODE_*."""

    ROUND_ROBIN = "balance-rr", 0
    ACTIVE_BACKUP = "active-backup", 1
    XOR = "balance-xor", 2
    BROADCAST = "broadcast", 3
    LACP = "802.3ad", 4
    TLB = "balance-tlb", 5
    ALB = "balance-alb", 6


class HashPolicy(Numbered):
    """BOND_XMIT_POLICY_*: what of a packet decides on its leg."""

    LAYER2 = "layer2", 0
    LAYER34 = "layer3+4", 1
    LAYER23 = "layer2+3", 2
    ENCAP23 = "encap2+3", 3
    ENCAP34 = "encap3+4", 4
    VLAN_MAC = "vlan+srcmac", 5


class LegState(Numbered):
    """BOND_STATE_*: whether the bond sends and receives by this leg."""

    ACTIVE = "active", 0
    BACKUP = "backup", 1


class MiiStatus(Numbered):
    """BOND_LINK_*: the link by the bond's own monitor, MII or ARP."""

    UP = "up", 0
    GOING_DOWN = "going_down", 1  # down, and `downdelay` has not passed
    DOWN = "down", 2
    GOING_BACK = "going_back", 3  # up, and `updelay` has not passed


class Churn(Numbered):
    """churn_state_t of net/bond_3ad.h: whether LACP came to an agreement."""

    MONITORING = "monitoring", 0  # not yet
    CHURNED = "churned", 1  # not within 60 s
    NONE = "none", 2


@dataclass(frozen=True, slots=True)
class Leg(WithNumbers):
    """IFLA_INFO_SLAVE_DATA; what only 802.3ad has is absent of others."""

    netdev: str
    state: LegState | Missing  # IFLA_BOND_SLAVE_STATE
    mii: MiiStatus | Missing  # IFLA_BOND_SLAVE_MII_STATUS
    failures: int | Missing  # IFLA_BOND_SLAVE_LINK_FAILURE_COUNT
    aggregator: int | Missing  # IFLA_BOND_SLAVE_AD_AGGREGATOR_ID
    actor_state: int | Missing  # IFLA_BOND_SLAVE_AD_ACTOR_OPER_PORT_STATE: LACP_STATE_*
    partner_state: int | Missing  # IFLA_BOND_SLAVE_AD_PARTNER_OPER_PORT_STATE
    actor_churn: Churn | Missing  # IFLA_BOND_SLAVE_AD_CHURN_*, else /proc/self/net/bonding/NAME
    partner_churn: Churn | Missing
    partner_mac: str | Missing  # "details partner lacp pdu" of that file, for CAP_NET_ADMIN alone


@dataclass(frozen=True, slots=True)
class Bonding(WithNumbers):
    """IFLA_INFO_DATA of a bond, and its legs in this namespace."""

    netdev: str
    mode: BondMode | Missing  # IFLA_BOND_MODE
    hash_policy: HashPolicy | Missing  # IFLA_BOND_XMIT_HASH_POLICY
    aggregator: int | Missing  # IFLA_BOND_AD_INFO_AGGREGATOR: the one in use, of 802.3ad
    partner_mac: str | Missing  # IFLA_BOND_AD_INFO_PARTNER_MAC: its switch
    legs: tuple[Leg, ...]
