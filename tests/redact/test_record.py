"""What is not understood is left out and listed; what nobody reads is not in it."""

import json
import struct
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from rdmadiag.facts import Identity, Missing, Why
from rdmadiag.host import netlink
from rdmadiag.host.answers import Ran
from rdmadiag.host.recording import Recording, documents
from rdmadiag.redact.record import COMMON_NAMES, Redacted, redact_document, redact_record
from tests.redact.records import FEW, host_of, recording_of

CANARY = "c4n4ry"
KEY = b"k" * 32
HOST = Identity("node7.hpc.example", "linux", "6.8.0", "x86_64", recorded=True)
ADDRESS = bytes([10, 20, 3, 7])
MAC = bytes.fromhex("0c42a1243f0e")
GUID = bytes.fromhex("0c42a10300243f0e")


def message(kind: int, content: bytes) -> bytes:
    made = netlink.request(kind, 0, content)
    return made + bytes(-len(made) % 4)


def redact(key: bytes | None = KEY, **parts: Any) -> tuple[Redacted, bytes]:
    """The result, and all of its files."""
    made = redact_record(replace(Recording(), **parts), HOST, {}, key)
    files = documents(made.recording, made.identity, made.late, redacted=made.manifest())
    return made, b"".join(name.encode() + content for name, content in files.items())


