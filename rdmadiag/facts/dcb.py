"""Data Center Bridging of the netdevs below RDMA ports: what a NIC does with a packet's class.

linux/dcbnl.h: RTM_GETDCB with DCB_CMD_IEEE_GET. Eight priorities, eight traffic classes, eight
buffers; a tuple of eight has one number for each, in order.
"""

from rdmadiag.facts import Missing
from rdmadiag.facts.dumped import WithNumbers
from rdmadiag.facts.ib import Numbered
from rdmadiag.frozen import dataclass


class AppSelector(Numbered):
    """IEEE_8021QAZ_APP_SEL_*, DCB_APP_SEL_PCP: what the protocol of an APP entry is."""

    ETHERTYPE = "ethertype", 1
    STREAM = "stream_port", 2
    DATAGRAM = "datagram_port", 3
    ANY = "any_port", 4
    DSCP = "dscp", 5
    PCP = "pcp", 255


class Transmission(Numbered):
    """IEEE_8021QAZ_TSA_*: how a traffic class gets its turn."""

    STRICT = "strict", 0
    CREDIT_SHAPER = "credit_based_shaper", 1
    ETS = "ets", 2
    VENDOR = "vendor", 255


class Dcbx(Numbered):
    """DCB_CAP_DCBX_*: who negotiates with the switch, and in which version."""

    HOST = "host", 0x01
    FIRMWARE = "firmware", 0x02  # DCB_CAP_DCBX_LLD_MANAGED
    CEE = "cee", 0x04
    IEEE = "ieee", 0x08
    STATIC = "static", 0x10


class Trust(Numbered):
    """What of a packet decides on its priority."""

    PCP = "pcp", 1
    DSCP = "dscp", 2


@dataclass(frozen=True, slots=True)
class Pfc:
    """struct ieee_pfc: priority flow control."""

    capability: int  # pfc_cap: priorities that may have it at once
    enabled: tuple[int, ...]  # pfc_en: those that do
    delay: int  # bit times
    macsec_bypass: bool  # mbc


@dataclass(frozen=True, slots=True)
class Ets(WithNumbers):
    """struct ieee_ets: which traffic class each priority is in, and how classes share the link."""

    willing: bool
    capability: int  # ets_cap: traffic classes
    credit_shaper: bool  # cbs
    class_of: tuple[int, ...]  # prio_tc: by priority
    bandwidth_percent: tuple[int, ...]  # tc_tx_bw: by class
    transmission: tuple[Transmission | Missing, ...]  # tc_tsa: by class


@dataclass(frozen=True, slots=True)
class App(WithNumbers):
    """struct dcb_app: packets of this kind have this priority."""

    selector: AppSelector | Missing
    protocol: int  # a DSCP, an Ethertype, a port
    priority: int


@dataclass(frozen=True, slots=True)
class Buffers:
    """struct dcbnl_buffer: where received packets wait."""

    buffer_of: tuple[int, ...]  # prio2buffer: by priority
    bytes: tuple[int, ...]  # buffer_size: by buffer
    total_bytes: int  # total_size


@dataclass(frozen=True, slots=True)
class Ieee(WithNumbers):
    """DCB_ATTR_IEEE and DCB_ATTR_DCBX; unsupported: the driver does not give it."""

    pfc: Pfc | Missing  # DCB_ATTR_IEEE_PFC
    ets: Ets | Missing  # DCB_ATTR_IEEE_ETS
    apps: tuple[App, ...] | Missing  # DCB_ATTR_IEEE_APP_TABLE
    trust: tuple[AppSelector | Missing, ...] | Missing  # DCB_ATTR_DCB_APP_TRUST_TABLE, first wins
    buffers: Buffers | Missing  # DCB_ATTR_DCB_BUFFER
    dcbx: tuple[Dcbx, ...] | Missing  # DCB_ATTR_DCBX
    peer_pfc: Pfc | Missing  # DCB_ATTR_IEEE_PEER_PFC: what the switch says by DCBX
    peer_ets: Ets | Missing  # DCB_ATTR_IEEE_PEER_ETS
    peer_apps: tuple[App, ...] | Missing  # DCB_ATTR_IEEE_PEER_APP


@dataclass(frozen=True, slots=True)
class NetdevDcb(WithNumbers):
    """One netdev."""

    netdev: str
    ieee: Ieee | Missing
    trust: Trust | Missing  # /sys/class/net/NAME/qos/trust, of mlx5 as NVIDIA delivers it


@dataclass(frozen=True, slots=True)
class DcbFacts:
    """The netdevs of RDMA ports, and the other legs of the bonds that these are in."""

    netdevs: tuple[NetdevDcb, ...]

    def netdev(self, name: str) -> NetdevDcb | None:
        """That of this name, if it was looked at."""
        return next((each for each in self.netdevs if each.netdev == name), None)
