"""Causes ranked by a host's report: what it confirms, contradicts, and adds."""

import io
import time
from typing import Any

import pytest

from lab.limits import Limits
from lab.machine import Machine
from lab.samples import roce_host
from rdmadiag.explain.log.account import Failure
from rdmadiag.explain.log.ranking.by_report import ranked
from rdmadiag.explain.log.recognition.vocabulary import NEEDLES
from rdmadiag.explain.log.scan import collect
from rdmadiag.host.recorded import open_snapshot
from rdmadiag.preflight.judge import judge
from rdmadiag.samples import folder
from rdmadiag.sieve.lines import Sieve
from rdmadiag.sources.run import gather
from rdmadiag.view.reconcile import devices


def explained(line: str, subject: str | Machine) -> Failure:
    """The first failure of a log of one line, ranked by a sample's or a machine's report."""
    if isinstance(subject, Machine):
        evidence, platform = subject.evidence(), "linux"
    else:
        host = open_snapshot(folder(subject))
        evidence, platform = gather(host, time.monotonic() + 20), host.identity.platform
    sieve = Sieve(NEEDLES)
    account = collect(sieve.segments(io.BytesIO(line.encode()))).account(sieve.lines, sieve.bytes)
    found = ranked(account, judge(evidence).findings, devices(evidence), platform).first
    assert found
    return found


def standing(found: Failure) -> dict[str, str]:
    return {each.label: each.standing for each in found.causes}


RTR = (
    "NCCL WARN Call to ibv_modify_qp failed with {} , on dev {}:1, next state RTR, local GID "
    "index {}"
)


@pytest.mark.parametrize("errno", [22, 61, 110])
def test_at_rtr_an_empty_table_is_no_guess_whatever_the_number(errno: int) -> None:
    found = explained(f"ibv_modify_qp to RTR failed: errno {errno}", "roce-empty-gid-table")
    assert found.causes[0].label == "gid-row-empty"
    assert found.causes[0].standing == "confirmed"
    assert "no-usable-gid" in found.causes[0].evidence[0]
    assert any(line.startswith("sudo ip address add") for line in found.next)


def test_an_empty_row_is_confirmed_and_a_full_one_contradicted() -> None:
    empty = explained(RTR.format(22, "rxe0", 9), "roce-healthy")
    assert (empty.causes[0].label, empty.causes[0].standing) == ("gid-row-empty", "confirmed")
    full = explained(RTR.format(61, "rxe0", 1), "roce-healthy")
    assert standing(full)["gid-row-empty"] == "contradicted"
    assert full.causes[-1].label == "gid-row-empty"


@pytest.mark.parametrize(("user", "confirmed"), [({}, False), ({"capabilities": 0}, True)])
def test_what_a_rule_only_notes_confirms_nothing(user: dict[str, Any], confirmed: bool) -> None:
    found = explained("Couldn't create CQ", roce_host().change(memlock=str(8 << 20), **user))
    assert (standing(found)["memlock"] == "confirmed") is confirmed


def test_a_link_local_row_is_said() -> None:
    found = explained(
        "NET/IB: Got completion with status=12 vendor err 129 on mlx: rxe0:1 GID index 0",
        "roce-healthy",
    )
    assert (found.causes[0].label, found.causes[0].standing) == ("gid-does-not-route", "confirmed")


def test_a_mac_without_an_ipv4_gid_and_one_in_a_bridge() -> None:
    line = "ValueError: [jaccl] Changing queue pair to RTR failed with errno 22"
    assert explained(line, "mac-no-ipv4-gid").causes[0].label == "no-ipv4-gid"
    assert explained(line, "mac-bridged").causes[0].label == "port-in-bridge"
    assert standing(explained(line, "mac-bridged"))["port-in-bridge"] == "confirmed"


def test_a_device_without_its_node() -> None:
    found = explained("NET/IB : No device found.", "container-without-uverbs")
    first = found.causes[0]
    assert (first.label, first.standing) == ("container-without-device", "confirmed")
    assert standing(found)["uverbs-node-missing"] == "confirmed"


def test_no_subnet_manager() -> None:
    found = explained(
        "ib_mlx5_log.c:177 Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 vend 0x81)",
        "infiniband-no-subnet-manager",
    )
    assert (found.causes[0].label, found.causes[0].standing) == ("no-subnet-manager", "confirmed")


