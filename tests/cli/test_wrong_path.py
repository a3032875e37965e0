"""A path at which there is nothing: one code in all commands, of a mistake in the command line."""

import pytest

# Children that read what a user names: tests/host/test_given_file.py, test_isolation.py.
pytestmark = pytest.mark.usefixtures("in_this_process")

SAMPLE = "roce-healthy"
PAIRS = ("fleet", "pairs", "--allow-rtr", "-w", "n[1-2]")


@pytest.mark.parametrize(
    "argv",
    [
        ("preflight", "--from", "nowhere"),
        ("preflight", "--from", "nowhere.json"),
        ("preflight", "--sample", SAMPLE, "--expect", "nowhere"),
        ("preflight", "--sample", SAMPLE, "--since", "nowhere"),
        ("gids", "--from", "nowhere.tar.gz"),
        ("counters", "--from", "nowhere.json"),
        ("expect", "--from", "nowhere"),
        ("explain", "--log", "nowhere"),
        ("redact", "nowhere"),
        ("redact", "nowhere.json"),
        ("fleet", "merge", "nowhere"),
        ("fleet", "history", "n1", "--history", "nowhere"),
        (*PAIRS, "--addresses", "nowhere"),
        (*PAIRS, "--topology", "nowhere"),
    ],
    ids=" ".join,
)
def test_a_wrong_path_is_a_mistake_in_the_command_line(rdmadiag, argv) -> None:
    done = rdmadiag(*argv)
    assert (done.code, done.out) == (64, "")
    assert "nowhere" in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("name", ["diff", "compat"])
@pytest.mark.parametrize("path", ["nowhere", "nowhere.json"])
def test_of_two_sides_one_that_could_not_be_read_is_unknown_whatever_the_reason(
    rdmadiag, name, path
) -> None:
    done = rdmadiag(name, path, "nowhere.too")
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith(f"rdmadiag: {path}: ")
    assert done.err.count("\n") == 1
