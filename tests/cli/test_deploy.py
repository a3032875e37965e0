"""`deploy`: what there is to install, from whatever installation."""

import os
from collections.abc import Callable

import pytest

from rdmadiag.deploy import FILES, FOLDER

Rdmadiag = Callable[..., "Outcome"]  # type: ignore[name-defined]  # noqa: F821  # tests/cli/conftest.py


def test_every_file_is_listed_and_there() -> None:
    found = {
        os.path.relpath(f"{folder}/{name}", FOLDER)
        for folder, _, names in os.walk(FOLDER)
        for name in names
        if not folder.endswith("__pycache__") and name != "__init__.py"
    }
    assert found == set(FILES)


def test_without_a_name_it_lists_them(rdmadiag: Rdmadiag) -> None:
    code, out, err = rdmadiag("deploy")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == list(FILES)
    assert rdmadiag("deploy", "--path") == (0, f"{FOLDER}\n", "")


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_printed_as_it_is(name: str, rdmadiag: Rdmadiag) -> None:
    code, path, _ = rdmadiag("deploy", name, "--path")
    assert code == 0
    with open(path.rstrip("\n"), encoding="utf-8") as file:
        assert rdmadiag("deploy", name) == (0, file.read(), "")


@pytest.mark.parametrize("name", ["slurm/prolog.py", "../samples/roce-healthy/ABOUT", "/etc/hosts"])
def test_no_other_file_is_printed(name: str, rdmadiag: Rdmadiag) -> None:
    code, out, err = rdmadiag("deploy", name)
    assert (code, out) == (64, "")
    assert err.startswith(f"rdmadiag: no file {name!r}; ")
