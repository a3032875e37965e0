"""/proc/PID/maps: which communication libraries a process has mapped, and their versions.

    7f1c5e000000-7f1c60000000 r-xp 0003f000 08:02 1312 /usr/lib/x86_64-linux-gnu/libnccl.so.2.21.5
    7f1c5e000000-7f1c60000000 r-xp 0003f000 00:2f 9917 /opt/venv/lib/python3.12/site-packages/…
    nvidia/nccl/lib/libnccl.so.2      beside nvidia_nccl_cu12-2.21.5.dist-info

proc_pid_maps(5). Names alone are read: no library is opened. The paths are those of the process's
own root folder.
"""

import re
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.libraries import LibrariesFacts, MappedLibrary
from rdmadiag.host import Host
from rdmadiag.late import late
from rdmadiag.sources.text import malformed

_MAPS_BYTES: Final = 16 << 20  # of a process with a hundred thousand mappings
_MOST: Final = 16  # more than one is mapped where a wheel and a system package meet
_MOST_OF_RDMA: Final = 64
_ROW: Final = late(
    r"[0-9a-f]{1,16}-[0-9a-f]{1,16} [r-][w-][x-][ps] [0-9a-f]{1,16} "
    r"[0-9a-f]{2,8}:[0-9a-f]{2,8} [0-9]{1,20}(?: +(\S.*)?)?"
)
_DELETED: Final = " (deleted)"  # the file was replaced after the process had mapped it
_FILE: Final = late(r"lib(nccl)\.so(?:\.([0-9]{1,4}(?:\.[0-9]{1,4}){0,3}))?")
_RDMA_FILE: Final = late(
    r"lib(ibverbs|rdmacm|mlx[45]|efa|hns|mana|[a-z0-9_]+(?=-rdmav)|ucp|uct|uct_ib|fabric|nccl|rccl|"
    r"nccl-net|nccl-net-[a-z0-9_-]+|rccl-net|nvshmem_host|nvshmem_transport_[a-z0-9_]+|psm2|psm_infinipath|"
    r"mpi|transfer_engine|nixl|gloo|torch_cuda)"
    r"(?:-rdmav[0-9]{1,4})?\.so(?:\.([0-9]{1,6}(?:\.[0-9]{1,6}){0,4}))?"
)
_WHEEL: Final = "/nvidia/nccl/lib/"
_DIST_INFO: Final = late(r"nvidia_nccl_cu[0-9]{2}-([0-9]{1,4}(?:\.[0-9]{1,4}){2,3})\.dist-info")
_WHOLE: Final = 3  # numbers of a version; "libnccl.so.2" names the ABI alone


def parse_maps(raw: bytes) -> tuple[str, ...] | Missing:
    """→ the paths of NCCL's library, each once, in the order of the addresses."""
    return _mapped(raw, _FILE)


def parse_rdma_maps(raw: bytes) -> tuple[str, ...] | Missing:
    """The same of verbs, rdma_cm, their providers, and the stacks on top of them."""
    return _mapped(raw, _RDMA_FILE)


def _mapped(raw: bytes, wanted: re.Pattern[str]) -> tuple[str, ...] | Missing:
    found: dict[str, None] = {}
    lines = raw.decode("utf-8", "surrogateescape").split("\n")
    if lines.pop():  # a kernel's last line ends
        return malformed(raw[-80:], "a list of mappings")
    for line in lines:
        match = _ROW.fullmatch(line)
        if match is None:
            return malformed(line.encode("utf-8", "surrogateescape"), "a list of mappings")
        path = (match[1] or "").removesuffix(_DELETED)
        if path.startswith("/") and wanted.fullmatch(path.rpartition("/")[2]):
            found.setdefault(path)
    return tuple(found)[: _MOST if wanted is _FILE else _MOST_OF_RDMA]


def parse_version(name: str) -> str | None:
    """ "libnccl.so.2.21.5" → "2.21.5"; None where the name has the ABI's number alone."""
    match = _FILE.fullmatch(name)
    version = match[2] if match else None
    return version if version and len(version.split(".")) >= _WHOLE else None


def parse_wheel(names: tuple[str, ...]) -> str | None:
    """Names in a site-packages folder → the version of the one wheel of NCCL there."""
    found = {match[1] for name in names if (match := _DIST_INFO.fullmatch(name))}
    return found.pop() if len(found) == 1 else None


def read_libraries(host: Host, pid: int) -> LibrariesFacts | Missing:
    """Those of `pid`: DENIED for another user's process, ABSENT where there is none."""
    raw = host.read(f"/proc/{pid}/maps", _MAPS_BYTES)
    paths = raw if isinstance(raw, Missing) else parse_maps(raw)
    if isinstance(paths, Missing):
        return paths
    return LibrariesFacts(pid, tuple(_library(host, pid, path) for path in paths))


def read_rdma_libraries(host: Host, pid: int) -> tuple[MappedLibrary, ...] | Missing:
    """Those of RDMA that `pid` has mapped; the others as above."""
    raw = host.read(f"/proc/{pid}/maps", _MAPS_BYTES)
    paths = raw if isinstance(raw, Missing) else parse_rdma_maps(raw)
    if isinstance(paths, Missing):
        return paths
    return tuple(_rdma_library(host, pid, path) for path in paths)


def _rdma_library(host: Host, pid: int, path: str) -> MappedLibrary:
    name = path.rpartition("/")[2]
    if _FILE.fullmatch(name):
        return _library(host, pid, path)
    match = _RDMA_FILE.fullmatch(name)
    assert match is not None
    shown = path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    whole = match[2] and "." in match[2] and match[2].strip("0.")  # UCX: libucp.so.0.0.0
    no = Missing(Why.ABSENT, f"the name of {shown!r} has no version")
    return MappedLibrary(match[1], shown, match[2] if whole else no)


def _library(host: Host, pid: int, path: str) -> MappedLibrary:
    name = path.rpartition("/")[2]
    match = _FILE.fullmatch(name)
    assert match is not None
    shown = path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return MappedLibrary(match[1], shown, parse_version(name) or _of_wheel(host, pid, path))


def _of_wheel(host: Host, pid: int, path: str) -> str | Missing:
    packages, at, _ = path.rpartition(_WHEEL)
    if not at:
        return Missing(Why.ABSENT, f"the name of {path!r} has no version")
    names = host.list(f"/proc/{pid}/root{packages}")
    if isinstance(names, Missing):
        return names
    found = parse_wheel(names)
    return found or Missing(Why.ABSENT, f"no one wheel of NCCL in {packages!r}")
