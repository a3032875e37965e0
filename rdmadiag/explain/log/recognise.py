"""One line of a log → what it means for RDMA, or None."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Final

from rdmadiag.explain.calls import ANY, after_call, causes, known
from rdmadiag.explain.causes import Known, all_stated, possible, remedy, stated
from rdmadiag.explain.causes.cause import Used
from rdmadiag.explain.completions import after_completion, completion
from rdmadiag.explain.log.catalogue import Message, is_healthy, message_of
from rdmadiag.explain.log.fields import Fields, cleaned, fields
from rdmadiag.explain.log.identifiers import (
    errno_in,
    plain,
    stage_in,
    status_in,
    without_counters,
)
from rdmadiag.explain.log.in_words import in_words, likeliest, weights
from rdmadiag.explain.log.kind import EXACT, IN_WORDS, MESSAGE, OF_RDMA, Kind
from rdmadiag.explain.log.names import devices_of, printed_ends
from rdmadiag.explain.log.numbers import is_of_efa
from rdmadiag.explain.log.recall import named
from rdmadiag.explain.log.settings import LISTED_DOWN, Setting, setting_of
from rdmadiag.explain.log.signs import AFTERMATH, Errno, Sign, sign_of
from rdmadiag.explain.log.stages import stage_of
from rdmadiag.explain.log.trouble import is_trouble, is_trouble_beside, may_tell
from rdmadiag.explain.log.vocabulary import is_candidate
from rdmadiag.explain.remedies import DEVICES, DMESG_OF_RDMA, GIDS, Lines
from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.errnos import errno_name
from rdmadiag.facts.gid import Scope

MOST_CAUSES: Final = 5
TEXT_LIMIT: Final = 4096
"""Characters of a line that are looked at; of a longer one, the part around what was found."""


@dataclass(frozen=True)
class Meaning:
    """What a line means for RDMA; its kind may be UNKNOWN."""

    kind: Kind
    what: str  # "errno", "completion", or the word of a sign
    fields: Fields
    causes: tuple[Known, ...]
    next: Lines  # templates
    setting: Setting | None = None  # it is one, and shown nowhere


def recognise(line: bytes, after: bytes = b"", above: bytes = b"") -> Meaning | None:
    """What the line means; `after` is what follows it, `above` what stands before it."""
    text = cleaned(line[:TEXT_LIMIT].decode("utf-8", "replace"))
    if quoted := _QUOTED.fullmatch(text):
        text = quoted[1]
    if _FUNCTION.match(text) and (
        stated_below := _ERROR_BELOW.search(after.decode("utf-8", "replace"))
    ):
        text = f"{text} failed: {stated_below[1]}"  # Open MPI's help says it on two lines
    if is_cut_off(line) and not _NOT_OUTPUT.search(text):
        text = _with_rest(text, after)
    if not is_candidate(text.encode()) or not is_output(text):
        return None
    message = message_of(text)
    if _CONNECTS.match(text) and not printed_ends(above.decode("utf-8", "replace")):
        return None
    found = fields(
        text,
        after[:TEXT_LIMIT].decode("utf-8", "replace"),
        above[-TEXT_LIMIT:].decode("utf-8", "replace"),
    )
    known = (
        _of_setting(found)
        or _of_sign(found)
        or _of_completion(found)
        or _of_command(found)
        or _of_call(found)
    )
    if message:
        return _with_message(known, found, message)
    return known or of_identifiers(found) or _of_aftermath(found) or _of_nothing_known(found)


_QUOTED: Final = re.compile(r"(?:[-*>] |\d+\. )?[\"']?`([^`]+)`[\"']?[.,;]?")
"""A line of a log that a page shows, and nothing else beside it."""

_NOT_OUTPUT: Final = re.compile(
    r"^(?:diff --git|[+-]{3} [ab]/|@@ |commit [0-9a-f]{7,40}\b"
    r"|(?=\w*\d)(?=\w*[a-f])[0-9a-f]{7,40} \S|Author: )"
    r"|^[+-]\s.*[;{}(]\s*$"  # a line of a patch
    r"|^\s*(?://|/\*|\*\s|#include\b|#define\b|def |class |return\b|raise\b|throw\b|if ?\(|assert)"
    r"|%[sdiuxm]\b|%l+[udx]|\{[a-z_.!:]*\}.{0,3}[\"'`]"  # a format, not what it gave
    r"|[;{]\s*$|^(?:el)?if .*:$|^(?:IBV|RDMA_CM)_\w+(?: ?= ?\w+)?,?$"
    r"|`[^`]{0,200}\b(?:fail|error|cannot)[^`]{0,200}`"  # a page about what is printed
    r"|\b(?:docker|podman|srun|sbatch|mpirun|kubectl|torchrun|deepspeed) .*--\w"
    r"|^\s*(?:IBV|IB|RDMA_CM)_\w+(?: \(\d+\))?(?::| [-\N{EN DASH}]) (?:[\w ]{0,60}: )?"
    r"(?:The|This|Generated|Indicates) [a-z]|\bvalue can be (?:increased|changed|set)\b"
    r"|^\s*(?:-\w, )?--[a-z][\w-]+(?:=<|,? {2}|=\[)"  # a list of options
    r"|^\s*(?:\$|#|>>>|\+\+?) ?\w*(?:export|env|docker|mpirun|srun|torchrun|python|grep|git)\b"
)
"""Source, patches, history, manuals and command lines: they name failures without any."""


def is_output(text: str) -> bool:
    """Whether a program may have printed it, and not as a detail."""
    return not (_NOT_OUTPUT.search(text) or _DETAIL.search(text))


_CUT_OFF: Final = re.compile(
    rb"(?:\bwith|\berr(?:or|no)?|\bfailed|\bstatus|,|\blocal|\bremote|\bgid|\bindex|\bstate|\bnext"
    rb"|\bvendor|\bopcode|\blen|\bdev|\bconnection|\bnetwork is|\bno such|\bcannot(?: allocate)?"
    rb"|\binvalid|\btransport|\bretry(?: counter)?|\boperation not|\bbad|\bpermission|\bno route to"
    rb"|\bprotocol not|\bno data|\bcompletion)\s*$",
    re.IGNORECASE,
)
_BEGINS: Final = re.compile(
    r"^\s*(?:\[|\w[\w.-]*:\d+:\d+|\d{4}-|\d\d:\d\d|[IWEF]\d{4}|[A-Z]\w* *[:\[]|\w+\(|at |File )"
)
_REST: Final = 240


def is_cut_off(line: bytes) -> bool:
    """Whether it ends where no sentence does: a page or a terminal wrapped it."""
    return _CUT_OFF.search(line[-64:]) is not None


def _with_rest(text: str, after: bytes) -> str:
    rest = after[:_REST].decode("utf-8", "replace").partition("\n")[0]
    return text if not rest.strip() or _BEGINS.match(rest) else f"{text} {cleaned(rest)}"


_FUNCTION: Final = re.compile(r"Function: +(?:ibv|rdma)_\w+")
_ERROR_BELOW: Final = re.compile(r"^ *Error: +(.{1,200})", re.MULTILINE)

_CONNECTS: Final = re.compile(r"couldn't connect to \S+:\d+$", re.IGNORECASE)
"""Any program's words, but below what a pingpong of rdma-core or perftest prints of its ends."""

