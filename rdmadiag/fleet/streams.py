"""Texts as launchers of commands on many hosts print them: which piece is whose.

`srun -l`, `clush`, `clush -b`, `pdsh`, `dshbak -c`, `kubectl logs --prefix`, Ansible's JSON
callback; a document a line, a document over many lines, or both of many hosts in turn.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from pydantic_core import to_json

from rdmadiag.fleet.collect import Collected
from rdmadiag.fleet.document import (
    MOST_BYTES,
    Attempted,
    NoReport,
    NotJson,
    decoded,
    not_read,
    piece,
)
from rdmadiag.fleet.lines import (
    UNLABELLED,
    Blocks,
    Ending,
    Label,
    Mark,
    Pieces,
    begins,
    begins_anew,
    ending,
    is_launchers,
    split,
    unglued,
)
from rdmadiag.fleet.merged import Gap

_LATE: Final = 100_000
"""Lines of one text that are held until it is known whose they are."""

_LOOSE: Final = 100
"""Lines without a label that are held one by one."""

_PROGRAMS: Final = (
    *("apptainer", "ash", "bash", "csh", "dash", "docker", "doas", "enroot", "env", "exec", "fish"),
    *("flock", "ionice", "kubectl", "ksh", "mpiexec", "mpirun", "nice", "nohup", "nsenter"),
    *("numactl", "orterun", "podman", "prterun", "rdmadiag", "runuser", "setpriv", "sh"),
    *("singularity", "slurmstepd", "srun", "ssh", "stdbuf", "su", "sudo", "systemd-run", "taskset"),
    *("tcsh", "time", "timeout", "unshare", "xargs", "zsh"),
)
_LEVELS: Final = (
    *("critical", "debug", "err", "error", "failed", "fatal", "info", "note", "notice", "panic"),
    *("traceback", "usage", "warn", "warning"),
)
_NOT_NODES: Final = re.compile(
    rf"(?i:{'|'.join((*_PROGRAMS, *_LEVELS))}|python(?:\d(?:\.\d+)?)?)"
    r"|(?:\w+\.)*[A-Z]\w*(?:Error|Exception|Exit|Failure|Interrupt|Warning)|Exception"
)
"""Before a colon in lines that no launcher has labelled: a program that starts others, a level of
severity, an exception of Python or Java."""


def read_text(to: Collected, where: str, content: bytes, names: Iterable[str] = ()) -> None:
    """One whole file: a document, many of them, or what a launcher printed.

    `names` are what the file is called: where one of them is an expected node, it is that one's.
    """
    stream = Stream(to, where, file_node(to, names))
    try:
        document = decoded(content)
    except NotJson:
        for line in content.split(b"\n"):
            stream.line(line)
    else:
        stream.document(document, content, UNLABELLED, where)
    stream.end()


def read_node(to: Collected, node: str, where: str, content: bytes) -> None:
    """All that one node printed, from a launcher that knows whose it is."""
    Stream(to, where, node).only(Label(Mark.NODE, node), content.decode("utf-8", "replace"))


def file_node(to: Collected, names: Iterable[str]) -> str | None:
    """The expected node that a file is called after."""
    return next((name for name in names if to.expected and name in to.expected), None)


def read_lines(
    to: Collected, where: str, chunks: Iterable[bytes], names: Iterable[str] = ()
) -> None:
    """The same of a text that is too long to be held, or that comes as it is printed."""
    stream = Stream(to, where, file_node(to, names))
    held: list[bytes] = []
    size = 0
    for chunk in chunks:
        first, *more = chunk.split(b"\n")
        held.append(first)
        size += len(first)
        if more:
            stream.line(b"".join(held))
            for line in more[:-1]:
                stream.line(line)
            held, size = [more[-1]], len(more[-1])
        elif size > MOST_BYTES:
            detail = f"a line of more than {MOST_BYTES >> 20} MiB: what follows is not read"
            stream.break_off(detail)
            held = []
            break
    if last := b"".join(held):
        stream.line(last)
    stream.end()


class Stream:
    """One text that comes line by line, with labels of a launcher or without."""

    def __init__(self, to: Collected, where: str, node: str | None = None) -> None:
        self.node = node  # whose it is where a line has no label
        self._to, self._where = to, where
        self._number = 0
        self._blocks = Blocks()
        self._open: dict[Label, Pieces] = {}
        self._held = 0  # bytes in all of them
        self._heard = False  # whether any document was whole
        self._seen: dict[Label, set[str]] = {}  # nodes whose reports it stood before
        self._began: set[Label] = set()  # documents stood behind it, whole or not
        self._endings: list[tuple[str, Ending]] = []
        self._late: dict[tuple[Label, Gap, int], tuple[str, NoReport, int]] = {}

    def line(self, line: bytes) -> None:
        """The next one, without its end."""
        self._number += 1
        for each in self._blocks.take(line.removesuffix(b"\r")):
            self._line(each)

    def break_off(self, why: str) -> None:
        """What follows is not read."""
        self._odd(UNLABELLED, self._here, NoReport(Gap.TORN, why))

    def _line(self, line: bytes) -> None:
        if is_launchers(line) and (found := ending(line.decode("utf-8", "replace"))):
            self._endings.append((self._here, found))
            return
        before, behind = unglued(line)
        block = self._blocks.label
        if block is not UNLABELLED:
            own = is_launchers(block.text.encode()) and ending(f"{block.text}: {piece(before)}")
            if own:  # dshbak -c takes pdsh's own messages for those of a node
                self._endings.append((self._here, own))
            else:
                self._part(block, before)
        else:
            label, rest = split(before)
            if UNLABELLED in self._open and label not in self._open and not begins(rest):
                label, rest = UNLABELLED, before  # of a document that nobody labels
            self._part(label, rest)
        while behind:
            before, behind = unglued(behind)
            label, rest = split(before)
            self._part(self._ends_with(label, rest), rest)

    def _ends_with(self, label: Label, document: bytes) -> Label:
        """The label without what stood before it on the line, which may end in letters, too."""
        if label.mark is not Mark.NODE:
            return label
        known = {each.text for each in self._began}
        if found := _HOSTNAME.search(document, 0, 4096):
            hostname = found[1].decode("ascii", "replace")
            known |= {hostname, hostname.partition(".")[0]}
        for start in range(len(label.text)):
            name = label.text[start:]
            if name in known or (self._to.expected and self._to.expected.of_host(name)):
                return Label(Mark.NODE, name)
        return label

    @property
    def _here(self) -> str:
        return f"{self._where}:{self._number}"

    def _part(self, label: Label, text: bytes) -> None:
        pieces = self._open.get(label)
        if pieces is not None and begins_anew(text):
            self._torn(label)
            pieces = None
        if pieces is None:
            if not begins(text):
                if text.strip():
                    self._odd(label, self._here, NoReport(Gap.FOREIGN, piece(text)))
                return
            self._began.add(label)
            if text.endswith(b"}") and self._whole(label, text):
                return
            pieces = self._open[label] = Pieces(self._number)
        self._held += len(text)
        if pieces.add(text):
            self._close(label)
            place, content = f"{self._where}:{pieces.begun}", pieces.content()
            try:
                self.document(decoded(content), content, label, place)
            except NotJson as error:
                self._odd(label, place, not_read(content, error))
        elif self._held > MOST_BYTES:
            self._torn(label, f"not ended within {MOST_BYTES >> 20} MiB")

    def _whole(self, label: Label, text: bytes) -> bool:
        """A document on one line, as we print them; False for what may be a piece of one."""
        try:
            document = decoded(text)
        except NotJson:
            return False
        self.document(document, text, label, self._here)
        return True

    def _close(self, label: Label) -> Pieces:
        pieces = self._open.pop(label)
        self._held -= pieces.size
        return pieces

    def _torn(self, label: Label, why: str = "") -> None:
        pieces = self._close(label)
        detail = why or f"ends in its middle, after {pieces.size} bytes"
        self._odd(label, f"{self._where}:{pieces.begun}", NoReport(Gap.TORN, detail))

    def _odd(self, label: Label, where: str, found: NoReport) -> None:
        """Kept until the end, which may show whose it is; the first of each, and their number."""
        number = len(self._late) + 1 if label is UNLABELLED and len(self._late) < _LOOSE else 0
        key = label, found.gap, number
        first, shown, count = self._late.get(key, (where, found, 0))
        if count or len(self._late) < _LATE:
            self._late[key] = first, shown, count + 1
        else:
            self._to.odd(None, where, found)

    def document(self, document: object, content: bytes, label: Label, where: str) -> None:
        """One that was read whole: of a host, of Ansible with all its hosts, or a list of them."""
        self._heard = True
        if isinstance(document, list):
            for number, each in enumerate(document):
                self.document(each, to_json(each), label, f"{where}[{number}]")
            return
        # Not of a host that is known: it would say what others have reported.
        if (
            label is UNLABELLED
            and isinstance(document, dict)
            and isinstance(document.get("plays"), list)
        ):
            self._ansible(document, where)
            return
        found = self._to.reader.said(document, lambda: content)
        if isinstance(found, NoReport):
            if label is UNLABELLED and found.hostname:
                self._to.odd(self._to.named(found.hostname), where, found)
            else:
                self._odd(label, where, found)
            return
        nodes = label.nodes() if label.mark in (Mark.NODE, Mark.BLOCK) else ()
        nodes = tuple(map(self._to.named, nodes)) or (self._of_host(found.hostname),)
        for node in nodes:
            if isinstance(found, Attempted):
                self._to.attempts.append((node, found.document))
            else:
                self._to.report(node, found, where, content)
        self._seen.setdefault(label, set()).update(nodes)

    def _of_host(self, hostname: str) -> str:
        """The expected node that goes by it, else that of the file's name, else itself."""
        named = self._to.named(hostname)
        expected = self._to.expected
        return self.node if self.node and not (expected and named in expected) else named

    def _ansible(self, document: dict[str, Any], where: str) -> None:
        """plays[].tasks[].hosts{}: what each task printed on each host."""
        answered = set()
        for task, host, result in _results(document):
            place = f"{where} task {piece(task)}" if task else where
            stdout = result.get("stdout")
            if isinstance(stdout, str) and stdout.lstrip()[:1] == "{":
                answered.add(host)
                inner = Stream(self._to, f"{place} on {piece(host)}")
                inner.only(Label(Mark.NODE, host), stdout)
            elif _is_failed(result):
                answered.add(host)
                self._to.odd(self._to.named(host), place, _failed(result))
        stats = document.get("stats")
        for host in stats if isinstance(stats, dict) else ():
            if host not in answered:
                detail = "no task printed a report"
                self._to.odd(self._to.named(host), where, NoReport(Gap.FOREIGN, detail))

    def only(self, label: Label, text: str) -> None:
        """All that one host printed."""
        for line in text.encode("utf-8", "surrogatepass").split(b"\n"):
            self._number += 1
            self._part(label, line)
        self.end()

    def end(self) -> None:
        """No line follows."""
        for each in self._blocks.rest():
            self._line(each)
        for label in list(self._open):
            self._torn(label)
        if not (self._late or self._endings or self._heard):
            self._to.odd(self.node, self._where, NoReport(Gap.TORN, "nothing is in it"))
        tasks = self._task_nodes()
        for (label, _, _), (where, found, count) in self._late.items():
            nodes = self._nodes(label, tasks)
            for node in nodes:
                self._to.odd(node, where, found, count)
            if not nodes:
                before = f"{_WORD[label.mark]}{label.text}: " if label is not UNLABELLED else ""
                shown = replace(found, detail=f"{before}{found.detail}")
                self._to.odd(self.node, where, shown, count)
        for where, ended in self._endings:
            self._to.ended(where, ended)

    def _nodes(self, label: Label, tasks: dict[str, str]) -> tuple[str, ...]:
        """Whose a line is that is no report."""
        if label in self._seen:
            return tuple(self._seen[label])
        if label.mark is Mark.TASK:
            return (tasks[label.text],) if label.text in tasks else ()
        nodes = tuple(map(self._to.named, label.nodes()))
        expected = self._to.expected
        if expected is not None and (label.mark is Mark.POD or label not in self._began):
            return tuple(node for node in nodes if node in expected)
        if label.mark is Mark.BLOCK or label in self._began:
            return nodes
        # Without a list of nodes: the word before a colon, where nothing contradicts it.
        labelled = not self._began or any(each is not UNLABELLED for each in self._began)
        plain = not _NOT_NODES.fullmatch(label.text) and labelled and self.node is None
        return nodes if plain else ()

    def _task_nodes(self) -> dict[str, str]:
        """Number of a task of srun → its node, where that is certain.

        By a report that came with it, or by a line of srun's that names both. Else by the order
        of the nodes that are expected: where two are known in that way at least, all that are
        stand in it, and there are no more tasks than nodes.
        """
        known = {
            label.text: next(iter(nodes))
            for label, nodes in self._seen.items()
            if label.mark is Mark.TASK and len(nodes) == 1
        }
        for _, each in self._endings:
            if each.task is not None and len(each.nodes) == 1:
                known.setdefault(each.task, self._to.named(each.nodes[0]))
        expected = self._to.expected
        if expected is None or len(known) < 2:
            return known
        numbers = {int(task) for task in known}
        numbers |= {int(label.text) for label, *_ in self._late if label.mark is Mark.TASK}
        names = expected.names
        if max(numbers) < len(names) and all(names[int(t)] == name for t, name in known.items()):
            return {str(number): name for number, name in enumerate(names)}
        return known


