"""What ncclras prints of a job, as text or JSON; RCCL's has the same form.

Read in: NCCL 2.30 src/ras/client_support.cc (rasClientRunInit, rasClientRunComms, the json*
functions, rasClientsNotifyEvent), rasnet.cc, docs/userguide/source/troubleshooting/ras.rst.

  DEAD
    1 job process is considered dead (unreachable via the RAS network)
    Process 3487984 on node 192.0.2.13 managing GPU 5

  #0-0 (cf264af53edbe986) INCOMPLETE
    Missing communicator data from 1 rank
    Rank 21 -- GPU 5 managed by process 3487984 on node 192.0.2.13

and what "ncclras -m" prints as it comes, of NCCL 2.29 and later:

  [2025-12-19 13:06:53] PEER_DEAD: Process 3487984 on node 192.0.2.13 managing GPU 5
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Final

from rdmadiag.explain.job.progress import Progress
from rdmadiag.fleet.document import NotJson, decoded
from rdmadiag.frozen import dataclass

MOST: Final = 20_000  # processes


class State(StrEnum):
    """What RAS says of a process."""

    DEAD = "dead"  # not reached for a minute, and given up
    UNRESPONSIVE = "unresponsive"
    ERROR = "error"  # ncclGetAsyncError, or its initialization


@dataclass(frozen=True, slots=True)
class OfProcess:
    """One process that RAS names as not well."""

    state: State
    rank: int | None
    host: str | None
    pid: int | None
    detail: str  # the error, as RAS words it


@dataclass(frozen=True, slots=True)
class Ras:
    """One answer of RAS."""

    processes: tuple[OfProcess, ...]
    progress: tuple[Progress, ...]
    timeouts: int


class NotRas(ValueError):
    """Nothing that RAS prints; one line."""


_RESULTS: Final = (
    *("success", "unhandled CUDA error", "unhandled system error", "internal error"),
    *("invalid argument", "invalid usage", "remote process exited or there was a network error"),
    *("in progress", "timeout"),
)
"""ncclResult_t, ncclGetErrorString in src/init.cc."""


def parse_ras(content: bytes) -> Ras:
    """Text, or JSON; raises NotRas."""
    text = content.decode("utf-8", "replace")
    if is_watched(content):
        return _of_events(text)
    if text.lstrip()[:1] == "{":
        return _of_json(content)
    if "Job summary" not in text and "Communicators..." not in text:
        raise NotRas("no output of ncclras")
    return _of_text(text)


# --- text -----------------------------------------------------------------------------------

_SECTION: Final = re.compile(r"^(INCOMPLETE|DEAD|TIMEOUT|Errors|Warnings)\s*$")
_OF_COMMUNICATOR: Final = re.compile(r"^#\d+-\d+ \(([0-9a-f]{1,16})\) (\w+)")
_WHERE: Final = (
    r"(?: -- (?:GPU [^\n]{1,80}? managed by process (\d{1,9}) on node (\S{1,253})|.*))?$"
)
_PROCESS: Final = re.compile(r"^Process (\d{1,9}) on node (\S{1,253}) managing GPU")
_RANK: Final = re.compile(rf"^Rank (\d{{1,7}}){_WHERE}")
_REPORTED: Final = re.compile(rf"^Rank (\d{{1,7}}) reported (.{{1,120}}?){_WHERE}")
_LAUNCHED: Final = re.compile(
    rf"^Rank (\d{{1,7}}) has (?:launched up to operation (\d{{1,18}})|not launched any .{{1,20}}?)"
    rf"{_WHERE}"
)
_SEVERAL: Final = re.compile(
    r"^(\d{1,7}) ranks (?:reported (.{1,120})"
    r"|have (?:launched up to operation (\d{1,18})|not launched any operations|(status \w+)))$"
)
_COUNTS: Final = re.compile(r"have different (?:collective|(\w+)) operation counts")
_MISSING: Final = re.compile(r"^The missing ranks?: ([\d, -]{1,400})")
_TIMEOUTS: Final = re.compile(r"^Encountered (\d{1,9}) communication timeout")


class _Reading:
    """What stands above a row says what the row means."""

    def __init__(self) -> None:
        self.processes: dict[tuple[object, ...], OfProcess] = {}
        self.progress: list[Progress] = []
        self.timeouts = 0
        self.section = self.communicator = self.operation = ""
        self.error = ""
        self.count: int | None = None  # of operations, that several ranks have
        self.several = 0

    def line(self, line: str) -> None:
        """The next one."""
        if not self._heading(line):
            self._row(line)

    def _heading(self, line: str) -> bool:
        if found := _SECTION.match(line):
            self.section, self.communicator, self.error = found[1], "", ""
            self.count = None
        elif found := _OF_COMMUNICATOR.match(line):
            self.communicator, self.section, self.error = found[1], found[2], ""
            self.count = None
        elif found := _COUNTS.search(line):
            self.operation, self.count = found[1] or "operation", None
        elif found := _TIMEOUTS.match(line):
            self.timeouts = int(found[1])
        elif found := _SEVERAL.match(line):
            self._several(found)
        return found is not None

    def _row(self, line: str) -> None:
        if found := _PROCESS.match(line):
            state = State.DEAD if self.section == "DEAD" else State.UNRESPONSIVE
            if self.section in ("DEAD", "INCOMPLETE"):
                self._add(OfProcess(state, None, found[2], int(found[1]), ""))
        elif found := _REPORTED.match(line):
            self._ranked(State.ERROR, found[1], found[4], found[3], found[2])
        elif found := _LAUNCHED.match(line):
            self._progress(found[1], int(found[2] or 0), found[4], found[3])
        elif found := _MISSING.match(line):
            for rank in re.findall(r"\d{1,7}", found[1]):
                self._ranked(State.UNRESPONSIVE, rank, None, None, "")
        elif found := _RANK.match(line):
            self._rank(found)

    def _several(self, found: "re.Match[str]") -> None:
        self.several, self.error = int(found[1]), found[2] or ""
        self.count = None
        if not found[2] and not found[4]:
            self.count = int(found[3] or 0)
            name = f"{self.communicator} {self.operation}"
            number = -1 - len(self.progress)  # perhaps they are named one by one below
            self.progress.append(
                Progress(
                    "ras", name, number, None, None, self.operation, self.count, None, self.several
                )
            )

    def _rank(self, found: "re.Match[str]") -> None:
        if self.section == "INCOMPLETE":
            self._ranked(State.UNRESPONSIVE, found[1], found[3], found[2], "")
        elif self.section == "ERROR" and self.error:
            self._ranked(State.ERROR, found[1], found[3], found[2], self.error)
        elif self.section == "MISMATCH" and self.count is not None:
            if self.progress and self.progress[-1].rank < 0:
                self.progress.pop()
            self._progress(found[1], self.count, found[3], found[2])

    def _ranked(
        self, state: State, rank: str, host: str | None, pid: str | None, detail: str
    ) -> None:
        self._add(OfProcess(state, int(rank), host, int(pid) if pid else None, detail))

    def _progress(self, rank: str, count: int, host: str | None, pid: str | None) -> None:
        if len(self.progress) < MOST:
            name = f"{self.communicator} {self.operation}"
            number = int(pid) if pid else None
            made = Progress("ras", name, int(rank), host, number, self.operation, count, None)
            self.progress.append(made)

    def _add(self, found: OfProcess) -> None:
        key = found.host, found.pid if found.pid is not None else ("rank", found.rank)
        before = self.processes.get(key)
        if before is not None:  # the same process, with its rank
            rank = before.rank if before.rank is not None else found.rank
            state = min(before.state, found.state, key=tuple(State).index)
            found = OfProcess(state, rank, found.host, found.pid, before.detail or found.detail)
        elif len(self.processes) >= MOST:
            return
        self.processes[key] = found


def _of_text(text: str) -> Ras:
    reading = _Reading()
    for line in text.splitlines():
        reading.line(line.strip()[:600])
    return Ras(tuple(reading.processes.values()), tuple(reading.progress), reading.timeouts)


# --- JSON -----------------------------------------------------------------------------------


def _of_json(content: bytes) -> Ras:
    try:
        document = decoded(content)
    except NotJson as error:
        raise NotRas(f"no JSON: {error}"[:160]) from error
    if not isinstance(document, dict) or not isinstance(document.get("communicators"), list):
        raise NotRas("JSON, but nothing of RAS: it has no communicators")
    processes: list[OfProcess] = []
    progress: list[Progress] = []
    for communicator in document["communicators"][:MOST]:
        if not isinstance(communicator, dict):
            continue
        name = f"{communicator.get('hash')}"[:40]
        for rank in _tables(communicator, "ranks"):
            processes.extend(_error(rank))
            progress.extend(_counts(name, rank))
        for rank in _tables(communicator, "missing_ranks"):
            processes.extend(_missing(rank))
    ras = document.get("ras")
    timeouts = _int(ras, "timeouts_count") if isinstance(ras, dict) else None
    return Ras(tuple(processes[:MOST]), tuple(progress[:MOST]), timeouts or 0)


def _tables(document: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
    found = document.get(name)
    if isinstance(found, list):
        yield from (each for each in found[:MOST] if isinstance(each, dict))


def _int(document: dict[str, Any], name: str) -> int | None:
    value = document.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _host(document: dict[str, Any]) -> str | None:
    host = document.get("host")
    return host[:253] if isinstance(host, str) and host not in ("", "unknown") else None


def _pid(document: dict[str, Any]) -> int | None:
    pid = _int(document, "pid")  # -1 beside the host "unknown"
    return pid if pid is not None and pid > 0 else None


def _error(rank: dict[str, Any]) -> Iterator[OfProcess]:
    status = rank.get("status")
    if not isinstance(status, dict):
        return
    for name in ("init_state", "async_error"):
        result = _int(status, name)
        if result not in (None, 0, 7):  # success, in progress
            known = 0 < result < len(_RESULTS) if result is not None else False
            detail = _RESULTS[result] if known and result is not None else f"result {result}"
            yield OfProcess(State.ERROR, _int(rank, "rank"), _host(rank), _pid(rank), detail)
            return


def _counts(name: str, rank: dict[str, Any]) -> Iterator[Progress]:
    counts, number = rank.get("collective_counts"), _int(rank, "rank")
    if isinstance(counts, dict) and number is not None:
        for operation in list(counts)[:64]:
            count = _int(counts, operation)
            if count is not None:
                yield Progress(
                    "ras",
                    f"{name} {operation}"[:100],
                    number,
                    _host(rank),
                    _pid(rank),
                    str(operation)[:40],
                    count,
                )


def _missing(rank: dict[str, Any]) -> Iterator[OfProcess]:
    """None of a process that answers and has no such communicator, no more or not yet."""
    status = rank.get("status")
    status = status if isinstance(status, dict) else {}
    dead = status.get("considered_dead") is True
    if dead or status.get("unresponsive") is not False:
        state = State.DEAD if dead else State.UNRESPONSIVE
        yield OfProcess(state, _int(rank, "rank"), _host(rank), _pid(rank), "")


# --- events ---------------------------------------------------------------------------------

_EVENTS: Final = {
    "PEER_DEAD": State.DEAD,
    "PEER_TIMEOUT_DEAD": State.DEAD,
    "PEER_UNRESPONSIVE": State.UNRESPONSIVE,
    "PEER_SEND_STUCK": State.UNRESPONSIVE,
    "PEER_KEEPALIVE_TIMEOUT": State.UNRESPONSIVE,
}
"""Those that say how a process is; one that closes its connection may have ended as it should."""

_WATCHED: Final = re.compile(
    rb"\s*(?:RAS Monitor Mode[^\n]{0,80}\n=*\s*)?"
    rb'(?:\[[\d: -]{19}\] PEER_[A-Z_]+: |\{\s*"timestamp": "[\d: -]{19}",\s*"group": "[A-Z]+",'
    rb'\s*"event": "PEER_)'
)
_EVENT: Final = re.compile(
    r"^\[[\d: -]{19}\] (PEER_[A-Z_]{1,40}): "
    r"(?:Process (\d{1,9}) on node (\S{1,253}) managing GPU|(\S{1,253})<\d{1,5}>)",
    re.MULTILINE,
)
_JSON_EVENT: Final = re.compile(
    r'"event": "(PEER_[A-Z_]{1,40})",\s*"peer": \{\s*'
    r'(?:"host": "([^"\s]{1,253})",\s*"pid": (\d{1,9})|"addr": "([^"\s<]{1,253})<)'
)


def is_watched(content: bytes) -> bool:
    """Whether it begins as what "ncclras -m" prints."""
    return _WATCHED.match(content[:400]) is not None


def _of_events(text: str) -> Ras:
    """How each process was at last; one that RAS has given up stays so."""
    found: dict[tuple[str, int | None], OfProcess] = {}
    rows = [(at.start(), at[1], at[3] or at[4], at[2]) for at in _EVENT.finditer(text)]
    rows += [(at.start(), at[1], at[2] or at[4], at[3]) for at in _JSON_EVENT.finditer(text)]
    for _, event, host, number in sorted(rows):
        key = host, int(number) if number else None
        state = _EVENTS.get(event)
        before = found.get(key)
        if before is not None and before.state is State.DEAD:
            continue
        if state is not None and (before is not None or len(found) < MOST):
            found[key] = OfProcess(state, None, *key, "")
        elif event == "PEER_RECOVERED":
            found.pop(key, None)
    return Ras(tuple(found.values()), (), 0)