_DETAIL: Final = re.compile(
    r"\bUCX  ?(?:TRACE|DATA|REQ|FUNC|DEBUG(?!.*error (?:handler|callback) called))\b"
    r"|^libfabric:\S*<(?:debug|trace)>|\bNCCL TRACE\b"
    r"|\bNCCL INFO dlvsym failed\b|<info> fi_getinfo: provider \w+ returned"
)
"""What is tried in vain on healthy hosts too, and said to be a detail."""

_FAILED: Final = re.compile(
    r"fail|error|\berr\b|errno|unable|could ?n[o']t|cannot|can't|timed? ?out|refused|denied|no such"
    r"|unreachable|not (?:found|supported|permitted|available)|invalid|null value|non-zero status"
    r"|exhausted|out of |too many|NULL\b|closed \(-|already in use|no route"
    # of libfabric's providers and of perror, which say nothing but the call and its errno
    r"|<warn> (?:ibv|rdma)_\w+: \w|\b(?:ibv|rdma)_(?:create|alloc|reg|open)_\w+: resource temp",
    re.IGNORECASE,
)
_SUCCEEDED: Final = re.compile(
    r"\b0 (?:errors?|failures?)\b|(?:errors?|failures?|(?<!check )failed)[ =:]+0\b|no errors?\b"
    r"|(?<!failed )(?<!failed: )(?<!errno says: )(?<!errno: 0, )success\w*|error correction"
    r"|errors? (?:counter|rate)|retry_?(?:cnt|count)[ =:]",
    re.IGNORECASE,
)
_DEVICE_STAGES: Final = frozenset(
    {
        *(Stage.OPEN, Stage.ALLOC_PD, Stage.REG_MR, Stage.CREATE_CQ, Stage.CREATE_QP),
        *(Stage.INIT, Stage.RTR, Stage.RTS, Stage.DATA, Stage.TEARDOWN),
    }
)


