"""One folder a lab for what its last run left behind."""

import fcntl
import os
import shutil
from pathlib import Path

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
