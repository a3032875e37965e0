"""Devices that variables name, and that the listings of the same host have not; and limits."""

from collections.abc import Iterator, Sequence
from typing import Final

from rdmadiag.explain.pasted.session import Line, Part, Shown
from rdmadiag.late import late

_WHOLE: Final = late(
    r"(?:sudo )?(?:ibv_devices|ibdev2netdev|rdma link(?: show)?|rdma dev(?: show)?)$"
)
_LISTED: Final = late(
    r"\s*(?:\d+: )?(?:link )?([a-z]\w*?)"
    r"(?:/\d+ state |: node_type |\s+[0-9a-f]{16}$| port \d+ ==>)"
)
_NAMES: Final = late(
    r"(?:.*[\s:])?(?:export )?(?:NCCL_IB_HCA|UCX_NET_DEVICES)=[\"']?[=]?([\w:,.-]+)"
)
_OF_VERBS: Final = late(r"(?:mlx\d_|bnxt_re|irdma|rocep|ibp|roceo|hns_|erdma_|rxe|siw)\w*$")
_LIMITS: Final = late(r"(\S+) hca_handle=(\w+) hca_object=(\w+)\s*$")


def of_names(several: Sequence[Part]) -> Iterator[Shown]:
    """What they show, the surest first."""
    yield from _of_devices(several)
    yield from _of_limits(several)
    yield from _of_resources(several)


def _of_devices(several: Sequence[Part]) -> Iterator[Shown]:
    listed: dict[str, set[str]] = {}
    for part in several:
        if _WHOLE.match(part.command):
            found = (_LISTED.match(line.text) for line in part.lines)
            listed.setdefault(part.host, set()).update(each[1] for each in found if each)
    for part in several:
        there = listed.get(part.host)
        for line in part.lines if there else ():
            if said := _NAMES.match(line.text):
                named = {each.partition(":")[0] for each in said[1].split(",")}
                ours = {each for each in named if _OF_VERBS.match(each)}
                if ours and not any(name.startswith(each) for each in ours for name in there or ()):
                    yield Shown(("device-renamed", "device-absent"), line)


def _of_limits(several: Sequence[Part]) -> Iterator[Shown]:
    """rdma.current of a cgroup that has reached rdma.max."""
    most: dict[str, tuple[str, str]] = {}
    current: dict[str, tuple[str, str, Line]] = {}
    for part in several:
        for line in part.lines:
            if found := _LIMITS.match(line.text):
                if "rdma.current" in part.command:
                    current[found[1]] = (found[2], found[3], line)
                elif "rdma.max" in part.command:
                    most[found[1]] = (found[2], found[3])
    for device, (handles, objects, line) in current.items():
        if device in most and (handles == most[device][0] or objects == most[device][1]):
            yield Shown(("rdma-cgroup", "qp-exhausted"), line)


def _of_resources(several: Sequence[Part]) -> Iterator[Shown]:
    """A column of kubectl that has no device of RDMA for a node."""
    for part in several:
        at: int | None = None
        for line in part.lines if "allocatable" in part.command else ():
            words = line.text.split()
            if words[:1] == ["NAME"]:
                at = next((n for n, word in enumerate(words) if _COLUMN.search(word)), None)
            elif at is not None and words[at : at + 1] == ["0"]:
                yield Shown(("resource-not-advertised",), line)


_COLUMN: Final = late(r"(?i:rdma|hca|mlnx)")
