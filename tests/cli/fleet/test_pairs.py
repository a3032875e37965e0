"""fleet pairs by programs that play its nodes: who meets whom, who is left out, what is said."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rdmadiag.facts.attempt import Latency, Outcome, Stage
from rdmadiag.preflight.x_rdma import RTR_ATTEMPT_WARNING
from rdmadiag.render.pingpong import document
from rdmadiag.verbs.attempt import Result
from tests.fleet.fake_fleet import Fleet
from tests.fleet.test_launch import linux, running
from tests.verbs.attempts import VERIFIED

Rdmadiag = Callable[..., Any]

WORD = f"rdmadiag-of-this-run-{os.getpid()}"

NODE = r"""
import json, os, sys, time
folder, node = os.environ["FAKE_FLEET"], sys.argv[1]
job = json.loads(sys.stdin.readline())
pair = next(each for each in job["pairs"] if node in each[:2])
with open(f"{folder}/asked", "a") as file:
    row = {"node": node, "argv": sys.argv[2:], "job": job, "pair": pair,
           "cmdline": open("/proc/self/cmdline").read() if os.path.exists("/proc") else ""}
    file.write(json.dumps(row) + "\n")
other = pair[1] if node == pair[0] else pair[0]
def does(name):
    path = f"{folder}/{name}.json"
    return json.load(open(path)) if os.path.exists(path) else {}
mine, theirs = does(node), does(other)
if "sh" in mine:
    sys.stdout.flush()
    os.execv("/bin/sh", ["sh", "-c", mine["sh"]])
made = json.load(open(f"{folder}/document.json"))
made["role"] = "connect" if node == pair[0] else "listen"
made["local"]["device"] = pair[3 if node == pair[0] else 4] or "mlx5_0"
if "outcome" in mine:
    made.update(outcome=mine["outcome"], summary=mine.get("summary", "words"), latency_us=None)
elif "outcome" in theirs or "sh" in theirs:
    made.update(outcome="no_peer", summary="nobody came", latency_us=None)
elif node == pair[0]:
    made["latency_us"]["median"] = 2.0 * mine.get("slower", 1) * theirs.get("slower", 1)
    made["bandwidth"] = None
else:
    made["latency_us"] = None
