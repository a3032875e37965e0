"""The process that looks: its limits, rights, namespaces, device nodes and libraries.

    /proc/self/limits    Max locked memory         8388608              8388608              bytes
    /proc/self/status    CapEff:	000001ffffffffff

Nothing is opened but text files; libraries are looked for and not loaded.
"""

import re
import stat
from collections.abc import Callable
from functools import partial
from typing import Final, Literal, TypeVar

from rdmadiag.facts import (
    Address,
    DeviceNode,
    Limit,
    Missing,
    NamedProvider,
    ProcessFacts,
    VerbsLibrary,
    Why,
)
from rdmadiag.facts.address import deprecated, tentative_and_duplicate
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.rdma_drivers import PROVIDER_FOLDER, RDMA_MODULES
from rdmadiag.gid.variables import REPORTED
from rdmadiag.host import Host
from rdmadiag.late import late
from rdmadiag.sources.text import CPU_LIST, attribute, malformed, parse_number

T = TypeVar("T")

NODES: Final = "/dev/infiniband"
STATUS: Final = "/proc/self/status"

CAPABILITIES: Final = {
    1: "CAP_DAC_OVERRIDE",
    12: "CAP_NET_ADMIN",
    13: "CAP_NET_RAW",
    14: "CAP_IPC_LOCK",
    17: "CAP_SYS_RAWIO",
    21: "CAP_SYS_ADMIN",
    24: "CAP_SYS_RESOURCE",
}
"""linux/capability.h: the ones that decide something about RDMA."""

_RSOCKET_INLINE: Final = "/etc/rdma/rsocket/inline_default"  # rs_configure of librdmacm
_PROVIDER_FILES: Final = 256
_LIBRARY_FOLDERS: Final = ("/lib64", "/usr/lib64", "/lib", "/usr/lib")
_LD_CONF: Final = "/etc/ld.so.conf"
_OURS: Final = (Why.EXHAUSTED, Why.TIMEOUT, Why.MALFORMED)
_LD_CONF_DEPTH: Final = 4
_PROC_LIMIT: Final = 4 * 1024 * 1024  # /proc/net/dev of a node with thousands of veths
_IPV6_SCOPES: Final = {0x00: "global", 0x10: "host", 0x20: "link", 0x40: "site"}  # net/ipv6.h
_PROVIDER: Final = late(r"lib([A-Za-z0-9_]+)-rdmav[0-9]+\.so")
_LIMIT_ROW: Final = late(
    r"^Max locked memory\s+(unlimited|[0-9]{1,20})\s+(unlimited|[0-9]{1,20})\s+bytes", re.MULTILINE
)
_STATUS_ROW: Final = late(r"^(\w+):[ \t]*(.*)$", re.MULTILINE)
_ALL_UIDS: Final = late(r"\s*0\s+0\s+4294967295\s*")


def parse_memlock(raw: bytes) -> Limit | Missing:
    """/proc/PID/limits → soft and hard limit in bytes."""
    match = _LIMIT_ROW.search(raw.decode("latin-1"))
    if not match:
        return malformed(raw, "a table of limits with max locked memory")
    return Limit(soft=_limit(match[1]), hard=_limit(match[2]))


def _limit(text: str) -> int | Literal["unlimited"]:
    return "unlimited" if text == "unlimited" else int(text)


def parse_effective_uid(raw: bytes) -> int | Missing:
    """/proc/PID/status: the second number of "Uid:"."""
    fields = _status(raw).get("Uid", "").split()
    if len(fields) < 2 or not re.fullmatch(r"[0-9]{1,10}", fields[1]):
        return malformed(raw, "a process status with Uid")
    return int(fields[1])


def _status(raw: bytes) -> dict[str, str]:
    return dict(_STATUS_ROW.findall(raw.decode("latin-1")))


def parse_cpus_allowed(raw: bytes) -> str | Missing:
    """/proc/PID/status: Cpus_allowed_list, "0-15,32-47"."""
    return _list_of(raw, "Cpus_allowed_list")