def test_a_rich_record_keeps_no_name() -> None:
    link = (
        struct.pack("=BxHiII", 0, 1, 2, 3, 0)
        + netlink.attribute(3, b"eth0\0")
        + netlink.attribute(1, MAC)
        + netlink.attribute(20, CANARY.encode())  # IFLA_IFALIAS
        + netlink.attribute(999, MAC)
    )
    inet = struct.pack("=HH", 2, 4791) + ADDRESS + bytes(120)
    inet6 = struct.pack("=HHI", 10, 1, 0) + b"\xfd" + MAC + bytes(9) + bytes(104)
    cm_id = b"".join(
        netlink.attribute(31, netlink.attribute(number, content))
        for number, content in ((33, inet), (34, inet6), (33, b"\x07\0" + CANARY.encode()))
    )
    made, whole = redact(
        netlink={
            "route-getlink": message(16, link),
            "route-getroute-4": message(
                24,
                struct.pack("=BBBBBBBBI", 2, 24, 0, 0, 254, 0, 0, 1, 0)
                + netlink.attribute(1, bytes([10, 20, 3, 0]))
                + netlink.attribute(18, struct.pack("=H", 2) + ADDRESS)
                + netlink.attribute(
                    9, struct.pack("=HBBi", 16, 0, 0, 2) + netlink.attribute(5, ADDRESS)
                ),
            ),
            "route-getlink-vf-2": message(
                16,
                bytes(16)
                + netlink.attribute(
                    22,
                    netlink.attribute(
                        1,
                        netlink.attribute(1, bytes(4) + MAC + bytes(26))
                        + netlink.attribute(10, bytes(8) + GUID[::-1]),
                    ),
                ),
            ),
            "nldev-res-cm-id-get-0": message(5130, netlink.attribute(30, cm_id)),
            "nldev-get-0": message(5121, netlink.attribute(6, GUID[::-1])),
            "devlink-info-pci-0000.65.00.0": message(
                20, struct.pack("=BBH", 51, 1, 0) + netlink.attribute(99, CANARY.encode())
            ),
            "ethtool-module-eeprom-2-50-00-128-4": message(
                21, struct.pack("=BBH", 31, 1, 0) + netlink.attribute(7, b"1234" + CANARY.encode())
            ),
        },
        files={
            "/proc/77/comm": b"c4n4ry_app\n",
            "/proc/77/status": b"Name:\tc4n4ry_two\nUid:\t1000\n",
            "/proc/self/net/udp": b"  sl  local_address\n   0: 0703140A:0F5F 00000000:0000\n",
            "/proc/self/net/if_inet6": MAC.hex().encode() + bytes(0) + b"0" * 20 + b" 02 eth0\n",
            "/proc/sys/kernel/hostname": b"c4n4ry-7.hpc.example\n",
            "/proc/self/net/tcp": b"  sl  local_address\n   0: 0703140A:4853 0703140A:9CB0 01\n",
            "/etc/hosts": b"10.20.3.7 c4n4ry c4n4ry.hpc.example # c4n4ry's own\n\n",
            "/etc/resolv.conf": b"nameserver 10.20.3.7\nsearch c4n4ry.example\n# c4n4ry's own\n",
            "/sys/class/infiniband/mlx5_0/node_desc": b"c4n4ry mlx5_0\n",
            "/sys/class/infiniband/mlx5_0/node_guid": b"0c42:a103:0024:3f0e\n",
            "/sys/class/infiniband/mlx5_0/fw_ver": b"20.8.14.0\n",
            "/sys/bus/pci/devices/0000:65:00.0/uevent": (
                b"DRIVER=mlx5_core\nMODALIAS=pci:v01\nX=10.20.3.7\n"
            ),
            "/sys/bus/pci/devices/0000:65:00.0/config": bytes(256) + b"\x03\0\x01\0" + GUID,
            "/Users/c4n4ry/.local/state/rdmadiag/failed_rtr.json": (
                b'{"hostname": "c4n4ry", "pid": 3}'
            ),
            "/Library/Logs/DiagnosticReports/kernel_2026-05-21-101500_c4n4ry.panic": (
                b'{"timestamp": "2026-05-21 10:15:00.00 +0000"}\npanic in c4n4ry\n'
                b"AppleThunderboltRDMA: assert\nlast loaded kext c4n4ry-not-a-word\n"
            ).replace(b"c4n4ry-not-a-word", b"none"),
        },
        environ={
            "HOME": "/Users/c4n4ry",
            "NCCL_IB_HCA": "mlx5_0,=c4n4ry:1",
            "UCX_TLS": "rc,cuda",
            "UCX_SECRET_TOKEN": CANARY,
            "MASTER_ADDR": "c4n4ry",
            "VERBS_LOG_FILE": "/data/c4n4ry/log",
            "container": CANARY,
            "KUBERNETES_SERVICE_HOST": "10.20.3.7",
        },
        commands={
            "usr_sbin_ioreg_-a": Ran(
                0,
                b'<?xml version="1.0"?><plist version="1.0"><array><dict><key>serial-number</key>'
                b"<data>YzRuNHJ5</data><key>USB Serial Number</key><string>c4n4ry</string>"
                b"<key>UID</key><integer>1311768467463790320</integer><key>IOUserClientCreator</key>"
                b"<string>pid 7, c4n4ry</string><key>ok</key><true/></dict></array></plist>",
                b"",
            ),
            "usr_sbin_system_profiler_x": Ran(
                0, b'[{"_name": "c4n4ry of Bob", "switch_uid_key": "c4n4ry", "device_uid": 7}]', b""
            ),
            "usr_bin_log_show": Ran(0, b'{"eventMessage": "Comm: c4n4ry"}\nc4n4ry@host\n', b""),
            "sbin_ifconfig_-a": Ran(0, b"ether 0c:42:a1:24:3f:0e\n", b"/home/c4n4ry: no\n"),
        },
        logs={"kernel": b"token=c4n4ry Comm: c4n4ry_app from node7 and NODE7.hpc.example\n"},
        verbs={"query": b'{"answer": {"node_guid": "1234567890123456", "fw_ver": "1.2.3.4"}}\n'},
        listings={"/sys/class/infiniband": ("mlx5_0",), "/proc/self/fd": ("enx0c42a1243f0e",)},
        links={"/proc/self/exe": "/home/c4n4ry/bin/x"},
        refused={"read": {"/home/c4n4ry/x": Missing(Why.ABSENT, "/home/c4n4ry/x: ENOENT")}},
    )
    assert made.left_out == ()
    low = whole.lower()
    assert CANARY.encode() not in low
    for raw in (ADDRESS, MAC, GUID):
        for form in (raw, raw[::-1], raw.hex().encode(), raw.hex(":").encode()):
            assert form not in low
    for form in (b"10.20.3.7", b"node7", b"hpc", b"0c42:a103", b"1234567890123456", b"1311768467"):
        assert form not in low
    assert b"20.8.14.0" in whole
    assert b'"fw_ver": "1.2.3.4"' in whole
    assert made.recording.environ["UCX_TLS"] == "rc,cuda"
    assert made.recording.environ["container"] == "(not recorded)"
    assert made.recording.environ["NCCL_IB_HCA"].startswith("mlx5_0,=user-")
    assert made.recording.netlink["ethtool-module-eeprom-2-50-00-128-4"].endswith(b"1234")
    home = made.recording.environ["HOME"]
    assert f"{home}/.local/state/rdmadiag/failed_rtr.json" in made.recording.files


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        ("read", {"files": {"/sys/class/net/eth0/address": b"\xff\xfec4n4ry"}}),
        ("read", {"files": {"/sys/x": b'{"a": c4n4ry'}}),
        ("netlink", {"netlink": {"route-getlink": b"c4n4ry"}}),
        ("netlink", {"netlink": {"route-getlink": message(16, CANARY.encode())}}),
        ("netlink", {"netlink": {"unheard-of": message(16, CANARY.encode())}}),
        ("netlink", {"netlink": {"ethtool-module-eeprom-2-x": message(21, bytes(4) + b"c4n4ry")}}),
        ("run", {"commands": {"usr_sbin_ioreg_-a": Ran(0, b"<plist>c4n4ry", b"")}}),
        ("run", {"commands": {"sw_vers": Ran(0, b"\xffc4n4ry", b"")}}),
        ("run", {"commands": {"usr_sbin_system_profiler": Ran(0, b"[" * 9000 + b"c4n4ry", b"")}}),
        ("verbs", {"verbs": {"query": b'{"answer": c4n4ry\n'}}),
        ("verbs", {"verbs": {"query": b'{"a":' * 300 + b'"c4n4ry"' + b"}" * 300}}),
    ],
)
def test_what_is_not_understood_is_left_out_and_listed(
    question: str, parts: dict[str, Any]
) -> None:
    made, whole = redact(**parts)
    assert len(made.left_out) == 1
    assert list(made.recording.refused) == [question]
    assert "left out by redaction" in str(made.recording.refused)
    assert CANARY.encode() not in whole


