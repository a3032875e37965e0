"""Recorded machines for tests/fixtures: `python -m lab.fixtures`, after `python -m lab all`.

Each folder holds ABOUT, the snapshot, and expected.json: what the host itself answered when
it was recorded. A fixture is made anew only on purpose; its answer is read before it is kept.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from lab.fabric import Fabric
from lab.mac import macs
from lab.places import CHECKOUT
from lab.samples import trim
from rdmadiag.host.recording import write_folder

FIXTURES = CHECKOUT / "tests" / "fixtures"
RECORDED = CHECKOUT / "lab" / "out" / "guest" / "recorded"
OF_DCB = CHECKOUT / "lab" / "out" / "guest" / "lossless" / "dcb"  # the shard's own

SOFT_ROCE = {
    "rxe-netdev-down": "veth0, below rxe0, was set down; veth1 lost its carrier with it.",
    "rxe-no-address": "veth0 lost all its addresses; rxe0 keeps its default link-local GID.",
    "rxe-hole-in-table": "An address of veth0 was replaced, which left an empty row in the table.",
    "rxe-link-local-only": "veth0 lost its IPv4 address and its global IPv6 address.",
    "rxe-ipv6-only": "veth0 lost its IPv4 address.",
    "rxe-two-mtus": "veth0 has MTU 9000, and veth1, the other end of the cable, 1500.",
    "rxe-env-absent-device": "NCCL_IB_HCA names mlx5_0, and there are rxe0 and rxe1.",
    "rxe-launcher-limited": "The parent of the one who looks may lock 64 KiB, he himself all.",
    "rxe-node-closed": "uverbs0 has mode 0000, and the one who looks is an ordinary user.",
}
DCB = {
    "dcb-class-not-lossless": "PFC is on for priority 3 and DSCP 26 leads to it; NCCL_IB_TC=96 is "
    "DSCP 24.",
    "dcb-lossless": "PFC is on for priority 3, DSCP 26 leads to it, and NCCL_IB_TC=106 is DSCP 26.",
}
SIMULATED = {
    "ibsim-no-subnet-manager": "A host of a simulated InfiniBand fabric before any sweep.",
    "ibsim-after-sweep": "A host of a simulated InfiniBand fabric after opensm's sweep.",
    "ibsim-cut-link": "A host of a simulated InfiniBand fabric whose cable was pulled.",
}


def answer(verdict: Any) -> dict[str, Any]:
    """What a fixture is held to: status, findings by rule and place, and each port's route."""
    findings = [
        [each["rule"], each["severity"], each["device"], each["port"]]
        for each in verdict["findings"]
    ]
    ports = [
        [each["device"], each["port"], each["state"], each["route_gid_index"], each["reasons"]]
        for each in verdict["ports"]
    ]
    return {"status": verdict["status"], "findings": findings, "ports": ports}


def main() -> None:
    """Write all fixtures anew."""
    for name, about in SOFT_ROCE.items():
        live = json.loads((RECORDED / f"{name}.preflight.json").read_text())["document"]
        files = trim(RECORDED / name)
        files["ABOUT"] = f"{about}\n\nSoft RoCE, Debian kernel 6.1, recorded in the lab.\n".encode()
        _write(name, files, answer(live["verdict"]))
    for name, about in DCB.items():
        live = json.loads((OF_DCB / f"{name}.preflight.json").read_text())
        files = trim(OF_DCB / name)
        files["ABOUT"] = f"{about}\n\nSoft RoCE on lab/dcbtest, recorded in the lab.\n".encode()
        _write(name, files, answer(live["verdict"]))
    for name, (mac, about) in macs().items():
        built = mac.snapshot() | {"ABOUT": f"{about}\n".encode()}
        _write(name, built, _by_hand(name))
    with Fabric(2) as fabric:
        host = fabric.hosts()[-1]
        _simulated("ibsim-no-subnet-manager", fabric.tree(host))
        fabric.sweep(deadline=60.0)
        _simulated("ibsim-after-sweep", fabric.tree(host))
        fabric.unlink(host, 1)
        _simulated("ibsim-cut-link", fabric.tree(host))


def _simulated(name: str, tree: Path) -> None:
    files = {
        str(path.relative_to(tree)): path.read_bytes()
        for path in sorted(tree.rglob("*"))
        if path.is_file()
    }
    files["ABOUT"] = f"{SIMULATED[name]}\n\nibsim's own tree, copied: sysfs alone.\n".encode()
    _write(name, files, _by_hand(name))


def _by_hand(name: str) -> dict[str, Any]:
    """The answer that stands there: what is no recording of a whole host has none of its own."""
    expected = FIXTURES / name / "expected.json"
    found: dict[str, Any] = json.loads(expected.read_text()) if expected.exists() else {}
    return found


def _write(name: str, files: dict[str, bytes], expected: dict[str, Any]) -> None:
    shutil.rmtree(FIXTURES / name, ignore_errors=True)
    files["expected.json"] = json.dumps(expected, indent=1).encode() + b"\n"
    write_folder(files, str(FIXTURES / name))
    print(name)


if __name__ == "__main__":
    main()
