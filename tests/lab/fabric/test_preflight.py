"""The verdict for every host of an InfiniBand fabric, before and after its subnet manager."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from lab.fabric import Fabric

Call = Callable[..., tuple[int, Any]]

HCAS = 64


def verdict(fabric: Fabric, host: str, rdmadiag_json: Call) -> tuple[int, Any]:
    code, document = rdmadiag_json("preflight", "--from", str(fabric.tree(host)))
    return code, document["verdict"]


def serious(verdict: Any) -> list[tuple[str, str]]:
    found = ((each["rule"], each["severity"]) for each in verdict["findings"])
    return [each for each in found if each[1] != "info"]


def test_every_host_waits_for_a_subnet_manager_and_is_ready_after_its_sweep(
    rdmadiag_json: Call,
) -> None:
    with Fabric(HCAS) as fabric:
        hosts = fabric.hosts()
        assert len(hosts) == HCAS
        for host in hosts:
            code, before = verdict(fabric, host, rdmadiag_json)
            assert code == 2
            assert serious(before) == [("no-subnet-manager", "critical")]
            assert before["safe_to_attempt_rtr"] is False
            assert before["ports"][0]["reasons"] == ["port_not_active", "no_lid"]
        fabric.sweep(deadline=60.0)
        for host in hosts:
            code, after = verdict(fabric, host, rdmadiag_json)
            assert (code, after["status"], serious(after)) == (0, "ok", [])
            assert after["safe_to_attempt_rtr"] is True


def test_a_cut_link_is_named_and_the_others_stay_ready(fabric: Fabric, rdmadiag_json: Call) -> None:
    fabric.sweep(deadline=60.0)
    host, other = fabric.hosts()[-2:]
    fabric.unlink(host, 1)
    try:
        code, cut = verdict(fabric, host, rdmadiag_json)
        assert (code, serious(cut)) == (2, [("link-not-up", "critical")])
        finding = next(each for each in cut["findings"] if each["rule"] == "link-not-up")
        assert (finding["device"], finding["port"]) == ("ibsim0", 1)
        assert cut["safe_to_attempt_rtr"] is False
        code, whole = verdict(fabric, other, rdmadiag_json)
        assert (code, whole["safe_to_attempt_rtr"]) == (0, True)
    finally:
        fabric.relink(host, 1)


def by_ibstat(text: str) -> dict[str, str]:
    """ "Key: value" lines of one CA with one port."""
    return dict(re.findall(r"^\s*([A-Z][\w ]+): (.*)$", text, re.MULTILINE))


STATE = {"down": "Down", "init": "Initializing", "armed": "Armed", "active": "Active"}
PHYS = {"polling": "Polling", "link_up": "LinkUp", "disabled": "Disabled"}


@pytest.mark.parametrize(
    "swept",
    [
        pytest.param(False, id="before the sweep", marks=pytest.mark.long),
        pytest.param(True, id="after the sweep"),
    ],
)
def test_devices_agree_with_ibstat_for_every_host(
    swept: bool, rdmadiag: Callable[..., tuple[int, str, str]]
) -> None:
    with Fabric(HCAS) as fabric:
        if swept:
            fabric.sweep(deadline=60.0)
        for host in fabric.hosts():
            _, out, _ = rdmadiag("devices", "--json", "--from", str(fabric.tree(host)))
            (device,) = json.loads(out)["devices"]
            (port,) = device["ports"]
            theirs = by_ibstat(fabric.ibstat(host))
            assert STATE[port["state"]] == theirs["State"]
            assert PHYS[port["phys_state"]] == theirs["Physical state"]
            assert f"{port['rate_gbps']:g}" == theirs["Rate"]
            assert port["lid"] == int(theirs["Base lid"])
            assert port["sm_lid"] == int(theirs["SM lid"])
            assert int(device["node_guid"].replace(":", ""), 16) == int(theirs["Node GUID"], 16)
            assert device["firmware"] == theirs["Firmware version"]
            assert (theirs["Link layer"], port["link_layer"]) == ("IB", "infiniband")
