"""Our structures and the fake library against infiniband/verbs.h itself."""

import ctypes
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from rdmadiag.verbs import abi

STRUCTURES = [
    found
    for found in vars(abi).values()
    if isinstance(found, type) and issubclass(found, abi.Struct) and found is not abi.Struct
]
PREFIXES = [abi.IbvDevice, abi.IbvPortAttr]
WHOLE = [structure for structure in STRUCTURES if structure not in PREFIXES]
RENAMED = {"IbvDevice.ops": "_ops"}

Printed = dict[str, tuple[str, ...]]
"""What a C program printed: the first word of a line → the others."""


def c_name(structure: type) -> str:
    """IbvPortAttr → struct ibv_port_attr."""
    return "struct " + re.sub(r"\B(?=[A-Z])", "_", structure.__name__).lower()


@pytest.fixture(scope="module")
def run_c(
    compile_c: Callable[..., Path],
    verbs_headers: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[..., Printed]:
    """`run_c(body, *options, **environ)`: a main() that has infiniband/verbs.h."""
    headers = ("stdio.h", "stddef.h", "arpa/inet.h", "infiniband/verbs.h")
    includes = "".join(f"#include <{header}>\n" for header in headers)

    def printed(body: str, *options: Path, **environ: str) -> Printed:
        source = tmp_path_factory.mktemp("program") / "program.c"
        source.write_text(f"{includes}int main(void)\n{{\n{body}\nreturn 0;\n}}\n")
        program = compile_c(source, *options)
        environ = os.environ | environ
        ran = subprocess.run([program], env=environ, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        rows = (line.split() for line in ran.stdout.splitlines())
        return {name: tuple(values) for name, *values in rows}

    return printed


@pytest.fixture(scope="module")
def in_c(run_c: Callable[..., Printed]) -> Printed:
    """`IbvGidEntry` → its size in C, `IbvGidEntry.gid` → offset and size of the field."""
    lines = ['printf("IbvGid %zu\\n", sizeof(union ibv_gid));']
    for structure in STRUCTURES:
        ours, theirs = structure.__name__, c_name(structure)
        lines.append(f'printf("{ours} %zu\\n", sizeof({theirs}));')
        for name, *_ in structure._fields_:
            field = RENAMED.get(f"{ours}.{name}", name)
            place = f"offsetof({theirs}, {field}), sizeof((({theirs} *)0)->{field})"
            lines.append(f'printf("{ours}.{name} %zu %zu\\n", {place});')
    return run_c("\n".join(lines))


@pytest.mark.parametrize("structure", STRUCTURES, ids=c_name)
def test_every_field_is_where_the_header_has_it(structure: type[abi.Struct], in_c: Printed) -> None:
    fields = {name: getattr(structure, name) for name, *_ in structure._fields_}
    assert {name: (str(field.offset), str(field.size)) for name, field in fields.items()} == {
        name: in_c[f"{structure.__name__}.{name}"] for name in fields
    }


@pytest.mark.parametrize("structure", WHOLE, ids=c_name)
def test_a_whole_structure_is_as_long_as_in_the_header(
    structure: type[abi.Struct], in_c: Printed
) -> None:
    assert (str(ctypes.sizeof(structure)),) == in_c[structure.__name__]


def test_a_gid_is_as_long_as_in_the_header(in_c: Printed) -> None:
    assert (str(ctypes.sizeof(abi.IbvGid)),) == in_c["IbvGid"]


def test_the_buffer_for_a_port_holds_the_whole_structure(in_c: Printed) -> None:
    (size,) = in_c["IbvPortAttr"]
    assert int(size) <= abi.PORT_ATTR_BUFFER


GUIDS = {"node_guid": 0x0C42A10300000002, "sys_image_guid": 0x0C42A10300000004}
GIDS = {
    "0": ("fe80::e42:a1ff:fe00:1", "1", "7"),
    "3": ("::ffff:192.0.2.1", "2", "7"),
    "4": ("2001:db8::1", "2", "9"),
}
"""Index → address, type and interface; the other slots are empty."""

READER = """
    char text[INET6_ADDRSTRLEN];
    int count = 0;
    struct ibv_device **list = ibv_get_device_list(&count);
    struct ibv_context *context = ibv_open_device(list[0]);
    struct ibv_device_attr device;
    struct ibv_port_attr port;
    struct ibv_gid_entry rows[8];
    union ibv_gid gid;
    __be16 pkey = 0;

    printf("devices %d\\n", count);
    printf("names %s %s\\n", ibv_get_device_name(list[0]), context->device->name);
    printf("kind %d %d\\n", list[0]->node_type, list[0]->transport_type);
    printf("nodes %s %s %s\\n", list[0]->dev_name, list[0]->dev_path, list[0]->ibdev_path);
    printf("context %d %d\\n", context->async_fd, context->num_comp_vectors);
    printf("guid %llu\\n", (unsigned long long)ibv_get_device_guid(list[0]));
    printf("query_device %d\\n", ibv_query_device(context, &device));
    printf("fw_ver %s\\n", device.fw_ver);
    printf("query_port %d\\n", ibv_query_port(context, 1, &port));
    printf("port.port_cap_flags2 %d\\n", port.port_cap_flags2);
    printf("query_pkey %d\\n", ibv_query_pkey(context, 1, 0, &pkey));
    printf("pkey %#x\\n", pkey);
    for (int index = 0; index < 5; index++) {
        int result = ibv_query_gid(context, 1, index, &gid);
        printf("gid[%d] %d %s\\n", index, result, inet_ntop(AF_INET6, &gid, text, sizeof text));
    }
    count = (int)ibv_query_gid_table(context, rows, 8, 0);
    printf("rows %d\\n", count);
    for (int i = 0; i < count; i++)
        printf("row[%u] %u %s %u %u\\n", rows[i].gid_index, rows[i].port_num,
               inet_ntop(AF_INET6, &rows[i].gid, text, sizeof text),
               rows[i].gid_type, rows[i].ndev_ifindex);
"""
ENDING = "ibv_close_device(context); ibv_free_device_list(list);"


def numbers_of(structure: type[abi.Struct]) -> dict[str, int]:
    """Another number for each field, with something in its highest and its lowest byte."""
    kinds = {field[0]: field[1] for field in structure._fields_}
    return {
        name: nth << 8 * (ctypes.sizeof(kind) - 1) | nth
        for nth, (name, kind) in enumerate(kinds.items(), 1)
        if name not in (*GUIDS, "fw_ver")
    }


def pairs(numbers: dict[str, int]) -> str:
    """What the script says of them."""
    return " ".join(f"{name}={number}" for name, number in numbers.items())


def prints(variable: str, names: Iterable[str]) -> str:
    """C that prints a line `variable.name number` for each."""
    return "\n".join(
        f'printf("{variable}.{name} %llu\\n", (unsigned long long){variable}.{name});'
        for name in names
    )


@pytest.mark.skipif(sys.platform != "linux", reason="the header of another system")
def test_the_fake_library_writes_what_the_header_reads(
    run_c: Callable[..., Printed], fake_verbs: Callable[..., Any]
) -> None:
    device, port = numbers_of(abi.IbvDeviceAttr), numbers_of(abi.IbvPortAttr)
    guid, image_guid = map(hex, GUIDS.values())
    texts = f"fw=1.2.3 guid={guid} sys_image_guid={image_guid}"
    script = [
        f"device fake0 node_type=1 transport=3 {texts} {pairs(device)}  # all of it",
        f"port fake0 1 {pairs(port)} port_cap_flags2=7 active_speed_ex=256",
    ]
    script += [
        f"gid fake0 1 {index} {gid} type={kind} ifindex={netdev}"
        for index, (gid, kind, netdev) in GIDS.items()
    ]
    fake = fake_verbs("\n".join(script))
    body = READER + prints("device", [*device, *GUIDS]) + prints("port", port) + ENDING
    stored = {name: int.from_bytes(guid.to_bytes(8), sys.byteorder) for name, guid in GUIDS.items()}

    assert run_c(body, fake.library, **fake.environ) == {
        "devices": ("1",),
        "names": ("fake0", "fake0"),
        "kind": ("1", "3"),
        "nodes": ("uverbs0", "/sys/class/infiniband_verbs/uverbs0", "/sys/class/infiniband/fake0"),
        "context": ("-1", "1"),
        "guid": (str(stored["node_guid"]),),
        "query_device": ("0",),
        "fw_ver": ("1.2.3",),
        **{f"device.{name}": (str(number),) for name, number in (device | stored).items()},
        "query_port": ("0",),
        **{f"port.{name}": (str(number),) for name, number in port.items()},
        "port.port_cap_flags2": ("0",),  # past what the symbol ibv_query_port writes
        "query_pkey": ("0",),
        "pkey": ("0xffff",),
        **{f"gid[{index}]": ("0", GIDS[index][0] if index in GIDS else "::") for index in "01234"},
        "rows": ("3",),
        **{f"row[{index}]": ("1", *row) for index, row in GIDS.items()},
    }


POISON = b"\xa5"

PORT_BYTES = """
import ctypes
import sys

verbs = ctypes.CDLL(sys.argv[1])
verbs.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
verbs.ibv_free_device_list.argtypes = [ctypes.c_void_p]
verbs.ibv_open_device.argtypes = [ctypes.c_void_p]
verbs.ibv_open_device.restype = ctypes.c_void_p
verbs.ibv_close_device.argtypes = [ctypes.c_void_p]
verbs.ibv_query_port.argtypes = [ctypes.c_void_p, ctypes.c_uint8, ctypes.c_void_p]

devices = verbs.ibv_get_device_list(None)
context = verbs.ibv_open_device(devices[0])
buffer = ctypes.create_string_buffer(bytes.fromhex(sys.argv[2]))
assert verbs.ibv_query_port(context, 1, buffer) == 0
verbs.ibv_close_device(context)
verbs.ibv_free_device_list(devices)
print(buffer.raw.hex())
"""


@pytest.mark.parametrize(
    ("layout", "written"),
    [("linux", 48), ("darwin", 52)],
    ids=["of Linux: the 48 bytes that it had at first", "of Darwin: all 52 bytes"],
)
def test_ibv_query_port_writes_just(
    layout: str, written: int, fake_verbs: Callable[..., Any]
) -> None:
    fake = fake_verbs("device fake0\nport fake0 1 state=4 active_speed_ex=256", layout)
    poison = POISON * abi.PORT_ATTR_BUFFER
    ran = subprocess.run(
        [sys.executable, "-c", PORT_BYTES, fake.library, poison.hex()],
        env=os.environ | fake.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    buffer = bytes.fromhex(ran.stdout)[: len(poison)]
    assert abi.IbvPortAttr.from_buffer_copy(buffer).numbers() == {
        name: 4 if name == "state" else 0 for name, *_ in abi.IbvPortAttr._fields_
    }
    assert POISON not in buffer[:written]
    assert buffer[written:] == poison[written:]


@pytest.mark.parametrize(
    ("layout", "defines", "absent"),
    [
        ("linux", (), set()),
        ("linux", ("NO_GID_TABLE",), {"_ibv_query_gid_table"}),
        ("darwin", (), {"_ibv_query_gid_table", "ibv_get_device_guid"}),
    ],
    ids=["Linux", "Linux before rdma-core 32", "Darwin"],
)
def test_what_a_layout_does_not_export(
    layout: str, defines: tuple[str, ...], absent: set[str], compile_verbs: Callable[..., Path]
) -> None:
    library = ctypes.CDLL(str(compile_verbs(layout, *defines)))
    optional = ("ibv_query_pkey", "ibv_get_device_guid", "_ibv_query_gid_table")
    assert {name for name in optional if not hasattr(library, name)} == absent
