"""Generated pages and the README say what the code says."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from docs.__main__ import FOLDER, MAN, PAGES, README, WRITTEN
from docs.blocks import printed_anew
from docs.deployed import FOLDER as DEPLOYED
from docs.deployed import deployed
from docs.man import man_pages
from rdmadiag.cli import COMMANDS, rdmadiag, run
from rdmadiag.deploy import FILES
from rdmadiag.preflight.rules import CATALOGUE

pytestmark = pytest.mark.once


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_generated_page_is_up_to_date(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name](), "run `make docs`"


def test_every_rule_has_its_section() -> None:
    page = PAGES["rules.md"]()
    assert re.findall(r"^## (\S+)$", page, re.MULTILINE) == list(CATALOGUE)


def test_the_readme_names_every_command() -> None:
    text = README.read_text(encoding="utf-8")
    for command in COMMANDS:
        assert f"rdmadiag {command}" in text


def test_the_readme_shows_what_commands_print() -> None:
    assert README.read_text(encoding="utf-8").count("$ rdmadiag ") >= 2


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.stem)
def test_what_a_written_page_shows_of_an_output_is_what_is_printed(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text == printed_anew(path.name, text), "run `make docs`"


@pytest.mark.parametrize("path", sorted(DEPLOYED.glob("*.md")), ids=lambda path: path.stem)
def test_a_page_of_a_deployment_shows_the_files_as_they_are(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text == deployed(path.name, text), "run `make docs`"


IN_A_SCRIPT = re.findall(
    r"^rdmadiag (.*) \| (jq .*)$", README.read_text(encoding="utf-8"), re.MULTILINE
)


def test_the_readme_shows_a_line_of_jq_for_each_of_the_common_documents() -> None:
    commands = [arguments.split()[0] for arguments, _ in IN_A_SCRIPT]
    assert commands == ["preflight", "gids", "counters", "resources"]


@pytest.mark.skipif(shutil.which("jq") is None, reason="no jq here")
@pytest.mark.parametrize(("arguments", "filtered"), IN_A_SCRIPT, ids=lambda text: text.split()[0])
@pytest.mark.parametrize(
    "host", ["", "--sample infiniband-two-hca", "--sample mac-wedged", "--sample roce-healthy"]
)
def test_the_readmes_lines_of_jq_run_on_whatever_a_host_has(
    arguments: str, filtered: str, host: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """On a host without devices, too, where lists are what could not be looked at."""
    run(shlex.split(f"{arguments} {host}"))
    printed = capfd.readouterr()
    done = subprocess.run(
        ["bash", "-c", filtered],
        input=printed.out,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, printed.err, done.stderr) == (0, "", "")


def test_every_file_of_deploy_is_shown_on_a_page() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in DEPLOYED.glob("*.md"))
    shown = set(re.findall(r"\]\(\.\./\.\./(rdmadiag/deploy/[^)]+)\):", pages))
    assert shown == {f"rdmadiag/deploy/{name}" for name in FILES}
    readme = README.read_text(encoding="utf-8")
    assert all(f"docs/deploy/{path.name}" in readme for path in DEPLOYED.glob("*.md"))


def test_the_man_pages_are_up_to_date() -> None:
    assert {path.name: path.read_text(encoding="utf-8") for path in MAN.iterdir()} == man_pages()
    titles = {f"rdmadiag-{name.replace(' ', '-')}.1" for name in rdmadiag.every()}
    assert titles | {"rdmadiag.1"} == set(man_pages())


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff here")
@pytest.mark.parametrize("name", sorted(man_pages()))
def test_groff_has_nothing_to_say_of_a_man_page(name: str) -> None:
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-z", str(MAN / name)],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="no mandoc here")
def test_mandoc_has_nothing_to_say_of_the_man_pages() -> None:
    pages = sorted(map(str, MAN.glob("*.1")))
    done = subprocess.run(
        ["mandoc", "-Tlint", *pages], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_every_option_is_on_its_man_page() -> None:
    page = man_pages()["rdmadiag-preflight.1"].replace("\\-", "-")
    commands = (FOLDER / "commands.md").read_text(encoding="utf-8")
    help_page = commands.partition("## preflight\n")[2].partition("\n## ")[0]
    for option in re.findall(r"--[a-z-]+", help_page):
        assert option in page
