"""What a variable's value means, or what is wrong with it; None where nothing is to be said."""

import re
from collections.abc import Collection
from typing import Final, NamedTuple

from rdmadiag.gid.c_number import strtol
from rdmadiag.late import late


def _number(value: str) -> int | None:
    return int(value) if re.fullmatch(r"-?\d{1,9}", value) else None


def gid_index(value: str) -> str | None:
    """A row of the GID table."""
    number = _number(value)
    if number is None:
        return f"{value!r} is no number: UCX refuses it, most others take it for row 0"
    if number < 0:
        return "below 0: the stack chooses for itself"
    if number > 255:
        return f"{number}: few GID tables have so many rows"
    return f"row {number} of the table of each port, unchecked: it may be empty, v1 or link-local"


def timeout(value: str) -> str | None:
    """ibv_qp_attr.timeout: 4.096 µs x 2^N, five bits."""
    number = _number(value)
    if number is None or not 0 <= number <= 31:
        return f"{value!r} is not between 0 and 31"
    if number == 0:
        return "0: the queue pair waits without end"
    seconds = 4.096e-6 * 2**number
    return f"4.096 µs x 2^{number} = {seconds:.3g} s for one try; hardware may take four times that"


def retries(value: str) -> str | None:
    """ibv_qp_attr.retry_cnt: three bits."""
    number = _number(value)
    if number is None or not 0 <= number <= 7:
        return f"{value!r} is not between 0 and 7, which are three bits"
    return None


_FLAGS: Final = ("0", "1", "y", "n", "yes", "no", "true", "false")


def flag(value: str) -> str | None:
    """On or off."""
    if value.lower() in _FLAGS:
        return None
    return f"{value!r} is neither 0 nor 1"


def family(value: str) -> str | None:
    """AF_INET or AF_INET6."""
    if value in ("AF_INET", "AF_INET6"):
        return None
    return f"{value!r} is neither AF_INET nor AF_INET6: the default holds"


def hca(value: str) -> str | None:
    """NCCL_IB_HCA: prefixes, exact names after "=", all but these after "^"."""
    if value.startswith("^="):
        return f"every device but exactly these: {value[2:]}"
    if value.startswith("="):
        return f"exactly these: {value[1:]}"
    if value.startswith("^"):
        return f"every device but those whose names begin so: {value[1:]}"
    return f"devices whose names begin with one of these ({value}): mlx5_1 takes mlx5_10 too"


def ucx_gid_index(value: str) -> str | None:
    """UCX_IB_GID_INDEX."""
    return None if value == "auto" else gid_index(value)


def ucx_devices(value: str) -> str | None:
    """UCX_NET_DEVICES."""
    if ":" in value or value == "all" or not re.search(r"mlx|bnxt|roce|ib", value):
        return None
    return f"{value!r} has no :PORT, as in mlx5_0:1"


def nvshmem_range(value: str) -> str | None:
    """NVSHMEM_IB_ADDR_RANGE."""
    return None if "/" in value else f"{value!r} has no /BITS: NVSHMEM crashes"


def not_zero(value: str) -> str | None:
    """check_env of rdma-core: set, and not exactly "0"."""
    return "0: as if it were not set" if value == "0" else "on: only 0 is off"


def provider_names(value: str) -> str | None:
    """RDMAV_DRIVERS: lib<name>-rdmavN.so is loaded, or <path>-rdmavN.so."""
    for name in re.split(r"[:;]", value):
        if name.endswith(".so") or ".so." in name or re.match(r"lib[^/]+$", name):
            return f"{name!r} is a file's name: mlx5 is meant by libmlx5-rdmav34.so"
    return None


def sysfs_path(value: str) -> str | None:
    """SYSFS_PATH: trailing slashes do not count."""
    path = value.rstrip("/")
    return None if path == "/sys" else f"{path or '/'}: libibverbs does not look in /sys"


_LOG_LEVELS: Final = ("nothing", "errors", "warnings", "information", "debugging")


def log_level(value: str) -> str | None:
    """VERBS_LOG_LEVEL, as strtol reads it."""
    number = _number(value)
    if number is None:
        return f"{value!r} is no number: nothing is written"
    if number >= len(_LOG_LEVELS):
        return "debugging, and all before"
    return _LOG_LEVELS[max(number, 0)] + (", and all before" if number > 1 else "")