def test_an_address_that_a_table_here_would_let_through_is_caught() -> None:
    families = struct.pack("=BBH", 1, 1, 0) + netlink.attribute(6, MAC)  # nested, kept as it is
    made, whole = redact(
        netlink={"genl-families": message(16, families)},
        files={"/sys/class/net/eth0/address": b"0c:42:a1:24:3f:0e\n"},
    )
    assert made.left_out == ("genl-families: an address was left in it",)
    assert MAC not in whole


def test_torn_attributes_end_a_message() -> None:
    torn = bytes(16) + struct.pack("=HH", 400, 1) + MAC + bytes(2)
    made, whole = redact(netlink={"route-getlink": message(16, torn)})
    assert made.left_out == ()
    assert MAC not in whole


def test_a_key_gives_the_same_names_in_every_record_and_none_gives_others() -> None:
    files = {"/sys/class/net/eth0/address": b"0c:42:a1:24:3f:0e\n"}
    assert redact(files=files)[0].recording.files == redact(files=files)[0].recording.files
    first, second = redact(key=None, files=files)[0], redact(key=None, files=files)[0]
    assert first.recording.files != second.recording.files
    assert first.identity.hostname != second.identity.hostname


def test_pseudonyms_that_are_addresses_of_the_record_are_avoided_or_counted() -> None:
    table = "".join(f"192.0.2.{last}\n" for last in range(1, 200)).encode()
    made, _ = redact(key=None, files={"/sys/x": table})
    assert made.by_chance > 100, "a documentation network full of hosts has no other addresses"
    few = b"192.0.2.7\n192.0.2.9\n"
    assert redact(key=None, files={"/sys/x": few})[0].by_chance == 0


