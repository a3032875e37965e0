"""preflight in each form, and into a file, end to end."""

import json
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from rdmadiag.cli.exits import Refused
from rdmadiag.cli.options import PREFLIGHT_FORMATS
from rdmadiag.cli.output_file import check_output, write_output

# Children that read what a user names: tests/host/test_given_file.py, test_isolation.py.
pytestmark = pytest.mark.usefixtures("in_this_process")

Rdmadiag = Callable[..., "Outcome"]  # type: ignore[name-defined]  # noqa: F821  # tests/cli/conftest.py
SAMPLE = ("--sample", "roce-empty-gid-table")

BEGINNING = {
    "text": "CRITICAL  ",
    "json": '{"schema_version"',
    "nagios": "RDMA CRITICAL - ",
    "prometheus": "# HELP rdmadiag_",
    "junit": '<?xml version="1.0" encoding="UTF-8"?>',
    "github": "CRITICAL  ",
}


def test_every_form_is_here() -> None:
    assert set(BEGINNING) == set(PREFLIGHT_FORMATS)


@pytest.mark.parametrize("form", PREFLIGHT_FORMATS)
def test_a_form_on_stdout_and_in_a_file(form: str, rdmadiag: Rdmadiag, tmp_path: Path) -> None:
    outcome = rdmadiag("preflight", *SAMPLE, "-o", form)
    assert (outcome.code, outcome.err) == (2, "")
    assert outcome.out.startswith(BEGINNING[form])
    assert outcome.out.endswith("\n")
    target = tmp_path / "out"
    written = rdmadiag("preflight", *SAMPLE, "-o", form, "--output", str(target))
    assert (written.code, written.out, written.err) == (2, "", "")
    times = re.compile(r"\d{4}-\d\d-\d\dT[\d:]+Z?|seconds [0-9.e+]+")
    assert times.sub("", target.read_text()).split() == times.sub("", outcome.out).split()


def test_the_first_line_alone(rdmadiag: Rdmadiag) -> None:
    whole = rdmadiag("preflight", *SAMPLE).out
    assert rdmadiag("preflight", *SAMPLE, "--quiet").out == whole.splitlines()[0] + "\n"
    assert len(rdmadiag("gids", "--sample", "roce-healthy", "-q").out.splitlines()) == 2
    assert len(rdmadiag("devices", "--sample", "roce-healthy", "-q").out.splitlines()) == 1


def test_verbose_says_what_each_source_gave(rdmadiag: Rdmadiag) -> None:
    printed = rdmadiag("preflight", "--sample", "mac-bridged", "--verbose")
    assert "rdmadiag: ioreg: read\n" in printed.err
    assert re.search(r"all sources took [0-9.]+ s\n$", printed.err)
    assert "sysfs" not in printed.err, "a Mac has none"


def test_quiet_and_verbose_exclude_each_other(rdmadiag: Rdmadiag) -> None:
    assert rdmadiag("gids", "-q", "-v", "--sample", "roce-healthy").code == 64


def test_a_failure_is_a_document_where_documents_were_asked_for(rdmadiag: Rdmadiag) -> None:
    for options in (("--json",), ("-o", "json"), ("-ojson",), ("--format=json",)):
        refused = rdmadiag("preflight", "--nonsense", *options)
        assert refused.code == 64
        assert refused.document["error"]["exit_code"] == 64
        assert "--nonsense" in refused.document["error"]["message"]
        assert refused.err == f"rdmadiag: {refused.document['error']['message']}\n"
    assert rdmadiag("gids", "--device", "x", "--sample", "roce-healthy").out == ""
    github = rdmadiag("preflight", "-o", "github", "--nonsense").out
    assert github.startswith("::error title=rdmadiag::")


# --- --output ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "mode"),
    [
        (("preflight", "-o", "json"), 0o600),
        (("preflight", "-o", "prometheus"), 0o644),
        (("expect",), 0o644),
    ],
    ids=["a report", "for a collector", "for other hosts"],
)
def test_who_may_read_a_new_file_whatever_the_umask(
    argv: tuple[str, ...], mode: int, rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    before = os.umask(0o077)
    try:
        rdmadiag(*argv, "--sample", "roce-healthy", "--output", str(tmp_path / "out"))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == mode
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_file_is_replaced_and_never_changed_in_place(tmp_path: Path) -> None:
    target = tmp_path / "a.prom"
    target.write_text("old\n" * 1000)
    with target.open() as reader:
        write_output(str(target), "new\n")
        assert reader.read() == "old\n" * 1000
    assert target.read_text() == "new\n"


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "a.prom")
    write_output(str(tmp_path / "link"), "x\n")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "a.prom").read_text() == "x\n"