_HOSTNAME: Final = re.compile(rb'"hostname":\s?"([^"\\]{1,253})"')
_WORD: Final = {Mark.TASK: "task ", Mark.POD: "pod ", Mark.NODE: "", Mark.BLOCK: ""}


def _results(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Task, host and result; what has not their form is passed over."""
    for play in document["plays"]:
        tasks = play.get("tasks") if isinstance(play, dict) else None
        for each in tasks if isinstance(tasks, list) else ():
            task = each.get("task") if isinstance(each, dict) else None
            hosts = each.get("hosts") if isinstance(each, dict) else None
            name = task.get("name") if isinstance(task, dict) else None
            for host, result in hosts.items() if isinstance(hosts, dict) else ():
                if isinstance(result, dict):
                    yield name if isinstance(name, str) else "", host, result


def _is_failed(result: dict[str, Any]) -> bool:
    """Also where the playbook says that an exit code is no failure, as preflight's are none."""
    code = result.get("rc")
    ended = isinstance(code, int) and code != 0
    return ended or result.get("unreachable") is True or result.get("failed") is True


def _failed(result: dict[str, Any]) -> NoReport:
    """What Ansible says of a host where a task did not come to its end."""
    texts = (result.get(name) for name in ("stderr", "msg", "stdout"))
    said = next((text for text in texts if isinstance(text, str) and text.strip()), "failed")
    word = "unreachable: " if result.get("unreachable") is True else ""
    code = result.get("rc")
    ended = f" (exit code {code})" if isinstance(code, int) else ""
    return NoReport(Gap.FAILED, f"{word}{piece(said)}{ended}")
