"""What libraries say of what they have: providers of libibverbs, components of Open MPI.

libibverbs/init.c and dynamic_driver.c warn of providers; ompi_info(1) lists the components.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from rdmadiag.explain.pasted.benchmarks import is_by_others
from rdmadiag.explain.pasted.session import Line, Part, Shown
from rdmadiag.late import late

_NO_PROVIDER = late(r"libibverbs: Warning: no userspace device-specific driver found for ")
_OTHER_ABI = late(r"libibverbs: Warning: Driver \S+ does not support the kernel ABI of ")
_NO_DEVICE = late(r"\s*No (?:IB|RDMA) devices? found")
_NOT_LOADED: Final = late(
    r"libibverbs: Warning: couldn't load driver '(?:\S*/)?lib([a-z]+\d)-rdmav\d+\.so'"
    r".*: No such file or directory"
)
_LISTED: Final = late(r"\s*(?:CA '|hca_id:\s*|link )?([a-z]+\d)_\w+\b")
"""A device of mlx5 and the like, whose name begins with that of its driver."""
_COMPONENT: Final = late(r"\s*MCA (btl|pml|mtl): (\w+) \(MCA v")
_OF_RDMA: Final = frozenset(
    {"ucx", "openib", "ofi", "psm", "psm2", "mxm", "yalla", "portals4", "usnic"}
)
_ACTIVE: Final = late(r"\s*[Ss]tate:\s+(?:PORT_)?A(?:ctive|CTIVE)\b|link \S+ state ACTIVE\b")


def of_libraries(several: Sequence[Part]) -> Iterator[Shown]:
    """A kernel's device that no provider took, in a program that then had none."""
    for part in several:
        warned = [line for line in part.lines if _NO_PROVIDER.match(line.text)]
        if warned and any(_NO_DEVICE.match(line.text) for line in part.lines):
            yield Shown(("provider-missing", "library-mismatch"), warned[0])
        other = [line for line in part.lines if _OTHER_ABI.match(line.text)]
        if other and any(_NO_DEVICE.match(line.text) for line in part.lines):
            yield Shown(("provider-release", "provider-missing", "abi-mismatch"), other[0])
    yield from _of_benchmarks(several)


def _of_benchmarks(several: Sequence[Part]) -> Iterator[Shown]:
    """A benchmark of MPI went by something else, since a library has no way by RDMA."""
    if not any(is_by_others([line.text for line in part.lines]) for part in several):
        return
    lines = [line for part in several for line in part.lines]
    listed = {found[1] for line in lines if (found := _LISTED.match(line.text))}
    for line in lines:
        found = _NOT_LOADED.match(line.text)
        if found and found[1] in listed:
            yield Shown(("provider-missing", "library-mismatch"), line)
            break
    if any(_ACTIVE.match(line.text) for line in lines):
        for part in several:
            yield from _of_components(part)


def _of_components(part: Part) -> Iterator[Shown]:
    """All of Open MPI's that carry messages are listed, and none is of RDMA."""
    rows = [(line, found) for line in part.lines if (found := _COMPONENT.match(line.text))]
    kinds = {found[1] for _, found in rows}
    is_all = "grep" not in part.command or all(each in part.command for each in ("btl", "mtl"))
    if is_all and {"btl", "pml"} <= kinds and _OF_RDMA.isdisjoint(e[2] for _, e in rows):
        first: Line = rows[0][0]
        yield Shown(("feature-not-built", "no-provider"), first)
