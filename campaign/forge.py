"""Records that no host has made: archives, folders, reports, samples, logs, out of real ones."""

import gzip
import io
import json
import os
import tarfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from campaign.corpus import files, machines
from campaign.mutation import HOSTILE, Mutator, dumped, mutated_json, odd_text

_MOST: Final = 600 * 1024  # bytes of a machine that is changed
_FILES: Final = 3_000  # of a folder: a disk takes minutes for as many as an archive may have


class Entry(NamedTuple):
    """One entry of a record."""

    name: str
    content: bytes = b""
    kind: bytes = tarfile.REGTYPE
    target: str = ""


@cache
def _machines() -> tuple[dict[str, bytes], ...]:
    every = (files(machine) for machine in machines())
    return tuple(each for each in every if sum(map(len, each.values())) <= _MOST)


def archive(random: Random, path: Path) -> None:
    """A .tar.gz."""
    entries = _entries(random)
    form = random.choice((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT))
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form, errors="surrogateescape") as out:
        for entry in entries:
            try:
                _add(random, out, entry)
            except (ValueError, UnicodeError):  # longer than ustar has room for
                continue
    raw = stream.getvalue()
    if random.random() < 0.15:
        raw = _damaged(random, raw)
    packed = gzip.compress(raw, compresslevel=random.choice((1, 9)))
    if random.random() < 0.15:
        packed = _damaged(random, packed)
    if random.random() < 0.03:
        packed += gzip.compress(b"\0" * random.choice((1 << 10, 1 << 26)))
    path.write_bytes(packed)


def _add(random: Random, out: tarfile.TarFile, entry: Entry) -> None:
    member = tarfile.TarInfo(entry.name)
    member.type = entry.kind
    member.linkname = entry.target
    member.mode = random.choice((0o644, 0, 0o7777))
    if entry.kind == tarfile.REGTYPE:
        member.size = len(entry.content)
        out.addfile(member, io.BytesIO(entry.content))
        return
    if entry.kind == tarfile.GNUTYPE_SPARSE:
        member.size = random.choice((0, 512, 1 << 40))
    out.addfile(member)


def _damaged(random: Random, content: bytes) -> bytes:
    return Mutator(random, (content,)).changed(content)


def folder(random: Random, path: Path) -> None:
    """A folder, as far as this file system takes the names."""
    path.mkdir()
    for entry in _entries(random)[-_FILES:]:
        place = os.path.normpath(os.path.join(path, entry.name.lstrip("/")))
        if not place.startswith(f"{path}/"):
            continue
        try:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            if entry.kind == tarfile.SYMTYPE:
                os.symlink(entry.target, place)
            elif entry.kind == tarfile.FIFOTYPE:
                os.mkfifo(place)
            elif entry.kind == tarfile.DIRTYPE:
                os.makedirs(place, exist_ok=True)
            else:
                Path(place).write_bytes(entry.content)
        except (OSError, ValueError, RecursionError):  # a name that is too long, or taken
            continue


def _entries(random: Random) -> list[Entry]:
    machine = dict(random.choice(_machines()))
    way = random.choice(_WAYS)
    entries = way(random, machine)
    if random.random() < 0.2:
        entries = [each._replace(name=f"host/{each.name}") for each in entries]
    if random.random() < 0.1:
        random.shuffle(entries)
    return entries


def _plain(machine: dict[str, bytes]) -> list[Entry]:
    return [Entry(name, content) for name, content in machine.items()]


def _contents(random: Random, machine: dict[str, bytes]) -> list[Entry]:
    """Some files hold something else."""
    names = list(machine)
    mutator = Mutator(random, tuple(machine.values()))
    for name in random.choices(names, k=random.choice((1, 3, 30))):
        machine[name] = mutator.changed(machine[name])
    return _plain(machine)


def _meta(random: Random, machine: dict[str, bytes]) -> list[Entry]:
    """meta.json says something else."""
    document = json.loads(machine["meta.json"])
    machine["meta.json"] = dumped(_changed(random, document, ("format", "version")))
    return _plain(machine)


def _changed(random: Random, document: dict[str, Any], head: tuple[str, ...]) -> Any:
    """Some of its values; seldom one that says what the document is, which ends all reading."""
    kept = {} if random.random() < 0.1 else {key: document.pop(key) for key in head}
    changed = mutated_json(random, document, random.choice((1, 1, 2, 5, 20)))
    return kept | changed if isinstance(changed, dict) else changed


def _large_tables(random: Random, machine: dict[str, bytes]) -> list[Entry]:
    """Tables and listings that are longer than any host has."""
    document = json.loads(machine["meta.json"])
    most = random.choice((300, 9_999, 49_999, 65_535, 999_999_999))
    listings = document.setdefault("listings", {})
    devices = [f"mlx5_{number}" for number in range(random.choice((1, 4, 40)))]
    listings["/sys/class/infiniband"] = devices
    for device in devices:
        listings[f"/sys/class/infiniband/{device}/ports"] = random.choice(
            (["1"], "1-255", "0-9999")
        )
        place = f"/sys/class/infiniband/{device}/ports/1"
        listings[f"{place}/gids"] = f"0-{most}"
        document.setdefault("repeated", []).append(
            {
                "folder": f"{place}/gids",
                "names": f"0-{most}",
                "content": "fe80:0000:0000:0000:0000:0000:0000:0001\n",
            }
        )
    machine["meta.json"] = dumped(document)
    return _plain(machine)


