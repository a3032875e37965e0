"""config.toml: below variables and flags, and every mistake on its line."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rdmadiag import samples
from rdmadiag.cli.config import config_path

# Children that read what a user names: tests/host/test_given_file.py, test_isolation.py.
pytestmark = pytest.mark.usefixtures("in_this_process")

Rdmadiag = Callable[..., "Outcome"]  # type: ignore[name-defined]  # noqa: F821  # tests/cli/conftest.py


@pytest.fixture
def configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Writes the file."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "rdmadiag").mkdir()

    def write(text: str) -> Path:
        path = tmp_path / "rdmadiag" / "config.toml"
        path.write_text(text)
        return path

    return write


def test_flags_over_variables_over_the_file(
    configure: Callable[[str], Path], rdmadiag: Rdmadiag, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure('sample = "infiniband-two-hca"\n[gids]\nformat = "json"\n')
    assert rdmadiag("gids").document["host"]["hostname"] == "ib-two-hca"
    monkeypatch.setenv("RDMADIAG_GIDS_SAMPLE", "roce-healthy")
    assert rdmadiag("gids").document["host"]["hostname"] == "guest"
    sample = "infiniband-no-subnet-manager"
    found = rdmadiag("gids", "--sample", sample)
    assert found.document["host"]["hostname"] == "ib-no-subnet-manager"
    assert rdmadiag("gids", "-o", "text").out.startswith("rxe0/1")


@pytest.mark.parametrize(
    ("text", "argv", "begins"),
    [
        ("json = true\n", ("-o", "nagios"), "RDMA OK"),
        ('[preflight]\nformat = "nagios"\n', ("--json",), '{"schema_version"'),
        ("quiet = true\n", ("--verbose",), "OK  "),
        ("verbose = true\n", ("--quiet",), "OK  "),
    ],
)
def test_of_two_that_exclude_each_other_the_command_lines_stays(
    text: str,
    argv: tuple[str, ...],
    begins: str,
    configure: Callable[[str], Path],
    rdmadiag: Rdmadiag,
) -> None:
    configure(text)
    found = rdmadiag("preflight", "--sample", "infiniband-two-hca", *argv)
    assert found.code == 0
    assert found.out.startswith(begins)


def test_a_failure_too_has_the_form_that_is_nearest_the_command_line(
    configure: Callable[[str], Path], rdmadiag: Rdmadiag, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure("json = true\n")
    wrong = ("preflight", "--from", "/nowhere")
    assert "error" in rdmadiag(*wrong).document
    monkeypatch.setenv("RDMADIAG_PREFLIGHT_FORMAT", "nagios")
    assert rdmadiag(*wrong).out.startswith("RDMA UNKNOWN - ")
    assert rdmadiag(*wrong, "-o", "text").out == ""


def test_a_record_on_the_command_line_replaces_the_files_sample(
    configure: Callable[[str], Path], rdmadiag: Rdmadiag
) -> None:
    configure('sample = "infiniband-two-hca"\n')
    assert "/nowhere" in rdmadiag("gids", "--from", "/nowhere").err
    both = rdmadiag("gids", "--from", "/nowhere", "--sample", "roce-healthy")
    assert "exclude each other" in both.err


def test_what_the_file_says_of_time_is_not_said_of_a_record(
    configure: Callable[[str], Path], rdmadiag: Rdmadiag
) -> None:
    configure("[counters]\ninterval = 5\nwatch = true\ncount = 3\n")
    assert rdmadiag("counters", "--sample", "infiniband-two-hca").code == 0


def test_a_table_is_its_commands_alone(
    configure: Callable[[str], Path], rdmadiag: Rdmadiag
) -> None:
    configure('[gids]\nformat = "json"\n[preflight]\nprofile = "nagios"\nexit-zero = false\n')
    assert rdmadiag("preflight", "--sample", "roce-healthy").out.startswith("RDMA OK - ")
    assert rdmadiag("devices", "--sample", "roce-healthy").out.startswith("2 RDMA devices")


def test_a_failure_too_has_the_profile_of_the_file(
    configure: Callable[[str], Path], rdmadiag: Rdmadiag
) -> None:
    configure('[preflight]\nprofile = "slurm"\n')
    assert rdmadiag("preflight", "--from", "/nowhere").code == 0
    assert rdmadiag("gids", "--from", "/nowhere").code == 64


def test_a_command_of_a_group_has_its_table_in_the_groups(
    configure: Callable[[str], Path],
    rdmadiag: Rdmadiag,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    report = rdmadiag("preflight", "--sample", "infiniband-no-subnet-manager", "--json").out
    path = tmp_path / "report.json"
    path.write_text(report)
    merge = ("fleet", "merge", str(path))
    assert rdmadiag(*merge).code == 2
    configure("[fleet.merge]\nexit-zero = true\n")
    assert rdmadiag(*merge).code == 0
    monkeypatch.setenv("RDMADIAG_FLEET_MERGE_EXIT_ZERO", "false")
    assert rdmadiag(*merge).code == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[fleet.mrege]\n", "fleet.mrege: no such command; did you mean merge?"),
        ("[fleet]\nmerge = 1\n", "fleet.merge: expected a table"),
        ("[fleet.merge]\nfail-of = 1\n", "fleet.merge.fail-of: no such key; did you mean fail-on?"),
    ],
)
def test_a_mistake_in_the_table_of_a_group_is_named(
    text: str, message: str, configure: Callable[[str], Path], rdmadiag: Rdmadiag
) -> None:
    path = configure(text)
    refused = rdmadiag("fleet", "merge", "x.json")
    assert (refused.code, refused.err) == (64, f"rdmadiag: {path}: {message}\n")


def test_devices_are_a_list(configure: Callable[[str], Path], rdmadiag: Rdmadiag) -> None:
    configure('device = ["mlx5_1"]\n')
    ports = rdmadiag("gids", "--json", "--sample", "infiniband-two-hca").document["ports"]
    assert [port["device"] for port in ports] == ["mlx5_1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("timeout = ", ":1: Invalid value"),
        ("\ntimeot = 1\n", ": timeot: no such key outside of a table; did you mean timeout?"),
        ("[prefligth]\n", ": prefligth: no such command; did you mean preflight?"),
        ("preflight = 1\n", ": preflight: a table: [preflight]"),
        ('[preflight]\n\nfail-n = "warn"\n', ": preflight.fail-n: no such key; did you mean"),
        ('[preflight]\nfail-on = "warning"\n', ": preflight.fail-on: 'warning' is not one of"),
        ("[preflight]\nfail_on = 1\n", ": preflight.fail_on: expected a text"),
        ("[preflight]\nfail-on = 'warn'\nfail_on = 'warn'\n", ": preflight.fail_on: is there"),
        ('[preflight]\noutput = "a\\u0000b"\n', ": preflight.output: holds a NUL"),
        ('device = ["a\\u0000b"]\n', ": device: holds a NUL"),
        (f"timeout = 0x{'f' * 5000}\n", ": timeout: a number of more than 64 bits"),
        (f"[preflight]\npid = 0x{'f' * 5000}\n", ": preflight.pid: a number of more"),
        ("timeout = 31\n", ": timeout: 31.0 is not in the range"),
        ('timeout = "20"\n', ": timeout: expected a number"),
        ("timeout = true\n", ": timeout: expected a number"),
        ("timeout = nan\n", ": timeout: nan is no number of seconds"),
        ("[preflight]\nlog-lines = 1.5\n", ": preflight.log-lines: expected a whole number"),
        ('[preflight]\nlog-last = "1w"\n', ": preflight.log-last: a number and one of"),
        ('device = "mlx5_0"\n', ": device: expected a list of texts"),
        ("device = [1]\n", ": device: expected a list of texts"),
        ('[preflight]\nexit-zero = "yes"\n', ": preflight.exit-zero: expected true or false"),
        ("x" * (10 << 20), ": has more than 256 KiB"),
    ],
)
def test_a_mistake_names_file_and_key(
    text: str, message: str, configure: Callable[[str], Path], rdmadiag: Rdmadiag
) -> None:
    path = configure(text)
    refused = rdmadiag("preflight", "--sample", "roce-healthy")
    assert (refused.code, refused.out) == (64, "")
    assert refused.err.startswith(f"rdmadiag: {path}{message}")
    assert refused.err.count("\n") == 1


@pytest.mark.parametrize("key", ["allow-rtr = true", 'accept-risk = ["no_lid"]'])
def test_what_has_to_be_passed_each_time_is_no_default(
    key: str, configure: Callable[[str], Path], rdmadiag: Rdmadiag
) -> None:
    configure(f"[pingpong]\n{key}\n")
    refused = rdmadiag("pingpong")
    assert refused.code == 64
    assert "has to be passed on the command line, each time" in refused.err


def test_help_and_the_version_do_not_need_the_file(
    configure: Callable[[str], Path], rdmadiag: Rdmadiag
) -> None:
    configure("nonsense")
    assert rdmadiag("--version").code == 0
    assert rdmadiag("preflight", "--help").code == 0


def test_a_file_that_cannot_be_read_is_said(
    configure: Callable[[str], Path], rdmadiag: Rdmadiag
) -> None:
    path = configure("")
    path.unlink()
    path.mkdir()
    refused = rdmadiag("gids", "--sample", "roce-healthy")
    assert refused.err == f"rdmadiag: {path}: Is a directory\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone takes no other user's file")
@pytest.mark.parametrize(("owner", "mode"), [(65534, 0o644), (0, 0o666)])
def test_root_takes_no_file_that_another_user_decides(
    owner: int, mode: int, configure: Callable[[str], Path], rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    path = configure(f'[preflight]\noutput = "{tmp_path}/victim"')
    os.chown(path, owner, 0)
    path.chmod(mode)
    refused = rdmadiag("preflight", "--sample", "roce-healthy")
    assert (refused.code, refused.out) == (64, "")
    assert refused.err.startswith(f"rdmadiag: {path}: root does not take it: {path} ")
    assert "sudo -H" in refused.err
    assert not (tmp_path / "victim").exists()


@pytest.mark.parametrize(
    ("environment", "path"),
    [
        ({"XDG_CONFIG_HOME": "/etc/xdg"}, "/etc/xdg/rdmadiag/config.toml"),
        ({"XDG_CONFIG_HOME": "relative"}, "{home}/.config/rdmadiag/config.toml"),
        ({}, "{home}/.config/rdmadiag/config.toml"),
    ],
)
def test_where_it_is(environment: dict[str, str], path: str) -> None:
    assert config_path(environment) == path.format(home=Path.home())


# --- variables --------------------------------------------------------------------------------


def test_a_variable_has_the_long_name_of_its_option(
    rdmadiag: Rdmadiag, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RDMADIAG_GIDS_JSON", "1")
    monkeypatch.setenv("RDMADIAG_GIDS_FROM", samples.folder("roce-healthy"))
    assert rdmadiag("gids").document["host"]["hostname"] == "guest"


@pytest.mark.parametrize(("value", "form"), [("1", "{"), ("true", "{"), ("0", ""), ("", "")])
def test_a_failure_is_json_where_the_variable_says_so(
    value: str, form: str, rdmadiag: Rdmadiag, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RDMADIAG_PREFLIGHT_JSON", value)
    assert rdmadiag("preflight", "--sample", "nope").out[:1] == form
