"""Files to install where other programs look for them, as a checkout and an installed package
have them: scripts of Slurm, units of systemd, manifests, rules. docs/deploy/ has a page on each.
"""

import os
from typing import Final

from rdmadiag.nearest import instead

FOLDER: Final = os.path.dirname(__file__)

FILES: Final = {
    "github/rdma.yml": "GitHub Actions: a job on runners of your own",
    "kubernetes/Containerfile": "Kubernetes: the image",
    "kubernetes/daemonset.yaml": "Kubernetes: a pod on each node, ready while its RDMA is",
    "kubernetes/expected.toml": "Kubernetes: what is expected of a node, for kustomization.yaml",
    "kubernetes/kustomization.yaml": "Kubernetes: the DaemonSet with values of yours",
    "kubernetes/node-problem-detector.json": "Kubernetes: a condition of the node",
    "nagios/nrpe.cfg": "Nagios: the command of NRPE, on each host",
    "nagios/services.cfg": "Nagios: command and service, on the server",
    "prometheus/rdmadiag.rules.yml": "Prometheus: alerts",
    "slurm/healthcheck.sh": "Slurm: HealthCheckProgram, drains a node between jobs",
    "slurm/prolog.sh": "Slurm: Prolog, keeps a job from a node that would fail it",
    "slurm/rdmadiag.nhc": "Slurm, Torque, LSF: a check for LBNL NHC",
    "systemd/rdmadiag-textfile.service": "systemd: a file for node_exporter",
    "systemd/rdmadiag-textfile.timer": "systemd: every five minutes",
    "systemd/rdmadiag-watch.service": "systemd: the last events, in a ring on disk",
}
"""Name → what reads it, and what for."""


class NoSuchFile(ValueError):
    """A name that is none of FILES; the message has the nearest, or lists them."""


def path(name: str) -> str:
    """Where a file is; raises NoSuchFile."""
    if name not in FILES:
        raise NoSuchFile(f"no file {name!r}; {instead(name, FILES)}")
    return os.path.join(FOLDER, name)
