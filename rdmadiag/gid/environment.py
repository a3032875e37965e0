"""What variables of the environment name: devices, GID indexes, partition keys.

    NCCL_IB_HCA        mlx5            names that begin so; "=mlx5_0,mlx5_1" these alone;
                       ^mlx5_2         all but; mlx5_0:1 one port
    UCX_NET_DEVICES    mlx5_0:1,eth0   RDMA ports and netdevs, patterns of the shell; ^ all but
    NVSHMEM_HCA_LIST   ^mlx5_3:1       as NCCL_IB_HCA

Sources: NCCL's src/misc/socket.cc and net_ib, NVSHMEM's transport_common.cpp, UCX's
ucp_context.c, libfabric's fi_verbs.7, Open MPI's btl_openib_component.c.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from rdmadiag.gid.c_number import has_number, strtol

LIMIT: Final = 256
"""Names in one variable that are looked at."""


@dataclass(frozen=True, slots=True)
class Named:
    """One part of a variable's list."""

    name: str
    port: int | None  # None: any port

    def __str__(self) -> str:
        return self.name if self.port is None else f"{self.name}:{self.port}"


@dataclass(frozen=True, slots=True)
class Choice:
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


def parse_nccl_hca(variable: str, value: str) -> Choice | None:
    """NCCL_IB_HCA, NVSHMEM_HCA_LIST: prefixes, unless "=" stands before the list."""
    text = value.strip()
    excludes = text.startswith("^")
    text = text.removeprefix("^")
    exact = text.startswith("=")
    parts = _parts(text.removeprefix("="))
    return Choice(variable, value, parts, excludes, _exact if exact else _prefix) if parts else None


def parse_ucx_devices(variable: str, value: str) -> Choice | None:
    """UCX_NET_DEVICES: ports and netdevs by pattern; "all" chooses nothing."""
    text = value.strip()
    excludes = text.startswith("^")
    parts = _parts(text.removeprefix("^"))
    if not parts or any(part.name in ("all", "ALL") for part in parts):
        return None
    return Choice(variable, value, parts, excludes, _pattern, takes_netdevs=True)


def parse_exact(variable: str, value: str) -> Choice | None:
    """HCOLL_MAIN_IB, FI_VERBS_DEVICE_NAME, btl_openib_if_include: names as they are."""
    parts = _parts(value)
    return Choice(variable, value, parts, excludes=False, matches=_exact) if parts else None


PARSERS: Final[Mapping[str, Callable[[str, str], Choice | None]]] = {
    "NCCL_IB_HCA": parse_nccl_hca,
    "NVSHMEM_HCA_LIST": parse_nccl_hca,
    "NVSHMEM_HCA_PE_MAPPING": parse_exact,
    "UCX_NET_DEVICES": parse_ucx_devices,
    "HCOLL_MAIN_IB": parse_exact,
    "FI_VERBS_DEVICE_NAME": parse_exact,
    "OMPI_MCA_btl_openib_if_include": parse_exact,
}
"""The variables that name devices."""

GID_INDEXES: Final[Mapping[str, str | None]] = {
    "NCCL_IB_GID_INDEX": "NCCL_IB_HCA",
    "NVSHMEM_IB_GID_INDEX": "NVSHMEM_HCA_LIST",
    "UCX_IB_GID_INDEX": "UCX_NET_DEVICES",
    "MC_GID_INDEX": None,
    "FI_VERBS_GID_IDX": "FI_VERBS_DEVICE_NAME",
    "MORI_IB_GID_INDEX": None,
    "MSCCLPP_IB_GID_INDEX": None,
    "OMPI_MCA_btl_openib_gid_index": "OMPI_MCA_btl_openib_if_include",
}
"""The variables that name a row of a GID table, and the one that chooses the ports for it."""


def choice(environment: Mapping[str, str], variable: str | None) -> Choice | None:
    """What a variable chooses; None where it is not set, or chooses everything."""
    if variable is None or variable not in environment:
        return None
    return PARSERS[variable](variable, environment[variable])


_CHECKED: Final = ("UCX_IB_GID_INDEX", "OMPI_MCA_btl_openib_gid_index")
"""Programs that refuse what is no number, or know words; the others take a word for 0."""


def parse_index(value: str, variable: str = "") -> int | None:
    """A row's number as the program reads it; None where it then chooses by itself.

    To most of them "auto" is 0, which is a row: see rdmadiag.gid.c_number.
    """
    if not value or (variable in _CHECKED and not has_number(value)):
        return None
    index = strtol(value)
    return index if index is not None and 0 <= index < _MOST else None


_MOST: Final = 10**6