def test_a_document_that_is_too_deep_is_refused() -> None:
    document: Any = "x"
    for _ in range(300):
        document = [document]
    with pytest.raises(ValueError, match="deep"):
        redact_document({"schema_version": "1.0", "a": document}, None)


def test_a_document_keeps_no_name() -> None:
    document = {
        "schema_version": "1.1",
        "host": {"hostname": "c4n4ry", "kernel": "6.8.0"},
        "evidence": {
            "process": {"environment": {"NCCL_IB_HCA": "mlx5_0", "OTHER": CANARY}},
            "resources": {"commands": {"77": "vasp_std"}, "holders": [{"pid": 77}]},
            "path": "/home/bob7/x and /home/bob7/y",
            "mac": "0c:42:a1:24:3f:0e",
            "serial": "SN123456",
            "numbers": [1, 2.5, True, None],
        },
        "ports": [{"device": "mlx5_0", "netdev": "eth0", "reason": "c4n4ry has mlx5_0"}],
    }
    text = json.dumps(redact_document(document, KEY).document)
    for gone in (CANARY, "vasp_std", "bob7", "0c:42", "SN123456"):
        assert gone not in text
    for kept in ("mlx5_0", "eth0", "6.8.0", "[1, 2.5, true, null]", '"77"'):
        assert kept in text


def mutated(content: bytes, random: Random) -> bytes:
    """Bytes changed, cut out, doubled or torn off."""
    at = random.randrange(len(content) + 1)
    made = bytearray(content)
    match random.randrange(4):
        case 0:
            made[at : at + 3] = random.randbytes(3)
        case 1:
            del made[at:]
        case 2:
            made[at:at] = content[:at][-200:]
        case _:
            made[at:at] = b'\xff\x00{["'
    return bytes(made)


@pytest.mark.parametrize("path", FEW[:2], ids=lambda path: path.name)
def test_no_part_is_too_odd(path: Path) -> None:
    recording, late = recording_of(path)
    random = Random(path.name)
    for _ in range(3):
        odd = replace(
            recording,
            files={name: mutated(each, random) for name, each in recording.files.items()},
            netlink={name: mutated(each, random) for name, each in recording.netlink.items()},
            verbs={name: mutated(each, random) for name, each in recording.verbs.items()},
            logs={name: mutated(each, random) for name, each in recording.logs.items()},
            commands={
                name: Ran(each.returncode, mutated(each.stdout, random), each.stderr)
                for name, each in recording.commands.items()
            },
        )
        made = redact_record(odd, host_of(path).identity, late, KEY)
        lost = sum(map(len, made.recording.refused.values()))
        assert lost == sum(map(len, recording.refused.values())) + len(made.left_out)


@pytest.mark.parametrize(("name", "said"), [("rdma", True), ("n1", True), ("node7", False)])
def test_a_host_with_a_name_of_the_system_is_one_where_names_stand_alone(
    name: str, said: bool
) -> None:
    line = b"rdma_cm: rdma on n1, node7\n"
    recording = Recording(logs={"kernel": line}, listings={"/dev/infiniband": ("rdma_cm",)})
    made = redact_record(recording, replace(HOST, hostname=name), {}, KEY)
    assert made.identity.hostname.startswith("host-")
    assert made.recording.listings == {"/dev/infiniband": ("rdma_cm",)}
    assert (made.recording.logs["kernel"] == line) == said
    assert (COMMON_NAMES in made.manifest()["left_in"]) == said
