"""Hostile text from hosts, records, peers, logs and command lines, through every command and form.

Texts that a host may choose, device names before all, get each payload behind them; every form
of every command that reads such a record is held to its own grammar, and every line that is
meant for a shell is pasted into sh, bash, zsh and fish.
"""

import contextlib
import io
import json
import os
import random
import re
import shlex
import sys
import time
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from xml.etree import ElementTree as ET

from campaign import shells
from campaign.result import Held, Result
from lab.hostile import Accepts, Document, Free, free, poisoned
from rdmadiag.report import MOST_BYTES

_RUN: Final = f"touch {shells.RAN}"
INJECTED: Final = "INJECTED"

PAYLOADS: Final[Mapping[str, str]] = {
    "newline": f"\n{INJECTED}\n",
    "carriage return": f"\r{INJECTED}",
    "newlines of Unicode": f"\u2028{INJECTED}\u2029{INJECTED}\x85{INJECTED}\x0b{INJECTED}\x0c",
    "clear the screen": "\x1b[2J\x1b[H",
    "set the title": "\x1b]0;owned\x07",
    "hyperlink": "\x1b]8;;https://example.com\x1b\\x\x1b]8;;\x1b\\",
    "device control": "\x1bP$q\x1b\\\x1b[6n\x1b[c",
    "C1": "\x9b2J\x9d0;owned\x9c\x90",
    "bidirectional": "\u202etob\u2066x\u2069\u200f",
    "zero width": "\u200b\u2060\ufeff\u00ad\u180e",
    "tags": "\U000e0041\U000e007f",
    "backspace": "\x08\x08\x08\x7fOK",
    "tab": "\tOK",
    "substitution": f"$({_RUN})",
    "backquotes": f"`{_RUN}`",
    "semicolon": f"; {_RUN} #",
    "and": f" && {_RUN} || {_RUN}",
    "background": f"& {_RUN} &",
    "pipe": f"| {_RUN}",
    "redirection": f"> {shells.RAN}",
    "a comment's end": f"\n{_RUN}\n#",
    "single quote": f"'; {_RUN}; '",
    "double quote": f'"; {_RUN}; "',
    "double substitution": f'"$({_RUN})"',
    "fish's escapes": f"\\'\\'({_RUN})\\'\"",
    "backslash": "\\",
    "two quotes": f"'\"'\"$({_RUN})",
    "history": "!!",
    "expansion": "* ? [a-z] {a,b} ~root ${IFS} $HOME $'\\n'",
    "a path": "=ls",
    "option": " --help -rf",
    "a bar": f"| status=0;;;0 {INJECTED}=1",
    "rich markup": "[bold red]x[/] [link=https://example.com]y[/link] :smile:",
    "XML": "</testcase><failure/><!--]]>&#x1b;<![CDATA[<?x",
    "HTML": "<script>alert(1)</script>",
    "Prometheus": f'"}} 1\nrdmadiag_{INJECTED} 0\n# ',
    "GitHub": f"\n::error::{INJECTED}%0A::set-output name=x::y\r\n::stop-commands::t",
    "JSON": '","verdict":{"status":"ok"},"x":"',
    "TOML": f'"\n[{INJECTED}]\nx = 1 # \'\'\' """',
    "templates": "{0} {device} {netdev} %s %n $device {0.__class__}",
    "surrogate": "\udcff\ud800",
    "not a character": "\ufffe\uffff\U0010ffff",
    "digits": "9" * 5000,
    "long": "x" * 65536,
    "wide": "節" * 40,
    "combining": "e" + "\u0301" * 60,
}

_SGR: Final = re.compile(r"\x1b\[[0-9;]*m")
_WIDTH: Final = "4000"  # columns: no line is folded, so a payload at its beginning has broken it
_CODES: Final = frozenset({0, 1, 2, 3, 64, 74, 77})
_LONG_HOSTS: Final = 12  # hosts that each payload is tried on, in the long form


class Ended(NamedTuple):
    """One command line in this process."""

    argv: tuple[str, ...]
    code: int
    out: str
    err: str

    def __str__(self) -> str:
        return shlex.join(each[:80] for each in self.argv)


