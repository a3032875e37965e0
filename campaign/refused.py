"""Each answer of a recorded host, refused: a file, a folder, a link, a netlink reply.

Where `missing` takes facts away, this takes what they are read from: a source may make something
else of a refusal than a Missing. What is left must give what the whole gave, or unknown. Hosts are
the samples, the recorded machines of the tests, and those of the benchmark of faults.
"""

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from campaign.missing import GRAVER, LOST, ROOT, VERDICT, Removed, broken
from campaign.result import Held, Result
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.evidence import Evidence
from rdmadiag.host import Host
from rdmadiag.host.recorded import open_snapshot
from rdmadiag.host.recording import RecordingHost
from rdmadiag.preflight.judge import judge
from rdmadiag.samples import folder as sample_folder
from rdmadiag.samples import samples
from rdmadiag.sources.record import record
from rdmadiag.sources.run import gather

REASONS: Final = (Why.TIMEOUT, Why.MALFORMED, Why.EXHAUSTED)
"""Denied is left out: what is denied to rdmadiag is denied to the programs that it judges for."""

_STORES: Final = {
    "read": "files",
    "list": "listings",
    "readlink": "links",
    "stat": "nodes",
    "can_open": "openable",
    "netlink": "netlink",
    "run": "commands",
    "verbs": "verbs",
    "log": "logs",
}
_ANSWERS_IN_SHORT: Final = 25
_FAULTS_IN_SHORT: Final = 40


def run(short: bool, seed: int, folder: Path, seconds: float) -> Result:
    """Every answer of every host; in the short form some, of some of the hosts with a fault."""
    began = time.monotonic()
    chance = random.Random(seed)
    violations: dict[str, list[str]] = {each: [] for each in (VERDICT, GRAVER, LOST)}
    inputs = 0
    limit = began + seconds
    for path in _records(chance, short=short):
        host = open_snapshot(path)
        full = judge(_evidence(host))
        every = list(_answers(host))
        for question, subject in chance.sample(
            every, min(len(every), _ANSWERS_IN_SHORT if short else len(every))
        ):
            if time.monotonic() > limit:
                break
            inputs += 1
            why = chance.choice(REASONS)
            part = judge(_evidence(_Refused(host, question, subject, why)))
            for what, how in broken(full, part, Removed((), why)):
                place = Path(path).relative_to(ROOT)
                violations[what].append(f"{place}: {question} {subject} ({why}): {how}")
    folder.joinpath("violations.txt").write_text(
        "".join(f"{what}: {each}\n" for what, found in violations.items() for each in found)
    )
    held = [Held(what, inputs, found) for what, found in violations.items()]
    return Result("refused", inputs, held, time.monotonic() - began)


def _records(chance: random.Random, *, short: bool) -> list[str]:
    faults = sorted(map(str, ROOT.joinpath("faults/records").glob("*.tar.gz")))
    every = [
        *(sample_folder(name) for name in samples()),
        *sorted(map(str, ROOT.joinpath("tests/fixtures").iterdir())),
        *(chance.sample(faults, _FAULTS_IN_SHORT) if short else faults),
    ]
    chance.shuffle(every)  # where the time ends first, it is not always the last ones that miss
    return every


def _evidence(host: Host) -> Evidence:
    return gather(host, time.monotonic() + 60)


def _answers(host: Host) -> Iterator[tuple[str, str]]:
    recording, _ = record(host, time.monotonic() + 60)
    for question, store in _STORES.items():
        for subject in sorted(getattr(recording, store)):
            yield question, subject


class _Refused(RecordingHost):
    """A host that refuses one answer."""

    def __init__(self, host: Host, question: str, subject: str, why: Why) -> None:
        super().__init__(host)
        self._refused = question, subject
        self._missing = Missing(why, f"{subject}: taken away")

    def _note(self, question: str, store: dict[str, Any], subject: str, answer: Any) -> Any:
        return self._missing if (question, subject) == self._refused else answer
