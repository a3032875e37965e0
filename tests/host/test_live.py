"""The live machine as a Host: what it reads, and what becomes of files in the way."""

import errno
import os
import stat
import struct
import time

import pytest

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.environment import WITHHELD
from rdmadiag.host import READ_LIMIT, netlink
from rdmadiag.host.answers import NodeStat, Ran, refusal, utf8
from rdmadiag.host.isolation import SideBySide
from rdmadiag.host.live import LiveHost
from rdmadiag.sources.netdev import parse_netdevs
from rdmadiag.sources.nldev_messages import request as nldev_request

NOBODY = 65534


@pytest.fixture
def live():
    return LiveHost()


def as_nobody(task):
    """What `task` gives when an unprivileged user runs it on this machine."""

    def unprivileged():
        os.setgroups([])
        os.setresuid(NOBODY, NOBODY, 0)
        found = task()
        os.setresuid(0, 0, 0)
        return found

    running = SideBySide()
    running.start("nobody", unprivileged)
    return running.collect(time.monotonic() + 20)["nobody"]


def test_it_says_who_it_is(live):
    uname = os.uname()
    assert live.identity.hostname == uname.nodename
    assert live.identity.kernel == uname.release
    assert live.identity.machine == uname.machine
    assert live.identity.platform == uname.sysname.lower()
    assert not live.identity.recorded
    assert live.lacks == {}


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (errno.ENOENT, Why.ABSENT),
        (errno.ENODEV, Why.ABSENT),
        (errno.EACCES, Why.DENIED),
        (errno.EPERM, Why.DENIED),
        (errno.EINVAL, Why.UNSUPPORTED),
        (errno.EOPNOTSUPP, Why.UNSUPPORTED),
        (errno.EPROTONOSUPPORT, Why.UNSUPPORTED),
        (errno.ETIMEDOUT, Why.TIMEOUT),
        (errno.EIO, Why.MALFORMED),
        (errno.ELOOP, Why.MALFORMED),
    ],
    ids=lambda value: errno.errorcode[value] if isinstance(value, int) else f"is {value}",
)
def test_each_refusal_has_its_reason(number, why):
    missing = refusal(OSError(number, os.strerror(number)), "/sys/x")
    assert missing.why is why
    assert missing.detail.startswith("/sys/x: E")


def test_an_error_without_a_number_is_named_by_its_kind():
    assert refusal(TimeoutError("late"), "/x") == Missing(Why.MALFORMED, "/x: TimeoutError")


def test_a_file_is_read_whole(live, tmp_path):
    (tmp_path / "state").write_bytes(b"4: ACTIVE\n")
    assert live.read(f"{tmp_path}/state") == b"4: ACTIVE\n"


def test_an_empty_file_is_no_bytes(live, tmp_path):
    (tmp_path / "fw_ver").touch()
    assert live.read(f"{tmp_path}/fw_ver") == b""


def test_a_file_as_long_as_the_limit_is_read_and_a_longer_one_is_not(live, tmp_path):
    (tmp_path / "file").write_bytes(b"x" * 100)
    assert live.read(f"{tmp_path}/file", 100) == b"x" * 100
    assert live.read(f"{tmp_path}/file", 99) == Missing(
        Why.MALFORMED, f"{tmp_path}/file: longer than 99 bytes"
    )


def test_a_sparse_gigabyte_is_refused_at_once(live, tmp_path):
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 30)
    began = time.monotonic()
    found = live.read(f"{tmp_path}/huge")
    assert found == Missing(Why.MALFORMED, f"{tmp_path}/huge: longer than {READ_LIMIT} bytes")
    assert time.monotonic() - began < 20


def test_a_file_of_proc_is_read_in_as_many_pieces_as_it_comes(live):
    found = live.read("/proc/self/smaps", 1 << 26)
    assert isinstance(found, bytes)
    assert len(found) > 8192  # one read gives a page
    assert b"[stack]" in found


def in_the_way(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "file").write_bytes(b"")


