"""rdmadiag and what it imports, for a host without it: what --copy sends, one archive for each
kind of Python, and the modules of `fleet archive`.

All of it is Python text but for pydantic-core, which is compiled for one version of Python and
one architecture: this machine's own, or out of a folder of wheels.
"""

import gzip
import hashlib
import importlib.metadata
import importlib.util
import io
import json
import os
import re
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from rdmadiag.fleet.node_answer import LEAST_PYTHON
from rdmadiag.fleet.wheels import COMPILED, MOST_UNPACKED, NoArchive, Wheels, size

PURE: Final = (
    *("annotated_types", "click", "pydantic", "pyroute2", "rich", "typing_extensions"),
    "typing_inspection",
)
"""What reading commands import; of rich's own dependencies none of them needs any."""

PROBE: Final = (
    "import json,platform,sys,sysconfig;"
    "print(json.dumps([list(sys.version_info[:2]),sysconfig.get_config_var('SOABI')or'',"
    "platform.machine(),sys.platform]))"
)
"""For `python3 -c`: one line, for `python_of`."""

_LEFT_OUT: Final = ("__pycache__",)
_OF_OURS: Final = re.compile(r"rdmadiag/samples/[^/]+/")  # recorded machines
_LOOP: Final = "rdmadiag/verbs/_loop.so"
_WORD: Final = re.compile(r"[A-Za-z0-9_.-]{0,64}")


@dataclass(frozen=True, slots=True, order=True)
class Python:
    """What a compiled module must fit."""

    version: tuple[int, int]
    abi: str  # "cpython-311-x86_64-linux-gnu"
    machine: str  # "x86_64"
    platform: str  # "linux"

    def __str__(self) -> str:
        return f"Python {self.version[0]}.{self.version[1]}, {self.abi or 'unknown'}"


@dataclass(frozen=True, slots=True)
class Archive:
    """A .tar.gz."""

    data: bytes

    @property
    def digest(self) -> str:
        """SHA-256."""
        return hashlib.sha256(self.data).hexdigest()


def this_python() -> Python:
    """The one that runs this."""
    return Python(
        (sys.version_info[0], sys.version_info[1]),
        sysconfig.get_config_var("SOABI") or "",
        os.uname().machine,
        sys.platform,
    )


def python_of(text: bytes) -> Python | None:
    """What PROBE printed on a node; None where that is anything else."""
    try:
        match json.loads(text[:1000]):
            case [[int(major), int(minor)], str(abi), str(machine), str(platform)]:
                if all(map(_WORD.fullmatch, (abi, machine, platform))):
                    return Python((major, minor), abi, machine, platform)
    except (ValueError, RecursionError):
        pass
    return None


def archive(python: Python, wheels: Wheels | None) -> Archive:
    """Of what is installed here, with what `compiled` has; raises NoArchive."""
    return archive_of((compiled(python, wheels),))


def archive_of(parts: Iterable[Mapping[str, bytes]], *, timed: bool = False) -> Archive:
    """One for all the Pythons whose `compiled` these are: the name of each module says whose.

    `timed`: with the loop that attempts are timed by, which runs on this architecture alone.
    """
    return Archive(_packed(modules(parts, timed=timed)))


def modules(
    parts: Iterable[Mapping[str, bytes]], *, timed: bool = False, samples: bool = False
) -> dict[str, bytes]:
    """Name in an archive → content. `samples`: with the recorded machines."""
    files = dict(_own(timed=timed, samples=samples))
    for package in PURE:
        files |= _installed(package)
    for part in parts:
        files |= part
    return files


def compiled(python: Python, wheels: Wheels | None) -> Mapping[str, bytes]:
    """pydantic-core: this Python's own, or out of `wheels`; raises NoArchive."""
    if python.version < LEAST_PYTHON:
        least = ".".join(map(str, LEAST_PYTHON))
        raise NoArchive(f"{python}: rdmadiag needs {least}; --python names another one there")
    return _installed(COMPILED) if python == this_python() else _from_wheels(python, wheels)