print(json.dumps(made))
"""


@dataclass(frozen=True)
class Players:
    """Nodes that answer as they are told; both of a pair know what the other one does."""

    fleet: Fleet

    def does(self, node: str, **what: Any) -> None:
        """`outcome`, `summary`, `slower`, or `sh`: a script in its place."""
        (self.fleet.folder / f"{node}.json").write_text(json.dumps(what))

    @property
    def asked(self) -> list[dict[str, Any]]:
        path = self.fleet.folder / "asked"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def rounds(self) -> list[dict[str, Any]]:
        """The job of each launch."""
        found = {json.dumps(each["job"], sort_keys=True): each["job"] for each in self.asked}
        return list(found.values())


@pytest.fixture
def players(fleet: Fleet) -> Players:
    """Reached by `--via "exec:player %h"`."""
    latency = Latency(1.5, 2, 3, 4.5, 100, 64, "compiled", 0.2, histogram=((2, 99), (5, 1)))
    made = document(Result(replace_latency(latency), (), ()))
    from rdmadiag.render.json import document as as_json

    text = as_json({"host": {"hostname": "x"}} | made)
    (fleet.folder / "document.json").write_text(text)
    (fleet.folder / "player.py").write_text(NODE)
    python = f'"{sys.executable}" -I -S'
    fleet.program("player", f'#!/bin/sh\nexec {python} "$FAKE_FLEET/player.py" "$@"\n')
    return Players(fleet)


def replace_latency(latency: Latency) -> Any:
    from dataclasses import replace

    return replace(VERIFIED, latency=latency, stage=Stage.DONE, outcome=Outcome.VERIFIED)


VIA = ("--via", "exec:player %h")
PAIRS = ("fleet", "pairs", *VIA, "--allow-rtr")


def test_a_fleet_in_order_meets_in_three_rounds_and_none_is_odd(
    players: Players, rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    passed, failed = tmp_path / "passed", tmp_path / "failed"
    lists = ("--passed", str(passed), "--failed", str(failed))
    found = rdmadiag(*PAIRS, "-w", "n[1-4]", "--json", *lists)
    assert found.code == 0
    assert found.document["status"] == "ok"
    assert (found.document["rounds"], found.document["nodes"]) == (3, 4)
    assert len(found.document["matrix"]["cells"]) == 6, "every two of four"
    assert (passed.read_text(), failed.read_text()) == ("n[1-4]\n", "\n")
    assert len(players.rounds) == 3
    assert Counter(each["node"] for each in players.asked) == dict.fromkeys(
        ("n1", "n2", "n3", "n4"), 3
    )
    assert found.err == (
        "rdmadiag: 3 rounds, in each player for each of 4 nodes, 4 at once; at most 55 s each and "
        "1490 s in all; one RTR a round on each port, nothing is drained or cordoned\n"
    )


def test_each_node_is_told_its_name_and_all_of_a_round_the_same_line(
    players: Players, rdmadiag: Rdmadiag
) -> None:
    (players.fleet.folder / "table").write_text("n1 192.0.2.1 rocep1\nn2 192.0.2.2:777 rocep2\n")
    table = ("--addresses", str(players.fleet.folder / "table"))
    limits = ("--bandwidth", "2", "--wait", "7", "--iterations", "9", "--busy")
    argv = ("-w", "n[1-3]", "--suffix", "-ib", "--device", "mlx5_0:1", "--rounds", "all")
    rdmadiag(*PAIRS, *argv, *table, *limits, "--accept-risk", "no_lid")
    words = ["pingpong", "--allow-rtr", "--json", "--accept-risk", "no_lid"]
    assert {tuple(each["argv"]) for each in players.asked} == {
        ("rdmadiag", *words, f"--job=n{number}") for number in (1, 2, 3)
    }
    assert len(players.rounds) == 3
    addresses = {pair[1]: pair[2] for job in players.rounds for pair in job["pairs"]}
    known = {"n1": "192.0.2.1", "n2": "192.0.2.2:777", "n3": "n3-ib"}
    assert addresses == {node: known[node] for node in addresses}
    devices = {pair[0]: pair[3] for job in players.rounds for pair in job["pairs"]}
    own = {"n1": "rocep1", "n2": "rocep2", "n3": "mlx5_0:1"}
    assert devices == {node: own[node] for node in devices}
    asked = {name: players.rounds[0][name] for name in ("payload", "iterations", "bandwidth")}
    assert asked == {"payload": 65536, "iterations": 9, "bandwidth": 2.0}
    assert (players.rounds[0]["wait"], players.rounds[0]["deadline"]) == (7.0, 17.0)
    assert players.rounds[0]["busy"] is True


@linux
def test_the_secret_of_a_run_is_in_no_command_line(players: Players, rdmadiag: Rdmadiag) -> None:
    found = rdmadiag(*PAIRS, "-w", "n[1-4]", "--json")
    (secret,) = {job["secret"] for job in players.rounds}
    assert len(bytes.fromhex(secret)) >= 16
    for each in players.asked:
        assert "--job=" in each["cmdline"]
        assert secret not in each["cmdline"]
    assert secret not in found.out + found.err
    rdmadiag(*PAIRS, "-w", "n[1-2]", "--json")
    assert len({job["secret"] for job in players.rounds}) == 2, "a new one for each run"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sh", "why"),
    [
        ("exit 127", "no rdmadiag there, or not in its PATH"),
        ("kill -9 $$", "ended by a signal"),
        ("echo Welcome; exit 0", "no outcome of a pingpong, exit code 0, it wrote 'Welcome'"),
        ("echo '{\"outcome\"'; kill -9 $$", "ended by a signal"),
        ('echo \'{"outcome": "splendid"}\'', "no outcome of a pingpong"),
        (
            'echo \'{"error": {"message": "no such device", "exit_code": 64}}\'; exit 64',
            "no such device",
        ),
        (r"printf '\033[2J'; exit 3", r"exit code 3, it wrote '\\x1b[2J'"),
    ],
    ids=["absent", "killed", "foreign", "torn", "nonsense", "refused", "hostile"],
)
def test_a_node_without_an_outcome_is_named_and_meets_nobody_else(
    players: Players, rdmadiag: Rdmadiag, tmp_path: Path, sh: str, why: str
) -> None:
    players.does("n3", sh=sh)
    failed = tmp_path / "failed"
    found = rdmadiag(*PAIRS, "-w", "n[1-6]", "--json", "--failed", str(failed))
    assert found.code == 3
    assert found.document["status"] == "unknown"
    assert found.document["odd"] == [], "its partner's failure is nobody's fault"
    (out,) = found.document["left_out"]
    assert (out["end"], out["round"]) == ("n3", 1)
    assert why in out["why"]
    assert found.document["unreported"] == ["n3:rail0 in round 1"]
    assert failed.read_text() == "n3\n"
    assert Counter(each["node"] for each in players.asked)["n3"] == 1


def test_a_node_that_hangs_is_ended_at_its_deadline(players: Players, rdmadiag: Rdmadiag) -> None:
    players.does("n2", sh=f"sleep 60; : {WORD}")
    times = ("--wait", "1", "--attempt-deadline", "1", "--host-deadline", "3")
    found = rdmadiag(*PAIRS, "-w", "n[1-2]", "--json", *times)
    assert found.code == 3
    assert found.document["left_out"][0]["why"] == "did not end before its deadline"
    assert running(WORD) == []


@pytest.mark.slow
@pytest.mark.parametrize("outcome", ["call_failed", "watchdog", "died", "teardown_failed"])
def test_a_port_where_a_call_failed_takes_no_part_any_more(
    players: Players, rdmadiag: Rdmadiag, outcome: str
) -> None:
    players.does("n4", outcome=outcome, summary="INIT to RTR: ETIMEDOUT")
    found = rdmadiag(*PAIRS, "-w", "n[1-6]", "--json", "--rounds", "all")
    assert found.code == 2
    times = Counter(each["node"] for each in players.asked)
    assert times["n4"] == 1
    assert min(times[f"n{each}"] for each in (1, 2, 3, 5, 6)) >= 4, "one rests with n4 alone"
    (out,) = found.document["left_out"]
    assert out == {"end": "n4:mlx5_0", "round": 1, "why": f"{outcome}: INIT to RTR: ETIMEDOUT"}
    assert any("n4:mlx5_0" in part["names"] for part in found.document["odd"])


def test_of_two_rails_the_one_that_failed_takes_no_part(
    players: Players, rdmadiag: Rdmadiag
) -> None:
    players.does("n1", outcome="call_failed")
    rails = ("--device", "mlx5_0", "--device", "mlx5_1", "--rounds", "3")
    rdmadiag(*PAIRS, "-w", "n[1-4]", "--json", *rails)
    mine = [each["pair"][3:] for each in players.asked if each["node"] == "n1"]
    assert mine == [["mlx5_0", "mlx5_0"], ["mlx5_1", "mlx5_1"]]


def test_a_port_in_use_is_left_alone_and_its_partner_is_not_blamed(
    players: Players, rdmadiag: Rdmadiag
) -> None:
    players.does("n1", outcome="not_allowed", summary="mlx5_0 is in use, 8 queue pairs")
    found = rdmadiag(*PAIRS, "-w", "n[1-6]", "--json")
    assert (found.code, found.document["status"]) == (3, "unknown")
    assert found.document["odd"] == []
    assert found.document["unreported"] == []
    assert [each["end"] for each in found.document["left_out"]] == ["n1:mlx5_0"]
    assert Counter(each["node"] for each in players.asked)["n1"] == 1


def test_a_node_whose_preflight_forbids_it_is_critical_and_asked_once(
    players: Players, rdmadiag: Rdmadiag
) -> None:
    players.does("n2", outcome="not_safe", summary="the preflight forbids RTR on mlx5_0/1")
    found = rdmadiag(*PAIRS, "-w", "n[1-6]", "--json")
    assert found.code == 2
    assert found.document["odd"][0]["names"] == ["n2:mlx5_0"]
    assert Counter(each["node"] for each in players.asked)["n2"] == 1


@pytest.mark.slow
def test_a_slow_node_is_tried_again_with_partners_that_passed_and_named(
    players: Players, rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    players.does("n05", slower=3)
    page, passed = tmp_path / "pairs.html", tmp_path / "passed"
    files = ("--html", str(page), "--passed", str(passed))
    found = rdmadiag(*PAIRS, "-w", "n[01-12]", "--json", "--rounds", "2", *files)
    assert found.code == 1
    (part,) = found.document["odd"]
    assert part["names"] == ["n05"]
    assert part["repeated"]
    assert part["slower"] == pytest.approx(3, rel=0.1)
    assert found.document["rounds"] > 2
    for job in players.rounds[2:]:
        assert any("n05" in pair[:2] for pair in job["pairs"])
    assert passed.read_text() == "n[01-04,06-12]\n"
    text = page.read_text()
    assert 'id="map-title"' in text
    assert "n05:mlx5_0" in text
    assert players.rounds[0]["secret"] not in text


@pytest.mark.slow
def test_without_retests_the_same_node_is_only_suspected(
    players: Players, rdmadiag: Rdmadiag
) -> None:
    players.does("n05", slower=3)
    argv = ("-w", "n[01-12]", "--json", "--rounds", "2", "--retests", "0")
    assert rdmadiag(*PAIRS, *argv).document["rounds"] == 2
    assert len(players.rounds) == 2


@pytest.mark.slow
def test_a_fleet_that_is_slow_as_a_whole_has_no_odd_one_but_an_expectation(
    players: Players, rdmadiag: Rdmadiag
) -> None:
    argv = (*PAIRS, "-w", "n[1-4]", "--json")
    assert rdmadiag(*argv, "--expect-latency", "2").code == 0
    slow = rdmadiag(*argv, "--expect-latency", "1")
    assert (slow.code, slow.document["odd"][0]["kind"]) == (1, "fleet")


def test_no_more_pairs_run_at_once_than_the_fanout_has_room_for(
    players: Players, rdmadiag: Rdmadiag
) -> None:
    rdmadiag(*PAIRS, "-w", "n[1-6]", "--rounds", "1", "--fanout", "4", "--quiet")
    assert sorted(len(job["pairs"]) for job in players.rounds) == [1, 2]


def test_no_round_begins_that_could_not_end_before_the_deadline(
    players: Players, rdmadiag: Rdmadiag
) -> None:
    found = rdmadiag(*PAIRS, "-w", "n[1-4]", "--json", "--deadline", "20")
    assert (found.code, found.document["unplayed"], players.asked) == (3, 3, [])


def test_the_page_has_who_took_no_part_and_why_and_no_markup_of_a_nodes(
    players: Players, rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    page = tmp_path / "pairs.html"
    players.does("n1", outcome="call_failed", summary="<script>alert(1)</script>")
    rdmadiag(*PAIRS, "-w", "n[1-4]", "--html", str(page))
    text = page.read_text()
    assert "<code>n1:mlx5_0</code> after round 1: call_failed: &lt;script&gt;alert(1)" in text
    assert "<script>alert" not in text


def test_leaves_are_of_the_topology(players: Players, rdmadiag: Rdmadiag, tmp_path: Path) -> None:
    topology = tmp_path / "topology"
    topology.write_text("SwitchName=s1 Nodes=n[1-2]\nSwitchName=s2 Nodes=n[3-4]\n")
    found = rdmadiag(*PAIRS, "-w", "n[1-4]", "--json", "--topology", str(topology))
    assert sorted(set(found.document["matrix"]["groups"])) == ["s1", "s2"]
    assert found.document["rounds"] == 4, "three, and one from leaf to leaf"


def test_text_has_the_answer_the_reason_and_a_small_map(
    players: Players, rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    players.does("n3", sh=r"echo 'dead \033[2J' >&2; kill -9 $$")
    whole = tmp_path / "whole"
    found = rdmadiag(*PAIRS, "-w", "n[1-6]", "--output", str(whole))
    assert (found.code, found.out) == (3, "")
    text = whole.read_text()
    assert text.startswith("UNKNOWN")
    assert "n3 after round 1: ended by a signal" in text
    assert "Rows send, columns receive" in text
    assert "\x1b" not in text
    quiet = rdmadiag(*PAIRS, "-w", "n[1-6]", "--quiet")
    assert (quiet.out.count("\n"), quiet.err) == (1, "")


def test_without_leave_nothing_is_started_and_the_words_are_those_of_pingpong(
    players: Players, rdmadiag: Rdmadiag, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RDMADIAG_FLEET_PAIRS_ALLOW_RTR", "1")
    found = rdmadiag("fleet", "pairs", *VIA, "-w", "n[1-4]")
    assert (found.code, found.out) == (3, "")
    assert found.err == f"rdmadiag: {RTR_ATTEMPT_WARNING}\n"
    assert players.asked == []


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("-w", "n1"), "a pair needs two nodes"),
        (("-w", "n1;reboot,n2"), "n1;reboot"),
        (("-w", "n[1-2]", "--rounds", "0"), "0 is not in the range"),
        (("-w", "n[1-2]", "--rounds", "some"), "some"),
        (("-w", "n[1-2]", "--expect-bandwidth", "9"), "with --bandwidth"),
        (("-w", "n[1-2]", "--across", "1"), "of two rails"),
        (("-w", "n[1-2]", "--host-deadline", "40"), "less than --wait"),
        (("-w", "n[1-2]", "--device", ""), "--device"),
        (("-w", "n[1-2]", "--accept-risk", "any"), "is no reason of preflight"),
        (("-w", "n[1-2]", "--addresses", "/nowhere"), "--addresses /nowhere: No such file"),
        (("-w", "n[1-2]", "--topology", "{odd}"), "names no leaf"),
        (("-w", "n[1-2]", "--addresses", "{odd}"), "is not NODE ADDRESS"),
        (("-w", "n[1-2]", "--addresses", "{port}"), "'a:b' is not ADDRESS"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_started(
    players: Players, rdmadiag: Rdmadiag, tmp_path: Path, argv: tuple[str, ...], said: str
) -> None:
    for name, text in (("odd", "only\n"), ("port", "n1 a:b\n")):
        (tmp_path / name).write_text(text)
    places = {name: str(tmp_path / name) for name in ("odd", "port")}
    found = rdmadiag(*PAIRS, *(each.format(**places) for each in argv))
    assert (found.code, found.out) == (64, "")
    assert said in found.err
    assert players.asked == []


COPIED = """\
import os, sys
node, python, dash_c, text, *rest = sys.argv[1:]
if node == "n3":
    sys.exit(127)
