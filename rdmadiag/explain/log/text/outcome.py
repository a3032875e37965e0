"""What the rest of a log says of a line of trouble: all went well, or something else failed.

Programs try what they can do without: a transport, a library, a device. Whether it mattered stands
further below: results of a test, steps of training, a server that is ready, and no trouble after
them. And where a program ends by its own fault, or the GPU's, its peers say that it is gone.

>>> lines = ["NET/OFI No eligible providers were found", "# Out of bounds values : 0 OK"]
>>> outcome_of(enumerate(lines, 1)).went_on
2
>>> lines = ["TypeError: 'int' object is not iterable", "Connection closed by remote peer n1<4>"]
>>> outcome_of(enumerate(lines, 1)).other
(1, "TypeError: 'int' object is not iterable")
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from rdmadiag.explain.log.line.printed import OF_LAUNCHERS, by_itself
from rdmadiag.explain.log.recognition.trouble import is_mild, names_trouble
from rdmadiag.explain.log.text.endings import OF_THE_PROGRAM, ending_of, numbered
from rdmadiag.explain.log.text.short_text import MOST_LINES
from rdmadiag.explain.pasted.benchmarks import is_by_others
from rdmadiag.explain.pasted.session import is_typed
from rdmadiag.late import late

if TYPE_CHECKING:
    from rdmadiag.explain.log.collector import Collector


class Outcome(NamedTuple):
    """Numbers are those of lines; all but the first field are of a short log that is whole."""

    went_on: int = 0  # the last result, where no trouble stands below it; 0 without one
    since: int = 0  # the line in which the command was typed that has printed it; 0 if none was
    other: tuple[int, str] | None = None  # the first failure that is none of RDMA, by its words
    asks_for_rdma: bool = False  # a device is named, or RDMA was set as the transport
    nccl_warns: bool = False  # of something else than that the library is missing
    over_tcp: bool = False  # NVMe goes over TCP, and nothing is of RDMA
    ended_well: int = 0  # the last line of a program that says so; what it went by is not shown
    tested: int = 0  # the last result of a pingpong, where no trouble stands below it
    left_well: int = 0  # the line that says that the peer has left, behind one that all was done
    job_completed: int = 0  # the last line of sacct, where each is of one job that ended with 0
    subnet_up: int = 0  # of the last sweep of one opensm, where those with errors are over
    benchmarks_others: bool = False  # MPI's low results, where a device has no provider
    is_whole: bool = False


def read_outcome(collector: "Collector", text: bytes, lines: int, *, last: bool = False) -> None:
    """Tell it how the log went; `text` is the end of a log of so many lines, or all of it.

    Where nothing was found so far that it may decide, this is put off: `last` asks for it.
    """
    if collector.has_outcome or (collector.is_quiet and not last):
        return
    several = list(numbered(text, lines))
    if lines > MOST_LINES or several[:1] == [] or several[0][0] > 1:
        collector.take_outcome(Outcome(_last_result(several)))
        return
    found = outcome_of(several)
    if len(several) == 1:  # whoever quotes one line asks about it
        found = found._replace(asks_for_rdma=True)
    collector.take_outcome(found._replace(is_whole=True))


def outcome_of(lines: Iterable[tuple[int, str]]) -> Outcome:
    """What they say together; each with its number, in order."""
    several = list(lines)
    texts = [text for _, text in several]
    tcp = any(map(_NVME_OVER_TCP.search, texts))
    fails = any(_FAILS.search(text) or ending_of(text) for text in texts)
    went_on, tested = _last_result(several), _last(_OF_A_PINGPONG, several)
    return Outcome(
        went_on=went_on,
        since=_since(several, went_on or tested),
        other=next((each for each in several if _OTHER.search(each[1])), None),
        asks_for_rdma=any(map(_ASKS.search, texts)),
        nccl_warns=any(map(_WARNS.search, texts)),
        over_tcp=tcp and not any(map(_is_of_rdma, texts)),
        ended_well=0 if fails else _last(_ENDED_WELL, several),
        tested=tested,
        left_well=_left_well(several),
        job_completed=0 if fails else _completed(several),
        subnet_up=_up(several),
        benchmarks_others=any(map(_HAS_NO_PROVIDER.search, texts)) and is_by_others(texts),
    )


def _since(lines: Iterable[tuple[int, str]], before: int) -> int:
    """Where the last command was typed that may have printed that line."""
    return max((number for number, text in lines if number < before and is_typed(text)), default=0)


def _last_result(lines: Iterable[tuple[int, str]]) -> int:
    return _last(_RESULT, lines)


def _last(result: "re.Pattern[str]", lines: Iterable[tuple[int, str]]) -> int:
    """The last line of it, where no trouble stands below; 0 without."""
    found = 0
    for number, text in lines:
        if result.search(text) or result.search(by_itself(text)):
            found = number
        elif found and not is_mild(text) and (names_trouble(text) or ending_of(text)):
            found = 0
    return found


def _left_well(lines: Iterable[tuple[int, str]]) -> int:
    """0 without, or where trouble stands above it, or other work below what was done."""
    is_done = False
    found = 0
    for number, text in lines:
        if is_done and not found and _LEFT.search(text):
            found = number
        elif (not found and names_trouble(text)) or _is_unfinished(text):
            return 0
        is_done = _DONE.search(text) is not None
    return found


def _is_unfinished(text: str) -> bool:
    part = _OF_ALL.search(text)
    return part is not None and part[1] != part[2]


def _completed(lines: Iterable[tuple[int, str]]) -> int:
    """The last row of sacct; 0 without, or where one is of another job or ended otherwise."""
    several = list(lines)
    rows = [(number, found) for number, text in several if (found := _ACCOUNTED.match(text))]
    well = all(found[2] == "COMPLETED" and found[3] == "0:0" for _, found in rows)
    if not rows or not well or any(_NOT_ENDED.search(text) for _, text in several):
        return 0
    jobs = {found[1] for _, found in rows}
    jobs |= {each for _, text in several for each in _JOB.findall(text)}
    return rows[-1][0] if len(jobs) == 1 else 0


def _up(lines: Iterable[tuple[int, str]]) -> int:
    """Where as many sweeps without errors stand below the last one with some as had any."""
    errors = ups = last = 0
    clock = ""
    for number, text in lines:
        row = _OF_OPENSM.match(text)
        if _INITIALIZING.search(text) or (errors and ups < errors and not row):
            return 0
        if row is None or (found := _SWEPT.search(text)) is None:
            continue
        if row[1] < clock:  # of another subnet manager, or of another day
            return 0
        clock = row[1]
        errors, ups, last = (errors, ups + 1, number) if found[1] else (errors + 1, 0, 0)
    return last if ups >= errors else 0


def _is_of_rdma(text: str) -> bool:
    return _RDMA.search(text) is not None and not _OF_THE_HOST.search(text)


_RESULT: Final = late(
    # nccl-tests, Intel's and OSU's benchmarks, ucx_perftest
    r"^# (?:Avg bus bandwidth|Out of bounds values : 0 OK|Collective test concluded)"
    r"|^# ?All processes entering MPI_Finalize|^Final: +\d"
    r"|^ *\d+(?: +\d+)* +\d+\.\d+(?:[ \t]+[\d.]+)*[ \t]*$"
    r"|^ *\d+ +\d+ +(?:u?int\d*|b?float\d*|half|double) +\w+ .*\d\.\d"
    # training, and servers
    r"|\b(?:step|iter(?:ation)?|epoch)s?\b[ :=/\[(]{1,8}\d+\b.{0,200}"
    r"\b(?:loss|s/it|it/s|sec/step)\b"
    r"|\d/\d+ \[[^\]]{0,60}(?:it/s|s/it)\b"
    r"|\bApplication startup complete\b|\bUvicorn running on\b|\bready to roll\b"
    r"|\bserver started\b"
    # what a script says of itself, and what a host of NVMe has connected
    r"|(?:^|[\s=])[A-Z][A-Z0-9]*_(?:[A-Z0-9]+_)*(?:OK|PASS(?:ED)?)\s*$"
    r"|\b[Hh]ello,? (?:[Ww]orld|from)\b.{0,100}\b\d+ (?:out )?of (?!1\b)\d+"
    r"|\bNormal +Started +.*\bStarted container\b"  # of Kubernetes
    r"|\bnew ctrl: NQN\b|\bSuccessfully reconnected\b"
)
_ENDED_WELL: Final = late(
    # GROMACS, HPL, OpenFOAM, Horovod, Quantum ESPRESSO, LAMMPS, WRF
    r"^Performance: +\d+\.\d+ +\d|^\|\|Ax-b\|\|.*\bPASSED\s*$|^Finalising parallel run\b"
    r"|^Total img/sec on \d|^ *JOB DONE\.\s*$|^Total wall time: \d+:\d\d|\bSUCCESS COMPLETE WRF\b"
)
_OF_A_PINGPONG: Final = late(r"^\d+ bytes in \d+\.\d+ seconds = \d")
_OF_ALL: Final = late(r"\b(\d+) of (\d+)\b")
_DONE: Final = late(
    r"\b(?:all|tests?|transfers?|files?|data)\b.{0,40}\b(?:finished|completed?|done)\b"
    r"|\b(?:finished|completed?|done)\b.{0,20}\b(?:all|tests?|transfer\w*|sending|receiving)\b",
    re.IGNORECASE,
)
_LEFT: Final = late(r"\bRDMA_CM_EVENT_DISCONNECTED\b|\b[Dd]isconnected\b")
_ACCOUNTED: Final = late(
    r"^(\d+(?:[_+]\d+)?)(?:\.\S+)? +(?:\S+ +){0,5}?([A-Z_]{6,}\+?)"
    r"(?: .{0,200}?(?<!\d)(\d{1,6}:\d{1,3}))?\s*$"
)
"""A row of sacct(1): the job, its state, and what it ended with."""
_NOT_ENDED: Final = late(
    r"\b(?:RUNNING|PENDING|TIMEOUT|CANCELLED|NODE_FAIL|OUT_OF_ME\w*|PREEMPTED|BOOT_FAIL|DEADLINE)\b"
    r"|^\s*\d{2,}(?:_\S+)? +\S+ +\S+ +\S+ +(?:R|PD|CG|S) "  # of squeue(1)
)
_JOB: Final = late(
    r"(?:\bSubmitted batch job |\bslurm-|\bStepId=|\bJobId=|\bjob |\bsacct .{0,40}?-j ?)"
    r"(\d{2,}(?:[_+]\d+)?)"
)
_FAILS: Final = late(
    r"\bFAILED\b|\bFATAL\b|\bABORT(?:ED|ING)?\b|\b(?:will(?: now)? abort|aborts)\b"
    r"|\bUCX +ERROR\b|\bpml_ucx\.c:\d+ +Error\b"
)
_SWEPT: Final = late(r"-> (?:(SUBNET UP)|Errors during initialization)\s*$")
"""How a sweep of opensm ends."""
_OF_OPENSM: Final = late(r"(\w{3} [\d ]\d \d\d:\d\d:\d\d \d+) \[\w+\] 0x\w\w -> ")
_INITIALIZING: Final = late(
    r"\b[Ss]tate:?[ .]+(?:\d: )?(?:Init|INIT|PORT_INIT)|\bInitialize/|\bLinkState:\.+Init"
)
"""A port that no sweep has configured."""
_HAS_NO_PROVIDER: Final = late(r"\bno userspace device-specific driver found\b")
_OTHER: Final = late(
    rf"^(?:{OF_LAUNCHERS}){{0,3}}(?:\w+\.)*"
    # of a file, or the file system below it: EIO, ENOSPC, EROFS, ESTALE, EDQUOT
    rf"(?:{OF_THE_PROGRAM}|OutOfMemoryError|OSError(?=: \[Errno (?:5|28|30|116|122)\])): "
    # what a GPU's own code did, and memory that was gone
    r"|\b[Cc]uda failure\b.{0,20}\b(?:illegal|out of memory|device-side)"
    r"|\billegal memory access was encountered\b|\bdevice-side assert triggered\b"
    r"|\btransport/p2p\.cc:\d+ NCCL WARN\b|\brocm[ _-]smi failed\b"
    r"|\bCUDA out of memory\b|\b[Oo]ut of memory: Kill|\bOOMKilled\b"
)
_ASKS: Final = late(
    r"\bmlx[45]_\w|\brocep?\d|\b(?:bnxt_re|irdma|rdmap)\d|\bib(?:\d+|[sp]\w{0,8}\d)[:<]"
    r"|\bNCCL_(?:IB_HCA|NET)\b|\bnetwork IB\w* not found\b|/dev/infiniband"
    r"|\bNET/IB : Using \[0\]\w|\bGDRDMA\b|/sys/class/infiniband/\w"
    # what a pod is given, what ls lists of /dev/infiniband, and somebody, of his hosts
    r"|^\s*rdma/[\w.-]+:\s+\"?[1-9]|^uverbs\d+$"
    r"|\bibstat (?:(?!\bno\b|\bnot\b|\bnone\b|n't\b|\bwithout\b|\b0\b).){0,60}\b[Aa]ctive\b"
    r"|\b(?:do|does|have|has) (?:(?!not\b|no\b)\w+ ){0,3}ConnectX-?\d"  # somebody, of his hosts
)
_WARNS: Final = late(r"\bNCCL WARN (?!Failed to open libibverbs|Missing \")")
_NVME_OVER_TCP: Final = late(
    r"\bnvme nvme\d+: failed to connect socket\b|\bnvmet?[_-]tcp\b"
    r"|\bnvme\b.{0,200}(?: -t|transport[ =]|trtype:)tcp\b|\b(?:nvme|nvmf)_tcp_"
    r"|\bnvme\b.{0,200} (?:-t|--transport) tcp\b|\bspdk_posix_sock_"
)
_OF_THE_HOST: Final = late(r"\bModules linked in:|\bLast unloaded:")
"""What a report of the kernel lists of the host, whatever it is of."""
_RDMA: Final = late(
    r"(?i:rdma|infiniband|\broce|iwarp)|\bmlx[45]_|\bib_\w|\bsiw\d|\brxe\d|\bisert?\b"
)