def _of_setting(found: Fields) -> Meaning | None:
    row = setting_of(found.text)
    return Meaning(Kind.NOTE, row.word, found, (), (), row) if row else None


# --- messages ----------------------------------------------------------------------------


def _with_message(known: Meaning | None, found: Fields, message: Message) -> Meaning | None:
    """What the line's structure says and what its words are known for: two witnesses.

    Where a stack prints the words on healthy hosts too, their errno and their sound of failure
    say nothing; the status of a completion does.
    """
    if known is not None:
        exact = known.what == "completion" or known.what in EXACT
        if message.kind is None and not exact:
            return None
        if known.kind is not Kind.FAILURE or exact or not known.causes:
            return known
        share = BESIDE.get(known.what, OTHERS)
        several = _by_both(known.causes, _of_row(message, known.fields), share)
        return replace(known, causes=_by_gids(several, known.fields))
    if message.kind is None:
        return None
    found = _staged(found, message.stage)
    several = _of_row(message, found)
    if found.errno and found.stage:
        several = _by_both(several, causes(found.errno, found.stage, found.platform), OTHERS)
    several = _by_memory(_by_gids(several, found), found)
    look = remedy(several[0].label, found.platform) if several else ()
    return Meaning(message.kind, MESSAGE, found, several, look)


def _of_row(message: Message, found: Fields) -> tuple[Known, ...]:
    """Those that the line's platform has, and that what it used does not exclude."""
    labels = [each.label for each in named(message.labels, found.platform, used(found))]
    return all_stated(labels, message.stage or "")


def _by_both(
    first: Sequence[Known], second: Sequence[Known], of_second: float
) -> tuple[Known, ...]:
    """By the places that both give them; of the same, as the first has it."""
    weight: dict[str, float] = {}
    for share, several in ((1.0, first), (of_second, second)):
        for place, each in enumerate(several, 1):
            weight[each.label] = weight.get(each.label, 0.0) + share / place
    ordered = sorted((*first, *second), key=lambda each: -weight[each.label])
    return _unique(ordered)


BESIDE: Final = {"errno": 0.3, "call": 0.9}
OTHERS: Final = 0.5
"""Weight of a place that a message gives a cause, beside 1 of what the structure says: an errno
says more than the words around it, a call without one less than a sign. Chosen by the sums of
threads that were read, of trials between 0.1 and 1.5; those held apart change by one row of 87.
"""


# --- signs -------------------------------------------------------------------------------


def _of_sign(found: Fields) -> Meaning | None:
    # A firmware command names its stage; only ACCESS_REG is a sign of its own.
    if found.tool == "kernel" and _COMMAND.search(found.text) and "ACCESS_REG" not in found.text:
        return None
    sign = sign_of(found.text, found.platform)
    if sign is None or _SUCCEEDED.search(found.text):
        return None
    if sign.word == LISTED_DOWN and found.text.startswith("State") and "CA '" not in found.above:
        return None  # no listing of a host's own
    if sign.errno is Errno.REPLACES_SIGN and found.errno and found.stage in _DEVICE_STAGES:
        return None
    if sign.errno is Errno.STALE:
        found = replace(found, errno=None)
    of_errno = _of_errno_beside(sign, found)
    ordered = [*of_errno, *sign.causes] if sign.errno is Errno.FIRST else [*sign.causes, *of_errno]
    if sign.names_row and found.gid_index is not None and not found.errno:
        # An empty row can be queried: it is the zero GID.
        row = [stated("gid-index-or-family", "index"), stated("gid-row-empty")]
        ordered = [*(reversed(row) if _EMPTY_ROW.search(found.text) else row), *ordered]
    if sign.word == "named-device-absent" and not found.device and not _A_NAME.search(found.text):
        ordered = [stated("no-rdma-device"), *ordered]
    found = _staged(found, sign.stage)
    several = _by_gids(_unique(ordered), found)
    return Meaning(sign.kind, sign.word, found, several, sign.look(found.platform))


