"""What the verbs child says of a real library and kernel, beside ibv_devinfo's answer."""

import json
import os
import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.rxe import Rxe

NOBODY = 65534
Pair = tuple[Rxe, Rxe]
Call = Callable[..., tuple[int, Any]]
Rdmadiag = Callable[..., tuple[int, str, str]]
Run = Callable[..., Any]

LIMITS = (
    *("max_qp", "max_qp_wr", "max_sge", "max_cq", "max_cqe"),
    *("max_mr", "max_mr_size", "max_pd", "max_ah", "max_srq"),
)
ATTRIBUTES = (
    *("max_mr_size", "page_size_cap", "vendor_id", "vendor_part_id", "hw_ver", "max_qp"),
    *("max_qp_wr", "device_cap_flags", "max_sge", "max_sge_rd", "max_cq", "max_cqe", "max_mr"),
    *("max_pd", "max_qp_rd_atom", "max_ee_rd_atom", "max_res_rd_atom", "max_qp_init_rd_atom"),
    *("max_ee_init_rd_atom", "atomic_cap", "max_ee", "max_rdd", "max_mw", "max_raw_ipv6_qp"),
    *("max_raw_ethy_qp", "max_mcast_grp", "max_mcast_qp_attach", "max_total_mcast_qp_attach"),
    *("max_ah", "max_fmr", "max_srq", "max_srq_wr", "max_srq_sge", "max_pkeys"),
    *("local_ca_ack_delay", "phys_port_cnt"),
)
"""Of struct ibv_device_attr, what ibv_devinfo prints where there is no FMR."""
LINK_LAYERS = {"Ethernet": ("ethernet", 2), "InfiniBand": ("infiniband", 1)}
GID_TYPES = {"IB": ("ib", 0), "RoCE v1": ("roce_v1", 1), "RoCE v2": ("roce_v2", 2)}

_FIELD = re.compile(r"\s+(\w+):\s+(\S.*)")
_GID = re.compile(r"\s+GID\[\s*(\d+)\]:\s+([0-9a-f:.]+), (.+)")


# --- what ibv_devinfo prints -----------------------------------------------------------


def sections(output: str) -> dict[str, list[list[str]]]:
    """`ibv_devinfo -v`: device → its own lines, then those of each port."""
    found: dict[str, list[list[str]]] = {}
    part: list[str] = []
    for line in output.splitlines():
        name = re.fullmatch(r"hca_id:\s+(\S+)", line)
        if name:
            part = []
            found[name[1]] = [part]
        elif re.fullmatch(r"\s+port:\s+\d+", line):
            part = []
            list(found.values())[-1].append(part)
        part.append(line)
    return found


def fields(lines: list[str]) -> dict[str, str]:
    return {match[1]: match[2].strip() for match in map(_FIELD.fullmatch, lines) if match}


def number(text: str) -> int:
    """`1024`, `0x1f`, and the 5 of `4096 (5)`."""
    return int(text.rpartition("(")[2].rstrip(")"), 0)


def word(text: str) -> str:
    """The `active` of `PORT_ACTIVE (4)`."""
    return text.partition(" (")[0].removeprefix("PORT_").lower()


def parse_devinfo(output: str, pair: Pair) -> list[Any]:
    """`ibv_devinfo -v` in the words of `.evidence.verbs.devices`."""
    netdevs = {device.name: socket.if_nametoindex(device.netdev) for device in pair}
    devices = []
    for name, (head, *ports) in sections(output).items():
        device = fields(head)
        kind = Path(f"/sys/class/infiniband/{name}/node_type").read_text()  # it does not print it
        devices.append(
            {
                "name": name,
                "node_type": kind.partition(": ")[2].strip().lower(),
                "node_type_number": int(kind.partition(":")[0]),
                "transport": number(device["transport"]),
                "node_guid": device["node_guid"],
                "sys_image_guid": device["sys_image_guid"],
                "firmware": device["fw_ver"],
                "vendor_id": number(device["vendor_id"]),
                "vendor_part_id": number(device["vendor_part_id"]),
                "hw_version": number(device["hw_ver"]),
                "port_count": number(device["phys_port_cnt"]),
                "limits": {limit: number(device[limit]) for limit in LIMITS},
                "attributes": {each: number(device[each]) for each in ATTRIBUTES},
                "ports": [parse_port(lines, netdevs[name]) for lines in ports],
            }
        )
    return devices


