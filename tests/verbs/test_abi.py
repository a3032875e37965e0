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

pytestmark = pytest.mark.once

STRUCTURES = [
    found
    for found in vars(abi).values()
    if isinstance(found, type) and issubclass(found, abi.Struct) and found is not abi.Struct
]
PREFIXES = [abi.IbvDevice, abi.IbvPortAttr, abi.IbvQp, abi.VerbsContext]
WHOLE = [structure for structure in STRUCTURES if structure not in PREFIXES]
RENAMED = {"IbvDevice.ops": "_ops"} | {
    f"IbvOdpCaps.{name}": f"per_transport_caps.{name}"
    for name in ("rc_odp_caps", "uc_odp_caps", "ud_odp_caps")
}

Printed = dict[str, tuple[str, ...]]
"""What a C program printed: the first word of a line → the others."""


def named(structure: type[abi.Struct]) -> list[str]:
    """Its fields but for the gaps, which have names of our own."""
    return [name for name, *_ in structure._fields_ if not name.startswith("_")]


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
        for name in named(structure):
            field = RENAMED.get(f"{ours}.{name}", name)
            place = f"offsetof({theirs}, {field}), sizeof((({theirs} *)0)->{field})"
            lines.append(f'printf("{ours}.{name} %zu %zu\\n", {place});')
    return run_c("\n".join(lines))


@pytest.mark.parametrize("structure", STRUCTURES, ids=c_name)
def test_every_field_is_where_the_header_has_it(structure: type[abi.Struct], in_c: Printed) -> None:
    fields = {name: getattr(structure, name) for name in named(structure)}
    assert {name: (str(field.offset), str(field.size)) for name, field in fields.items()} == {
        name: in_c[f"{structure.__name__}.{name}"] for name in fields
    }


@pytest.mark.parametrize("structure", WHOLE, ids=c_name)
def test_a_whole_structure_is_as_long_as_in_the_header(
    structure: type[abi.Struct], in_c: Printed
) -> None:
    assert (str(ctypes.sizeof(structure)),) == in_c[structure.__name__]


@pytest.mark.parametrize(
    ("call", "offset"),
    [("poll_cq", 96), ("req_notify_cq", 104), ("post_send", 208), ("post_recv", 216)],
)
def test_a_call_without_a_symbol_is_where_the_header_has_it(
    call: str, offset: int, run_c: Callable[..., Printed]
) -> None:
    assert abi.IbvContext.ops.offset + getattr(abi.IbvContextOps, call).offset == offset
    body = f'printf("offset %zu\\n", offsetof(struct ibv_context, ops.{call}));'
    assert run_c(body) == {"offset": (str(offset),)}


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
    del port["port_cap_flags2"]
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


EXTENDED = {
    "comp_mask": "comp_mask",
    "odp_general_caps": "odp_caps.general_caps",
    "rc_odp_caps": "odp_caps.rc_odp_caps",
    "uc_odp_caps": "odp_caps.uc_odp_caps",
    "ud_odp_caps": "odp_caps.ud_odp_caps",
    "completion_timestamp_mask": "completion_timestamp_mask",
    "hca_core_clock": "hca_core_clock",
    "device_cap_flags_ex": "device_cap_flags_ex",
    "max_tso": "tso_caps.max_tso",
    "tso_supported_qpts": "tso_caps.supported_qpts",
    "rss_supported_qpts": "rss_caps.supported_qpts",
    "max_rwq_indirection_tables": "rss_caps.max_rwq_indirection_tables",
    "max_rwq_indirection_table_size": "rss_caps.max_rwq_indirection_table_size",
    "rx_hash_fields_mask": "rss_caps.rx_hash_fields_mask",
    "rx_hash_function": "rss_caps.rx_hash_function",
    "max_wq_type_rq": "max_wq_type_rq",
    "qp_rate_limit_min": "packet_pacing_caps.qp_rate_limit_min",
    "qp_rate_limit_max": "packet_pacing_caps.qp_rate_limit_max",
    "pacing_supported_qpts": "packet_pacing_caps.supported_qpts",
    "raw_packet_caps": "raw_packet_caps",
    "max_rndv_hdr_size": "tm_caps.max_rndv_hdr_size",
    "max_num_tags": "tm_caps.max_num_tags",
    "tm_flags": "tm_caps.flags",
    "tm_max_ops": "tm_caps.max_ops",
    "tm_max_sge": "tm_caps.max_sge",
    "max_cq_count": "cq_mod_caps.max_cq_count",
    "max_cq_period": "cq_mod_caps.max_cq_period",
    "max_dm_size": "max_dm_size",
    "fetch_add": "pci_atomic_caps.fetch_add",
    "swap": "pci_atomic_caps.swap",
    "compare_swap": "pci_atomic_caps.compare_swap",
    "xrc_odp_caps": "xrc_odp_caps",
    "phys_port_cnt_ex": "phys_port_cnt_ex",
}
"""What the script calls a field of ibv_device_attr_ex → its name in `numbers`."""