def compiled_here(wheels: Wheels | None) -> list[Mapping[str, bytes]]:
    """pydantic-core of this Python, and of each that one of `wheels` is for.

    Raises NoArchive, also for a folder with no wheel of the version that is installed here.
    """
    found: list[Mapping[str, bytes]] = [_installed(COMPILED)]
    if wheels is None:
        return found
    version = importlib.metadata.version("pydantic-core")
    fits = re.compile(rf"pydantic_core-{re.escape(version)}-cp3[0-9]+-cp3[0-9]+t?-.+\.whl")
    names = [name for name in wheels.names() if fits.fullmatch(name)]
    if not names:
        raise NoArchive(
            f"{wheels.folder}: no wheel of pydantic-core {version}, which is installed here"
        )
    left = MOST_UNPACKED
    for name in names:
        found.append(wheels.unpacked(name, left))
        left -= size(found[-1])
    return found


def _own(*, timed: bool, samples: bool) -> Iterator[tuple[str, bytes]]:
    for name, data in _installed("rdmadiag").items():
        # The timed loop and the sieve are compiled for speed, which no reading command needs.
        is_left_out = name.endswith(".so") and not (timed and name == _LOOP)
        if (samples or not _OF_OURS.match(name)) and not is_left_out:
            yield name, data


@cache
def _installed(package: str) -> dict[str, bytes]:
    """Name in the archive → content, of a package or a single module. Raises NoArchive."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise NoArchive(f"{package} is not installed here")
    if not spec.submodule_search_locations:
        with open(spec.origin, "rb") as file:
            return {os.path.basename(spec.origin): file.read()}
    root = os.path.dirname(spec.origin)
    found = {}
    for folder, inner, names in os.walk(root):
        inner[:] = sorted(each for each in inner if each not in _LEFT_OUT)
        for name in sorted(names):
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                found[os.path.join(package, os.path.relpath(path, root))] = file.read()
    return found


def _from_wheels(python: Python, wheels: Wheels | None) -> dict[str, bytes]:
    version = importlib.metadata.version("pydantic-core")
    major, minor = python.version
    system = "musllinux" if "musl" in python.abi else "manylinux"
    if python.platform == "darwin":
        system = "macosx"
    fits = re.compile(
        rf"pydantic_core-{re.escape(version)}-cp{major}{minor}-cp{major}{minor}"
        rf"{'t' if _is_free_threaded(python) else ''}-.*{system}.*_{re.escape(python.machine)}"
        r"(\.[A-Za-z0-9_.]+)?\.whl"
    )
    names = wheels.names() if wheels is not None else []
    name = next((each for each in names if fits.fullmatch(each)), None)
    if name is None or wheels is None:
        platform = f"{system}_2_17_{python.machine}" if system == "manylinux" else "PLATFORM"
        raise NoArchive(
            f"{python}: needs pydantic-core for it; pip download --no-deps "
            f"--only-binary=:all: --python-version {major}.{minor} --platform {platform} "
            f"-d DIR pydantic-core=={version}, then --wheels DIR"
        )
    return wheels.unpacked(name, MOST_UNPACKED)


def _is_free_threaded(python: Python) -> bool:
    return re.match(r"cpython-[0-9]+t", python.abi) is not None


def _packed(files: dict[str, bytes]) -> bytes:
    """The same bytes for the same files."""
    whole = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=whole, mode="wb", mtime=0, compresslevel=6) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for name in sorted({*files, *_folders(files)}):
            member = tarfile.TarInfo(name)
            if name in files:
                member.size, member.mode = len(files[name]), 0o600
                archive.addfile(member, io.BytesIO(files[name]))
            else:
                member.type, member.mode = tarfile.DIRTYPE, 0o700
                archive.addfile(member)
    return whole.getvalue()


def _folders(names: Iterable[str]) -> set[str]:
    found = set()
    for name in names:
        while name := os.path.dirname(name):
            found.add(name)
    return found
