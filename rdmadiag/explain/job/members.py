"""Who is who in a job: ranks, hosts, and whose the addresses are."""

from rdmadiag.explain.job.collected import Collected
from rdmadiag.explain.job.hosts import Place, canonical
from rdmadiag.explain.job.part import Occurrence
from rdmadiag.explain.job.writers import Writer, is_name, named, short
from rdmadiag.fleet.lines import Mark


class Members:
    """What all files together say of it."""

    def __init__(self, collected: Collected) -> None:
        self._collected = collected
        self._rank_of: dict[tuple[str, int], int] = {}  # (host, pid)
        self.host_of: dict[int, str] = {}
        self.world_size: int | None = None
        self._name_files()
        self._who_is_who()
        self._book = self._addresses()

    def _name_files(self) -> None:
        """A file that is named after a host which other lines mention is that host's."""
        hosts = {each.host for part in self._collected.parts for each in part.writers if each.host}
        occurrences = [each for part in self._collected.parts for each in part.occurrences]
        hosts |= {short(each.peer) for each in occurrences if each.peer and is_name(each.peer)}
        known = frozenset(hosts)
        for part in self._collected.parts:
            if part.own.host is None and part.mark is Mark.NONE:
                part.own = part.own.over(named(part.where, known))
                for each in part.occurrences:
                    each.writer = each.writer.over(part.own)

    def _who_is_who(self) -> None:
        joined = [each for part in self._collected.parts for each in part.joined.items()]
        sizes = [ranks for _, (ranks, _) in joined]
        sizes += [max(members) + 1 for members in self._collected.groups.values() if members]
        self.world_size = max(sizes, default=None)
        for writer, (_, rank) in sorted(joined, key=lambda each: each[1][0]):
            if writer.host and writer.pid is not None:
                self._rank_of[writer.host, writer.pid] = rank
        for (host, _), rank in self._rank_of.items():
            self.host_of[rank] = host
        for part in self._collected.parts:
            for each in part.writers:
                if each.rank is not None and each.host:
                    self.host_of.setdefault(each.rank, each.host)

    def identity(self, writer: Writer) -> tuple[int | None, str | None]:
        """Rank and host, as far as anything says."""
        rank, host = writer.rank, writer.host
        if rank is None and host and writer.pid is not None:
            rank = self._rank_of.get((host, writer.pid))
        if host is None and rank is not None:
            host = self.host_of.get(rank)
        return rank, host

    def who(self, writer: Writer, where: str) -> tuple[object, ...]:
        """What counts as one: a rank, a process, a host, or a file."""
        rank, host = self.identity(writer)
        if rank is not None:
            return ("rank", rank)
        if writer.pid is not None:
            return ("process", host, writer.pid)
        return ("host", host) if host else ("file", where)

    def _addresses(self) -> dict[str, Place]:
        book: dict[str, Place] = {}
        for part in self._collected.parts:
            for host, using in part.using.items():
                key = canonical(using.address)
                device = using.devices[0] if len(using.devices) == 1 else None
                if key in book and book[key].device != device:
                    device = None  # its ranks take several
                book[key] = Place(host, device)
        for known in self._collected.hosts.values():
            for address, place in known.places.items():
                before = book.get(address)
                if before is None or before.device is None:
                    book[address] = place
            book.setdefault(canonical(known.name), Place(known.name))
        self._add_own(book)
        for host_name in self.host_of.values():
            book.setdefault(canonical(host_name), Place(host_name))
        return book

    def _add_own(self, book: dict[str, Place]) -> None:
        """The GIDs that writers say they send from."""
        for part in self._collected.parts:
            for seen in part.occurrences:
                host_name = self.identity(seen.writer)[1]
                if not host_name:
                    continue
                book.setdefault(canonical(host_name), Place(host_name))
                found = seen.meaning.fields
                if seen.local_gid and found.device:
                    key = canonical(seen.local_gid)
                    before = book.get(key)
                    if before is None or before.device is None:
                        place = Place(host_name, found.device, found.port, found.gid_index)
                        book[key] = place

    def place(self, address: str) -> Place | None:
        """Where an address is, as `canonical` writes it."""
        return self._book.get(address)

    def there(self, seen: Occurrence) -> Place | None:
        """Where the peer is that a occurrence names."""
        for address in (seen.remote_gid, seen.peer):
            if address:
                place = self._book.get(canonical(address))
                if place is None and "." in address and not address[0].isdigit():
                    place = self._book.get(canonical(address.partition(".")[0]))
                if place is not None:
                    return place
        return None

    def hosts_heard(self) -> set[str]:
        """Hosts that said anything."""
        found = set()
        for part in self._collected.parts:
            for each in part.writers:
                host = self.identity(each)[1]
                if host:
                    found.add(host)
        return found

    def named(self, address: str | None) -> str | None:
        """Whose an address is; the address itself where that is not known."""
        if address is None:
            return None
        place = self._book.get(canonical(address))
        return place.host if place else address
