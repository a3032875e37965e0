"""What no table knows, names RDMA and says trouble is never passed over; what is healthy is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.explain.log.kind import Kind
from rdmadiag.explain.log.recognition.recognise import recognise
from rdmadiag.explain.log.recognition.trouble import is_trouble
from rdmadiag.explain.log.recognition.vocabulary import is_candidate

NAMES = (
    *("rdma_rxe", "nvmet_rdma", "RdmaTransport", "libibverbs", "the verbs device", "InfiniBand"),
    *("RoCE", "iWARP", "openib", "o2iblnd", "kiblnd_cm", "NET/IB", "mlx5_core", "mlx4_0", "rxe0"),
    *("bnxt_re0", "bnxt_en", "irdma0", "ionic_0", "qedr0", "hns_0: rdma", "EFA ", "mana_ib"),
    *("hfi1_0", "usnic_0", "iw_cxgb4", "rxe_0", "mthca0", "ib0: ", "rocep1s0", "Thunderbolt"),
    *("ib_core", "ib_uverbs", "ib_srpt", "ib_umad", "ib_mad", "ib_ipoib", "ibwarn: ", "iberror"),
    *("umad", "uverbs0", "iwpm", "iser: ", "isert", "smbdirect", "subnet manager", "opensm"),
    *("libfabric", "the OFI ", "mtl_ofi_x", "fi_domain", "UCX ", "uct_iface", "ucp_worker"),
    *("UD endpoint", "nvshmem", "ibgda", "ibrc", "nixl", "Mooncake", "[jaccl]", "PSM2 ", "psm3"),
    *("libpsm2", "DeepEP", "uccl", "rsocket", "xlio", "queue pair", "protection domain"),
    *("memory region", "work request", "pkey", "DevX", "nvidia_peermem", "GPUDirect", "gdrcopy"),
    *("of QP 7, ", "send CQ state", "HCA mlx5", "RNIC ", "IB device", "IB port"),
)
TROUBLES = (
    *("failed", "failure", "fails", "error", "fatal", "aborted", "timed out", "timeout", "refused"),
    *("unreachable", "denied", "rejected", "unable to go on", "cannot go on", "can't go on"),
    *("could not go on", "couldn't go on", "exhausted", "exceeded", "invalid", "incompatible"),
    *("mismatch", "not responding", "no response", "panic", "catastrophic", "not found"),
    *("not loaded", "wasn't found", "abnormal", "BUG: here", "out of memory", "EINVAL"),
    *("WARNING: CPU: 3 PID: 9 at drivers", "closed (-103)"),
)


@pytest.mark.parametrize("name", NAMES)
def test_whatever_of_rdma_is_named_with_trouble_is_shown(name: str) -> None:
    """And the sieve, which chooses the lines, has a word for it."""
    for trouble in TROUBLES:
        line = f"frobnicate {name} thing {trouble}"
        assert is_trouble(line), line
        assert is_candidate(line.encode()), line
    found = recognise(f"frobnicate {name} thing failed".encode())
    assert found
    assert found.kind in (Kind.UNKNOWN, Kind.FAILURE, Kind.CONSEQUENCE)


@pytest.mark.parametrize(
    "line",
    [
        "nvmet_rdma: post_recv cmd failed",
        "rnic_create_qp: error 5",
        "rxe0: atomic operation is unsupported",
        "Error 7 listening on the 'rdma' transport.",
        "[   23.257762] hfi1 0000:00:05.0: Could not allocate unit ID: error 1",
        "kernel: NETDEV WATCHDOG: eth0 (mlx5_core): transmit queue timed out",
        "rdma.c: 961:nvmf_rdma_resize_cq: *ERROR*: RDMA CQ resize failed: errno 0: Success",
        "iser: iser_connect_error: conn 00000000c1a1a111",
        "rdma_join_multicast failed: errno 22",
        "mckey: event: RDMA_CM_EVENT_MULTICAST_ERROR, error: -22",
        "async event: IBV_EVENT_PATH_MIG_ERR",
        "INFO worker: [stderr] ERROR mlx5_0 could not be used",
        " Parser function exited with Error",
        "[  476.320742] bnxt_en 0000:19:00.0: QPLIB: cmdq[0x4b9]=0x15 status 0x5",
    ],
)
def test_trouble(line: str) -> None:
    assert is_trouble(line)


@pytest.mark.parametrize(
    "line",
    [
        # the program itself says that it is none
        "n1:9:9 [0] NCCL INFO NET/IB : symbol lookup failed on mlx5dv_reg_dmabuf_mr",
        "[1.5] [n1:7:0]  ib_mlx5_dv.c:456  UCX  DEBUG mlx5dv_devx_general_cmd failed on mlx5_0",
        "libfabric:psm2:core:psmx2_init():201<info> verbs: unsupported endpoint, error 22",
        "I0729 14:42:36.641793 rdma_endpoint.cpp:671] no error of the RDMA device",
        # settings, counters and names
        "UCX_HANDLE_ERRORS=bt UCX_RC_MLX5_TIMEOUT=1000000.00us",
        "rdma_timeout_ms: 30000  # mlx5_0",
        '{"transport": "rdma", "on_error": "abort", "timeout": 14}',
        "link mlx5_0/1 local_ack_timeout_err 12 packet_seq_err 3 rnr_nak_retry_err 0",
        "rdma: 0 errors, 0 timeouts, failures: 0, errors=3",
        "mlx5_core 0000:08:00.0: fw_fatal reporter: state healthy error 0 recover 0",
        "error handling: peer failure, ep_check (rc_mlx5/mlx5_0:1)",
        # other programs' words about it
        "tests/test_rdma_errors.py::test_timeout_is_reported PASSED",
        "[ 61%] Building C object providers/mlx5/dr_dbg.c.o: error.c",
        "/src/mlx5/qp.c:81:9: error: 'ibv_frob' undeclared",
        "ERROR: No matching distribution found for pyverbs",
        "RDMA/rxe: Fix the error path of rxe_create_qp",
        "export UCX_ERROR_SIGNALS=ILL on rdma error",
        "# on an RDMA error, try mlx5_1",
        "The NCCL_IB_TIMEOUT variable controls the InfiniBand timeout on error.",
        "mlx_compat: module verification failed: signature and/or required key missing",
        # hosts and files named after it
        "Nov 21 01:00:00 rdma-07 sshd[811]: error: kex_exchange_identification: closed",
        "failed to read https://example.net/linux-rdma/rdma-core",
        "cannot open conf/rdma.yaml",
        "cannot write /home/u/rdma-bench/out",
        # no trouble, or no RDMA
        "mlx5_core 0000:08:00.0: firmware version: 28.39.1002",
        "nvme nvme0: I/O 12 QID 3 timeout, aborting",
        "Dear Mr Smith, an error was made",
        "chown: invalid group, gid 1000",
        "the RDMA transfer was retried and succeeded after an error",
        "bnxt_en 0000:19:00.0: QPLIB: cmdq[0x4b9]=0x15 status 0x0",
    ],
)
def test_no_trouble(line: str) -> None:
    assert not is_trouble(line)


WORDS = sorted({*NAMES, *TROUBLES, "INFO", "WARN", "0 errors", "timeout=3", "and", "of", "at"})


@given(st.lists(st.sampled_from(WORDS) | st.text(max_size=8), max_size=12))
def test_what_is_trouble_is_looked_at(words: list[str]) -> None:
    """Whatever the recognition takes, the sieve lets through."""
    line = " ".join(words)
    if is_trouble(line):
        assert is_candidate(line.encode()), line


@pytest.mark.parametrize(
    "piece", ["a_", "error ", "0 ", "://", "rdma/", "no a ", "-w", "Fix: ", "/a."]
)
def test_no_line_takes_long(piece: str) -> None:
    import time

    began = time.process_time()
    is_trouble((piece * 4096)[:4096] + " rdma failed")
    assert time.process_time() - began < 1.0


def test_every_needle_of_four_bytes_or_more_is_lowercase() -> None:
    from rdmadiag.explain.log.recognition.vocabulary import NEEDLES

    assert all(len(word) >= 4 and word == word.lower() for word in NEEDLES)


def test_a_name_alone_and_trouble_alone_are_none() -> None:
    assert [name for name in NAMES if is_trouble(f"frobnicate {name} thing")] == []
    assert [each for each in TROUBLES if is_trouble(f"frobnicate a thing {each}")] == []
