"""Commands end to end on recorded machines: documents, exit codes, and one line for mistakes."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.machine import Machine
from lab.samples import infiniband_host, roce_host
from rdmadiag import SCHEMA_VERSION, __version__
from rdmadiag.cli import COMMANDS
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.evidence import LINUX_SOURCES, MACOS_SOURCES
from rdmadiag.samples import samples

Rdmadiag = Callable[..., "Outcome"]  # type: ignore[name-defined]  # noqa: F821  # tests/cli/conftest.py

STATUS_OF_SAMPLE = {
    "mac-bridged": ("critical", 2),
    "mac-no-ipv4-gid": ("critical", 2),
    "mac-ready": ("ok", 0),
    "mac-wedged": ("critical", 2),
    "roce-healthy": ("ok", 0),
    "gpu-four-rails": ("ok", 0),
    "infiniband-two-hca": ("ok", 0),
    "infiniband-no-subnet-manager": ("critical", 2),
    "container-without-uverbs": ("critical", 2),
    "roce-empty-gid-table": ("critical", 2),
}


def test_the_version_is_the_packages(rdmadiag: Rdmadiag) -> None:
    assert rdmadiag("--version") == (0, f"rdmadiag {__version__}\n", "")


def test_help_lists_every_command_and_the_exit_codes(rdmadiag: Rdmadiag) -> None:
    code, out, _ = rdmadiag("--help")
    assert code == 0
    assert all(f"  {name} " in out for name in COMMANDS)
    assert "64 usage" in out


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_help(command: str, rdmadiag: Rdmadiag) -> None:
    code, out, err = rdmadiag(command, "--help")
    assert (code, err) == (0, "")
    assert out.startswith(f"Usage: rdmadiag {command}")


def test_samples_are_listed_with_the_first_line_of_their_about(rdmadiag: Rdmadiag) -> None:
    code, out, _ = rdmadiag("samples")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == sorted(STATUS_OF_SAMPLE)
    listed = rdmadiag("samples", "--json").document["samples"]
    assert {each["name"]: each["about"] for each in listed} == samples()


@pytest.mark.parametrize("name", sorted(STATUS_OF_SAMPLE))
def test_preflight_of_a_sample(name: str, rdmadiag: Rdmadiag) -> None:
    status, code = STATUS_OF_SAMPLE[name]
    outcome = rdmadiag("preflight", "--json", "--sample", name)
    assert (outcome.code, outcome.err) == (code, "")
    document = outcome.document
    assert document["schema_version"] == SCHEMA_VERSION
    assert document["tool"] == {"name": "rdmadiag", "version": __version__}
    assert document["verdict"]["status"] == status
    assert document["host"]["recorded"] is True
    assert set(document["evidence"]) == {*LINUX_SOURCES, *MACOS_SOURCES, "libraries", "modules"}
    text = rdmadiag("preflight", "--sample", name)
    assert (text.code, text.err) == (code, "")
    assert text.out.startswith(f"{status.upper()}  ")


def test_the_json_names_that_programs_rely_on(rdmadiag: Rdmadiag) -> None:
    document = rdmadiag("preflight", "--json", "--sample", "infiniband-no-subnet-manager").document
    verdict = document["verdict"]
    assert verdict["safe_to_attempt_rtr"] is False
    assert verdict["reasons"] == ["port_not_active", "no_lid"]
    assert {
        "device",
        "port",
        "link_layer",
        "state",
        "state_number",
        "safe_to_attempt_rtr",
        "route_gid_index",
        "route_gid",
        "reasons",
    } <= set(verdict["ports"][0])
    for finding in verdict["findings"]:
        assert set(finding) == {
            "rule",
            "severity",
            "device",
            "port",
            "summary",
            "evidence",
            "remedy",
            "references",
            "see",
            "expected",
            "actual",
        }
    gids = rdmadiag("gids", "--json", "--sample", "container-without-uverbs").document
    (port,) = gids["ports"]
    assert {"device", "port", "link_layer", "state", "gid_table_length", "gids"} <= set(port)
    assert port["gid_table_length"] == 256
    assert {"index", "gid", "raw", "type", "netdev", "scope"} <= set(port["gids"][0])
    assert port["gids"][3] == {
        "index": 3,
        "gid": "::ffff:192.0.2.10",
        "raw": "0000:0000:0000:0000:0000:ffff:c000:020a",
        "ipv4": "192.0.2.10",
        "family": "ipv4",
        "type": "roce_v2",
        "type_number": 2,
        "netdev": "ens1f0np0",
        "netdev_state": "up",
        "scope": "global",
        "unusable": None,
    }
    assert set(port["route"]) == {"index", "gid", "reason"}
    assert port["route"]["index"] == 3
    assert {"stack", "version", "index", "why", "problem"} <= set(port["stacks"][0])
    assert (port["stacks"][0]["stack"], port["stacks"][0]["index"]) == ("x-rdma", 2)
    devices = rdmadiag("devices", "--json", "--sample", "container-without-uverbs").document
    (device,) = devices["devices"]
    assert {"name", "seen_by", "driver", "firmware", "node_guid", "ports"} <= set(device)
    assert set(device["seen_by"]) == {"sysfs", "nldev", "verbs", "uverbs_node"}
    assert device["seen_by"]["uverbs_node"] is False
    assert device["discovery"]["fails_at"] == "node"
    assert set(device["discovery"]["steps"][0]) == {"stage", "passed", "subject", "value"}
    assert devices["functions_without_device"] == []


def test_a_process_that_was_named_is_looked_at_with_its_parents(rdmadiag: Rdmadiag) -> None:
    document = rdmadiag("preflight", "--json", "--pid", str(os.getpid())).document
    system = document["evidence"]["system"]
    assert system["asked_pid"] == system["ancestors"][0]["pid"] == os.getpid()
    refused = rdmadiag("preflight", "--sample", "infiniband-two-hca", "--pid", "1")
    assert refused.code == 64
    assert "--pid is for a live host" in refused.err


def test_a_list_of_devices_does_not_read_the_log(rdmadiag: Rdmadiag) -> None:
    from rdmadiag.sources.run import device_sources

    assert device_sources("linux") == ("sysfs", "nldev", "netdev", "process", "verbs")
    assert "mac_log" in device_sources("darwin")


def test_a_missing_value_says_why(rdmadiag: Rdmadiag) -> None:
    document = rdmadiag("preflight", "--json", "--sample", "infiniband-two-hca").document
    assert document["evidence"]["ioreg"] == {"why": "unsupported", "detail": "macOS only"}


@pytest.mark.parametrize(
    ("options", "code"),
    [
        pytest.param([], 2, id="a critical verdict exits 2"),
        pytest.param(["--fail-on", "critical"], 2, id="and 2 when only critical counts"),
        pytest.param(["--exit-zero"], 0, id="and 0 when nothing counts"),
    ],
)
def test_what_counts_for_the_exit_code(options: list[str], code: int, rdmadiag: Rdmadiag) -> None:
    sample = ("--sample", "roce-empty-gid-table")
    assert rdmadiag("preflight", *sample, *options).code == code


@pytest.mark.parametrize(
    ("fail_on", "code"), [("warn", 1), ("unknown", 0), ("critical", 0)], ids=str
)
def test_a_warning_counts_only_where_warnings_do(
    fail_on: str, code: int, rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    roce_host().change(memlock="8388608", capabilities=0).write(str(tmp_path / "m"), "warned")
    target = ("--from", str(tmp_path / "m"))
    assert rdmadiag("preflight", *target, "--fail-on", fail_on).code == code


@pytest.mark.parametrize("command", ["preflight", "gids", "devices"])
def test_a_host_without_a_device_exits_3_in_every_form(
    command: str, rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    Machine("bare").write(str(tmp_path / "bare"), "nothing")
    for form in ([], ["--json"]):
        outcome = rdmadiag(command, "--from", str(tmp_path / "bare"), *form)
        assert (outcome.code, outcome.err) == (3, "")
        assert outcome.out


@pytest.mark.parametrize("command", ["lossless", "topology", "capabilities", "devices", "gids"])
def test_without_a_device_the_first_line_says_so_and_the_next_what_to_paste(
    command: str, rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    Machine("bare").write(str(tmp_path / "bare"), "nothing")
    first, *others = rdmadiag(command, "--from", str(tmp_path / "bare")).out.splitlines()
    assert "no RDMA device" in first
    assert others[1] == "    rdmadiag preflight --from RECORD"


def test_what_is_to_be_pasted_is_about_the_sample_that_was_asked_for(rdmadiag: Rdmadiag) -> None:
    out = rdmadiag("gids", "--sample", "mac-wedged").out
    assert "\n    rdmadiag preflight --sample mac-wedged\n" in out


@pytest.mark.skipif(os.path.exists("/sys/class/infiniband"), reason="this host has RDMA devices")
@pytest.mark.parametrize("command", ["preflight", "gids", "devices"])
def test_the_live_host_is_the_default(command: str, rdmadiag: Rdmadiag) -> None:
    outcome = rdmadiag(command, "--json")
    assert outcome.code == 3
    assert outcome.document["host"]["recorded"] is False
    assert outcome.document["host"]["hostname"] == os.uname().nodename


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        pytest.param(["zzz"], "there are: preflight, gids, devices", id="an unknown command"),
        pytest.param(["preflight", "--sample", "x"], "roce-empty-gid-table", id="unknown sample"),
        pytest.param(["gids", "--from", "/nonexistent"], "no such snapshot", id="no snapshot"),
        pytest.param(["gids", "--from", "/"], "neither a snapshot", id="a folder that is none"),
        pytest.param(["gids", "-o", "yaml"], "'text', 'json'", id="an unknown format"),
        pytest.param(["gids", "--timeout", "31"], "30", id="a timeout beyond the limit"),
        pytest.param(["gids", "--timeout", "0"], "0", id="no time at all"),
        pytest.param(
            ["gids", "--sample", "infiniband-two-hca", "--device", "mlx5_7"],
            "there are: mlx5_0, mlx5_1",
            id="an unknown device",
        ),
        pytest.param(
            ["devices", "--sample", "infiniband-two-hca", "--device", "mlx5_0:9"],
            "there are: mlx5_0:1",
            id="an unknown port",
        ),
        pytest.param(
            ["preflight", "--sample", "infiniband-two-hca", "--device", "mlx5_0:x"],
            "no RDMA device 'mlx5_0:x'; did you mean mlx5_0?",
            id="a port that is no number",
        ),
        pytest.param(
            ["gids", "--sample", "infiniband-two-hca", "--from", "."],
            "exclude each other",
            id="two hosts at once",
        ),
        pytest.param(["gids", "--from", "none.json"], "No such file", id="no saved report"),
        pytest.param(["preflight", "--no-such"], "--no-such", id="an unknown option"),
        pytest.param(["gids", "--gid-index", "-1"], "-1", id="a negative index"),
    ],
)
def test_a_mistake_is_one_line_and_exit_64(argv: list[str], words: str, rdmadiag: Rdmadiag) -> None:
    code, out, err = rdmadiag(*argv)
    assert (code, out) == (64, "")
    assert words in err
    assert err.count("\n") == 1
    assert err.startswith("rdmadiag: ")


def test_one_device_of_two_is_judged_alone(rdmadiag: Rdmadiag) -> None:
    sample = ("--sample", "infiniband-no-subnet-manager", "--json")
    for device in ("mlx5_1", "mlx5_1:1", "mlx5_1/1"):
        verdict = rdmadiag("preflight", *sample, "--device", device).document["verdict"]
        assert {port["device"] for port in verdict["ports"]} == {"mlx5_1"}
        assert {finding["rule"] for finding in verdict["findings"]} == {"link-not-up"}


def test_an_explicit_gid_index_is_the_route_or_none(rdmadiag: Rdmadiag) -> None:
    sample = ("--sample", "container-without-uverbs", "--json")
    (port,) = rdmadiag("gids", *sample, "--gid-index", "1").document["ports"]
    assert port["route"]["index"] == 1
    outcome = rdmadiag("gids", *sample, "--gid-index", "77")
    (port,) = outcome.document["ports"]
    assert (outcome.code, port["route"]) == (2, None)
    assert "index 77" in port["no_route"]


def test_a_saved_report_is_judged_again(rdmadiag: Rdmadiag, tmp_path: Path) -> None:
    saved = tmp_path / "report.json"
    first = rdmadiag("preflight", "--json", "--sample", "container-without-uverbs")
    saved.write_text(first.out)
    again = rdmadiag("preflight", "--json", "--from", str(saved))
    assert again.code == first.code
    assert again.document["verdict"] == first.document["verdict"]
    tables = rdmadiag("gids", "--json", "--from", str(saved)).document["ports"]
    direct = rdmadiag("gids", "--json", "--sample", "container-without-uverbs").document["ports"]
    assert tables == direct


@pytest.mark.parametrize("name", ["copy", "copy.tar.gz"], ids=["as a folder", "as an archive"])
def test_a_snapshot_of_a_sample_says_what_the_sample_says(
    name: str, rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    target = str(tmp_path / name)
    sample = "container-without-uverbs"
    code, out, err = rdmadiag("snapshot", target, "--sample", sample)
    assert (code, err) == (0, "")
    assert f"rdmadiag preflight --from {target}" in out
    for command in ("preflight", "gids", "devices"):
        copied = rdmadiag(command, "--json", "--from", target).document
        original = rdmadiag(command, "--json", "--sample", sample).document
        assert original["host"].pop("sample") == sample
        assert copied["host"].pop("sample") is None, "a copy may be changed"
        assert copied | {"generated_at": ""} == original | {"generated_at": ""}


def test_a_snapshot_says_what_was_not_answered_in_time(
    rdmadiag: Rdmadiag, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record says so too; but another one may hold what this one lacks."""
    host = roce_host().host()
    late = Missing(Why.TIMEOUT, "the verbs query did not end within 5 s")
    monkeypatch.setattr(host, "verbs", lambda rows, deadline: late)
    monkeypatch.setattr("rdmadiag.cli.options.LiveHost", lambda: host)
    code, _, err = rdmadiag("snapshot", str(tmp_path / "taken"))
    assert code == 3
    assert "the verbs query did not end within 5 s" in err


