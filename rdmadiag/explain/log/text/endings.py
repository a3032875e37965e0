"""How a program ended that failed, whatever it was: no sign of RDMA, and none that all is well.

A log in which nothing of RDMA failed may be that of a job that did. Such a line is quoted, so that
nobody takes the log for that of a healthy job. It is looked for where a log ends.

>>> ending_of("[rank3]: RuntimeError: shape mismatch")
<Ending.REASON: 1>
>>> ending_of("srun: error: node7: task 3: Exited with exit code 1")
<Ending.STATUS: 2>
>>> ending_of("step 40: exit code 0") is None
True
"""

import re
from collections.abc import Iterator
from enum import IntEnum
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from rdmadiag.explain.causes import remedy, stated
from rdmadiag.explain.log.kind import HOST_DOWN, OF_NO_RDMA, PROGRAM_ERROR, Found, Kind
from rdmadiag.explain.log.line.fields import cleaned, fields
from rdmadiag.explain.log.line.printed import OF_LAUNCHERS, is_output
from rdmadiag.explain.log.meaning import Meaning
from rdmadiag.explain.log.recognition.catalogue import is_healthy, message_of
from rdmadiag.explain.log.recognition.job_words import is_of_a_job
from rdmadiag.explain.log.recognition.of_messages import with_message
from rdmadiag.explain.log.recognition.recognise import recognise
from rdmadiag.explain.log.recognition.signs import sign_of
from rdmadiag.explain.log.recognition.trouble import is_mild, is_no_prose, may_tell, names_trouble
from rdmadiag.explain.log.text.short_text import MOST_LINES
from rdmadiag.late import late

if TYPE_CHECKING:
    from rdmadiag.explain.log.collector import Collector


class Ending(IntEnum):
    """What a line says of an end; what says most is least."""

    REASON = 1  # an exception, a fault, memory that was gone
    STATUS = 2  # that it ended, and with what number or signal
    TROUBLE = 3  # that something failed; in a short text alone


_RAISED: Final = late(
    # an exception as Python prints it last, below what ranks and Ray put before a line
    rf"^(?:{OF_LAUNCHERS}|(?:ERROR|CRITICAL) [\d: .,-]*){{0,4}}"
    r"(?:(?:\w+\.)*[A-Z]\w*(?:Error|Exception)|(?:\w+\.)+(?:errors|exceptions)\.\w+)(?:: |$)"
)
_REASON: Final = late(
    r"\bterminate called after throwing|^\s*what\(\):  |^panic: "
    r"|\b[Oo]ut of memory: Kill|\boom[-_]kill|\bOOMKilled\b|\bCUDA out of memory\b"
    r"|\b[Ss]egmentation fault|\bCaught signal \d|\bcore dumped\b|\bSIG(?:SEGV|ABRT|BUS|KILL)\b"
    r"|\bCUDA error\b|\b[Cc]uda failure\b|\bKernel panic\b|\bBUG: unable\b|\bOops: "
    r"|\bgeneral protection\b|\b[Ff]atal error: "
)
NOT_STARTED: Final = late(
    r": command not found: \S+$|^(?:/\S{0,60}/)?\w{0,8}sh: \d+: .{1,80}: not found$"
    r"|^/\S{1,120}: \d+: (?:/\S{1,120}: )?\S{0,40}\w=\S{0,80}: not found$"  # dash, an assignment
    # what ends a script of dash
    r"|^/\S{1,120}: \d+: (?:arithmetic expression: |syntax error: |bad substitution$"
    r"|\w{1,60}: parameter not set$)"
    r"|: (?:command not found|argument list too long|cannot execute\b.{0,60}|exec format error)$"
    r"|^(?:-?\w{0,8}sh: |\w{0,8}sh: \d+: |/\S+: line \d+: )\S{1,200}: text file busy$"
    r"|\bexec: .{1,200}: (?:not found|permission denied)$"
    r"|\bfailed to (?:set pid \d+'s (?:affinity|policy)|set the \w+ resource limit|run command)\b"
    r"|\b(?:env|nohup|stdbuf|nice|setpriv|chroot|nsenter|unshare): "
    r"(?:failed|cannot|.{1,80}: no such)"
    r"|^[\w./-]+: .{0,120}\b(?:nothing|no (?:server|client|job|program|test|benchmark)) "
    r"(?:is|was|will be) started$"
    r"|^fatal python error: init_"
    r"|^(?:sudo: )?a (?:password|terminal) is required"
    r"|^this account is currently not available|^your account has expired\b",
    re.IGNORECASE,
)
"""What a shell, or a program that starts another one, says where it did not."""
_STATUS: Final = late(
    r"\bexit(?:ed)?(?: with)?(?: \w+)?[ -]?(?:code|status)[\"']?(?: of)?[ :=(]+-?[1-9]\d*\b"
    r"|\bexitcode *: -?[1-9]|\bBAD TERMINATION\b|\bexited on signal\b"
    r"|\b[Nn]on-?zero (?:exit )?status"
    r"|\bMPI_ABORT was invoked|\b[Kk]illed by\b|^(?:srun|slurmstepd): error: |\bCANCELLED AT\b"
    r"|\bCrashLoopBackOff\b|\bBack-off restarting\b"
    r"|^(?:\[[^\]]{1,80}\]:? ?)?Traceback \(most recent call last\)"
)