if not rest:
    os.execv(sys.executable, [sys.executable, "-c", text])
size, digest, fed, *words = rest
left = int(size)
while left:
    left -= len(os.read(0, left))
folder = os.environ["FAKE_FLEET"]
os.execv(sys.executable, [sys.executable, folder + "/player.py", node, "copied", fed, *words])
"""


@pytest.mark.slow
def test_a_copy_is_sent_in_each_round_with_its_job_and_who_cannot_run_it_is_left_out(
    players: Players, rdmadiag: Rdmadiag
) -> None:
    (players.fleet.folder / "copied.py").write_text(COPIED)
    start = f'#!/bin/sh\nexec "{sys.executable}" -I -S "$FAKE_FLEET/copied.py" "$@"\n'
    players.fleet.program("player", start)
    found = rdmadiag(*PAIRS, "-w", "n[1-4]", "--copy", "--json", "--rounds", "all")
    assert "with a copy of rdmadiag; at most 75 s each" in found.err
    assert (found.code, found.document["status"]) == (3, "unknown")
    (out,) = found.document["left_out"]
    assert (out["end"], out["round"]) == ("n3", 0)
    assert "no python3 there" in out["why"]
    assert (found.document["odd"], found.document["unreported"]) == ([], [])
    assert len(players.rounds) == 3, "n1, n2 and n4 meet each other"
    for each in players.asked:
        line = len(json.dumps(each["job"])) + 1
        words = ["pingpong", "--allow-rtr", "--json", f"--job={each['node']}"]
        assert each["argv"] == ["copied", str(line), *words]
    text = rdmadiag(*PAIRS, "-w", "n[1-4]", "--copy", "--rounds", "1").out
    assert "n3 in any round: " in text


@pytest.mark.slow
def test_a_copy_that_runs_says_that_there_is_no_such_device_and_leaves_nothing(
    players: Players, rdmadiag: Rdmadiag, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    players.fleet.program("runs", '#!/bin/sh\nshift\nexec "$@"\n')
    way = ("--via", "exec:runs %h", "--copy", "--python", sys.executable)
    argv = ("-w", "n[1-2]", "--json", "--rounds", "1", "--device", "no_such_0", "--busy")
    found = rdmadiag("fleet", "pairs", "--allow-rtr", *way, *argv, "--wait", "5")
    assert found.code == 3
    (out,) = found.document["left_out"]
    assert out["end"] == "n2", "who listens says it; the other one found nobody"
    assert out["why"] == "no RDMA device 'no_such_0'; there are: none"
    assert list(scratch.iterdir()) == []


@pytest.mark.slow
def test_a_history_has_how_each_node_stood_and_what_its_pairs_measured(
    players: Players, rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    players.does("n2", slower=3)
    path = str(tmp_path / "pairs.db")
    found = rdmadiag(*PAIRS, "-w", "n[1-6]", "--json", "--history", path)
    assert found.code == 1
    past = rdmadiag("fleet", "history", "n[1-6]", "--history", path, "--json")
    assert past.code == 1
    nodes = {each["node"]: each for each in past.document["nodes"]}
    statuses = {node: each["status"] for node, each in nodes.items()}
    assert statuses == {f"n{each}": "warn" if each == 2 else "ok" for each in range(1, 7)}
    figures = nodes["n2"]["pairs"][-1]
    assert (figures["failed"], figures["latency_us"]) == (0, pytest.approx(6.0))
    assert figures["tried"] == sum(each["node"] == "n2" for each in players.asked)


def test_what_cannot_be_kept_is_said_once_the_answer_has_been_given(
    players: Players, rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    path = tmp_path / "no.db"
    path.write_text("no database")
    found = rdmadiag(*PAIRS, "-w", "n[1-2]", "--json", "--history", str(path))
    assert (found.code, found.document["status"]) == (74, "ok")
    assert found.err.splitlines()[-1].startswith(f"rdmadiag: --history {path}: ")


def test_ssh_hands_each_node_its_name(players: Players, rdmadiag: Rdmadiag) -> None:
    players.fleet.program("rdmadiag", '#!/bin/sh\nexec player "$NODE" "$@"\n')
    found = rdmadiag("fleet", "pairs", "--allow-rtr", "-w", "n[1-2]", "--rounds", "1", "--json")
    assert found.code == 0
    assert sorted(each["argv"][-1] for each in players.asked) == ["--job=n1", "--job=n2"]


def test_what_nodes_write_on_stderr_is_said_once_where_it_is_asked_for(
    players: Players, rdmadiag: Rdmadiag
) -> None:
    players.fleet.program(
        "player",
        f'#!/bin/sh\necho warning >&2\nexec "{sys.executable}" "$FAKE_FLEET/player.py" "$@"\n',
    )
    argv = (*PAIRS, "-w", "n[1-2]", "--json", "--rounds", "1")
    assert rdmadiag(*argv, "--verbose").err.count("rdmadiag: n[1-2]: warning\n") == 1
    assert "warning" not in rdmadiag(*argv).err


JOB = """#!/bin/sh
# As srun, which starts nothing where a node has left the job, or squeue, which says who is there.
cd "$FAKE_FLEET"
there=$(cat there)
case $0 in *squeue)
  [ "$there" = ended ] && { echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1; }
  echo "$there"; exit;;