class Campaign:
    """What was held so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.inputs = 0
        self.tried: dict[str, int] = defaultdict(int)
        self.broken: dict[str, list[str]] = defaultdict(list)
        self.lines: dict[str, dict[str, None]] = defaultdict(dict)  # for shells, by payload

    def hold(self, what: str, subject: object, problem: str | None) -> None:
        """`problem` is what is wrong, None where all is well."""
        self.tried[what] += 1
        if problem is not None:
            self.broken[what].append(f"{subject}: {problem}")

    def call(self, *argv: str, coloured: bool = False) -> Ended:
        """Runs the command line, and holds what holds for all of them."""
        self.inputs += 1
        ended = _called(argv, coloured=coloured)
        self.printed(ended)
        return ended

    def printed(self, ended: Ended) -> None:
        """Holds what holds for every command line's ending."""
        self.hold("an exit code that is documented", ended, _bad_code(ended))
        for name, text in (("stdout", ended.out), ("stderr", ended.err)):
            own_lines = "--log" not in ended.argv  # a log has as many as it likes
            self.hold("nothing for a terminal to obey", ended, _disobeyed(name, text, own_lines))

    def result(self, seconds: float) -> Result:
        """Every property."""
        held = [Held(what, self.tried[what], self.broken[what]) for what in self.tried]
        return Result("names", self.inputs, held, seconds)


def _called(argv: Sequence[str], *, coloured: bool = False) -> Ended:
    """A command line in this process."""
    from rdmadiag.cli import run as command

    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2)]
    os.environ |= {"COLUMNS": _WIDTH, "TERM": "xterm"}
    os.environ.pop("FORCE_COLOR", None)
    if coloured:
        os.environ["FORCE_COLOR"] = "1"
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        code = command(argv)
    texts = []
    for stream in streams:
        stream.flush()
        texts.append(stream.buffer.getvalue().decode("utf-8"))
    return Ended(tuple(argv), code, texts[0], texts[1])


def _bad_code(ended: Ended) -> str | None:
    if ended.code not in _CODES:
        return f"exit {ended.code}: {ended.err[:300]!r}"
    if ended.code >= min(_CODES - {0, 1, 2, 3}) and ended.err.count("\n") != 1:
        return f"{ended.err[:300]!r} is not one line"
    return None


def _disobeyed(name: str, text: str, own_lines: bool) -> str | None:
    for line in _SGR.sub("", text).split("\n"):
        if not line.isprintable():
            return f"{name}: {line[:200]!r}"
        if own_lines and line.lstrip().startswith(INJECTED):
            return f"{name}: a line of its own: {line[:200]!r}"
    return None


# --- each form by its own grammar ------------------------------------------------------------


def _nagios(ended: Ended, payload: str) -> str | None:
    fields = ended.out.removesuffix("\n").split("|")
    values = fields[-1].split()
    one = len(fields) == 2 and "\n" not in fields[0] + fields[1]
    plain = all(re.fullmatch(r"[a-z_]+=[0-9U]+;;;0(;[0-9]*)?", each) for each in values)
    return None if one and plain else ended.out[:300]


_SAMPLE: Final = re.compile(
    r'rdmadiag_[a-z_]+(\{([a-z_]+="([^"\\\n]|\\[\\n"])*"(,(?!\})|(?=\})))*\})? '
    r"(\+Inf|-Inf|NaN|-?[0-9][0-9.e+-]*)"
)
_ABOUT: Final = re.compile(r"# (HELP|TYPE) rdmadiag_[a-z_]+ .*")


def _prometheus(ended: Ended, payload: str) -> str | None:
    seen = set()
    for line in ended.out.splitlines():
        if _ABOUT.fullmatch(line):
            continue
        if not _SAMPLE.fullmatch(line):
            return f"no line of the format: {line[:300]!r}"
        series = line.rpartition(" ")[0]
        if series in seen:
            return f"twice: {series[:300]}"
        seen.add(series)
    return None


_ELEMENTS: Final = frozenset(
    {"testsuites", "testsuite", "testcase", "failure", "skipped", "system-out", "properties"}
) | {"property"}


def _junit(ended: Ended, payload: str) -> str | None:
    root = ET.fromstring(ended.out.encode())  # noqa: S314  # our own
    if other := {each.tag for each in root.iter()} - _ELEMENTS:
        return f"elements {other}"
    cases = len(list(root.iter("testcase")))
    return None if str(cases) == root.get("tests") else f"{cases} of {root.get('tests')} cases"