def parse_mems_allowed(raw: bytes) -> str | Missing:
    """/proc/PID/status: Mems_allowed_list, NUMA nodes."""
    return _list_of(raw, "Mems_allowed_list")


def _list_of(raw: bytes, name: str) -> str | Missing:
    fields = _status(raw)
    if fields and name not in fields:  # Mems_allowed_list of a kernel without cpusets
        return Missing(Why.ABSENT, f"no {name}")
    text = fields.get(name, "").strip()
    if not CPU_LIST.fullmatch(text):
        return malformed(raw, f"a process status with {name}")
    return text


def parse_capabilities(raw: bytes) -> tuple[str, ...] | Missing:
    """/proc/PID/status: the names in CapEff that CAPABILITIES lists."""
    text = _status(raw).get("CapEff", "").strip()
    if not re.fullmatch(r"[0-9a-fA-F]{1,16}", text):
        return malformed(raw, "a process status with CapEff")
    mask = int(text, 16)
    return tuple(name for bit, name in CAPABILITIES.items() if mask >> bit & 1)


def parse_modules(raw: bytes) -> tuple[str, ...]:
    """/proc/modules → the RDMA modules in it, sorted."""
    names = {line.split(" ", 1)[0] for line in raw.decode("latin-1").splitlines()}
    return tuple(sorted(names & RDMA_MODULES))


def parse_net_dev(raw: bytes) -> tuple[str, ...] | Missing:
    """/proc/net/dev → the names of this network namespace's interfaces."""
    lines = raw.decode("utf-8", "replace").splitlines()
    if len(lines) < 2 or "face" not in lines[1]:
        return malformed(raw, "a table of network interfaces")
    # An alias-style name may hold a colon ("eth0:1"); the last one ends the name.
    return tuple(line.rpartition(":")[0].strip() for line in lines[2:] if ":" in line)


def parse_if_inet6(raw: bytes) -> dict[str, tuple[str, ...]] | Missing:
    """/proc/net/if_inet6 → each netdev's IPv6 addresses.

    fe80000000000000505400fffe000001 03 40 20 80     veth0
    """
    found: dict[str, tuple[str, ...]] = {}
    for line in raw.decode("utf-8", "replace").splitlines():
        fields = line.split()
        try:
            address = str(Gid(bytes.fromhex(fields[0])))
            found[fields[5]] = (*found.get(fields[5], ()), address)
        except (IndexError, ValueError):
            return malformed(line.encode(), "a row of IPv6 addresses")
    return found


def parse_if_inet6_rows(raw: bytes) -> dict[str, tuple[Address, ...]] | Missing:
    """/proc/net/if_inet6 → each netdev's IPv6 addresses, with what their flags say.

    Address, ifindex, prefix length, scope, the low 8 bits of IFA_FLAGS, netdev.
    """
    found: dict[str, tuple[Address, ...]] = {}
    for line in raw.decode("utf-8", "replace").splitlines():
        try:
            address, _, length, scope, bits, name = line.split()
            flags = int(bits, 16)
            row = Address(
                str(Gid(bytes.fromhex(address))),
                int(length, 16),
                _IPV6_SCOPES.get(int(scope, 16), scope),
                *tentative_and_duplicate(flags),
                deprecated=deprecated(flags),
            )
        except ValueError:
            return malformed(line.encode(), "a row of IPv6 addresses")
        found[name] = (*found.get(name, ()), row)
    return found


def parse_initial_user_namespace(raw: bytes) -> bool:
    """/proc/self/uid_map: only the initial namespace maps every uid to itself."""
    return _ALL_UIDS.fullmatch(raw.decode("latin-1")) is not None


