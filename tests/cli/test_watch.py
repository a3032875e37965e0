"""rdmadiag watch and explain --ring: forms, ends, exit codes, refusals."""

import json
import signal
import subprocess
import sys
import time

import pytest

from rdmadiag.cli import run, traffic, watching
from rdmadiag.cli.watching import Run
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.job import PortTraffic, TrafficUnit
from rdmadiag.host.live import LiveHost
from rdmadiag.host.notifications import Group, Lost
from rdmadiag.host.recorded import open_snapshot
from rdmadiag.samples import folder
from rdmadiag.sources import notifications
from rdmadiag.sources.notifications import Joined, listen
from rdmadiag.watch.event import Source
from rdmadiag.watch.route import Links
from tests.host.test_notifications import address, pair
from tests.watch.test_sources import uevent

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="of Linux alone")

PROGRAM = (sys.executable, "-m", "rdmadiag")


@pytest.fixture
def wired(monkeypatch):
    """`wired("route", …)`: writers of the sources that the next run listens to."""
    opened = []

    def wire(*names):
        sources, writers = [], {}
        for name in names:
            source, writer = pair()
            source.name = name
            sources.append(source)
            opened.append(writer)
            writers[name] = writer
        missing = {each: Missing(Why.ABSENT, "none") for each in Source if each not in names}
        monkeypatch.setattr(watching, "listen", lambda *_: Joined(tuple(sources), dict(missing)))
        return writers

    yield wire
    for each in opened:
        each.close()


def documents(out):
    return [json.loads(each)["event"] for each in out.splitlines()]


def ran(wanted=tuple(notifications.ALL), seconds=0.2, **parts):
    events = []
    made = Run(LiveHost(), wanted, events.extend, lambda: None, **parts)
    why = made.until(time.monotonic() + seconds)
    return made, why, [each.event.happened for each in events]


def test_events_are_documents_between_a_beginning_and_an_end(wired, capfd):
    writers = wired("route")
    writers["route"].send(address(1))
    assert run(("watch", "--for", "0.2", "--json")) == 0
    began, added, ended = documents(capfd.readouterr().out)
    assert (began["action"], began["details"]["heard"]) == ("began", "route")
    assert (added["kind"], added["subject"]) == ("address", "10.0.1.1/32")
    assert (ended["action"], ended["details"]["events"]) == ("ended", 1)
    assert [each["number"] for each in (began, added, ended)] == [1, 2, 3]


def test_a_pipe_gets_lines_and_stderr_what_is_not_listened_to(wired, capfd):
    wired("route")["route"].send(address(1))
    assert run(("watch", "--for", "0.1", "--source", "route", "--source", "rdma")) == 0
    out, err = capfd.readouterr()
    assert "address 10.0.1.1/32 added: netdev #1" in out
    assert err == "rdmadiag: not listened to: rdma: absent: none\n"


def test_quiet_prints_events_alone_and_with_a_ring_nothing(wired, capfd, tmp_path):
    wired("route")["route"].send(address(1))
    assert run(("watch", "--for", "0.1", "--quiet")) == 0
    out, err = capfd.readouterr()
    assert (out.count("\n"), err) == (1, "")
    wired("route")["route"].send(address(2))
    assert run(("watch", "--for", "0.1", "--quiet", "--ring", str(tmp_path / "ring"))) == 0
    assert capfd.readouterr() == ("", "")
    assert run(("explain", "--ring", str(tmp_path / "ring"), "--before", "0.05", "--json")) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["events"][-1]["action"] == "ended"


def test_a_loss_is_an_event_and_exit_3(wired, capfd, monkeypatch):
    wired("route")
    answers = [Lost("ENOBUFS")]
    monkeypatch.setattr(Group, "read", lambda self: answers.pop() if answers else None)
    monkeypatch.setattr(watching.Listener, "wait", lambda self, deadline: _ready(self))
    assert run(("watch", "--for", "0.1", "--json")) == 3
    losses = [each for each in documents(capfd.readouterr().out) if each["kind"] == "loss"]
    assert [each["details"]["why"] for each in losses] == ["ENOBUFS"]


def _ready(listener):
    time.sleep(0.01)
    listener._ready = list(listener._sources)
    return True


