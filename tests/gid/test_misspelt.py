"""A slip of the hand is distinguished from a variable that is not known here, on real names."""

import re
import shutil
import subprocess
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.gid.misspelt import NAMES, meant

_OF_NCCL = """
ALGO BUFFSIZE CHECKS_DISABLE COLLNET_ENABLE COMM_ID CROSS_NIC CUMEM_ENABLE DEBUG DEBUG_FILE
DEBUG_SUBSYS DMABUF_ENABLE GDRCOPY_ENABLE GRAPH_FILE HOSTID IB_ADAPTIVE_ROUTING IB_ADDR_FAMILY
IB_ADDR_RANGE IB_AR_THRESHOLD IB_CUDA_SUPPORT IB_DATA_DIRECT IB_DISABLE IB_ECE_ENABLE IB_FIFO_TC
IB_GID_INDEX IB_HCA IB_MERGE_NICS IB_MERGE_VFS IB_OOO_RQ IB_PCI_RELAXED_ORDERING IB_PKEY
IB_QPS_PER_CONNECTION IB_RETRY_CNT IB_RETURN_ASYNC_EVENTS IB_ROCE_VERSION_NUM
IB_ROUTABLE_FLID_GID_INDEX IB_SL IB_SPLIT_DATA_ON_QPS IB_TC IB_TIMEOUT IB_USE_INLINE
IB_WARN_RAIL_LOCAL IGNORE_CPU_AFFINITY LAUNCH_MODE LL128_BUFFSIZE LL_BUFFSIZE MAX_CTAS
MAX_NCHANNELS MAX_RINGS MIN_CTAS MIN_NCHANNELS MNNVL_ENABLE NCHANNELS_PER_NET_PEER NET
NET_DISABLE_INTRA NET_FORCE_FLUSH NET_GDR_C2C NET_GDR_LEVEL NET_GDR_READ NET_MERGE_LEVEL
NET_PLUGIN NET_SHARED_BUFFERS NET_SHARED_COMMS NSOCKS_PERTHREAD NTHREADS NVLS_ENABLE P2P_DISABLE
P2P_LEVEL P2P_NET_CHUNKSIZE PROTO PXN_DISABLE RAS_ENABLE RUNTIME_CONNECT SHM_DISABLE
SOCKET_FAMILY SOCKET_IFNAME SOCKET_NTHREADS SOCKET_POLL_TIMEOUT_MSEC SOCKET_RETRY_CNT
SOCKET_RETRY_SLEEP_MSEC TOPO_FILE TUNER_PLUGIN WORK_FIFO_BYTES
"""
NCCL = _OF_NCCL.split()
"""NCCL 2.30 and older: what its guide and its source name, without NCCL_."""

RDMA_CORE = (
    *("IBV_FORK_SAFE", "IBV_SHOW_WARNINGS", "RDMAV_FORK_SAFE", "RDMAV_HUGEPAGES_SAFE"),
    *("RDMAV_ALLOW_DISASSOC_DESTROY", "MLX4_DEVICE_FATAL_CLEANUP", "MLX5_CQE_SIZE"),
    *("MLX5_DEBUG_FILE", "MLX5_DEBUG_MASK", "MLX5_FREEZE_ON_ERROR_CQE", "MLX5_LOCAL_CPUS"),
    *("MLX5_NUM_LOW_LAT_UUARS", "MLX5_POST_SEND_PREFER_BF", "MLX5_QP_SIGNATURE"),
    *("MLX5_SCATTER_TO_CQE", "MLX5_SHUT_UP_BF", "MLX5_SINGLE_THREADED", "MLX5_SRQ_SIGNATURE"),
    *("MLX5_STALL_CQ_POLL", "MLX5_STALL_CQ_POLL_MAX", "MLX5_STALL_CQ_POLL_MIN"),
)


