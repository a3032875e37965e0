"""The lists of devices that variables of the environment hold.

    NCCL_IB_HCA        mlx5            names that begin so; "=mlx5_0,mlx5_1" these alone;
                       ^mlx5_2         all but; mlx5_0:1 one port
    UCX_NET_DEVICES    mlx5_0:1,eth0   RDMA ports and netdevs, patterns of the shell; ^ all but
    NVSHMEM_HCA_LIST   ^mlx5_3:1       as NCCL_IB_HCA

Sources: NCCL's src/misc/socket.cc and net_ib, NVSHMEM's transport_common.cpp, UCX's
ucp_context.c, libfabric's fi_verbs.7, Open MPI's btl_openib_component.c.
"""

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

LIMIT: Final = 256
"""Names in one variable that are looked at."""


class Named(NamedTuple):
    """One part of a variable's list."""

    name: str
    port: int | None  # None: any port

    def __str__(self) -> str:
        return self.name if self.port is None else f"{self.name}:{self.port}"


class Choice(NamedTuple):
    """A variable that chooses devices."""

    variable: str
    value: str
    parts: tuple[Named, ...]
    excludes: bool  # "^": all but these
    matches: Callable[[str, str], bool]  # (part's name, device or netdev)
    takes_netdevs: bool = False

    def has(self, device: str, port: int) -> bool:
        """Whether the program would use this port."""
        named = any(self._is(part, device, port) for part in self.parts)
        return named != self.excludes

    def unmatched(
        self, ports: Iterable[tuple[str, int]], netdevs: Iterable[str]
    ) -> tuple[Named, ...]:
        """The parts that name nothing that there is."""
        there, others = tuple(ports), tuple(netdevs) if self.takes_netdevs else ()
        return tuple(
            part
            for part in self.parts
            if not any(self._is(part, *each) for each in there)
            and not any(self.matches(part.name, name) for name in others)
        )

    def _is(self, part: Named, device: str, port: int) -> bool:
        return self.matches(part.name, device) and part.port in (None, port)


def _prefix(wanted: str, name: str) -> bool:
    return name.startswith(wanted)


def _exact(wanted: str, name: str) -> bool:
    return name == wanted


def _pattern(wanted: str, name: str) -> bool:
    return fnmatchcase(name, wanted)


def _parts(text: str) -> tuple[Named, ...]:
    found = []
    for part in text.split(",")[:LIMIT]:
        # NVSHMEM_HCA_PE_MAPPING has a count behind the port: mlx5_0:1:2
        name, _, rest = part.strip().partition(":")
        port = rest.partition(":")[0].strip()
        if name:
            known = port.isascii() and port.isdigit() and len(port) < 4
            found.append(Named(name, int(port) if known else None))
    return tuple(found)


def nccl_devices(variable: str, value: str) -> Choice | None:
    """NCCL_IB_HCA, NVSHMEM_HCA_LIST: prefixes, unless "=" stands before the list."""
    text = value.strip()
    excludes = text.startswith("^")
    text = text.removeprefix("^")
    exact = text.startswith("=")
    parts = _parts(text.removeprefix("="))
    return Choice(variable, value, parts, excludes, _exact if exact else _prefix) if parts else None


def nccl_interfaces(variable: str, value: str) -> Choice | None:
    """NCCL_SOCKET_IFNAME: as NCCL_IB_HCA, of netdevs."""
    chosen = nccl_devices(variable, value)
    return chosen._replace(takes_netdevs=True) if chosen else None


def exact_interfaces(variable: str, value: str) -> Choice | None:
    """GLOO_SOCKET_IFNAME and its like: names as they are; not subnets, which Open MPI takes too."""
    chosen = exact_devices(variable, value) if "/" not in value else None
    return chosen._replace(takes_netdevs=True) if chosen else None


def ucx_devices(variable: str, value: str) -> Choice | None:
    """UCX_NET_DEVICES: ports and netdevs by pattern; "all" chooses nothing."""
    text = value.strip()
    excludes = text.startswith("^")
    parts = _parts(text.removeprefix("^"))
    if not parts or any(part.name in ("all", "ALL") for part in parts):
        return None
    return Choice(variable, value, parts, excludes, _pattern, takes_netdevs=True)


def exact_devices(variable: str, value: str) -> Choice | None:
    """HCOLL_MAIN_IB, FI_VERBS_DEVICE_NAME, btl_openib_if_include: names as they are."""
    parts = _parts(value)
    return Choice(variable, value, parts, excludes=False, matches=_exact) if parts else None