def parse_port(lines: list[str], netdev: int) -> Any:
    port = fields(lines)
    layer, layer_number = LINK_LAYERS[port["link_layer"]]
    gids = [match.groups() for match in map(_GID.fullmatch, lines) if match]
    return {
        "number": number(port["port"]),
        "state": word(port["state"]),
        "state_number": number(port["state"]),
        "phys_state": word(port["phys_state"]),
        "phys_state_number": number(port["phys_state"]),
        "link_layer": layer,
        "link_layer_number": layer_number,
        "max_mtu": int(port["max_mtu"].split()[0]),
        "active_mtu": int(port["active_mtu"].split()[0]),
        "lid": number(port["port_lid"]),
        "lmc": number(port["port_lmc"]),
        "sm_lid": number(port["sm_lid"]),
        "sm_sl": number(port["sm_sl"]),
        "active_width": number(port["active_width"]),
        "active_speed": number(port["active_speed"]),
        "max_msg_size": number(port["max_msg_sz"]),
        "gid_table_length": number(port["gid_tbl_len"]),
        "pkey_table_length": number(port["pkey_tbl_len"]),
        "gids": [
            {
                "index": int(index),
                "gid": address,
                "type": GID_TYPES[kind][0],
                "type_number": GID_TYPES[kind][1],
                "netdev_index": netdev,
            }
            for index, address, kind in gids
        ],
        "gids_asked": number(port["gid_tbl_len"]),
        "gids_unreadable": {},
    }


# --- both of them ----------------------------------------------------------------------


def verbs(rdmadiag_json: Call, source: str | None = None, **how: Any) -> Any:
    recorded = [] if source is None else ["--from", source]
    return rdmadiag_json("preflight", *recorded, **how)[1]["evidence"]["verbs"]


def agreed(rdmadiag_json: Call, run: Run, pair: Pair) -> Any:
    """Our devices and GIDs, which are ibv_devinfo's."""
    late = time.monotonic() + 120
    while True:  # addresses come and go for seconds after a link has changed
        before = run(["ibv_devinfo", "-v"], timeout=60).stdout
        ours = verbs(rdmadiag_json)
        if run(["ibv_devinfo", "-v"], timeout=60).stdout == before:
            break
        assert time.monotonic() < late, "ibv_devinfo never says the same twice"
    theirs = parse_devinfo(before, pair)
    assert len(theirs) == 2
    assert [_without_extended(device) for device in ours["devices"]] == theirs
    assert (ours["failures"], ours["unanswered"], ours["warnings"]) == ([], None, [])
    return ours["devices"]


def _without_extended(device: Any) -> Any:
    """What ibv_devinfo prints by name; tests/lab/guest/test_capabilities.py has the rest."""
    kept = {name: each for name, each in device.items() if name not in ("extended", "operations")}
    kept["attributes"] = {name: device["attributes"][name] for name in ATTRIBUTES}
    kept["ports"] = [
        {name: each for name, each in port.items() if name != "attributes"}
        for port in device["ports"]
    ]
    return kept


def states(devices: Any) -> list[tuple[str, str]]:
    return [(port["state"], port["phys_state"]) for device in devices for port in device["ports"]]


@pytest.fixture(scope="class")
def devices(rxe_pair: Pair, rdmadiag_json: Call, run: Run) -> Any:
    """Those of an unchanged pair, in which ibv_devinfo agrees."""
    return agreed(rdmadiag_json, run, rxe_pair)