def cqe_size(value: str) -> str | None:
    """MLX5_CQE_SIZE."""
    return None if _number(value) in (64, 128) else f"{value!r} is neither 64 nor 128: EINVAL"


def uuars(value: str) -> str | None:
    """MLX5_TOTAL_UUARS: at most MLX5_MAX_BFREGS."""
    number = _number(value)
    if number is None or not 1 <= number <= 512:
        return f"{value!r} is not between 1 and 512: the device does not open"
    return None


_ALLOCATIONS: Final = ("ANON", "HUGE", "CONTIG", "PREFER_HUGE", "PREFER_CONTIG", "ALL")


def allocation(value: str) -> str | None:
    """MLX_QP_ALLOC_TYPE, in capitals or not."""
    if value.upper() in _ALLOCATIONS:
        return None
    return f"{value!r} is none of {' '.join(_ALLOCATIONS)}: the default holds"


class Off(NamedTuple):
    """A value that keeps a stack from RDMA."""

    words: str
    certain: bool = True  # False: a name in it is not known here


def nccl_disabled(value: str) -> Off | None:
    """NCCL_IB_DISABLE: ncclLoadParam reads a number, and any but 0 counts."""
    return Off("no InfiniBand and no RoCE at all, TCP alone") if strtol(value) else None


def nccl_by_socket(value: str) -> Off | None:
    """NCCL_NET: compared without regard to capitals."""
    return Off("TCP alone") if value.lower() == "socket" else None


def mooncake_by_tcp(value: str) -> Off | None:
    """MC_FORCE_TCP: its value is not read (TransferEngineImpl::init)."""
    return Off("set at all, it is TCP alone")


_UCX_RDMA: Final = late(r"(all|ib|(rc|ud|dc|gga|srd)(_[a-z0-9]+)?)")
_UCX_OTHERS: Final = frozenset(
    (
        "tcp",
        "self",
        "sm",
        "shm",
        "mm",
        "posix",
        "sysv",
        "xpmem",
        "cma",
        "knem",
        "cuda",
        "cuda_copy",
        "cuda_ipc",
        "gdr_copy",
        "rocm",
        "rocm_copy",
        "rocm_ipc",
        "rocm_gdr",
        "ze_copy",
        "ze_ipc",
        "ze_gdr",
    )
)


def ucx_without_rdma(value: str) -> Off | None:
    """UCX_TLS: names and aliases of ucp_context.c; NAME:aux carries no data."""
    text = value.strip()
    names = _names(text.removeprefix("^"), ",")
    if text.startswith("^"):
        if "ib" in names or {"rc", "ud", "dc"} <= set(names):
            return Off("leaves out every transport of RDMA")
        return None
    carriers = [name.removeprefix("\\") for name in names if not name.endswith(":aux")]
    if not carriers or any(map(_UCX_RDMA.fullmatch, carriers)):
        return None
    return _lacks("none of rc, dc, ud, ib, all", carriers, _UCX_OTHERS)


_FI_RDMA: Final = frozenset(
    (
        "verbs",
        "efa",
        "cxi",
        "opx",
        "psm",
        "psm2",
        "psm3",
        "usnic",
        "gni",
        "bgq",
        "mlx",
        "ucx",
    )
)
_FI_OTHERS: Final = frozenset(
    (
        "tcp",
        "sockets",
        "udp",
        "net",
        "shm",
        "sm2",
        "rstream",
        "ofi_rxm",
        "ofi_rxd",
        "ofi_mrail",
        "coll",
        "lnx",
    )
)


def libfabric_without_rdma(value: str) -> Off | None:
    """FI_PROVIDER: names, and layers as in tcp;ofi_rxm (fi_provider(7))."""
    text = value.strip()
    names = _names(text.removeprefix("^").lower(), ",;")
    if text.startswith("^"):
        return Off("leaves out verbs", certain=False) if "verbs" in names else None
    if not names or _FI_RDMA.intersection(names):
        return None
    return _lacks("no provider of RDMA", names, _FI_OTHERS)


def _names(text: str, separators: str) -> list[str]:
    return [name.strip() for name in re.split(f"[{separators}]", text) if name.strip()]


def _lacks(words: str, names: Collection[str], known: Collection[str]) -> Off:
    return Off(words, certain=all(name in known for name in names))
