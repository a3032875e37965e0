"""The threads' files have their form, and nothing in them points at a person or a host."""

import re
from collections import Counter
from itertools import chain
from pathlib import Path

import pytest

from rdmadiag.explain.causes import CAUSES
from tests.explain.thread_files import NOISE, NONE, Row, Thread, drawn, parse_thread, read

pytestmark = pytest.mark.once

THREADS = list(read())
ROWS = list(chain.from_iterable(each.rows for each in THREADS))
BASES = ("stated", "inferred", "unresolved")
MOST_LINES = 20

_ADDRESS = re.compile(r"(?<![\w.\-])(\d{1,3}(?:\.\d{1,3}){3})(?![\w\-]|\.\d)")
_ALLOWED = re.compile(
    r"192\.0\.2\.|198\.51\.100\.|203\.0\.113\.|10\.0\.\d+\.|169\.254\.1\.|127\.|255\.|0\.0\.0\.0$"
)
_PERSONAL = re.compile(
    r"[\w.+-]+@[\w-]+\.(?:com|org|net|edu|de|io|gov|fr|cn)\b"  # an e-mail
    r"|/home/\w|/Users/\w"  # a person's folder
    r"|(?<![\w:])(?!(?i:02:00:00:00:00:|ff:ff:))(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}(?![\w:])"
)
_SIX = re.compile(
    r"(?i)(?<![\w:])(?:2[0-9a-f]{3}|f[cd][0-9a-f]{2}):[0-9a-f:]*:[0-9a-f:]*(?![0-9a-f:(])"
)


def strange(text: str) -> list[str]:
    """What has to be replaced: addresses of no example range, e-mails, folders of persons."""
    fours = [each for each in _ADDRESS.findall(text) if not _ALLOWED.match(each)]
    sixes = [each for each in _SIX.findall(text) if not each.lower().startswith("2001:db8")]
    return [*fours, *sixes, *_PERSONAL.findall(text)]


@pytest.mark.parametrize(
    "text",
    [
        "peer 172.16.4.9<3>",
        "localGid ::ffff:11.2.3.4",
        "/home/ada/run.sh",
        "/Users/ada/run",
        "ada@example.com",
        "link 0c:42:a1:03:ec:92 up",
        "gid fd00:1148:9000:5000:4:200:3:ff22",
    ],
)
def test_what_points_at_somebody_is_found(text: str) -> None:
    assert strange(text)


@pytest.mark.parametrize(
    "text",
    [
        "peer 192.0.2.1<3> localGid ::ffff:198.51.100.2",
        "OFED 5.1-2.5.8.0 at 12:34:56, 127.0.0.1",
        "GID: fe:80:00:00:00:00:00:00:00:00:00:00:00:00:00:01",
        "gid 2001:db8:1::2, fe80::1",
        "/path/run.sh 02:00:00:00:00:01",
        "LNet: 2431:0:(o2iblnd_cb.c:3174:kiblnd_check_conns()) Timed out tx",
    ],
)
def test_placeholders_pass(text: str) -> None:
    assert not strange(text)


def test_addresses_and_ids_are_unique() -> None:
    for words in ([each.address for each in THREADS], [each.id for each in ROWS]):
        assert [word for word, times in Counter(words).items() if times > 1] == []


@pytest.mark.parametrize("folder", sorted({each.path.parent.name for each in THREADS}))
def test_each_thread_has_its_form(folder: str) -> None:
    for thread in THREADS:
        if thread.path.parent.name == folder:
            check_thread(thread)


def check_thread(thread: Thread) -> None:
    """Its form, and that of its rows."""
    assert re.fullmatch(r"https://\S+", thread.address), thread.path
    assert re.fullmatch(r"[a-z0-9-]+", thread.stack), thread.path
    assert thread.title.strip(), thread.path
    assert thread.held is drawn(thread.address), thread.path
    assert thread.rows, thread.path
    lines = [line for row in thread.rows for line in row.lines.splitlines() if line.strip()]
    assert 1 <= len(lines) <= MOST_LINES, thread.path
    for row in thread.rows:
        check(row)
    assert strange(thread.title) == [], thread.path


def check(row: Row) -> None:
    """One row's form."""
    assert row.lines.strip(), row.id
    assert row.label in {*CAUSES, NONE, NOISE}, row.id
    assert set(row.also) <= set(CAUSES) - {row.label}, row.id
    assert row.kind in ("", "consequence"), row.id
    if row.label == NOISE:
        assert (row.basis, row.also, row.kind) == ("", (), ""), row.id
        assert row.labels == ()
        assert not row.fails
    else:
        assert row.basis in BASES, row.id
        assert row.fails
    if row.basis == "unresolved":
        assert (row.label, row.cause) == (NONE, ""), row.id
    elif row.label == NONE:
        assert row.cause, f"{row.id}: in words, what it was"
    elif row.label != NOISE:
        assert row.labels[0] == row.label
    assert strange(f"{row.lines}\n{row.cause}\n{row.where}") == [], row.id


def test_about_a_third_is_held_apart() -> None:
    assert not THREADS or 0.2 < sum(each.held for each in THREADS) / len(THREADS) < 0.47


@pytest.mark.parametrize("key", ["rows", "address"])
def test_a_file_without_a_key_is_refused(key: str) -> None:
    whole = {"address": "https://a", "stack": "nccl", "title": "t", "held": False, "rows": []}
    assert parse_thread(Path("x"), dict(whole)).rows == ()
    del whole[key]
    with pytest.raises((KeyError, TypeError)):
        parse_thread(Path("x"), whole)