class TestPair:
    def test_every_field_agrees_with_ibv_devinfo(self, rxe_pair: Pair, devices: Any) -> None:
        assert states(devices) == [("active", "link_up")] * 2
        addresses = [gid["gid"] for device in devices for gid in device["ports"][0]["gids"]]
        assert {f"::ffff:{device.ipv4}" for device in rxe_pair} <= set(addresses)

    def test_an_ordinary_user_is_told_the_same(self, devices: Any, rdmadiag_json: Call) -> None:
        assert verbs(rdmadiag_json, user=NOBODY)["devices"] == devices

    def test_a_snapshot_keeps_the_transcript(
        self, devices: Any, rdmadiag: Rdmadiag, rdmadiag_json: Call, tmp_path: Path
    ) -> None:
        target = tmp_path / "snapshot"
        code, _, err = rdmadiag("snapshot", str(target))
        assert code == 0, err
        lines = (target / "verbs" / "query.jsonl").read_text().splitlines()
        assert all(json.loads(line) for line in lines if line)
        assert verbs(rdmadiag_json, source=str(target))["devices"] == devices

    def test_no_context_and_no_resource_is_left(
        self, rxe_pair: Pair, rdmadiag: Rdmadiag, run: Run
    ) -> None:
        before = resources(run)
        for command in ("preflight", "devices"):
            _, out, err = rdmadiag(command)
            assert (bool(out), err) == (True, "")
            assert resources(run) == before

    def test_a_context_that_was_left_would_have_been_seen(self, rxe_pair: Pair, run: Run) -> None:
        before = resources(run)
        holder = subprocess.Popen(["ibv_asyncwatch", "-d", "rxe0"], stdout=subprocess.PIPE)
        try:
            late = time.monotonic() + 30
            while resources(run) == before and time.monotonic() < late:
                time.sleep(0.2)
            assert [row["ctx"] for row in resources(run)[0]] == [1, 0]
            assert len(resources(run)[1]) == 1
        finally:
            holder.kill()
            holder.communicate()
        assert resources(run) == before


def resources(run: Run) -> tuple[Any, Any]:
    """Counts of each device, and every user context by its process."""
    counts = run(["rdma", "-j", "res"], timeout=30)
    contexts = run(["rdma", "-j", "res", "show", "ctx"], timeout=30)
    assert (counts.returncode, contexts.returncode) == (0, 0), counts.stderr + contexts.stderr
    return json.loads(counts.stdout), json.loads(contexts.stdout)


def test_a_port_that_goes_down_and_up_agrees_with_ibv_devinfo(
    rxe_pair: Pair, rdmadiag_json: Call, run: Run
) -> None:
    run(["ip", "link", "set", "veth0", "down"], timeout=30)
    down = agreed(rdmadiag_json, run, rxe_pair)
    assert states(down) == [("down", "disabled"), ("down", "polling")]
    run(["ip", "link", "set", "veth0", "up"], timeout=30)
    late = time.monotonic() + 60
    while Path("/sys/class/infiniband/rxe1/ports/1/state").read_text() != "4: ACTIVE\n":
        assert time.monotonic() < late, "the port did not come up"
        time.sleep(0.2)
    up = agreed(rdmadiag_json, run, rxe_pair)
    assert states(up) == [("active", "link_up")] * 2


def test_a_hole_in_the_table_keeps_the_indexes_of_ibv_devinfo(
    rxe_pair: Pair, rdmadiag_json: Call, run: Run
) -> None:
    run(["ip", "address", "add", "198.51.100.1/24", "dev", "veth0"], timeout=30)
    run(["ip", "address", "del", "192.0.2.1/24", "dev", "veth0"], timeout=30)
    devices = agreed(rdmadiag_json, run, rxe_pair)
    indexes = [gid["index"] for gid in devices[0]["ports"][0]["gids"]]
    assert indexes != list(range(len(indexes))), "the table has no hole"


# --- nodes that refuse -----------------------------------------------------------------