def test_a_snapshot_never_overwrites(rdmadiag: Rdmadiag, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "precious").write_text("x")
    code, _, err = rdmadiag("snapshot", str(taken), "--sample", "infiniband-two-hca")
    assert code == 64
    assert "never overwrites" in err
    assert [path.name for path in taken.iterdir()] == ["precious"]
    archive = tmp_path / "a.tar.gz"
    archive.write_bytes(b"precious")
    assert rdmadiag("snapshot", str(archive), "--sample", "infiniband-two-hca").code == 64
    assert archive.read_bytes() == b"precious"


def test_a_snapshot_into_a_folder_that_is_there_and_empty_is_fine(
    rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    assert rdmadiag("snapshot", str(tmp_path), "--sample", "infiniband-two-hca").code == 0
    assert (tmp_path / "meta.json").exists()


def test_a_snapshot_that_cannot_be_written_is_one_line(rdmadiag: Rdmadiag, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    target = str(tmp_path / "file" / "snapshot")
    code, _, err = rdmadiag("snapshot", target, "--sample", "infiniband-two-hca")
    assert (code, err.count("\n")) == (64, 1)


def test_a_snapshot_of_a_bare_tree_says_what_it_lacks(rdmadiag: Rdmadiag, tmp_path: Path) -> None:
    infiniband_host().write_sysfs(str(tmp_path / "bare"))
    target = str(tmp_path / "copy")
    code, _, err = rdmadiag("snapshot", target, "--from", str(tmp_path / "bare"))
    assert code == 3
    assert "not_collected" in err
    first = rdmadiag("preflight", "--json", "--from", str(tmp_path / "bare")).document
    second = rdmadiag("preflight", "--json", "--from", target).document
    assert first["verdict"] == second["verdict"]


def test_variables_mirror_options(rdmadiag: Rdmadiag, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RDMADIAG_PREFLIGHT_SAMPLE", "infiniband-two-hca")
    monkeypatch.setenv("RDMADIAG_PREFLIGHT_FORMAT", "json")
    assert rdmadiag("preflight").document["host"]["hostname"] == "ib-two-hca"


def program(*argv: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "rdmadiag", *argv],
        capture_output=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )


def test_the_program_exits_with_the_commands_code() -> None:
    done = program("preflight", "--sample", "roce-empty-gid-table", "--json")
    assert (done.returncode, done.stderr) == (2, b"")
    assert json.loads(done.stdout)["verdict"]["status"] == "critical"


@pytest.mark.parametrize("form", ["", "--json"], ids=["text", "JSON"])
def test_a_closed_pipe_ends_quietly_and_keeps_the_commands_code(form: str) -> None:
    for command, sample, code in (
        ("gids", "roce-healthy", "0"),
        ("preflight", "roce-empty-gid-table", "2"),
    ):
        program = f"{sys.executable} -m rdmadiag {command} {form} --sample {sample}"
        script = f"{program} | true; echo ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", script], capture_output=True, timeout=60, check=False)
        assert (done.stdout.decode().strip(), done.stderr) == (code, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux alone has /dev/full")
@pytest.mark.parametrize(
    ("form", "code"), [("text", 74), ("json", 74), ("nagios", 3), ("prometheus", 74)]
)
def test_a_full_disk_behind_stdout_is_one_line(form: str, code: int) -> None:
    argv = (sys.executable, "-m", "rdmadiag", "preflight", "-o", form, "--sample", "roce-healthy")
    with open("/dev/full", "wb") as full:
        done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, check=False)
    message = b"rdmadiag: stdout: No space left on device\n"
    assert (done.returncode, done.stderr) == (code, message)