@pytest.mark.skipif(sys.platform != "linux", reason="the header of another system")
def test_the_header_and_the_query_read_the_same_extended_attributes(
    run_c: Callable[..., Printed], fake_verbs: Callable[..., Any]
) -> None:
    assert set(EXTENDED.values()) == {
        name for name in abi.IbvDeviceAttrEx().numbers() if not name.startswith("orig_attr.")
    }
    written = {name: nth + 1 for nth, name in enumerate(EXTENDED)}
    fake = fake_verbs(
        f"device fake0 max_qp=7\nextended fake0 {pairs(written)}\n"
        "port fake0 1 port_cap_flags2=0x421"
    )
    members = {
        script: name.replace("odp_caps.r", "odp_caps.per_transport_caps.r").replace(
            "odp_caps.u", "odp_caps.per_transport_caps.u"
        )
        for script, name in EXTENDED.items()
    }
    body = """
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = ibv_open_device(list[0]);
    struct ibv_device_attr_ex device;
    struct ibv_port_attr port;
    printf("query_device_ex %d\\n", ibv_query_device_ex(context, NULL, &device));
    printf("query_port %d\\n", ibv_query_port(context, 1, &port));
    printf("max_qp %d\\n", device.orig_attr.max_qp);
    printf("port_cap_flags2 %d\\n", port.port_cap_flags2);
    """
    body += "\n".join(
        f'printf("{script} %llu\\n", (unsigned long long)device.{member});'
        for script, member in members.items()
    )
    assert run_c(body + ENDING, fake.library, **fake.environ) == {
        "query_device_ex": ("0",),
        "query_port": ("0",),
        "max_qp": ("7",),
        "port_cap_flags2": (str(0x421),),
        **{name: (str(number),) for name, number in written.items()},
    }


