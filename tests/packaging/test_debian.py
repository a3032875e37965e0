"""debian/: what is put into the private folder is what the program imports, pinned and named."""

import re
import tomllib
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import rdmadiag
from rdmadiag.fleet.archive import PURE
from rdmadiag.fleet.wheels import COMPILED

pytestmark = pytest.mark.once

CHECKOUT: Final = Path(__file__).parents[2]
DEBIAN: Final = CHECKOUT / "debian"
_PIN: Final = re.compile(
    r"^([a-z0-9-]+)==(\S+) \\\n((?: +--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE
)


def _pins() -> dict[str, str]:
    """Name → version; of lines that all have digests."""
    text = (DEBIAN / "python-modules.txt").read_text()
    found = _PIN.findall(text)
    assert "".join(f"{name}=={version} \\\n{digests}" for name, version, digests in found) == text
    return {name: version for name, version, _ in found}


def test_the_modules_are_those_that_a_copy_of_the_program_needs() -> None:
    assert set(_pins()) == {canonicalize_name(name) for name in (*PURE, COMPILED)}


def test_each_pinned_version_is_one_that_the_program_allows() -> None:
    pins = _pins()
    with (CHECKOUT / "pyproject.toml").open("rb") as file:
        required = [Requirement(each) for each in tomllib.load(file)["project"]["dependencies"]]
    assert [each for each in required if not each.specifier.contains(pins[each.name])] == []


def test_copyright_has_a_paragraph_on_each_module() -> None:
    text = (DEBIAN / "copyright").read_text()
    files = set(re.findall(r"^Files: ([a-z_0-9]+)(?:/\*|\.py)$", text, re.MULTILINE))
    assert files == {*PURE, COMPILED}
    used = set(re.findall(r"^License: (\S+)$(?!\n )", text, re.MULTILINE))
    given = set(re.findall(r"^License: (\S+)\n ", text, re.MULTILINE))
    assert used == given


def test_the_changelog_is_of_this_version() -> None:
    first = (DEBIAN / "changelog").read_text().splitlines()[0]
    assert first.startswith(f"rdmadiag ({rdmadiag.__version__}) ")


def test_man_pages_and_completions_are_installed() -> None:
    installed = (DEBIAN / "rdmadiag.install").read_text()
    assert {path.name for path in (CHECKOUT / "completion").iterdir()} == {
        line.split()[0].removeprefix("completion/")
        for line in installed.splitlines()
        if line.startswith("completion/")
    }
    assert (DEBIAN / "rdmadiag.manpages").read_text() == "man/*.1\n"


def test_no_unit_is_started_by_the_installation() -> None:
    assert "dh_installsystemd --no-enable --no-start" in (DEBIAN / "rules").read_text()
