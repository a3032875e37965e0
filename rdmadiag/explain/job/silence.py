"""Ranks and hosts that ought to be heard, and are not."""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Final

from rdmadiag.explain.job.heard import Heard
from rdmadiag.explain.job.people import People
from rdmadiag.explain.job.ras import State
from rdmadiag.explain.job.tale import Silence, Silent
from rdmadiag.explain.job.times import Times
from rdmadiag.fleet.lines import Mark

EARLY: Final = 30.0  # seconds before the first failure at which a log has "ended early"

_Add = Callable[[str | None, int | None, Silence, str], None]


def silent(
    heard: Heard,
    people: People,
    times: Times,
    peers: AbstractSet[str],
    first_at: float | None,
) -> tuple[Silent, ...]:
    """Who is; `peers` are hosts that others name, `first_at` is when something failed first."""
    return _Silent(heard, people, times, peers, first_at).found()


class _Silent:
    def __init__(
        self,
        heard: Heard,
        people: People,
        times: Times,
        peers: AbstractSet[str],
        first_at: float | None,
    ) -> None:
        self._heard, self._people, self._times = heard, people, times
        self._peers, self._first_at = peers, first_at

    def found(self) -> tuple[Silent, ...]:
        """By host."""
        found: dict[tuple[str | None, Silence], tuple[set[int], str]] = {}

        def add(host: str | None, rank: int | None, why: Silence, detail: str) -> None:
            ranks, _ = found.setdefault((host, why), (set(), detail))
            if rank is not None:
                ranks.add(rank)

        for each in self._heard.processes:
            if each.state is not State.ERROR:
                host = self._people.named(each.host)
                why = Silence.DEAD if each.state is State.DEAD else Silence.UNRESPONSIVE
                add(host, each.rank, why, f"RAS: {each.state}")
        heard_hosts = self._people.hosts_heard()
        many = any(part.mark is not Mark.NONE for part in self._heard.parts)
        unheard = Silence.SAYS_NOTHING if many else Silence.NO_LOG
        for host in sorted(self._peers - heard_hosts):
            ranks = [rank for rank, of in self._people.host_of.items() if of == host]
            several: list[int | None] = [*ranks] or [None]
            for rank in several:
                add(host, rank, unheard, "named by others, and nothing is heard of it")
        self._missing_ranks(add, unheard)
        self._ended_early(add)
        return tuple(
            Silent(host, tuple(sorted(ranks))[:1000], why, detail)
            for (host, why), (ranks, detail) in sorted(
                found.items(), key=lambda item: (item[0][0] is None, item[0][0] or "", item[0][1])
            )
        )

    def _missing_ranks(self, add: _Add, unheard: Silence) -> None:
        heard = {
            rank
            for part in self._heard.parts
            for each in part.speakers
            if (rank := self._people.identity(each)[0]) is not None
        }
        if self._people.world_size and heard and len(self._heard.parts) + len(heard) > 2:
            for rank in sorted(set(range(min(self._people.world_size, 1_000_000))) - heard):
                if rank not in self._heard.dumped:
                    add(
                        self._people.host_of.get(rank),
                        rank,
                        unheard,
                        f"of {self._people.world_size} ranks, and nothing is heard of it",
                    )
        if self._heard.dumped:
            belong = {rank for ranks in self._heard.groups.values() for rank in ranks}
            for rank in sorted(belong - self._heard.dumped):
                add(
                    self._people.host_of.get(rank),
                    rank,
                    Silence.NO_DUMP,
                    "its flight recorder left no dump",
                )

    def _ended_early(self, add: _Add) -> None:
        for part in self._heard.parts:
            rank, host = self._people.identity(part.own)
            if rank is None and host is None:
                known = {self._people.identity(each) for each in part.speakers}
                rank, host = next(iter(known)) if len(known) == 1 else (None, None)
            if not part.bytes:
                add(host, rank, Silence.EMPTY, f"{part.where} is empty")
            elif self._first_at is not None and part.last and not part.sightings:
                last = self._times.at(part.own, part.last, part.where)
                if last is not None and last < self._first_at - EARLY:
                    detail = f"{part.where} ends at {self._times.shown(last)}"
                    add(host, rank, Silence.ENDED_EARLY, detail)
