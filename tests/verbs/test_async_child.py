"""The child that has devices open for their events: one line an event, and who refused."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rdmadiag.facts import Missing
from rdmadiag.host import async_events
from rdmadiag.host.async_events import AsyncEventsChild, follow_async_events
from rdmadiag.host.notifications import Listener, Lost
from rdmadiag.verbs import async_child, child
from rdmadiag.verbs.abi import IbvContext
from rdmadiag.verbs.async_child import Waiting
from rdmadiag.verbs.lib import CallFailed
from rdmadiag.watch.asynchronous import parse_async
from tests.verbs.conftest import FakeVerbs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="of Linux alone")

SCRIPT = """
device one node_type=1 transport=0
port one 1 state=4 lid=1 gid_tbl_len=1
on ibv_open_device after=1 event=10
"""


@pytest.fixture
def following(
    fake_verbs: Callable[..., FakeVerbs], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., AsyncEventsChild]]:
    """`following(script, DEVICE, …)`: the child with a fake library."""
    started: list[AsyncEventsChild] = []

    def follow(script: str, *devices: str) -> AsyncEventsChild:
        fake = fake_verbs(script)
        for name, value in fake.environ.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setitem(child.LIBRARY, "linux", str(fake.library))
        found = follow_async_events("async", devices)
        assert not isinstance(found, Missing)
        started.append(found)
        return found

    yield follow
    for each in started:
        each.close()


def lines(source: AsyncEventsChild, count: int) -> list[Any]:
    listener, found = Listener([source]), []
    until = time.monotonic() + 30
    while len(found) < count and listener.wait(until):
        found += [each.content for each in listener.take()]
    return found


def test_an_event_of_an_open_device_is_a_line(following: Any) -> None:
    # Of one device opened twice: the second opening brings the first an event.
    source = following(SCRIPT, "one", "one")
    (line,) = lines(source, 1)
    assert json.loads(line) == {"device": "one", "event": 10, "element": 1}
    event = parse_async(line)
    assert (event.subject, event.details["event"]) == ("one/1", "IBV_EVENT_PORT_ERR")


def test_a_device_that_is_not_there_or_refuses_is_said_and_without_any_it_ends(
    following: Any,
) -> None:
    script = SCRIPT + "on ibv_open_device one errno=13\n"
    found = lines(following(script, "two", "one"), 3)
    assert [parse_async(each).details["why"] for each in found[:2]] == [
        "ibv_get_device_list: ENODEV",
        "ibv_open_device: EACCES",
    ]
    assert found[2] == Lost("it is no longer read: its process has ended")


def test_a_library_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(child.LIBRARY, "linux", "/nowhere/libibverbs.so")
    source = follow_async_events("async", ("one",))
    assert isinstance(source, AsyncEventsChild)
    failed, ended = lines(source, 2)
    assert "/nowhere/libibverbs.so" in parse_async(failed).details["why"]
    assert isinstance(ended, Lost)


def test_closing_it_ends_the_child(following: Any) -> None:
    source = following(SCRIPT, "one")
    assert source._child.poll() is None
    source.close()
    assert source._child.poll() is not None


def test_where_no_process_can_be_started_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(async_events.subprocess, "Popen", refuse)
    assert isinstance(follow_async_events("async", ("one",)), Missing)


# --- in this process -------------------------------------------------------------------------


class Library:
    """One device, whose events are bytes in a pipe; `fails`: call → errno."""

    def __init__(self, *events: tuple[int, int], fails: dict[str, int] | None = None) -> None:
        self.reader, self.writer = os.pipe()
        self.events = list(events)
        self.fails = fails or {}
        self.context = IbvContext(async_fd=self.reader)
        os.write(self.writer, bytes(len(events)))

    def call(self, name: str, *arguments: Any) -> Any:
        if name in self.fails:
            raise CallFailed(name, self.fails[name])
        if name == "ibv_get_device_name":
            return b"one"
        if name == "ibv_get_device_list":
            arguments[0]._obj.value = 1
            return [_Pointer()]
        if name == "ibv_open_device":
            import ctypes

            return ctypes.pointer(self.context)
        if name == "ibv_get_async_event":
            if not self.events:
                os.close(self.writer)
                raise CallFailed(name, 5)
            os.read(self.reader, 1)
            arguments[1]._obj.event_type, arguments[1]._obj.element = self.events.pop(0)
            if not self.events:
                os.write(self.writer, b"x")
        return None


class _Pointer:
    class contents:  # noqa: N801  # as ctypes names it
        dev_name = b""


@pytest.fixture
def out() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    os.close(reader)
    os.close(writer)


def written(out: tuple[int, int]) -> list[Any]:
    return [json.loads(line) for line in os.read(out[0], 65536).splitlines()]


def test_events_are_taken_until_the_device_has_gone(out: tuple[int, int]) -> None:
    library = Library((9, 1), (8, 0))
    waiting = Waiting(library, out[1])  # type: ignore[arg-type]
    waiting.open(["one"])
    waiting.run()
    assert written(out) == [
        {"device": "one", "event": 9, "element": 1},
        {"device": "one", "event": 8, "element": 0},
        {"device": "one", "failed": "ibv_get_async_event: EIO"},
    ]
    os.close(library.reader)


@pytest.mark.parametrize("call", ["ibv_get_device_list", "ibv_open_device"])
def test_what_refuses_is_named(call: str, out: tuple[int, int]) -> None:
    waiting = Waiting(Library(fails={call: 12}), out[1])  # type: ignore[arg-type]
    waiting.open(["one"])
    waiting.run()
    assert written(out) == [{"device": "one", "failed": f"{call}: ENOMEM"}]


def test_a_device_without_a_descriptor_is_said(out: tuple[int, int]) -> None:
    library = Library()
    library.context.async_fd = -1
    waiting = Waiting(library, out[1])  # type: ignore[arg-type]
    waiting.open(["one"])
    waiting.run()
    assert written(out)[0]["failed"] == "ibv_get_async_event: EBADF"


def test_a_spurious_wakeup_is_none(out: tuple[int, int]) -> None:
    library = Library(fails={"ibv_get_async_event": 11})
    waiting = Waiting(library, out[1])  # type: ignore[arg-type]
    waiting.open(["one"])
    assert waiting._take("one", library.context)


def test_its_whole_life_without_a_library(
    monkeypatch: pytest.MonkeyPatch, out: tuple[int, int]
) -> None:
    monkeypatch.setattr(sys, "argv", ["x", "/nowhere.so", "one"])
    monkeypatch.setattr(os, "dup", lambda descriptor: out[1])
    monkeypatch.setattr(os, "dup2", lambda *descriptors: 0)
    async_child.main()
    assert "/nowhere.so" in written(out)[0]["failed"]
