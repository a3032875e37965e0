"""One run of `watch`: what the sources say, numbered and timed, into the ring, to a command and to
whoever looks."""

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rdmadiag.cli import exits
from rdmadiag.facts import Missing
from rdmadiag.host import Host
from rdmadiag.host.notifications import Got, Listener, Lost, Subscription
from rdmadiag.sources.notifications import Joined, listen
from rdmadiag.watch import asynchronous, devlink, kernel, rdma, route, uevent
from rdmadiag.watch.event import (
    NOTHING,
    Action,
    Event,
    Happened,
    Kind,
    Source,
    Value,
    utc,
)
from rdmadiag.watch.ring import Encoded, encode, encode_line, last_event, text
from rdmadiag.watch.span import LAST_ALIVE, UNHEARD

if TYPE_CHECKING:
    from rdmadiag.cli.traffic import Sampled
    from rdmadiag.host.on_change import OnChange
    from rdmadiag.host.ring_file import RingFile

ALIVE: Final = 10.0  # seconds between signs of life in the ring
JOIN: Final = 5.0  # seconds for what is queried before listening
_COMMAND_TICK: Final = 0.05  # seconds; while a command runs, until it is looked at again
GRACE: Final = 15.0
"""Seconds from when it is to end, or from a signal, until it ends though somebody holds it up:
whoever reads its output does not, or a disk does not answer."""

_DRAIN: Final = 5.0  # seconds for what is still there at the end


