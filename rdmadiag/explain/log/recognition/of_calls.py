"""A call, or a firmware command, that failed: what its stage, its errno and its line say."""

import re
from dataclasses import replace
from itertools import zip_longest
from typing import Final

from rdmadiag.explain.calls import ANY, after_call, causes, known
from rdmadiag.explain.causes import Known, stated
from rdmadiag.explain.log.kind import CALL, Kind
from rdmadiag.explain.log.line.fields import Fields
from rdmadiag.explain.log.line.stages import stage_of
from rdmadiag.explain.log.meaning import (
    OF_GPUS,
    Meaning,
    first,
    last,
    meaning_of,
    unique,
)
from rdmadiag.explain.remedies import DEVICES, DMESG_OF_RDMA, GIDS
from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.gid import Gid, Scope
from rdmadiag.late import late

FAILED: Final = late(
    r"fail|error|\berr\b|errno|unable|could ?n[o']t|cannot|can't|timed? ?out|refused|denied|no such"
    r"|unreachable|not (?:found|supported|permitted|available)|invalid|null value|non-zero status"
    r"|exhausted|out of |too many|NULL\b|closed \(-|already in use|no route"
    # of libfabric's providers and of perror, which say nothing but the call and its errno
    r"|<warn> (?:ibv|rdma)_\w+: \w|\b(?:ibv|rdma)_(?:create|alloc|reg|open)_\w+: resource temp",
    re.IGNORECASE,
)
SUCCEEDED: Final = late(
    r"\b0 (?:errors?|failures?)\b|(?:errors?|failures?|(?<!check )failed)[ =:]+0\b|no errors?\b"
    r"|(?<!failed )(?<!failed: )(?<!errno says: )(?<!errno: 0, )"
    # perror of a call of rsockets that failed, and set no errno
    r"(?<!rpoll: )(?<!rsend: )(?<!rrecv: )(?<!rconnect: )success\w*|error correction"
    r"|errors? (?:counter|rate)|retry_?(?:cnt|count)[ =:]",
    re.IGNORECASE,
)


# --- firmware commands -------------------------------------------------------------------

COMMAND: Final = late(
    r"\b([A-Za-z0-9_]{3,40})\(0x[0-9a-f]+\)[^,]{0,60}failed, status ([a-z ]+)\(0x([0-9a-f]+)\)",
    re.IGNORECASE,
)
_KERNEL_LOG: Final = (DMESG_OF_RDMA, DEVICES)
EINVAL: Final = 22
_EAGAIN: Final = 11
_ENOMEM: Final = 12
_ERRNO_OF: Final = {
    0x1: 5,
    0x2: 22,
    0x3: 22,
    0x4: 5,
    0x5: 22,
    0x6: 16,
    0x8: 12,
    0x9: 22,
    0xA: 22,
    0xF: 11,
    0x10: 22,
    0x30: 22,
    0x40: 22,
    0x50: 5,
    0x51: 5,
}
"""MLX5_CMD_STAT_* → errno: cmd_status_to_err of mlx5's cmd.c."""


def of_command(found: Fields) -> Meaning | None:
    """What the firmware of mlx5 refused."""
    command = COMMAND.search(found.text)
    if command is None:
        return None
    errno = _ERRNO_OF.get(int(command[3], 16) if len(command[3]) < 4 else 0, 5)
    stage = stage_of(command[1])
    found = replace(found, errno=errno, call=command[1].upper(), stage=stage, status=None)
    if stage is None:
        refused = unique([stated("driver-refused"), *causes(errno, ANY, "linux")])
        return Meaning(Kind.FAILURE, "firmware-command", found, refused, _KERNEL_LOG)
    # The firmware knows nothing of a limit on locked memory, nor of a cgroup.
    several = last(causes(_ENOMEM if errno == _EAGAIN else errno, stage, "linux"), "memlock")
    if stage is Stage.CREATE_QP and errno == EINVAL:  # the driver checks sizes before it asks
        several = (stated("driver-refused"), *several, stated("device-lacks-capability"))
    elif stage is Stage.REG_MR and errno == EINVAL:
        several = (stated("driver-refused"), *several)
    return meaning_of("errno", found, several, after_call(errno, stage, "linux"))


# --- calls -------------------------------------------------------------------------------


