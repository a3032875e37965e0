"""What a QEMU guest carries in its memory: the interpreter, the virtual environment, the checkout.

It sees this machine's files through 9p, which caches nothing: an import from it takes three
times as long as from memory. Each of the three is one tar file in the cache, byte-compiled, with
the paths it has here; the guest unpacks them and mounts them over those same paths.
"""

import hashlib
import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from lab.command import run
from lab.failure import LabFailure
from lab.places import CHECKOUT, OUT, cache

COMPILE_SECONDS = 300.0
TAR_SECONDS = 120.0

_NO_STDLIB = (
    *("site-packages", "dist-packages", "test", "idlelib", "tkinter"),
    *("ensurepip", "lib2to3", "turtledemo", "config-*", "*.opt-?.pyc"),
)
# Large, and no test imports them.
_NO_VENV = ("ruff", "mypy", "mypyc", "grimp", "importlinter", "pip", "virtme", "virtme_ng")
_NO_CHECKOUT = (".git", ".venv", ".*_cache", ".hypothesis", ".coverage*", "__pycache__")


@dataclass(frozen=True)
class Image:
    tars: tuple[Path, ...]
    mounts: tuple[Path, ...]  # what they hold, outer folders first


def image() -> Image:
    """The three tars, those made again that no longer match this machine's files."""
    _, venv, *interpreter = places()
    try:
        tars = (
            _kept("checkout", [CHECKOUT], _NO_CHECKOUT, _everything(CHECKOUT)),
            _kept("venv", [venv], _NO_VENV, _top_entries(venv)),
            _kept("python", interpreter, _NO_STDLIB, interpreter),
        )
    except (FileNotFoundError, shutil.Error) as error:
        raise LabFailure(f"files changed while they were copied, try again: {error}") from None
    return Image(tars, places())


def places() -> tuple[Path, ...]:
    """What python needs: the checkout, the virtual environment, then the interpreter's own."""
    stdlib = Path(sysconfig.get_path("stdlib")).resolve()
    python = Path(sys.executable).resolve()
    shared = Path(sysconfig.get_config_var("LIBDIR")) / str(sysconfig.get_config_var("INSTSONAME"))
    interpreter = [stdlib, python]
    if sysconfig.get_config_var("Py_ENABLE_SHARED") and shared.exists():
        interpreter.append(shared.resolve())
    return CHECKOUT, Path(sys.prefix).resolve(), *interpreter


def _everything(top: Path) -> Iterable[Path]:
    ignore = _without(_NO_CHECKOUT)
    for folder, subfolders, files in os.walk(top):
        unwanted = ignore(folder, [*subfolders, *files])
        subfolders[:] = sorted(set(subfolders) - unwanted)
        yield from (Path(folder, name) for name in sorted(set(files) - unwanted))


def _top_entries(venv: Path) -> Iterable[Path]:
    """What an install, an upgrade or a removal touches."""
    for folder in (venv / "bin", *venv.glob("lib/python*/site-packages")):
        yield from sorted(path for path in folder.iterdir() if path.name != "__pycache__")


def _kept(name: str, tops: list[Path], unwanted: tuple[str, ...], signs: Iterable[Path]) -> Path:
    """The cached tar of `tops` if the names and times of `signs` are those it was made from."""
    seen = hashlib.sha256(Path(__file__).read_bytes())
    for path in (*tops, *signs):
        seen.update(f"{path}\0{path.lstat().st_mtime_ns if path not in tops else ''}\n".encode())
    folder = cache() / "images"
    folder.mkdir(parents=True, exist_ok=True)
    tar = folder / f"{name}-{seen.hexdigest()[:16]}.tar"
    if not tar.exists():
        _pack(tar, tops, unwanted)
        for stale in sorted(folder.glob(f"{name}-*.tar"), key=os.path.getmtime)[:-4]:
            stale.unlink(missing_ok=True)  # the last ones stay: another checkout may boot from them
    return tar


def _pack(tar: Path, tops: list[Path], unwanted: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory(dir=tar.parent) as scratch:
        stage = Path(scratch, "stage")
        for top in tops:
            copy = stage / top.relative_to("/")
            if top.is_dir():
                shutil.copytree(top, copy, symlinks=True, ignore=_without(unwanted))
            else:
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(top, copy)
        # Its exit code says nothing: packages ship files that are not meant to compile.
        compiling = ["-m", "compileall", "-q", "-j0", "-s", str(stage), "-p", "/", str(stage)]
        run([sys.executable, *compiling], timeout=COMPILE_SECONDS)
        fresh = Path(scratch, "tar")
        done = run(["tar", "-C", str(stage), "-cf", str(fresh), "."], timeout=TAR_SECONDS)
        if done.returncode != 0:
            raise LabFailure(f"tar failed: {done.stderr.strip()}")
        fresh.rename(tar)


def _without(unwanted: tuple[str, ...]) -> Callable[[str, list[str]], set[str]]:
    """For copytree: the entries of a folder with unwanted names, and our own results."""
    by_name = shutil.ignore_patterns(*unwanted)

    def ignored(folder: str, names: list[str]) -> set[str]:
        results = {OUT.name} if Path(folder) == OUT.parent else set()
        return by_name(folder, names) | results

    return ignored
