"""What the files of deploy/ run: each command line, as its reader would start it."""

import json
import re
import shlex
from typing import Any, Final

import yaml

from lab.places import CHECKOUT

DEPLOY: Final = CHECKOUT / "rdmadiag" / "deploy"


def text(name: str) -> str:
    """A file of deploy/."""
    return (DEPLOY / name).read_text(encoding="utf-8")


def manifests() -> list[Any]:
    """The objects of the Kubernetes manifest."""
    return list(yaml.safe_load_all(text("kubernetes/daemonset.yaml")))


def workflow() -> Any:
    """The GitHub workflow; YAML 1.1 reads its key `on` as true."""
    return yaml.safe_load(text("github/rdma.yml"))


def probe() -> list[str]:
    """The readiness probe's argv."""
    (daemonset,) = [each for each in manifests() if each["kind"] == "DaemonSet"]
    (container,) = daemonset["spec"]["template"]["spec"]["containers"]
    found: list[str] = container["readinessProbe"]["exec"]["command"]
    return found


def command_lines() -> dict[str, list[str]]:
    """File → argv, of all that name rdmadiag themselves; the program's path is left out."""
    unit = text("systemd/rdmadiag-textfile.service").replace("\\\n", " ")
    started = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    detector = json.loads(text("kubernetes/node-problem-detector.json"))
    steps = [step["run"] for step in workflow()["jobs"]["preflight"]["steps"] if "run" in step]
    nrpe = re.findall(r"^command\[check_rdma\]=(.*)$", text("nagios/nrpe.cfg"), re.MULTILINE)
    found = {
        "systemd": shlex.split(started[0]),
        "kubernetes": probe(),
        "npd": [detector["rules"][0]["path"], *detector["rules"][0]["args"]],
        "nagios": shlex.split(nrpe[0]),
        "github annotations": shlex.split(steps[0]),
        "github report": shlex.split(steps[1]),
    }
    assert all(argv[0].rpartition("/")[2] == "rdmadiag" for argv in found.values())
    return {name: argv[1:] for name, argv in found.items()}
