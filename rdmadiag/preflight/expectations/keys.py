"""What can be expected: every key of an expectations file, and how its value is written."""

import re
from collections.abc import Callable
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Final

from rdmadiag.facts.gid import Family
from rdmadiag.facts.ib import MTU_BYTES, GidType, LinkLayer, NetnsMode, PortState
from rdmadiag.facts.rdma_drivers import RDMA_MODULES
from rdmadiag.frozen import dataclass
from rdmadiag.late import late
from rdmadiag.nearest import instead

PATTERN_LIMIT: Final = 256  # characters
NUMBER_LIMIT: Final = 1 << 63


class Scope(StrEnum):
    """Of what it is expected."""

    HOST = "host"
    DEVICE = "device"
    PORT = "port"


class Relation(StrEnum):
    """How the value that is there is compared."""

    EQUAL = "equal"
    AT_LEAST = "at_least"
    LIKE = "like"  # a pattern with * and ?
    ALL_OF = "all_of"  # there may be others


@dataclass(frozen=True, slots=True)
class Want:
    """A value that is expected."""

    relation: Relation
    value: Any  # as `Key.read` makes it of the text
    text: str  # as it was written

    def is_met_by(self, actual: Any) -> bool:
        """Whether a value of the same kind is what was wanted."""
        if self.relation is Relation.AT_LEAST:
            return bool(actual >= self.value)
        if self.relation is Relation.LIKE:
            return fnmatchcase(actual, self.value)
        if self.relation is Relation.ALL_OF:
            return set(self.value) <= set(actual)
        return bool(actual == self.value)


class NotThis(ValueError):
    """A value that a key cannot have; the message says what it can be."""


# --- kinds of values --------------------------------------------------------------------------


def _whole(least: int, what: str) -> Callable[[Any], Want]:
    def read(value: Any) -> Want:
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise NotThis(f"{what} is a whole number, {least} or more")
        if value >= NUMBER_LIMIT:
            raise NotThis(f"{what} is less than 2⁶³")
        return Want(Relation.EQUAL, value, str(value))

    return read


def _word(words: tuple[str, ...]) -> Callable[[Any], Want]:
    def read(value: Any) -> Want:
        if value not in words:
            raise NotThis(f"one of {', '.join(words)}")
        return Want(Relation.EQUAL, value, value)

    return read


def pattern(value: Any) -> str:
    """A pattern as shells have them; raises NotThis for none, and for an open bracket."""
    if not isinstance(value, str) or not value.strip():
        raise NotThis("a name, or a pattern with * and ?")
    if len(value) > PATTERN_LIMIT:
        raise NotThis(f"a pattern of at most {PATTERN_LIMIT} characters")
    if value.count("*") > 8:
        raise NotThis("a pattern with at most 8 stars")
    rest = re.sub(r"\[!?\]?[^\]]*\]", "", value)
    if "[" in rest:
        raise NotThis("a pattern whose [ has its ]")
    return value


def _like(value: Any) -> Want:
    return Want(Relation.LIKE, pattern(value), value)


def _at_least(value: str) -> tuple[Relation, str]:
    """ ">=28.39" → at least, and the rest."""
    text = value.strip()
    if text.startswith(">="):
        return Relation.AT_LEAST, text[2:].strip()
    return Relation.EQUAL, text


_RATE: Final = late(
    r"([0-9]{1,6}(?:\.[0-9]{1,3})?) ?(?:Gb/sec|Gb/s|Gbps|Gbit/s|Gbit|G)(?: \(.*\))?"
)
_GT: Final = late(r"([0-9]{1,3}(?:\.[0-9])?) GT/s(?: PCIe)?")
_DOTTED: Final = late(r"[0-9]{1,9}(?:\.[0-9]{1,9}){0,5}")


def rate(value: Any) -> Want:
    """ "400 Gb/sec" as sysfs writes it, "400G" as `devices` and ethtool do, ">=200G"."""
    return _number(value, _RATE, 'such as "400 Gb/sec", "400G" or ">=200G"')


def _transfers(value: Any) -> Want:
    return _number(value, _GT, 'such as "16.0 GT/s" or ">=8.0 GT/s"')


def _number(value: Any, form: re.Pattern[str], example: str) -> Want:
    relation, text = _at_least(value) if isinstance(value, str) else (Relation.EQUAL, "")
    match = form.fullmatch(text)
    if match is None:
        raise NotThis(f"a text {example}")
    return Want(relation, float(match[1]), value)


