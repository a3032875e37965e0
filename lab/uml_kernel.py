"""The User Mode Linux kernels of lab/kernels.toml: found, or built from Debian's source.

CACHE/uml/linux-7.2-094ff29aace5     unpacked from ../shared/lab; the checksum is the packed one's
CACHE/uml/linux-6.1-built-3b0c…      built here; the checksum is that of what it was built by
"""

import hashlib
import subprocess
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

from lab.command import run, stop
from lab.failure import EX_LATE, LabFailure
from lab.places import CHECKOUT, cache
from lab.prepare import prepare_build

LAB = CHECKOUT / "lab"
SHARED = CHECKOUT.parent / "shared" / "lab"
BUILD_SECONDS = 5400.0
APT_SECONDS = 300.0


@dataclass(frozen=True)
class Row:
    """One of lab/kernels.toml."""

    version: str
    package: str
    arguments: tuple[str, ...]
    file: str
    sha256: str
    preload: str = ""
    smp: bool = False  # takes ncpus=N
    source: str = ""  # the version of the package that `file` was built from


@dataclass(frozen=True)
class UmlKernel:
    version: str
    program: Path
    arguments: tuple[str, ...]  # for its command line
    preload: Path | None = None  # a library to start it with
    smp: bool = False  # can have more than one processor


def rows() -> list[Row]:
    """The preferred kernel first."""
    table = tomllib.loads((LAB / "kernels.toml").read_text())["kernel"]
    return [Row(**row | {"arguments": tuple(row["arguments"])}) for row in table]


def uml_kernel(version: str = "") -> UmlKernel:
    """That version, or the preferred one; where it cannot be had, the next of the table.

    LabFailure where there is none.
    """
    known = rows()
    at = next((number for number, row in enumerate(known) if row.version == version), 0)
    for row in known[at:]:
        if program := _found(row) or _built(row):
            preload = _library(LAB / row.preload) if row.preload else None
            return UmlKernel(row.version, program, row.arguments, preload, row.smp)
        print(f"no kernel {row.version}: no {SHARED / row.file}, and apt has no {row.package}")
    raise LabFailure("no User Mode Linux kernel")


def _found(row: Row) -> Path | None:
    """From the cache, or unpacked into it."""
    kept = cache() / "uml" / f"linux-{row.version}-{row.sha256[:12]}"
    packed = SHARED / row.file
    if kept.exists():
        return kept
    if not packed.exists():
        return None
    if hashlib.sha256(packed.read_bytes()).hexdigest() != row.sha256:
        print(f"{packed} is not the kernel that lab/kernels.toml records: not used")
        return None
    return keep(kept, ["xz", "-dc", str(packed)], APT_SECONDS)


def _built(row: Row) -> Path | None:
    script, fragment = LAB / "build-uml.sh", LAB / "uml.config"
    recipe = hashlib.sha256(script.read_bytes() + fragment.read_bytes()).hexdigest()
    kept = cache() / "uml" / f"linux-{row.version}-built-{recipe[:12]}"
    if kept.exists():
        return kept
    if not _known_to_apt(row.package):
        return None
    print(f"building kernel {row.version} from {row.package}: about 10 minutes", flush=True)
    prepare_build()
    return keep(kept, [str(script), row.package, str(fragment)], BUILD_SECONDS)


def _library(source: Path) -> Path:
    text = source.read_bytes()
    kept = cache() / "uml" / f"{source.stem}-{hashlib.sha256(text).hexdigest()[:12]}.so"
    if not kept.exists():
        prepare_build()
        compiler = ["cc", "-shared", "-fPIC", "-O1", "-o", "/dev/stdout", str(source), "-ldl"]
        keep(kept, compiler, APT_SECONDS)
    return kept


def _known_to_apt(package: str) -> bool:
    listed = run(["apt-cache", "--quiet", "show", package], timeout=APT_SECONDS)
    return listed.returncode == 0


def keep(kept: Path, argv: list[str], timeout: float) -> Path:
    """What the command writes to its standard output, executable, in the cache in one step."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as scratch:
        fresh = Path(scratch, "linux")
        with fresh.open("wb") as output:
            child = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=output, cwd=scratch, start_new_session=True
            )
            try:
                code = child.wait(timeout=timeout)
            except subprocess.TimeoutExpired:
                raise LabFailure(f"{argv[0]} took over {timeout:g} s", EX_LATE) from None
            finally:
                stop(child)
        if code != 0:
            raise LabFailure(f"{' '.join(argv)} failed with exit code {code}")
        fresh.chmod(0o755)
        fresh.rename(kept)
    return kept
