"""Agreement with rdma-core's rdma_topo, where it is installed: the same hosts, judged by both.

It came with rdma-core 60; Debian 12 has 44. RDMADIAG_RDMA_TOPO names it elsewhere.
"""

import json
import os
import random
import re
import shutil
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from zlib import compress

import pytest

from rdmadiag.facts import Missing
from rdmadiag.facts.pci import ACS_BITS, PciConfig, Role
from rdmadiag.facts.topology import Place
from rdmadiag.view.access_control import AccessControl
from tests.view.test_access_control import (
    GPU,
    GRACE,
    ISOLATED,
    NIC,
    NONE,
    OPEN,
    VERA,
    acs,
    data_direct,
    function,
    inline,
    judged,
    masks,
)

PROGRAM = os.environ.get("RDMADIAG_RDMA_TOPO") or shutil.which("rdma_topo")
CLASSES = {Role.BRIDGE: "060400", Role.GPU: "030200", Role.ADAPTER: "020700"}
SERIAL, UUID = b"MT2600X00001", b"0d3c1c2e-0000-0000-0000-000000000001"
ACS, ATS = 0x0D, 0x0F  # PCI_EXT_CAP_ID_*
SAID = re.compile(r"FAIL\tACS for \w+ (\S+) has incorrect values [01]+ != (\w+),")

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no rdma_topo: rdma-core 60 has it")


# --- one host in both forms ------------------------------------------------------------------


def addressed(functions: Sequence[PciConfig]) -> tuple[PciConfig, ...]:
    """With addresses in place of the names."""
    names = {each.address: f"0000:{at:02x}:00.0" for at, each in enumerate(functions)}
    return tuple(
        replace(
            each,
            address=names[each.address],
            place=Place("pci0000:00", tuple(names[at] for at in each.place.bridges)),
        )
        for each in functions
    )


def config(each: PciConfig) -> bytes:
    """Configuration space with the two extended capabilities."""
    parts = []
    if not isinstance(each.acs, Missing):
        control = sum(1 << ACS_BITS.index(bit) for bit in each.acs.enabled)
        parts.append((ACS, bytes((0x7F, 0, *control.to_bytes(2, "little")))))
    if isinstance(each.ats, bool):
        parts.append((ATS, bytes((0, 0, 0, 0x80 * each.ats))))
    space = bytearray(4096)
    for at, (number, body) in enumerate(parts):
        here, after = 0x100 + at * 0x40, 0x140 + at * 0x40 if at + 1 < len(parts) else 0
        header = number | 1 << 16 | after << 20
        space[here : here + 8] = header.to_bytes(4, "little") + body
    return bytes(space)


def vpd() -> bytes:
    """Identifier, and read-only fields of serial number and the UUID that a board's parts share."""
    fields = b"".join(
        key + bytes((len(text),)) + text for key, text in ((b"SN", SERIAL), (b"V3", UUID))
    )
    name = b"adapter"
    return (
        b"\x82" + len(name).to_bytes(2, "little") + name
        + b"\x90" + len(fields).to_bytes(2, "little") + fields + b"\x79"
    )  # fmt: skip


def dumped(functions: Sequence[PciConfig]) -> list[dict[str, object]]:
    """As `rdma_topo dump` writes it."""

    def packed(content: bytes) -> str:
        return b64encode(compress(content)).decode()

    return [
        {
            "realpath": "/".join(("/sys/devices/pci0000:00", *each.place.bridges, each.address)),
            "config": packed(config(each)),
            "modalias": f"pci:v{int(str(each.vendor), 16):08X}d{int(str(each.device), 16):08X}"
            "sv00000000sd00000000bc{}sc{}i{}".format(
                *re.findall("..", CLASSES.get(each.role, "080000"))
            ),
            "numa_node": 0,
            "vpd": packed(vpd()),
            "subsystems": {},
            **({} if isinstance(each.iommu_group, Missing) else {"iommu_group": each.iommu_group}),
        }
        for each in functions
    ]


# --- hosts -----------------------------------------------------------------------------------


def below_root_ports(ids: tuple[str, str]) -> tuple[PciConfig, ...]:
    return (
        function("gpu", GPU, "rp", role=Role.GPU, group="1"),
        function("nic", NIC, "rp2", role=Role.ADAPTER, group="2"),
        function("rp", ids, control=ISOLATED & ~(0x08 if ids == VERA else 0)),
        function("rp2", ids, control=ISOLATED & ~(0x08 if ids == VERA else 0)),
    )


HOSTS = {
    "data direct": data_direct(),
    "inline": inline(NONE, OPEN),
    "inline with ATS": inline(True, ISOLATED, ISOLATED | 0x40, gpu="2"),
    "Grace": below_root_ports(GRACE),
    "Vera": below_root_ports(VERA),
}


def changed(functions: Sequence[PciConfig], seed: int) -> Iterator[PciConfig]:
    """Some bits of some bridges, some groups, and ATS of some adapters are others."""
    chosen = random.Random(seed)
    for each in functions:
        made = each
        if not isinstance(each.acs, Missing) and chosen.random() < 0.3:
            made = replace(made, acs=acs(chosen.randrange(0x80)))
        if each.role is not Role.BRIDGE and chosen.random() < 0.3:
            group = chosen.choice((*"123", NONE))
            made = replace(made, iommu_group=group)
        if each.role is Role.ADAPTER and chosen.random() < 0.3:
            made = replace(made, ats=chosen.choice((True, False, NONE)))
        yield made


def answer(functions: Sequence[PciConfig], folder: Path) -> tuple[dict[str, str], bool, bool]:
    """Masks of wrong bridges; whether groups, and whether ATS, are wrong."""
    file = folder / "dump.json"
    file.write_text(json.dumps(dumped(functions)))
    done = subprocess.run(
        (sys.executable, str(PROGRAM), "check", "-F", str(file)),
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode in (0, 100), done.stderr
    wrong = [line for line in done.stdout.splitlines() if line.startswith("FAIL")]
    bridges = {found[1]: found[2] for line in wrong if (found := SAID.match(line))}
    groups = any("iommu_group" in line for line in wrong)
    ats = any("ATS capability" in line for line in wrong)
    assert len(bridges) == sum("\tACS for" in line for line in wrong), done.stdout
    assert bool(wrong) == (done.returncode == 100)
    return bridges, groups, ats


def ours(found: AccessControl) -> tuple[dict[str, str], bool, bool]:
    return masks(found), bool(found.groups), bool(found.translating)


@pytest.mark.parametrize("name", HOSTS)
def test_a_host_as_it_must_be_is_right_to_both(name: str, tmp_path: Path) -> None:
    functions = addressed(HOSTS[name])
    assert answer(functions, tmp_path) == ours(judged(*functions)) == ({}, False, False)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", HOSTS)
def test_what_is_wrong_is_so_to_both_and_the_masks_are_the_same(
    name: str, seed: int, tmp_path: Path
) -> None:
    functions = addressed(tuple(changed(HOSTS[name], seed)))
    assert answer(functions, tmp_path) == ours(judged(*functions))