@pytest.mark.parametrize(
    ("name", "why", "detail"),
    [
        ("fifo", Why.MALFORMED, "not a regular file"),
        ("folder", Why.MALFORMED, "not a regular file"),
        ("circle", Why.MALFORMED, "ELOOP"),
        ("dangling", Why.ABSENT, "ENOENT"),
        ("file/state", Why.ABSENT, "ENOTDIR"),
        ("x" * 300, Why.MALFORMED, "ENAMETOOLONG"),
    ],
    ids=[
        "a FIFO that nobody writes to",
        "a folder",
        "a link to itself",
        "a link to nowhere",
        "a file where a folder should be",
        "a name longer than names are",
    ],
)
def test_what_is_no_readable_file_is_missing_with_its_reason(live, tmp_path, name, why, detail):
    in_the_way(tmp_path)
    assert live.read(f"{tmp_path}/{name}") == Missing(why, f"{tmp_path}/{name}: {detail}")


def test_a_socket_and_a_device_are_not_read(live):
    assert live.read("/dev/zero") == Missing(Why.MALFORMED, "/dev/zero: not a regular file")


def test_a_read_that_the_kernel_refuses_is_missing(live):
    found = live.read("/proc/self/mem")
    assert found == Missing(Why.MALFORMED, "/proc/self/mem: EIO")


@pytest.mark.parametrize("question", ["read", "list", "readlink", "stat", "can_open"])
def test_a_path_with_a_nul_in_it_is_missing_to_every_question(live, question):
    assert getattr(live, question)("/sys/\0") == Missing(Why.MALFORMED, r"'/sys/\x00': not a path")


@pytest.mark.parametrize("question", ["read", "list", "readlink", "stat"])
def test_what_is_not_there_is_absent_to_every_question(live, question):
    assert getattr(live, question)("/nowhere/x") == Missing(Why.ABSENT, "/nowhere/x: ENOENT")


def test_a_folder_is_listed_in_order(live, tmp_path):
    for name in ("b", "a", "10", "9"):
        (tmp_path / name).touch()
    assert live.list(str(tmp_path)) == ("10", "9", "a", "b")


def test_a_name_that_is_not_utf8_can_be_printed(live, tmp_path):
    os.close(os.open(os.fsencode(tmp_path) + b"/uverbs\xff", os.O_CREAT))
    assert live.list(str(tmp_path)) == (r"uverbs\xff",)
    assert utf8("Zürich") == "Zürich"


def test_a_link_is_told_as_written(live, tmp_path):
    (tmp_path / "device").symlink_to("../../../0000:08:00.0")
    assert live.readlink(f"{tmp_path}/device") == "../../../0000:08:00.0"
    assert live.readlink(str(tmp_path)) == Missing(Why.UNSUPPORTED, f"{tmp_path}: EINVAL")


def test_a_device_node_is_told_with_its_number(live):
    null = live.stat("/dev/null")
    assert isinstance(null, NodeStat)
    assert null.dev == "1:3"
    assert stat.S_ISCHR(null.mode)


def test_a_plain_file_has_no_device_number(live, tmp_path):
    (tmp_path / "file").touch(0o640)
    found = live.stat(f"{tmp_path}/file")
    assert found == NodeStat(stat.S_IFREG | 0o640, os.getuid(), os.getgid(), None)


def test_whether_a_file_can_be_opened_is_asked_without_opening_it(live, tmp_path):
    os.mkfifo(tmp_path / "node", 0o600)
    assert live.can_open(f"{tmp_path}/node") is True
    assert live.can_open(f"{tmp_path}/none") is False


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_an_unprivileged_user_is_denied_and_told_so():
    live = LiveHost()
    found = as_nobody(
        lambda: [
            str(live.read("/proc/1/environ")),
            str(live.list("/root")),
            str(live.readlink("/proc/1/ns/net")),
            str(live.stat("/root/x")),
            live.can_open("/proc/kmsg"),
        ]
    )
    assert found == [
        "denied: /proc/1/environ: EACCES",
        "denied: /root: EACCES",
        "denied: /proc/1/ns/net: EACCES",
        "denied: /root/x: EACCES",
        False,
    ]


