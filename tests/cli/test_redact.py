"""rdmadiag redact, and snapshot --redact."""

import json
import os
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from rdmadiag.host.ring_file import RingFile
from rdmadiag.watch.event import Action, Event, Happened, Kind, Source, Value
from rdmadiag.watch.ring import encode

# Children that read what a user names: tests/host/test_given_file.py, test_isolation.py.
pytestmark = pytest.mark.usefixtures("in_this_process")

Rdmadiag = Callable[..., "Outcome"]  # type: ignore[name-defined]  # noqa: F821  # tests/cli/conftest.py

SAMPLE = str(Path(__file__).parents[2] / "rdmadiag" / "samples" / "mac-ready")
REPORT = Path(__file__).parents[1] / "redact" / "report.json"
UUID = "BC5DEC53-7E36-4A9A-8459-456EBAB5E501"


def test_a_record_becomes_an_archive_of_its_user_alone(rdmadiag: Rdmadiag, tmp_path: Path) -> None:
    place = tmp_path / "to-share.tar.gz"
    done = rdmadiag("redact", SAMPLE, "--output", str(place))
    assert done.code == 0
    assert "Left in:" in done.out
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    with tarfile.open(place) as archive:
        files = {each.name: archive.extractfile(each).read() for each in archive}  # type: ignore[union-attr]
    assert UUID.encode() not in b"".join(files.values())
    manifest = json.loads(files["meta.json"])["redacted"]
    assert manifest["left_out"] == []
    names = "names of devices and netdevs: en0, en1, en2, lo0, rdma_en1, rdma_en2"
    assert names in manifest["left_in"]
    assert all(line in " ".join(done.out.split()) for line in manifest["left_in"])
    assert max(map(len, done.out.splitlines()[1:])) < 80
    assert rdmadiag("preflight", "--from", str(place)).code == 0
    again = rdmadiag("redact", SAMPLE, "--output", str(place))
    assert (again.code, again.err.count("\n")) == (64, 1)


def test_without_a_place_it_is_beside_us(
    rdmadiag: Rdmadiag, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert rdmadiag("redact", SAMPLE).code == 0
    assert os.listdir() == ["mac-ready-redacted.tar.gz"]


def test_a_snapshot_can_be_redacted_as_it_is_made(rdmadiag: Rdmadiag, tmp_path: Path) -> None:
    place = tmp_path / "record"
    done = rdmadiag("snapshot", "--sample", "mac-ready", "--redact", str(place))
    assert done.code == 0
    assert "Left in:" in done.out
    whole = b"".join(each.read_bytes() for each in place.rglob("*") if each.is_file())
    assert UUID.encode() not in whole
    assert b"/Users/user/" in whole, "a user of this name is nobody"
    assert rdmadiag("snapshot", "--sample", "mac-ready", "--key-file", "k", f"{place}2").code == 64


def test_a_key_file_is_made_once_and_gives_the_same_names(
    rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    key = tmp_path / "site.key"
    made = [rdmadiag("redact", str(REPORT), "--key-file", str(key)).out for _ in range(2)]
    assert made[0] == made[1]
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert rdmadiag("redact", str(REPORT)).out != made[0]
    assert json.loads(made[0])["host"]["hostname"].startswith("host-")


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        ("0" * 64, 0o644, "others than its owner may read it"),
        ("0" * 62, 0o600, "not 64 hexadecimal digits"),
        ("no key", 0o600, "not 64 hexadecimal digits"),
    ],
)
def test_what_is_no_key_is_refused(
    rdmadiag: Rdmadiag, tmp_path: Path, content: str, mode: int, said: str
) -> None:
    key = tmp_path / "key"
    key.write_text(content)
    key.chmod(mode)
    done = rdmadiag("redact", str(REPORT), "--key-file", str(key))
    assert (done.code, done.out) == (64, "")
    assert said in done.err
    assert key.read_text() == content


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("redact", "absent.json"), 64, "No such file"),
        (("redact", "absent"), 64, "no such snapshot"),
        (("redact", str(REPORT), "--key-file", ""), 64, "names no file"),
        (("redact", str(REPORT), "--key-file", "/nowhere/key"), 74, "No such file"),
        (("redact", SAMPLE, "--output", ""), 64, "names no file"),
        (("redact", SAMPLE, "--output", "x.zip"), 64, "not .zip"),
        (("redact", SAMPLE, "--output", "x.tar.xz/"), 64, "not .xz"),
        (("redact", SAMPLE, "--output", "x.TAR.GZ"), 64, "not .GZ"),
        (("snapshot", "--sample", "mac-ready", "--redact", "x.tar"), 64, "not .tar"),
        (("redact",), 64, "Missing argument"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    rdmadiag: Rdmadiag, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = rdmadiag(*arguments)
    assert (done.code, done.out) == (code, "")
    assert said in done.err
    assert done.err.count("\n") == 1 or "Missing argument" in said


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "no JSON"),
        ("[]", "not a document that rdmadiag printed"),
        ('{"schema_version": "1.1", "a": ' + "[" * 300 + "]" * 300 + "}", "deep"),
        ("[" * 100_000, "no JSON"),
    ],
)
def test_a_document_of_others_is_refused(
    rdmadiag: Rdmadiag, tmp_path: Path, content: str, said: str
) -> None:
    (tmp_path / "x.json").write_text(content)
    done = rdmadiag("redact", str(tmp_path / "x.json"))
    assert (done.code, done.out) == (64, "")
    assert said in done.err