def parse_ld_conf(raw: bytes) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """/etc/ld.so.conf → (folders, patterns of included files)."""
    folders, includes = [], []
    for line in raw.decode("utf-8", "replace").splitlines():
        words = line.partition("\0")[0].partition("#")[0].split()  # ldconfig reads C strings
        if len(words) == 2 and words[0] == "include" and not words[1].endswith("/"):
            includes.append(words[1])
        elif len(words) == 1 and words[0].startswith("/"):
            folders.append(words[0].rstrip("/"))
    return tuple(folders), tuple(includes)


def parse_provider(name: str) -> str | None:
    """The provider in a file's name: "libmlx5-rdmav34.so" → "mlx5"."""
    match = _PROVIDER.match(name)
    return match[1] if match else None


def parse_configured(raw: bytes) -> tuple[str, ...]:
    """A file of /etc/libibverbs.d → the providers of its "driver NAME" lines.

    As read_config_file of rdma-core has it: blanks before and between, "#" at the start, what
    follows the name is not read; any other line is ignored, with a warning.
    """
    words = (line.split() for line in raw.decode("utf-8", "replace").split("\n"))
    return tuple(dict.fromkeys(line[1] for line in words if len(line) > 1 and line[0] == "driver"))


def read_process(host: Host) -> ProcessFacts:
    """Everything above, of the process that calls."""
    status = partial(_of_status, host.read(STATUS))
    netns = host.readlink("/proc/self/ns/net")
    environment = host.environ(REPORTED)
    return ProcessFacts(
        uid=status(parse_effective_uid),
        memlock=attribute(host, "/proc/self/limits", parse_memlock),
        capabilities=status(parse_capabilities),
        initial_userns=attribute(host, "/proc/self/uid_map", parse_initial_user_namespace),
        nodes=_nodes(host),
        modules=attribute(host, "/proc/modules", parse_modules),
        netns=netns,
        initial_netns=_initial(host, netns),
        netdevs=_net_table(host, "dev", parse_net_dev),
        ipv6=_net_table(host, "if_inet6", parse_if_inet6),
        ipv6_addresses=_net_table(host, "if_inet6", parse_if_inet6_rows),
        container=_container(host),
        library=_library(host),
        environment=environment,
        cpus_allowed=status(parse_cpus_allowed),
        mems_allowed=status(parse_mems_allowed),
        rsocket_inline=attribute(host, _RSOCKET_INLINE, parse_number),
    )


def _of_status(raw: bytes | Missing, parse: Callable[[bytes], T | Missing]) -> T | Missing:
    """What one parser makes of a status that was read once for all of them."""
    if isinstance(raw, Missing):
        return raw
    value = parse(raw)
    return Missing(value.why, f"{STATUS}: {value.detail}") if isinstance(value, Missing) else value


def _net_table(host: Host, name: str, parse: Callable[[bytes], T | Missing]) -> T | Missing:
    raw = host.read(f"/proc/self/net/{name}", _PROC_LIMIT)
    return raw if isinstance(raw, Missing) else parse(raw)


def _nodes(host: Host) -> tuple[DeviceNode, ...] | Missing:
    names = host.list(NODES)
    if isinstance(names, Missing):
        return names
    nodes = []
    refused = None
    for name in names:
        found = host.stat(f"{NODES}/{name}")
        if isinstance(found, Missing):
            refused = refused or found
            if found.why in (Why.ABSENT, Why.NOT_COLLECTED):
                continue
            return found  # one that could not be looked at is not one that is not there
        if stat.S_ISDIR(found.mode):
            continue  # by-ibdev and by-path: udev's links to the same nodes
        nodes.append(
            DeviceNode(
                name=name,
                mode=stat.filemode(found.mode),
                uid=found.uid,
                gid=found.gid,
                dev=found.dev or Missing(Why.MALFORMED, f"{NODES}/{name}: not a device node"),
                openable=host.can_open(f"{NODES}/{name}"),
            )
        )
    return tuple(nodes) if nodes or refused is None else refused


def _initial(host: Host, netns: str | Missing) -> bool | Missing:
    if isinstance(netns, Missing):
        return netns
    # Without CAP_SYS_PTRACE the link of pid 1 is refused; that says nothing about ours.
    init = host.readlink("/proc/1/ns/net")
    return init if isinstance(init, Missing) else init == netns


