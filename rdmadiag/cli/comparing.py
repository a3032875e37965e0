"""Samples one after the other, each compared with the one before it."""

import time
from collections.abc import Callable, Iterator

from rdmadiag.cli.progress import meanwhile, progress
from rdmadiag.facts import present
from rdmadiag.facts.counters import (
    ALL,
    NOTHING,
    CounterFacts,
    Spared,
    Wanted,
    narrowed,
    remembered,
)
from rdmadiag.frozen import dataclass
from rdmadiag.host import Host
from rdmadiag.nearest import instead
from rdmadiag.preflight.judge_counters import Compared, compare
from rdmadiag.sources.sampling import sample, timed_out
from rdmadiag.view.select import NoSuchDevice


@dataclass(frozen=True, slots=True)
class Sampler:
    """Takes samples of a host, or gives the one that was saved."""

    source: Host | CounterFacts
    wanted: Wanted = ALL
    timeout: float = 20.0  # seconds, for each sample
    quiet: bool = True  # say nothing of what it waits for

    def first(self) -> CounterFacts:
        """The first sample. Raises NoSuchDevice for a device or port that is not there."""
        source = self.source
        if isinstance(source, CounterFacts):
            facts = narrowed(source, self.wanted)
        else:
            facts = self._sample(source)
        if not facts.failed:
            _require(facts, self.wanted)
        return facts

    def next(self, before: CounterFacts) -> CounterFacts:
        """Another sample; what was refused in `before` is not read again."""
        assert not isinstance(self.source, CounterFacts), "a record is one sample"
        return self._sample(self.source, remembered(before))

    def pause(self, seconds: float) -> None:
        """Until the second sample."""

        def say(so_far: float) -> str:
            return f"waiting for the second sample: {so_far:.0f} of {seconds:g} s"

        with meanwhile(say, quiet=self.quiet):
            time.sleep(seconds)

    def _sample(self, host: Host, spared: Spared = NOTHING) -> CounterFacts:
        start = time.monotonic()
        deadline = start + self.timeout
        with progress(start, deadline, quiet=self.quiet) as waiting:
            return sample(host, deadline, self.wanted, spared, waiting)


def over(
    sampler: Sampler,
    pause: float,
    count: int | None,
    judge: Callable[[CounterFacts, CounterFacts | None], Compared] = compare,
    sleep: Callable[[float], None] | None = None,
) -> Iterator[Compared]:
    """`count` comparisons, or without end, `pause` seconds apart.

    It ends early after a source that was killed at the deadline: nothing that hangs is
    read again.
    """
    before = sampler.first()
    if timed_out(before):
        yield judge(before, None)
        return
    due, done = time.monotonic(), 0
    while count is None or done < count:
        due = max(due + pause, time.monotonic())
        (sleep or sampler.pause)(max(0.0, due - time.monotonic()))
        after = sampler.next(before)
        yield judge(after, before)
        if timed_out(after):
            return
        # What was refused once stays so, though a sample in between did not read it.
        before, done = after, done + 1


def _require(facts: CounterFacts, wanted: Wanted) -> None:
    names = tuple(present(facts.names))
    for name, ports in (wanted.among(names).devices or {}).items():
        if name not in names:
            raise NoSuchDevice(f"no RDMA device {name!r}; {instead(name, names)}")
        device = facts.device(name)
        numbers = {port.number for port in present(device.ports)} if device else set()
        absent = sorted((ports or frozenset()) - numbers)
        if device and absent:
            raise NoSuchDevice(f"no port {absent[0]} on {name!r}")
