"""Records that come with the tree, and what the redactor makes of them."""

import json
import tarfile
import time
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from rdmadiag.host.recorded import SnapshotHost, open_snapshot
from rdmadiag.host.recording import Recording, documents
from rdmadiag.redact.record import redact_record
from rdmadiag.sources.record import record

TREE = Path(__file__).parents[2]
RECORDS = sorted(
    path
    for folder in ("rdmadiag/samples", "tests/fixtures")
    for path in (TREE / folder).iterdir()
    if path.is_dir() and path.name != "__pycache__"
)
FEW = [
    TREE / "rdmadiag/samples" / name for name in ("infiniband-two-hca", "mac-ready", "roce-healthy")
]
FAULTS = TREE / "faults" / "records"
FEW_FAULTS = ("firewall-tcp-dropped.right", "two-nets-control-cut.left")
"""Records of hosts of the lab: one whose packets a filter drops, one with many netdevs."""


def unpacked(archive: Path, folder: Path) -> Path:
    """The folder of a packed record."""
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    (meta,) = folder.rglob("meta.json")
    return meta.parent


@cache
def host_of(path: Path) -> SnapshotHost:
    return open_snapshot(str(path))


@cache
def recording_of(path: Path) -> tuple[Recording, dict[str, Any]]:
    return record(host_of(path), time.monotonic() + 20, modules=True)


def redacted_files(path: Path) -> dict[str, bytes]:
    """A redacted record's files, path → content; by the same key each time."""
    recording, late = recording_of(path)
    for number in range(100):
        key = sha256(f"{path.name} {number}".encode()).digest()
        made = redact_record(recording, host_of(path).identity, late, key)
        if not made.by_chance:
            break
    assert (made.left_out, made.by_chance) == ((), 0)
    return documents(made.recording, made.identity, made.late, redacted=made.manifest())


def written(files: dict[str, bytes], folder: Path) -> SnapshotHost:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return open_snapshot(str(folder))


def strings(value: Any) -> set[str]:
    """Every string of a document, keys among them."""
    if isinstance(value, dict):
        return set(value) | {each for part in value.values() for each in strings(part)}
    if isinstance(value, list):
        return {each for part in value for each in strings(part)}
    return {value} if isinstance(value, str) else set()


def loaded(path: Path) -> Any:
    return json.loads(path.read_text())