_A_NAME: Final = re.compile(
    r"(?:device|hca|nic|adapter|port)s?:? ['\"]?[A-Za-z]\w*\d|['\"][\w:,]+['\"]", re.IGNORECASE
)
"""Of a device, in whatever way: it was asked for by its name."""


def _of_errno_beside(sign: Sign, found: Fields) -> tuple[Known, ...]:
    connecting = sign.stage is Stage.CONNECT
    failing = sign.stage in _DEVICE_STAGES and sign.kind is Kind.FAILURE
    if not found.errno or sign.stage is None or not (connecting or failing):
        return ()
    return causes(found.errno, sign.stage, found.platform)


_EMPTY_ROW: Final = re.compile(r"invalid|empty|zero|null", re.IGNORECASE)


def _staged(found: Fields, stage: Stage | None) -> Fields:
    return found if stage is None or found.stage is stage else replace(found, stage=stage)


def _unique(several: Iterable[Known]) -> tuple[Known, ...]:
    """Each label once, the first sentence of it."""
    seen: dict[str, Known] = {}
    for cause in several:
        seen.setdefault(cause.label, cause)
    return tuple(seen.values())[:MOST_CAUSES]


# --- completions -------------------------------------------------------------------------


def _of_completion(found: Fields) -> Meaning | None:
    row = completion(found.status) if found.status else None
    if row is None:
        return None
    kind = Kind.CONSEQUENCE if row.is_consequence else Kind.FAILURE
    ordered = _by_path(row.causes, found) if row.number == _RETRIES else row.causes
    if row.number == _RETRIES and _SOME_COMPLETED.match(found.after):
        # The path, the GIDs and the MTU had carried some: what was there has gone.
        ordered = _last(_first(_first(ordered, "link-flaps"), "peer-gone"), "gid-does-not-route")
    if row.number == _RETRIES and _KILLED.search(found.above):
        ordered = _first(ordered, "peer-gone")
    if row.number == _LOCAL_PROTECTION and found.tool in _OF_GPUS:
        ordered = (*ordered, stated("gdr-off"))
    lines = after_completion(row.number, found.platform)
    return Meaning(kind, "completion", found, _unique(ordered), lines)


_RETRIES: Final = 12
_LOCAL_PROTECTION: Final = 4
_KILLED: Final = re.compile(
    r"\boom[-_ ]?kill|\bout of memory\b|\bsigkill\b|\bkilled by signal|\bexited on signal"
    r"|\bsegmentation fault|\bnode failure\b",
    re.IGNORECASE,
)
"""Another process of the job ended before."""
_SOME_COMPLETED: Final = re.compile(r"\s*scnt=\d+, ccnt=[1-9]")
"""perftest, below the status: requests that were posted, and those that had completed."""


def _by_path(several: tuple[Known, ...], found: Fields) -> tuple[Known, ...]:
    """Not the GID's fault where there is none, or where both are plain routable addresses."""
    gids = [gid for gid in (found.local_gid, found.remote_gid) if gid is not None]
    if _BY_ROUTE.search(found.text):  # rdma_cm took the GID that the route has, and it connected
        return _last(_first(several, "peer-gone"), "gid-does-not-route")
    if len(devices_of(found.text)) > 1:  # rails are subnets of their own, mostly
        return _first(several, "no-path")
    if gids:
        fine = all(gid.is_ipv4_mapped and gid.scope is not Scope.LINK_LOCAL for gid in gids)
    else:
        fine = found.link_layer == "ib"
    return _last(several, "gid-does-not-route") if fine else several


_BY_ROUTE: Final = re.compile(
    r"\b(?:nvmet?_rdma|isert|iser|ib_srpt?|svcrdma|rpcrdma|xprtrdma|rnbd|rtrs|kiblnd)\w*"
)


def _last(several: tuple[Known, ...], label: str) -> tuple[Known, ...]:
    return tuple(sorted(several, key=lambda each: each.label == label))


def _first(several: tuple[Known, ...], label: str) -> tuple[Known, ...]:
    return tuple(sorted(several, key=lambda each: each.label != label))


# --- firmware commands -------------------------------------------------------------------

