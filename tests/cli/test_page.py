"""Help: what a person sees first, in sections, with examples that are understood."""

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from rdmadiag import __version__
from rdmadiag.cli import rdmadiag as group
from rdmadiag.cli.group import Group, find
from rdmadiag.cli.page import OWN, SECTIONS, Page
from rdmadiag.samples import samples

Rdmadiag = Callable[..., "Outcome"]  # type: ignore[name-defined]  # noqa: F821  # tests/cli/conftest.py


def page(name: str) -> Page:
    found = find(group, tuple(name.split())).command
    assert isinstance(found, Page)
    return found


EVERY = tuple(group.every())
PAGES = {"rdmadiag": group, **{name: page(name) for name in EVERY}}


def test_without_a_command_the_help_is_printed_and_it_is_a_mistake(rdmadiag: Rdmadiag) -> None:
    code, out, err = rdmadiag()
    assert (code, out) == (64, ""), "a monitor whose arguments are lost must not read OK"
    assert err.startswith("Usage: rdmadiag ")
    assert "\\n" not in err
    assert "\nExamples:\n" in err


@pytest.mark.skipif(os.path.exists("/sys/class/infiniband"), reason="this host has RDMA devices")
def test_on_a_host_without_a_device_it_says_where_to_start(rdmadiag: Rdmadiag) -> None:
    _, _, err = rdmadiag()
    start = err.partition("This host has no RDMA device.")[2]
    (named,) = (line.split()[-1] for line in start.splitlines() if "--sample" in line)
    assert named in samples()


@pytest.mark.parametrize("name", EVERY)
def test_help_of_a_command_is_the_same_both_ways(name: str, rdmadiag: Rdmadiag) -> None:
    words = name.split()
    shown = rdmadiag("help", *words)
    assert shown == rdmadiag(*words, "--help")
    assert shown.out.startswith(f"Usage: rdmadiag {name} ")


def test_a_group_without_a_command_prints_its_help_and_it_is_a_mistake(rdmadiag: Rdmadiag) -> None:
    code, out, err = rdmadiag("fleet")
    assert (code, out) == (64, "")
    assert err.startswith("Usage: rdmadiag fleet ")
    assert "\n  merge " in err


def test_help_alone_is_that_of_the_program(rdmadiag: Rdmadiag) -> None:
    assert rdmadiag("help") == rdmadiag("--help")
    assert rdmadiag("help", "gidz").err == "rdmadiag: no command 'gidz'; did you mean gids?\n"
    assert rdmadiag("help", "gids", "x").err == "rdmadiag: rdmadiag gids has no commands\n"


@pytest.mark.parametrize("argv", [(), *(tuple(name.split()) for name in EVERY)], ids=" ".join)
@pytest.mark.parametrize("option", ["-V", "--version"])
def test_the_version_is_said_the_same_everywhere(
    argv: tuple[str, ...], option: str, rdmadiag: Rdmadiag
) -> None:
    assert rdmadiag(*argv, option) == (0, f"rdmadiag {__version__}\n", "")


def test_a_variable_that_is_called_rdmadiag_version_is_no_option(
    rdmadiag: Rdmadiag, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RDMADIAG_VERSION", "0.1.0")
    monkeypatch.setenv("RDMADIAG_SAMPLES_VERSION", "1")
    assert rdmadiag("samples").out.startswith("container-")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_three_examples_that_fit_a_line_and_are_understood(name: str) -> None:
    examples = PAGES[name].examples
    assert len(examples) >= 3
    for purpose, line in examples:
        assert max(len(purpose), len(line)) <= 76
        for words in _command_lines(line):
            depth = 2 if isinstance(page(words[0]), Group) and words[1:] else 1
            command = page(" ".join(words[:depth]))
            command.make_context(words[depth - 1], words[depth:])  # raises click.UsageError


def _command_lines(line: str) -> list[list[str]]:
    """The arguments of each rdmadiag in it, without what the shell makes of the rest."""
    inner = line.partition("$(")[2].rpartition(")")[0] or line.partition(" > ")[0]
    words = shlex.split(inner)
    return [words[1:]] if words[0] == "rdmadiag" else []


@pytest.mark.parametrize("name", PAGES)
def test_every_option_stands_in_one_section(name: str) -> None:
    command = PAGES[name]
    context = click.Context(command, info_name=name)
    shown = [record for _, records in command.sections(context) for record in records]
    options = [each for each in command.get_params(context) if isinstance(each, click.Option)]
    assert len(shown) == len(options)
    assert dict(command.sections(context)).keys() <= SECTIONS.keys()


def test_sections_name_options_that_there_are() -> None:
    known = {
        each
        for command in PAGES.values()
        for option in command.get_params(click.Context(command))
        for each in option.opts
    }
    assert {each for names in SECTIONS.values() for each in names} <= known
    assert SECTIONS[OWN] == ()


@pytest.mark.parametrize(
    ("argv", "meant"),
    [
        pytest.param(("preflihgt",), "preflight", id="a command"),
        pytest.param(("fleet", "mrege"), "merge", id="a command of a group"),
        pytest.param(("help", "fleet", "mrege"), "merge", id="the help of one"),
        pytest.param(("gids", "--sample", "roce-helthy"), "roce-healthy", id="a sample"),
        pytest.param(
            ("gids", "--sample", "roce-healthy", "--device", "rxe00"), "rxe0", id="a device"
        ),
        pytest.param(("gids", "--sample", "roce-healthy", "--stack", "ncl"), "nccl", id="a stack"),
        pytest.param(
            ("resources", "--sample", "roce-healthy", "--threshold", "limit_shar=1"),
            "limit_share",
            id="a threshold",
        ),
        pytest.param(("explain", "link-not-upp"), "link-not-up", id="a rule"),
        pytest.param(("schema", "preflights"), "preflight", id="a document"),
        pytest.param(("pingpong", "--accept-risk", "no_route_gidd"), "no_route_gid", id="a reason"),
    ],
)
def test_a_misspelt_name_is_asked_back(
    argv: tuple[str, ...], meant: str, rdmadiag: Rdmadiag
) -> None:
    code, out, err = rdmadiag(*argv)
    assert (code, out) == (64, "")
    assert f"did you mean {meant}?" in err


def test_the_module_says_the_same_version_as_the_program() -> None:
    program = Path(sys.executable).with_name("rdmadiag")
    said = [
        subprocess.run([*argv, "--version"], capture_output=True, text=True, check=True, timeout=60)
        for argv in ([sys.executable, "-m", "rdmadiag"], [str(program)])
        if os.path.exists(argv[0])
    ]
    assert {each.stdout for each in said} == {f"rdmadiag {__version__}\n"}
