"""release/: sums that are signed, and manifests with values of one's own."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from lab.deployed import DEPLOY, manifests
from rdmadiag import __version__
from rdmadiag.host.toml_file import parse_toml
from rdmadiag.preflight.expectations.written import expectations

pytestmark = pytest.mark.once

CHECKOUT: Final = Path(__file__).parents[2]
KUBERNETES: Final = DEPLOY / "kubernetes"
DASH: Final = "\N{EN DASH}"

needs_ssh_keygen = pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="no ssh-keygen")
needs_kubectl = pytest.mark.skipif(not shutil.which("kubectl"), reason="no kubectl")


# --- the version ----------------------------------------------------------------------------


def test_the_changelog_begins_with_what_is_not_released_or_with_this_version() -> None:
    headings = re.findall(r"^## (.*)$", (CHECKOUT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased" or headings[0].startswith(f"{__version__} {DASH} ")
    released = [each for each in headings if each != "Unreleased"]
    assert re.fullmatch(rf"{re.escape(__version__)} {DASH} \d{{4}}-\d\d-\d\d", released[0])
    debian = (CHECKOUT / "debian" / "changelog").read_text()
    assert debian.startswith(f"rdmadiag ({__version__}) ")


@pytest.mark.parametrize("heading", ["## Unreleased", "## 9.9.9", f"## 9.9.90 {DASH} 2026-11-25"])
def test_a_version_without_its_heading_is_not_released(tmp_path: Path, heading: str) -> None:
    release = tmp_path / "release"
    release.mkdir()
    shutil.copy(CHECKOUT / "release" / "dist.sh", release)
    (tmp_path / "CHANGELOG.md").write_text(f"{heading}\n")
    (tmp_path / "dist").mkdir()
    (tmp_path / "hatchling").write_text('#!/bin/sh\n[ "$*" = version ] && echo 9.9.9\n')
    (tmp_path / "hatchling").chmod(0o755)
    done = subprocess.run(
        ["sh", str(release / "dist.sh")],
        env={**os.environ, "BIN": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    said = f'release: CHANGELOG.md has no heading "## 9.9.9 {DASH} DATE"\n'
    assert (done.returncode, done.stderr) == (1, said)
    assert (tmp_path / "dist").is_dir()  # what was there before is


# --- signatures -------------------------------------------------------------------------------


@pytest.fixture
def signed(tmp_path: Path) -> Path:
    """A folder with a release of one file, and a key beside it that is thrown away."""
    dist = tmp_path / "dist"
    dist.mkdir()
    (dist / "rdmadiag.whl").write_text("a wheel")
    sums = subprocess.run(["sha256sum", "rdmadiag.whl"], cwd=dist, capture_output=True, check=True)
    (dist / "SHA256SUMS").write_bytes(sums.stdout)
    key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(tmp_path / "key")]
    subprocess.run(key, check=True)
    return dist


def _sign(dist: Path) -> "subprocess.CompletedProcess[str]":
    script = str(CHECKOUT / "release" / "sign.sh")
    return subprocess.run(
        ["sh", script, "key", "dist"], cwd=dist.parent, capture_output=True, text=True, check=False
    )


def _verify(dist: Path) -> int:
    """The line of SECURITY.md."""
    (line,) = re.findall(
        "^ssh-keygen -Y verify .*$", (CHECKOUT / "SECURITY.md").read_text(), re.MULTILINE
    )
    return subprocess.run(["sh", "-c", line], cwd=dist, capture_output=True, check=False).returncode


@needs_ssh_keygen
def test_what_was_signed_is_verified_as_the_page_says(signed: Path) -> None:
    done = _sign(signed)
    assert (done.returncode, _verify(signed)) == (0, 0), done.stderr
    (signed / "SHA256SUMS").write_text(f"{'0' * 64}  rdmadiag.whl\n")
    assert _verify(signed) != 0


@needs_ssh_keygen
def test_a_file_that_changed_since_its_sum_was_taken_is_not_signed(signed: Path) -> None:
    (signed / "rdmadiag.whl").write_text("another wheel")
    assert _sign(signed).returncode != 0
    assert not (signed / "SHA256SUMS.sig").exists()


@needs_ssh_keygen
def test_a_file_without_a_sum_is_named(signed: Path) -> None:
    (signed / "late.whl").write_text("")
    done = _sign(signed)
    assert (done.returncode, done.stderr) == (1, "release: late.whl is not in SHA256SUMS\n")


# --- Kubernetes -------------------------------------------------------------------------------


def _kustomization() -> Any:
    return yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())


def test_each_value_of_the_kustomization_is_one_that_the_daemonset_has() -> None:
    """And the same, so that what is not edited stays."""
    (daemonset,) = [each for each in manifests() if each["kind"] == "DaemonSet"]
    (patch,) = _kustomization()["patches"]
    rows = yaml.safe_load(patch["patch"])
    assert len(rows) == 4
    for row in rows:
        found = daemonset
        for step in row["path"].strip("/").split("/"):
            found = found[int(step) if step.isdigit() else step]
        assert (row["op"], found) == ("replace", row["value"])


def test_expectations_beside_it_are_those_of_the_daemonset() -> None:
    (config,) = [each for each in manifests() if each["kind"] == "ConfigMap"]
    text = (KUBERNETES / "expected.toml").read_text()
    assert config["data"]["expected.toml"] == text
    assert expectations(parse_toml(text.encode(), "expected.toml")).expected


@needs_kubectl
def test_kubectl_puts_them_together(tmp_path: Path) -> None:
    for name in ("daemonset.yaml", "kustomization.yaml"):
        shutil.copy(KUBERNETES / name, tmp_path)
    (tmp_path / "expected.toml").write_text("[host]\ndevices = 2\n")
    mine = (KUBERNETES / "kustomization.yaml").read_text()
    mine = mine.replace("namespace: kube-system\nimages", "namespace: fabric\nimages")
    mine = mine.replace("rdma/hca_shared_devices_a", "rdma/mine")
    (tmp_path / "kustomization.yaml").write_text(mine)
    done = subprocess.run(
        ["kubectl", "kustomize", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    config, daemonset = yaml.safe_load_all(done.stdout)
    assert {config["metadata"]["namespace"], daemonset["metadata"]["namespace"]} == {"fabric"}
    assert config["data"]["expected.toml"] == "[host]\ndevices = 2\n"
    (container,) = daemonset["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"]["rdma/mine"] == 1
    assert container["image"].startswith("registry.example/rdmadiag@sha256:")


# --- the folder -------------------------------------------------------------------------------


def test_each_script_is_a_target_of_make() -> None:
    makefile = (CHECKOUT / "Makefile").read_text()
    scripts = {path.name for path in (CHECKOUT / "release").glob("*.sh")}
    assert scripts == set(re.findall(r"release/([a-z_]+\.sh)", makefile))


def test_tools_of_a_release_are_no_dependency_of_the_program() -> None:
    with (CHECKOUT / "pyproject.toml").open("rb") as file:
        document = tomllib.load(file)
    tools = {each.partition(">")[0] for each in document["dependency-groups"]["release"]}
    assert not tools & {each.partition(">")[0] for each in document["project"]["dependencies"]}
