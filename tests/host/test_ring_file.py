"""The ring's folder: bounded, for its owner alone, whole after a kill and on a full disk."""

import errno
import os
import resource
import signal
import subprocess
import sys
import time

import pytest

from rdmadiag.host.ring_file import ALIVE, RingFile, open_ring
from rdmadiag.watch.ring import FILES, Torn, decode, encode_line, records

KIB = 1024


def lines(path):
    with open_ring(str(path)) as ring:
        found = [line for content in ring.files() for line in records(content)]
    return [line and line.rstrip(b"\n") for line in found]


def size(path):
    return sum(each.stat().st_size for each in path.iterdir() if each.name != ALIVE)


@pytest.fixture
def ring(tmp_path):
    made = RingFile(str(tmp_path / "ring"), 64 * KIB)
    yield made
    made.close()


def test_folder_and_files_are_their_owners_alone(ring, tmp_path):
    ring.append([encode_line(b"x")])
    ring.say_alive(b"y")
    folder = tmp_path / "ring"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {each.stat().st_mode & 0o777 for each in folder.iterdir()} == {0o600}


def test_what_is_written_is_there_at_once_and_in_its_order(ring, tmp_path):
    ring.append([encode_line(b"%d" % number) for number in range(50)])
    assert lines(tmp_path / "ring") == [b"%d" % number for number in range(50)]


def test_it_takes_no_more_than_it_may_and_the_oldest_goes(ring, tmp_path):
    for number in range(200):
        ring.append(
            [encode_line(b"%06d" % (10 * number + each) + b"x" * 100) for each in range(10)]
        )
        assert size(tmp_path / "ring") <= 64 * KIB
    kept = [int(line[:6]) for line in lines(tmp_path / "ring")]
    assert kept == list(range(kept[0], 2000))
    assert len(list((tmp_path / "ring").iterdir())) == FILES + 1
    assert size(tmp_path / "ring") > 64 * KIB * (FILES - 2) / FILES


def test_each_run_begins_a_file_of_its_own(ring, tmp_path):
    ring.append([encode_line(b"first")])
    ring.say_alive(b"alive")
    ring.close()
    path = tmp_path / "ring"
    with (path / "events.000001").open("ab") as file:
        file.write(encode_line(b"torn")[:-2])
    again = RingFile(str(path), 64 * KIB)
    again.append([encode_line(b"second")])
    again.close()
    assert again.last_alive.rstrip(b"\0") == b"alive"
    assert lines(path) == [b"first", None, b"second"]


def test_two_do_not_write_to_one_ring(ring, tmp_path):
    with pytest.raises(OSError, match="another watch writes to it") as caught:
        RingFile(str(tmp_path / "ring"), KIB)
    assert caught.value.errno == errno.EBUSY


def test_a_folder_that_others_may_write_to_is_refused(tmp_path):
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    with pytest.raises(PermissionError):
        RingFile(str(open_to_all), KIB)


def test_a_link_in_the_place_of_its_folder_is_followed_and_one_of_its_files_is_not(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (tmp_path / "ring").symlink_to(elsewhere)
    (elsewhere / ALIVE).symlink_to("/etc/passwd")
    with pytest.raises(OSError, match=r".+") as caught:
        RingFile(str(tmp_path / "ring"), KIB)
    assert caught.value.errno == errno.ELOOP


def test_a_file_in_the_place_of_its_folder_is_refused(tmp_path):
    (tmp_path / "ring").write_bytes(b"")
    with pytest.raises(OSError, match=r".+"):
        RingFile(str(tmp_path / "ring"), KIB)


KILLED = """
import os, sys
from rdmadiag.host.ring_file import RingFile
from rdmadiag.watch.ring import encode_line
ring = RingFile(sys.argv[1], 1 << 20)
print("ready", flush=True)
number = 0
while True:
    ring.append([encode_line(b"%09d" % (number + each)) for each in range(7)])
    number += 7
"""


def test_a_kill_leaves_whole_records_or_none(tmp_path):
    path = tmp_path / "ring"
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE
    ) as child:
        child.stdout.readline()
        until = time.monotonic() + 20
        while not (path / "events.000001").exists() and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.05)
        child.send_signal(signal.SIGKILL)
    found = lines(path)
    whole = [int(line) for line in found if line is not None]
    assert whole
    assert whole == list(range(whole[0], whole[0] + len(whole)))
    assert None not in found[:-1]


def test_on_a_full_disk_what_was_begun_is_taken_back(ring, tmp_path):
    path = tmp_path / "ring"
    ring.append([encode_line(b"before")])
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(OSError, match=r".+"):
            ring.append([encode_line(b"x" * 500)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    ring.append([encode_line(b"after")])
    assert lines(path) == [b"before", b"after"]


def test_what_was_written_is_sent_to_the_disk_once_a_second(ring):
    assert ring.due is None
    ring.append([encode_line(b"x")])
    assert ring.due is not None
    ring.sync()
    until = time.monotonic() + 20
    while ring.busy and time.monotonic() < until:
        time.sleep(0.001)
    assert (ring.busy, ring.due) == (False, None)


def test_a_disk_that_hangs_holds_up_nothing(monkeypatch, tmp_path):
    hanging = []

    def hang(descriptor):
        hanging.append(descriptor)
        time.sleep(0.5)

    monkeypatch.setattr(os, "fdatasync", hang)
    ring = RingFile(str(tmp_path / "ring"), KIB)
    ring.append([encode_line(b"x")])
    ring.sync()
    ring.append([encode_line(b"y")])
    assert (ring.busy, ring.due) == (True, None)
    ring.sync()
    assert len(hanging) <= 1
    ring.close()


def test_what_is_no_ring_is_refused(tmp_path):
    with pytest.raises(OSError, match="holds no events"), open_ring(str(tmp_path)):
        pass
    with pytest.raises(FileNotFoundError), open_ring(str(tmp_path / "none")):
        pass


def test_strange_files_of_a_folder_are_passed_over(ring, tmp_path):
    path = tmp_path / "ring"
    ring.append([encode_line(b"x")])
    os.mkfifo(path / "events.000007")
    (path / "events.000009").write_bytes(b"nonsense")
    (path / "notes").write_bytes(b"mine")
    with open_ring(str(path)) as found:
        assert list(decode(found.last())) == [Torn.NOT_WHOLE]
        assert list(decode(found.files())) == [Torn.STRANGE, Torn.NOT_WHOLE]
        (path / "events.000009").unlink()
        (path / "events.000001").unlink()
        assert list(found.files()) == []
        assert list(found.last()) == []
