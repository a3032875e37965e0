"""Writing a host down: every answer noted, folded, and written where it belongs."""

import json
import os
import tarfile

import pytest

from rdmadiag.facts import Identity, Missing, Why
from rdmadiag.host.answers import NodeStat, Ran
from rdmadiag.host.recorded import open_snapshot
from rdmadiag.host.recording import (
    Recording,
    RecordingHost,
    documents,
    write_archive,
    write_folder,
)

WHO = Identity("n7", "linux", "6.1.0", "x86_64")


@pytest.fixture
def recording():
    return Recording()


def meta(recording, late=None):
    return json.loads(documents(recording, WHO, late or {})["meta.json"])


def every_question(host, deadline):
    return {
        "read": host.read("/sys/class/infiniband/mlx5_0/fw_ver"),
        "list": host.list("/sys/class/infiniband"),
        "readlink": host.readlink("/proc/self/ns/net"),
        "stat": host.stat("/dev/infiniband/uverbs0"),
        "can_open": host.can_open("/dev/infiniband/uverbs0"),
        "environ": host.environ(("UCX_TLS",)),
        "netlink": host.netlink("nldev-sys-get", 20, b"", deadline),
        "run": host.run(["ibstat", "-l"], deadline),
        "kernel_log": host.kernel_log(600, ("mlx5",), deadline),
    }


def test_answers_are_passed_on_and_noted(memory_host, soon):
    memory_host.recording.commands["ibstat_-l"] = Ran(0, b"mlx5_0\n", b"")
    recorder = RecordingHost(memory_host)
    assert every_question(recorder, soon) == every_question(memory_host, soon)
    noted = recorder.recording
    assert noted.files == {"/sys/class/infiniband/mlx5_0/fw_ver": b"22.31.1014\n"}
    assert noted.listings == {"/sys/class/infiniband": ("mlx5_0", "mlx5_1")}
    assert noted.links == {"/proc/self/ns/net": "net:[4026531840]"}
    assert list(noted.nodes) == list(noted.openable) == ["/dev/infiniband/uverbs0"]
    assert noted.environ == {"UCX_TLS": "rc"}
    assert list(noted.netlink) == ["nldev-sys-get"]
    assert noted.commands == {"ibstat_-l": Ran(0, b"mlx5_0\n", b"")}
    assert noted.logs == {"kernel": b""}
    assert noted.refused == {}
    assert (recorder.identity, recorder.lacks) == (memory_host.identity, memory_host.lacks)


def test_of_the_kernels_command_line_the_words_of_the_iommu_are_kept(recording, host_in_memory):
    recording.files["/proc/cmdline"] = b"ro root=/dev/sda inst.password=secret iommu=pt\n"
    recorder = RecordingHost(host_in_memory(recording))
    assert recorder.read("/proc/cmdline") == b"iommu=pt\n"
    assert recorder.recording.files == {"/proc/cmdline": b"iommu=pt\n"}


def test_refusals_are_passed_on_and_noted(recording, host_in_memory, soon):
    refused = Missing(Why.DENIED, "environ")
    recording.refuse("environ", "", refused)
    recorder = RecordingHost(host_in_memory(recording))
    answers = every_question(recorder, soon)
    assert all(isinstance(answer, Missing) for answer in answers.values())
    assert recorder.recording.refused == {
        "read": {"/sys/class/infiniband/mlx5_0/fw_ver": answers["read"]},
        "list": {"/sys/class/infiniband": answers["list"]},
        "readlink": {"/proc/self/ns/net": answers["readlink"]},
        "stat": {"/dev/infiniband/uverbs0": answers["stat"]},
        "can_open": {"/dev/infiniband/uverbs0": answers["can_open"]},
        "environ": {"": refused},
        "netlink": {"nldev-sys-get": answers["netlink"]},
        "run": {"ibstat_-l": answers["run"]},
        "log": {"kernel": answers["kernel_log"]},
    }


def test_recordings_of_several_sources_are_joined(recording):
    other = Recording(files={"/a": b"1"}, netlink={"x": b"2"}, environ={"A": "1"})
    other.refuse("read", "/b", Missing(Why.DENIED))
    recording.files["/c"] = b"3"
    recording.refuse("read", "/d", Missing(Why.ABSENT))
    recording.add(other)
    assert recording.files == {"/a": b"1", "/c": b"3"}
    assert recording.refused == {"read": {"/b": Missing(Why.DENIED), "/d": Missing(Why.ABSENT)}}
    assert (recording.netlink, recording.environ) == ({"x": b"2"}, {"A": "1"})