def test_the_environment_is_told_by_name_and_can_be_printed(live, monkeypatch):
    monkeypatch.setitem(os.environ, "UCX_TLS", "rc,\udcff")
    monkeypatch.setitem(os.environ, "UCXX", "no")
    monkeypatch.setitem(os.environ, "RDMAV_FORK_SAFE", "1")
    monkeypatch.setitem(os.environ, "UCX_SECRET_TOKEN", "s3cret")
    found = live.environ(("UCX_*", "UCX_TLS", "RDMAV_FORK_SAFE"))
    assert found["UCX_TLS"] == r"rc,\xff"
    assert found["RDMAV_FORK_SAFE"] == "1"
    assert found["UCX_SECRET_TOKEN"] == WITHHELD
    assert "UCXX" not in found


def test_a_command_is_run(live, soon):
    assert live.run(["echo", "hello"], soon) == Ran(0, b"hello\n", b"")


def test_the_kernel_tells_its_netdevs(live, soon):
    reply = live.netlink("route-getlink", netlink.NETLINK_ROUTE, netlink.GET_LINKS, soon)
    netdevs = parse_netdevs(reply, {})
    assert {netdev.name for netdev in netdevs} == set(os.listdir("/sys/class/net"))
    assert {netdev.name: str(netdev.mtu) for netdev in netdevs} == {
        name: live.read(f"/sys/class/net/{name}/mtu").decode().strip()
        for name in os.listdir("/sys/class/net")
    }


def test_a_netlink_request_after_the_deadline_is_a_timeout(live, past):
    found = live.netlink("route-getlink", 0, netlink.GET_LINKS, past)
    assert found == Missing(
        Why.TIMEOUT, "netlink route-getlink: no complete reply before the deadline"
    )


def test_a_request_that_the_kernel_refuses_is_missing_with_its_reason(live, soon):
    absent = struct.pack("=BxHiII", 0, 0, 2**31 - 1, 0, 0)  # struct ifinfomsg
    request = netlink.request(netlink.RTM_GETLINK, 0, absent)
    found = live.netlink("one-link", netlink.NETLINK_ROUTE, request, soon)
    assert found == Missing(Why.ABSENT, "netlink one-link: ENODEV")


def test_a_request_that_is_no_message_is_missing(live, soon):
    assert live.netlink("nothing", netlink.NETLINK_ROUTE, b"abc", soon) == Missing(
        Why.MALFORMED, "netlink nothing: netlink reply ends inside a header, at byte 0"
    )


def test_a_request_that_could_change_something_is_a_bug_and_never_sent(live, soon):
    with pytest.raises(netlink.NotARead):
        live.netlink("set", netlink.NETLINK_RDMA, nldev_request(2, 0), soon)


# --- attributes of a folder ----------------------------------------------------------------


def test_every_file_of_a_folder_is_read_but_the_spared(tmp_path):
    (tmp_path / "a").write_bytes(b"1\n")
    (tmp_path / "b").write_bytes(b"2\n")
    found = LiveHost().attributes(str(tmp_path), ())
    assert found == {"a": b"1\n", "b": b"2\n"}
    assert LiveHost().attributes(str(tmp_path), ("a",)) == {"b": b"2\n"}


def test_attributes_are_what_list_and_read_give(tmp_path):
    for name in ("symbol_error", "link_downed"):
        (tmp_path / name).write_bytes(name.encode())
    host = LiveHost()
    names = host.list(str(tmp_path))
    assert host.attributes(str(tmp_path), ()) == {n: host.read(f"{tmp_path}/{n}") for n in names}


def test_what_cannot_be_read_in_a_folder_costs_no_other(tmp_path):
    (tmp_path / "count").write_bytes(b"1\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "gone").symlink_to("/nowhere/at/all")
    (tmp_path / "long").write_bytes(b"1" * 5000)
    os.mkfifo(tmp_path / "fifo")  # must not hold us
    found = LiveHost().attributes(str(tmp_path), ())
    assert found["count"] == b"1\n"
    assert found["gone"].why is Why.ABSENT
    assert found["long"].why is Why.MALFORMED
    assert str(tmp_path) in found["long"].detail
    assert isinstance(found["folder"], Missing)
    assert found["fifo"] == b""


@pytest.mark.parametrize(
    ("path", "why"),
    [("/none/there", Why.ABSENT), ("/etc/passwd", Why.ABSENT), ("/a\0b", Why.MALFORMED)],
)
def test_a_folder_that_is_none_is_missing(path, why):
    assert LiveHost().attributes(path, ()).why is why