def _container(host: Host) -> str | None:
    for path in ("/.dockerenv", "/run/.containerenv"):
        if not isinstance(host.stat(path), Missing):
            return path
    signs = host.environ(("KUBERNETES_SERVICE_HOST", "container"))
    if not isinstance(signs, Missing):
        for name in ("KUBERNETES_SERVICE_HOST", "container"):
            if signs.get(name):
                return f"environment variable {name}"
    return None


def _library(host: Host) -> VerbsLibrary | Missing:
    paths = host.environ(("LD_LIBRARY_PATH",))
    extra = "" if isinstance(paths, Missing) else paths.get("LD_LIBRARY_PATH", "")
    configured = _configured(host, _LD_CONF, _LD_CONF_DEPTH, set())
    if isinstance(configured, Missing):
        return configured
    searched: dict[str, None] = {}
    for folder in (
        *(folder.rstrip("/") for folder in extra.split(":") if folder.startswith("/")),
        *configured,
        *_LIBRARY_FOLDERS,
    ):
        searched.setdefault(folder)
    libraries: list[str] = []
    providers: dict[str, str] = {}
    for folder in searched:
        library = f"{folder}/libibverbs.so.1"
        found = host.stat(library)
        # VERBS_PROVIDER_DIR of rdma-core: a folder beside the library.
        names = host.list(f"{folder}/libibverbs")
        for refused in (found, names):
            # What is denied to us is denied to the dynamic linker; what we had no time for is not.
            if isinstance(refused, Missing) and refused.why in _OURS:
                return refused
        if not isinstance(found, Missing):
            libraries.append(library)
        for name in () if isinstance(names, Missing) else names:
            provider = parse_provider(name)
            if provider is not None:
                providers.setdefault(provider, f"{folder}/libibverbs/{name}")
    return VerbsLibrary(
        searched=tuple(searched),
        libibverbs=tuple(libraries),
        providers=dict(sorted(providers.items())),
        configured=_configured_providers(host),
    )


def _configured_providers(host: Host) -> tuple[NamedProvider, ...] | Missing:
    names = host.list(PROVIDER_FOLDER)
    if isinstance(names, Missing):
        return names
    found: list[NamedProvider] = []
    for name in sorted(names)[:_PROVIDER_FILES]:
        # Every regular file in it counts, whatever its name.
        raw = host.read(f"{PROVIDER_FOLDER}/{name}")
        if isinstance(raw, Missing):
            if raw.why in (Why.ABSENT, Why.UNSUPPORTED):
                continue
            return raw
        found += (
            NamedProvider(each, f"{PROVIDER_FOLDER}/{name}") for each in parse_configured(raw)
        )
    return tuple(found)


def _configured(host: Host, path: str, depth: int, seen: set[str]) -> tuple[str, ...] | Missing:
    """Folders of the dynamic linker's configuration, each included file followed once.

    What cannot be read is a Missing: the linker itself goes by a cache that root made of it.
    """
    if depth == 0 or path in seen:
        return ()
    seen.add(path)
    raw = host.read(path)
    if isinstance(raw, Missing):
        return () if raw.why in (Why.ABSENT, Why.UNSUPPORTED) else raw
    folders, includes = parse_ld_conf(raw)
    found = list(folders)
    for pattern in includes:
        folder, _, name = pattern.rpartition("/")
        folder = folder if folder.startswith("/") else f"/etc/{folder}".rstrip("/")
        prefix, star, suffix = name.partition("*")
        names = host.list(folder) if star else (name,)
        if isinstance(names, Missing):
            if names.why is Why.ABSENT:
                continue
            return names
        for candidate in names:
            if candidate.startswith(prefix) and candidate.endswith(suffix):
                more = _configured(host, f"{folder}/{candidate}", depth - 1, seen)
                if isinstance(more, Missing):
                    return more
                found += more
    return tuple(found)
