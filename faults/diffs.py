"""python -m faults.diffs [FAULT…]: what `rdmadiag diff` says of a host before and during each fault.

Before is the record of a healthy twin. Each fault was made on hosts of its own, whose MACs were
drawn; here each end has one MAC in all records, so that what differs is what the fault changed.
"""

import io
import re
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import rdmadiag
from faults.score import RECORDS, snapshot
from faults.table import ENDS, HERE, Fault, faults
from rdmadiag.fleet.changed import Change, ChangeKind, Differences
from rdmadiag.fleet.record_diff import Judged, differences
from rdmadiag.render.judged_record import judged

MACS: Final = {"left": bytes.fromhex("0242c0a81a11"), "right": bytes.fromhex("0242c0a82b22")}
SECONDS: Final = 60.0
_GUID: Final = re.compile(r"root/sys/class/infiniband/([^/]+)/node_guid")


def twin(fault: Fault) -> str:
    """The record of the same devices without a fault."""
    named = next((each for each in fault.twins if snapshot(each, "left").exists()), None)
    return named or ("healthy-siw-rping" if fault.setting == "siw" else "healthy-rxe-rc_pingpong")


@cache
def record(name: str, end: str) -> Judged:
    """The host as it was recorded, with the MACs of MACS."""
    with tarfile.open(snapshot(name, end)) as archive:
        files = {
            each.name: found.read() for each in archive if (found := archive.extractfile(each))
        }
        links = {each.name: each.linkname for each in archive if each.issym()}
    forms = dict(_forms(files))
    pattern = re.compile(b"|".join(map(re.escape, sorted(forms, key=len, reverse=True))))
    with tempfile.NamedTemporaryFile(suffix=".tar.gz") as out:
        with tarfile.open(fileobj=out, mode="w:gz", compresslevel=1) as archive:
            for path, content in files.items():
                same = pattern.sub(lambda found: forms[found[0]], content) if forms else content
                member = tarfile.TarInfo(pattern.sub(_in(forms), path.encode()).decode())
                member.size = len(same)
                archive.addfile(member, io.BytesIO(same))
            for path, target in links.items():
                member = tarfile.TarInfo(path)
                member.type, member.linkname = tarfile.SYMTYPE, target
                archive.addfile(member)
        out.flush()
        report = rdmadiag.collect(out.name, timeout=SECONDS)
    return judged(report.host, report.evidence)
