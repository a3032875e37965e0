"""Runs every source on a recording host and joins what they saw."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.counters import Wanted
from rdmadiag.host import Host
from rdmadiag.in_turn import runner
from rdmadiag.preflight.gather import (
    READERS,
    Depth,
    hand_over,
    in_order,
    sources_of,
    unavailable,
)
from rdmadiag.sampling import recorded_tasks
from rdmadiag.snapshot.recording import Recording, RecordingHost
from rdmadiag.sources.sysfs import CLASS


def record(
    host: Host,
    deadline: float,
    excluded: Sequence[str] = (),
    waiting_for: Callable[[Collection[str]], None] | None = None,
) -> tuple[Recording, dict[str, Missing]]:
    """What `host` answers to every source of its system, and the ones that gave nothing.

    Of `excluded` devices no counter is read. `deadline` is absolute on `time.monotonic`'s clock.
    """
    lacking = unavailable(host)
    whole = Recording()
    late = dict(lacking)
    own = (name for name in sources_of(host.identity.platform) if name not in lacking)
    wanted = Wanted(excluded=tuple(excluded))
    for group, limit in in_order(own, deadline):
        running = runner(can_hang=host.can_hang)
        for name in group:
            running.start(name, _recorded(name, host, hand_over(limit)))
        if not whole.files:  # with the first group
            for name, task in recorded_tasks(host, hand_over(limit), wanted).items():
                if name not in lacking:
                    running.start(name, _noted(host, task))
        for name, answer in running.collect(limit, waiting_for).items():
            if isinstance(answer, Missing):
                late[name] = answer
            else:
                whole.add(answer)
    _note_excluded(whole, excluded)
    return whole, late


def _note_excluded(recording: Recording, excluded: Sequence[str]) -> None:
    """A record says that nobody looked, not that there is nothing."""
    for device in excluded:
        folder = f"{CLASS}/{device}"
        ports = recording.listings.get(f"{folder}/ports", ())
        for place in (folder, *(f"{folder}/ports/{port}" for port in ports)):
            for name in ("counters", "hw_counters"):
                path = f"{place}/{name}"
                recording.refuse(
                    "list", path, Missing(Why.NOT_COLLECTED, f"{path}: excluded from this record")
                )


def _noted(host: Host, task: Callable[[Host], Any]) -> Callable[[], Recording]:
    def noted() -> Recording:
        recording = RecordingHost(host)
        task(recording)
        return recording.recording

    return noted


def _recorded(name: str, host: Host, deadline: float) -> Callable[[], Recording]:
    def task() -> Recording:
        recording = RecordingHost(host)
        READERS[name](recording, deadline, Depth())
        return recording.recording

    return task
