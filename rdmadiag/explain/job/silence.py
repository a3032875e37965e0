"""Ranks and hosts that ought to show up, and do not."""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Final

from rdmadiag.explain.job.collected import Collected
from rdmadiag.explain.job.members import Members
from rdmadiag.explain.job.ras import State
from rdmadiag.explain.job.story import Silence, Silent
from rdmadiag.explain.job.times import Times
from rdmadiag.fleet.lines import Mark

EARLY: Final = 30.0  # seconds before the first failure at which a log has "ended early"

_Add = Callable[[str | None, int | None, Silence, str], None]


def silent(
    collected: Collected,
    members: Members,
    times: Times,
    peers: AbstractSet[str],
    first_at: float | None,
) -> tuple[Silent, ...]:
    """Who is; `peers` are hosts that others name, `first_at` is when something failed first."""
    return _Silent(collected, members, times, peers, first_at).found()


class _Silent:
    def __init__(
        self,
        collected: Collected,
        members: Members,
        times: Times,
        peers: AbstractSet[str],
        first_at: float | None,
    ) -> None:
        self._collected, self._members, self._times = collected, members, times
        self._peers, self._first_at = peers, first_at

    def found(self) -> tuple[Silent, ...]:
        """By host."""
        found: dict[tuple[str | None, Silence], tuple[set[int], str]] = {}

        def add(host: str | None, rank: int | None, why: Silence, detail: str) -> None:
            ranks, _ = found.setdefault((host, why), (set(), detail))
            if rank is not None:
                ranks.add(rank)

        for each in self._collected.processes:
            if each.state is not State.ERROR:
                host = self._members.named(each.host)
                why = Silence.DEAD if each.state is State.DEAD else Silence.UNRESPONSIVE
                add(host, each.rank, why, f"RAS: {each.state}")
        heard_hosts = self._members.hosts_heard()
        many = any(part.mark is not Mark.NONE for part in self._collected.parts)
        unheard = Silence.SAYS_NOTHING if many else Silence.NO_LOG
        for host in sorted(self._peers - heard_hosts):
            ranks = [rank for rank, of in self._members.host_of.items() if of == host]
            several: list[int | None] = [*ranks] or [None]
            for rank in several:
                add(host, rank, unheard, "named by others, and no line is its own")
        self._missing_ranks(add, unheard)
        self._ended_early(add)
        return tuple(
            Silent(host, tuple(sorted(ranks))[:1000], why, detail)
            for (host, why), (ranks, detail) in sorted(
                found.items(), key=lambda item: (item[0][0] is None, item[0][0] or "", item[0][1])
            )
        )

    def _missing_ranks(self, add: _Add, unheard: Silence) -> None:
        seen = {
            rank
            for part in self._collected.parts
            for each in part.writers
            if (rank := self._members.identity(each)[0]) is not None
        }
        if self._members.world_size and seen and len(self._collected.parts) + len(seen) > 2:
            for rank in sorted(set(range(min(self._members.world_size, 1_000_000))) - seen):
                if rank not in self._collected.dumped:
                    add(
                        self._members.host_of.get(rank),
                        rank,
                        unheard,
                        f"of {self._members.world_size} ranks, and no line is its own",
                    )
        if self._collected.dumped:
            belong = {rank for ranks in self._collected.groups.values() for rank in ranks}
            for rank in sorted(belong - self._collected.dumped):
                add(
                    self._members.host_of.get(rank),
                    rank,
                    Silence.NO_DUMP,
                    "its flight recorder left no dump",
                )

    def _ended_early(self, add: _Add) -> None:
        for part in self._collected.parts:
            rank, host = self._members.identity(part.own)
            if rank is None and host is None:
                known = {self._members.identity(each) for each in part.writers}
                rank, host = next(iter(known)) if len(known) == 1 else (None, None)
            if not part.bytes:
                add(host, rank, Silence.EMPTY, f"{part.where} is empty")
            elif self._first_at is not None and part.last and not part.occurrences:
                last = self._times.at(part.own, part.last, part.where)
                if last is not None and last < self._first_at - EARLY:
                    detail = f"{part.where} ends at {self._times.shown(last)}"
                    add(host, rank, Silence.ENDED_EARLY, detail)