def test_a_closed_stderr_changes_no_code() -> None:
    line = f"{sys.executable} -m rdmadiag gids --from /nowhere 2>&-"
    done = subprocess.run(["/bin/sh", "-c", line], stdout=subprocess.PIPE, check=False)
    assert (done.returncode, done.stdout) == (64, b"")


def test_a_name_of_any_bytes_is_told_in_one_line_of_any_form() -> None:
    argv = (sys.executable, "-m", "rdmadiag", "preflight", "--json", "--from", b"/none\n\xff")
    done = subprocess.run(
        argv,
        capture_output=True,
        check=False,
        env=os.environ | {"PYTHONIOENCODING": "utf-8:strict"},
    )
    assert done.returncode == 64
    assert done.stderr.count(b"\n") == 1
    assert "/none\\n" in json.loads(done.stdout)["error"]["message"]


def test_a_closed_stdout_is_not_a_bug() -> None:
    script = f"{sys.executable} -m rdmadiag preflight --sample roce-empty-gid-table >&-"
    done = subprocess.run(["bash", "-c", script], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (2, b"")


def test_a_bug_is_one_line_and_exit_70(rdmadiag: Rdmadiag, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("oops")

    monkeypatch.setattr("rdmadiag.preflight.judge.judge", broken)
    code, out, err = rdmadiag("preflight", "--sample", "infiniband-two-hca")
    assert (code, out) == (70, "")
    assert err == "rdmadiag: a bug of ours: KeyError('oops') (--debug shows where)\n"
    shown = rdmadiag("--debug", "preflight", "--sample", "infiniband-two-hca")
    assert shown.code == 70, "an uncaught exception would be 1, which is a warning"
    assert "rdmadiag: Traceback (most recent call last):\n" in shown.err
    assert "in broken\n" in shown.err


def test_no_color_is_obeyed_and_a_pipe_gets_none() -> None:
    done = program("preflight", "--sample", "roce-empty-gid-table")
    assert b"\x1b[" not in done.stdout


def test_a_record_is_not_asked_for_another_window_of_its_log(rdmadiag: Rdmadiag) -> None:
    refused = rdmadiag("preflight", "--sample", "mac-ready", "--log-last", "1h")
    assert (refused.code, refused.out) == (64, "")
    assert "a record has its own log" in refused.err
    assert rdmadiag("preflight", "--sample", "mac-ready", "--log-lines", "5").code == 0


@pytest.mark.parametrize("window", ["0m", "1", "m", "1w", "-1m", "1m; reboot", ""])
def test_a_window_that_log_show_does_not_take_is_refused(window: str, rdmadiag: Rdmadiag) -> None:
    refused = rdmadiag("preflight", "--log-last", window)
    assert refused.code == 64
    assert "--log-last" in refused.err


def test_gids_name_a_device_that_shows_no_port(rdmadiag: Rdmadiag) -> None:
    wedged = rdmadiag("gids", "--sample", "mac-wedged")
    assert wedged.code == 3
    assert wedged.out.startswith("rdma_en1  no port can be read: ibv_query_port of rdma_en1")
    document = rdmadiag("gids", "--json", "--sample", "mac-wedged").document
    assert set(document["unread"]) == {"rdma_en1", "rdma_en2"}