_COMMAND: Final = re.compile(
    r"\b([A-Za-z0-9_]{3,40})\(0x[0-9a-f]+\)[^,]{0,60}failed, status ([a-z ]+)\(0x([0-9a-f]+)\)",
    re.IGNORECASE,
)
_KERNEL_LOG: Final = (DMESG_OF_RDMA, DEVICES)
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


def _of_command(found: Fields) -> Meaning | None:
    command = _COMMAND.search(found.text)
    if command is None:
        return None
    errno = _ERRNO_OF.get(int(command[3], 16) if len(command[3]) < 4 else 0, 5)
    stage = stage_of(command[1])
    found = replace(found, errno=errno, call=command[1].upper(), stage=stage, status=None)
    if stage is None:
        refused = _unique([stated("driver-refused"), *causes(errno, ANY, "linux")])
        return Meaning(Kind.FAILURE, "firmware-command", found, refused, _KERNEL_LOG)
    # The firmware knows nothing of a limit on locked memory, nor of a cgroup.
    several = _last(causes(_ENOMEM if errno == _EAGAIN else errno, stage, "linux"), "memlock")
    if stage is Stage.CREATE_QP and errno == _EINVAL:  # the driver checks sizes before it asks
        several = (stated("driver-refused"), *several, stated("device-lacks-capability"))
    elif stage is Stage.REG_MR and errno == _EINVAL:
        several = (stated("driver-refused"), *several)
    return _meaning("errno", found, several, after_call(errno, stage, "linux"))


def _meaning(what: str, found: Fields, several: tuple[Known, ...], look: Lines) -> Meaning:
    if not several:  # its number is not known: the call and the words are
        return Meaning(Kind.UNKNOWN, IN_WORDS, found, in_words(found, MOST_CAUSES), look)
    return Meaning(Kind.FAILURE, what, found, _unique(possible(several, used(found))), look)


def used(found: Fields) -> frozenset[Used]:
    """What the line itself says was used."""
    here, there = found.local_gid, found.remote_gid
    facts = {
        Used.GID: here is not None and not here.is_zero and not (there and there.is_zero),
        Used.NO_GID: here is not None and here.is_zero,
        Used.INDEX_NOT_0: bool(found.gid_index),
        Used.IPV4_GID: here is not None and here.is_ipv4_mapped,
        Used.ONE_FAMILY: here is not None and there is not None and here.family is there.family,
        Used.NO_IWARP: _OF_MLX.search(found.text) is not None,
    }
    return frozenset(each for each, said in facts.items() if said)


_OF_MLX: Final = re.compile(r"\bmlx[45]_")


# --- calls -------------------------------------------------------------------------------


def _of_call(found: Fields) -> Meaning | None:
    if found.stage is None or not _FAILED.search(found.text):
        return None
    if _SUCCEEDED.search(found.text) and not found.errno:
        return None
    if found.stage is Stage.CONNECT:
        several = _of_step(found)
        if not several and not found.call:
            return None
        return _meaning("errno" if found.errno else "call", found, several, _CONNECTING)
    look = after_call(found.errno, found.stage, found.platform)
    if found.errno:
        several = _by_size(causes(found.errno, found.stage, found.platform), found)
        return _meaning("errno", found, _by_memory(_by_gids(several, found), found), look)
    if found.call is None and not _STATED.search(found.text):
        return None
    several = _by_size(_without_errno(found), found)
    if found.tool != "rc_pingpong":
        several = _by_memory(_by_gids(several, found), found)
    return _meaning("call", found, several, look)


def _of_step(found: Fields) -> tuple[Known, ...]:
    """By the step of rdma_cm that failed, then by what the number means at any of them."""
    several = causes(found.errno or 0, Stage.CONNECT, found.platform)
    if found.errno == _ENOMEM and found.call:
        return (stated("no-memory"),)
    step = Stage.BIND if _BINDS.search(found.text) else _STEPS.get(found.call or "")
    if step is None or not found.errno:
        return several
    return _unique([*causes(found.errno, step, found.platform), *several])


