"""Runs every source on a recording host and joins what they saw."""

from collections.abc import Callable, Collection

from rdmadiag.facts import Missing
from rdmadiag.host import Host
from rdmadiag.isolation import SideBySide
from rdmadiag.preflight.gather import (
    READERS,
    Depth,
    hand_over,
    in_order,
    sources_of,
    unavailable,
)
from rdmadiag.snapshot.recording import Recording, RecordingHost


def record(
    host: Host, deadline: float, waiting_for: Callable[[Collection[str]], None] | None = None
) -> tuple[Recording, dict[str, Missing]]:
    """What `host` answers to every source of its system, and the ones that gave nothing.

    `deadline` is absolute on `time.monotonic`'s clock.
    """
    lacking = unavailable(host)
    whole = Recording()
    late = dict(lacking)
    own = (name for name in sources_of(host.identity.platform) if name not in lacking)
    for group, limit in in_order(own, deadline):
        running = SideBySide()
        for name in group:
            running.start(name, _recorded(name, host, hand_over(limit)))
        for name, answer in running.collect(limit, waiting_for).items():
            if isinstance(answer, Missing):
                late[name] = answer
            else:
                whole.add(answer)
    return whole, late


def _recorded(name: str, host: Host, deadline: float) -> Callable[[], Recording]:
    def task() -> Recording:
        recording = RecordingHost(host)
        READERS[name](recording, deadline, Depth())
        return recording.recording

    return task
