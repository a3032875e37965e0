"""Trouble that only a host's or a file's name ties to RDMA is none; that of RDMA is shown."""

import io

import pytest

from rdmadiag.explain.log.recognition.trouble import is_trouble
from rdmadiag.explain.log.recognition.vocabulary import NEEDLES
from rdmadiag.explain.log.scan import collect
from rdmadiag.sieve.lines import Sieve

_SIEVE = Sieve(NEEDLES)


def _found(log: str) -> bool:
    collector = collect(_SIEVE.segments(io.BytesIO(log.encode())))
    account = collector.account(_SIEVE.lines, _SIEVE.bytes)
    return bool(account.first or account.unknown or account.notes)


def _causes(log: str) -> tuple[str, ...]:
    collector = collect(_SIEVE.segments(io.BytesIO(log.encode())))
    account = collector.account(_SIEVE.lines, _SIEVE.bytes)
    return tuple(each.label for each in account.first.causes) if account.first else ()


@pytest.mark.parametrize(
    "line",
    [
        # what was set, a page's table, counts of none, providers that are none of RDMA
        "ENV parameter: GASNET_FREEZE_ON_ERROR = NO (default)",
        "| `Couldn't allocate protection domain` | Too many of them | Reboot |",
        "##  1 ports checked, 0 ports have errors beyond threshold",
        "libfabric:core:core:fi_getinfo_():1002<warn> fi_getinfo: provider tcp returned -61 (None)",
        # packages, files
        "dpkg: error processing package ibverbs-utils (--configure):",
        "error: %prein(infiniband-diags-41.0-1.el9.x86_64) scriptlet failed, exit status 9",
        "apt-get: cannot remove libibverbs1",
        "cp: cannot stat 'rdma-core/scripts': No such file or directory",
        "mkdir: cannot create directory 'rdma-core/build': Permission denied",
        "error: Failed dependencies: librdmacm is needed by (installed) libfabric",
        # other programs, on a host that is named after RDMA
        "Mar  3 08:00:01 rdma-node7 systemd[1]: Failed to mount /srv/data.",
        "ssh: Could not resolve hostname roce-node3: Name or service not known",
        "iperf3: error - unable to connect to server ib-node4: Connection refused",
        'kubelet: Failed to pull image "registry.example/mlnx-ofed:1": not found',
        'Error from server (NotFound): daemonsets "rdma-cni" not found',
        # the port as an Ethernet port, UCX's own file system, and how a job's processes meet
        "mlx5_net: port 0 ioctl(SIOCETHTOOL, ETHTOOL_GCHANNELS) failed: Invalid argument",
        "mlx5_common: Interface 4 cannot add MAC address 02:00:00:00:00:09",
        "[1.2] [n1:9:a]  vfs_sock.c:77  UCX  ERROR bind() failed: Address already in use",
        "nvshmem_bootstrap_uid.cpp:9: NULL value nvshmem_bootstrap failed",
        "gasnet pmi-spawner/gasnet_bootstrap_pmi.c:9: error: PMIX_ERR_INIT",
        # modules of others, GPUs, builds
        "modprobe: ERROR: could not insert 'r8126': Key was rejected by service",
        "RuntimeError: deep_ep.cpp:83 'an illegal memory access was encountered'",
        "nvlink error : Undefined reference to 'nvshmemi_ibgda_device_state_d'",
        # people and manuals
        "I tried ib_send_lat and it failed in the same way",
        "This patch fixes an error of mlx5_ib that was introduced earlier",
        "If you see errors of the RDMA device, restart the daemon",
        "Has anyone seen that RDMA fails on this host?",
        "mlx5_core: this error can be safely ignored",
        "Usage: rping [-s] ; an invalid option fails",
    ],
)
def test_trouble_of_another(line: str) -> None:
    assert not is_trouble(line)
    assert not _found(f"{line}\n")


def test_a_host_that_is_named_after_rdma_stands_beside_no_trouble() -> None:
    log = (
        "Mar  3 08:00:01 roce-1 chronyd[7]: Selected source 192.0.2.9\n"
        "Mar  3 08:00:02 roce-1 cron[9]: job failed\n"
    )
    assert not _found(log)


BOOT = """\
[    0.090000] ------------[ cut here ]------------
[    0.090000] WARNING: CPU: 0 PID: 1 at {at}
[    0.090000] No virtio device ID configured for PCI - no PCI support
[    0.090000] Modules linked in: rdma_rxe ib_uverbs ib_core
[    0.090000] CPU: 0 PID: 1 Comm: swapper Not tainted 6.1.176 #1
[    0.090000] Call Trace:
[    0.090000]  [<6057cca3>] dump_stack_lvl+0x4a/0x58
[    0.090000] ---[ end trace 0000000000000000 ]---
[    0.090000] SoftiWARP attached
[    0.100000] Failed to initialize ubd device 0 :Couldn't determine size of device's file
[    0.100000] rdma_rxe: loaded
[    0.100000] epollctl add err fd 0, Operation not permitted
[    3.520000] infiniband rxe0: added veth0
"""