_BINDS: Final = re.compile(r"\b(?:bind address failed|addr bind failure)\b", re.IGNORECASE)
"""udaddy, ucmatose and mckey of librdmacm, of rdma_bind_addr."""
_STEPS: Final = {
    "rdma_create_event_channel": Stage.EVENT_CHANNEL,
    "rdma_bind_addr": Stage.BIND,
    "rbind": Stage.BIND,
    "rdma_listen": Stage.LISTEN,
    "rlisten": Stage.LISTEN,
    "rdma_resolve_addr": Stage.RESOLVE_ADDRESS,
}
_CONNECTING: Final = (
    "ip route get {target}",
    GIDS,
    "# at the peer: is the program there, at this address and port?",
)
_STATED: Final = re.compile(
    r"(?:fail\w*|unable|could ?n[o']t|cannot|can't|error).{0,60}"
    r"(?:\bQP\b|queue pair|\bCQ\b|completion (?:queue|channel)|\bPD\b|protection domain|\bMR\b"
    r"|memory region|\bHCA\b|\bRTR\b|\bRTS\b|address handle|\bAH\b|INIT ?(?:->|→)"
    r"|(?:ib|rdma|verbs|open) device|context for"
    r"|post (?:send|recv|receive)|regist\w+ (?:\w+ ){0,2}memory)"
    r"|(?:queue pair|completion queue|protection domain|\b(?:QP|CQ|PD|MR)\b|INIT ?(?:->|→) ?RTR"
    r"|regist\w+ (?:\w+ ){0,2}memory).{0,60}fail",
    re.IGNORECASE,
)


_TOO_LARGE: Final = re.compile(r"size might be too (?:big|large)|reduc\w+ (?:the )?tx depth")


def _by_size(several: tuple[Known, ...], found: Fields) -> tuple[Known, ...]:
    """perftest names its own suspicion on the line below."""
    if found.stage is Stage.CREATE_QP and _TOO_LARGE.search(f"{found.text}\n{found.after}".lower()):
        return _unique([stated("qp-too-large"), *several])
    return several


_OF_GPUS: Final = frozenset({"nccl", "rccl", "nvshmem", "mooncake", "nixl", "mori"})
_OF_NCCL_CALLS: Final = ("ibv_reg_mr_iova2", "ibv_reg_dmabuf_mr")
"""NCCL and what was made from it (ibvwrap.cc) register by these alone."""
_EINVAL: Final = 22
_OF_PERFTEST: Final = re.compile(r"couldn't allocate mr\b", re.IGNORECASE)
_NOT_OF_HOST_MEMORY: Final = (14, _EINVAL)
"""EFAULT and EINVAL: what the kernel gives for an address that it cannot pin."""
_GPU: Final = re.compile(r"cuda|\bgpu|dma-?buf|hmem|\bhip\b|NET/OFI", re.IGNORECASE)


def _by_memory(several: tuple[Known, ...], found: Fields) -> tuple[Known, ...]:
    """These register GPU memory, mostly."""
    if found.stage is not Stage.REG_MR:
        return several
    of_gpus = found.tool in _OF_GPUS or found.call in _OF_NCCL_CALLS or _GPU.search(found.text)
    if found.errno == _NOT_OF_HOST_MEMORY[0] and _OF_PERFTEST.search(found.text):
        return _first(several, "gdr-off")  # it has allocated what it registers
    if of_gpus and found.errno in _NOT_OF_HOST_MEMORY:
        return _first(_unique([stated("gdr-off"), *several]), "gdr-off")
    if of_gpus or _GPU.search(found.above):
        return _first(several, "gdr-off")
    return several


def _by_gids(several: tuple[Known, ...], found: Fields) -> tuple[Known, ...]:
    """What the GIDs in the line already show comes first."""
    if found.stage is not Stage.RTR or found.platform != "linux":
        return several
    here, there = found.local_gid, found.remote_gid
    if here is not None and here.is_zero:
        return _first(_unique([stated("gid-row-empty"), *several]), "gid-row-empty")
    if there is not None and there.is_zero:
        return _first(_unique([stated("gid-row-empty", "peer"), *several]), "gid-row-empty")
    if here is not None and there is not None and here.family is not there.family:
        families = stated("gid-index-or-family", "family")
        return _unique([families, *several]) if found.errno in (None, _EINVAL) else several
    return several


def _without_errno(found: Fields) -> tuple[Known, ...]:
    """The tool gives no number: every cause of the stage, the most usual number first."""
    assert found.stage is not None
    rows = known(found.stage, found.platform)
    several: list[Known] = []
    given = found.local_gid is not None and not found.local_gid.is_zero
    if found.stage is Stage.RTR and found.tool == "rc_pingpong" and not given:
        # A GRH is needed on RoCE: rc_pingpong and its kin send none without an index.
        several.append(stated("no-gid-given"))
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
    return _unique(several)


