"""One line of a log → what it means for RDMA, or None."""

import re
from dataclasses import replace
from itertools import takewhile
from typing import Final

from rdmadiag.explain.calls import after_call, causes
from rdmadiag.explain.causes import Known, all_stated, remedy, stated
from rdmadiag.explain.completions import after_completion, completion
from rdmadiag.explain.log.kind import IN_WORDS, OF_RDMA, Kind
from rdmadiag.explain.log.line.errno_texts import in_english
from rdmadiag.explain.log.line.fields import Fields, cleaned, fields
from rdmadiag.explain.log.line.identifiers import (
    errno_in,
    plain,
    stage_in,
    status_in,
    without_counters,
)
from rdmadiag.explain.log.line.names import devices_of, printed_ends
from rdmadiag.explain.log.line.numbers import is_of_efa
from rdmadiag.explain.log.line.printed import NOT_OUTPUT, QUOTED, is_cut_off, is_output, with_rest
from rdmadiag.explain.log.meaning import (
    MOST_CAUSES,
    OF_GPUS,
    Meaning,
    first,
    last,
    meaning_of,
    staged,
    unique,
)
from rdmadiag.explain.log.recognition.catalogue import Message, is_healthy, message_of
from rdmadiag.explain.log.recognition.in_words import in_words, likeliest, weights
from rdmadiag.explain.log.recognition.of_calls import (
    COMMAND,
    CONNECTING,
    FAILED,
    SUCCEEDED,
    by_gids,
    by_memory,
    by_object,
    by_size,
    of_call,
    of_command,
    of_step,
)
from rdmadiag.explain.log.recognition.of_messages import with_message
from rdmadiag.explain.log.recognition.settings import LISTED_DOWN, setting_of
from rdmadiag.explain.log.recognition.signs import AFTERMATH, Errno, Sign, sign_of
from rdmadiag.explain.log.recognition.signs.listings import (
    LISTED_INITIALIZING,
    NO_DEVICE,
    lists_no_device,
)
from rdmadiag.explain.log.recognition.trouble import (
    is_trouble,
    is_trouble_beside,
    is_warning,
    may_tell,
)
from rdmadiag.explain.log.recognition.vocabulary import is_candidate
from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.errnos import errno_name
from rdmadiag.facts.gid import Scope
from rdmadiag.late import late

TEXT_LIMIT: Final = 4096
"""Characters of a line that are looked at; of a longer one, the part around what was found."""


def recognise(line: bytes, after: bytes = b"", above: bytes = b"") -> Meaning | None:
    """What the line means; `after` is what follows it, `above` what stands before it."""
    text = cleaned(line[:TEXT_LIMIT].decode("utf-8", "replace"))
    if quoted := QUOTED.fullmatch(text):
        text = quoted[1]
    if _FUNCTION.match(text) and (
        stated_below := _ERROR_BELOW.search(after.decode("utf-8", "replace"))
    ):
        text = f"{text} failed: {stated_below[1]}"  # Open MPI's help says it on two lines
    if (asked := _LINK_ADDED.search(above.decode("utf-8", "replace"))) and _ANSWERS.match(text):
        text = f"{asked[0].strip()}: {text}"
    if is_cut_off(line) and not NOT_OUTPUT.search(text):
        text = with_rest(text, after)
    if not is_candidate(text.encode()) or not is_output(text):
        return None
    text = in_english(text)
    message = _message_of(text)
    if _CONNECTS.match(text) and not printed_ends(above.decode("utf-8", "replace")):
        return None
    found = fields(
        text,
        after[:TEXT_LIMIT].decode("utf-8", "replace"),
        above[-TEXT_LIMIT:].decode("utf-8", "replace"),
    )
    if setting := _of_setting(found):
        return setting
    if lists_no_device(text, after):
        return meaning_of("no-device", found, all_stated(NO_DEVICE), remedy(NO_DEVICE[0], "linux"))
    known = _of_sign(found) or of_completion(found) or of_command(found) or of_call(found)
    if message:
        return with_message(known, found, message)
    return known or of_identifiers(found) or _of_aftermath(found) or _of_nothing_known(found)


_FUNCTION: Final = late(r"Function: +(?:ibv|rdma)_\w+")
_ERROR_BELOW: Final = late(r"^ *Error: +(.{1,200})", re.MULTILINE)

_LINK_ADDED: Final = late(r"\brdma link add \S+ type \w+ [^\n]*\n?$")
_ANSWERS: Final = late(r"(?:error|RTNETLINK answers): ", re.IGNORECASE)
"""rdma(8) says of a link that is not added only what the kernel answers."""


def _message_of(text: str) -> Message | None:
    """None, too, where a release says that it is an error and others take it for a detail."""
    found = message_of(text)
    return None if found and found.is_healthy and _IS_ERROR.search(text) else found


