"""A verbs library that answers from a script: fake_verbs.c, built by the system's compiler."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NoReturn

import pytest

from rdmadiag.verbs import watchdog
from rdmadiag.verbs.bounds import Bounds
from rdmadiag.verbs.child import program
from tests.conftest import OF_CHILDREN

SOURCE = Path(__file__).with_name("fake_verbs.c")
CM_SOURCE = Path(__file__).with_name("fake_rdmacm.c")
COMPILED = Path(__file__).parents[2] / "build" / "tests"
LAYOUTS = {"linux": (), "darwin": ("DARWIN",)}


@dataclass(frozen=True)
class FakeVerbs:
    """A library and its script."""

    library: Path
    environ: dict[str, str]
    """What to add to the environment of the process that loads the library."""
    trace: Path
    """A line for each call; absent before the first one."""

    @property
    def calls(self) -> list[str]:
        """What was called so far: `CALL` or `CALL DEVICE`, in order."""
        return self.trace.read_text().splitlines() if self.trace.exists() else []


def lacking(reason: str, *required_by: str) -> NoReturn:
    """Skips; fails where one of these variables says that the machine must have it."""
    demands = [name for name in required_by if os.environ.get(name)]
    if demands:
        pytest.fail(f"{reason}, and {demands[0]} is set")
    pytest.skip(reason)


IMPATIENT = """
import sys
sys.path.append(sys.argv.pop(1))
from rdmadiag.verbs import exchange, operation
exchange.STALL_SECONDS.update(dict.fromkeys(exchange.STALL_SECONDS, 1.0))
operation.STALL_SECONDS = 1.0
from rdmadiag.verbs.{} import main
main()
"""


@pytest.fixture(scope="module", autouse=True)
def children_are_covered() -> Iterator[None]:
    """What a child of pingpong does is covered by children alone; see tests/conftest.py."""
    with pytest.MonkeyPatch.context() as patch:
        if OF_CHILDREN is not None:
            patch.setenv(*OF_CHILDREN)
        yield


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child gives up after a second what must come and does not."""

    def changed(module: str) -> list[str]:
        *options, _, root = program(module)
        return [*options, IMPATIENT.format(module), root]

    monkeypatch.setattr(watchdog, "program", changed)


@pytest.fixture(scope="module")
def bounds() -> Iterator[Bounds]:
    """Far away from any deadline; signals and wakeup are put back."""
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    before = signal.set_wakeup_fd(-1)
    parent, held = os.pipe()
    made = Bounds(parent)
    yield made
    signal.set_wakeup_fd(before)
    for number, handler in handlers.items():
        signal.signal(number, handler)
    for descriptor in (parent, held, made._woken, made._waker):
        os.close(descriptor)


@pytest.fixture(scope="session")
def compile_c() -> Callable[..., Path]:
    """`compile_c(source, *options)` → what cc made of the C file; its complaints are errors.

    Made once of one preprocessed text: the parts of a run need the same libraries.
    """
    if not shutil.which("cc"):
        lacking("no C compiler: cc", "RDMADIAG_REQUIRE_COMPILER", "RDMADIAG_REQUIRE_VERBS_HEADERS")
    COMPILED.mkdir(parents=True, exist_ok=True)

    def compiled(source: Path, *options: str | Path) -> Path:
        argv = ["cc", "-O1", "-Wall", "-Wextra", "-Werror", source, *options]
        text = subprocess.run([*argv, "-E", "-P"], capture_output=True, check=True).stdout
        key = sha256(b"\0".join((text, *(os.fsencode(each) for each in options)))).hexdigest()
        made = COMPILED / f"{source.stem}-{key[:16]}"
        if not made.exists():
            new = made.with_suffix(f".{os.getpid()}")
            ran = subprocess.run([*argv, "-o", new], capture_output=True, text=True, check=False)
            assert ran.returncode == 0, ran.stderr
            new.replace(made)
        return made

    return compiled


