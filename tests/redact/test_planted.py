"""Names that are planted in every kind of source, one of each class: none is in the archive.

None of them is in the facts, from which `test_nothing_left` has its needles. Each stands in the
record that is given, too, as it would without the redactor.
"""

import tarfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from rdmadiag.facts import Missing, Why
from rdmadiag.host import netlink
from rdmadiag.host.answers import Ran
from rdmadiag.host.recording import Recording, documents, write_archive
from rdmadiag.redact.record import redact_document, redact_record
from tests.redact.records import FEW, host_of, recording_of

KEY = bytes(range(32))
ADDRESS = bytes([10, 91, 7, 3])
MAC = bytes.fromhex("b83fd2a96c5e")
CONTAINER = "7f3c" + "1b9ad05e82c4" * 5
BOOT = "3f2a9c1e-77b4-4d0a-9e55-c81d6b2f0a94"

HOSTS_FILE = (
    b"127.0.0.1 localhost\n10.91.7.3 zephyr-41.orchid.example zephyr-41 # of wilhelmina9\n"
    b"fd3a:91c7::b83f:d2a9 larder\n"
)
LINES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    # class → a line, and what is not to be left of it
    "hosts of /etc/hosts": ("rdma_cm: larder and ZEPHYR-41 are slow", ("larder", "zephyr-41")),
    "other hosts of their family": ("rdma_cm: zephyr-57 is gone", ("zephyr-57",)),
    "other hosts": (
        "nfs: server quince9 not responding; pantry:/export/jam; connect from attic2:18515",
        ("quince9", "pantry", "jam", "attic2"),
    ),
    "hosts of a domain": ("mds at cellar.damson.orchid.co, cellar2.orchid.example", ("damson",)),
    "addresses": ("gid ::ffff:10.91.7.3 of b8:3f:d2:a9:6c:5e", ("10.91.7.3", "b8:3f:d2")),
    "addresses in names": ("peer ip-10-91-7-3, MGC10.91.7.3@o2ib1", ("10-91-7-3", "10.91.7.3")),
    "serial numbers": ("mlx5_core 0000:65:00.0: S/N MT2314XQ7Y88", ("MT2314XQ7Y88",)),
    "a boot and a container": (f"boot {BOOT} in /docker/{CONTAINER}", (BOOT, CONTAINER)),
    "users": (
        "uid=1000(wilhelmina9) /home/wilhelmina9/x user=ottoline",
        ("wilhelmina9", "ottoline"),
    ),
    "commands": ("CPU: 3 PID: 77 Comm: marzipan Not tainted", ("marzipan",)),
    "passwords": (
        "mysql -u root -pGr4nite; password: cob-nut; Bearer q9w8e7r6",
        ("Gr4nite", "cob-nut", "q9w8e7r6"),
    ),
    "tokens": ("ghp_0h5Kd8Lm2Qp7Rt4Vx9Yz1Bc3Df6 xoxb-77-plum", ("0h5Kd8Lm2Q", "plum")),
}
EVERY = "\n".join(line for line, _ in LINES.values())
CANARIES = tuple(canary for _, canaries in LINES.values() for canary in canaries)


def kernel_log(text: str) -> str:
    return "".join(
        f"6,{number},{15_400_000 + number},-;infiniband x: {line}\n"
        for number, line in enumerate(text.splitlines())
    )


def each_line(form: str) -> bytes:
    return "".join(f"{form.format(line)}\n" for line in EVERY.splitlines()).encode()


def link(text: str) -> bytes:
    """A netdev with an alias and an attribute of a newer kernel."""
    content = bytes(16) + netlink.attribute(3, b"eth7\0") + netlink.attribute(1, MAC)
    content += netlink.attribute(20, text.encode()[:4000]) + netlink.attribute(998, text.encode())
    made = netlink.request(16, 0, content)
    return made + bytes(-len(made) % 4)


