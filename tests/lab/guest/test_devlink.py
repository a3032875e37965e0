"""devlink of a live kernel: soft RoCE on a port of netdevsim, which has health and versions."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.netdevsim import simulated
from lab.rxe import Rxe

pytestmark = pytest.mark.needs("netdevsim")

NUMBER = 12
HANDLE = f"netdevsim/netdevsim{NUMBER}"
DEBUG = Path("/sys/kernel/debug")
HEALTH = DEBUG / "netdevsim" / f"netdevsim{NUMBER}" / "health"
SECONDS = 30.0

Call = Callable[..., tuple[int, Any]]
Run = Callable[..., Any]


@pytest.fixture(scope="module")
def rxe(request: pytest.FixtureRequest) -> Iterator[Rxe]:
    """rxe0 on the port of a simulated device."""
    run: Run = request.getfixturevalue("run")
    if not (DEBUG / "netdevsim").exists():
        run(["mount", "-t", "debugfs", "debugfs", str(DEBUG)], timeout=SECONDS)
    with simulated(NUMBER) as device:
        yield device


def shown(run: Run, *words: str) -> Any:
    """`devlink -j`."""
    done = run(["devlink", "-j", *words], timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def device_of(document: Any) -> dict[str, Any]:
    (device,) = document["evidence"]["devlink"]["devices"]
    assert (device["bus"], device["name"]) == tuple(HANDLE.split("/"))
    assert device["devices"] == ["rxe0"]
    return dict(device)


def agrees(device: dict[str, Any], run: Run) -> None:
    """Reporters field by field."""
    theirs = [
        (each["reporter"], each["state"], each["error"], each["recover"])
        for each in shown(run, "health", "show")["health"][HANDLE]
    ]
    ours = [
        (each["name"], each["state"], each["errors"], each["recoveries"])
        for each in device["reporters"]
    ]
    assert sorted(ours) == sorted(theirs)


def test_reporters_versions_and_eswitch_are_what_devlink_shows(
    rxe: Rxe, run: Run, rdmadiag_json: Call
) -> None:
    code, document = rdmadiag_json("preflight", "--timeout", "30")
    assert (code, document["verdict"]["status"]) == (0, "ok"), document["verdict"]["findings"]
    device = device_of(document)
    agrees(device, run)
    info = shown(run, "dev", "info", HANDLE)["info"][HANDLE]
    assert device["info"]["driver"] == info["driver"] == "netdevsim"
    for kind in ("fixed", "running", "stored"):
        ours = {each["name"]: each["value"] for each in device["info"][kind]}
        assert ours == info.get("versions", {}).get(kind, {})
    mode = shown(run, "dev", "eswitch", "show", HANDLE)["dev"][HANDLE]["mode"]
    assert device["eswitch"] == mode == "legacy"
    assert device["enable_roce"]["why"] == "unsupported", "netdevsim has no such parameter"


def test_a_reporter_in_error_is_found_and_a_recovered_one_is_not(
    rxe: Rxe, run: Run, rdmadiag_json: Call
) -> None:
    (HEALTH / "fail_recover").write_text("Y")
    with pytest.raises(OSError, match="canceled"):  # the recovery's, which fails
        (HEALTH / "break_health").write_text("broken on purpose")
    code, document = rdmadiag_json("preflight", "--timeout", "30")
    (finding,) = [
        each for each in document["verdict"]["findings"] if each["rule"] == "device-health-error"
    ]
    assert (code, finding["severity"], finding["device"]) == (1, "warn", "rxe0")
    assert f"health reporter dummy, {HANDLE}, is in error" in finding["summary"]
    agrees(device_of(document), run)
    (HEALTH / "fail_recover").write_text("N")
    recover = next(line for line in finding["remedy"] if "health recover" in line)
    words = recover.partition("#")[0].removeprefix("sudo ").split()
    assert run(words, timeout=SECONDS).returncode == 0
    code, document = rdmadiag_json("preflight", "--timeout", "30")
    assert (code, document["verdict"]["status"]) == (0, "ok")
    agrees(device_of(document), run)


def test_a_record_says_what_the_host_says(
    rxe: Rxe, rdmadiag_json: Call, rdmadiag: Callable[..., Any], tmp_path: Path
) -> None:
    folder = str(tmp_path / "record")
    assert rdmadiag("snapshot", folder)[0] == 0
    live, recorded = (
        device_of(rdmadiag_json("preflight", "--timeout", "30", *options)[1])
        for options in ((), ("--from", folder))
    )
    assert live == recorded