class TestClosedNodes:
    @pytest.fixture
    def closed(self, rxe_pair: Pair) -> Iterator[Callable[[str], str]]:
        """`closed("uverbs0")` takes a node's mode away and names its device."""
        nodes = []

        def close(node: str) -> str:
            nodes.append(f"/dev/infiniband/{node}")
            os.chmod(nodes[-1], 0)
            return Path(f"/sys/class/infiniband_verbs/{node}/ibdev").read_text().strip()

        yield close
        for path in nodes:
            os.chmod(path, 0o666)

    def test_the_errno_of_a_node_that_the_user_may_not_open_is_named(
        self, closed: Callable[[str], str], rdmadiag_json: Call
    ) -> None:
        refused = closed("uverbs0")
        answer = verbs(rdmadiag_json, user=NOBODY)
        assert answer["failures"] == [refusal(refused)]
        assert answer["unanswered"] is None
        by_name = {device["name"]: device for device in answer["devices"]}
        assert sorted(by_name) == ["rxe0", "rxe1"]
        assert "EACCES" in by_name[refused]["ports"]["detail"]
        (other,) = by_name.keys() - {refused}
        assert by_name[other]["ports"][0]["state"] == "active"

    def test_libibverbs_waits_for_udev_and_two_refusals_do_not_look_like_a_hang(
        self, closed: Callable[[str], str], rdmadiag_json: Call, run: Run
    ) -> None:
        refused = sorted([closed("uverbs0"), closed("uverbs1")])
        nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        start = time.monotonic()
        peer = run([*nobody, "ibv_devinfo", "-d", refused[0]], timeout=60)
        waited = time.monotonic() - start
        assert "Failed to open device" in peer.stdout + peer.stderr
        assert waited > 5, "libibverbs no longer waits: verbs.query need not open the node first"
        answer = verbs(rdmadiag_json, user=NOBODY)
        failures = sorted(answer["failures"], key=lambda each: str(each["device"]))
        assert failures == [refusal(name) for name in refused]
        assert answer["unanswered"] is None


def refusal(device: str) -> Any:
    return {
        "call": "ibv_open_device",
        "device": device,
        "port": None,
        "errno": 13,
        "name": "EACCES",
    }


# --- no library, no module -------------------------------------------------------------


def without_libibverbs(folder: Path) -> list[str]:
    """A prefix that runs a program where the loader finds no libibverbs, and nobody else's."""
    listing = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True)
    (path,) = re.findall(r"libibverbs\.so\.1 .*=> (\S+)", listing.stdout)
    libraries = os.path.realpath(os.path.dirname(path))
    layers = f"lowerdir={libraries},upperdir={folder}/upper,workdir={folder}/work"
    script = (
        f"mount -t tmpfs none {folder} && mkdir {folder}/upper {folder}/work && "
        f"mount -t overlay -o {layers} overlay {libraries} && "
        f'rm {libraries}/libibverbs.so.1 && exec "$@"'
    )
    return ["unshare", "--mount", "sh", "-c", script, "sh"]


def test_without_libibverbs_the_rest_is_complete_and_verbs_says_why(
    rxe_pair: Pair, rdmadiag_json: Call, tmp_path: Path
) -> None:
    document = rdmadiag_json("preflight", prefix=without_libibverbs(tmp_path))[1]
    assert document["evidence"]["verbs"] == {
        "why": "absent",
        "detail": "libibverbs.so.1: cannot open shared object file: No such file or directory",
    }
    for source in ("sysfs", "nldev", "netdev", "process"):
        assert "why" not in document["evidence"][source]
    ports = [(port["device"], port["state"]) for port in document["verdict"]["ports"]]
    assert ports == [("rxe0", "active"), ("rxe1", "active")]


@pytest.mark.needs("modules")
def test_ib_uverbs_is_not_loaded_by_looking(
    rdmadiag: Rdmadiag, rdmadiag_json: Call, run: Run, tmp_path: Path
) -> None:
    """With ib_core alone: rdma_rxe needs ib_uverbs, so there is no device without it here."""
    for module in ("rdma_rxe", "rdma_ucm", "rdma_cm", "ib_uverbs"):
        run(["modprobe", "-r", module], timeout=60)
    assert run(["modprobe", "ib_core"], timeout=60).returncode == 0
    before = run(["lsmod"], timeout=30).stdout
    assert re.search(r"^ib_core ", before, re.MULTILINE)
    assert "ib_uverbs" not in before
    missing = verbs(rdmadiag_json)
    assert missing["why"] == "absent"
    assert "ib_uverbs is not loaded" in missing["detail"]
    for arguments in (["devices"], ["snapshot", str(tmp_path / "out")]):
        _, out, err = rdmadiag(*arguments)
        assert (bool(out), err) == (True, "")
    assert run(["lsmod"], timeout=30).stdout == before