def test_lines_of_the_kernels_log_that_were_overwritten_are_counted(wired):
    writers = wired("kernel")
    for number in (5, 6, 9):
        writers["kernel"].send(b"6,%d,1,-;infiniband x\n" % number)
    writers["kernel"].send(b"nonsense")
    made, _, events = ran()
    said = [(each.kind, each.details.get("why")) for each in events[1:-1]]
    assert said == [
        ("line", None),
        ("line", None),
        ("loss", "2 lines of the kernel's log were overwritten unread"),
        ("line", None),
        ("unreadable", "no record of the log: b'nonsense'"),
    ]
    assert made.lost == 1


def test_each_source_has_its_parser(wired):
    writers = wired("uevent", "rdma", "devlink")
    writers["uevent"].send(uevent())
    writers["uevent"].send(uevent(SUBSYSTEM="block"))
    writers["rdma"].send(b"\1")
    writers["devlink"].send(b"\1")
    _, why, events = ran()
    assert why == "the time is over"
    assert sorted((each.source, each.kind) for each in events[1:-1]) == [
        ("devlink", "unreadable"),
        ("rdma", "unreadable"),
        ("uevent", "object"),
    ]


def test_an_end_before_all_that_had_come_was_read_is_a_loss(wired, monkeypatch):
    writers = wired("route")
    for number in range(200):
        writers["route"].send(address(number))
    monkeypatch.setattr(watching, "_DRAIN", 0.0)
    monkeypatch.setattr("rdmadiag.host.notifications._BATCH", 50)
    made, _, events = ran(seconds=0.0)
    assert [each.kind for each in events].count("address") == 100
    assert (made.lost, events[-2].kind) == (1, "loss")


def test_a_module_that_is_loaded_later_is_listened_to_then(wired, monkeypatch):
    writers = wired("uevent")
    later, writer = pair()
    later.name = "rdma"
    first = watching.listen
    asked = []

    def listen_again(host, wanted, links, deadline):
        asked.append(tuple(wanted))
        return first(host, wanted, links, deadline) if len(asked) == 1 else Joined((later,), {})

    monkeypatch.setattr(watching, "listen", listen_again)
    loaded = uevent(path="/module/ib_core", SUBSYSTEM="module")
    writers["uevent"].send(loaded)
    writers["uevent"].send(loaded)
    writer.send(b"\1")
    _, _, events = ran()
    assert asked[1:] == [("rdma",)]
    assert ("watch", "changed") in [(each.kind, each.action) for each in events]
    assert ("rdma", "unreadable") in [(each.source, each.kind) for each in events]
    writer.close()


def test_nothing_to_listen_to_is_said_and_exit_3(wired, capfd):
    wired()
    assert run(("watch", "--json", "--source", "rdma")) == 3
    out, err = capfd.readouterr()
    assert err == "rdmadiag: nothing can be listened to: rdma: absent: none\n"
    assert [json.loads(each).keys() & {"event", "error"} for each in out.splitlines()] == [
        {"event"}, {"event"}, {"error"},
    ]  # fmt: skip


def test_the_command_gets_each_event_of_the_host(wired, tmp_path, capfd):
    out = tmp_path / "out"
    encoded = tmp_path / "encoded"
    encoded.write_text(f"#!/bin/sh\ncat >> {out}\n")
    encoded.chmod(0o755)
    wired("route")["route"].send(address(7))
    assert run(("watch", "--for", "1", "--json", "--on-change", str(encoded))) == 0
    (given,) = out.read_text().splitlines()
    assert json.loads(given)["event"] in documents(capfd.readouterr().out)


def test_a_command_that_fails_or_is_left_behind_is_an_event(wired, monkeypatch):
    from rdmadiag.host import on_change

    monkeypatch.setattr(on_change, "WAITING", 1)
    writers = wired("route")
    for number in range(3):
        writers["route"].send(address(number))
    command = on_change.OnChange(["/bin/false"], 5)
    _, _, events = ran(seconds=0.6, command=command, handed=lambda event: b"")
    said = [each.details["why"] for each in events if each.kind == "command"]
    assert sorted(said) == ["2 events were too many for the command", "exit code 1"]


def test_a_command_that_runs_at_the_end_is_waited_for(wired, tmp_path):
    from rdmadiag.host.on_change import OnChange

    mark = tmp_path / "mark"
    encoded = tmp_path / "encoded"
    encoded.write_text(f"#!/bin/sh\nsleep 0.3; touch {mark}\n")
    encoded.chmod(0o755)
    wired("route")["route"].send(address(1))
    ran(seconds=0.1, command=OnChange([str(encoded)], 10), handed=lambda event: b"")
    assert mark.exists()