def test_a_report_without_names_is_still_one(rdmadiag: Rdmadiag, tmp_path: Path) -> None:
    place = tmp_path / "shared.json"
    done = rdmadiag("redact", str(REPORT), "--output", str(place))
    assert (done.code, done.out) == (0, "")
    assert UUID not in place.read_text()
    assert json.loads(place.read_text())["redacted"]["left_out"] == []
    before = rdmadiag("preflight", "--json", "--from", str(REPORT)).document["verdict"]
    after = rdmadiag("preflight", "--json", "--from", str(place)).document["verdict"]
    assert [each["rule"] for each in before["findings"]] == [
        each["rule"] for each in after["findings"]
    ]
    assert before["status"] == after["status"]


def test_a_part_that_is_not_understood_is_exit_3(rdmadiag: Rdmadiag, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(SAMPLE, tmp_path / "odd")
    (tmp_path / "odd/cmd/rdma_ctl_status.out").write_bytes(b"\xff\xfe")
    done = rdmadiag("redact", str(tmp_path / "odd"), "--output", str(tmp_path / "made"))
    assert done.code == 3
    assert "rdma_ctl_status: not understood" in done.out


# --- what watch --json printed -------------------------------------------------------------------


def event_line(number: int, kind: str, action: str, subject: str, **details: object) -> str:
    event = {"number": number, "time": "2026-11-23T14:02:03Z", "source": "route", "kind": kind}
    event |= {"action": action, "subject": subject, "details": details, "before": {}}
    head = {"schema_version": "1.1", "host": {"hostname": "node7.example.net"}}
    return json.dumps({**head, "event": event}) + "\n"


EVENTS = (
    event_line(1, "watch", "began", "node7.example.net", heard="route"),
    event_line(2, "address", "added", "10.1.2.3/24", netdev="eth0"),
    event_line(3, "link", "changed", "eth0", mac="0c:42:a1:03:00:01", line="node7: down"),
    event_line(4, "neighbour", "added", "10.1.2.9", netdev="eth0", mac="0c:42:a1:03:00:09"),
)


def test_lines_of_watch_stay_lines_with_the_same_pseudonyms(
    rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    (tmp_path / "events.jsonl").write_text("".join(EVENTS))
    place = tmp_path / "to-share.jsonl"
    done = rdmadiag("redact", str(tmp_path / "events.jsonl"), "--output", str(place))
    assert (done.code, done.out) == (0, "")
    assert "Left in:" in done.err
    text = place.read_text()
    found = [json.loads(line) for line in text.splitlines()]
    assert [each["event"]["number"] for each in found] == [1, 2, 3, 4]
    assert found[0]["event"]["subject"] == found[0]["host"]["hostname"]
    assert {each["host"]["hostname"] for each in found} == {found[0]["host"]["hostname"]}
    for name in ("node7", "example", "10.1.2.3", "10.1.2.9", "0c:42:a1:03:00:01", "0c42a1"):
        assert name not in text
    assert found[2]["event"]["subject"] == "eth0"
    assert [each["event"]["details"].get("netdev") for each in found] == [
        None,
        "eth0",
        None,
        "eth0",
    ]
    near = [each["event"]["subject"].rpartition(".")[0] for each in (found[1], found[3])]
    assert near[0] == near[1], "neighbours of one network stay so"
    assert found[0]["redacted"]["left_out"] == []
    assert "redacted" not in found[1]


def test_a_line_that_was_not_written_whole_is_left_out_and_said(
    rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    (tmp_path / "events.json").write_text("".join(EVENTS) + EVENTS[1][:150])
    place = tmp_path / "to-share.jsonl"
    done = rdmadiag("redact", str(tmp_path / "events.json"), "--output", str(place))
    assert (done.code, len(place.read_text().splitlines())) == (3, 4)
    assert "no whole document of rdmadiag: 1" in " ".join(done.err.split())
    (tmp_path / "others.json").write_text('half\n{"a": 1}\n')
    other = rdmadiag("redact", str(tmp_path / "others.json"))
    assert (other.code, other.out, other.err.count("\n")) == (64, "", 1)


# --- a ring of watch ------------------------------------------------------------------------------


@pytest.fixture
def ring(tmp_path: Path) -> Path:
    def event(number: int, kind: Kind, action: Action, subject: str, **details: Value) -> Event:
        source = Source.WATCH if kind is Kind.WATCH else Source.ROUTE
        return Event(number, 1e9 + number, Happened(source, kind, action, subject, details, {}))

    folder = tmp_path / "ring"
    file = RingFile(str(folder), 1 << 20)
    began = event(1, Kind.WATCH, Action.BEGAN, "node7.example.net", heard="route")
    added = event(2, Kind.ADDRESS, Action.ADDED, "10.1.2.3/24", netdev="eth0")
    ended = event(3, Kind.WATCH, Action.ENDED, "node7.example.net", why="SIGTERM", events=1, lost=0)
    file.append([encode(each) for each in (began, added, ended)])
    file.say_alive(encode(began))
    file.close()
    return folder


def test_a_ring_becomes_a_ring_that_says_the_same(
    rdmadiag: Rdmadiag, ring: Path, tmp_path: Path
) -> None:
    place = tmp_path / "to-share"
    done = rdmadiag("redact", str(ring), "--output", str(place))
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"{place}: 3 events. Read it with: rdmadiag explain --ring ")
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert {stat.S_IMODE(each.stat().st_mode) for each in place.iterdir()} == {0o600}
    whole = b"".join(each.read_bytes() for each in place.iterdir())
    assert b"node7" not in whole
    assert b"10.1.2.3" not in whole
    left_in = json.loads((place / "redacted.json").read_text())["left_in"]
    assert "names of devices and netdevs: eth0" in left_in
    before, after = (
        rdmadiag("explain", "--ring", str(each), "--before", "1.5") for each in (ring, place)
    )
    assert (before.code, after.code) == (0, 0)
    assert len(before.out.splitlines()) == len(after.out.splitlines())
    assert "/24 added" in after.out
    again = rdmadiag("redact", str(ring), "--output", str(place))
    assert (again.code, again.err.count("\n")) == (64, 1)


def test_a_ring_is_beside_us_without_a_place_and_never_an_archive(
    rdmadiag: Rdmadiag, ring: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (ring / "events.000001").write_bytes((ring / "events.000001").read_bytes() + b"half")
    done = rdmadiag("redact", "ring")
    assert done.code == 3
    assert "no whole events of this version: 1" in " ".join(done.out.split())
    assert sorted(os.listdir("ring-redacted")) == ["alive", "events.000001", "redacted.json"]
    assert rdmadiag("redact", "ring", "--output", "r.tar.gz").code == 64