def version(text: str) -> tuple[int, ...] | None:
    """ "28.39.1002" → numbers to compare; None where it is none."""
    return tuple(map(int, text.split("."))) if _DOTTED.fullmatch(text) else None


def _firmware(value: Any) -> Want:
    if not isinstance(value, str) or not value.strip():
        raise NotThis('a text such as "28.39.1002" or ">=28.39.1002"')
    relation, text = _at_least(value)
    if relation is Relation.EQUAL:
        return Want(relation, text, value)
    numbers = version(text)
    if numbers is None:
        raise NotThis('numbers with dots after >=, such as ">=28.39.1002"')
    return Want(relation, numbers, value)


def _width(value: Any) -> Want:
    match = re.fullmatch(r"([0-9]{1,2})[xX]", value) if isinstance(value, str) else None
    if match is None:
        raise NotThis('lanes such as "4X"')
    return Want(Relation.EQUAL, int(match[1]), value)


def _mtu(value: Any) -> Want:
    sizes = tuple(MTU_BYTES.values())
    if isinstance(value, bool) or value not in sizes:
        raise NotThis(f"one of {', '.join(map(str, sizes))}")
    return Want(Relation.EQUAL, int(value), str(value))


def _memlock(value: Any) -> Want:
    if value == "unlimited":
        return Want(Relation.AT_LEAST, float("inf"), "unlimited")
    try:
        found = _whole(0, "the limit")(value)
    except NotThis:
        raise NotThis('"unlimited" or a whole number of bytes') from None
    return Want(Relation.AT_LEAST, found.value, f">={found.text}")


def _modules(value: Any) -> Want:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise NotThis("a list of modules' names")
    if not value:
        raise NotThis("a list of at least one module's name")
    names = tuple(each.replace("-", "_") for each in value)
    for name in names:
        if name not in RDMA_MODULES:
            raise NotThis(f"{name!r} is no RDMA module; {instead(name, sorted(RDMA_MODULES))}")
    return Want(Relation.ALL_OF, names, " ".join(names))


# --- the keys ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Key:
    """One key."""

    scope: Scope
    name: str
    read: Callable[[Any], Want]  # of what TOML gave; raises NotThis
    noun: str  # in sentences: "rate 400 Gb/sec expected, is …"
    meaning: str  # for docs/rules.md
    look: str  # a line to paste that shows the value; {device}, {port}, {pci}, {netdev}
    needs_link: bool = False  # only an ACTIVE port has it
    repair: str = ""  # a line to paste that makes it so; {want}, and as in `look`
    mac: str = ""  # `look` of a Mac, where it is another
    mac_repair: str = ""

    @property
    def mac_look(self) -> str:
        """The line that shows the value on a Mac."""
        return self.mac or self.look

    @property
    def code(self) -> str:
        """Of the rule that compares it."""
        return f"expected-{self.name.replace('_', '-')}"


_PORT_FOLDER: Final = "/sys/class/infiniband/{device}/ports/{port}"
_PCI_FOLDER: Final = "/sys/class/infiniband/{device}/device"

_DEVICES: Final = "rdmadiag devices"

