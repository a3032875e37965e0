"""Runs every source on a recording host and joins what they saw."""

from collections.abc import Sequence
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.counters import Wanted
from rdmadiag.host import Host
from rdmadiag.host.in_turn import Waiting
from rdmadiag.host.recording import Recording, RecordingHost
from rdmadiag.sources.run import read, run, sources_of
from rdmadiag.sources.sampling import of_peers, sampled
from rdmadiag.sources.sysfs import CLASS
from rdmadiag.sources.table import BY_NAME, Depth

_MODULES: Final = "modules"


def record(
    host: Host,
    deadline: float,
    excluded: Sequence[str] = (),
    waiting_for: Waiting | None = None,
    *,
    modules: bool = False,
) -> tuple[Recording, dict[str, Missing]]:
    """What `host` answers to every source of its system, and the ones that gave nothing.

    Of `excluded` devices no counter is read; transceivers with `modules` alone. `deadline` is
    absolute on `time.monotonic`'s clock.
    """
    platform = host.identity.platform
    names = (*sources_of(platform), *sampled(platform), *of_peers(platform))
    if modules and (platform, _MODULES) in BY_NAME:
        names += (_MODULES,)
    depth = Depth(wanted=Wanted(excluded=tuple(excluded)))
    whole, late = Recording(), {}
    answers = run(host, names, deadline, depth, waiting_for, through=_recorded)
    for name, answer in answers.items():
        if isinstance(answer, Missing):
            late[name] = answer
        else:
            whole.add(answer)
    _note_excluded(whole, excluded)
    return whole, late


def _recorded(name: str, host: Host, deadline: float, depth: Depth) -> Recording:
    recording = RecordingHost(host)
    read(name, recording, deadline, depth)
    return recording.recording


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
