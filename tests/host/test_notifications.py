"""Sockets that have joined a group: bursts, losses, foreign senders, and the end of a log."""

import errno
import os
import socket
import struct
import threading
import time

import pytest

from rdmadiag.facts import Missing, Why
from rdmadiag.host import netlink
from rdmadiag.host.notifications import (
    Got,
    Group,
    KernelLog,
    Listener,
    Lost,
    follow_kernel_log,
    join,
)
from rdmadiag.watch.route import Links, parse_notifications


def soon():
    return time.monotonic() + 5


def pair():
    """A source, and what writes to it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    return Group("route", ours), theirs


def address(number):
    """RTM_NEWADDR of 10.x.y.1/32."""
    raw = bytes([10, number >> 8 & 255, number & 255, 1])
    body = struct.pack("=BBBBI", 2, 32, 0, 0, 1) + netlink.attribute(2, raw)
    return struct.pack("=IHHII", 16 + len(body), 20, 0, 0, 0) + body


class Refusing:
    """A socket whose next reads fail, or give what another process has sent."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.closed = False
        self.reader, self.writer = os.pipe()
        os.write(self.writer, b"x")

    def fileno(self):
        return self.reader

    def recvmsg(self, size):
        if not self.answers:
            raise BlockingIOError
        answer = self.answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    def close(self):
        if not self.closed:
            os.close(self.reader)
            os.close(self.writer)
        self.closed = True


def test_a_storm_is_read_whole_and_in_its_order():
    source, writer = pair()
    count = 5000

    def write():
        for number in range(count):
            writer.send(address(number))

    thread = threading.Thread(target=write)
    thread.start()
    listener = Listener([source])
    found = []
    while len(found) < count and listener.wait(soon()):
        for got in listener.take():
            found += parse_notifications(got.content, Links())
    thread.join()
    writer.close()
    listener.close()
    assert [each.subject for each in found] == [
        f"10.{number >> 8}.{number & 255}.1/32" for number in range(count)
    ]


def test_one_source_that_always_has_more_leaves_the_others_their_turn():
    (busy, writer), (other, others) = pair(), pair()
    other.name = "uevent"
    for _ in range(200):
        writer.send(b"x")
    others.send(b"y")
    listener = Listener([busy, other])
    assert listener.wait(soon())
    assert Got("uevent", b"y") in list(listener.take())
    for each in (writer, others, listener):
        each.close()


def test_a_full_buffer_is_a_loss_and_what_follows_is_read():
    full = OSError(errno.ENOBUFS, "No buffer space available")
    link = Refusing(full, (b"after", [], 0, (0, 1)))
    listener = Listener([Group("route", link)])
    assert listener.wait(soon())
    lost, after = listener.take()
    assert isinstance(lost.content, Lost)
    assert "ENOBUFS" in lost.content.why
    assert after == Got("route", b"after")
    listener.close()
    assert link.closed


def test_a_message_that_was_cut_off_is_a_loss():
    link = Refusing((b"x", [], socket.MSG_TRUNC, (0, 1)))
    assert isinstance(Group("route", link).read(), Lost)
    link.close()


def test_what_another_process_sends_is_not_the_kernels():
    link = Refusing((b"forged", [], 0, (4711, 0)), (b"true", [], 0, (0, 1)))
    group = Group("uevent", link)
    assert (group.read(), group.foreign, group.read()) == (b"true", 1, None)
    link.close()


def test_a_source_that_fails_is_said_and_no_longer_read():
    link = Refusing(OSError(errno.EIO, "Input/output error"))
    listener = Listener([Group("route", link)])
    assert listener.wait(soon())
    ((name, content),) = listener.take()
    assert (name, content) == ("route", Lost("it is no longer read: Input/output error"))
    assert link.closed
    assert not listener.wait(time.monotonic())


def test_a_wait_ends_at_its_deadline_and_when_it_is_woken():
    reader, writer = os.pipe()
    listener = Listener([], (reader,))
    start = time.monotonic()
    assert not listener.wait(start + 0.05)
    os.write(writer, b"x")
    assert listener.wait(soon())
    assert list(listener.take()) == []
    os.close(reader)
    os.close(writer)


def test_a_source_that_comes_later_is_read():
    source, writer = pair()
    listener = Listener([])
    listener.add(source)
    writer.send(b"x")
    assert listener.wait(soon())
    assert list(listener.take()) == [Got("route", b"x")]
    writer.close()
    listener.close()


def test_a_group_of_rtnetlink_is_joined_and_left():
    group = join("route", netlink.NETLINK_ROUTE, (1, 3))
    if isinstance(group, Missing):
        pytest.skip(str(group))
    assert group.read() is None
    group.close()


def test_a_protocol_that_is_not_there_is_missing():
    found = join("none", 31, (1,))
    assert isinstance(found, Missing)
    assert found.detail.startswith("netlink none")


def test_a_group_that_is_not_there_is_missing():
    found = join("route", netlink.NETLINK_ROUTE, (60_000,))
    assert isinstance(found, Missing)
    assert "its group" in found.detail


def test_a_log_is_followed_from_its_end(tmp_path):
    log = tmp_path / "kmsg"
    log.write_bytes(b"before")
    found = follow_kernel_log("kernel", str(log))
    assert isinstance(found, KernelLog)
    with log.open("ab") as file:
        file.write(b"after")
    assert (found.read(), found.read()) == (b"after", None)
    found.close()
    found.close()


def test_a_log_that_may_not_be_read_is_missing(tmp_path):
    assert follow_kernel_log("kernel", str(tmp_path / "none")).why is Why.ABSENT
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert isinstance(follow_kernel_log("kernel", str(fifo)), Missing), "it has no end"


def test_a_record_that_was_overwritten_is_passed_over(monkeypatch, tmp_path):
    log = tmp_path / "kmsg"
    log.write_bytes(b"")
    found = follow_kernel_log("kernel", str(log))
    answers = [BrokenPipeError(), b"6,9,1,-;x\n", BlockingIOError()]

    def read(descriptor, size):
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(os, "read", read)
    assert (found.read(), found.read()) == (b"6,9,1,-;x\n", None)
    found.close()
