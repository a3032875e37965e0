"""None of the names of a record is in what the redactor makes of it.

They are collected here from what the sources found, by ipaddress and by field, not by anything
of the redactor; and looked for in every file, in every form that this test can think of.
"""

import ipaddress
import json
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rdmadiag
from rdmadiag.facts import Missing
from rdmadiag.sources.routing import parse_neighbours
from tests.redact.records import (
    FAULTS,
    FEW,
    FEW_FAULTS,
    RECORDS,
    recording_of,
    redacted_files,
    strings,
    unpacked,
)

EVERYBODYS = {
    # Names that identify nobody, of the table ORDINARY of rdmadiag.redact.names.
    *("user", "systemd", "bash", "python", "python3", "rdmadiag", "pytest", "slurmstepd"),
}
EVERYBODYS_NETWORKS = tuple(
    map(
        ipaddress.ip_network,
        ("0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/24", "240.0.0.0/4", "::/127", "ff00::/8"),
    )
)
"""Loopback, no address, all hosts of a link; multicast groups of IPv6 are looked for as unicast."""

RANGES = {
    # First and last address of a range that is the same everywhere: its class is kept.
    *("192.0.2.0", "192.0.2.255", "10.0.0.0", "10.255.255.255", "192.168.0.0", "192.168.255.255"),
    *("169.254.0.0", "169.254.255.255", "172.16.0.0", "172.31.255.255", "198.18.0.0"),
    *("198.19.255.255", "fe80::", "198.51.100.0", "203.0.113.0", "2001:db8::", "fc00::", "fd00::"),
}
HEX = set(string.hexdigits)
LEAST = 4


# --- which names there are -----------------------------------------------------------------


def facts_of(path: Path) -> Any:
    """What `preflight --json` would have as evidence, with the host."""
    facts = json.loads(rdmadiag.collect(from_=str(path)).model_dump_json())
    recording, _ = recording_of(path)
    neighbours = parse_neighbours(recording.netlink.get("route-getneigh", b""), {})
    assert not isinstance(neighbours, Missing)
    facts["neighbours"] = [[each.address, each.mac or ""] for each in neighbours]
    return facts


def addresses_in(texts: set[str]) -> set[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    found = set()
    for text in texts:
        for word in text.replace(",", " ").split():
            try:
                found.add(ipaddress.ip_interface(word).ip)
            except ValueError:
                continue
    return {
        each
        for each in found
        if not any(
            each in network for network in EVERYBODYS_NETWORKS if network.version == each.version
        )
        and str(each) not in RANGES
    }


def octets_in(texts: set[str]) -> set[bytes]:
    """MACs, GUIDs and addresses of InfiniBand netdevs, as text with colons."""
    found = set()
    for text in texts:
        groups = text.split(":")
        widths = {len(each) for each in groups}
        if widths in ({2}, {4}) and set(text) <= HEX | {":"} and len(groups) in (4, 6, 8, 20):
            found.add(bytes.fromhex("".join(groups)))
        elif len(text) == 18 and text[:2] == "0x" and set(text[2:]) <= HEX:
            found.add(bytes.fromhex(text[2:]))
    return {
        each
        for each in found
        if len(each) in (6, 8, 20)
        and len(set(each)) > 2
        and each[:2] != b"\xfe\x80"
        and each[:3] != b"\x33\x33\0"  # all hosts, all routers and the like of a link
    }


def words_of(facts: Any, path: Path) -> set[str]:
    """The host's name, users by their home, commands of processes, cables' identifiers."""
    recording, _ = recording_of(path)
    found = {facts["host"]["hostname"]}
    found |= set(recording.environ.get("HOME", "").split("/"))
    for name, content in recording.files.items():
        if name.endswith("/comm"):
            found.add(content.decode().strip())
        if name.endswith("/status"):
            found.add(content.decode().split("\n")[0].partition(":")[2].strip())
    for bus in ((facts["evidence"] or {}).get("thunderbolt") or {}).get("buses", ()):
        found |= {bus["domain_uuid"], *(peer["domain_uuid"] for peer in bus["peers"])} - {None}
    return {
        each
        for each in found
        if isinstance(each, str) and len(each) >= LEAST and each not in EVERYBODYS
    } - {"Users", "home", "root", "localhost"}


# --- how they may be written ---------------------------------------------------------------


def texts_of_octets(raw: bytes) -> Iterator[str]:
    digits = raw.hex()
    for text in (digits, raw[::-1].hex()):
        yield text
        for width, separator in ((2, ":"), (2, "-"), (4, ":"), (4, ".")):
            yield separator.join(text[at : at + width] for at in range(0, len(text), width))


def derived(mac: bytes) -> Iterator[bytes]:
    for first in (mac[0], mac[0] ^ 2):
        for between in (b"\xff\xfe", b"\x03\x00"):
            yield bytes([first]) + mac[1:3] + between + mac[3:]


def needles(path: Path) -> tuple[set[str], set[bytes]]:
    """In small letters, and as bytes in both orders."""
    facts = facts_of(path)
    texts = strings(facts)
    words = {each.casefold() for each in words_of(facts, path)}
    raws = set()
    for address in addresses_in(texts):
        packed = address.packed
        words |= {str(address), address.exploded}
        if address.version == 4:
            words |= {packed.hex(), packed[::-1].hex(), f"{packed[:2].hex()}:{packed[2:].hex()}"}
            raws |= {packed, packed[::-1]}
        else:
            raws |= {packed, packed[::-1]}
            words |= set(texts_of_octets(packed))
            words.add(":".join(f"{int(each, 16):x}" for each in address.exploded.split(":")))
            if any(packed[8:14]):
                raws.add(packed[8:])
    for octets in octets_in(texts):
        raws.add(octets)
        raws |= set(derived(octets)) if len(octets) == 6 else set()
        raws |= {octets[12:]} if len(octets) == 20 else set()
    for raw in set(raws):
        if len(raw) > 4:
            raws.add(raw[::-1])
            words |= set(texts_of_octets(raw))
            if len(raw) == 8:
                words.add(":".join(f"{int(raw[at : at + 2].hex(), 16):x}" for at in (0, 2, 4, 6)))
    return {each for each in words if len(each) >= LEAST}, raws


def standing(word: str, text: str) -> bool:
    """Whether it stands there as a word or as digits of its own: 10.0.0.1 is not in 10.0.0.12."""
    at = text.find(word)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(word) : at + len(word) + 1]
        inside = HEX if set(word) <= HEX | set(":.-") else set(string.ascii_letters + string.digits)
        if before not in inside and after not in inside:
            return True
        if "." not in word and len(word) >= 12:  # long digits, wherever
            return True
        at = text.find(word, at + 1)
    return False