def test_a_full_disk_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.prom").write_text("old\n")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(Refused, match="No space left on device"):
        write_output(str(tmp_path / "a.prom"), "new\n")
    assert (tmp_path / "a.prom").read_text() == "old\n"
    assert [path.name for path in tmp_path.iterdir()] == ["a.prom"]


@pytest.mark.parametrize(
    "path",
    [
        *("/dev/null", "/nowhere/x", "/", "/dev/stdout", "/dev/fd/1"),
        *("/dev/null/x", "/" + "x" * 300),
    ],
)
@pytest.mark.parametrize("command", ["preflight", "expect"])
def test_what_cannot_be_replaced_is_refused_before_any_work(
    command: str, path: str, rdmadiag: Rdmadiag
) -> None:
    """/dev/stdout may be a log, which would be another file afterwards."""
    refused = rdmadiag(command, "--output", path, *SAMPLE)
    assert (refused.code, refused.out) == (64, "")
    assert refused.err.startswith(f"rdmadiag: --output {path}: ")
    assert not Path("/dev/null").is_file()


@pytest.mark.parametrize("command", ["preflight", "expect"])
def test_a_variable_that_is_empty_does_not_make_stdout_of_the_file(
    command: str, rdmadiag: Rdmadiag
) -> None:
    refused = rdmadiag(command, "--output", "", *SAMPLE)
    assert refused == (64, "", "rdmadiag: --output: names no file\n")


def test_a_link_to_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(Refused, match="Too many levels"):
        check_output(str(tmp_path / "loop"))


def test_a_folder_that_is_closed_is_refused(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    tmp_path.chmod(0o500)
    with pytest.raises(Refused, match="cannot be written to"):
        check_output(str(tmp_path / "x"))


# --- expect -----------------------------------------------------------------------------------


def test_a_good_host_is_written_down_and_meets_it(rdmadiag: Rdmadiag, tmp_path: Path) -> None:
    good = tmp_path / "good.toml"
    sample = ("--sample", "infiniband-two-hca")
    assert rdmadiag("expect", *sample, "--output", str(good)) == (0, "", "")
    outcome = rdmadiag("preflight", *sample, "--expect", str(good), "--json")
    assert outcome.code == 0
    count = outcome.document["verdict"]["expectations"]
    assert count["compared"] == count["met"] > 20
    other = rdmadiag("preflight", "--sample", "roce-healthy", "--expect", str(good))
    assert other.code == 2
    assert "expected-count  no RDMA device mlx5_0, which is expected" in other.out


def test_a_host_that_is_not_good_is_written_down_with_a_word_of_it(rdmadiag: Rdmadiag) -> None:
    outcome = rdmadiag("expect", *SAMPLE)
    assert outcome.code == 2
    assert "Its verdict: critical." in outcome.out
    assert outcome.err.startswith("rdmadiag: is this host good? CRITICAL: ")


def test_the_simple_case_needs_no_file(rdmadiag: Rdmadiag) -> None:
    sample = ("--sample", "infiniband-two-hca")
    simple = ("--expect-devices", "2", "--expect-active", "2", "--expect-rate", "200 Gb/sec")
    assert rdmadiag("preflight", *sample, *simple).code == 0
    fewer = rdmadiag("preflight", *sample, "--expect-active", "1")
    assert fewer.code == 2
    assert fewer.out.startswith("CRITICAL  1 active port expected, 2 found")
    bad = rdmadiag("preflight", *sample, "--expect-rate", "fast")
    assert (bad.code, bad.out) == (64, "")
    assert bad.err.startswith("rdmadiag: --expect-rate 'fast': expected a text such as")


@pytest.mark.parametrize(
    "text", ["", "# cut short\n", "[host]\n", "[thresholds]\nlink_downed = 1\n"]
)
def test_a_file_that_expects_nothing_is_not_met_by_every_host(
    text: str, rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    (tmp_path / "x.toml").write_text(text)
    refused = rdmadiag("preflight", *SAMPLE, "--expect", str(tmp_path / "x.toml"))
    assert (refused.code, refused.out) == (64, "")
    assert "x.toml: expects nothing of a host" in refused.err


def test_of_10_mb_of_expectations_nothing_is_made(rdmadiag: Rdmadiag, tmp_path: Path) -> None:
    (tmp_path / "big.toml").write_bytes(b"#" * (10 << 20))
    refused = rdmadiag("preflight", *SAMPLE, "--expect", str(tmp_path / "big.toml"), "--json")
    assert refused.code == 64
    assert "has more than 256 KiB" in json.loads(refused.out)["error"]["message"]