esac
printf "%s\\n" "$1" >> log
read -r line
[ -f odd ] && [ $(wc -l < log) = 2 ] && cp odd there && there=$(cat there)
if [ "$1" = "--nodelist=n[1-4]" ] && [ "$there" != "n[1-4]" ]; then
  echo "srun: error: Unable to create step for job 17: Requested node configuration is" \
    "not available" >&2
  exit 1
fi
[ "$there" = ended ] && { echo 'srun: error: Expired or invalid job 17' >&2; exit 1; }
task=0
for number in 1 2 3 4; do
  case $1 in *"[1-4]"*) ;; *$number*) ;; *) continue;; esac
  export SLURMD_NODENAME=n$number
  printf "%s\\n" "$line" | { while [ "$1" != -- ]; do shift; done; shift; "$@"; } |
    sed "s/^/$task: /"
  task=$((task + 1))
done
"""


@pytest.fixture
def in_a_job(players: Players, monkeypatch: pytest.MonkeyPatch) -> Players:
    """Of four nodes; the file `there` has those that it has now, `odd` those from round 2 on."""
    players.fleet.program("rdmadiag", '#!/bin/sh\nexec player "$SLURMD_NODENAME" "$@"\n')
    for name in ("srun", "squeue"):
        players.fleet.program(name, JOB)
    (players.fleet.folder / "there").write_text("n[1-4]")
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-4]")
    return players


@linux
def test_a_node_that_has_left_the_job_is_named_alone_and_the_others_go_on(
    in_a_job: Players, rdmadiag: Rdmadiag
) -> None:
    (in_a_job.fleet.folder / "odd").write_text("n1,n2,n4")
    found = rdmadiag("fleet", "pairs", "--allow-rtr", "--json", "--retests", "0")
    assert found.code == 3
    assert found.document["left_out"] == [
        {"end": "n3", "round": 2, "why": "not reached: no longer a node of job 17"}
    ]
    assert found.document["unplayed"] == 0
    first, second, third, fourth = in_a_job.fleet.log
    assert (first, second) == ("--nodelist=n[1-4]", "--nodelist=n[1-4]")
    assert (third, len(fourth)) == ("--nodelist=n[1-2,4]", len("--nodelist=n[1-2]"))
    assert all(each.startswith("n3:") for each in found.document["unreported"])


@linux
def test_a_job_that_ends_says_nothing_of_its_nodes_and_what_was_found_is_kept(
    in_a_job: Players, rdmadiag: Rdmadiag
) -> None:
    (in_a_job.fleet.folder / "odd").write_text("ended")
    found = rdmadiag("fleet", "pairs", "--allow-rtr", "--json")
    assert (found.code, found.document["unplayed"]) == (3, 2)
    assert (found.document["left_out"], found.document["unreported"]) == ([], [])
    assert len(found.document["matrix"]["cells"]) == 2
    assert found.err.splitlines()[-1] == "rdmadiag: the Slurm job ended in round 2"


@linux
def test_a_job_that_has_ended_before_is_one_line(in_a_job: Players, rdmadiag: Rdmadiag) -> None:
    (in_a_job.fleet.folder / "there").write_text("ended")
    found = rdmadiag("fleet", "pairs", "--allow-rtr")
    assert (found.code, found.out) == (3, "")
    assert found.err.splitlines()[-1] == "rdmadiag: the Slurm job ended in round 1"


@linux
def test_where_squeue_does_not_tell_all_are_named_with_what_srun_said(
    in_a_job: Players, rdmadiag: Rdmadiag
) -> None:
    (in_a_job.fleet.folder / "there").write_text("n1,n2,n4")
    in_a_job.fleet.program("squeue", "#!/bin/sh\necho 'Unable to contact slurm' >&2; exit 1\n")
    found = rdmadiag("fleet", "pairs", "--allow-rtr", "--json")
    whys = {each["end"]: each["why"] for each in found.document["left_out"]}
    why = (
        "not reached: srun: error: Unable to create step for job 17: "
        "Requested node configuration is not available"
    )
    assert whys == dict.fromkeys(("n1", "n2", "n3", "n4"), why)


@linux
def test_within_a_job_one_srun_a_round_hands_the_line_to_all_and_slurm_the_name(
    players: Players, rdmadiag: Rdmadiag, monkeypatch: pytest.MonkeyPatch
) -> None:
    players.fleet.program("rdmadiag", '#!/bin/sh\nexec player "$SLURMD_NODENAME" "$@"\n')
    players.fleet.program(
        "srun",
        '#!/bin/sh\nprintf "%s\\n" "$*" >> "$FAKE_FLEET/log"\nread -r line\n'
        'while [ "$1" != -- ]; do shift; done; shift\n'
        "for task in 0 1 2 3; do\n"
        "  export SLURMD_NODENAME=n$((task + 1))\n"
        '  printf "%s\\n" "$line" | "$@" | sed "s/^/$task: /"\n'
        "done\n",
    )
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-4]")
    found = rdmadiag("fleet", "pairs", "--allow-rtr", "--json", "--fanout", "2")
    assert (found.code, found.document["nodes"]) == (0, 4)
    assert found.err.startswith("rdmadiag: 3 rounds, in each one srun on 4 nodes of job 17;")
    assert len(players.fleet.log) == 3
    assert all("--input=all" in line for line in players.fleet.log)
    assert {each["argv"][-1] for each in players.asked} == {"--job="}


@linux
def test_a_signal_ends_the_run_with_all_it_started(players: Players) -> None:
    for name in ("n1", "n2"):
        players.does(name, sh=f"echo > $FAKE_FLEET/begun-{name}; sh -c 'sleep 60; : {WORD}'")
    program = str(Path(sys.executable).with_name("rdmadiag"))
    child = subprocess.Popen(
        [program, *PAIRS, "-w", "n[1-2]"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 30
    while not all((players.fleet.folder / f"begun-n{each}").exists() for each in (1, 2)):
        assert time.monotonic() < until
        time.sleep(0.05)
    os.kill(child.pid, signal.SIGINT)
    out, err = child.communicate(timeout=30)
    assert (child.returncode, out) == (128 + signal.SIGINT, "")
    assert err.splitlines()[-1] == "rdmadiag: stopped; all that was started here has been ended"
    assert running(WORD) == []