_IS_ERROR: Final = late(r"\bUCX  ?(?:ERROR|FATAL)\b")

_CONNECTS: Final = late(r"couldn't connect to \S+:\d+$", re.IGNORECASE)
"""Any program's words, but below what a pingpong of rdma-core or perftest prints of its ends."""

_DEVICE_STAGES: Final = frozenset(
    {
        *(Stage.OPEN, Stage.ALLOC_PD, Stage.REG_MR, Stage.CREATE_CQ, Stage.CREATE_QP),
        *(Stage.INIT, Stage.RTR, Stage.RTS, Stage.DATA, Stage.TEARDOWN),
    }
)


def _of_setting(found: Fields) -> Meaning | None:
    row = setting_of(found.text)
    if row is None:
        return None
    shown = (stated(row.shown),) if row.shown else ()
    look = remedy(row.shown, "linux") if row.shown else ()
    return Meaning(Kind.NOTE, row.word, found, shown, look, row)


# --- signs --------------------------------------------------------------------------------


def _of_sign(found: Fields) -> Meaning | None:
    # A firmware command names its stage; only ACCESS_REG is a sign of its own.
    if found.tool == "kernel" and COMMAND.search(found.text) and "ACCESS_REG" not in found.text:
        return None
    sign = sign_of(found.text, found.platform)
    if sign is None or SUCCEEDED.search(found.text):
        return None
    if sign.word in _LISTED and found.text.startswith("State") and "CA '" not in found.above:
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
    if sign.word in _LISTED and _ZERO_GUID.search(found.above):
        ordered = [stated("guid-zero")]
    if sign.word == "named-device-absent" and not found.device and not _A_NAME.search(found.text):
        ordered = [stated("no-rdma-device"), *ordered]
    found = staged(found, sign.stage)
    several = by_gids(unique(ordered), found)
    return Meaning(sign.kind, sign.word, found, several, sign.look(found.platform))


_LISTED: Final = (LISTED_DOWN, LISTED_INITIALIZING)
_ZERO_GUID: Final = late(r"\bNode GUID: 0x0{16}\b")
"""Of ibstat, above the state: a virtual function to which nobody gave one."""
_A_NAME: Final = late(
    r"(?:device|hca|nic|adapter|port)s?:? ['\"]?[A-Za-z]\w*\d|['\"][\w:,]+['\"]"
    r"|\bIB device \S* not found",  # of perftest, whatever it was given
    re.IGNORECASE,
)
"""Of a device, in whatever way: it was asked for by its name."""


def _of_errno_beside(sign: Sign, found: Fields) -> tuple[Known, ...]:
    connecting = sign.stage is Stage.CONNECT
    failing = sign.stage in _DEVICE_STAGES and sign.kind is Kind.FAILURE
    if not found.errno or sign.stage is None or not (connecting or failing):
        return ()
    if sign.word == "event-channel":
        return causes(found.errno, Stage.EVENT_CHANNEL, found.platform)
    return causes(found.errno, sign.stage, found.platform)


_EMPTY_ROW: Final = late(r"invalid|empty|zero|null", re.IGNORECASE)


# --- completions --------------------------------------------------------------------------


def of_completion(found: Fields) -> Meaning | None:
    """A status other than success."""
    row = completion(found.status) if found.status else None
    if row is None:
        return None
    kind = Kind.CONSEQUENCE if row.is_consequence else Kind.FAILURE
    ordered = _by_path(row.causes, found) if row.number == _RETRIES else row.causes
    if row.number == _RETRIES and _SOME_COMPLETED.match(found.after):
        # The path, the GIDs and the MTU had carried some: what was there has gone.
        ordered = last(first(first(ordered, "link-flaps"), "peer-gone"), "gid-does-not-route")
    if row.number == _RETRIES and _KILLED.search(found.above):
        ordered = first(ordered, "peer-gone")
    if row.number == _RETRIES and PASSED_ABOVE.search(found.above.encode()):
        ordered = first((*ordered, stated("mtu-too-large")), "mtu-too-large")
    if row.number == _LOCAL_PROTECTION and found.tool in OF_GPUS:
        ordered = (*ordered, stated("gdr-off"))
    lines = after_completion(row.number, found.platform)
    return Meaning(kind, "completion", found, unique(ordered), lines)


_RETRIES: Final = 12
_LOCAL_PROTECTION: Final = 4
_KILLED: Final = late(
    r"\boom[-_ ]?kill|\bout of memory\b|\bsigkill\b|\bkilled by signal|\bexited on signal"
    r"|\bsegmentation fault|\bnode failure\b",
    re.IGNORECASE,
)
"""Another process of the job ended before."""
PASSED_ABOVE: Final = late(
    rb"(?:^|\n) ?1024 +\d+ +[\d.]+ +[\d.]+[^\n]*\n(?: ?Completion with error[^\n]*\n?)?$"
)
"""perftest with -a, above the status: what fits a frame of Ethernet has passed, and no more."""
_SOME_COMPLETED: Final = late(r"\s*scnt=\d+, ccnt=[1-9]")
"""perftest, below the status: requests that were posted, and those that had completed."""