def test_another_device_and_another_platform_say_nothing() -> None:
    found = explained(
        "ibv_modify_qp to RTR on mlx5_1:1 failed: errno 110", "infiniband-no-subnet-manager"
    )
    assert "no-subnet-manager" not in standing(found)
    mac = explained("ibv_modify_qp to RTR failed: errno 22", "mac-bridged")
    assert set(standing(mac).values()) == {"possible"}


def test_a_healthy_host_confirms_nothing() -> None:
    found = explained("ibv_modify_qp to RTR failed: errno 110", "roce-healthy")
    assert set(standing(found).values()) == {"possible"}


def test_a_variable_of_this_host_is_a_cause_that_the_line_did_not_name() -> None:
    line = "ibv_modify_qp to RTR on mlx5_0:1 failed: errno 110"
    env = {"NCCL_IB_GID_INDEX": "9"}
    found = explained(line, roce_host().change(environ=env))
    assert found.causes[0].label == "gid-does-not-route"
    assert found.causes[0].evidence[0].startswith("the report: env-gid-index: NCCL_IB_GID_INDEX=9")
    assert found.next[0].startswith("unset NCCL_IB_GID_INDEX")


@pytest.mark.parametrize(
    ("line", "message", "label"),
    [
        (
            "ibv_open_device(mlx5_0) failed: errno 12",
            "ALLOC_UAR(0x802) op_mod(0x0) failed, status limits exceeded(0x8)",
            "too-many-contexts",
        ),
        ("ibv_create_qp on mlx5_0 failed: errno 5", "fatal error 8 detected", "firmware-failed"),
    ],
)
def test_what_the_kernel_wrote_confirms_a_cause(line: str, message: str, label: str) -> None:
    said = f"mlx5_core 0000:08:00.0: {message}"
    found = explained(line, roce_host().change(kernel_log=(said,)))
    assert (found.causes[0].label, found.causes[0].standing) == (label, "confirmed")


def test_a_device_that_the_report_has_not_is_not_explained_by_another_device() -> None:
    line = "ibv_modify_qp to RTR on mlx5_3:1 failed: errno 110"
    found = explained(line, "roce-empty-gid-table")
    assert set(standing(found).values()) == {"possible"}
    assert found.device_in_report is False
    assert explained(line.replace("mlx5_3", "mlx5_0"), "roce-empty-gid-table").device_in_report


@pytest.mark.parametrize(
    ("line", "label"),
    [
        ("ibv_create_cq failed: Resource temporarily unavailable (11)", "rdma-cgroup"),
        ("Couldn't create CQ", "rdma-cgroup"),
        ("Couldn't get context for DEVICE", "rdma-cgroup"),
        ("ibv_create_comp_channel failed: Too many open files", "open-files-limit"),
    ],
)
def test_a_limit_of_the_process_confirms_what_it_makes_fail(line: str, label: str) -> None:
    name = roce_host().devices[0].name
    rows = (f"{name} hca_handle=1 hca_object=2\n", f"{name} hca_handle=1 hca_object=0\n")
    limits = Limits(rdma={"/sys/fs/cgroup/job7": rows}, files=("20", "20"))
    line = line.replace("DEVICE", name)
    found = explained(line, roce_host().change(limits=limits))
    first = (each for each in found.causes if each.label == label)
    assert next(first).standing == "confirmed"
    assert standing(explained(line, roce_host())).get(label) != "confirmed"


def test_a_line_of_the_kernel_names_a_device_by_its_pci_function() -> None:
    line = (
        "mlx5_core 0000:08:00.0: mlx5_cmd_out_err:838:(pid 1): CREATE_QP(0x500) op_mod(0x0) "
        "failed, status bad resource(0x5), syndrome (0x1), err(-22)"
    )
    said = "mlx5_core 0000:08:00.0: fatal error 8 detected"
    found = explained(line, roce_host().change(kernel_log=(said,)))
    assert (found.device, found.device_in_report) == ("0000:08:00.0", True)
    assert (found.causes[0].label, found.causes[0].standing) == ("firmware-failed", "confirmed")