def test_a_boot_at_which_other_parts_of_the_kernel_warn() -> None:
    assert not _found(BOOT.format(at="arch/um/drivers/virt-pci.c:886 um_pci_init+0x9f/0xa9"))
    rxe = "drivers/infiniband/sw/rxe/rxe_pool.c:259 __rxe_cleanup+0x1df/0x240 [rdma_rxe]"
    assert _found(BOOT.format(at=rxe))


def test_a_warning_of_what_all_drivers_use_is_of_its_caller() -> None:
    warning = BOOT.format(at="kernel/dma/debug.c:973 check_unmap+0x5c/0x90")
    assert not _found(warning)
    assert _found(warning.replace("dump_stack_lvl+0x4a/0x58", "mlx5_ib_dereg_mr+0x4a/0x58"))


@pytest.mark.parametrize(
    "log",
    [
        "Mar 03 08:00:01 118336 [7F00] 0x01 -> pi_rcv_check: ERR 0F15: Bad port state\n",
        "cxi1: cxil_alloc_lni failed: Invalid argument\n",
        "libfabric:9:cxi:domain:cxip_domain_enable():90<warn> failed: Invalid argument\n",
        "[   77.1] mana 7870:00:00.0: HWC: Failed hw_channel req: timed out\n",
        "[ERROR] HCCL(7,python):2026-01-01 [hccl_socket.cc:9] connect to the peer failed\n",
        "pyverbs.pyverbs_error.PyverbsRDMAError: Failed to create an SRQ. Errno: 0, Success\n",
        "terminate called: N4ucxx20ConnectionResetErrorE. what(): Connection reset\n",
        "- `ibvwrap.cc:9 NCCL WARN Call to ibv_create_cq failed with error Bad address`\n",
        (
            "[9.1] infiniband qib0: port 2 is taken out of service\n"
            "[9.2] BUG: unable to handle page fault for address: ffffc90000a01000\n"
        ),
        "nvme nvme3: Bogus remote invalidation for rkey 0x1234\n",
    ],
)
def test_trouble_of_rdma_never_passes(log: str) -> None:
    assert _found(log)


@pytest.mark.parametrize(
    ("log", "label"),
    [
        ("PSM2 can't open hfi unit: 0 (err=26)", "port-down"),
        ("PSM3 can't open nic unit: -1 (err=25)", "too-many-contexts"),
        ("PSM2 can't open hfi unit: -1 (err=21)", "no-rdma-device"),
        ("[ 9.1] rdma_rxe: cqe(65536) > max_cqe(32767)", "cq-too-large"),
        ("[ 9.1] rdma_rxe: invalid send wr = 99999 > 16384", "qp-too-large"),
        ("[ 9.1] hns3 0000:01:00.0 hns_1: check RQ size error!", "qp-too-large"),
        ("[ 9.1] rdma_rxe: check_rkey: no MR matches rkey 0x77", "remote-key-wrong"),
        (
            "NCCL WARN NET/IB : Remote RoCE device is incompatible with the local [0]mlx5_1:1/IB.",
            "link-layers-differ",
        ),
        ("nvme nvme0: failed to initialize PI MR pool sized 64 for QID 1", "mr-exhausted"),
        ("rdma: setting up protection domain, no context found", "no-rdma-at-address"),
        ("systemd-modules-load[9]: Failed to find module 'ib_umad'", "kernel-module-missing"),
        ("mlx5_core 0000:01:00.0: CREATE_TIR(0x900) op_mod(0x0) failed,", "driver-refused"),
        (
            "NCCL WARN Call to ibv_create_cq failed with error No space left on device",
            "cq-exhausted",
        ),
        ("NCCL WARN Call to ibv_create_qp failed with errno 28", "qp-exhausted"),
        ("fi_mr_reg failed: Function not implemented", "device-lacks-capability"),
        ("nvmet_rdma: rdma_accept failed (error code = -12)", "no-memory"),
        ("Failed to deallocate MR - Device or resource busy", "object-in-use"),
        ("Couldn't allocate MR with error=14", "gdr-off"),
    ],
)
def test_first_cause(log: str, label: str) -> None:
    assert (_causes(f"{log}\n") or ("",))[0] == label


def test_a_process_that_was_killed_answers_no_more() -> None:
    failed = "n1:9:9 [0] NCCL WARN NET/IB : Got completion with error 12, opcode 0, len 0\n"
    assert _causes(failed)[0] != "peer-gone"
    assert _causes(f"slurmstepd: error: Detected 1 oom_kill event in StepId=7.0\n{failed}")[0] == (
        "peer-gone"
    )


def test_local_protection_of_a_gpu_job_may_be_peer_memory() -> None:
    assert "gdr-off" in _causes(
        "n1:9:9 [0] NCCL WARN NET/IB : Got completion with error 4, opcode 0, vendor err 82\n"
    )
