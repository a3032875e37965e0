"""Forms, profiles and deployments on a real kernel, read by the programs they are for."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.deployed import DEPLOY, command_lines
from lab.rxe import Rxe
from lab.shells import SHELLS, offered
from rdmadiag import SCHEMA_VERSION
from tests.schema.described import assert_described
from tests.schema.documents import kind_of

Rdmadiag = Callable[..., tuple[int, str, str]]
Run = Callable[..., Any]
PROGRAM = Path(sys.executable).with_name("rdmadiag")
RECORDED = Path(os.environ.get("RDMADIAG_LAB_OUT", "/nowhere")) / "recorded"
NAGIOS = re.compile(r"RDMA (OK|WARNING|CRITICAL|UNKNOWN) - [^|\n]+ \| (?:\S+=\S+ ?)+\n")


@pytest.fixture
def installed() -> Iterator[Path]:
    """rdmadiag where the files of deploy/ expect it."""
    target = Path("/usr/local/bin/rdmadiag")
    if target.exists():
        yield target
        return
    target.symlink_to(PROGRAM)
    try:
        yield target
    finally:
        target.unlink()


class TestHealthy:
    @pytest.mark.sampled(4)
    @pytest.mark.parametrize(
        ("command", "documents"),
        [
            ("preflight", ["preflight"]),
            ("gids", ["gids"]),
            ("gids --explain", ["gids"]),
            ("gids --explain --peer REPORT", ["gid-pairs"]),
            ("devices", ["devices"]),
            ("counters", ["counters"]),
            ("counters --watch --interval 0.5 --count 2", ["counters", "counters"]),
            ("resources", ["resources"]),
            ("expect", ["expect"]),
            ("explain wc 12", ["explain"]),
            ("explain --log JOB", ["explain-log"]),
            ("pingpong", ["pingpong"]),
            ("pingpong --allow-rtr", ["pingpong"]),
            ("samples", ["samples"]),
            ("gids --nonsense", ["error"]),
        ],
    )
    @pytest.mark.sampled(2)
    def test_jq_reads_every_document(
        self,
        command: str,
        documents: list[str],
        rxe_pair: tuple[Rxe, Rxe],
        run: Run,
        tmp_path: Path,
    ) -> None:
        report, job = tmp_path / "report.json", tmp_path / "job.out"
        if "REPORT" in command:
            report.write_text(run([str(PROGRAM), "preflight", "--json"], timeout=120).stdout)
        job.write_text("Failed to modify QP to RTR, errno 22\n")
        words = command.replace("REPORT", str(report)).replace("JOB", str(job))
        said = run(["bash", "-c", f"{PROGRAM} {words} --json | jq -c ."], timeout=120)
        assert (said.returncode, said.stderr.count("parse error")) == (0, 0), said.stderr
        found = [json.loads(line) for line in said.stdout.splitlines()]
        assert [kind_of(each) for each in found] == documents
        assert {each["schema_version"] for each in found} == {SCHEMA_VERSION}
        for each in found:
            assert_described(each)

    def test_a_nagios_line_is_one_line_with_performance_data(
        self, rxe_pair: tuple[Rxe, Rxe], rdmadiag: Rdmadiag
    ) -> None:
        code, out, err = rdmadiag("preflight", "--profile", "nagios")
        assert (code, err) == (0, "")
        assert (match := NAGIOS.fullmatch(out))
        assert match[1] == "OK"
        assert "active_ports=2;;;0;2" in out

    def test_a_junit_file_is_read_back(
        self, rxe_pair: tuple[Rxe, Rxe], rdmadiag: Rdmadiag, tmp_path: Path
    ) -> None:
        target = tmp_path / "rdma.xml"
        assert rdmadiag("preflight", "-o", "junit", "--output", str(target)) == (0, "", "")
        suite = ET.parse(target).getroot()[0]
        assert (suite.get("failures"), suite.get("hostname")) == ("0", os.uname().nodename)
        assert len(suite.findall("testcase")) > 30

    def test_a_textfile_is_kept_for_promtool(
        self, rxe_pair: tuple[Rxe, Rxe], rdmadiag: Rdmadiag
    ) -> None:
        """tests/lab/replay gives it to promtool, which would take minutes here."""
        RECORDED.mkdir(parents=True, exist_ok=True)
        target = RECORDED / "rxe-healthy.prom"
        done = rdmadiag("preflight", "-o", "prometheus", "--output", str(target))
        assert done == (0, "", "")
        assert 'rdmadiag_port_state_id{device="rxe0",port="1"} 4.0' in target.read_text()

    def test_an_ordinary_user_may_read_what_root_wrote(
        self, rxe_pair: tuple[Rxe, Rxe], rdmadiag: Rdmadiag
    ) -> None:
        target = Path("/tmp/rdmadiag-umask.prom")
        before = os.umask(0o077)
        try:
            rdmadiag("preflight", "-o", "prometheus", "--output", str(target))
        finally:
            os.umask(before)
        assert target.stat().st_mode & 0o777 == 0o644
        target.unlink()

    def test_a_host_meets_what_was_written_down_of_it(
        self, rxe_pair: tuple[Rxe, Rxe], rdmadiag: Rdmadiag, tmp_path: Path
    ) -> None:
        good = str(tmp_path / "good.toml")
        assert rdmadiag("expect", "--output", good) == (0, "", "")
        code, out, err = rdmadiag("preflight", "--expect", good)
        assert (code, err) == (0, ""), out
        assert re.search(r"Expectations: (\d+) of \1 met\.", out)

    @pytest.mark.parametrize("name", sorted(command_lines()))
    @pytest.mark.sampled(2)
    def test_what_deployments_run(
        self, name: str, rxe_pair: tuple[Rxe, Rxe], rdmadiag: Rdmadiag, tmp_path: Path
    ) -> None:
        argv = command_lines()[name]
        (tmp_path / "expected.toml").write_text("[host]\ndevices = 2\nactive_ports = 2\n")
        for option, stands_for in (("--output", "out"), ("--expect", "expected.toml")):
            if option in argv:
                argv[argv.index(option) + 1] = str(tmp_path / stands_for)
        code, _, err = rdmadiag(*argv)
        assert (code, err) == (0, "")

    @pytest.mark.parametrize("shell", SHELLS)
    def test_a_shell_completes_devices_and_commands(
        self, shell: str, rxe_pair: tuple[Rxe, Rxe]
    ) -> None:
        assert offered(shell, ["rdmadiag", "pre"], PROGRAM, timeout=120) == ["preflight"]
        devices = offered(shell, ["rdmadiag", "gids", "--device", "rxe"], PROGRAM, timeout=120)
        assert devices == ["rxe0", "rxe1"]


def test_a_device_that_went_is_critical_where_it_was_expected(
    rxe_pair: tuple[Rxe, Rxe], rdmadiag_json: Callable[..., tuple[int, Any]], run: Run
) -> None:
    assert run(["rdma", "link", "del", "rxe1"], timeout=60).returncode == 0
    code, document = rdmadiag_json("preflight", "--expect-devices", "2", "--expect-active", "2")
    found = {each["rule"]: each for each in document["verdict"]["findings"]}
    assert code == 2
    assert (found["expected-devices"]["expected"], found["expected-devices"]["actual"]) == (
        "2",
        "1",
    )
    assert found["expected-active-ports"]["actual"] == "1"


@pytest.mark.long
def test_a_route_gid_that_moved_is_unmet(
    rxe_pair: tuple[Rxe, Rxe], rdmadiag: Rdmadiag, run: Run, tmp_path: Path
) -> None:
    good = str(tmp_path / "good.toml")
    assert rdmadiag("expect", "--output", good)[0] == 0
    run(["ip", "address", "add", "198.51.100.1/24", "dev", "veth0"], timeout=30)
    run(["ip", "address", "del", "192.0.2.1/24", "dev", "veth0"], timeout=30)
    time.sleep(2)
    code, out, _ = rdmadiag("preflight", "--expect", good, "-o", "json")
    findings = json.loads(out)["verdict"]["findings"]
    (moved,) = [each for each in findings if each["severity"] != "info"]
    assert (code, moved["rule"], moved["device"]) == (2, "expected-gid-index", "rxe0")
    assert (moved["expected"], moved["actual"]) == ("1", "3")
    text = rdmadiag("preflight", "--expect", good, "-o", "prometheus")[1]
    assert 'rdmadiag_gid_index_drift{device="rxe0",port="1"} 2.0' in text


@pytest.mark.parametrize("healthy", [True, False], ids=["healthy", "without addresses"])
def test_the_prolog_and_the_health_check(
    healthy: bool, rxe_pair: tuple[Rxe, Rxe], installed: Path, run: Run, tmp_path: Path
) -> None:
    if not healthy:
        for netdev in ("veth0", "veth1"):
            run(["ip", "address", "flush", "dev", netdev], timeout=30)
    (tmp_path / "scontrol").write_text(f'#!/bin/sh\necho "$*" > {tmp_path}/ordered\n')
    (tmp_path / "sinfo").write_text("#!/bin/sh\necho idle none\n")
    for name in ("scontrol", "sinfo"):
        (tmp_path / name).chmod(0o755)
    for script in ("prolog.sh", "healthcheck.sh"):
        done = subprocess.run(
            ["sh", str(DEPLOY / "slurm" / script)],
            env={"PATH": f"{tmp_path}:/usr/bin:/bin", "RDMADIAG_EXPECTED": "/nowhere"},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        if script == "prolog.sh":
            assert done.returncode == (0 if healthy else 1), done.stderr
    ordered = tmp_path / "ordered"
    assert ordered.exists() is not healthy
    if not healthy:
        assert "state=drain reason=rdmadiag: CRITICAL" in ordered.read_text()


def test_systemd_takes_the_units(installed: Path, run: Run, tmp_path: Path) -> None:
    for unit in (DEPLOY / "systemd").iterdir():
        shutil.copy(unit, tmp_path)
        os.chmod(tmp_path / unit.name, 0o644)
    units = sorted(map(str, tmp_path.iterdir()))
    done = run(["systemd-analyze", "--man=no", "verify", *units], timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