class Run:
    """`show` gets the events that came together, each with its JSON; `tick` is called before each
    wait, and says when it is to be called again."""

    def __init__(
        self,
        host: Host,
        wanted: Sequence[Source],
        show: Callable[[Sequence[Encoded]], None],
        tick: Callable[[], float | None],
        ring: "RingFile | None" = None,
        command: "OnChange | None" = None,
        handed: Callable[[Encoded], bytes] | None = None,
        sampled: "Sampled | None" = None,
        more: Sequence[Subscription] = (),
    ) -> None:
        self._host, self._wanted = host, wanted
        self._show, self._tick = show, tick
        self._ring, self._command, self._handed, self._sampled = ring, command, handed, sampled
        self._more = tuple(more)
        self._links = route.Links()
        self._number = 0
        self._kernel_number: int | None = None
        self._missing: dict[str, Missing] = {}
        self._left_out = 0
        self.events = 0  # of the kernel
        self.lost = 0  # times that something was lost
        self.nothing_heard = False
        self.ring_error: OSError | None = None

    # --- what happened, understood ---------------------------------------------------------

    def _understood(self, got: Got) -> Sequence[Happened]:
        content = got.content
        if isinstance(content, Lost):
            self.lost += 1
            return (_loss(got.source, content.why),)
        if got.source == Source.ROUTE:
            return route.parse_notifications(content, self._links)
        if got.source == Source.RDMA:
            return rdma.parse_monitor(content)
        if got.source == Source.DEVLINK:
            return devlink.parse_devlink(content)
        if got.source == Source.UEVENT:
            found = uevent.parse_uevent(content)
            return () if found is None else (found,)
        if got.source == Source.ASYNC:
            return (asynchronous.parse_async(content),)
        return self._logged(content)

    def _logged(self, record: bytes) -> Sequence[Happened]:
        found = kernel.parse_record(record)
        if found is None:
            return (route.unreadable(Source.KERNEL, f"no record of the log: {record[:60]!r}"),)
        number, line = found
        before, self._kernel_number = self._kernel_number, number
        events = [] if line is None else [line]
        if before is not None and number > before + 1:
            self.lost += 1
            why = f"{number - before - 1} lines of the kernel's log were overwritten unread"
            events.insert(0, _loss(Source.KERNEL, why))
        return events

    # --- what becomes of an event --------------------------------------------------------------

    def _pass_on(self, happened: Sequence[Happened]) -> None:
        if not happened:
            return
        now = time.time()
        encoded = []
        for each in happened:
            self._number += 1
            event = Event(self._number, now, each)
            encoded.append(Encoded(event, text(event)))
        if self._ring is not None:
            try:
                self._ring.append([encode_line(each.text) for each in encoded])
            except OSError as error:
                self.ring_error = error
        if self._command and self._handed:
            for one in encoded:
                if one.event.happened.source not in _NOT_HANDED:
                    self._command.hand_over(one.event.number, self._handed(one))
        self._show(encoded)

    def _of_run(self, action: Action, **details: Value) -> Happened:
        unheard: dict[str, Value] = {
            f"{UNHEARD}{name}": str(why)
            for name, why in self._missing.items()
            if name in self._wanted
        }
        about = {**details, **(unheard if action is not Action.ENDED else {})}
        return Happened(
            Source.WATCH, Kind.WATCH, action, self._host.identity.hostname, about, NOTHING
        )

    def _alive(self) -> None:
        if self._ring is None:
            return
        happened = self._of_run(Action.NOTIFIED)
        try:
            self._ring.say_alive(encode(Event(self._number, time.time(), happened)))
        except OSError as error:
            self.ring_error = error

    # --- the run ---------------------------------------------------------------------------

    def until(self, end: float | None) -> str:
        """Listens until `end` of time.monotonic's clock, or SIGINT, SIGTERM; why it ended."""
        grace = GRACE + (self._command.seconds if self._command else 0.0)
        with _signals(end, grace) as (woken, ended_by):
            joined = listen(self._host, self._wanted, self._links, time.monotonic() + JOIN)
            joined = replace(joined, sources=(*joined.sources, *self._more))
            self._missing = joined.missing
            self.nothing_heard = not joined.sources
            listener = Listener(joined.sources, (woken.fileno(),))
            try:
                self._begin(joined)
                why = self.why_nothing()
                if joined.sources:
                    why = self._listen(listener, end, ended_by)
                self._drain(listener)
            finally:
                listener.close()
            self._finish_command()
            self._pass_on(
                (self._of_run(Action.ENDED, why=why, events=self.events, lost=self.lost),)
            )
            return why

    def why_nothing(self) -> str:
        """Why each source that is wanted is not listened to."""
        missing = self._missing.items()
        return "; ".join(f"{name}: {why}" for name, why in missing if name in self._wanted)

    def _begin(self, joined: Joined) -> None:
        before = last_event(self._ring.last_alive) if self._ring else None
        names = ",".join(each.name for each in joined.sources)
        details: dict[str, Value] = {"heard": names, "kernel": self._host.identity.kernel}
        if before is not None:
            details[LAST_ALIVE] = utc(before.time)
        self._pass_on((self._of_run(Action.BEGAN, **details),))
        self._alive()

    def _listen(
        self, listener: Listener, end: float | None, ended_by: Callable[[], str | None]
    ) -> str:
        alive = time.monotonic() + ALIVE
        while True:
            listener.wait(self._next(alive, end))
            name = ended_by()
            if name is not None:
                return name
            self._take(listener)
            now = time.monotonic()
            if now >= alive:
                self._alive()
                alive = now + ALIVE
            if self._ring and self._ring.due is not None and now >= self._ring.due:
                self._ring.sync()
            self._sample(now)
            self._step_command()
            if end is not None and now >= end:
                return "the time is over"

    def _next(self, alive: float, end: float | None) -> float:
        """When something is to be done though nothing came."""
        times = [alive, end, self._tick(), self._ring.due if self._ring else None]
        times.append(self._sampled.due if self._sampled else None)
        if self._command and self._command.busy:
            times.append(time.monotonic() + _COMMAND_TICK)
        return min(each for each in times if each is not None)

    def _take(self, listener: Listener) -> bool:
        """All that has come together is written together; whether anything had."""
        came = list(listener.take())
        happened = [each for got in came for each in self._understood(got)]
        self.events += len(happened)
        self._pass_on(happened)
        self._join_later(listener, happened)
        return bool(came)

    def _drain(self, listener: Listener) -> None:
        """What is still there at the end; what is more than can be read by then is lost."""
        deadline = time.monotonic() + _DRAIN
        while listener.wait(0) and self._take(listener):
            if time.monotonic() >= deadline:
                self.lost += 1
                self._pass_on(
                    (_loss(Source.WATCH, "it ended before it had read all that had come"),)
                )
                return

    def _join_later(self, listener: Listener, happened: Sequence[Happened]) -> None:
        """What was not there at the start: ib_core, or devlink, has been loaded since."""
        for each in happened:
            if each.kind is not Kind.OBJECT or each.action is not Action.ADDED:
                continue
            source = _COMES_WITH.get((str(each.details.get("subsystem")), each.subject))
            if source in self._wanted and source in self._missing:
                joined = listen(self._host, (source,), self._links, time.monotonic() + JOIN)
                for found in joined.sources:
                    listener.add(found)
                    del self._missing[source]
                    self._pass_on((self._of_run(Action.CHANGED, heard=source),))

    def _sample(self, now: float) -> None:
        if self._sampled and now >= self._sampled.due and not (self._ring and self._ring.busy):
            self._pass_on(self._sampled.take())

    def _step_command(self) -> None:
        if self._command is None:
            return
        self._pass_on(
            [
                _of_command(Action.FAILED, event=each.number, why=each.why)
                for each in self._command.step()
                if each.why is not None
            ]
        )
        count = self._command.left_out - self._left_out
        if count:
            self._left_out = self._command.left_out
            why = f"{count} events were too many for the command"
            self._pass_on((_of_command(Action.LOST, why=why),))

    def _finish_command(self) -> None:
        """What runs may end within its own deadline; what waits is no longer run."""
        if self._command is None:
            return
        self._command.run_no_more()
        while self._command.busy:
            time.sleep(_COMMAND_TICK)
            self._step_command()
        self._step_command()