def left_in(files: dict[str, bytes], words: set[str], raws: set[bytes]) -> list[str]:
    found = []
    for name, content in files.items():
        said = _without_manifest(content) if name == "meta.json" else content
        text = f"{name}\n{said.decode('latin-1')}".casefold()
        found += [f"{name}: {word}" for word in words if word in text and standing(word, text)]
        binary = not content.isascii() or name.startswith("netlink/")
        found += [f"{name}: {raw.hex()}" for raw in raws if binary and holds(content, raw)]
    return found


def _without_manifest(meta: bytes) -> bytes:
    """Of what it says of the redaction only what was left out: a host may be called "left"."""
    found = json.loads(meta)
    redacted = found.pop("redacted", {})
    return json.dumps([found, redacted.get("left_out"), redacted.get("by_chance")]).encode()


def holds(content: bytes, raw: bytes) -> bool:
    """Of 4 bytes, where a number of 32 bits may stand: others are met by chance."""
    at = content.find(raw)
    while at >= 0:
        if len(raw) > 4 or at % 4 == 0:
            return True
        at = content.find(raw, at + 1)
    return False


def require_nothing_left(path: Path) -> None:
    words, raws = needles(path)
    assert words
    assert left_in(files_of(path), words, raws), "what is looked for is in the record itself"
    assert left_in(redacted_files(path), words, raws) == []


def files_of(path: Path) -> dict[str, bytes]:
    return {
        str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()
    }


@pytest.mark.parametrize("path", FEW, ids=lambda path: path.name)
def test_of_a_host_of_each_kind_no_name_is_left(path: Path) -> None:
    require_nothing_left(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [each for each in RECORDS if each not in FEW],
    ids=lambda path: f"{path.parent.name}/{path.name}",
)
def test_of_no_record_of_the_tree_a_name_is_left(path: Path) -> None:
    require_nothing_left(path)


@pytest.mark.parametrize("name", FEW_FAULTS)
def test_of_a_recorded_fault_no_name_is_left(name: str, tmp_path: Path) -> None:
    """Of all of them: python -m tests.redact.faults."""
    require_nothing_left(unpacked(FAULTS / f"{name}.tar.gz", tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hwloc_40intel64_qib", "procfs_fixtures"])
def test_of_no_captured_machine_a_name_is_left(realworld: Path, name: str) -> None:
    require_nothing_left(realworld / "sysfs" / name)
