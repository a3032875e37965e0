"""What the tests of every lab share: the guard, and running programs with a deadline."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lab import dcb_module, plan, sshd
from lab.attempt import Attempts
from lab.failure import LabFailure
from lab.warm import Warm
from tests.lab.outcomes import note
from tests.schema.described import assert_described

LABS = Path(__file__).parent

# What a guest of each machine has and one of the other has not: see lab/README.md.
HAS = {
    "qemu": {"modules", "kprobes", "u32", "cable without loss", "PCI Express"},
    "uml": {"siw", "netdevsim"},
}
# By a setting of its kernel, which User Mode Linux shows.
BUILT = {"u32": "CONFIG_NET_CLS_U32=y"}
CONFIG = Path("/proc/config.gz")
SIW = Path("/lib/modules", os.uname().release, "updates/siw.ko")  # lab/siw_module.py


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"needs(what): of a guest, one of {sorted(HAS.items())}")
    config.addinivalue_line(
        "markers", "stock: on Debian's stock kernel in the long form; so is what it alone has"
    )
    config.addinivalue_line("markers", "smoke: in the short form on Debian's stock kernel too")
    config.addinivalue_line("markers", "long: not in the short form")
    config.addinivalue_line(
        "markers", "paired(n): of what two tables make together one in n; each row is still taken"
    )
    config.addinivalue_line("markers", "sampled(n): the short form takes one in n of its cases")
    config.addinivalue_line(
        "markers", "other_kernels(n): a part that is sampled takes one in n, and none of 0"
    )
    config.addinivalue_line("markers", "events: of what a kernel tells: on each kernel there is")


def has(machine: str) -> set[str]:
    """What this guest has of what tests need."""
    settings = gzip.decompress(CONFIG.read_bytes()).decode() if CONFIG.exists() else ""
    later = {"rxe in namespaces"} if os.uname().release.startswith("7.") else set[str]()
    later |= {"siw"} if SIW.exists() else set()
    later |= {"sshd"} if os.environ.get(sshd.VARIABLE) else set()
    later |= {"dcbtest"} if os.environ.get(dcb_module.VARIABLE) else set()
    later |= {"processors"} if (os.cpu_count() or 1) > 1 else set()
    return (
        HAS[machine] | later | {what for what, line in BUILT.items() if f"\n{line}\n" in settings}
    )


def in_short(item: pytest.Item) -> bool:
    """Whether the short form takes it; on another kernel than the first, that kernel's."""
    here = item.get_closest_marker("sampled")
    if os.environ.get(plan.OTHER_KERNEL):
        here = item.get_closest_marker("other_kernels") or here
    return plan.in_short(
        long=item.get_closest_marker("long") is not None,
        one_in=int(here.args[0]) if here else 1,
        places=_places(item),
    )


def is_paired(item: pytest.Item) -> bool:
    """Whether any form takes it."""
    here = item.get_closest_marker("paired")
    return here is None or sum(_places(item)) % int(here.args[0]) == 0


def _places(item: pytest.Item) -> Collection[int]:
    call = getattr(item, "callspec", None)
    return call.indices.values() if call else ()


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what was collected outside its lab: these tests load modules and remove interfaces.

    In the short form some are left out, the same at both ends and in every run.
    """
    is_short = bool(os.environ.get(plan.SHORT))
    left_out = [
        item
        for item in items
        if LABS in item.path.parents and not (is_paired(item) and (in_short(item) or not is_short))
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    here = os.environ.get("RDMADIAG_LAB", "")
    machine = os.environ.get("RDMADIAG_LAB_MACHINE", "")
    here_is = has(machine) if machine else set()
    for item in items:
        if LABS not in item.path.parents:
            continue
        lab = item.path.relative_to(LABS).parts[0]
        if lab != here:
            item.add_marker(pytest.mark.skip(reason=f"runs in a lab only: python -m lab {lab}"))
        for mark in item.iter_markers("needs"):
            if mark.args[0] in HAS["qemu"] - HAS["uml"] - set(BUILT):
                item.add_marker("stock")
            if machine and mark.args[0] not in here_is:
                item.add_marker(pytest.mark.skip(reason=f"{machine} has no {mark.args[0]}"))


def run_program(argv: Sequence[str], *, timeout: float) -> subprocess.CompletedProcess[str]:
    """Run to the end or fail the test after `timeout` seconds; no exit code is an error."""
    try:
        return subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.fail(f"{' '.join(argv)} did not end within {timeout:g} s")


@pytest.fixture(scope="session")
def run() -> Callable[..., subprocess.CompletedProcess[str]]:
    """`run(argv, timeout=SECONDS)`: exit code, stdout and stderr as text."""
    return run_program


@pytest.fixture(scope="session")
def rdmadiag(warm: Warm) -> Callable[..., tuple[int, str, str]]:
    """`rdmadiag(*args, user=None, prefix=(), timeout=120)`: exit code, stdout, stderr.

    With `user` (a uid, say 65534) it runs as that ordinary user without groups. `prefix` is put
    before the program, outside the change of user: ("strace", "-f"), ("ip", "netns", "exec", …).
    With either the program itself is started, else it is a fork of one that has its imports.
    """

    def call(
        *args: str, user: int | None = None, prefix: Sequence[str] = (), timeout: float = 120.0
    ) -> tuple[int, str, str]:
        if user is None and not prefix:
            try:
                return warm.run(args, timeout)
            except LabFailure as failure:
                pytest.fail(str(failure))
        ids = [f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        become = [] if user is None else ["setpriv", *ids]
        program = str(Path(sys.executable).parent / "rdmadiag")
        done = run_program([*prefix, *become, program, *args], timeout=timeout)
        return done.returncode, done.stdout, done.stderr

    return call


@pytest.fixture(scope="session")
def rdmadiag_json(
    rdmadiag: Callable[..., tuple[int, str, str]],
) -> Callable[..., tuple[int, Any]]:
    """`rdmadiag_json(*args, …)`: exit code and the document that `--json` printed."""

    def call(*args: str, **options: Any) -> tuple[int, Any]:
        code, stdout, stderr = rdmadiag(*args, "--json", **options)
        try:
            document = json.loads(stdout)
        except json.JSONDecodeError:
            pytest.fail(f"no JSON from rdmadiag {' '.join(args)} (exit {code}): {stderr or stdout}")
        assert_described(document)
        _note_findings(document)
        return code, document

    return call


def _note_findings(document: Any) -> None:
    """Which rules have findings in which test, for tests/lab/witnesses."""
    verdict = document.get("verdict") if isinstance(document, dict) else None
    found = verdict.get("findings") if isinstance(verdict, dict) else None
    note({each["rule"] for each in found or ()})


@pytest.fixture(scope="session")
def warm() -> Iterator[Warm]:
    """The process that has imported rdmadiag; a command that starts in it starts at once."""
    with Warm() as process:
        yield process


@pytest.fixture
def attempts(warm: Warm) -> Iterator[Attempts]:
    """Runs of `rdmadiag pingpong`; those that the test leaves are killed."""
    with closing(Attempts(warm)) as runs:
        yield runs
