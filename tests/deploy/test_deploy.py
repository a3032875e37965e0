"""The files of deploy/: what they run is understood, and they are what their readers take."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
import yaml

from docs.deployed import CHECKOUT
from lab.deployed import DEPLOY, command_lines, manifests, probe, text, workflow
from lab.machine import Machine
from lab.samples import roce_host
from rdmadiag.cli import run
from rdmadiag.host.toml_file import parse_toml
from rdmadiag.preflight.expectations.written import expectations
from rdmadiag.preflight.judge import judge
from rdmadiag.render import prometheus
from rdmadiag.view.reconcile import devices

pytestmark = pytest.mark.once

SCRIPTS: Final = sorted(DEPLOY.glob("slurm/*.sh"))
SAMPLE: Final = ("--sample", "roce-healthy")


@pytest.mark.parametrize("name", command_lines())
def test_each_command_line_is_understood(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    argv = command_lines()[name]
    for option, stands_for in (("--output", tmp_path / "out"), ("--expect", tmp_path / "in")):
        if option in argv:
            argv[argv.index(option) + 1] = str(stands_for)
    (tmp_path / "in").write_text("[host]\ndevices = 2\n")
    assert run((*argv, *SAMPLE)) == 0
    assert capfd.readouterr().err == ""
    assert (tmp_path / "out").exists() == ("--output" in argv)


# --- Slurm ------------------------------------------------------------------------------------


_ONCE = """#!/bin/sh
expected=$(cat "$RDMADIAG_EXPECTED" 2>/dev/null)
said={folder}/$(echo "$* {sample} $expected" | cksum | tr " " -)
if [ ! -e "$said.code" ]; then
    {python} -m rdmadiag "$@" --sample {sample} >"$said.out" 2>"$said.err"
    echo $? >"$said.code"