def _names(random: Random, machine: dict[str, bytes]) -> list[Entry]:
    """A device, a netdev, a file that is called something else."""
    old = random.choice([part for name in machine for part in name.split("/") if part])
    new = odd_text(random).replace("\0", "") or "x"
    entries = []
    for name, content in machine.items():
        parts = [new if part == old else part for part in name.split("/")]
        changed = content.replace(old.encode(), new.encode("utf-8", "replace"))
        entries.append(Entry("/".join(parts), changed if name == "meta.json" else content))
    return entries


def _links(random: Random, machine: dict[str, bytes]) -> list[Entry]:
    """Links in circles, out of the record, over each other; what is no file."""
    entries = _plain(machine)
    targets = (
        *("../" * 30 + "etc/passwd", "/etc/passwd", "/dev/zero", ".", "..", "a/" * 1000, ""),
        *("/sys/class/infiniband", "../../../devices", "self", "\n", "/proc/self/fd/0"),
    )
    kinds = (
        *(tarfile.SYMTYPE, tarfile.SYMTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE),
        *(tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.DIRTYPE, tarfile.GNUTYPE_SPARSE, b"Z"),
    )
    for _ in range(random.choice((1, 1, 5, 60))):
        at = random.randrange(len(entries))
        name = entries[at].name
        if random.random() < 0.5:
            name = name.rpartition("/")[0] or name
        entry = Entry(name, b"", random.choice(kinds), random.choice(targets))
        entries.insert(at, entry)
        if random.random() < 0.7:
            entries = [each for each in entries if each is entry or not _below(each.name, name)]
    return entries


def _below(name: str, folder: str) -> bool:
    return name == folder or name.startswith(f"{folder}/")


def _many(random: Random, machine: dict[str, bytes]) -> list[Entry]:
    """Very many entries, very deep ones, very large ones, very long names."""
    top = random.choice(("root/sys/class/infiniband", "root/sys/class/net", "root/proc", "netlink"))
    kind = random.randrange(5)
    if kind == 0:
        count = random.choice((300, 5_000, 60_000))
        extra = [Entry(f"{top}/x{number}/ports/1/state", b"4: ACTIVE\n") for number in range(count)]
    elif kind == 1:
        depth = random.choice((50, 500, 2_000))
        extra = [Entry(f"{top}/{'d/' * depth}{number}") for number in range(300)]
    elif kind == 2:
        extra = [
            Entry(f"{top}/zeros{number}", b"\0" * (1 << 22))
            for number in range(random.choice((2, 20)))
        ]
    elif kind == 3:
        extra = [
            Entry(f"{top}/{str(number) * random.choice((40, 250, 900))}") for number in range(500)
        ]
    else:
        name = random.choice(list(machine))
        extra = [Entry(name, (machine[name] * 5000)[: 1 << 24])]
    return [*_plain(machine), *extra]


def _bare(random: Random, machine: dict[str, bytes]) -> list[Entry]:
    """A folder with sys/class/infiniband in it, and nothing else."""
    entries = [
        Entry(name.removeprefix("root/"), content)
        for name, content in machine.items()
        if name.startswith("root/sys/")
    ]
    mutator = Mutator(random, HOSTILE)
    return [
        each._replace(content=mutator.changed(each.content)) if random.random() < 0.05 else each
        for each in entries
    ] or _plain(machine)


def _subset(random: Random, machine: dict[str, bytes]) -> list[Entry]:
    """A part of it."""
    share = random.random()
    return [each for each in _plain(machine) if random.random() < share or each.name == "meta.json"]


_Way = Callable[[Random, dict[str, bytes]], list[Entry]]
_WAYS: Final[tuple[_Way, ...]] = (
    *(_contents, _contents, _contents, _meta, _meta, _meta),
    *(_large_tables, _names, _names, _links, _links, _many, _bare, _subset),
)


def document(random: Random, base: bytes, path: Path) -> None:
    """A saved report or sample."""
    if random.random() < 0.25:
        path.write_bytes(_damaged(random, base))
        return
    parsed: Any = json.loads(base)
    head = ("schema_version", "tool", "generated_at", "host")
    path.write_bytes(dumped(_changed(random, parsed, head)))


def log(random: Random, lines: tuple[bytes, ...], path: Path) -> None:
    """A job's output."""
    mutator = Mutator(random, lines)
    path.write_bytes(b"\n".join(_some(random, mutator)))


def _some(random: Random, mutator: Mutator) -> Iterator[bytes]:
    for _ in range(random.choice((1, 10, 200))):
        yield mutator.next()