_TRACEBACK: Final = late(r"\bTraceback \(most recent call last\)")
_RANK: Final = late(r"^\[[^\]]{1,80}\]:? ?")  # what a launcher puts before a line

_BUILDS: Final = late(
    r"^(?:CMake Error|E: |error: |Error: |ERROR: Could not |Error from server)"
    r"|^make(?:\[\d+\])?: \*\*\*"
    r"|\bld: cannot find |\bcollect2: error|\bninja: build stopped|\bfatal error: "
)
"""How a build, an installation or kubectl says that it gave up."""

_WORDS: Final = (
    *(
        "error",
        "exception",
        ".errors.",
        "terminate",
        "what():",
        "panic:",
        "memory",
        "oom",
        "fault",
        "signal",
    ),
    *("dumped", "sig", "cuda", "panic", "bug:", "oops:", "exit", "termination", "status"),
    *("mpi_abort", "killed", "cancelled", "crashloop", "back-off", "traceback"),
)
"""One of them is in whatever fits the patterns, in small letters: most logs end without."""


class End(NamedTuple):
    """A line that says how a program ended."""

    what: Ending
    number: int
    text: str


def read_end(collector: "Collector", text: bytes, lines: int) -> None:
    """Note what ended a program; `text` is the end of a log of so many lines, or all of it."""
    from rdmadiag.explain.log.text.outcome import read_outcome

    if collector.is_page:
        return
    if collector.found is Found.FAILURE:
        _read_reasons(collector, text, lines)
        return
    end = end_of(text, lines)
    if end and end.what is Ending.TROUBLE:
        read_outcome(collector, text, lines, last=True)
        end = end if end.number > collector.ended_well else None
    if end and not (collector.benchmark.has_result and NOT_STARTED.search(end.text)):
        says_why, is_end = end.what is Ending.REASON, end.what is not Ending.TROUBLE
        collector.reasons.note_end(end.number, end.text, says_why=says_why, is_end=is_end)
        if meaning := meaning_of_end(end.text):
            collector.reasons.note_apart(end.number, meaning)
    elif lines > MOST_LINES:
        return
    of_a_job = collector.says_trouble or is_of_a_job(text.decode("utf-8", "replace"))
    for number, meaning in _of_last_messages(text, lines):
        is_meant = of_a_job and not meaning.is_other
        if is_meant and not _is_passed_over(collector, text, lines, number, meaning):
            collector.add(number, meaning)
        else:
            collector.reasons.note_apart(number, meaning)
    if collector.reasons.apart is not None:
        read_outcome(collector, text, lines, last=True)


def _read_reasons(collector: "Collector", text: bytes, lines: int) -> None:
    """What else ended a program, or a host, of a log in which RDMA has failed."""
    several = list(numbered(text, lines))
    own = (e for e in several if is_own_fault(e[1]) or _BY_THE_BATCH_SYSTEM.search(e[1]))
    for number, line in islice(own, 1):
        raised = _RAISED.search(line) is not None and "[Errno " not in line
        collector.reasons.note_fault(number, line, meaning_of_end(line), says_why=raised)
    if any(_NODE_FAILED.search(line) for _, line in several):
        collector.reasons.of_hosts.add(HOST_DOWN)


def _is_passed_over(
    collector: "Collector", text: bytes, lines: int, number: int, meaning: Meaning
) -> bool:
    from rdmadiag.explain.log.text.outcome import read_outcome

    read_outcome(collector, text, lines, last=True)
    return collector.is_passed_over(number, meaning)


def end_of(text: bytes, lines: int) -> End | None:
    """The line that says most; of these the first."""
    is_short = lines <= MOST_LINES
    look = ending_in_short if is_short else _ending_by_words
    ends = (
        End(found, n, line)
        for n, line in numbered(text, lines)
        if (found := look(line)) and not is_healthy(line)
    )
    first = min(ends, key=lambda each: each.what, default=None)
    return _raised(first, text, lines) if first and _TRACEBACK.search(first.text) else first


def _raised(end: End, text: bytes, lines: int) -> End:
    """Of Python's traceback the exception, which stands below its frames."""
    is_code = False  # a frame has its line of code below it, and Python 3.11 what marks it there
    for number, line in numbered(text, lines):
        if number <= end.number:
            continue
        bare = _RANK.sub("", line).strip(" ~^")
        if bare.startswith('File "'):
            is_code = True
        elif is_code:
            is_code = False
        elif bare:
            return End(end.what, number, line)
    return end


def numbered(text: bytes, lines: int) -> Iterator[tuple[int, str]]:
    """The lines of the end of a log of so many, each with its number."""
    last = text.decode("utf-8", "replace").split("\n")
    if last[-1] == "":
        last.pop()
    return ((number, cleaned(line)) for number, line in enumerate(last, lines - len(last) + 1))