def of_call(found: Fields) -> Meaning | None:
    """A call whose name, or what it makes, is in the line."""
    if found.stage is None or not FAILED.search(found.text):
        return None
    if SUCCEEDED.search(found.text) and not found.errno:
        return None
    if found.stage is Stage.CONNECT:
        several = of_step(found)
        if not several and not found.call:
            return None
        return meaning_of("errno" if found.errno else CALL, found, several, CONNECTING)
    look = after_call(found.errno, found.stage, found.platform)
    if found.errno:
        several = by_size(causes(found.errno, found.stage, found.platform), found)
        several = by_object(several, found)
        return meaning_of("errno", found, by_memory(by_gids(several, found), found), look)
    if found.call is None and not _STATED.search(found.text):
        return None
    several = by_size(_without_errno(found), found)
    if _UNSUPPORTED.search(found.text):
        several = unique([*causes(_EOPNOTSUPP, found.stage, "linux"), *several])
    if found.tool != "rc_pingpong":
        several = by_memory(by_gids(several, found), found)
    return meaning_of(CALL, found, several, look)


def of_step(found: Fields) -> tuple[Known, ...]:
    """By the step of rdma_cm that failed, then by what the number means at any of them."""
    several = causes(found.errno or 0, Stage.CONNECT, found.platform)
    if found.errno == _ENOMEM and found.call:
        return (stated("no-memory"),)
    step = Stage.BIND if _BINDS.search(found.text) else _STEPS.get(found.call or "")
    if step is None or not found.errno:
        return several
    return unique([*causes(found.errno, step, found.platform), *several])


_BINDS: Final = late(r"\b(?:bind address failed|addr bind failure)\b", re.IGNORECASE)
"""udaddy, ucmatose and mckey of librdmacm, of rdma_bind_addr."""
_STEPS: Final = {
    "rdma_create_event_channel": Stage.EVENT_CHANNEL,
    "rdma_bind_addr": Stage.BIND,
    "rbind": Stage.BIND,
    "rdma_listen": Stage.LISTEN,
    "rlisten": Stage.LISTEN,
    "rdma_resolve_addr": Stage.RESOLVE_ADDRESS,
}
CONNECTING: Final = (
    "ip route get {target}",
    GIDS,
    "# at the peer: is the program there, at this address and port?",
)
_STATED: Final = late(
    r"(?:fail\w*|unable|could ?n[o']t|cannot|can't|error).{0,60}"
    r"(?:\bQP\b|queue pair|\bCQ\b|completion (?:queue|channel)|\bPD\b|protection domain|\bMR\b"
    r"|memory region|\bHCA\b|\bRTR\b|\bRTS\b|address handle|\bAH\b|INIT ?(?:->|→)"
    r"|(?:ib|rdma|verbs|open) device|context for"
    r"|post (?:send|recv|receive)|regist\w+ (?:\w+ ){0,2}memory)"
    r"|(?:queue pair|completion queue|protection domain|\b(?:QP|CQ|PD|MR)\b|INIT ?(?:->|→) ?RTR"
    r"|regist\w+ (?:\w+ ){0,2}memory).{0,60}fail",
    re.IGNORECASE,
)


_UNSUPPORTED: Final = late(r"\b(?:not|n't) support|\bunsupported\b", re.IGNORECASE)
"""The same in words."""
_EOPNOTSUPP: Final = 95
_TOO_LARGE: Final = late(r"size might be too (?:big|large)|reduc\w+ (?:the )?tx depth")


def by_size(several: tuple[Known, ...], found: Fields) -> tuple[Known, ...]:
    """perftest names its own suspicion on the line below."""
    if found.stage is Stage.CREATE_QP and _TOO_LARGE.search(f"{found.text}\n{found.after}".lower()):
        return unique([stated("qp-too-large"), *several])
    return several


_ONE_A_PEER: Final = frozenset({"mooncake", "libfabric", "openmpi"})
"""Programs that make a queue pair for each peer, as they meet it: many, long after the start."""
_OF_A_MODULE: Final = late(
    r"(?:^\W{0,3}\[(?: *\d{1,7}\.\d{3,6}|\w{3} \w{3} [ \d]\d [\d:]{8} \d{4})\]|\bkernel: )"
    r".{0,80}\brdma_create_qp\b"
)
"""A queue pair of the kernel's own (iSER, NVMe, NFS): limits of a process do not hold for it."""
_KEY_OF_MEMORY: Final = late(r"\bcreate_mkey|\bmkey\b|async reg mr", re.IGNORECASE)
"""mlx5_ib, of keys that its firmware gives: the pages are pinned before."""


def by_object(several: tuple[Known, ...], found: Fields) -> tuple[Known, ...]:
    """What the line says of the object decides between the causes of one errno."""
    if found.stage is Stage.CREATE_QP and found.errno == _ENOMEM and found.tool in _ONE_A_PEER:
        return first(several, "qp-exhausted")
    if found.errno == _ENOMEM and _OF_A_MODULE.search(found.text):
        return last(first(several, "qp-too-large"), "memlock")
    if found.stage is Stage.REG_MR and _KEY_OF_MEMORY.search(found.text):
        return last(first(several, "mr-exhausted"), "memlock")
    if found.stage is Stage.OPEN and found.errno == _ENOENT and _CLASS.search(found.text):
        return unique([stated("no-rdma-device"), stated("kernel-module-missing"), *several])
    return several