def test_what_waits_for_the_command_at_the_end_is_counted(wired):
    from rdmadiag.host.on_change import OnChange

    writers = wired("route")
    for number in range(5):
        writers["route"].send(address(number))
    command = OnChange(["/bin/sleep", "0.2"], 10)
    _, _, events = ran(seconds=0.0, command=command, handed=lambda event: b"")
    assert [each.details["why"] for each in events if each.kind == "command"] == [
        "4 events were too many for the command"
    ]
    assert events[-1].action == "ended"


def test_at_the_end_what_is_not_followed_hides_nothing_behind_it(wired, monkeypatch):
    writers = wired("kernel")
    monkeypatch.setattr("rdmadiag.host.notifications._BATCH", 10)
    for number in range(40):
        writers["kernel"].send(b"6,%d,1,-;usb x\n" % number)
    writers["kernel"].send(b"6,40,1,-;infiniband x\n")
    _, _, events = ran(seconds=0.0)
    assert [each.kind for each in events] == ["watch", "line", "watch"]


def test_a_ring_that_cannot_be_written_is_exit_74(wired, monkeypatch, capfd, tmp_path):
    from rdmadiag.host.ring_file import RingFile

    def full(self, records):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RingFile, "append", full)
    wired("route")
    assert run(("watch", "--for", "0", "--ring", str(tmp_path / "ring"))) == 74
    assert f"--ring {tmp_path / 'ring'}: No space left" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--on-change", "'"), "--on-change"),
        (("--on-change", " "), "names no command"),
        (("--on-change", "nosuchcmd --now"), "--on-change nosuchcmd: there is no such command"),
        (("--on-change", "/etc/passwd"), "--on-change /etc/passwd: there is no such command"),
        (("--ring-size", "0"), "--ring-size"),
        (("--counters", "0.1"), "--counters"),
        (("--source", "martian"), "--source"),
        (("--ring", "/proc/1"), "--ring /proc/1"),
    ],
)
def test_what_cannot_be_done_is_refused(options, said, capfd):
    assert run(("watch", "--for", "0", *options)) in (64, 77)
    assert said in capfd.readouterr().err


def test_a_command_that_is_not_there_is_one_line_before_anything_is_listened_to(capfd, tmp_path):
    ring = tmp_path / "ring"
    assert run(("watch", "--ring", str(ring), "--on-change", "nosuchcmd")) == 64
    out, err = capfd.readouterr()
    assert (out, err.count("\n"), ring.exists()) == ("", 1, False)


