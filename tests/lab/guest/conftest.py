"""Soft RoCE devices on the emulated host, which starts without any RDMA module loaded."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.attempt import Attempts
from lab.resources import unchanged
from lab.rxe import Rxe, add_pair, remove_pair
from rdmadiag.verbs.abi import IbvAhAttr, IbvGlobalRoute, IbvQpAttr


@pytest.fixture(scope="class")
def rxe_pair() -> Iterator[tuple[Rxe, Rxe]]:
    """rxe0 and rxe1, ready. New for every test function, and once for a class of tests.

    Building takes seconds: put tests that only look into one class.
    """
    try:
        yield add_pair()
    finally:
        remove_pair()


@pytest.fixture
def nothing_left(rxe_pair: tuple[Rxe, Rxe], attempts: Attempts) -> Iterator[None]:
    """After the test the kernel counts what it counted before, and no process has a device."""
    with unchanged():
        yield


@pytest.fixture(scope="session")
def preload(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The library that writes indexes down."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler, "a C compiler"
    made = tmp_path_factory.mktemp("sgid") / "sgid_log.so"
    offsets = {
        "AH_ATTR": IbvQpAttr.ah_attr.offset,
        "SGID_INDEX": IbvAhAttr.grh.offset + IbvGlobalRoute.sgid_index.offset,
        "IS_GLOBAL": IbvAhAttr.is_global.offset,
    }
    defines = [f"-D{name}={offset}" for name, offset in offsets.items()]
    source = Path(__file__).with_name("sgid_log.c")
    argv = [compiler, "-shared", "-fPIC", "-O1", *defines, str(source), "-o", str(made), "-ldl"]
    subprocess.run(argv, check=True, timeout=180)
    return str(made)
