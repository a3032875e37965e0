"""Messages with a cause of their own, and lines beside RDMA that are no trouble of it."""

import pytest

from rdmadiag.explain.log.kind import Kind
from rdmadiag.explain.log.line.fields import fields
from rdmadiag.explain.log.meaning import Meaning
from rdmadiag.explain.log.recognition.in_words import in_words
from rdmadiag.explain.log.recognition.recognise import beside_rdma, recognise


def meaning(line: str) -> Meaning:
    found = recognise(line.encode())
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("line", "label"),
    [
        ("allow registering part of your physical memory.  This can cause", "mr-exhausted"),
        ("VERBS RDMA Try increasing Infiniband device MTTs or reducing it.", "mr-exhausted"),
        ("inadequate memlock limit or driver settings", "memlock"),
        ("ibv_reg_dmabuf_mr(...) failed: Unknown error 524", "memory-kind"),
        ("rdma_rxe: failed to create udp socket. err = -97", "no-ipv6"),
        ("iwpmd[1]: create_iwpm_socket_v6: Unable to create socket.", "no-ipv6"),
        (
            'workqueue: Failed to create a rescuer kthread for wq "mkey_cache": -EINTR',
            "interrupted",
        ),
        (
            "sockcm_iface.c:257 Fatal: unable to create handler for new connection",
            "open-files-limit",
        ),
        ("x_rdma: Unknown symbol ib_dealloc_pd_user (err -22)", "kernel-module-missing"),
        ("NCCL WARN Failed to initialize any NET plugin", "no-rdma-device"),
        ("NCCL WARN NET/OFI Only EFA provider is supported", "no-provider"),
        ("nvmf_rdma_resize_cq: iWARP doesn't support CQ resize.", "device-lacks-capability"),
        (
            "mlx4_ib_demux_mad: failed sending GSI to slave 3 via tunnel qp (-11)",
            "queue-full",
        ),
        ("libibverbs: GRH is mandatory For RoCE address handle", "no-gid-given"),
        ("retry count exceeded", "gid-does-not-route"),
        (
            "nvmet_rdma: SEND for CQE 0x0 failed with status transport retry counter exceeded",
            "peer-gone",
        ),
        ("kernel: ib_srpt receiving failed for ioctx 000000006d1c31fe with status 5", "flushed"),
        ("NCCL WARN NET/IB : Unable to open device mlx5_1", "container-without-device"),
    ],
)
def test_the_first_cause(line: str, label: str) -> None:
    assert meaning(line).causes[0].label == label


@pytest.mark.parametrize(
    "line",
    [
        "[ 81.926738] nvme nvme2: I/O 1 QID 0 timeout",
        "[ 496.72] INFO: task rdma:1321 blocked for more than 122 seconds.",
        "__ib_cache_gid_add: unable to add gid fe80::1 error=-28",
        " 3: (RDMAConnectedSocketImpl::submit(bool)+0xa3b) [0x7f4aa3638d7b]",
        "lid_mgr_init: state_mgr_x: ERR 3315: Unknown remote side for node 0x0",
        "iser: iser_cma_handler: Event: 6 status: -110 conn: 0 id: 0",
        "[mv2_mcast_resend_window] Failed to post mcast send errno:0",
    ],
)
def test_what_is_only_trouble_does_not_pass_as_fine(line: str) -> None:
    assert meaning(line).kind in (Kind.UNKNOWN, Kind.FAILURE)


@pytest.mark.parametrize(
    "line",
    [
        "[ 81.9] nvme nvme0: I/O 12 QID 4 timeout, aborting",
        "nvme nvme1: queue 0: timeout request 0x0 type 4",
        "nvmet_tcp: failed to allocate queue",
        "ixgbe 0000:83:00.0: Failed to enable PCI sriov: -12",
        "libfabric:1:tcp:ep_ctrl:server_sock_accept():395<warn> accept error: 24",
        "nixl_agent.cpp:259] getPluginParams: backend 'UCX' not found",
        "W0101 x.cpp:134] Failed to load plugin from /opt/libplugin_GDS.so: libcufile.so.0",
        "FATAL ERROR: in gasnetc_init() at mpi-conduit/gasnet_core.c:246: limit is too small",
        'ERROR: "__divdi3" [drivers/infiniband/hw/mlx5/mlx5_ib.ko] undefined!',
        "eth: mlx5: Move pause storm errors to pause stats",
        "[PATCH rdma-next 3/7] RDMA/irdma: Fix unhandled error",
        "EXT4-fs error (device sda1): ext4_find_entry: inode #2: comm rdma",
        "ens2f0: Cannot change channels when RDMA is active.",
    ],
)
def test_what_is_no_trouble_of_rdma(line: str) -> None:
    found = recognise(line.encode())
    assert found is None or found.is_other


def test_the_kernel_is_under_no_limit_on_locked_memory() -> None:
    def labels(line: str) -> list[str]:
        return [each.label for each in in_words(fields(line))]

    assert labels("mlx4_core: probe of 0000:b1:00.0 failed with error -12") == ["no-memory"]
    assert labels("app: rdma buffers: Cannot allocate memory")[0] == "memlock"
    assert "memlock" in labels("mlx5_core: umem pin failed with -12")


def test_a_warning_of_the_kernel_counts_beside_a_driver_of_rdma() -> None:
    line = b"[68998.66] ------------[ cut here ]------------"
    driver = b"efa 0000:4f:00.0: enabling device (0000 -> 0002)\n"
    assert beside_rdma(line, b"", driver) is not None
    assert beside_rdma(line, b"", b"usb 1-1: new device\n") is None


@pytest.mark.parametrize(
    "line",
    [
        b"[    0.480000] overlayfs: failed to set xattr on upper\n",
        b"Oct 16 17:59:36 node1 kernel: EXT4-fs: failed to mount\n",
        b"[    4.100000] [   T12] nouveau 0000:01:00.0: failed to create channel\n",
    ],
)
def test_a_line_of_the_kernel_that_names_another_subsystem_is_of_that(line: bytes) -> None:
    rdma = b"[    0.470000] infiniband rxe0: set active\n"
    assert beside_rdma(line, rdma, rdma) is None