def test_another_system_is_told_so(monkeypatch, capfd):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert run(("watch",)) == 3
    assert "Linux" in capfd.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(number, tmp_path):
    ring = tmp_path / "ring"
    with subprocess.Popen(
        (*PROGRAM, "watch", "--json", "--ring", str(ring)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        first = child.stdout.readline()
        child.send_signal(number)
        out, err = child.communicate(timeout=60)
    assert json.loads(first)["event"]["action"] == "began"
    assert child.returncode == 0, err
    assert documents(out.decode())[-1]["details"]["why"] == number.name
    assert (ring / "events.000001").stat().st_mode & 0o777 == 0o600


def test_a_pipe_that_nobody_reads_any_more_ends_it_quietly():
    with subprocess.Popen(
        (*PROGRAM, "watch", "--json", "--for", "30"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        child.stdout.readline()
        child.stdout.close()
        child.send_signal(signal.SIGTERM)  # its end is an event, which nobody takes
        assert child.stderr.read().count(b"bug") == 0
        assert child.wait(60) == 0


HELD_UP = """
import sys, threading
from rdmadiag.__main__ import main
from rdmadiag.cli import watching
from rdmadiag.sources.notifications import Joined
from tests.host.test_notifications import address, pair
watching.GRACE = 0.5
source, writer = pair()
def storm():
    while True:
        writer.send(address(1))
threading.Thread(target=storm, daemon=True).start()
watching.listen = lambda *_: Joined((source,), {})
sys.argv = ["rdmadiag", "watch", "--json", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize("ending", ["signal", "time"])
def test_a_reader_that_does_not_read_holds_up_no_end(ending):
    with subprocess.Popen(
        [sys.executable, "-c", HELD_UP, "--for", "0.5" if ending == "time" else "600"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        child.stdout.read(1)
        if ending == "signal":
            time.sleep(0.3)
            child.send_signal(signal.SIGTERM)
        assert child.wait(60) == 124, child.stderr.read()


# --- what is listened to ---------------------------------------------------------------------


def test_a_host_without_ib_core_is_not_made_to_load_it(monkeypatch):
    def refuse(*arguments):
        raise AssertionError(arguments)

    class Bare(LiveHost):
        def list(self, path):
            return Missing(Why.ABSENT, path)

        netlink = refuse

    joined = listen(Bare(), (Source.RDMA,), Links(), time.monotonic() + 20)
    assert joined.sources == ()
    assert "would load it" in joined.missing["rdma"].detail
    assert joined.missing["route"] == Missing(Why.NOT_COLLECTED, "not asked for")


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (b"", Why.ABSENT),
        (Missing(Why.DENIED, "nldev-sys: EPERM"), Why.DENIED),
    ],
    ids=["an empty reply", "a refusal"],
)
def test_whether_a_kernel_tells_is_asked_first(reply, why):
    class Answering(LiveHost):
        def list(self, path):
            return ()

        def netlink(self, name, protocol, request, deadline):
            return reply

    joined = listen(Answering(), (Source.RDMA, Source.DEVLINK), Links(), time.monotonic() + 20)
    assert joined.missing["rdma"].why is why
    assert isinstance(joined.missing["devlink"], Missing)


def test_the_names_of_netdevs_are_known_from_the_start():
    links = Links()
    joined = listen(LiveHost(), (Source.ROUTE,), links, time.monotonic() + 20)
    if "route" in joined.missing:
        pytest.skip(str(joined.missing["route"]))
    assert "lo" in links.names.values()
    for each in joined.sources:
        each.close()


# --- counters --------------------------------------------------------------------------------


def test_counters_are_sampled_and_a_driver_that_hangs_is_not_asked_again(monkeypatch, wired):
    port = PortTraffic("rxe0", 1, TrafficUnit.PACKETS, 5, Missing(Why.DENIED, "x"), "sent_pkts")
    monkeypatch.setattr(traffic, "traffic", lambda host: (port,))
    sampled = traffic.Sampled(LiveHost(), 0.05)
    wired("route")
    _, _, events = ran(seconds=0.3, sampled=sampled)
    samples = [each for each in events if each.source is Source.COUNTERS]
    assert len(samples) >= 2
    assert samples[0].subject == "rxe0/1"
    assert samples[0].details == {"unit": "packets", "sent": 5, "received": None}
    monkeypatch.setattr(traffic, "WITHIN", 0.05)
    monkeypatch.setattr(traffic, "traffic", lambda host: time.sleep(60))
    (late,) = sampled.take()
    assert (late.action, sampled.due) == ("failed", float("inf"))


def test_the_ports_of_a_record_are_found():
    found = traffic.traffic(open_snapshot(folder("roce-healthy")))
    assert [(each.device, each.port) for each in found] == [("rxe0", 1), ("rxe1", 1)]


# --- explain --ring --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--at", "5"), 64, "--at and --local-routes are for --ring"),
        (("--ring", "/nowhere"), 64, "/nowhere"),
        (("--ring", "/tmp", "--at", "yesterday"), 64, "no time such as"),
        (("--ring", "/tmp", "110"), 64, "--ring excludes"),
        (("--ring", "/tmp", "--sample", "roce-healthy"), 64, "--ring excludes"),
    ],
)
def test_what_cannot_be_explained_is_refused(options, code, said, capfd):
    assert run(("explain", *options)) == code
    assert said in capfd.readouterr().err


def test_a_ring_without_an_event_is_refused(tmp_path, capfd):
    (tmp_path / "alive").write_bytes(b"")
    assert run(("explain", "--ring", str(tmp_path))) == 64
    assert "holds no event" in capfd.readouterr().err


def test_a_moment_that_was_not_watched_is_unknown_and_exit_3(wired, tmp_path, capfd):
    ring = str(tmp_path / "ring")
    wired("route")["route"].send(address(1))
    assert run(("watch", "--for", "0.1", "--ring", ring, "-q")) == 0
    assert run(("explain", "--ring", ring)) == 3
    out = capfd.readouterr().out
    assert out.startswith("UNKNOWN")
    assert "address 10.0.1.1/32 added" in out
    assert run(("explain", "--ring", ring, "--at", "2001-01-01T00:00:00Z")) == 3
