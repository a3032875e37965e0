"""What was found, by source. Nothing here is derived."""

from typing import TYPE_CHECKING, Any, Final

from rdmadiag.facts import (
    NOT_IN_RECORD,
    Missing,
    NetDevFacts,
    NldevFacts,
    ProcessFacts,
    SysfsFacts,
    Why,
)
from rdmadiag.frozen import dataclass

if TYPE_CHECKING:  # Linux commands that need neither do not pay for their classes
    from rdmadiag.facts.dcb import DcbFacts
    from rdmadiag.facts.devlink import DevlinkFacts
    from rdmadiag.facts.ethtool import EthtoolFacts
    from rdmadiag.facts.kernel_log import KernelLogFacts
    from rdmadiag.facts.libraries import LibrariesFacts
    from rdmadiag.facts.macos import (
        LogFacts,
        MacNetworkFacts,
        MacosFacts,
        RegistryFacts,
        ThunderboltFacts,
    )
    from rdmadiag.facts.modules import ModuleFacts
    from rdmadiag.facts.naming import NamingFacts
    from rdmadiag.facts.pci import PciFacts
    from rdmadiag.facts.programs import ProgramFacts
    from rdmadiag.facts.routing import RoutingFacts
    from rdmadiag.facts.system import SystemFacts
    from rdmadiag.facts.topology import TopologyFacts
    from rdmadiag.facts.verbs import VerbsFacts
    from rdmadiag.facts.vfs import VfFacts

NOT_COLLECTED: Final = Missing(Why.NOT_COLLECTED, "not asked for")
NO_OPTION: Final = Missing(Why.NOT_COLLECTED, "no option asks for it")
LINUX_ONLY: Final = Missing(Why.UNSUPPORTED, "Linux only")
NOT_ON_MACOS: Final = Missing(Why.UNSUPPORTED, "on macOS")
MACOS_ONLY: Final = Missing(Why.UNSUPPORTED, "macOS only")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One field a source; a source that gave nothing is a Missing with the reason."""

    sysfs: SysfsFacts | Missing = NOT_COLLECTED
    nldev: NldevFacts | Missing = NOT_COLLECTED
    netdev: NetDevFacts | Missing = NOT_COLLECTED
    process: ProcessFacts | Missing = NOT_COLLECTED
    system: "SystemFacts | Missing" = NOT_COLLECTED
    verbs: "VerbsFacts | Missing" = NOT_COLLECTED
    kernel_log: "KernelLogFacts | Missing" = NOT_COLLECTED
    routing: "RoutingFacts | Missing" = NOT_IN_RECORD
    dcb: "DcbFacts | Missing" = NOT_IN_RECORD
    vfs: "VfFacts | Missing" = NOT_IN_RECORD
    topology: "TopologyFacts | Missing" = NOT_IN_RECORD
    ethtool: "EthtoolFacts | Missing" = NOT_IN_RECORD
    devlink: "DevlinkFacts | Missing" = NOT_IN_RECORD
    pci: "PciFacts | Missing" = NOT_IN_RECORD
    naming: "NamingFacts | Missing" = NOT_IN_RECORD
    programs: "ProgramFacts | Missing" = NOT_IN_RECORD
    libraries: "LibrariesFacts | Missing" = NO_OPTION
    modules: "ModuleFacts | Missing" = NO_OPTION
    macos: "MacosFacts | Missing" = MACOS_ONLY
    ioreg: "RegistryFacts | Missing" = MACOS_ONLY
    thunderbolt: "ThunderboltFacts | Missing" = MACOS_ONLY
    mac_network: "MacNetworkFacts | Missing" = MACOS_ONLY
    mac_log: "LogFacts | Missing" = MACOS_ONLY

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Imports what the annotations name: where a report is read back, and described."""
        from rdmadiag.facts import (
            dcb,
            devlink,
            ethtool,
            kernel_log,
            libraries,
            macos,
            modules,
            naming,
            pci,
            programs,
            routing,
            system,
            topology,
            verbs,
            vfs,
        )

        rooms = (
            *(dcb, devlink, ethtool, kernel_log, libraries, macos, modules, naming, pci),
            *(programs, routing, system, topology, verbs, vfs),
        )
        for module in rooms:
            names = (name for name in vars(module) if name.endswith("Facts"))
            globals().update((name, vars(module)[name]) for name in names)
        return handler(source)

    @property
    def missing(self) -> "dict[str, Missing]":
        """The sources that gave nothing, each with the reason; sysfs also where no list of
        devices could be read. Without those that only an option asks for, and none did.
        """
        found = {name: getattr(self, name) for name in self.__dataclass_fields__}
        found = {name: value for name, value in found.items() if value != NO_OPTION}
        if not isinstance(self.sysfs, Missing) and isinstance(self.sysfs.devices, Missing):
            found["sysfs"] = self.sysfs.devices
        return {name: value for name, value in found.items() if isinstance(value, Missing)}

    @property
    def is_mac(self) -> bool:
        """Whether the sources of Linux do not exist on this host."""
        return self.sysfs == LINUX_ONLY


LINUX_SOURCES: Final = (
    "sysfs",
    "nldev",
    "netdev",
    "process",
    "system",
    "verbs",
    "kernel_log",
    "routing",
    "dcb",
    "vfs",
    "topology",
    "ethtool",
    "devlink",
    "pci",
    "naming",
    "programs",
)
MACOS_SOURCES: Final = ("macos", "ioreg", "thunderbolt", "mac_network", "verbs", "mac_log")
"""The sources that each system has, in the order that reports show them; without those that only
an option asks for."""
