"""Devices that variables and commands name, and that the listings of the same host have not, or
have down; devices without the queue pairs that a command asks for; nodes of devices; and limits.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from rdmadiag.explain.pasted.session import Line, Part, Shown
from rdmadiag.late import late

_WHOLE: Final = late(
    r"(?:sudo |srun (?:-\S+ )*)?(?:ibv_devices|ibdev2netdev|rdma link(?: show)?|rdma dev(?: show)?"
    r"|ibv_devinfo \| e?grep (?:-\w )?['\"]?hca_id(?:\\?\|state)?['\"]?)$"
    r"|(?P<alone>(?:srun (?:\S+ )*)?ibstat -l)$"
)
_LISTED: Final = late(
    r"\s*(?:\d+: )?(?:link )?([a-z]\w*?)"
    r"(?:/\d+ state |: node_type |\s+[0-9a-f]{16}$| port \d+ ==>)"
)
_ID: Final = late(r"\s*hca_id:\s*([a-z]\w*)\s*$")
_ALONE: Final = late(r"\s*([a-z]\w*)\s*$")
_NAMES: Final = late(
    r"(?:.*[\s:])?(?:export )?(?:NCCL_IB_HCA(?:=| set to )|UCX_NET_DEVICES=)[\"']?[=]?([\w:,.-]+)"
)
_OF_VERBS: Final = late(r"(?:mlx\d_|bnxt_re|irdma|rocep|ibp|roceo|hns_|erdma_|rxe|siw)\w*$")
_STATE: Final = late(r"\s*(?:link )?([a-z]\w*)(?: port \d+ ==> \S+ \((\w+)\)|/\d+ state (\w+) )")
"""Of ibdev2netdev, and of rdma-link(8)."""
_CLASS: Final = late(r"ls (?:-\S+ )*/sys/class/infiniband/?$")
_NODES: Final = late(r"ls (?:-\S+ )*/dev/infiniband/?$")
_UVERBS: Final = late(r"\buverbs\d+$")
_DEVICE: Final = late(r"[a-z]\w*$")
_CONNECTED: Final = late(
    r"(?:ib_(?:read|write|send|atomic)_(?:bw|lat)|ibv_(?:rc|uc|xsrq)_pingpong)\s"
    r"(?!.*(?:-c|--connection[= ])\s*(?:SRD|UD)\b)"
    r".*(?:-d|--ib-dev[= ])\s*(?:rdmap\d+s\d+\w*|efa_\d+)\b"
)
"""Of an Elastic Fabric Adapter, which has SRD and UD alone: efa_verbs.c, efa_create_qp_ex."""
_NO_QP: Final = late(r"(?:Unable to create QP|Couldn't create QP|Failed to create QP)\b")
_LIMITS: Final = late(r"(\S+) hca_handle=(\w+) hca_object=(\w+)\s*$")


def of_names(several: Sequence[Part]) -> Iterator[Shown]:
    """What they show, the surest first."""
    yield from _of_devices(several)
    yield from _of_states(several)
    yield from _of_connected(several)
    yield from _of_commands(several)
    yield from _of_nodes(several)
    yield from _of_containers(several)
    yield from _of_limits(several)
    yield from _of_resources(several)
    yield from _of_ranks(several)


def _of_devices(several: Sequence[Part]) -> Iterator[Shown]:
    listed: dict[str, set[str]] = {}
    for part in several:
        if whole := _WHOLE.match(part.command):
            row = _ALONE if whole["alone"] else _LISTED
            found = (row.match(each.text) or _ID.match(each.text) for each in part.lines)
            listed.setdefault(part.host, set()).update(each[1] for each in found if each)
    for part in several:
        there = listed.get(part.host)
        for line in part.lines if there else ():
            if said := _NAMES.match(line.text):
                named = {each.partition(":")[0] for each in said[1].split(",")}
                ours = {each for each in named if _OF_VERBS.match(each)}
                if ours and not any(name.startswith(each) for each in ours for name in there or ()):
                    yield Shown(("device-renamed", "device-absent"), line)


def _of_states(several: Sequence[Part]) -> Iterator[Shown]:
    """A variable names a device of which each port that is listed is down, and others are up."""
    states: dict[str, dict[str, list[tuple[bool, Line]]]] = {}
    for part in several:
        for line in part.lines if _WHOLE.match(part.command) else ():
            if found := _STATE.match(line.text):
                is_up = (found[2] or found[3]).lower() in ("up", "active")
                of_host = states.setdefault(part.host, {})
                of_host.setdefault(found[1], []).append((is_up, line))
    for part in several:
        of_host = states.get(part.host, {})
        if not any(is_up for rows in of_host.values() for is_up, _ in rows):
            continue
        for text in (part.command, *(line.text for line in part.lines)):
            for said in _NAMES.finditer(text):
                named = [each.partition(":")[0] for each in said[1].split(",")]
                rows = [row for name in named for row in of_host.get(name, ())]
                if rows and not any(is_up for is_up, _ in rows):
                    yield Shown(("port-down", "device-absent"), rows[0][1])


def _of_connected(several: Sequence[Part]) -> Iterator[Shown]:
    for part in several:
        if _CONNECTED.search(part.command):
            for line in part.lines:
                if _NO_QP.match(line.text):
                    yield Shown(("qp-type-unsupported", "device-lacks-capability"), line)


def _of_commands(several: Sequence[Part]) -> Iterator[Shown]:
    """What a command leaves out, and what then fails in its words."""
    for part in several:
        command = part.command
        for line in part.lines:
            command = line.text if _STARTED.match(line.text) else command
            if _BY_LID.search(command) and _NO_RTR.match(line.text):
                yield Shown(("no-gid-given", "gid-index-or-family"), line)
            elif _CONTAINED.search(command) and _NOT_AVAILABLE.search(line.text):
                yield Shown(("container-without-device", "transport-unusable"), line)


_STARTED: Final = late(r"\s*\+ \w")  # of set -x
_BY_LID: Final = late(r"\bqperf (?!.*-cm1?\b).*\b(?:rc|uc|ud|xrc|ver)_\w+")
"""qperf takes a LID but with -cm1 (qperf's rdma.c): Ethernet has none."""
_NO_RTR: Final = late(r"failed to modify QP to RTR: Invalid argument")
_CONTAINED: Final = late(
    r"\b(?:apptainer|singularity) (?:exec|run|shell) .*(?: -C\b|--contain(?:all)?\b)"
)
_NOT_AVAILABLE: Final = late(r"network device '\S+' is not available|[Nn]o (?:usable )?IB device")


_RUN: Final = late(
    r".*\b(?:docker|podman|nerdctl) run "
    r"(?!.*(?:--privileged|/dev/infiniband|rdma/|--device[= ]/dev))"
)
_NONE: Final = late(r"\s*No (?:IB|RDMA) devices? found")
_NONE_OF_NCCL: Final = late(r".*\bNET/IB : No device found")


_HAS_ONE: Final = late(r".*\b(?:ibstat|ibv_devinfo|ibdev2netdev|mlx\d_\d+|rocep\d\w*|bnxt_re\d+)\b")
"""That the host has a device: NCCL says the same of one that has none, and goes by sockets."""


_IN_ONE: Final = late(r"\b(?:docker|podman|kubectl|enroot|container|apptainer)\b|^[0-9a-f]{12} ")
"""That what is shown may be of a container: its words, or a host's name that is its number."""
_STAYS: Final = late(r".* -\w*t\w* .*\b(?:ba|z|da)?sh\s*$")
"""A shell in a container: what follows is of it."""


def _of_containers(several: Sequence[Part]) -> Iterator[Shown]:
    """A container that was given no node, or none of those that sysfs shows in it."""
    shown = {part.host for part in several if _CLASS.match(part.command) and _devices(part)}
    every = [line.text for part in several for line in part.lines]
    has_one = any(_HAS_ONE.match(text) for text in every)
    in_one = any(map(_IN_ONE.search, (*every, *(f"{p.host} {p.command}" for p in several))))
    outside = None
    for part in several:
        runs = _RUN.match(part.command) and not part.command.rstrip().endswith("\\")
        if runs and _STAYS.match(part.command):
            outside = part.host
        inside = runs or (outside is not None and part.host != outside)
        for line in part.lines:
            none = _NONE.match(line.text)
            if inside and (none or (has_one and _NONE_OF_NCCL.match(line.text))):
                yield Shown(("container-without-device", "uverbs-node-missing"), line)
            elif none and part.host in shown:
                causes = ("uverbs-node-missing", "container-without-device")
                yield Shown(causes[::-1] if in_one else causes, line)


def _devices(part: Part) -> bool:
    words = [word for line in part.lines for word in line.text.split()]
    return bool(words) and all(_OF_VERBS.match(word) for word in words)


def _of_nodes(several: Sequence[Part]) -> Iterator[Shown]:
    """Some of the devices have no node: the container was given a part of them."""
    devices: dict[str, set[str]] = {}
    for part in several:
        words = [word for line in part.lines for word in line.text.split()]
        if _CLASS.match(part.command) and all(map(_DEVICE.match, words)):
            devices[part.host] = set(words)
        elif _NODES.match(part.command):
            nodes = [line for line in part.lines if _UVERBS.search(line.text.rstrip())]
            count = sum(bool(_UVERBS.match(word)) for word in words)
            if nodes and 0 < count < len(devices.get(part.host, ())):
                yield Shown(("uverbs-node-missing", "container-without-device"), nodes[-1])


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


def _of_ranks(several: Sequence[Part]) -> Iterator[Shown]:
    """nccl-tests on two hosts, each of them rank 0: built without MPI, they are two programs."""
    for part in several:
        first = ""
        for line in part.lines:
            if found := _RANK_0.match(line.text):
                if first and found[1] != first:
                    labels = ("feature-not-built", "launcher-mismatch")
                    yield Shown(labels, line, context="rank 0 twice")
                first = found[1]


_RANK_0: Final = late(r"#\s+Rank\s+0 (?:Group\s+0 )?Pid\s+\d+ on\s+(\S+) device ")