def test_files_and_replies_are_written_where_the_format_says(recording):
    recording.files["/sys/class/x"] = b"1\n"
    recording.netlink["nldev-get"] = b"\1"
    recording.commands["ibstat_-l"] = Ran(3, b"out", b"err")
    files = documents(recording, WHO, {})
    assert {name: content for name, content in files.items() if name != "meta.json"} == {
        "root/sys/class/x": b"1\n",
        "netlink/nldev-get.bin": b"\1",
        "cmd/ibstat_-l.out": b"out",
        "cmd/ibstat_-l.err": b"err",
    }
    assert meta(recording)["runs"] == {"ibstat_-l": 3}


def test_meta_json_says_which_host_and_what_was_refused(recording):
    recording.refuse("read", "/a", Missing(Why.UNSUPPORTED, "/a: EINVAL"))
    recording.nodes["/dev/x"] = NodeStat(8630, 0, 7, "231:192")
    found = meta(recording, {"nldev": Missing(Why.TIMEOUT, "late")})
    assert (found["format"], found["version"]) == ("rdmadiag-snapshot", 1)
    assert found["identity"] == {
        "hostname": "n7",
        "platform": "linux",
        "kernel": "6.1.0",
        "machine": "x86_64",
    }
    assert found["refused"] == {"read": {"/a": {"why": "unsupported", "detail": "/a: EINVAL"}}}
    assert found["lacks"] == {"nldev": {"why": "timeout", "detail": "late"}}
    assert found["nodes"]["/dev/x"] == {"mode": 8630, "uid": 0, "gid": 7, "dev": "231:192"}


def test_empty_rows_of_a_gid_table_are_written_once(recording):
    empty = b"0000:0000:0000:0000:0000:0000:0000:0000\n"
    folder = "/sys/class/infiniband/x/ports/1/gids"
    for index in range(256):
        recording.files[f"{folder}/{index}"] = empty
    recording.files[f"{folder}/3"] = b"fe80::1\n"
    files = documents(recording, WHO, {})
    assert set(files) == {"meta.json", f"root{folder}/3"}
    assert meta(recording)["repeated"] == [
        {"content": empty.decode(), "folder": folder, "names": "0-2,4-255"}
    ]


def test_a_content_that_is_not_ascii_is_never_folded(recording):
    for index in range(20):
        recording.files[f"/x/{index}"] = b"\xff"
    assert meta(recording)["repeated"] == []
    assert len(documents(recording, WHO, {})) == 21


@pytest.mark.parametrize(
    "path", ["/etc/../../../tmp/x", "/../x", "/etc/./x", "/sys//x"], ids=lambda path: path
)
def test_no_path_is_written_outside_of_the_root(recording, path, tmp_path):
    recording.files[path] = b"content"
    files = documents(recording, WHO, {})
    (name,) = set(files) - {"meta.json"}
    assert name == f"root{os.path.normpath(path)}"
    write_folder(files, str(tmp_path / "snapshot"))
    assert os.listdir(tmp_path) == ["snapshot"]


def test_a_folder_that_is_not_empty_is_left_alone(recording, tmp_path):
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(FileExistsError, match="folder is not empty"):
        write_folder(documents(recording, WHO, {}), str(tmp_path))
    assert os.listdir(tmp_path) == ["mine"]


def test_an_archive_that_is_there_is_left_alone(recording, tmp_path):
    (tmp_path / "x.tar.gz").write_text("mine")
    with pytest.raises(FileExistsError):
        write_archive(documents(recording, WHO, {}), str(tmp_path / "x.tar.gz"))
    assert (tmp_path / "x.tar.gz").read_text() == "mine"


def test_an_archive_holds_plain_files_that_its_user_alone_may_read(recording, tmp_path):
    recording.files["/sys/x"] = b"1\n"
    write_archive(documents(recording, WHO, {}), str(tmp_path / "x.tar.gz"))
    with tarfile.open(tmp_path / "x.tar.gz") as archive:
        members = archive.getmembers()
    assert [member.name for member in members] == ["meta.json", "root/sys/x"]
    assert all(member.isreg() and member.mode == 0o600 for member in members)


def test_text_beyond_ascii_survives(recording, tmp_path):
    recording.environ["UCX_X"] = "Zürich \N{SNOWMAN}"
    recording.files["/sys/Zürich"] = b"1"
    write_archive(documents(recording, WHO, {}), str(tmp_path / "x.tar.gz"))
    host = open_snapshot(str(tmp_path / "x.tar.gz"))
    assert host.environ(("UCX_X",)) == {"UCX_X": "Zürich \N{SNOWMAN}"}
    assert host.read("/sys/Zürich") == b"1"