_NOT_HANDED: Final = (Source.WATCH, Source.COUNTERS)

_COMES_WITH: Final = {
    ("module", "ib_core"): Source.RDMA,
    ("module", "devlink"): Source.DEVLINK,
}


def _loss(source: str, why: str) -> Happened:
    about: dict[str, Value] = {"why": why}
    return Happened(Source(source), Kind.LOSS, Action.LOST, source, about, NOTHING)


def _of_command(action: Action, **about: Value) -> Happened:
    return Happened(Source.WATCH, Kind.COMMAND, action, "--on-change", about, NOTHING)


@contextmanager
def _signals(
    end: float | None, grace: float
) -> Iterator[tuple[socket.socket, Callable[[], str | None]]]:
    """A socket that is readable once SIGINT, SIGTERM or SIGHUP came, and which of them it was.

    `grace` seconds after that, or after `end`, this process ends with the watchdog's code.
    """
    seen: list[int] = []

    def ends(number: int, _: object) -> None:
        seen.append(number)
        signal.setitimer(signal.ITIMER_REAL, grace)

    reader, writer = socket.socketpair()
    reader.setblocking(False)
    writer.setblocking(False)
    before = {
        each: signal.signal(each, ends)
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(each) is not signal.SIG_IGN  # of nohup
    }
    before[signal.SIGALRM] = signal.signal(signal.SIGALRM, lambda *_: os._exit(exits.WATCHDOG))
    if end is not None:
        signal.setitimer(signal.ITIMER_REAL, max(0.0, end - time.monotonic()) + grace)
    wakeup = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    try:
        yield reader, lambda: signal.Signals(seen[0]).name if seen else None
    finally:
        signal.set_wakeup_fd(wakeup)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for each, handler in before.items():
            with suppress(TypeError):  # one that was not set by Python
                signal.signal(each, handler)
        reader.close()
        writer.close()