def _github(ended: Ended, payload: str) -> str | None:
    for line in ended.out.splitlines()[1:]:
        if not re.fullmatch(r"::(error|warning|notice) title=[^:,]*::[^\r\n]*", line):
            return f"no command of ours: {line[:300]!r}"
    return None


def _json(ended: Ended, payload: str) -> str | None:
    if ended.out.count("\n") != 1:
        return "not one line"
    json.loads(ended.out)
    return None


def _toml(ended: Ended, payload: str) -> str | None:
    found = tomllib.loads(ended.out)
    extra = set(found) - {"host", "device", "thresholds"}
    return f"tables {sorted(extra)}" if extra else None


def _plain(ended: Ended, payload: str) -> str | None:
    return None if ended.out.endswith("\n") or not ended.out else "the last line is cut"


Grammar = Callable[[Ended, str], str | None]

FORMS: Final[Sequence[tuple[str, tuple[str, ...], Grammar]]] = (
    ("text", ("preflight",), _plain),
    ("text", ("preflight", "--verbose"), _plain),
    ("text", ("preflight", "--quiet"), _plain),
    ("text", ("preflight", "--stack", "nccl", "--stack", "ucx"), _plain),
    ("JSON", ("preflight", "--json", "--stack", "nccl", "--stack", "mooncake"), _json),
    ("nagios", ("preflight", "-o", "nagios"), _nagios),
    ("Prometheus", ("preflight", "-o", "prometheus"), _prometheus),
    ("JUnit", ("preflight", "-o", "junit"), _junit),
    ("GitHub", ("preflight", "-o", "github"), _github),
    ("text", ("gids",), _plain),
    ("text", ("gids", "--explain"), _plain),
    ("JSON", ("gids", "--json"), _json),
    ("JSON", ("gids", "--json", "--explain"), _json),
    ("text", ("devices",), _plain),
    ("JSON", ("devices", "--json"), _json),
    ("text", ("capabilities",), _plain),
    ("JSON", ("capabilities", "--json"), _json),
    ("text", ("resources",), _plain),
    ("JSON", ("resources", "--json"), _json),
    ("text", ("expect",), _plain),
    ("TOML", ("expect", "-q"), _toml),
    ("JSON", ("expect", "--json"), _json),
)

PAIRED: Final[Sequence[tuple[str, tuple[str, ...], Grammar]]] = (
    ("text", ("diff", "--hosts", "same", "--verbose"), _plain),
    ("text", ("compat", "--verbose"), _plain),
)
"""Of two records."""

# --- hosts ---------------------------------------------------------------------------------------


class Source(NamedTuple):
    """A document that --from takes, and what of it may be any text."""

    name: str
    document: Document
    every: Free
    names: Free  # of devices, netdevs and the host


def _report(document: Document) -> Document | None:
    from pydantic import ValidationError

    from rdmadiag.report import Report

    try:
        model = Report.model_validate_json(json.dumps(document))
    except ValidationError:
        return None
    found: Document = json.loads(model.model_dump_json())
    return found


def _saved(path: Path) -> Accepts:
    from rdmadiag.host.saved_sample import BaselineError, read_saved
    from rdmadiag.render.json import text

    def accepts(document: Document) -> Document | None:
        path.write_text(json.dumps(document), encoding="utf-8")
        try:
            found = read_saved(str(path))
        except BaselineError:
            return None
        host, sample = (json.loads(text(each)) for each in (found.host, found.sample))
        return document | {"host": host, "sample": sample}

    return accepts


def _source(name: str, document: Document, accepts: Accepts) -> Source:
    every = free(document, accepts)
    return Source(name, document, every, every.only(list(_names(document))))


