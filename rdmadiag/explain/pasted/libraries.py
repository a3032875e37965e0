"""What libraries have and have not: providers of libibverbs, components of Open MPI.

libibverbs/init.c and dynamic_driver.c warn of providers; ompi_info(1) lists the components.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from rdmadiag.explain.pasted.benchmarks import measured_by_osu
from rdmadiag.explain.pasted.session import Part, Shown
from rdmadiag.late import late

_NO_PROVIDER = late(r"libibverbs: Warning: no userspace device-specific driver found for ")
_OTHER_ABI = late(r"libibverbs: Warning: Driver \S+ does not support the kernel ABI of ")
_NO_DEVICE = late(r"\s*No (?:IB|RDMA) devices? found")
_PROVIDER_NOT_LOADED: Final = late(
    r"libibverbs: Warning: couldn't load driver '(?:\S*/)?lib([a-z]+\d)-rdmav\d+\.so'"
    r".*: No such file or directory"
)
_LISTED: Final = late(r"\s*(?:CA '|hca_id:\s*|link )?([a-z]+\d)_\w+\b")
"""A device of mlx5 and the like, whose name begins with that of its driver."""
_LIST: Final = late(r"(?:\S*/)?ompi_info(?: -\S+| all)*(?: ?\| ?e?grep (.*))?$")
_COMPONENT: Final = late(r"\s*MCA (btl|pml|mtl): (\w+) \(MCA v")
_OF_RDMA: Final = frozenset(
    {"ucx", "uct", "openib", "ofi", "psm", "psm2", "mxm", "yalla", "portals4", "ugni", "usnic"}
)
_BY_TCP: Final = late(r"\b(?:btl|pml)[ _=]\S*(?:tcp|ob1|\^ucx)|\bUCX_TLS=\S*(?:tcp|\^ib|\^rc)")
"""Somebody asks for another way."""
_RATE: Final = late(r"\s*Rate:\s+(\d{1,6})\b")
"""Of ibstat: Gb/s of a port."""
MB_OF_A_GIGABIT: Final = 125
FAR_BELOW: Final = 0.25
"""Of the rate of a port: one connection of RDMA reaches more with large messages."""


def of_libraries(several: Sequence[Part]) -> Iterator[Shown]:
    """A device that no provider took in a program that has no other, or that went without RDMA;
    and an Open MPI that can go by nothing else.
    """
    for part in several:
        warned = [line for line in part.lines if _NO_PROVIDER.match(line.text)]
        if warned and any(_NO_DEVICE.match(line.text) for line in part.lines):
            yield Shown(("provider-missing", "library-mismatch"), warned[0])
        other = [line for line in part.lines if _OTHER_ABI.match(line.text)]
        if other and any(_NO_DEVICE.match(line.text) for line in part.lines):
            yield Shown(("provider-release", "provider-missing", "abi-mismatch"), other[0])
    yield from _of_providers(several)
    yield from _of_a_plugin(several)
    yield from _of_components(several)


def _of_providers(several: Sequence[Part]) -> Iterator[Shown]:
    """The provider of a device that is listed was not there in a program of MPI, which went by
    something else.
    """
    lines = [line for part in several for line in part.lines]
    listed = {found[1] for line in lines if (found := _LISTED.match(line.text))}
    for part in several:
        measured = measured_by_osu([line.text for line in part.lines])
        for line in part.lines if measured and measured.is_by_others else ():
            found = _PROVIDER_NOT_LOADED.match(line.text)
            if found and found[1] in listed:
                yield Shown(("provider-missing", "library-mismatch"), line, False)
                return


def _of_a_plugin(several: Sequence[Part]) -> Iterator[Shown]:
    """An Elastic Fabric Adapter, which NCCL takes by a plugin alone, and NCCL without one; or that
    plugin gives up. NCCL then goes by sockets.
    """
    lines = [line for part in several for line in part.lines]
    texts = [line.text for line in lines]
    if not any(map(_BY_SOCKETS.search, texts)):
        return
    has_efa = any(map(_EFA.match, texts))
    for line in lines:
        if has_efa and _NO_PLUGIN.search(line.text):
            yield Shown(("network-plugin-missing", "library-mismatch"), line)
            return
        if _GAVE_UP.search(line.text):
            yield Shown(("no-provider", "network-plugin-unfit", "no-rdma-device"), line)
            return


_EFA: Final = late(r"\s*provider: efa\s*$|\s*(?:rdmap\d+s\d+|efa_\d+)\s+[0-9a-f]{16}\s*$")
"""Of fi_info, and of ibv_devices."""
_GAVE_UP: Final = late(r"\bNET/OFI Failed to initialize rdma protocol\b")
_NO_PLUGIN: Final = late(r"\bNET/Plugin ?: (?:No plugin found|Could not find:?) .*libnccl-net\.so")
_BY_SOCKETS: Final = late(r"\bNCCL INFO Using network Socket\b|\bNET/IB : No device found\b")


def _of_components(several: Sequence[Part]) -> Iterator[Shown]:
    """All of Open MPI's that carry messages are listed, and none is of RDMA: a benchmark was far
    below the rate of a port.
    """
    rates = (_RATE.match(line.text) for part in several for line in part.lines)
    highest = max((int(found[1]) for found in rates if found), default=0)
    tables = (measured_by_osu([line.text for line in part.lines]) for part in several)
    peaks = [each.highest for each in tables if each and each.highest is not None]
    if not peaks or max(peaks) >= FAR_BELOW * MB_OF_A_GIGABIT * highest:
        return
    if any(_BY_TCP.search(part.command) for part in several):
        return
    for part in several:
        asked = _LIST.match(part.command)
        rows = [(line, found) for line in part.lines if (found := _COMPONENT.match(line.text))]
        kinds = {found[1] for _, found in rows}
        is_all = asked and (not asked[1] or ("btl" in asked[1] and "mtl" in asked[1]))
        if is_all and {"btl", "pml"} <= kinds and _OF_RDMA.isdisjoint(e[2] for _, e in rows):
            yield Shown(("feature-not-built", "no-provider"), rows[0][0], False)
