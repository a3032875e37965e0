"""Causes that the same log rules out."""

import pytest

from tests.explain.score import Excerpt, score


def first(text: str) -> str:
    found = score(Excerpt("one", {}, text.encode())).found
    assert found is not None
    return found.causes[0].label


UCX = (
    "[1718.2:0] ib_md.c:309 UCX ERROR ibv_reg_mr(address=0x7f3c, length=4096) failed: Cannot "
    "allocate memory : Please set max locked memory (ulimit -l) to 'unlimited' (current: {})\n"
)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        (UCX.format("64 kbytes"), "memlock"),
        (UCX.format("unlimited"), "mr-exhausted"),
        ("Max locked memory  unlimited  unlimited  bytes\n" + UCX.format("64 kbytes"), "memlock"),
        ("nvme nvme1: rdma_create_qp failed -12\n", "qp-too-large"),
        (
            "iser: iser_create_fastreg_desc: Failed to allocate ib_fast_reg_mr err=-12\n",
            "mr-exhausted",
        ),
        ("ibv_reg_mr failed: Cannot allocate memory\n", "memlock"),
        # that of a shell says little of a job's
        ("$ ulimit -l\nunlimited\nibv_reg_mr failed: Cannot allocate memory\n", "memlock"),
    ],
    ids=[
        *("a limit", "none", "two that differ", "the kernel's queue pair", "its memory"),
        *("nothing is said of it", "the limit of a shell"),
    ],
)
def test_no_limit_on_locked_memory_where_there_is_none(text: str, label: str) -> None:
    assert first(text) == label


def test_a_module_that_is_loaded_is_not_missing() -> None:
    failed = "$ ib_write_bw -d mlx5_0 --use_cuda=0\ninitializing CUDA\nCouldn't allocate MR\n"
    assert first(failed) == "gdr-off"
    listed = "nvidia_peermem 16384 0\nib_core 4341 10 rdma_cm,nvidia_peermem,ib_uverbs\n"
    loaded = f"$ lsmod | grep peermem\n{listed}"
    assert first(loaded + failed) == "memory-kind"


INFINIBAND = """\
  local address:  LID 0x000e, QPN 0x0001a3, PSN 0xae1b2c, GID {gid}
  remote address: LID 0x0012, QPN 0x0001a5, PSN 0x1b2cae, GID {gid}
Failed status transport retry counter exceeded (12) for wr_id 2
"""


def test_two_lids_without_gids_are_of_infiniband() -> None:
    assert first(INFINIBAND.format(gid="::")) == "no-path"
    labels = {each.label for each in _found(INFINIBAND.format(gid="::")).causes}
    assert labels.isdisjoint({"gid-does-not-route", "no-gid-given", "roce-port-dropped"})
    # iWARP has the LID 1, and a GID of its MAC
    assert first(INFINIBAND.format(gid="fe80::6efe:54ff:fe3d:8a39")) == "gid-does-not-route"


def _found(text: str):  # type: ignore[no-untyped-def]
    return score(Excerpt("one", {}, text.encode())).account.failures[0]


@pytest.mark.parametrize(
    "text",
    [
        "LNet: 12:0:(o2iblnd_cb.c:33:kiblnd()) Timed out RDMA with n (5): c: 62, oc: 0, rc: 63\n",
        "n1:rank0.xhpl: Unable to open HFI unit: -1: No RDMA-capable devices\n",
    ],
    ids=["credits of LNet", "any unit of PSM"],
)
def test_numbers_that_are_no_errno(text: str) -> None:
    assert _found(text).errno is None