@pytest.mark.parametrize(
    "name",
    ["UCCL_SOCKET_IFNAME", "UCCL_IB_TIMEOUT", "UCCL_IB_PCI_RELAXED_ORDERING", "NCCL_P2P_RDMA_DEV"],
)
def test_what_begins_as_another_stacks_variables_do_is_that_stacks(name: str) -> None:
    assert meant(name) is None


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("NCLC_IB_HCA", "NCCL_IB_HCA"),
        ("NCCL_IB_GID_INDX", "NCCL_IB_GID_INDEX"),
        ("UCX_NET_DEVICE", "UCX_NET_DEVICES"),
        ("NCCL_IB_TIMOUT", "NCCL_IB_TIMEOUT"),
        ("NCCL_IB_GIDINDEX", "NCCL_IB_GID_INDEX"),
        ("NCCL_IB_DISBALE", "NCCL_IB_DISABLE"),
        ("NCCL_SOCKET_IFNAMES", "NCCL_SOCKET_IFNAME"),
        ("RDMAV_FORK_SAVE", "RDMAV_FORK_SAFE"),
    ],
)
def test_a_slip_of_the_hand(name: str, known: str) -> None:
    assert meant(name) == known


@pytest.mark.parametrize(
    "name",
    [
        "NCCL_IB_GID_INDEX",  # known
        "UCX_UD_TIMEOUT",  # beside UCX_RC_TIMEOUT
        "NCCL_IB_SC",  # beside NCCL_IB_TC: too short to tell
        "NCCL_IB_FIFO_TC",
        "NCCL_IB_GID_INDEX_2",
        "NCCL_IB_GID_IDX",  # two letters
        "nccl_ib_gid_index",
        "PATH",
        "",
        "_" * 9000,
    ],
)
def test_no_slip(name: str) -> None:
    assert meant(name) is None


def test_no_variable_of_nccl_or_rdma_core_is_called_a_slip() -> None:
    names = (*(f"NCCL_{name}" for name in NCCL), *RDMA_CORE)
    assert [(each, meant(each)) for each in names if meant(each)] == []


def test_hardly_a_new_variable_would_be_called_a_slip_of_an_old_one() -> None:
    """Each in turn as if it were new, beside all others."""
    names = [*(f"NCCL_{name}" for name in NCCL), *RDMA_CORE]
    assert [each for each in names if meant(each, [n for n in names if n != each])] == []


@pytest.mark.parametrize(
    ("argv", "pattern"),
    [
        (("ucx_info", "-c"), r"^(UCX_[A-Z0-9_]+)="),
        (("fi_info", "-e"), r"^#? ?(FI_[A-Z0-9_]+)"),
    ],
    ids=["UCX", "libfabric"],
)
def test_no_variable_that_a_stack_lists_itself_is_called_a_slip(
    argv: Sequence[str], pattern: str
) -> None:
    if shutil.which(argv[0]) is None:
        pytest.skip(f"no {argv[0]}")
    listed = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False).stdout
    names = re.findall(pattern, listed, re.MULTILINE)
    assert len(names) > 50
    assert [(each, meant(each)) for each in names if meant(each)] == []


def _without(name: str, at: int, letter: str) -> str:
    return name[:at] + name[at + 1 :]


def _doubled(name: str, at: int, letter: str) -> str:
    return name[:at] + letter + name[at:]


def _changed(name: str, at: int, letter: str) -> str:
    return name[:at] + letter + name[at + 1 :]


def _swapped(name: str, at: int, letter: str) -> str:
    return name[:at] + name[at : at + 2][::-1] + name[at + 2 :]


@given(
    st.sampled_from(NAMES),
    st.integers(0, 40),
    st.sampled_from("AEIXZ"),
    st.sampled_from([_without, _doubled, _changed, _swapped]),
)
def test_a_slip_is_never_taken_for_another_variable(
    name: str, at: int, letter: str, slip: Callable[[str, int, str], str]
) -> None:
    assert meant(slip(name, at % len(name), letter)) in (None, name)


@given(st.text(max_size=80))
def test_any_name_is_answered(name: str) -> None:
    assert meant(name) is None or meant(name) in NAMES
