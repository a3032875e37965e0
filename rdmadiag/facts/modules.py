"""Transceivers and cables in the netdevs below RDMA ports, as their own memory describes them.

SFF-8636 (QSFP+, QSFP28), CMIS (QSFP-DD, OSFP), SFF-8472 (SFP+, SFP28); codes are SFF-8024's.
Serial numbers and dates are not read, as no other source reads any, nor are the flags that a
module latches: reading those clears them.
"""

from enum import StrEnum

from rdmadiag.facts import Missing
from rdmadiag.facts.dumped import WithNumbers
from rdmadiag.facts.ib import Numbered
from rdmadiag.frozen import dataclass


class Identifier(Numbered):
    """SFF-8024, table 4-1: what is plugged in."""

    SFP = "sfp", 0x03  # and SFP+, SFP28
    DWDM_SFP = "dwdm_sfp", 0x0B
    QSFP = "qsfp", 0x0C
    QSFP_PLUS = "qsfp_plus", 0x0D
    QSFP28 = "qsfp28", 0x11
    QSFP_DD = "qsfp_dd", 0x18
    OSFP = "osfp", 0x19
    SFP_DD = "sfp_dd", 0x1A
    DSFP = "dsfp", 0x1B
    QSFP_CMIS = "qsfp_cmis", 0x1E  # QSFP112 among them
    SFP_DD_CMIS = "sfp_dd_cmis", 0x1F
    SFP_CMIS = "sfp_cmis", 0x20


class Connector(Numbered):
    """SFF-8024, table 4-3."""

    SC = "sc", 0x01
    LC = "lc", 0x07
    MT_RJ = "mt_rj", 0x08
    PIGTAIL = "optical_pigtail", 0x0B
    MPO_1X12 = "mpo_1x12", 0x0C
    MPO_2X16 = "mpo_2x16", 0x0D
    COPPER_PIGTAIL = "copper_pigtail", 0x21
    RJ45 = "rj45", 0x22
    NONE = "no_separable_connector", 0x23
    MXC_2X16 = "mxc_2x16", 0x24
    CS = "cs", 0x25
    SN = "sn", 0x26
    MPO_2X12 = "mpo_2x12", 0x27
    MPO_1X16 = "mpo_1x16", 0x28


class Cable(StrEnum):
    """What carries the signal."""

    PASSIVE_COPPER = "passive_copper"  # without monitors
    ACTIVE_COPPER = "active_copper"
    ACTIVE_OPTICAL = "active_optical"  # a cable whose fibre cannot be unplugged
    OPTIC = "optic"  # a transceiver with a socket for fibre
    TWISTED_PAIR = "twisted_pair"


class ModuleState(Numbered):
    """CMIS 5, table 8-7: bits 3-1 of byte 3."""

    LOW_POWER = "low_power", 1
    POWERING_UP = "powering_up", 2
    READY = "ready", 3
    POWERING_DOWN = "powering_down", 4
    FAULT = "fault", 5


class PowerPolicy(Numbered):
    """ETHTOOL_MODULE_POWER_MODE_POLICY_*."""

    HIGH = "high", 1
    AUTO = "auto", 2  # high while the netdev is up


class PowerMode(Numbered):
    """ETHTOOL_MODULE_POWER_MODE_*."""

    LOW = "low", 1
    HIGH = "high", 2


@dataclass(frozen=True, slots=True)
class Power(WithNumbers):
    """ETHTOOL_MSG_MODULE_GET: what the driver says."""

    policy: PowerPolicy | Missing  # ETHTOOL_A_MODULE_POWER_MODE_POLICY
    mode: PowerMode | Missing  # ETHTOOL_A_MODULE_POWER_MODE


@dataclass(frozen=True, slots=True)
class Range:
    """What a monitor may read, by the module's own pages; in the monitor's unit."""

    low_alarm: float
    low_warning: float
    high_warning: float
    high_alarm: float


@dataclass(frozen=True, slots=True)
class Ranges:
    """Those of a module."""

    temperature_c: Range | Missing
    voltage_v: Range | Missing
    rx_power_mw: Range | Missing
    tx_power_mw: Range | Missing
    bias_ma: Range | Missing


@dataclass(frozen=True, slots=True)
class Lane:
    """One lane's monitors; 0 mW is less than 0.0001 mW."""

    number: int  # from 1
    transmits: bool | Missing  # whether its transmitter is on, as far as the module says
    rx_power_mw: float | Missing
    tx_power_mw: float | Missing
    bias_ma: float | Missing  # of its laser


@dataclass(frozen=True, slots=True)
class Module(WithNumbers):
    """What a module says of itself."""

    identifier: Identifier
    vendor: str | Missing
    part: str | Missing
    revision: str | Missing
    connector: Connector | Missing
    cable: Cable | Missing
    length_m: float | Missing  # of a cable
    reach_m: dict[str, int]  # of an optic, by fibre: "smf", "om4"
    state: ModuleState | Missing  # CMIS alone has one
    low_power: bool | Missing
    temperature_c: float | Missing
    voltage_v: float | Missing
    lanes: tuple[Lane, ...] | Missing
    ranges: Ranges | Missing


@dataclass(frozen=True, slots=True)
class NetdevModule:
    """One netdev."""

    netdev: str
    power: Power | Missing
    module: Module | Missing  # ETHTOOL_MSG_MODULE_EEPROM_GET
    uncorrectable_blocks: int | Missing  # since the driver was loaded: ETHTOOL_A_FEC_STAT_UNCORR


@dataclass(frozen=True, slots=True)
class ModuleFacts:
    """Those of the netdevs of RDMA ports, and of the other legs of the bonds that these are in."""

    netdevs: tuple[NetdevModule, ...]

    def netdev(self, name: str) -> NetdevModule | None:
        """That of this name, if it was looked at."""
        return next((each for each in self.netdevs if each.netdev == name), None)
