"""What devlink shows of the device below an RDMA device: linux/devlink.h."""

from rdmadiag.facts import Missing
from rdmadiag.facts.dumped import WithNumbers
from rdmadiag.facts.ib import Numbered
from rdmadiag.frozen import dataclass


class ReporterState(Numbered):
    """DEVLINK_HEALTH_REPORTER_STATE_* of net/devlink.h."""

    HEALTHY = "healthy", 0
    ERROR = "error", 1


class EswitchMode(Numbered):
    """DEVLINK_ESWITCH_MODE_*."""

    LEGACY = "legacy", 0
    SWITCHDEV = "switchdev", 1
    SWITCHDEV_INACTIVE = "switchdev_inactive", 2


class ParamMode(Numbered):
    """DEVLINK_PARAM_CMODE_*: from when on a value counts."""

    RUNTIME = "runtime", 0
    DRIVERINIT = "driverinit", 1
    PERMANENT = "permanent", 2


@dataclass(frozen=True, slots=True)
class Reporter(WithNumbers):
    """DEVLINK_ATTR_HEALTH_REPORTER; it is listed, never dumped or diagnosed."""

    name: str  # "fw", "fw_fatal", "tx", "rx"
    port: int | None  # DEVLINK_ATTR_PORT_INDEX
    state: ReporterState | Missing
    errors: int | Missing  # DEVLINK_ATTR_HEALTH_REPORTER_ERR_COUNT
    recoveries: int | Missing  # DEVLINK_ATTR_HEALTH_REPORTER_RECOVER_COUNT


@dataclass(frozen=True, slots=True)
class Version:
    """One of DEVLINK_ATTR_INFO_VERSION_*."""

    name: str  # "fw.version", "fw.psid"
    value: str


@dataclass(frozen=True, slots=True)
class Info:
    """DEVLINK_CMD_INFO_GET; without its serial numbers."""

    driver: str | Missing  # DEVLINK_ATTR_INFO_DRIVER_NAME
    fixed: tuple[Version, ...]
    running: tuple[Version, ...]
    stored: tuple[Version, ...]  # what runs after the next reset


@dataclass(frozen=True, slots=True)
class ParamValue(WithNumbers):
    """One of DEVLINK_ATTR_PARAM_VALUES_LIST, of a parameter that is on or off."""

    mode: ParamMode | Missing
    on: bool


@dataclass(frozen=True, slots=True)
class DevlinkDevice(WithNumbers):
    """One devlink device: a PCI function, a subfunction."""

    bus: str  # "pci", "auxiliary"
    name: str  # "0000:08:00.0", "mlx5_core.sf.2"
    devices: tuple[str, ...]  # RDMA devices on it, or on a netdev of it (rxe, siw)
    reporters: tuple[Reporter, ...] | Missing
    info: Info | Missing
    enable_roce: tuple[ParamValue, ...] | Missing
    enable_iwarp: tuple[ParamValue, ...] | Missing
    eswitch: EswitchMode | Missing


@dataclass(frozen=True, slots=True)
class DevlinkFacts:
    """The devlink devices below RDMA devices."""

    devices: tuple[DevlinkDevice, ...]

    def below(self, device: str) -> DevlinkDevice | None:
        """That of an RDMA device, if it has one."""
        return next((each for each in self.devices if device in each.devices), None)