@pytest.fixture(scope="session")
def verbs_headers(compile_c: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> None:
    """The machine has infiniband/verbs.h (Debian: libibverbs-dev), or a skip."""
    probe = tmp_path_factory.mktemp("probe") / "probe.c"
    probe.write_text("#if !__has_include(<infiniband/verbs.h>)\n#error none\n#endif\n")
    ran = subprocess.run(["cc", "-fsyntax-only", probe], capture_output=True, check=False)
    if ran.returncode:
        lacking("no infiniband/verbs.h: libibverbs-dev", "RDMADIAG_REQUIRE_VERBS_HEADERS")


@pytest.fixture(scope="session")
def cm_headers(verbs_headers: None, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The machine has rdma/rdma_cma.h too (Debian: librdmacm-dev), or a skip."""
    probe = tmp_path_factory.mktemp("probe") / "probe.c"
    probe.write_text("#if !__has_include(<rdma/rdma_cma.h>)\n#error none\n#endif\n")
    ran = subprocess.run(["cc", "-fsyntax-only", probe], capture_output=True, check=False)
    if ran.returncode:
        lacking("no rdma/rdma_cma.h: librdmacm-dev", "RDMADIAG_REQUIRE_VERBS_HEADERS")


@pytest.fixture(scope="session")
def compile_verbs(compile_c: Callable[..., Path]) -> Callable[..., Path]:
    """`compile_verbs("linux" | "darwin", *defines)` → the library, compiled once a session."""

    @cache
    def compiled(layout: str, *defines: str) -> Path:
        options = [f"-D{define}" for define in (*LAYOUTS[layout], *defines)]
        return compile_c(SOURCE, "-shared", "-fPIC", *options)

    return compiled


@pytest.fixture
def fake_verbs(
    compile_verbs: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., FakeVerbs]:
    """`fake_verbs(script, layout="linux", defines=())`; fake_verbs.c says what a script is."""

    def scripted(script: str, layout: str = "linux", defines: Iterable[str] = ()) -> FakeVerbs:
        folder = tmp_path_factory.mktemp("verbs")
        (folder / "script").write_text(script)
        environ = {
            "FAKE_VERBS": str(folder / "script"),
            "FAKE_VERBS_TRACE": str(folder / "trace"),
        }
        return FakeVerbs(compile_verbs(layout, *defines), environ, folder / "trace")

    return scripted


@dataclass(frozen=True)
class FakeCm:
    """A fake librdmacm over a fake verbs library."""

    verbs: FakeVerbs
    library: Path
    environ: dict[str, str]
    """What to add to the environment of the process that loads both."""
    trace: Path

    @property
    def calls(self) -> list[str]:
        """Of librdmacm, in order."""
        return self.trace.read_text().splitlines() if self.trace.exists() else []


@pytest.fixture(scope="session")
def compile_cm(
    compile_c: Callable[..., Path], compile_verbs: Callable[..., Path], cm_headers: None
) -> Callable[[], Path]:
    """The library, compiled once a session."""

    @cache
    def compiled() -> Path:
        return compile_c(CM_SOURCE, "-shared", "-fPIC", compile_verbs("linux"))

    return compiled


@pytest.fixture
def fake_cm(
    fake_verbs: Callable[..., FakeVerbs],
    compile_cm: Callable[[], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[..., FakeCm]:
    """`fake_cm(script, cm_script)`; fake_rdmacm.c says what the second is."""

    def scripted(script: str, cm_script: str) -> FakeCm:
        verbs = fake_verbs(script)
        folder = tmp_path_factory.mktemp("rdmacm")
        (folder / "script").write_text(cm_script)
        environ = {
            "FAKE_RDMACM": str(folder / "script"),
            "FAKE_RDMACM_TRACE": str(folder / "trace"),
        }
        return FakeCm(verbs, compile_cm(), verbs.environ | environ, folder / "trace")

    return scripted
