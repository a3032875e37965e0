"""Every source, one row each: on which system, what reads it, and what the reader needs."""

from typing import TYPE_CHECKING, Final

from rdmadiag.frozen import dataclass

if TYPE_CHECKING:
    from rdmadiag.facts.counters import Spared, Wanted
    from rdmadiag.facts.job import AskedJob, WantedSample
    from rdmadiag.facts.routing import Asked


@dataclass(frozen=True, slots=True)
class Depth:
    """How far sources look; None is the source's own default."""

    log_last: str | None = None  # how far back in the log: "1m", "2h"
    log_lines: int | None = None
    pid: int | None = None  # whose limits to read, and its ancestors'; None: our parent's
    gid_rows: int | None = None  # of each port, where each one costs a call of the library
    wanted: "Wanted | None" = None  # whose counters are read
    spared: "Spared | None" = None  # counters that an earlier sample was refused
    asked: "tuple[Asked, ...] | None" = None  # ways that the kernel is queried for
    modules: bool | None = None  # whether transceivers are read
    job: "AskedJob | None" = None  # whose processes are looked at
    sampled: "WantedSample | None" = None  # whose bytes are counted


DEFAULT: Final = Depth()


@dataclass(frozen=True, slots=True)
class Source:
    """A row of the table."""

    name: str  # the field of Evidence, or what a snapshot's meta.json calls it
    platform: str  # "linux", "darwin"
    reader: str  # module:function below rdmadiag.sources, called with a host and `takes`
    takes: tuple[str, ...] = ()  # keyword arguments: "deadline", fields of Depth
    before_fork: bool = False  # its imports are those of others too: paid once, not in each child
    last: bool = False  # after the others: see `run.in_order`
    surrounds: bool = False  # what is around devices: rules want it, a list of devices does not
    cheap: bool = False  # enough for GID tables
    only_with: str | None = None  # the field of Depth, an option's, without which it is not read


SOURCES: Final = (
    Source("sysfs", "linux", "sysfs:read_sysfs", before_fork=True, cheap=True),
    Source("nldev", "linux", "nldev:read_nldev", ("deadline",), before_fork=True),
    Source("netdev", "linux", "netdev:read_netdevs", ("deadline",)),
    Source("process", "linux", "process:read_process", before_fork=True, cheap=True),
    Source("system", "linux", "system:read_system", ("pid",), before_fork=True, surrounds=True),
    Source("verbs", "linux", "verbs:read_verbs", ("deadline", "gid_rows")),
    Source(
        "kernel_log",
        "linux",
        "kernel_log:read_kernel_log",
        ("deadline", "log_last", "log_lines"),
        surrounds=True,
    ),
    Source(
        "routing", "linux", "routing:read_routing", ("deadline",), before_fork=True, surrounds=True
    ),
    Source("dcb", "linux", "dcb:read_dcb", ("deadline",), before_fork=True, surrounds=True),
    Source("vfs", "linux", "vfs:read_vfs", ("deadline",), before_fork=True, surrounds=True),
    Source("topology", "linux", "topology:read_topology", before_fork=True, surrounds=True),
    Source(
        "ethtool", "linux", "ethtool:read_ethtool", ("deadline",), before_fork=True, surrounds=True
    ),
    Source(
        "devlink", "linux", "devlink:read_devlink", ("deadline",), before_fork=True, surrounds=True
    ),
    Source("pci", "linux", "pci:read_pci", before_fork=True, surrounds=True),
    Source("naming", "linux", "naming:read_naming", before_fork=True, surrounds=True),
    Source(
        "programs",
        "linux",
        "programs:read_programs",
        ("deadline",),
        before_fork=True,
        surrounds=True,
    ),
    Source(
        "libraries", "linux", "libraries:read_libraries", ("pid",), surrounds=True, only_with="pid"
    ),
    # I2C is slow on some firmware, and the kernel holds the lock of all netlink about links
    # meanwhile (ethnl_default_doit of net/ethtool/netlink.c).
    Source(
        "modules",
        "linux",
        "modules:read_modules",
        ("deadline",),
        last=True,
        surrounds=True,
        only_with="modules",
    ),
    Source("macos", "darwin", "macos:read_macos", ("deadline",)),
    Source("ioreg", "darwin", "ioreg:read_ioreg", ("deadline",)),
    Source("thunderbolt", "darwin", "thunderbolt:read_thunderbolt", ("deadline",)),
    Source("mac_network", "darwin", "mac_network:read_mac_network", ("deadline",)),
    Source("verbs", "darwin", "verbs:read_verbs", ("deadline", "gid_rows"), cheap=True),
    # A driver that is at rest logs nothing; the verbs query, which opens and closes a
    # context, makes a healthy one log.
    Source(
        "mac_log",
        "darwin",
        "mac_log:read_mac_log",
        ("deadline", "log_last", "log_lines"),
        last=True,
    ),
    # Of `counters`, `resources` and `snapshot` alone: reading these has a price.
    Source("counters", "linux", "counters:read_counters", ("deadline", "wanted", "spared")),
    Source(
        "netdev_counters",
        "linux",
        "netdev_counters:read_netdev_counters",
        ("deadline", "wanted", "spared"),
        before_fork=True,
    ),
    Source("resources", "linux", "resources:read_resources", ("deadline",)),
    # Of `route` and `snapshot` alone.
    Source("towards", "linux", "routing:read_towards", ("deadline", "asked")),
    # Of `job` alone.
    Source("job", "linux", "job:read_job", ("job",)),
    Source("job_sample", "linux", "job:read_job_sample", ("deadline", "sampled"), before_fork=True),
    Source("counters", "darwin", "mac_counters:read_mac_counters", ("deadline", "wanted")),
)

BY_NAME: Final = {(each.platform, each.name): each for each in SOURCES}