def meaning_of_end(text: str) -> Meaning | None:
    """What a line that names how a program ended is known for: none of RDMA."""
    found = message_of(text)
    if found and found.is_other:
        return with_message(None, fields(text), found)
    if found or not (_RAISED.search(text) and _ITS_OWN.search(text)):
        return None
    causes, look = (stated(PROGRAM_ERROR),), remedy(PROGRAM_ERROR, "linux")
    return Meaning(Kind.FAILURE, PROGRAM_ERROR, fields(text), causes, look, is_other=True)


OF_THE_PROGRAM: Final = (
    r"TypeError|KeyError|AttributeError|IndexError|NameError|ModuleNotFoundError|SyntaxError"
    r"|UnboundLocalError|ZeroDivisionError|NotImplementedError|FileNotFoundError|RecursionError"
    r"|JSONDecodeError"
)
"""What Python raises for a fault of the program, or for what it was given."""
_ITS_OWN: Final = late(rf"\b(?:{OF_THE_PROGRAM}|AssertionError)(?:: |$)")


def is_own_fault(text: str) -> bool:
    """Whether a program ended by itself: no other end, and no launcher, may have caused it."""
    if _OF_OTHERS.search(text):
        return False
    if meaning := meaning_of_end(text):
        label = meaning.causes[0].label if meaning.causes else ""
        return label in _OWN or (label == PROGRAM_ERROR and _RAISED.search(text) is not None)
    return _RAISED.search(text) is not None and recognise(text.encode()) is None


_OWN: Final = OF_NO_RDMA - {PROGRAM_ERROR, "job-ended"}
"""Without what a launcher or a batch system does to a job whose RDMA has failed."""


_BY_THE_BATCH_SYSTEM: Final = late(
    r"\bCANCELLED AT \S+ DUE TO (?:TIME LIMIT|PREEMPTION)\b"
    r"|\bTERM_(?:RUNLIMIT|PREEMPT|OWNER|ADMIN)\b|\bPBS: job killed: walltime\b"
    r"|\bevicted by drain: "
)
"""What it does whatever becomes of the job's RDMA, if that fails below it in the same log."""
_NODE_FAILED: Final = late(r"\bDUE TO NODE(?: \S+)? FAILURE\b|\bNODE_FAIL\b")
"""Slurm's words for a node of the job that went down."""
_OF_OTHERS: Final = late(
    r"\b(?:nccl|rccl|gloo|ucx|ofi|mpi|ranks?|peers?|remote|connect\w*|socket|store|rendezvous|pipe"
    r"|time\w*|timed|aborted|watchdog|collective|closed|reset|killed|signal\w*|workers?|childfailed\w*"
    r"|actor\w*|died|dead|exit\w*|interrupt\w*|cancel\w*|unavailable|root cause|above)\b"
    r"|\w*(?:Timeout|Connection|Interrupt|BrokenPipe|ChildFailed|DistBackend|DistStore|DistNetwork"
    r"|Actor|Worker|Dead|Died|EOF|Ray|Rpc)\w*Error",
    re.IGNORECASE,
)
"""What an exception says that another process's end may raise."""


def _of_last_messages(text: bytes, lines: int) -> Iterator[tuple[int, Meaning]]:
    for number, plain in numbered(text, lines):
        if meaning := meaning_of_last(plain):
            yield number, meaning


def meaning_of_last(text: str) -> Meaning | None:
    """What a line is known for that fails where nothing below it goes on."""
    found = message_of(text)
    if found is None or not found.is_last or not is_output(text):
        return None
    if sign_of(text, "linux"):  # which says more of the line
        return None
    return with_message(None, fields(text), found)


def last_message(text: bytes, lines: int) -> End | None:
    """The last such line of a short log, of which no other says how it ended."""
    from rdmadiag.explain.log.text.outcome import outcome_of

    if lines > MOST_LINES:
        return None
    several = [
        End(Ending.REASON, number, each.fields.text)
        for number, each in _of_last_messages(text, lines)
        if each.kind is Kind.FAILURE and each.causes
    ]
    if several and several[-1].number > outcome_of(numbered(text, lines)).went_on:
        return several[-1]
    return None


def ending_of(text: str) -> Ending | None:
    """Of one line that says of no trouble of RDMA."""
    found = None
    if _RAISED.search(text):
        return Ending.REASON if is_output(text) and not is_mild(text) else None
    if _REASON.search(text):
        found = Ending.REASON
    elif _STATUS.search(text):
        found = Ending.STATUS
    return found if found and is_output(text) and is_no_prose(text) else None


def _ending_by_words(text: str) -> Ending | None:
    """The same, sooner: few lines have one of the words that the patterns need."""
    low = text.lower()
    return ending_of(text) if any(word in low for word in _WORDS) else None


def ending_in_short(text: str) -> Ending | None:
    """The same; in a short text a line that only names trouble counts, too."""
    found = ending_of(text)
    if not found and NOT_STARTED.search(text) and is_output(text):
        return Ending.REASON
    if found or not (names_trouble(text) and is_output(text) and is_no_prose(text)):
        return found
    if not (may_tell(text) or _BUILDS.search(text)):
        return None
    return None if is_healthy(text) else Ending.TROUBLE