fi
cat "$said.out"
cat "$said.err" >&2
exit "$(cat "$said.code")"
"""
"""What the program says of a sample and arguments, which is the same each time."""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("answers")


@pytest.fixture
def shell(tmp_path: Path, answers: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Runs a script of deploy/slurm with what our rdmadiag says, a scontrol and a logger that
    write down, and a sinfo that shows the node as `node` says.
    """
    fakes = tmp_path / "bin"
    fakes.mkdir()
    for name in ("scontrol", "logger"):
        lines = f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/{name}\n'
        (fakes / name).write_text(lines)
    (fakes / "pgrep").write_text("#!/bin/sh\nexit 1\n")

    def call(
        name: str, sample: str, node: str = "idle none", **variables: str
    ) -> "subprocess.CompletedProcess[str]":
        (fakes / "sinfo").write_text(f"#!/bin/sh\necho {shlex.quote(node)}\n")
        (fakes / "rdmadiag").write_text(
            _ONCE.format(folder=answers, python=sys.executable, sample=sample)
        )
        for path in fakes.iterdir():
            path.chmod(0o755)
        path = f"{fakes}:{os.environ['PATH']}"
        return subprocess.run(
            ["sh", str(DEPLOY / "slurm" / name)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd=CHECKOUT,
            env={**os.environ, "PATH": path, **variables},
        )

    return call


@pytest.mark.parametrize(
    ("sample", "code"), [("roce-healthy", 0), ("roce-empty-gid-table", 1)], ids=["good", "bad"]
)
def test_the_prolog_fails_for_a_critical_verdict(
    sample: str, code: int, shell: Callable[..., Any]
) -> None:
    done = shell("prolog.sh", sample, RDMADIAG_EXPECTED="/nowhere")
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("OK" if code == 0 else "CRITICAL")
    assert done.stderr.count("\n") == 1


def test_the_prolog_reads_expectations_where_there_are_any(
    shell: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "expected.toml").write_text("[host]\ndevices = 8\n")
    done = shell("prolog.sh", "roce-healthy", RDMADIAG_EXPECTED=str(tmp_path / "expected.toml"))
    assert done.returncode == 1
    assert "8 RDMA devices expected, 2 found" in done.stderr
    (tmp_path / "expected.toml").write_text("[host]\ndevises = 8\n")
    mistaken = shell("prolog.sh", "roce-healthy", RDMADIAG_EXPECTED=str(tmp_path / "expected.toml"))
    assert mistaken.returncode == 0, "a typo in a file of all nodes drains none"
    assert "did you mean devices?" in mistaken.stderr


def test_the_health_check_drains_a_bad_node_with_the_reason(
    shell: Callable[..., Any], tmp_path: Path
) -> None:
    assert shell("healthcheck.sh", "roce-healthy", RDMADIAG_EXPECTED="/nowhere").returncode == 0
    assert not (tmp_path / "scontrol").exists()
    sample = "roce-empty-gid-table"
    shell("healthcheck.sh", sample, RDMADIAG_EXPECTED="/nowhere", SLURMD_NODENAME="n7")
    update, node, state, reason = (tmp_path / "scontrol").read_text().splitlines()
    assert (update, node, state) == ("update", "nodename=n7", "state=drain")
    assert reason.startswith("reason=rdmadiag: CRITICAL  ")
    assert "CRITICAL  " in (tmp_path / "logger").read_text()


BAD, GOOD = "roce-empty-gid-table", "roce-healthy"


@pytest.mark.parametrize(
    ("sample", "node", "resume", "update"),
    [
        pytest.param(BAD, "drained disk is broken", "yes", None, id="drained by somebody else"),
        pytest.param(BAD, "down* Not responding", "yes", None, id="down for another reason"),
        pytest.param(BAD, "draining Prolog error", "yes", None, id="drained by slurmctld"),
        pytest.param(BAD, "maint planned", "yes", None, id="in maintenance"),
        pytest.param(BAD, "drained rdmadiag: CRITICAL  old", "no", "drain", id="a newer verdict"),
        pytest.param(BAD, "", "yes", None, id="slurmctld does not answer"),
        pytest.param(GOOD, "drained rdmadiag: CRITICAL  old", "no", None, id="off by default"),
        pytest.param(GOOD, "drained rdmadiag: CRITICAL  old", "yes", "resume", id="ours"),
        pytest.param(GOOD, "drained disk is broken", "yes", None, id="well, and not ours"),
        pytest.param(GOOD, "drained see rdmadiag: x", "yes", None, id="a tag in another's words"),
        pytest.param(GOOD, "down* rdmadiag: CRITICAL  old", "yes", None, id="ours, and down since"),
        pytest.param(GOOD, "idle none", "yes", None, id="well and in service"),
    ],
)
def test_only_what_is_ours_is_changed(
    sample: str,
    node: str,
    resume: str,
    update: str | None,
    shell: Callable[..., Any],
    tmp_path: Path,
) -> None:
    variables = {"RDMADIAG_EXPECTED": "/nowhere", "RDMADIAG_RESUME": resume}
    assert shell("healthcheck.sh", sample, node, **variables).returncode == 0
    done = (tmp_path / "scontrol").read_text() if (tmp_path / "scontrol").exists() else None
    assert (done and re.findall("^state=(.*)$", done, re.MULTILINE)) == (update and [update])


def test_a_note_on_a_node_in_service_is_kept_behind_ours(
    shell: Callable[..., Any], tmp_path: Path
) -> None:
    shell("healthcheck.sh", BAD, "idle new DIMMs", RDMADIAG_EXPECTED="/nowhere")
    (reason,) = re.findall("^reason=(.*)$", (tmp_path / "scontrol").read_text(), re.MULTILINE)
    assert re.fullmatch(r"rdmadiag: CRITICAL  .* \(before: new DIMMs\)", reason)


def test_a_reason_that_stands_already_is_not_written_again(
    shell: Callable[..., Any], tmp_path: Path
) -> None:
    shell("healthcheck.sh", BAD, RDMADIAG_EXPECTED="/nowhere")
    (reason,) = re.findall("^reason=(.*)$", (tmp_path / "scontrol").read_text(), re.MULTILINE)
    (tmp_path / "scontrol").unlink()
    shell("healthcheck.sh", BAD, f"drained {reason}", RDMADIAG_EXPECTED="/nowhere")
    assert not (tmp_path / "scontrol").exists()


def test_a_node_that_cannot_be_looked_at_is_not_given_back(tmp_path: Path) -> None:
    """With --profile slurm unknown exits 0, as ok does."""
    Machine("bare").write(str(tmp_path / "bare"), "no device")
    for name, line in (
        ("rdmadiag", f'exec {sys.executable} -m rdmadiag "$@" --from {tmp_path}/bare'),
        ("sinfo", "echo 'drained rdmadiag: CRITICAL  old'"),
        ("scontrol", f"touch {tmp_path}/changed"),
        ("logger", "true"),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    variables = {"RDMADIAG_RESUME": "yes", "RDMADIAG_EXPECTED": "/nowhere"}
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", **variables}
    script = ["sh", str(DEPLOY / "slurm" / "healthcheck.sh")]
    subprocess.run(script, env=environment, timeout=60, check=True, cwd=CHECKOUT)
    assert not (tmp_path / "changed").exists()


@pytest.mark.parametrize("sample", [GOOD, BAD], ids=["good", "bad"])
def test_the_prolog_writes_its_verdict_to_the_log_of_the_node(
    sample: str, shell: Callable[..., Any], tmp_path: Path
) -> None:
    """slurmd shows nothing of a Prolog that exits 0."""
    shell("prolog.sh", sample, RDMADIAG_EXPECTED="/nowhere", SLURM_JOB_ID="17")
    *_, priority, _, message = (tmp_path / "logger").read_text().splitlines()
    assert priority == ("daemon.info" if sample == GOOD else "daemon.err")
    assert message.startswith("job 17: OK" if sample == GOOD else "job 17: CRITICAL")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
@pytest.mark.slow
def test_a_program_that_hangs_is_ended_before_slurmd_ends_the_script(
    script: Path, tmp_path: Path
) -> None:
    kept = script.read_text().replace("timeout -k 5 40", "timeout -k 1 2")
    assert kept != script.read_text()
    (tmp_path / "script").write_text(kept)
    for name, line in (
        ("rdmadiag", "trap '' TERM; sleep 60"),
        ("scontrol", f"touch {tmp_path}/drained"),
        ("sinfo", "echo idle none"),
        ("logger", "true"),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["/bin/sh", str(tmp_path / "script")], env=environment, timeout=30, check=False
    )
    assert (done.returncode, (tmp_path / "drained").exists()) == (0, False)


# --- NHC --------------------------------------------------------------------------------------

_NHC: Final = """
dbg() {{ echo "dbg $*"; }}
die() {{ shift; eval echo "'died: $*'"; }}  # NHC's own passes it through eval, too
. {script}
check_rdmadiag && echo passed
"""


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("OK  2 ports", 0, "passed"),
        ("WARN  a link is slow", 0, "passed"),
        ("CRITICAL  no GID", 1, "died: check_rdmadiag:  CRITICAL  no GID"),
        ("", 1, "passed"),
        ("", 137, "passed"),
        ("CRITICAL  x'; echo pwned; '", 1, "died: check_rdmadiag:  CRITICAL  x; echo pwned; "),
    ],
    ids=["ok", "warn", "critical", "an ImportError", "killed", "a name with a quote"],
)
def test_nhc_is_told_of_a_critical_verdict_alone(
    line: str, code: int, said: str, tmp_path: Path
) -> None:
    (tmp_path / "rdmadiag").write_text(f"#!/bin/sh\nprintf '%s' {shlex.quote(line)}\nexit {code}\n")
    (tmp_path / "rdmadiag").chmod(0o755)
    done = subprocess.run(
        ["bash", "-c", _NHC.format(script=DEPLOY / "slurm" / "rdmadiag.nhc")],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == (f"{said}\n", "")


def test_nhcs_own_path_does_not_hide_the_program() -> None:
    """NHC sets PATH to the system's folders: without ours the check would never run."""
    fakes = 'rdmadiag() { :; }; timeout() { echo "CRITICAL  $PATH"; return 1; }'
    done = subprocess.run(
        ["bash", "-c", fakes + _NHC.format(script=DEPLOY / "slurm" / "rdmadiag.nhc")],
        env={"PATH": "/sbin:/usr/sbin:/bin:/usr/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.rstrip().endswith(":/usr/local/bin")


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="no shellcheck here")
@pytest.mark.parametrize(
    "path", [*SCRIPTS, DEPLOY / "slurm" / "rdmadiag.nhc"], ids=lambda p: p.name
)
def test_shellcheck_has_nothing_to_say(path: Path) -> None:
    shell = "bash" if path.suffix == ".nhc" else "sh"
    done = subprocess.run(
        ["shellcheck", "-s", shell, "-e", "SC2128", str(path)],  # NHC's checks use $FUNCNAME so
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
@pytest.mark.parametrize("code", [1, 126, 127, 137])
def test_a_program_that_cannot_start_drains_no_node(
    script: Path, code: int, tmp_path: Path
) -> None:
    """A broken installation is the same on all nodes: an ImportError exits 1, a kill 137."""
    for name, line in (("rdmadiag", f"exit {code}"), ("scontrol", f"touch {tmp_path}/drained")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", str(script)],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        timeout=10,
        check=False,
    )
    assert (done.returncode, (tmp_path / "drained").exists()) == (0, False)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_node_without_rdmadiag_is_not_drained(script: Path, tmp_path: Path) -> None:
    assert os.access(script, os.X_OK)
    kept = script.read_text().replace("$PATH:/usr/local/bin:", "$PATH:")
    (tmp_path / "script").write_text(kept)
    done = subprocess.run(
        ["/bin/sh", str(tmp_path / "script")],
        env={"PATH": "/nowhere"},
        timeout=60,
        check=False,
        capture_output=True,
    )
    assert done.returncode == 0


# --- systemd ----------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
@pytest.mark.parametrize("name", ["rdmadiag-textfile.service", "rdmadiag-watch.service"])
def test_the_service_is_hardened(name: str) -> None:
    unit = str(DEPLOY / "systemd" / name)
    done = subprocess.run(
        ["systemd-analyze", "--no-pager", "security", "--offline=yes", "--threshold=30", unit],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if "unrecognized option" in done.stderr:
        pytest.skip("systemd-analyze cannot look at a file")
    assert done.returncode == 0, done.stdout[-300:]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    for unit in (DEPLOY / "systemd").iterdir():
        # The program has to be there; here it is elsewhere.
        kept = unit.read_text().replace("/usr/local/bin/rdmadiag", sys.executable)
        (tmp_path / unit.name).write_text(kept)
    done = subprocess.run(
        ["systemd-analyze", "--man=no", "verify", *map(str, sorted(tmp_path.iterdir()))],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_timers_service_is_there_and_writes_where_it_may() -> None:
    service = text("systemd/rdmadiag-textfile.service")
    (folder,) = re.findall(r"^ReadWritePaths=(.*)$", service, re.MULTILINE)
    (output,) = re.findall(r"--output (\S+)", service)
    assert output == f"{folder}/rdmadiag.prom"


# --- Prometheus -------------------------------------------------------------------------------


def metrics() -> set[str]:
    """Every name that the textfile of a host with all there is has."""
    host = roce_host().evidence()
    file = parse_toml(b'[device."mlx5_*"]\ngid_index = 3\n', "x")
    verdict = judge(host, expectations=expectations(file))
    found = prometheus.text(verdict, devices(host), datetime.now(UTC))
    return set(re.findall(r"^# TYPE (\S+)", found, re.MULTILINE))


def test_rules_and_page_name_metrics_that_there_are() -> None:
    groups = yaml.safe_load(text("prometheus/rdmadiag.rules.yml"))["groups"]
    expressions = [rule["expr"] for group in groups for rule in group["rules"]]
    assert all({"alert", "expr", "annotations"} <= set(r) for g in groups for r in g["rules"])
    assert set(re.findall(r"rdmadiag_\w+", " ".join(expressions))) <= metrics()
    page = (CHECKOUT / "docs" / "deploy" / "node_exporter.md").read_text()
    assert set(re.findall(r"`(rdmadiag_\w+)`", page)) == metrics()


# --- Kubernetes: the fields of its API reference that the manifest may use ---------------------

_META: Final = {
    "type": "object",
    "required": ["name"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63},
        "namespace": {"type": "string"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
_SECONDS: Final = {"type": "integer", "minimum": 1}
_CONTAINER: Final = {
    "type": "object",
    "required": ["name", "image"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string"},
        "image": {"type": "string"},
        "command": {"type": "array", "items": {"type": "string"}},
        "readinessProbe": {
            "type": "object",
            "additionalProperties": False,
            "required": ["exec"],
            "properties": {
                "exec": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {"command": {"type": "array", "items": {"type": "string"}}},
                },
                "initialDelaySeconds": _SECONDS,
                "periodSeconds": _SECONDS,
                "timeoutSeconds": _SECONDS,
                "failureThreshold": _SECONDS,
            },
        },
        "securityContext": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "privileged": {"type": "boolean"},
                "allowPrivilegeEscalation": {"type": "boolean"},
                "readOnlyRootFilesystem": {"type": "boolean"},
                "capabilities": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        kind: {"type": "array", "items": {"type": "string"}}
                        for kind in ("add", "drop")
                    },
                },
            },
        },
        "resources": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                kind: {"type": "object", "additionalProperties": {"type": ["string", "integer"]}}
                for kind in ("requests", "limits")
            },
        },
        "volumeMounts": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "mountPath"],
                "additionalProperties": False,
                "properties": {
                    "name": {"type": "string"},
                    "mountPath": {"type": "string"},
                    "readOnly": {"type": "boolean"},
                },
            },
        },
    },
}
_POD: Final = {
    "type": "object",
    "required": ["containers"],
    "additionalProperties": False,
    "properties": {
        "nodeSelector": {"type": "object", "additionalProperties": {"type": "string"}},
        "hostNetwork": {"type": "boolean"},
        "automountServiceAccountToken": {"type": "boolean"},
        "enableServiceLinks": {"type": "boolean"},
        "securityContext": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "runAsNonRoot": {"type": "boolean"},
                "runAsUser": {"type": "integer", "minimum": 0},
                "runAsGroup": {"type": "integer", "minimum": 0},
                "seccompProfile": {
                    "type": "object",
                    "required": ["type"],
                    "properties": {"type": {"enum": ["RuntimeDefault", "Unconfined", "Localhost"]}},
                },
            },
        },
        "terminationGracePeriodSeconds": {"type": "integer", "minimum": 0},
        "tolerations": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "key": {"type": "string"},
                    "operator": {"enum": ["Exists", "Equal"]},
                    "value": {"type": "string"},
                    "effect": {"enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"]},
                },
            },
        },
        "containers": {"type": "array", "minItems": 1, "items": _CONTAINER},
        "volumes": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name"],
                "minProperties": 2,
                "maxProperties": 2,
                "additionalProperties": False,
                "properties": {
                    "name": {"type": "string"},
                    "hostPath": {
                        "type": "object",
                        "required": ["path"],
                        "properties": {
                            "path": {"type": "string"},
                            "type": {"enum": ["Directory", "File", "CharDevice", "Socket"]},
                        },
                        "additionalProperties": False,
                    },
                    "configMap": {"type": "object", "required": ["name"]},
                },
            },
        },
    },
}
KINDS: Final[dict[str, Any]] = {
    "ConfigMap": {
        "type": "object",
        "required": ["apiVersion", "kind", "metadata"],
        "additionalProperties": False,
        "properties": {
            "apiVersion": {"const": "v1"},
            "kind": {"const": "ConfigMap"},
            "metadata": _META,
            "data": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    },
    "DaemonSet": {
        "type": "object",
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "additionalProperties": False,
        "properties": {
            "apiVersion": {"const": "apps/v1"},
            "kind": {"const": "DaemonSet"},
            "metadata": _META,
            "spec": {
                "type": "object",
                "required": ["selector", "template"],
                "additionalProperties": False,
                "properties": {
                    "selector": {"type": "object", "required": ["matchLabels"]},
                    "template": {
                        "type": "object",
                        "additionalProperties": False,
                        "properties": {
                            "metadata": {**_META, "required": ["labels"]},
                            "spec": _POD,
                        },
                    },
                },
            },
        },
    },
}


def test_the_manifest_has_nothing_that_kubernetes_does_not_know() -> None:
    for each in manifests():
        jsonschema.Draft202012Validator(KINDS[each["kind"]]).validate(each)
    config, daemonset = manifests()
    spec = daemonset["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"].items() <= labels.items()
    pod = spec["template"]["spec"]
    volumes = {each["name"]: each for each in pod["volumes"]}
    assert {mount["name"] for mount in pod["containers"][0]["volumeMounts"]} == set(volumes)
    assert volumes["expected"]["configMap"]["name"] == config["metadata"]["name"]


def test_the_pod_has_nothing_that_it_does_not_need() -> None:
    (_, daemonset) = manifests()
    pod = daemonset["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    own = container["securityContext"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert "privileged" not in own
    assert own["readOnlyRootFilesystem"] is True
    assert own["allowPrivilegeEscalation"] is False
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert not [volume for volume in pod["volumes"] if "hostPath" in volume]
    assert all(mount["readOnly"] for mount in container["volumeMounts"])
    assert {"cpu", "memory"} <= container["resources"]["limits"].keys()
    assert re.fullmatch(r"rdmadiag@sha256:[0-9a-f]{64}", container["image"])


def test_the_probe_ends_before_kubernetes_ends_it() -> None:
    argv = probe()
    (_, daemonset) = manifests()
    (container,) = daemonset["spec"]["template"]["spec"]["containers"]
    assert int(argv[argv.index("--timeout") + 1]) < container["readinessProbe"]["timeoutSeconds"]


def test_the_config_map_holds_expectations() -> None:
    (config, _) = manifests()
    (name, content) = next(iter(config["data"].items()))
    assert probe()[probe().index("--expect") + 1].endswith(f"/{name}")
    assert len(expectations(parse_toml(content.encode(), name)).expected) == 4


# --- GitHub, Nagios ---------------------------------------------------------------------------


def test_the_workflow_is_one() -> None:
    found = workflow()
    assert set(found) == {"name", True, "jobs"}, "`on` is true in YAML 1.1"
    (job,) = found["jobs"].values()
    assert set(job) <= {"runs-on", "timeout-minutes", "permissions", "steps"}
    for step in job["steps"]:
        assert ("run" in step) != ("uses" in step)
    written = re.findall(r"--output (\S+)", job["steps"][1]["run"])
    assert written == [job["steps"][2]["with"]["path"]]


def test_nagios_objects_are_defined_in_full() -> None:
    objects = re.findall(r"define (\w+) \{\n(.*?)\n\}", text("nagios/services.cfg"), re.DOTALL)
    assert [kind for kind, _ in objects] == ["command", "service"]
    command = dict(line.split(None, 1) for line in objects[0][1].splitlines())
    service = dict(line.split(None, 1) for line in objects[1][1].splitlines())
    assert service["check_command"] == command["command_name"]