PLACES: Mapping[str, Callable[[Recording], Recording]] = {
    "the kernel's log": lambda old: replace(old, logs={"kernel": kernel_log(EVERY).encode()}),
    "a file": lambda old: replace(
        old, files={**old.files, "/proc/self/cgroup": EVERY.encode(), "/sys/x/info": EVERY.encode()}
    ),
    "netlink": lambda old: replace(old, netlink={**old.netlink, "route-getlink": link(EVERY)}),
    "a command": lambda old: replace(
        old, commands={**old.commands, "usr_sbin_x": Ran(1, EVERY.encode(), EVERY.encode())}
    ),
    "the log of a Mac": lambda old: replace(
        old,
        commands={
            **old.commands,
            "usr_bin_log_show": Ran(
                0, each_line('{{"eventMessage": "{}"}}'), b""
            ),
        },
    ),
    "a panic report": lambda old: replace(
        old,
        files={
            **old.files,
            "/Library/Logs/DiagnosticReports/kernel_2026-05-21-101500_larder.panic": (
                each_line("AppleThunderboltRDMA: {}")
            ),
        },
    ),
    "the verbs library": lambda old: replace(
        old, verbs={"query": each_line('{{"error": "{}"}}')}
    ),
    "variables": lambda old: replace(
        old,
        environ={
            "HOME": "/home/wilhelmina9",
            "MASTER_ADDR": "zephyr-57",
            "NCCL_DEBUG_FILE": "/scratch/ottoline/nccl.%h",
            "DB_PASSWORD": "cob-nut",
            "NCCL_IB_HCA": "mlx5_0",
            "SLURM_NODELIST": "quince9,attic2",
            "NOTES": EVERY,
        },
    ),
    "names of files and links": lambda old: replace(
        old,
        links={**old.links, "/proc/self/exe": "/home/wilhelmina9/bin/marzipan"},
        listings={**old.listings, "/home/wilhelmina9/logs": ("larder.log", "x")},
    ),
    "what was refused": lambda old: replace(
        old,
        refused={
            "run": {"x": Missing(Why.DENIED, EVERY)},
            "read": {f"/home/wilhelmina9/{BOOT}": Missing(Why.ABSENT, "")},
        },
    ),
}  # fmt: skip


def unpacked_archive(files: Mapping[str, bytes], folder: Path) -> dict[str, bytes]:
    """What is in it after it was written and read by another program."""
    place = folder / "record.tar.gz"
    write_archive(files, str(place))
    with tarfile.open(place) as archive:
        return {
            each.name: b"" if content is None else content.read()
            for each in archive
            for content in [archive.extractfile(each)]
        }


def left(files: Mapping[str, bytes]) -> set[str]:
    """The canaries that are in it, as text in any capitals, and addresses as bytes."""
    whole = b"\n".join(name.encode() + b"\n" + content for name, content in files.items())
    found = {each for each in CANARIES if each.casefold().encode() in whole.lower()}
    for raw in (MAC, MAC[::-1], bytes([MAC[0] ^ 2]) + MAC[1:3] + b"\xff\xfe" + MAC[3:]):
        if raw in whole or raw.hex().encode() in whole.lower():
            found.add(raw.hex())
    return found


@pytest.mark.slow
@pytest.mark.parametrize("path", FEW[1:], ids=lambda path: path.name)
@pytest.mark.parametrize("place", PLACES)
def test_of_names_in_any_source_none_is_in_the_archive(
    place: str, path: Path, tmp_path: Path
) -> None:
    old, late = recording_of(path)
    planted = PLACES[place](old)
    planted = replace(planted, files={**planted.files, "/etc/hosts": HOSTS_FILE})
    identity = replace(host_of(path).identity, hostname="larder.orchid.example")
    assert left(documents(planted, identity, late))
    made = redact_record(planted, identity, late, KEY)
    assert made.left_out == ()
    files = documents(made.recording, made.identity, made.late, redacted=made.manifest())
    assert left(unpacked_archive(files, tmp_path)) == set()


@pytest.mark.parametrize("name", LINES)
def test_nor_is_one_of_each_class_in_a_document(name: str) -> None:
    line, canaries = LINES[name]
    document = {
        "schema_version": "1.1",
        "host": {"hostname": "larder.orchid.example"},
        "evidence": {"kernel_log": {"lines": [{"text": line}]}, "user": "ottoline"},
        "db_password": "plum pudding",
        "ports": [{"device": "mlx5_0", "reasons": [f"zephyr-41 has {line}"]}],
    }
    # What stands in /etc/hosts is known of a record alone.
    made = str(redact_document({**document, "hosts": ["zephyr-41"]}, KEY).document).casefold()
    assert [each for each in (*canaries, "ottoline", "plum") if each.casefold() in made] == []


def test_names_of_this_record_s_devices_are_listed_as_they_are_left_in() -> None:
    old, late = recording_of(FEW[0])
    planted = replace(
        old,
        listings={**old.listings, "/sys/class/net": ("acme-prod0", "enxb83fd2a96c5e", "ib0", "lo")},
        netlink={**old.netlink, "route-getlink": link("x")},
        files={**old.files, "/sys/class/net/acme-prod0/address": b"b8:3f:d2:a9:6c:5e\n"},
    )
    made = redact_record(planted, host_of(FEW[0]).identity, late, KEY)
    first, second, *_ = made.manifest()["left_in"]
    mac = made.recording.files["/sys/class/net/acme-prod0/address"].decode().strip()
    renamed = f"enx{mac.replace(':', '')}"
    wanted = f"names of devices and netdevs: acme-prod0, {renamed}, eth7, ib0, lo, mlx5_0, mlx5_1"
    assert first == wanted
    assert second == "of these in no form of a kernel, so that somebody chose them: acme-prod0"