_ENOENT: Final = 2
_CLASS: Final = late(r"/sys/class/infiniband(?![\w/])")
"""It is there as soon as ib_core is: no driver has loaded it."""


def _without_errno(found: Fields) -> tuple[Known, ...]:
    """The tool gives no number: every cause of the stage, the most usual number first."""
    assert found.stage is not None
    rows = known(found.stage, found.platform)
    several: list[Known] = []
    given = found.local_gid is not None and not found.local_gid.is_zero
    if found.stage is Stage.RTR and found.tool in _OF_A_LID and not (given or found.gid_index):
        # A GRH is needed on RoCE: rc_pingpong and its kin send none without an index. With one
        # they print the GID of the row, :: where it is empty.
        is_empty = found.local_gid is not None and found.asks_for_row
        several.append(stated("gid-row-empty" if is_empty else "no-gid-given"))
    if found.stage is Stage.INIT and found.tool in _TESTS:
        several.append(stated("no-such-port"))  # their P_Key index is 0, and the port a user's
    if found.stage is Stage.RTR and found.tool in _TESTS and _is_default_gid(found):
        several += [stated("gid-not-an-address"), stated("gid-does-not-route")]
    if found.stage is Stage.RTR and found.gid_index is not None:
        several += [stated("gid-index-or-family", "index"), stated("gid-row-empty")]
        several += [stated("gid-does-not-route")] if found.gid_index == 0 else []
    # One cause a number first, then what is left of each.
    usual = _USUAL.get((found.platform, found.stage), ())
    opens = found.call == "ibv_open_device" or _OPENS.search(found.text)
    if opens and found.stage is Stage.OPEN and found.platform == "linux":
        usual = _USUAL_OF_OPENING
    elif _GETS_CONTEXT.search(found.text):
        usual = _USUAL_OF_CONTEXT
    elif found.tool in _TESTS:
        usual = _USUAL_OF_TESTS.get(found.stage, usual)
    if found.call == "ibv_create_comp_channel" or _MAKES_CHANNEL.search(found.text):
        several.append(stated("open-files-limit"))  # it takes a descriptor and nothing else
    for column in zip_longest(*(rows[number] for number in usual if number in rows)):
        several += [each for each in column if each is not None]
    return unique(several)


def _is_default_gid(found: Fields) -> bool:
    """Of an Ethernet port, which has no LID: the first row of its GID table, as a rule."""
    here = found.local_gid
    of_ethernet = _NO_LID.search(found.above) is not None
    return of_ethernet and here is not None and here.scope is Scope.LINK_LOCAL


_NO_LID: Final = late(r"local address: +LID (?:0x)?0+\b")

_OPENS: Final = late(r"\bopen (?:the )?device \W?[a-z]\w*\d\b", re.IGNORECASE)
_GETS_CONTEXT: Final = late(
    r"^couldn't get context for \S|\bopen (?:the )?(?:(?:ib|rdma|verbs|infiniband) )?device\W*$",
    re.IGNORECASE,
)
"""perftest, the pingpongs of rdma-core, and what was made after them."""
_USUAL_OF_OPENING: Final = (1, 13, 2, 12, 0)
"""The device was listed: its provider and its node in sysfs are there."""
_USUAL_OF_CONTEXT: Final = (13, 2, 1, 12, 0)
"""The same of a program that a user starts by hand, on a host more often than in a container."""
_TESTS: Final = frozenset({"perftest", "rc_pingpong"})
_OF_A_LID: Final = frozenset({"rc_pingpong", "verbs"})
"""They address by LID alone, unless a GID index is given."""
_USUAL_OF_TESTS: Final = {
    # They register memory before they make a queue, and the sizes are a user's arguments.
    Stage.CREATE_CQ: (22, 12),
}
_MAKES_CHANNEL: Final = late(r"couldn't create (?:\w+ )?completion channel", re.IGNORECASE)
_USUAL: Final = {
    ("linux", Stage.OPEN): (0, 2, 13, 12),
    ("linux", Stage.ALLOC_PD): (12,),
    ("linux", Stage.REG_MR): (12, 14),
    ("linux", Stage.CREATE_CQ): (12, 22),
    ("linux", Stage.CREATE_QP): (12, 22, 95),
    ("linux", Stage.INIT): (22,),
    ("linux", Stage.RTR): (110, 61, 22),
    ("linux", Stage.RTS): (22,),
    ("linux", Stage.DATA): (12, 22),
    ("linux", Stage.TEARDOWN): (16,),
    ("darwin", Stage.OPEN): (0,),
    ("darwin", Stage.ALLOC_PD): (0,),
    ("darwin", Stage.REG_MR): (0,),
    ("darwin", Stage.CREATE_CQ): (0,),
    ("darwin", Stage.CREATE_QP): (16, 102),
    ("darwin", Stage.RTR): (22, 96, 60),
}