PINGPONG = """
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = ibv_open_device(list[0]);
    static char memory[8] = "ping";
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_mr *mr = (ibv_reg_mr)(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_cq *cq = ibv_create_cq(context, 8, memory, NULL, 0);
    struct ibv_qp_init_attr init = {
        .send_cq = cq, .recv_cq = cq, .qp_context = memory, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
        .cap = {.max_send_wr = 2, .max_recv_wr = 3, .max_send_sge = 4, .max_recv_sge = 5},
    };
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
        .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num, .rq_psn = 7, .sq_psn = 7,
        .max_dest_rd_atomic = 1, .min_rnr_timer = 12, .timeout = 14, .retry_cnt = 6,
        .rnr_retry = 5, .max_rd_atomic = 2,
        .ah_attr = {.is_global = 1, .port_num = 1, .sl = 3,
                    .grh = {.sgid_index = 3, .hop_limit = 64, .flow_label = 9}},
    };
    struct ibv_sge sges[] = {
        {.addr = (uintptr_t)memory, .length = 4, .lkey = mr->lkey},
        {.addr = (uintptr_t)memory + 4, .length = 4, .lkey = mr->lkey},
    };
    struct ibv_send_wr send = {
        .wr_id = 1, .sg_list = &sges[0], .num_sge = 1, .opcode = IBV_WR_SEND,
    }, *bad_send;
    struct ibv_recv_wr receive = {.wr_id = 2, .sg_list = &sges[1], .num_sge = 1}, *bad_receive;
    struct ibv_wc wcs[3];
    int result;

    ibv_query_gid(context, 1, 3, &attr.ah_attr.grh.dgid);
    printf("mr %d %d %zu\\n", mr->pd == pd, mr->addr == memory, mr->length);
    printf("cq %d %d %d\\n", cq->context == context, cq->cq_context == memory, cq->cqe);
    printf("qp %d %d %d %d %d\\n", qp->pd == pd, qp->send_cq == cq, qp->recv_cq == cq,
           qp->qp_context == memory, qp->qp_type);
    result = ibv_modify_qp(qp, &attr,
           IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    printf("init %d %d\\n", result, qp->state);
    attr.qp_state = IBV_QPS_RTR;
    result = ibv_modify_qp(qp, &attr,
           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    printf("rtr %d %d\\n", result, qp->state);
    attr.qp_state = IBV_QPS_RTS;
    result = ibv_modify_qp(qp, &attr,
           IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
           IBV_QP_MAX_QP_RD_ATOMIC);
    printf("rts %d %d\\n", result, qp->state);
    memset(&attr, 0, sizeof attr);
    memset(&init, 0, sizeof init);
    printf("query %d\\n", ibv_query_qp(qp, &attr, 0, &init));
    printf("post_recv %d\\n", ibv_post_recv(qp, &receive, &bad_receive));
    printf("post_send %d\\n", ibv_post_send(qp, &send, &bad_send));
    printf("poll_cq %d\\n", ibv_poll_cq(cq, 3, wcs));
    for (int i = 0; i < 2; i++)
        printf("wc[%d] %d %d %u %u %d\\n", (int)wcs[i].wr_id, wcs[i].status, wcs[i].opcode,
               wcs[i].vendor_err, wcs[i].byte_len, wcs[i].qp_num == qp->qp_num);
    printf("memory %.8s\\n", memory);
    printf("status %s\\n", ibv_wc_status_str(IBV_WC_TM_RNDV_INCOMPLETE));
"""
QUERIED = {
    "attr.qp_state": 3,
    "attr.cur_qp_state": 3,
    "attr.path_mtu": 3,
    "attr.rq_psn": 7,
    "attr.sq_psn": 7,
    "attr.qp_access_flags": 2,
    "attr.cap.max_recv_sge": 5,
    "attr.ah_attr.grh.flow_label": 9,
    "attr.ah_attr.grh.hop_limit": 64,
    "attr.ah_attr.sl": 3,
    "attr.port_num": 1,
    "attr.max_rd_atomic": 2,
    "attr.max_dest_rd_atomic": 1,
    "attr.min_rnr_timer": 12,
    "attr.timeout": 14,
    "attr.retry_cnt": 6,
    "attr.rnr_retry": 5,
    "init.cap.max_send_wr": 2,
    "init.cap.max_recv_wr": 3,
    "init.cap.max_send_sge": 4,
    "init.qp_type": 2,
    "init.sq_sig_all": 1,
}
"""What ibv_query_qp then says: member → number."""
PINGPONG_ENDING = """
    printf("ibv_destroy_qp %d\\n", ibv_destroy_qp(qp));
    printf("ibv_destroy_cq %d\\n", ibv_destroy_cq(cq));
    printf("ibv_dereg_mr %d\\n", ibv_dereg_mr(mr));
    printf("ibv_dealloc_pd %d\\n", ibv_dealloc_pd(pd));
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the header of another system")
def test_the_fake_library_carries_a_message_as_the_header_has_it(
    run_c: Callable[..., Printed], fake_verbs: Callable[..., Any]
) -> None:
    fake = fake_verbs(
        "device fake0\nport fake0 1 state=4 max_mtu=5 gid_tbl_len=4\ngid fake0 1 3 fe80::1"
    )
    queried = "\n".join(
        f'printf("{member} %llu\\n", (unsigned long long){member});' for member in QUERIED
    )
    body = PINGPONG + queried + PINGPONG_ENDING + ENDING

    assert run_c(body, fake.library, **fake.environ) == {
        "mr": ("1", "1", "8"),
        "cq": ("1", "1", "8"),
        "qp": ("1", "1", "1", "1", "2"),
        "init": ("0", "1"),
        "rtr": ("0", "2"),
        "rts": ("0", "3"),
        "query": ("0",),
        **{member: (str(number),) for member, number in QUERIED.items()},
        "post_recv": ("0",),
        "post_send": ("0",),
        "poll_cq": ("2",),
        "wc[2]": ("0", "128", "0", "4", "1"),
        "wc[1]": ("0", "0", "0", "0", "1"),
        "memory": ("pingping",),
        "status": ("TM", "software", "rendezvous"),
        "ibv_destroy_qp": ("0",),
        "ibv_destroy_cq": ("0",),
        "ibv_dereg_mr": ("0",),
        "ibv_dealloc_pd": ("0",),
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
    numbers = abi.IbvPortAttr.from_buffer_copy(buffer).numbers()
    del numbers["port_cap_flags2"]  # past the 48 bytes
    assert numbers == {name: 4 if name == "state" else 0 for name in numbers}
    assert POISON not in buffer[:written]
    assert buffer[written:] == poison[written:]


@pytest.mark.parametrize(
    ("layout", "defines", "absent"),
    [
        ("linux", (), set()),
        ("linux", ("NO_GID_TABLE",), {"_ibv_query_gid_table"}),
        ("darwin", (), {"_ibv_query_gid_table", "ibv_get_device_guid", "ibv_wc_status_str"}),
    ],
    ids=["Linux", "Linux before rdma-core 32", "Darwin"],
)
def test_what_a_layout_does_not_export(
    layout: str, defines: tuple[str, ...], absent: set[str], compile_verbs: Callable[..., Path]
) -> None:
    library = ctypes.CDLL(str(compile_verbs(layout, *defines)))
    optional = (
        "ibv_query_pkey",
        "ibv_get_device_guid",
        "_ibv_query_gid_table",
        "ibv_query_qp",
        "ibv_wc_status_str",
    )
    assert {name for name in optional if not hasattr(library, name)} == absent
