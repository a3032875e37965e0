"""Makes faults, in a guest: `python -m faults.inside NAME…` writes to the folder RDMADIAG_LAB_OUT.

Of each fault, in a folder of its name: record.json (what was made, whether it took effect, what
the tools printed at both ends), left.tar.gz and right.tar.gz (rdmadiag snapshot of both hosts).
A name that begins with "healthy" is a twin: the same, with nothing made.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from faults import warm
from faults.hosts import Hosts, Node
from faults.table import ENDS, HERE, Fault, Tool, faults, tools
from lab.failure import LabFailure

RDMADIAG: Final = str(Path(sys.executable).parent / "rdmadiag")
CHECKLIST: Final = Path(__file__).with_name("checklist.sh")
SNAPSHOT_SECONDS: Final = 90.0
INCOMPLETE: Final = 3
"""Exit code of a snapshot in which a source gave nothing: by the fault, or late in a slow guest."""
AGAIN: Final = 1
LISTEN_SECONDS: Final = 6.0
GRACE_SECONDS: Final = 2.0
MOST: Final = 6000
"""Bytes that are kept of what one end printed: its beginning and its end."""


def main(names: Sequence[str]) -> int:
    """0 if each was made, took effect and was recorded."""
    out = Path(os.environ["RDMADIAG_LAB_OUT"])
    rows = known()
    wrong = 0
    warm.load()
    for name in names:
        began = time.monotonic()
        try:
            record = one(rows[name], out / name)
            effect = record["took_effect"]
        except (LabFailure, OSError, subprocess.SubprocessError) as error:
            record, effect = {"error": str(error)}, False
        wrong += not effect
        seconds = time.monotonic() - began
        note = record.get("error") or ("" if effect else f"NO EFFECT {record['checks']}")
        took = " ".join(f"{step} {took}" for step, took in record.get("seconds", {}).items())
        print(f"{name:44} {seconds:5.1f} s ({took}) {note}", flush=True)
    return 1 if wrong else 0


def known() -> dict[str, Fault]:
    """Faults and their twins, by name."""
    rows = {each.name: each for each in faults()}
    return rows | {name: healthy(name, each) for each in rows.values() for name in each.twins}


class Clock:
    """How long each step took."""

    def __init__(self) -> None:
        self.took: dict[str, float] = {}
        self._last = time.monotonic()

    def note(self, step: str) -> None:
        """It has ended."""
        now = time.monotonic()
        self.took[step], self._last = round(now - self._last, 1), now


def healthy(name: str, fault: Fault) -> Fault:
    """The twin of this name."""
    return replace(
        fault,
        name=name,
        setting=name.split("-")[1],
        tools=(name.rpartition("-")[2],),
        family="healthy",
        truth="nothing is wrong",
        causes=(),
        rules=(),
        make={},
        check={},
        during={},
        around={},
        env={},
        set={},
        without="",
        seconds=15.0,
    )


def one(fault: Fault, folder: Path) -> dict[str, Any]:
    """Make it, look at it, and write it down."""
    folder.mkdir(parents=True, exist_ok=True)
    clock = Clock()
    with Hosts(fault.setting) as hosts:
        clock.note("hosts")
        before = _checks(fault, hosts)
        for end in ENDS:
            hosts.nodes[end].env = dict(fault.env.get(end, {}))
            hosts.nodes[end].around = fault.around.get(end, ())
        made = _lines(fault.make, hosts)
        if fault.around or hosts.exclusive:  # made with the hosts
            before = [dict(each, passed=False) for each in before]
        after = _checks(fault, hosts)
        clock.note("make")
        kept = _look(hosts, folder)
        clock.note("look")
        by_name = tools()
        # A guest without processor time is slow at everything: what is late is so by the fault.
        slow = min(5.0, max(1.0, clock.took["hosts"] / 2))
        patient = replace(fault, seconds=slow * fault.seconds)
        said = {name: run(by_name[name], patient, hosts) for name in fault.tools}
        clock.note("tools")
        kept["after"] = {end: _snapshot_of(hosts, end, folder, f"{end}.after") for end in ENDS}
        clock.note("after")
        later = after if all(each["passed"] for each in after) else _checks(fault, hosts)
    clock.note("gone")
    checks = [
        {"line": b["line"], "before": b["passed"], "after": a["passed"] or c["passed"]}
        for b, a, c in zip(before, after, later, strict=True)
    ]
    record = {
        "name": fault.name,
        "made": made,
        "checks": checks,
        "took_effect": _effect(fault, checks, said),
        "tools": said,
        **kept,
        "kernel": os.uname().release,
        "seconds": clock.took,
    }
    whole = folder / "record.new"
    whole.write_text(json.dumps(record, indent=1) + "\n")
    whole.rename(folder / "record.json")  # last: who sees it sees all
    return record


def _effect(fault: Fault, checks: Sequence[Mapping[str, Any]], said: Mapping[str, Any]) -> bool:
    """Each check passes now, and not all did before; a twin's tools all pass.

    What is not made on a host but asked of the tools (arguments, variables, no server) shows in
    what the tools do.
    """
    passed = [each["code"] == 0 for tool in said.values() for each in tool.values()]
    if fault.family == "healthy":
        return all(passed)
    if checks:
        return all(each["after"] for each in checks) and not all(each["before"] for each in checks)
    return not all(passed) or bool(fault.env)


def _lines(places: Mapping[str, Sequence[str]], hosts: Hosts) -> list[dict[str, Any]]:
    found = []
    for place, lines in places.items():
        for line in lines:
            done = hosts.nodes[place].do(line)
            found.append(
                {"at": place, "line": line, "code": done.returncode, "said": done.stdout[-500:]}
            )
    return found


def _checks(fault: Fault, hosts: Hosts) -> list[dict[str, Any]]:
    found = []
    for place, lines in fault.check.items():
        node = hosts.nodes[place]
        for line in lines:
            done = subprocess.run(
                node.argv(line),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=30.0,
                check=False,
                env=node.environ() | hosts.variables(place if place in ENDS else "left"),
            )
            found.append({"line": f"{place}: {line}", "passed": done.returncode == 0})
    return found


def _look(hosts: Hosts, folder: Path) -> dict[str, dict[str, str]]:
    """Snapshots of both hosts, and what a person with a list of commands would see."""
    kept: dict[str, dict[str, str]] = {"snapshot": {}, "checklist": {}}
    for end in ENDS:  # one host after the other: each has its deadlines
        kept["snapshot"][end] = _snapshot_of(hosts, end, folder, end)
        line = f"exec bash {CHECKLIST}"
        node = hosts.nodes[end]
        kept["checklist"][end] = _run(node, line, SNAPSHOT_SECONDS, hosts.variables(end))
    return kept


def _snapshot_of(hosts: Hosts, end: str, folder: Path, name: str) -> str:
    """One of that host, NAME.tar.gz; what it said."""
    node, where = hosts.nodes[end], _place(folder, name)
    for _ in range(1 + AGAIN):
        where.unlink(missing_ok=True)
        code = warm.finish(_snapshot(node, where), SNAPSHOT_SECONDS)
        if code not in (INCOMPLETE, 124) and not _is_late(where):
            break
    if where.exists():
        (folder / f"{name}.tar.gz").write_bytes(where.read_bytes())
        where.unlink()
    return f"exit code {code}\n{_kept(_said(where).read_bytes())}"


def _snapshot(node: Node, where: Path) -> int:
    """Begin one; the pid. A user's limits and variables are of a process of its own."""
    argv = ["snapshot", "--timeout", "30", str(where)]
    if not (node.around or node.env):
        return warm.start(argv, _said(where), holder=node.holder.pid)
    program = [sys.executable, "-m", "faults.warm", *argv]
    line = node.argv(f"cd {HERE.parent} && exec {shlex.join(program)}")
    out = (os.POSIX_SPAWN_OPEN, 1, str(_said(where)), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    to_out = (os.POSIX_SPAWN_DUP2, 1, 2)
    return os.posix_spawnp(line[0], line, node.environ(), file_actions=[out, to_out])


def _is_late(where: Path) -> bool:
    """Whether libibverbs was cut off: the child's last line has no end of its own."""
    try:
        with tarfile.open(where) as record:
            file = record.extractfile("verbs/query.jsonl")
            last = file.read().splitlines()[-1:] if file else []
    except (OSError, KeyError, tarfile.TarError):
        return True
    return not last or json.loads(last[0]).get("end", 0) is None


def _said(where: Path) -> Path:
    return where.with_suffix(".said")


def _place(folder: Path, name: str) -> Path:
    return Path("/tmp", f"{folder.name}-{name}.tar.gz")  # noqa: S108  # of the guest


def _run(node: Node, line: str, timeout: float, env: Mapping[str, str]) -> str:
    try:
        done = subprocess.run(
            node.argv(line),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout,
            check=False,
            env=node.environ() | dict(env),
        )
    except subprocess.TimeoutExpired:
        return "late"
    return _kept(done.stdout)


def run(tool: Tool, fault: Fault, hosts: Hosts) -> dict[str, Any]:
    """Both ends of it: what each printed, and its exit code (124: it was late)."""
    started: dict[str, subprocess.Popen[bytes]] = {}
    lines = {"right": tool.server, "left": tool.client}
    if fault.without:
        del lines[fault.without]
    tool_listens = tool.listens if "right" in lines else ""
    for end, line in lines.items():
        node = hosts.nodes[end]
        program = line.replace("rdmadiag ", f"{RDMADIAG} ", 1)
        bounded = f"timeout -k 2 {fault.seconds:g} stdbuf -oL sh -c '{program}'"
        out = Path(f"/tmp/said-{end}").open("wb")  # noqa: S108, SIM115  # of the guest
        with out:
            started[end] = subprocess.Popen(
                node.argv(bounded),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=node.environ() | hosts.variables(end) | dict(fault.set.get(end, {})),
                start_new_session=True,
            )
        if end == "right" and tool_listens:
            _wait(tool_listens, started[end], node)
    before: dict[str, set[int]] = {}
    if fault.during:
        time.sleep(2.0)
        before = {end: hosts.pids(end) for end in ENDS}
        _lines(fault.during, hosts)
    ended = _watch(started, time.monotonic())
    for end, known in before.items():  # what it left running would answer the next tool
        hosts.end(end, hosts.pids(end) - known)
    return {
        end: {
            "line": lines[end],
            "code": child.returncode,
            "ended": ended.get(end),
            "said": _kept(Path(f"/tmp/said-{end}").read_bytes()),  # noqa: S108
        }
        for end, child in reversed(started.items())
    }


def _watch(started: Mapping[str, "subprocess.Popen[bytes]"], began: float) -> dict[str, float]:
    """After how many seconds each ended by itself; a server without a client is ended."""
    ended: dict[str, float] = {}
    alone = 0.0
    while len(ended) < len(started):
        now = time.monotonic()
        for end, child in started.items():
            if end not in ended and child.poll() is not None:
                ended[end] = round(now - began, 2)
        if "left" in ended or "left" not in started:
            alone = alone or now
            if now - alone > GRACE_SECONDS and "right" not in ended:
                subprocess.run(
                    ["pkill", "-TERM", "-s", str(started["right"].pid)], check=False, timeout=60
                )
                started["right"].wait(60.0)
                break
        time.sleep(0.02)
    return ended


def _wait(listens: str, child: "subprocess.Popen[bytes]", node: Node) -> None:
    kind, _, value = listens.partition(":")
    late = time.monotonic() + LISTEN_SECONDS
    while child.poll() is None and time.monotonic() < late:
        if kind == "sleep":
            time.sleep(float(value))
            return
        if kind == "tcp" and node.listens(int(value)):
            return
        if kind == "cm" and "LISTEN" in node.do("rdma resource show cm_id").stdout:
            return
        time.sleep(0.1)


def _kept(said: bytes) -> str:
    text = said.decode("utf-8", "replace")
    text = re.sub(r"[^\x09\x0a\x20-\x7e]", "?", text)
    if len(text) <= MOST:
        return text
    half = MOST // 2
    return f"{text[:half]}\n[{len(text) - MOST} characters]\n{text[-half:]}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
