"""A live host's record with pseudonyms: none of its own names is in the archive."""

import json
import re
import socket
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest

from lab.rxe import Rxe

Rdmadiag = Callable[..., tuple[int, str, str]]

HOST = "kelp-31.orchid.example"


@pytest.fixture
def named(rxe_pair: tuple[Rxe, Rxe]) -> Iterator[None]:
    """A host with a name, and with a private address beside those of documentation."""
    before = socket.gethostname()
    socket.sethostname(HOST)
    try:
        do("ip", "address", "add", "10.77.5.4/24", "dev", "veth0")
        yield
    finally:
        socket.sethostname(before)


def do(*argv: str) -> str:
    return subprocess.run(argv, check=True, timeout=60, capture_output=True, text=True).stdout


def own_names() -> tuple[set[str], set[bytes]]:
    """Addresses, MACs and GUIDs of this host: as text, and as bytes in network order."""
    links = json.loads(do("ip", "-json", "address"))
    own = {each.get("address", "") for each in links}
    # That of a tunnel (sit0, tunl0) is an IPv4 address.
    macs = {bytes.fromhex(each.replace(":", "")) for each in own if ":" in each}
    macs = {each for each in macs if any(each) and set(each) != {0xFF}}
    addresses = {
        ip_address(each["local"])
        for link in links
        for each in link["addr_info"]
        if not ip_address(each["local"]).is_loopback
    }
    guids = {
        bytes.fromhex(each.read_text().strip().replace(":", ""))
        for each in Path("/sys/class/infiniband").glob("*/node_guid")
    }
    raws = macs | guids | {each.packed for each in addresses}
    words = {str(each) for each in addresses} | {raw.hex(":") for raw in macs}
    words |= {raw.hex() for raw in raws} | {raw[::-1].hex() for raw in raws}
    return words, {raw for raw in raws if len(raw) > 4} | {bytes([10, 77, 5, 4])}


def left(files: dict[str, bytes]) -> set[str]:
    words, raws = own_names()
    assert len(raws) > 5
    whole = "\n".join(f"{name}\n{content.decode('latin-1')}" for name, content in files.items())
    named = {each for each in ("kelp", "orchid") if each in whole}
    found = {word for word in words if re.search(rf"(?<![0-9a-f]){word}(?![0-9a-f])", whole)}
    raw = {
        each.hex()
        for each in raws
        for order in (each, each[::-1])
        if order in whole.encode("latin-1")
    }
    return named | found | raw


def files_of(place: Path) -> dict[str, bytes]:
    with tarfile.open(place) as archive:
        return {
            each.name: content.read()
            for each in archive
            if (content := archive.extractfile(each)) is not None
        }


def test_of_a_live_host_no_name_is_in_a_redacted_snapshot(
    named: None, rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    plain, redacted = tmp_path / "plain.tar.gz", tmp_path / "redacted.tar.gz"
    assert rdmadiag("snapshot", str(plain))[0] == 0
    assert left(files_of(plain)) >= {"kelp", "orchid", bytes([10, 77, 5, 4]).hex()}
    code, out, err = rdmadiag("snapshot", "--redact", str(redacted))
    assert code == 0, err
    files = files_of(redacted)
    assert left(files) == set()
    devices = json.loads(files["meta.json"])["redacted"]["left_in"][0]
    for name in ("rxe0", "rxe1", "veth0", "veth1"):
        assert name in devices.split(": ")[1].split(", ")
    assert "rxe0, rxe1" in out
    answers = [rdmadiag("preflight", "--json", "--from", str(each)) for each in (plain, redacted)]
    verdicts = [json.loads(each[1])["verdict"] for each in answers]
    assert answers[0][0] == answers[1][0]
    assert [each["rule"] for each in verdicts[0]["findings"]] == [
        each["rule"] for each in verdicts[1]["findings"]
    ]
