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


@pytest.mark.parametrize(
    ("argv", "advice"),
    [
        (("preflight", "--sample", SAMPLE, "--expect", "rate=400G"), "--expect-rate"),
        (("preflight", "--from", "-"), "not read from stdin: save it as a file first, HOST.json"),
        (("gids", "--from", SAMPLE), f"did you mean --sample {SAMPLE}?"),
    ],
    ids=["a value for a file", "stdin", "a sample's name"],
)
def test_a_wrong_path_that_is_another_options_value_says_whose(rdmadiag, argv, advice) -> None:
    done = rdmadiag(*argv)
    assert (done.code, done.out) == (64, "")
    assert advice in done.err
    assert done.err.count("\n") == 1


def test_a_record_below_a_file_is_refused_before_anything_is_read(rdmadiag, tmp_path) -> None:
    (tmp_path / "file").touch()
    for name in ("file/x", "file/y/x.tar.gz"):
        done = rdmadiag("snapshot", str(tmp_path / name), "--sample", SAMPLE)
        assert (done.code, done.out) == (64, "")
        assert f"{tmp_path}/file is no folder" in done.err
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
