"""The program that runs the campaigns: what breaks, hangs or dies there is counted."""

import importlib
import re
import sys
import types
from pathlib import Path

import pytest

from campaign import __main__ as program
from campaign.result import Held, Result, table

pytestmark = pytest.mark.once

MODULES = {
    "holds": 'return Result("holds", 7, [Held("it holds", 7, [])], 0.5)',
    "breaks": 'return Result("breaks", 7, [Held("it holds", 7, ["input 3"])], 0.5)',
    "raises": 'raise RuntimeError("no folder")',
    "dies": "os._exit(9)",
    "hangs": "time.sleep(600)",
}


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of campaigns that end in every way, on the path of this process's children."""
    package = tmp_path / "campaign"
    package.mkdir()
    real = Path(program.__file__).parent
    for name in ("__init__.py", "__main__.py", "apart.py", "result.py"):
        (package / name).write_text((real / name).read_text())
    for name, line in MODULES.items():
        (package / f"{name}.py").write_text(
            "import os, time\nfrom campaign.result import Held, Result\n\n\n"
            f"def run(short, seed, folder, seconds):\n    {line}\n"
        )
    return tmp_path


def run(written: Path, *arguments: str) -> "types.SimpleNamespace":
    import subprocess

    ran = subprocess.run(
        [sys.executable, "-m", "campaign", *arguments],
        cwd=written,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return types.SimpleNamespace(code=ran.returncode, out=ran.stdout, err=ran.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["missing", "peers"])
def test_nothing_is_begun_after_the_limit(name: str, tmp_path: Path) -> None:
    found = importlib.import_module(f"campaign.{name}").run(True, 1, tmp_path, 0.0)
    assert (found.inputs, found.violations) == (0, [])


def test_every_module_with_a_run_is_a_campaign(written: Path) -> None:
    ran = run(written, "no-such")
    assert ran.code == 64
    assert ran.out.endswith("there are: breaks, dies, hangs, holds, raises\n")


def test_the_readme_has_a_row_for_each_campaign() -> None:
    folder = Path(program.__file__).parent
    rows = re.findall(r"^\| `(\w+)` \|", (folder / "README.md").read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(program.campaigns())


def test_all_held_is_exit_code_0_and_a_table(written: Path) -> None:
    ran = run(written, "holds", "--seed", "5", "--table", "t.md")
    assert ran.code == 0
    assert "seed 5" in ran.out
    assert "| holds    | it holds       | 7      | 0          | 0       |" in ran.out
    assert (written / "t.md").read_text() == ran.out


def test_a_violation_is_exit_code_1_and_shown(written: Path) -> None:
    ran = run(written, "breaks", "holds", "--jobs", "2", "--out", "kept")
    assert ran.code == 1
    assert "breaks: 7 inputs, 1 violations" in ran.err
    assert "it holds: input 3" in ran.err
    assert (written / "kept" / "breaks").is_dir()


@pytest.mark.parametrize(
    ("name", "why"), [("raises", "RuntimeError: no folder"), ("dies", "exit code 9")]
)
def test_a_campaign_without_a_result_is_a_violation_of_its_own(
    written: Path, name: str, why: str
) -> None:
    ran = run(written, name, "holds")
    assert ran.code == 1
    assert why in ran.err
    assert "holds: 7 inputs, 0 violations" in ran.err


def test_a_campaign_that_hangs_is_ended(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import sys, campaign.__main__ as p; p.SHORT_SECONDS = 1.5;"
        "sys.argv[1:] = ['hangs', '--short']; sys.exit(p.main())"
    )
    import subprocess

    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=written,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 1
    assert "no end within 1.5 s" in ran.stderr


def test_the_table_has_a_row_for_each_property() -> None:
    result = Result("names", 9, [Held("quoted", 1_000_000, ["x"]), Held("one line", 4, [])], 61)
    assert table([result]).splitlines()[2:] == [
        "| names    | quoted         | 1,000,000 | 1          | 61      |",
        "| names    | one line       | 4         | 0          |         |",
    ]