_TABLE: Final = (
    Key(Scope.HOST, "devices", _whole(0, "devices"), "RDMA devices", "How many RDMA devices.",
        "rdmadiag devices"),
    Key(Scope.HOST, "active_ports", _whole(0, "active_ports"), "active ports",
        "How many ports are ACTIVE.", "rdma link", mac=_DEVICES),
    Key(Scope.HOST, "memlock", _memlock, "limit on locked memory",
        "The soft limit on locked memory, at least, of this process, or of the one that --pid "
        "names. Processes with CAP_IPC_LOCK are not bound by it; jobs mostly are.", "ulimit -l",
        repair="echo '* - memlock unlimited' | sudo tee /etc/security/limits.d/rdma.conf   "
        "# log in again; a service: LimitMEMLOCK=infinity in its unit"),
    Key(Scope.HOST, "modules", _modules, "modules",
        "Modules that are loaded; others may be. A module that is built into the kernel is not "
        "listed.", "lsmod | grep -e rdma -e ib_ -e mlx", repair="sudo modprobe -a {want:WANTED}",
        mac=_DEVICES),
    Key(Scope.HOST, "netns_mode", _word(tuple(map(str, NetnsMode))), "netns mode",
        "Whether network namespaces share RDMA devices.", "rdma system show",
        repair="sudo rdma system set netns {want:WANTED}   # refused while other namespaces exist",
        mac=_DEVICES),
    Key(Scope.DEVICE, "count", _whole(0, "count"), "devices",
        "How many devices the pattern matches; one or more where it is not given.",
        "rdmadiag devices"),
    Key(Scope.DEVICE, "ports", _whole(0, "ports"), "ports", "How many ports the device has.",
        "ls /sys/class/infiniband/{device}/ports", mac=_DEVICES),
    Key(Scope.DEVICE, "driver", _like, "driver", "The driver of the PCI function, or by nldev.",
        "ls -l " + _PCI_FOLDER + "/driver", mac=_DEVICES),
    Key(Scope.DEVICE, "firmware", _firmware, "firmware", "The firmware, exactly or at least.",
        "cat /sys/class/infiniband/{device}/fw_ver", mac=_DEVICES),
    Key(Scope.DEVICE, "board_id", _like, "board", "The board's id (PSID).",
        "cat /sys/class/infiniband/{device}/board_id", mac=_DEVICES),
    Key(Scope.DEVICE, "pci_address", _like, "PCI address", "The address of the PCI function.",
        "readlink -f " + _PCI_FOLDER, mac=_DEVICES),
    Key(Scope.DEVICE, "pci_speed", _transfers, "PCIe speed",
        "The speed of the PCI Express link, exactly or at least. It may be lower while idle.",
        "cat " + _PCI_FOLDER + "/current_link_speed", mac=_DEVICES),
    Key(Scope.DEVICE, "pci_width", _whole(1, "pci_width"), "PCIe lanes",
        "The lanes of the PCI Express link.", "cat " + _PCI_FOLDER + "/current_link_width",
        mac=_DEVICES),
    Key(Scope.DEVICE, "numa_node", _whole(-1, "numa_node"), "NUMA node",
        "The NUMA node; -1 where the firmware names none.", "cat " + _PCI_FOLDER + "/numa_node",
        mac=_DEVICES),
    Key(Scope.PORT, "state", _word(tuple(map(str, PortState))), "state",
        "The port's state. Where a rate, a width, an MTU or a GID is expected, and no state, "
        "active is: a port without a link has none of them.", "cat " + _PORT_FOLDER + "/state",
        mac=_DEVICES),
    Key(Scope.PORT, "link_layer", _word(tuple(map(str, LinkLayer))), "link layer",
        "The link layer.", "cat " + _PORT_FOLDER + "/link_layer", mac=_DEVICES),
    Key(Scope.PORT, "rate", rate, "rate",
        "The rate, exactly or at least. On the host: of every active port.",
        "cat " + _PORT_FOLDER + "/rate", True, mac=_DEVICES),
    Key(Scope.PORT, "width", _width, "width", "The lanes of the link.",
        "cat " + _PORT_FOLDER + "/rate", True, mac=_DEVICES),
    Key(Scope.PORT, "mtu", _mtu, "active MTU", "The active MTU of the path, in bytes.",
        "ibv_devinfo -d {device} -i {port} | grep active_mtu", True),
    Key(Scope.PORT, "netdev", _like, "netdev", "The name of the port's netdev.", "rdma link",
        mac="ifconfig {netdev}"),
    Key(Scope.PORT, "netdev_mtu", _whole(1, "netdev_mtu"), "MTU of its netdev",
        "The MTU of the port's netdev.", "ip link show dev {netdev}",
        repair="sudo ip link set dev {netdev} mtu {want:WANTED}", mac="ifconfig {netdev}",
        mac_repair="sudo ifconfig {netdev} mtu {want:WANTED}"),
    Key(Scope.PORT, "gid_index", _whole(0, "gid_index"), "route GID's index",
        "The index of the route GID, which moves when addresses come and go.",
        "rdmadiag gids --device {device}:{port}", True),
    Key(Scope.PORT, "gid_type", _word(tuple(map(str, GidType))), "route GID's type",
        "The type of the route GID.", "rdmadiag gids --device {device}:{port}", True),
    Key(Scope.PORT, "gid_family", _word(tuple(map(str, Family))), "route GID's family",
        "The family of the route GID's address.", "rdmadiag gids --device {device}:{port}", True),
)  # fmt: skip

KEYS: Final[dict[str, Key]] = {key.name: key for key in _TABLE}
"""By name, which is unique over all scopes."""
