"""What `fleet archive` writes: one file that a host's own Python runs, where there is no pip.

It is a ZIP archive with a `__main__.py`, as Python's zipapp makes them; `run_from_file.py` is that.
"""

import io
import os
import re
import zipfile
from collections.abc import Iterable
from typing import Final

from rdmadiag.fleet.archive import compiled_here, modules
from rdmadiag.fleet.wheels import COMPILED, Wheels
from rdmadiag.frozen import dataclass

_MODULE: Final = re.compile(rf"{COMPILED}/_{COMPILED}\.cpython-3([0-9]+)(t?)-(.+)\.so")
_WHEN: Final = (1980, 1, 1, 0, 0, 0)  # the first that ZIP knows


@dataclass(frozen=True, slots=True)
class OneFile:
    """For `python3 FILE`."""

    data: bytes
    pythons: str  # which have a compiled module in it: "Python 3.11 on x86_64-linux-gnu"


def one_file(wheels: Wheels | None) -> OneFile:
    """The same bytes for the same modules; raises NoArchive."""
    files = modules(compiled_here(wheels), samples=True)
    with open(os.path.join(os.path.dirname(__file__), "run_from_file.py"), "rb") as file:
        files["__main__.py"] = file.read()
    pythons = _pythons(files)
    files["for.txt"] = pythons.encode()
    return OneFile(_packed(files), pythons)


def _pythons(names: Iterable[str]) -> str:
    found = [match for match in map(_MODULE.fullmatch, names) if match]
    versions = sorted({(int(match[1]), match[2]) for match in found})
    said = ", ".join(f"3.{minor}{threads}" for minor, threads in versions)
    return f"Python {said} on {', '.join(sorted({match[3] for match in found}))}"


def _packed(files: dict[str, bytes]) -> bytes:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name in sorted(files):
            member = zipfile.ZipInfo(name, _WHEN)
            member.create_system = 3  # Unix, whatever this is
            member.external_attr = 0o100644 << 16
            archive.writestr(member, files[name], zipfile.ZIP_DEFLATED)
    return whole.getvalue()