def _is_default_gid(found: Fields) -> bool:
    """Of an Ethernet port, which has no LID: the first row of its GID table, as a rule."""
    here = found.local_gid
    of_ethernet = _NO_LID.search(found.above) is not None
    return of_ethernet and here is not None and here.scope is Scope.LINK_LOCAL


_NO_LID: Final = re.compile(r"local address: +LID (?:0x)?0+\b")

_OPENS: Final = re.compile(r"\bopen (?:the )?device \W?[a-z]\w*\d\b", re.IGNORECASE)
_GETS_CONTEXT: Final = re.compile(r"^couldn't get context for \S", re.IGNORECASE)
"""perftest, and the pingpongs of rdma-core."""
_USUAL_OF_OPENING: Final = (1, 13, 2, 12, 0)
"""The device was listed: its provider and its node in sysfs are there."""
_USUAL_OF_CONTEXT: Final = (13, 2, 1, 12, 0)
"""The same of a program that a user starts by hand, on a host more often than in a container."""
_TESTS: Final = frozenset({"perftest", "rc_pingpong"})
_USUAL_OF_TESTS: Final = {
    # They register memory before they make a queue, and the sizes are a user's arguments.
    Stage.CREATE_CQ: (22, 12),
}
_MAKES_CHANNEL: Final = re.compile(r"couldn't create (?:\w+ )?completion channel", re.IGNORECASE)
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


# --- identifiers -------------------------------------------------------------------------


def of_identifiers(found: Fields) -> Meaning | None:
    """What names say that are taken apart: the stage with an errno, or a status."""
    if not may_tell(found.text) or _SUCCEEDED.search(found.text) or is_of_efa(found.text):
        return None
    said = plain(found.text)
    if status := status_in(plain(without_counters(found.text))):
        return _of_completion(replace(found, status=status, stage=Stage.DATA, errno=None))
    stage = found.stage or stage_in(said)
    errno = (found.errno if _FAILED.search(found.text) else None) or errno_in(said)
    if stage is None or not errno or errno_name(errno, found.platform) is None:
        return None
    found = replace(found, stage=stage, errno=errno)
    if stage is Stage.CONNECT:
        return _meaning("errno", found, _of_step(found), _CONNECTING)
    several = _by_size(causes(errno, stage, found.platform), found)
    look = after_call(errno, stage, found.platform)
    return _meaning("errno", found, _by_memory(_by_gids(several, found), found), look)


# --- the rest ----------------------------------------------------------------------------


def _of_aftermath(found: Fields) -> Meaning | None:
    if AFTERMATH.search(found.text):
        says = is_trouble(found.text) or _OF_NCCL.search(found.text)
        what = OF_RDMA if says else "aftermath"
        return Meaning(Kind.AFTERMATH, what, found, (), ())
    return None


_OF_NCCL: Final = re.compile(
    r"\bNCCL (?:failure|error)|\bncclSystemError|\bNIXL_ERR_", re.IGNORECASE
)
"""The last line of a job that failed, often all that its user has."""


def _of_nothing_known(found: Fields) -> Meaning | None:
    if not is_trouble(found.text):
        return None
    several = in_words(found, MOST_CAUSES)
    look = remedy(several[0].label, found.platform) if several else ()
    return Meaning(Kind.UNKNOWN, IN_WORDS if several else "unknown", found, several, look)


# --- neighbours --------------------------------------------------------------------------


def beside_rdma(line: bytes, after: bytes, above: bytes) -> Meaning | None:
    """Trouble that does not name RDMA, where the lines around it do."""
    text = cleaned(line[:TEXT_LIMIT].decode("utf-8", "replace"))
    around = [*_lines(above)[-_BESIDE:], *_lines(after)[:_BESIDE]]
    if not is_output(text) or is_healthy(text) or not is_trouble_beside(text, around):
        return None
    found = fields(text)
    several = likeliest(weights(text) + weights("\n".join(around)), MOST_CAUSES)
    look = remedy(several[0].label, found.platform) if several else ()
    return Meaning(Kind.AFTERMATH, OF_RDMA, found, several, look)


_BESIDE: Final = 4


def _lines(text: bytes) -> list[str]:
    return [cleaned(each) for each in text.decode("utf-8", "replace").splitlines()]