_OF_NCCL_CALLS: Final = ("ibv_reg_mr_iova2", "ibv_reg_dmabuf_mr")
"""NCCL and what was made from it (ibvwrap.cc) register by these alone."""
_OF_PERFTEST: Final = late(r"couldn't allocate mr\b", re.IGNORECASE)
_NOT_OF_HOST_MEMORY: Final = (14, EINVAL)
"""EFAULT and EINVAL: what the kernel gives for an address that it cannot pin."""
_GPU: Final = late(r"cuda|\bgpu|dma-?buf|hmem|\bhip\b|NET/OFI", re.IGNORECASE)


def by_memory(several: tuple[Known, ...], found: Fields) -> tuple[Known, ...]:
    """These register GPU memory, mostly."""
    if found.stage is not Stage.REG_MR:
        return several
    of_gpus = found.tool in OF_GPUS or found.call in _OF_NCCL_CALLS or _GPU.search(found.text)
    if found.errno == _NOT_OF_HOST_MEMORY[0] and _OF_PERFTEST.search(found.text):
        return first(several, "gdr-off")  # it has allocated what it registers
    if of_gpus and found.errno in _NOT_OF_HOST_MEMORY:
        return first(unique([stated("gdr-off"), *several]), "gdr-off")
    if of_gpus or _GPU.search(found.above):
        return first(several, "gdr-off")
    return several


def by_gids(several: tuple[Known, ...], found: Fields) -> tuple[Known, ...]:
    """What the GIDs in the line already show comes first."""
    if found.stage is not Stage.RTR or found.platform != "linux":
        return several
    here, there = found.local_gid, found.remote_gid
    if here is not None and here.is_zero:
        return first(unique([stated("gid-row-empty"), *several]), "gid-row-empty")
    if there is not None and there.is_zero:
        return first(unique([stated("gid-row-empty", "peer"), *several]), "gid-row-empty")
    if here is not None and there is not None and here.family is not there.family:
        families = stated("gid-index-or-family", "family")
        return unique([families, *several]) if found.errno in (None, EINVAL) else several
    if here is not None and here.scope is Scope.LINK_LOCAL:
        return _of_link_local(several, found.errno)
    is_apart = here is not None and _is_self_given(there) and not _is_self_given(here)
    if found.errno in _UNANSWERED and is_apart:
        return unique([stated("gid-does-not-route"), stated("subnets-differ"), *several])
    if found.errno in _UNANSWERED and found.gid_index in _DEFAULT_ROWS:
        return unique([stated("gid-does-not-route"), *several])
    if found.errno == _TIMED_OUT and here and there and _are_apart(here, there):
        return unique([stated("no-path"), stated("subnets-differ"), *several])
    return several


def _are_apart(here: Gid, there: Gid) -> bool:
    """Whether two IPv4 addresses differ in more than the last byte: of two subnets, mostly."""
    several = here.is_ipv4_mapped, there.is_ipv4_mapped
    return all(several) and here.raw[:-1] != there.raw[:-1]


def _is_self_given(gid: Gid | None) -> bool:
    """Of 169.254.0.0/16, which hosts without DHCP give themselves (RFC 3927)."""
    return gid is not None and gid.is_ipv4_mapped and gid.raw[12:14] == bytes((169, 254))


_TIMED_OUT: Final = 110
_UNANSWERED: Final = (101, 110, 113)
"""ENETUNREACH, ETIMEDOUT and EHOSTUNREACH: the address of the peer is not found on the link."""
_DEFAULT_ROWS: Final = (0, 1)
"""Of a RoCE port: RoCE v1 and v2 of the link-local address that its MAC gives."""


def _of_link_local(several: tuple[Known, ...], errno: int | None) -> tuple[Known, ...]:
    """The default GID may be no address of its interface, and is routed nowhere."""
    if errno == EINVAL:
        return first(unique([stated("gid-not-an-address"), *several]), "gid-not-an-address")
    if errno in _UNANSWERED:
        return unique([stated("gid-does-not-route"), *several])
    return several