def _by_path(several: tuple[Known, ...], found: Fields) -> tuple[Known, ...]:
    """Not the GID's fault where there is none, or where both are plain routable addresses."""
    gids = [gid for gid in (found.local_gid, found.remote_gid) if gid is not None]
    if _BY_ROUTE.search(found.text):  # rdma_cm took the GID that the route has, and it connected
        return last(first(several, "peer-gone"), "gid-does-not-route")
    if len(devices_of(found.text)) > 1:  # rails are subnets of their own, mostly
        return first(several, "no-path")
    if gids:
        fine = all(gid.is_ipv4_mapped and gid.scope is not Scope.LINK_LOCAL for gid in gids)
    else:
        fine = found.link_layer == "ib"
    return last(several, "gid-does-not-route") if fine else several


_BY_ROUTE: Final = late(
    r"\b(?:nvmet?_rdma|isert|iser|ib_srpt?|svcrdma|rpcrdma|xprtrdma|rnbd|rtrs|kiblnd)\w*"
)


# --- identifiers --------------------------------------------------------------------------


def of_identifiers(found: Fields) -> Meaning | None:
    """What names say that are taken apart: the stage with an errno, or a status."""
    if not may_tell(found.text) or SUCCEEDED.search(found.text) or is_of_efa(found.text):
        return None
    said = plain(found.text)
    if status := status_in(plain(without_counters(found.text))):
        return of_completion(replace(found, status=status, stage=Stage.DATA, errno=None))
    stage = found.stage or stage_in(said)
    errno = (found.errno if FAILED.search(found.text) else None) or errno_in(said)
    if stage is None or not errno or errno_name(errno, found.platform) is None:
        return None
    found = replace(found, stage=stage, errno=errno)
    if stage is Stage.CONNECT:
        return meaning_of("errno", found, of_step(found), CONNECTING)
    several = by_object(by_size(causes(errno, stage, found.platform), found), found)
    look = after_call(errno, stage, found.platform)
    return meaning_of("errno", found, by_memory(by_gids(several, found), found), look)


# --- the rest -----------------------------------------------------------------------------


def _of_aftermath(found: Fields) -> Meaning | None:
    if AFTERMATH.search(found.text):
        says = is_trouble(found.text) or _OF_NCCL.search(found.text)
        what = OF_RDMA if says else "aftermath"
        return Meaning(Kind.AFTERMATH, what, found, (), ())
    return None


_OF_NCCL: Final = late(
    r"\bNCCL (?:failure|error)|\bncclSystemError|\bNIXL_ERR_"
    r"|\bWatchdog caught collective operation timeout",
    re.IGNORECASE,
)
"""The last line of a job that failed, often all that its user has."""


def _of_nothing_known(found: Fields) -> Meaning | None:
    if not is_trouble(found.text):
        return None
    several = in_words(found, MOST_CAUSES)
    look = remedy(several[0].label, found.platform) if several else ()
    return Meaning(Kind.UNKNOWN, IN_WORDS if several else "unknown", found, several, look)


# --- neighbours ---------------------------------------------------------------------------


def beside_rdma(line: bytes, after: bytes, above: bytes) -> Meaning | None:
    """Trouble that does not name RDMA, where the lines around it do."""
    text = cleaned(line[:TEXT_LIMIT].decode("utf-8", "replace"))
    if is_warning(text) and after.strip():  # else the report is cut off
        report = takewhile(lambda each: _END_OF_REPORT not in each, _lines(after))
        around = [each for each in report if not _OF_THE_HOST.search(each)]
    else:
        around = [*_lines(above)[-_BESIDE:], *_lines(after)[:_BESIDE]]
    if not is_output(text) or is_healthy(text) or not is_trouble_beside(text, around):
        return None
    found = fields(text)
    several = likeliest(weights(text) + weights("\n".join(around)), MOST_CAUSES)
    look = remedy(several[0].label, found.platform) if several else ()
    return Meaning(Kind.AFTERMATH, OF_RDMA, found, several, look)


_BESIDE: Final = 4
_END_OF_REPORT: Final = "[ end trace "
_OF_THE_HOST: Final = late(r"\bModules linked in:|\bLast unloaded:|\bHardware name:")
"""What a report of the kernel lists of the host, whatever it is of."""


def _lines(text: bytes) -> list[str]:
    return [cleaned(each) for each in text.decode("utf-8", "replace").splitlines()]