def _names(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _names(each)
    if isinstance(value, dict):
        for key, each in value.items():
            if isinstance(each, str) and key in {"name", "netdev", "hostname", "device", "netdevs"}:
                yield each
            else:
                yield from _names(each)


def _hosts(short: bool, dice: random.Random) -> list[Source]:
    from rdmadiag.samples import folder, samples

    fixtures = Path(__file__).parent.parent / "tests" / "fixtures"
    folders = [folder(name) for name in samples()]
    folders += [str(each) for each in sorted(fixtures.iterdir()) if (each / "meta.json").exists()]
    if short:
        folders = dice.sample(folders, 4)
    found = []
    for each in folders:
        document = json.loads(_called(("preflight", "--json", "--from", each)).out)
        del document["verdict"]
        found.append(_source(Path(each).name, document, _report))
    return found


_SHORT: Final = 12  # payloads

# --- the campaign --------------------------------------------------------------------------------


def run(short: bool, seed: int, folder: Path, seconds: float) -> Result:
    """See campaign/README.md."""
    began = time.monotonic()
    dice = random.Random(seed)
    found = Campaign(folder)
    os.chdir(folder)
    hosts = _hosts(short, dice)
    logs = _Logs(folder)
    counters = _counters(folder)
    payloads = dice.sample(sorted(PAYLOADS.items()), _SHORT if short else len(PAYLOADS))
    for name, payload in payloads:
        if time.monotonic() > began + seconds:
            break  # the lines that were printed are run all the same
        for host in dice.sample(hosts, 1 if short else min(_LONG_HOSTS, len(hosts))):
            for chosen in (host.names, host.every):
                _host(found, name, payload, host, chosen)
        _counted(found, payload, counters)
        _log(found, name, payload, logs, hosts)
        _arguments(found, name, payload, short=short)
    _snapshots(found, short=short)
    for shell in shells.installed():
        for name, lines in found.lines.items():
            for each in shells.wrong(shell, list(lines)):
                found.hold("lines for a shell do what they say", name, each)
            found.tried["lines for a shell do what they say"] += len(lines)
    _completions(found)
    return found.result(time.monotonic() - began)


def _form(found: Campaign, form: tuple[str, tuple[str, ...], Grammar], *where: str) -> Ended:
    """One form of one command."""
    what, argv, grammar = form
    ended = found.call(*argv, *where, coloured=what == "text" and "--verbose" in argv)
    if ended.code <= 3:
        try:
            problem = grammar(ended, "")
        except (ValueError, ET.ParseError, IndexError) as error:
            problem = f"{error!r}: {ended.out[:300]!r}"
        found.hold(f"a document of its form: {what}", ended, problem)
    return ended


def _host(found: Campaign, name: str, payload: str, host: Source, chosen: Free) -> None:
    path = f"{host.name}-{name.replace(' ', '-')}.json"
    document = poisoned(host.document, chosen, payload)
    Path(path).write_text(json.dumps(document), encoding="utf-8")
    # Half a surrogate pair no document of ours holds; one that is too long is refused.
    if _report(document) is None or Path(path).stat().st_size > MOST_BYTES:
        found.call("preflight", "--from", path)
        return
    for form in FORMS:
        if form[0] == "TOML":
            continue  # stderr and stdout of the same command
        ended = _form(found, form, "--from", path)
        if "preflight" in form[1] and "--json" in form[1] and ended.out:
            _remedies(found, name, ended)
            _whole(found, ended, document)
        if form[1] == ("expect",) and ended.out:
            _form(found, ("TOML", ("expect",), _toml), "--from", path)
    plain = f"{host.name}-plain.json"
    Path(plain).write_text(json.dumps(host.document), encoding="utf-8")
    for form in PAIRED:
        _form(found, form, plain, path)
    for stack in ("nccl", "ucx", "mooncake"):
        ended = found.call("gids", "--env", stack, "--from", path)
        found.lines[name] |= dict.fromkeys(ended.out.splitlines())
    _form(found, ("text", ("gids", "--explain", "--peer", path), _plain), "--from", path)
    _form(found, ("JSON", ("gids", "--json", "--peer", path), _json), "--from", path)


def _remedies(found: Campaign, name: str, ended: Ended) -> None:
    for finding in json.loads(ended.out).get("verdict", {"findings": ()})["findings"]:
        found.lines[name] |= dict.fromkeys(finding["remedy"])


def _whole(found: Campaign, ended: Ended, document: Document) -> None:
    """Text comes out of JSON as it went in."""
    expected = _report(document)
    printed = json.loads(ended.out)
    same = expected is not None and printed.get("evidence") == expected["evidence"]
    found.hold("JSON holds a text as it is", ended, None if same else "the evidence differs")


def _counters(folder: Path) -> Source:
    document = json.loads(_called(("counters", "--json", "--sample", "infiniband-two-hca")).out)
    return _source("counters", document, _saved(folder / "probe.json"))


def _counted(found: Campaign, payload: str, source: Source) -> None:
    document = poisoned(source.document, source.every, payload)
    Path("counters.json").write_text(json.dumps(document), encoding="utf-8")
    for argv in (("counters", "--all"), ("counters",)):
        _form(found, ("text", argv, _plain), "--from", "counters.json")
    _form(found, ("JSON", ("counters", "--json"), _json), "--from", "counters.json")


class _Logs:
    """Lines of real programs, with a place for the payload."""

    LINES: Final = """\
node{x}:12:34 [0] transport/net_ib.cc:1 NCCL WARN Call to ibv_modify_qp failed with 110 \
Connection timed out, on dev mlx5_0{x}:1, curr state INIT, next state RTR, local GID index 3{x}, \
local GID ::ffff:192.0.2.1{x}, remote GID ::ffff:192.0.2.2{x}
[1753{x}] [node:1:0] ib_mlx5_log.c:171 UCX ERROR Transport retry count exceeded on \
mlx5_0{x}:1/RoCE (synd 0x15 vend 0x81 hw_synd 0/0)
Couldn't connect to {x}:18515
kernel: mlx5_core 0000:08:00.0 {x}: Port module event: module 0{x}, Cable unplugged
libibverbs: Warning: couldn't load driver '{x}': cannot open shared object file
ibv_create_qp failed: {x} Cannot allocate memory
[jaccl] Changing queue pair to RTR failed with errno 60{x}
"""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "job.log"

    def write(self, payload: str) -> str:
        """The log with it; its path."""
        text = self.LINES.replace("{x}", payload)
        self.path.write_bytes(text.encode("utf-8", "surrogatepass"))
        return str(self.path)


def _log(found: Campaign, name: str, payload: str, logs: _Logs, hosts: list[Source]) -> None:
    path = logs.write(payload)
    for options in ((), ("--sample", "roce-healthy")):
        _form(found, ("text", ("explain", "--log", path), _plain), *options)
        ended = _form(found, ("JSON", ("explain", "--log", path, "--json"), _json), *options)
        if ended.out:
            document = {"failures": (), "consequences": ()} | json.loads(ended.out)
            for each in (*document["failures"], *document["consequences"]):
                found.lines[name] |= dict.fromkeys(each["next"])


_SAMPLED: Final = ("--sample", "roce-healthy")


def _arguments(found: Campaign, name: str, payload: str, *, short: bool) -> None:
    """The payload where a user's own script may put what a host has said."""
    payload = payload.replace("\ud800", "")  # no byte of a command line
    folder = str(found.folder)
    lines = (
        (payload,),
        (f"--{payload}",),
        ("gids", payload),
        ("gids", "--device", payload, *_SAMPLED),
        ("gids", "--device", f"rxe0:{payload}", *_SAMPLED),
        ("preflight", "--device", f"rxe0{payload}:1", *_SAMPLED),
        ("gids", "--sample", payload),
        ("gids", "--from", f"{folder}/none{payload}"),
        ("gids", "--stack", f"nccl@{payload}", *_SAMPLED),
        ("gids", "--env", payload, *_SAMPLED),
        ("gids", "--explain", "--env-from", f"{folder}/none{payload}", *_SAMPLED),
        ("gids", "--peer", f"{folder}/none{payload}", *_SAMPLED),
        ("gids", "--gid-index", payload, *_SAMPLED),
        ("preflight", "--timeout", payload, *_SAMPLED),
        ("preflight", "--expect-rate", payload, *_SAMPLED),
        ("preflight", "--expect", f"{folder}/none{payload}", *_SAMPLED),
        ("preflight", "--log-last", payload),
        ("preflight", "--pid", payload),
        ("preflight", "-o", payload, *_SAMPLED),
        ("preflight", "--output", f"{folder}/none{payload}/x", *_SAMPLED),
        ("preflight", "--output", f"{folder}/made{payload}", *_SAMPLED),
        ("counters", "--threshold", f"{payload}=1", "--sample", "infiniband-two-hca"),
        ("counters", "--threshold", f"retransmissions={payload}", "--sample", "ib"),
        ("counters", "--since", f"{folder}/none{payload}"),
        ("counters", "--exclude-device", payload, "--sample", "infiniband-two-hca"),
        ("explain", payload),
        ("explain", "errno", payload),
        ("explain", "wc", payload),
        ("explain", "wc", "12", "--vendor-err", payload),
        ("explain", "state", payload),
        ("explain", "env", f"NCCL_IB_HCA={payload}"),
        ("explain", "env", payload),
        ("explain", "--log", f"{folder}/none{payload}"),
        ("schema", payload),
        ("pingpong", payload),
        ("pingpong", "--listen", payload),
        ("pingpong", "--listen", f"192.0.2.1:{payload}"),
        ("pingpong", "--accept-risk", payload),
        ("pingpong", "--secret-file", f"{folder}/none{payload}"),
        ("snapshot", f"{folder}/record{payload}", *_SAMPLED),
    )
    for argv in lines:
        ended = found.call(*argv)
        if argv[0] == "snapshot" and ended.code == 0:
            found.lines[name][ended.out.rpartition("Read it with: ")[2].rstrip("\n")] = None
        if not short and len(argv) > 1 and argv[0] not in ("snapshot", "schema"):
            told = found.call(*argv, "--json")
            if told.code >= 64 and told.out:
                found.hold("a failure is a document too", told, _failure(told))


def _failure(ended: Ended) -> str | None:
    error = json.loads(ended.out)["error"]
    return None if error["exit_code"] == ended.code else f"{error['exit_code']}, not {ended.code}"


# --- records as trees, and completions -----------------------------------------------------------


_FILE_NAME: Final = 200  # bytes


def _snapshots(found: Campaign, *, short: bool) -> None:
    """Names as a file system has them: no "/", no NUL, any bytes."""
    from lab.netdevs import NetDev
    from lab.samples import roce_host
    from rdmadiag.host.recording import write_archive

    for number, (name, whole) in enumerate(PAYLOADS.items()):
        payload = whole.replace("\ud800", "")  # no byte of a file name
        device = f"mlx{payload}"
        if "/" in device or len(os.fsencode(device)) > _FILE_NAME:
            continue
        host = roce_host()
        netdev = host.netdevs[0]
        renamed = host.with_device(name=device, firmware=payload, board_id=payload).change(
            netdevs=(*host.netdevs, NetDev(f"e{payload}"), netdev), environ={"NCCL_IB_HCA": payload}
        )
        try:
            files = renamed.snapshot()
        except (UnicodeEncodeError, ValueError):  # of a machine that cannot be described
            continue
        path = str(found.folder / f"tree-{number}.tar.gz")
        write_archive(files, path)
        for form in FORMS if not short else FORMS[::3]:
            ended = _form(found, form, "--from", path)
            if "--json" in form[1] and form[1][0] == "preflight" and ended.out:
                _remedies(found, name, ended)


_PROGRAM: Final = """#!{python}
import os, sys
sys.path[:0] = {path!r}
listed = os.listdir
NAMES = {names!r}
os.listdir = lambda path=".": NAMES if path == "/sys/class/infiniband" else listed(path)
from rdmadiag.__main__ import main
main()
"""


def _completions(found: Campaign) -> None:
    """What each shell offers where devices have such names."""
    from lab.shells import offered
    from rdmadiag.quoting import shell_word

    names = [f"mlx{each}" for each in PAYLOADS.values()] + ["mlx5_0"]
    folder = found.folder / "bin"
    folder.mkdir()
    program = folder / "rdmadiag"
    text = _PROGRAM.format(python=sys.executable, path=sys.path, names=names)
    program.write_text(text, encoding="utf-8")
    program.chmod(0o755)
    plain = sorted(each for each in names if shell_word(each) == each and len(each) < 1000)
    before = sorted(os.listdir(found.folder))
    for shell in set(shells.installed()) & {"bash", "zsh", "fish"}:
        found.inputs += 1
        words = ["rdmadiag", "gids", "--device", "mlx"]
        got = sorted(each for each in offered(shell, words, program, 120) if len(each) < 1000)
        problem = None if got == plain else f"offers {got!r}"
        found.hold("no name that a shell would expand is completed", shell, problem)
        made = sorted(set(os.listdir(found.folder)) - set(before))
        found.hold("completing runs nothing", shell, f"made {made}" if made else None)
