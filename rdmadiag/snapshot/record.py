"""Runs every source on a recording host and joins what they saw."""

from collections.abc import Callable
from typing import Any

from rdmadiag.facts import Missing
from rdmadiag.host import Host
from rdmadiag.isolation import SideBySide
from rdmadiag.preflight.gather import READERS, unavailable
from rdmadiag.snapshot.recording import Recording, RecordingHost


def record(host: Host, deadline: float) -> tuple[Recording, dict[str, Missing]]:
    """What `host` answers to every source, and the sources that gave nothing.

    `deadline` is absolute on `time.monotonic`'s clock.
    """
    lacking = unavailable(host)
    running = SideBySide()
    for name, reader in READERS.items():
        if name not in lacking:
            running.start(name, _recorded(reader, host, deadline))
    whole = Recording()
    late = dict(lacking)
    for name, answer in running.collect(deadline).items():
        if isinstance(answer, Missing):
            late[name] = answer
        else:
            whole.add(answer)
    return whole, late


def _recorded(
    reader: Callable[[Host, float], Any], host: Host, deadline: float
) -> Callable[[], Recording]:
    def task() -> Recording:
        recording = RecordingHost(host)
        reader(recording, deadline)
        return recording.recording

    return task
