"""Reading a recorded host back: links that lead out, damaged files, and nothing of this machine."""

import errno
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from math import inf

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.evidence import LINUX_SOURCES
from rdmadiag.host.answers import NodeStat, Ran
from rdmadiag.host.layout import MAX_ENTRIES, fold_numbers, unfold_numbers
from rdmadiag.host.recorded import open_snapshot
from rdmadiag.host.recording import Recording, documents
from rdmadiag.host.tree import SnapshotError
from rdmadiag.sources.sysfs import read_sysfs

META = {"format": "rdmadiag-snapshot", "version": 1}


@pytest.fixture
def folder(tmp_path):
    """A snapshot's folder, from the files in it and what its meta.json says beside the format."""

    def made(files=None, /, **meta):
        top = tmp_path / "snapshot"
        for name, content in {"meta.json": json.dumps(META | meta), **(files or {})}.items():
            path = top / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return top

    return made


@pytest.fixture
def secret(tmp_path):
    """A file of this machine beside the snapshot."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "state").write_text("4: ACTIVE\n")
    (tmp_path / "secret" / "nldev-get.bin").write_bytes(b"secret")
    return tmp_path / "secret"


# --- which folders are hosts --------------------------------------------------------------


@pytest.mark.parametrize(
    "place",
    ["sys/class/infiniband", "class/infiniband", "host7/sys/class/infiniband"],
    ids=["a folder with sys in it", "a copy of /sys", "one folder that holds the rest"],
)
def test_a_bare_folder_is_a_host_of_sysfs_alone(tmp_path, place):
    port = tmp_path / "bare" / place / "mlx5_0/ports/1"
    port.mkdir(parents=True)
    (port / "state").write_text("4: ACTIVE\n")
    host = open_snapshot(str(tmp_path / "bare"))
    assert host.read("/sys/class/infiniband/mlx5_0/ports/1/state") == b"4: ACTIVE\n"
    assert host.list("/sys/class/infiniband") == ("mlx5_0",)
    assert set(host.lacks) == set(LINUX_SOURCES) - {"sysfs"}
    assert {missing.why for missing in host.lacks.values()} == {Why.NOT_COLLECTED}
    assert (host.identity.hostname, host.identity.recorded) == ("bare", True)


@pytest.mark.parametrize("top", ["", "host7/"], ids=["flat", "in one folder"])
@pytest.mark.parametrize("place", ["sys/class/infiniband", "class/infiniband"])
def test_an_archive_of_a_bare_folder_is_a_host_too(tmp_path, top, place):
    (tmp_path / "state").write_text("4: ACTIVE\n")
    with tarfile.open(tmp_path / "host.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "state", f"{top}{place}/mlx5_0/ports/1/state")
    host = open_snapshot(str(tmp_path / "host.tar.gz"))
    assert host.read("/sys/class/infiniband/mlx5_0/ports/1/state") == b"4: ACTIVE\n"
    assert host.identity.hostname == "host"


def test_a_snapshot_is_known_by_its_meta_json(folder):
    host = open_snapshot(
        str(
            folder(
                {"ABOUT": "A machine.\n", "root/sys/x": "1\n"},
                identity={"hostname": "n7", "platform": "linux", "kernel": "6.1", "machine": "arm"},
            )
        )
    )
    assert host.about == "A machine."
    assert (host.identity.hostname, host.identity.kernel) == ("n7", "6.1")
    assert (host.identity.machine, host.identity.recorded) == ("arm", True)
    assert host.lacks == {}
    assert host.read("/sys/x") == b"1\n"


@pytest.mark.parametrize(
    ("platform", "known"), [("darwin", "darwin"), ("linux", "linux"), ("plan9", "unknown")]
)
def test_a_platform_is_one_of_those_that_are_known(folder, platform, known):
    assert open_snapshot(str(folder(identity={"platform": platform}))).identity.platform == known


@pytest.mark.parametrize("number", [errno.ENOMEM, errno.EMFILE, errno.ENFILE])
def test_a_folder_that_there_is_too_little_to_open_is_not_one_that_is_not_there(
    number, tmp_path, monkeypatch
):
    def refused(path):
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr("rdmadiag.host.recorded.os.scandir", refused)
    with pytest.raises(OSError, match=r"Cannot allocate|Too many open") as raised:
        open_snapshot(str(tmp_path))
    assert raised.value.errno == number


def one_line(path):
    with pytest.raises(SnapshotError) as caught:
        open_snapshot(str(path))
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{path}: ")
    return str(caught.value).removeprefix(f"{path}: ")


def test_a_folder_that_is_no_host_is_refused(tmp_path):
    assert one_line(tmp_path) == (
        "neither a snapshot (no meta.json) nor a folder with sys/class/infiniband"
    )


def test_what_is_not_there_is_refused(tmp_path):
    assert one_line(tmp_path / "nothing") == "no such snapshot"


def test_a_fifo_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    assert one_line(tmp_path / "fifo") == "neither a folder nor a file"


# --- links ---------------------------------------------------------------------------------


def test_links_inside_the_root_are_followed(tmp_path):
    top = tmp_path / "bare"
    real = top / "sys/devices/pci0000:00/0000:08:00.0/infiniband/mlx5_0"
    (real / "ports/1").mkdir(parents=True)
    (real / "ports/1/state").write_text("4: ACTIVE\n")
    (top / "sys/class/infiniband").mkdir(parents=True)
    (top / "sys/class/infiniband/mlx5_0").symlink_to(
        "../../devices/pci0000:00/0000:08:00.0/infiniband/mlx5_0"
    )
    (real / "device").symlink_to("../../../0000:08:00.0")
    (top / "sys/class/infiniband/absolute").symlink_to(f"/{real.relative_to(top)}")
    (real / "fw_ver").symlink_to("/sys/devices/fw")
    (top / "sys/devices/fw").write_text("22.31\n")
    host = open_snapshot(str(top))
    for name in ("mlx5_0", "absolute"):
        base = f"/sys/class/infiniband/{name}"
        assert host.read(f"{base}/ports/1/state") == b"4: ACTIVE\n"
        assert host.read(f"{base}/fw_ver") == b"22.31\n"
        assert host.list(f"{base}/ports") == ("1",)
        assert host.list(f"{base}/device") == ("infiniband",)
        assert host.readlink(f"{base}/device") == "../../../0000:08:00.0"


def test_an_absolute_link_in_a_copy_of_sys_is_followed_inside_it(tmp_path):
    (tmp_path / "bare/devices/x").mkdir(parents=True)
    (tmp_path / "bare/devices/x/state").write_text("4: ACTIVE\n")
    (tmp_path / "bare/class/infiniband").mkdir(parents=True)
    (tmp_path / "bare/class/infiniband/x").symlink_to("/sys/devices/x")
    host = open_snapshot(str(tmp_path / "bare"))
    assert host.read("/sys/class/infiniband/x/state") == b"4: ACTIVE\n"


LEADING_OUT = {
    "a relative link": "../../../../../secret",
    "a relative link that comes back in by name": "../../../../../bare/../secret",
    "a link to the folder above the root": "../../../..",
}


@pytest.mark.parametrize("target", LEADING_OUT.values(), ids=LEADING_OUT)
def test_a_link_that_leads_out_is_refused(tmp_path, secret, target):
    folder = tmp_path / "bare/sys/class/infiniband"
    folder.mkdir(parents=True)
    (folder / "mlx5_0").symlink_to(target)
    (folder / "state").symlink_to(f"{target}/state")
    host = open_snapshot(str(tmp_path / "bare"))
    refused = "a link leads out of the snapshot"
    path = "/sys/class/infiniband/mlx5_0"
    assert host.read(f"{path}/state") == Missing(Why.DENIED, f"{path}/state: {refused}")
    assert host.list(path) == Missing(Why.DENIED, f"{path}: {refused}")
    assert host.readlink(f"{path}/x") == Missing(Why.DENIED, f"{path}/x: {refused}")
    assert host.read("/sys/class/infiniband/state").why is Why.DENIED
    assert host.readlink(path) == target


def test_an_absolute_link_to_a_file_of_this_machine_finds_nothing(tmp_path, secret):
    folder = tmp_path / "bare/sys/class/infiniband"
    folder.mkdir(parents=True)
    (folder / "mlx5_0").symlink_to(secret)
    found = open_snapshot(str(tmp_path / "bare")).read("/sys/class/infiniband/mlx5_0/state")
    assert found == Missing(Why.ABSENT, "/sys/class/infiniband/mlx5_0/state: ENOENT")


@pytest.mark.parametrize("path", ["/../secret/state", "/sys/../../secret/state", "/sys/.."])
def test_dots_in_a_path_do_not_lead_out(tmp_path, secret, path):
    (tmp_path / "bare/sys/class/infiniband").mkdir(parents=True)
    host = open_snapshot(str(tmp_path / "bare"))
    assert isinstance(host.read(path), Missing)
    assert host.read("/secret") == Missing(Why.ABSENT, "/secret: ENOENT")
    assert host.list("/../secret") == Missing(
        Why.DENIED, "/../secret: a link leads out of the snapshot"
    )


@pytest.mark.parametrize("name", ["root", "netlink", "cmd"])
@pytest.mark.parametrize("target", ["/", "../secret", "elsewhere"])
def test_a_snapshot_whose_own_folders_are_links_is_refused(folder, secret, name, target):
    top = folder()
    (top / name).symlink_to(target)
    assert one_line(top) == f"{name} is a link; a snapshot has a folder there"


@pytest.mark.parametrize("name", ["sys", "sys/class", "class"])
def test_a_bare_folder_made_of_links_to_this_machine_is_no_host(tmp_path, name):
    (tmp_path / "outside/class/infiniband").mkdir(parents=True)
    (tmp_path / "outside/infiniband").mkdir(parents=True)
    link = tmp_path / "bare" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / ("outside" if name == "sys" else "outside/class"))
    assert one_line(tmp_path / "bare").startswith("neither a snapshot")


def test_meta_json_and_about_that_are_links_are_not_followed(folder, secret):
    top = folder()
    (top / "ABOUT").symlink_to("../secret/state")
    assert open_snapshot(str(top)).about == ""
    (top / "meta.json").unlink()
    (top / "meta.json").symlink_to("../secret/state")
    assert one_line(top) == "meta.json: /meta.json: ELOOP"


@pytest.mark.parametrize(
    "links",
    [{"a": "a"}, {"a": "b", "b": "a"}, {"a": "x/../a"}, {"a": "a/a"}],
    ids=["to itself", "to each other", "through a folder", "growing"],
)
def test_links_in_a_circle_are_malformed(tmp_path, links):
    folder = tmp_path / "bare/sys/class/infiniband"
    (folder / "x").mkdir(parents=True)
    for name, target in links.items():
        (folder / name).symlink_to(target)
    host = open_snapshot(str(tmp_path / "bare"))
    path = "/sys/class/infiniband/a"
    assert host.list(path) == Missing(Why.MALFORMED, f"{path}: links lead in a circle")
    assert host.read(f"{path}/state").why is Why.MALFORMED


def test_a_link_of_an_archive_without_a_target_leads_nowhere(tmp_path):
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as archive:
        for name in ("sys/class/infiniband/state", "sys/class/infiniband/nowhere"):
            member = tarfile.TarInfo(name)
            member.type = tarfile.SYMTYPE if name.endswith("nowhere") else tarfile.REGTYPE
            archive.addfile(member)
    host = open_snapshot(str(tmp_path / "x.tar.gz"))
    path = "/sys/class/infiniband/nowhere/state"
    assert host.read(path) == Missing(Why.ABSENT, f"{path}: ENOENT")
    assert host.read("/sys/class/infiniband/state") == b""


def test_text_files_stand_for_links_where_git_wrote_them_so(tmp_path):
    top = tmp_path / "bare"
    real = top / "sys/devices/pci0000:40/0000:43:00.0/infiniband/qib0"
    (real / "ports/1").mkdir(parents=True)
    (real / "ports/1/state").write_text("4: ACTIVE\n")
    (real / "fw_ver").write_text("22.31\n")
    (real / "device").write_text("../../../0000:43:00.0")
    (real.parents[1] / "numa_node").write_text("2\n")
    (top / "sys/class/infiniband").mkdir(parents=True)
    (top / "sys/class/infiniband/qib0").write_text(
        "../../devices/pci0000:40/0000:43:00.0/infiniband/qib0\n"
    )
    (top / "sys/class/infiniband/out").write_text("../../../../../../etc")
    (top / "sys/class/infiniband/plain").write_text("just text")
    host = open_snapshot(str(top))
    assert host.read("/sys/class/infiniband/qib0/ports/1/state") == b"4: ACTIVE\n"
    assert host.list("/sys/class/infiniband/qib0/ports") == ("1",)
    assert host.list("/sys/class/infiniband/qib0/device") == ("infiniband", "numa_node")
    assert host.readlink("/sys/class/infiniband/qib0/device") == "../../../0000:43:00.0"
    assert host.read("/sys/class/infiniband/qib0/fw_ver") == b"22.31\n"
    assert host.read("/sys/class/infiniband/qib0/device/numa_node") == b"2\n"
    assert host.list("/sys/class/infiniband/out").why is Why.DENIED
    plain = "/sys/class/infiniband/plain"
    assert host.readlink(plain) == Missing(Why.UNSUPPORTED, f"{plain}: EINVAL")
    assert host.list(plain) == Missing(Why.ABSENT, f"{plain}: ENOTDIR")
    assert host.read(f"{plain}/x") == Missing(Why.ABSENT, f"{plain}/x: ENOTDIR")


def test_a_text_file_too_long_for_a_path_stands_for_no_link(tmp_path):
    folder = tmp_path / "bare/sys/class/infiniband"
    folder.mkdir(parents=True)
    (folder / "long").write_text("../" * 3000)
    host = open_snapshot(str(tmp_path / "bare"))
    assert host.readlink("/sys/class/infiniband/long").why is Why.UNSUPPORTED
    assert host.readlink("/sys/class/infiniband/none").why is Why.ABSENT


# --- bad files ------------------------------------------------------------------------------


def test_bad_files_cost_only_themselves(tmp_path, roce):
    top = tmp_path / "bare"
    roce.write_sysfs(str(top))
    port = top / "sys/class/infiniband/mlx5_0/ports/1"
    healthy = read_sysfs(open_snapshot(str(top)))
    for name in ("state", "phys_state", "rate", "lid", "sm_lid", "link_layer", "cap_mask"):
        (port / name).unlink()
    os.mkfifo(port / "state")
    with (port / "phys_state").open("wb") as sparse:
        sparse.truncate(1 << 30)
    (port / "rate").write_bytes(bytes(range(256)))
    (port / "lid").symlink_to("lid")
    (port / "sm_lid").mkdir()
    (port / "link_layer").symlink_to("/dev/zero")
    (port / "cap_mask").write_bytes(b"0x")
    began = time.monotonic()
    found = read_sysfs(open_snapshot(str(top)))
    assert time.monotonic() - began < 20
    base = "/sys/class/infiniband/mlx5_0/ports/1"
    changed = found.device("mlx5_0").port(1)
    assert changed.state == Missing(Why.MALFORMED, f"{base}/state: not a regular file")
    assert changed.phys_state == Missing(
        Why.MALFORMED, f"{base}/phys_state: longer than 65536 bytes"
    )
    assert changed.rate.why is changed.cap_mask.why is Why.MALFORMED
    assert changed.lid == Missing(Why.MALFORMED, f"{base}/lid: links lead in a circle")
    assert changed.sm_lid == Missing(Why.MALFORMED, f"{base}/sm_lid: not a regular file")
    assert changed.link_layer == Missing(Why.ABSENT, f"{base}/link_layer: ENOENT")
    assert len(changed.gids.entries) == 6
    assert found.device("mlx5_1") == healthy.device("mlx5_1")


def test_a_listing_with_a_name_that_no_file_has_is_no_crash(folder):
    with pytest.raises(SnapshotError, match="damaged"):
        open_snapshot(str(folder(listings={"/sys/class/infiniband": ["mlx5\0"]})))


# --- meta.json -------------------------------------------------------------------------------


def test_what_meta_json_notes_is_answered(folder):
    host = open_snapshot(
        str(
            folder(
                {"cmd/rdma_dev.out": "out", "cmd/rdma_dev.err": "", "netlink/x.bin": b"\1\2"},
                refused={
                    "read": {"/a": {"why": "denied", "detail": "/a: EACCES"}},
                    "list": {"/a": {"why": "denied"}},
                    "readlink": {"/a": {"why": "unsupported", "detail": "/a: EINVAL"}},
                    "stat": {"/a": {"why": "absent"}},
                    "can_open": {"/a": {"why": "absent"}},
                    "netlink": {"y": {"why": "timeout"}},
                    "run": {"ibstat": {"why": "absent"}},
                },
                lacks={"nldev": {"why": "timeout", "detail": "late"}},
                listings={"/sys/class/infiniband": ["b", "a"], "/gids": "0-2,5"},
                links={"/proc/self/ns/net": "net:[1]"},
                nodes={"/dev/x": {"mode": 8630, "uid": 0, "gid": 7, "dev": "231:192"}},
                openable={"/dev/x": False},
                environ={"UCX_TLS": "rc", "RDMAV_X": "1"},
                runs={"rdma_dev": 2},
                repeated=[{"content": "0\n", "folder": "/p/gids", "names": "3-4"}],
            )
        )
    )
    assert host.read("/a") == Missing(Why.DENIED, "/a: EACCES")
    assert host.list("/a") == Missing(Why.DENIED)
    assert host.readlink("/a") == Missing(Why.UNSUPPORTED, "/a: EINVAL")
    assert host.stat("/a") == host.can_open("/a") == Missing(Why.ABSENT)
    assert host.netlink("y", 20, b"", 0) == Missing(Why.TIMEOUT)
    assert host.netlink("x", 20, b"", 0) == b"\1\2"
    assert host.run(["ibstat"], 0) == Missing(Why.ABSENT)
    assert host.run(["rdma", "dev"], 0) == Ran(2, b"out", b"")
    assert host.lacks == {"nldev": Missing(Why.TIMEOUT, "late")}
    assert host.list("/gids") == ("0", "1", "2", "5")
    assert host.readlink("/proc/self/ns/net") == "net:[1]"
    assert host.stat("/dev/x") == NodeStat(8630, 0, 7, "231:192")
    assert host.can_open("/dev/x") is False
    assert host.environ(("UCX_TLS",)) == {"UCX_TLS": "rc"}
    assert (host.read("/p/gids/3"), host.read("/p/gids/4")) == (b"0\n", b"0\n")


@pytest.mark.parametrize(
    "ask",
    [
        lambda host: host.stat("/dev/x"),
        lambda host: host.can_open("/dev/x"),
        lambda host: host.netlink("z", 20, b"", 0),
        lambda host: host.run(["ls"], 0),
    ],
    ids=["stat", "can_open", "netlink", "run"],
)
def test_what_nobody_asked_the_recorded_host_is_not_collected(folder, ask):
    assert ask(open_snapshot(str(folder()))).why is Why.NOT_COLLECTED


def test_a_refused_environment_stays_refused(folder):
    host = open_snapshot(str(folder(refused={"environ": {"": {"why": "denied"}}})))
    assert host.environ(("UCX_",)) == Missing(Why.DENIED)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "meta.json is not JSON"),
        (b"{", "meta.json is not JSON"),
        (b"\xff\xfe", "meta.json is not JSON"),
        (b"[" * 200_000, "meta.json is not JSON"),
        (b"[]", "meta.json is not that of a snapshot"),
        (b"{}", "meta.json is not that of a snapshot"),
        (b'{"format": "rdmadiag-snapshot"}', "snapshot version None is not 1"),
        (b'{"format": "rdmadiag-snapshot", "version": 2}', "snapshot version 2 is not 1"),
    ],
    ids=[
        "nothing",
        "half of an object",
        "no text",
        "brackets without an end",
        "a list",
        "another object",
        "no version",
        "a later version",
    ],
)
def test_a_meta_json_of_no_use_is_refused(folder, content, reason):
    assert one_line(folder({"meta.json": content})).startswith(reason)


@pytest.mark.parametrize("kind", ["fifo", "folder", "huge"])
def test_a_meta_json_that_is_no_readable_file_is_refused(folder, kind):
    top = folder()
    (top / "meta.json").unlink()
    if kind == "fifo":
        os.mkfifo(top / "meta.json")
    elif kind == "folder":
        (top / "meta.json").mkdir()
    else:
        with (top / "meta.json").open("wb") as sparse:
            sparse.truncate(1 << 40)
    assert one_line(top).startswith("meta.json: /meta.json: ")


NODE = {"mode": 8630, "uid": 0, "gid": 0, "dev": "231:192"}
DAMAGED = {
    "an identity that is a list": {"identity": []},
    "a host name that is a number": {"identity": {"hostname": 7}},
    "a source that lacks without a reason": {"lacks": {"nldev": {}}},
    "a source that lacks for a reason of its own": {"lacks": {"nldev": {"why": "mood"}}},
    "sources that lack in a list": {"lacks": ["nldev"]},
    "a refusal in a word": {"refused": {"read": {"/a": "denied"}}},
    "refusals in a list": {"refused": ["read"]},
    "a refusal with a detail that is no text": {
        "refused": {"read": {"/a": {"why": "denied", "detail": {"a": 1}}}}
    },
    "a listing of numbers": {"listings": {"/a": [1, 2]}},
    "a listing that is a number": {"listings": {"/a": 5}},
    "a listing in words": {"listings": {"/a": "many"}},
    "a listing of more rows than any table has": {"listings": {"/a": "0-60000"}},
    "listings of more names than any host has": {
        "listings": {f"/{n}": f"0-{MAX_ENTRIES - 1}" for n in range(11)}
    },
    "ranges that add up": {"listings": {"/a": ",".join(["0-40000"] * 3)}},
    "a link to a number": {"links": {"/a": 1}},
    "a node without a mode": {"nodes": {"/a": {"uid": 0, "gid": 0}}},
    "a node with its mode in words": {"nodes": {"/a": NODE | {"mode": "rw"}}},
    "a node with a mode beyond any": {"nodes": {"/a": NODE | {"mode": 2**70}}},
    "a node with a number for its device": {"nodes": {"/a": NODE | {"dev": 7}}},
    "a node in a list": {"nodes": {"/a": [1]}},
    "openable in words": {"openable": {"/a": "perhaps"}},
    "a variable that is a number": {"environ": {"A": 1}},
    "an exit code in words": {"runs": {"ls": "fine"}},
    "a repeated content without names": {"repeated": [{"content": "x", "folder": "/a"}]},
    "a repeated content that is a number": {
        "repeated": [{"content": 1, "folder": "/a", "names": ["b"]}]
    },
    "repeated contents that are a number": {"repeated": 5},
    "a repeated content in no folder": {
        "repeated": [{"content": "x", "folder": 1, "names": ["b"]}]
    },
    "half of a surrogate pair": {"environ": {"A": "\ud800"}},
    "a name with half of a surrogate pair": {"listings": {"/a": ["\udcff"]}},
    "a NUL": {"links": {"/a": "b\0"}},
}


@pytest.mark.parametrize("meta", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_meta_json_is_refused(folder, meta):
    assert one_line(folder(**meta)).startswith("meta.json is damaged: ")


WHYS = st.sampled_from([*Why, "mood"]).map(str)
LEAF = st.none() | st.booleans() | st.integers() | st.text(max_size=8) | WHYS
JSON = st.recursive(
    LEAF,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["why", "detail", "mode", "uid", "gid", "dev", "read", "/a", "names"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
KEYS = ["identity", "lacks", "refused", "listings", "links", "nodes", "openable", "environ", "runs"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(meta=st.dictionaries(st.sampled_from([*KEYS, "repeated", "version"]), JSON, max_size=6))
def test_any_meta_json_is_a_host_or_one_line(tmp_path, meta):
    (tmp_path / "meta.json").write_text(json.dumps({**META, **meta}))
    try:
        host = open_snapshot(str(tmp_path))
    except SnapshotError:
        return
    for path in ("/a", "/sys/class/infiniband"):
        answers = [host.read(path), host.list(path), host.readlink(path), host.stat(path)]
        assert all(isinstance(each, bytes | str | tuple | NodeStat | Missing) for each in answers)
    assert isinstance(host.can_open("/a"), bool | Missing)
    assert isinstance(host.identity.hostname, str)
    read_sysfs(host)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=80))
def test_any_bytes_for_meta_json_are_refused_in_one_line(tmp_path, content):
    (tmp_path / "meta.json").write_bytes(content)
    with pytest.raises(SnapshotError):
        open_snapshot(str(tmp_path))


@given(st.lists(st.integers(0, 10**8), unique=True, max_size=30))
def test_the_rows_of_a_table_fold_into_ranges_and_back(numbers):
    names = [str(number) for number in numbers]
    folded = fold_numbers(names)
    assert sorted(unfold_numbers(folded)) == sorted(names)
    assert not names or "," not in folded or len(names) > 1


@given(st.lists(st.text(max_size=5), unique=True, max_size=6))
def test_any_names_survive_folding(names):
    assert sorted(unfold_numbers(fold_numbers(names))) == sorted(names)


# --- nothing of the machine that replays --------------------------------------------------------

REPLAY = """
import os, sys, time
from rdmadiag.sources.run import gather
from rdmadiag.host.recorded import open_snapshot
import rdmadiag.sources.netdev, rdmadiag.sources.nldev, tarfile  # loads libraries
import rdmadiag.sources.process, rdmadiag.sources.sysfs
os.access("/marker-begin", os.F_OK)
evidence = gather(open_snapshot(sys.argv[1]), time.monotonic() + 20)
os.access("/marker-end", os.F_OK)
assert evidence.process.netns == "net:[4026531840]", evidence
assert len(evidence.nldev.devices) == 2, evidence
"""

STRACE = ("strace", "-f", "-qq", "-e", "trace=%file,socket,connect")


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
@pytest.mark.parametrize("form", ["folder", "archive"])
def test_a_replay_touches_no_file_of_the_live_machine_and_opens_no_socket(tmp_path, roce, form):
    from rdmadiag.host.recording import write_archive, write_folder

    place = str(tmp_path / "snapshot")
    (write_folder if form == "folder" else write_archive)(roce.snapshot(), place)
    trace = tmp_path / "trace"
    ran = subprocess.run(
        [*STRACE, "-o", trace, sys.executable, "-c", REPLAY, place],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PYTHONPATH": os.pathsep.join(sys.path), "PATH": os.environ["PATH"]},
    )
    if "ptrace" in ran.stderr:
        pytest.skip(f"strace may not trace here: {ran.stderr.splitlines()[0]}")
    assert (ran.returncode, ran.stderr) == (0, "")
    _, _, rest = trace.read_text().partition("/marker-begin")
    calls, _, _ = rest.partition("/marker-end")
    touched = re.findall(r'"(/[^"]*)"', calls)
    ours = ("/sys/", "/dev/", "/proc/", "/etc/", "/run/", "/.dockerenv", "/usr/lib/x86_64")
    # A child's stdin, stdout and stderr: nothing of the machine stands there.
    others = [path for path in touched if path != os.devnull]
    assert [path for path in others if path.startswith(ours)] == []
    assert "socket(" not in calls
    assert [path for path in touched if path.startswith(place)]


def test_answers_do_not_depend_on_the_deadline(roce, save, past):
    host = save(roce.snapshot())
    assert host.netlink("nldev-get", 20, b"", past) == roce.recording().netlink["nldev-get"]


LOST = {
    "root/sys/class/infiniband/mlx5_0/ports/1/state": lambda host, at: host.read(at),
    "netlink/route-getlink.bin": lambda host, at: host.netlink(at, 0, b"", inf),
    "verbs/query.jsonl": lambda host, _: host.verbs(1, inf),
    "log/kernel.txt": lambda host, _: host.kernel_log(1, (), inf),
}


@pytest.mark.parametrize(("lost", "ask"), LOST.items(), ids=LOST)
def test_a_file_that_the_record_has_lost_is_malformed_and_not_absent(roce, save, lost, ask):
    files = roce.snapshot()
    place, _, rest = lost.partition("/")
    subject = f"/{rest}" if place == "root" else rest.partition(".")[0]
    assert not isinstance(ask(save(files, "whole"), subject), Missing)
    del files[lost]
    less = save(files, "less")
    answer = ask(less, subject)
    assert answer.why is Why.MALFORMED
    assert answer.detail.endswith(": not in the snapshot, which lacks 1 file")
    other = less.read("/sys/none")  # perhaps the one that it lacks
    assert other.why is (Why.MALFORMED if place == "root" else Why.ABSENT)


def test_a_command_whose_output_the_record_has_lost_is_malformed(folder):
    top = folder({"cmd/a.out": "1\n"}, runs={"a": 0}, files={"cmd": 2})
    assert open_snapshot(str(top)).run(["a"], inf) == Missing(
        Why.MALFORMED, "a: not in the snapshot, which lacks 1 file"
    )


def test_a_record_of_an_older_version_counts_no_files(roce, save):
    files = roce.snapshot()
    meta = json.loads(files["meta.json"])
    assert meta.pop("files")["netlink"] > 5
    files["meta.json"] = json.dumps(meta).encode()
    del files["netlink/route-getlink.bin"]
    assert save(files).netlink("route-getlink", 0, b"", inf).why is Why.NOT_COLLECTED


def test_an_empty_recording_is_a_host_that_was_asked_nothing(roce, save):
    host = save(documents(Recording(), roce.identity(), {}))
    assert host.list("/sys/class/infiniband") == Missing(
        Why.ABSENT, "/sys/class/infiniband: ENOENT"
    )
    assert host.environ(("A",)) == {}
