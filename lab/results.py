"""One folder a lab for what its last run left behind."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

from lab.failure import LabFailure
from lab.places import OUT

_locks: list[int] = []  # descriptors, held until this process ends


def claim(lab: str) -> Path:
    """lab/out/<lab>, emptied; LabFailure while another process has it."""
    folder = OUT / lab
    OUT.mkdir(parents=True, exist_ok=True)
    lock = os.open(OUT / f"{lab}.lock", os.O_CREAT | os.O_RDWR, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise LabFailure(f"another run of this lab is using {folder}") from None
    _locks.append(lock)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def failed(folder: Path) -> list[str] | None:
    """The tests that failed, as pytest takes them; None where a guest left no whole result."""
    try:
        cases = ET.parse(folder / "junit.xml").iter("testcase")  # noqa: S314  # our own
        return [_node_id(case) for case in cases if _said(case)]
    except (OSError, ET.ParseError):
        return None


def _said(case: ET.Element) -> list[ET.Element]:
    return [*case.iterfind("failure"), *case.iterfind("error")]


def _node_id(case: ET.Element) -> str:
    """junit.xml has "tests.lab.guest.test_cm.TestData" for a class within a file."""
    words = case.get("classname", "").split(".")
    at = next((at for at, word in enumerate(words) if word.startswith("test_")), len(words) - 1)
    return "::".join(("/".join(words[: at + 1]) + ".py", *words[at + 1 :], case.get("name", "")))


def failures(lab: str) -> Iterator[str]:
    """A line for each test of its last run that failed, and for each guest that left no result."""
    folder = OUT / lab
    for report in sorted(folder.rglob("junit.xml")):
        try:
            cases = ET.parse(report).iter("testcase")  # noqa: S314  # our own
        except ET.ParseError as error:
            yield f"{report.relative_to(OUT)}: {error}"
            continue
        for case in cases:
            for found in _said(case):
                message = " ".join((found.get("message") or "").split())
                yield f"{report.parent.relative_to(OUT)}: {_node_id(case)}: {message[:300]}"
    for console in sorted(folder.rglob("console.txt")):
        if not console.with_name("junit.xml").exists():
            yield f"{console.parent.relative_to(OUT)}: ended without a result"
