"""What the words of a line suggest, on lines from the format strings of their sources."""

import io

import pytest

from rdmadiag.explain.causes import CAUSES
from rdmadiag.explain.log.account import Account
from rdmadiag.explain.log.kind import IN_WORDS
from rdmadiag.explain.log.line.fields import fields
from rdmadiag.explain.log.recognition import in_words, words_around
from rdmadiag.explain.log.recognition.vocabulary import NARROW, NEEDLES
from rdmadiag.explain.log.scan import collect
from rdmadiag.sieve.lines import COMPILED, Sieve

_SIEVE = Sieve(NEEDLES)


def explained(log: str) -> Account:
    collector = collect(_SIEVE.segments(io.BytesIO(log.encode())))
    return collector.account(_SIEVE.lines, _SIEVE.bytes)


def labels(log: str) -> list[str]:
    first = explained(log).first
    return [each.label for each in first.causes] if first else []


def test_every_label_is_one_of_the_registry() -> None:
    rows = [row for _, row in (*in_words._ROWS, *words_around.ROWS)]
    rows += [*in_words._OF_STAGE.values(), *in_words._OF_A_MAC.values()]
    assert {label for row in rows for label in row} <= set(CAUSES)


@pytest.mark.parametrize(
    ("line", "label"),
    [
        # rdma.c of QEMU, RdmaEndPoint of Mooncake, net_ib of Gloo, IBDevice of 3FS: the wordings
        ("rdma migration: peer closed its connection, aborting", "peer-gone"),
        ("RDMA transport: could not connect: Connection refused", "peer-not-listening"),
        ("ofi: error: failed to pin GPU buffer for RDMA", "gdr-off"),
        ("ERROR rdma mgr: link of mlx5_1 is down", "port-down"),
        ("IBDevice error: P_Key 0x8001 is not in the table", "pkey-index"),
        ("rdma: fatal: Too many open files", "open-files-limit"),
        ("ERROR rdma: DMAR fault while reading", "iommu-fault"),
    ],
)
def test_words_name_a_cause_first(line: str, label: str) -> None:
    assert labels(line)[:1] == [label]


def test_words_alone_are_no_failure_that_is_known() -> None:
    first = explained("osd.3 RDMA dispatcher exception: poll failed, closed by peer").first
    assert first
    assert first.what == IN_WORDS


def test_what_is_known_stands_before_words() -> None:
    log = (
        "osd.3 RDMA dispatcher exception: poll failed, closed by peer\n"
        "ibv_modify_qp failed with error 110 Connection timed out, next state RTR\n"
    )
    account = explained(log)
    assert account.first
    assert (account.first.what, account.first.lines) == ("errno", (2,))
    assert [each.line for each in account.unknown] == [1]


def test_a_mac_has_causes_of_its_own() -> None:
    first = explained("[jaccl] Changing queue pair to RTR failed with errno 22").first
    assert first
    found = {each.label for each in first.causes}
    assert {"no-ipv4-gid", "port-in-bridge", "driver-wedged"} <= found
    assert not found & {"memlock", "no-path", "gdr-off"}


@pytest.mark.parametrize(
    ("line", "label"),
    [
        ("libfabric:1:2::efa:qp:efa_f():12<warn> ibv_create_qp failed. errno: 7", "memlock"),
        (
            "libfabric:1:2::efa:dev:efa_f():12<warn> ibv_alloc_pd failed! errno: 7",
            "pd-exhausted",
        ),
    ],
)
def test_an_errno_that_is_not_known_leaves_the_call(line: str, label: str) -> None:
    first = explained(line).first
    assert first
    assert first.errno
    assert (first.what, first.errno.number) == (IN_WORDS, 7)
    assert label in {each.label for each in first.causes}


@pytest.mark.parametrize(
    ("line", "label"),
    [
        ("zap: huge page allocation on node 0 failed", "hugepages-missing"),
        ("zap: unable to pin host memory", "memlock"),
        ("zap was built without verbs support", "feature-not-built"),
        ("error adding pod to CNI network: multus", "cni-config"),
        ("0/3 nodes are available: 3 Insufficient rdma/hca", "resource-not-advertised"),
        ("the GPU has no room in BAR1 for the buffer", "gpu-bar-exhausted"),
        ("transceiver of port 3 has a high bit error rate", "cable-or-module"),
        ("you must be root to change this", "needs-root"),
        ("the queue pair is busy: it is still bound", "object-in-use"),
        ("device mlx5_7 not found", "device-absent"),
    ],
)
def test_words_of_what_stands_around_a_device(line: str, label: str) -> None:
    found = in_words.weights(line)
    assert label in [each for each, _ in found.most_common(3)]


def test_ordinary_words_say_nothing() -> None:
    assert in_words.in_words(fields("mlx5_0 is here")) == ()


# --- the lines around ---------------------------------------------------------------------


def test_trouble_beside_lines_of_rdma_is_not_fine() -> None:
    log = "Connected to peer 2 using RDMA\nprimary_read operation failed on peer 2: retval=-32\n"
    account = explained(log)
    assert account.first or account.unknown


@pytest.mark.parametrize(
    "log",
    [
        "Connected to peer 2 using RDMA\nprimary_read operation 7 done\n",
        "connected to peer 2\nprimary_read operation failed on peer 2: retval=-32\n",
        "Connected to peer 2 using RDMA\nCUDA error: primary_read failed\n",
        "INFO rdma: device mlx5_0\nprimary_read operation failed on peer 2: retval=-32\n",
    ],
    ids=["no trouble", "no RDMA", "another subject", "RDMA for information alone"],
)
def test_what_stands_beside_nothing_of_rdma_is_fine(log: str) -> None:
    account = explained(log)
    assert (account.first, account.unknown) == (None, ())


# --- lines that were wrapped, and listings ---------------------------------------------------


def test_a_line_that_a_page_wrapped_has_its_number_below() -> None:
    log = "NCCL WARN Call to ibv_reg_mr failed with error Cannot\nallocate memory\n"
    first = explained(log).first
    assert first
    assert first.errno
    assert first.errno.number == 12


def test_the_next_record_is_no_rest_of_a_line() -> None:
    log = (
        "ibv_modify_qp failed with error\n"
        "n1:7:9 [0] NCCL INFO Call to connect returned Connection refused, retrying\n"
    )
    first = explained(log).first
    assert first
    assert first.errno is None


_CA = "CA 'mlx5_1'\n\tPort 1:\n\t\tState: {}\n\t\tPhysical state: {}\n"


def test_a_listing_whose_only_port_is_down() -> None:
    assert labels(_CA.format("Down", "Polling"))[0] == "port-down"


def test_one_port_of_two_may_be_without_a_cable() -> None:
    log = _CA.format("Down", "Polling") + _CA.format("Active", "LinkUp")
    account = explained(log)
    assert (account.first, account.notes) == (None, ())


def test_a_virtual_function_without_a_guid() -> None:
    log = "device  node GUID\nmlx5_2 0000000000000000\n"
    assert labels(log)[0] == "guid-zero"


# --- both ends ---------------------------------------------------------------------------------


def test_an_empty_gid_of_the_peer_is_its_row() -> None:
    first = explained(
        "ibv_modify_qp failed with 22 Invalid argument, next state RTR, "
        "local GID ::ffff:192.0.2.1, remote GID ::"
    ).first
    assert first
    assert (first.causes[0].label, "peer" in first.causes[0].text) == ("gid-row-empty", True)


def test_two_nics_in_one_completion_are_two_rails() -> None:
    line = "Got completion with status 12 on mlx5_0:1, remote device mlx5_3:1, vendor err 129"
    assert labels(line)[0] == "no-path"


# --- families: the strings are those of the sources ----------------------------------------------


@pytest.mark.parametrize(
    ("line", "label"),
    [
        # libfabric prov/efa/src/efa_errno.h
        (
            "NET/OFI Request completed with error. Destination resource not ready",
            "peer-posts-no-receives",
        ),
        (
            "efa: Remote memory registration is invalid, has insufficient access flags",
            "remote-key-wrong",
        ),
        ("efa error: Remote feature mismatch", "device-lacks-capability"),
        # of a release that had no words for its numbers
        ("libfabric:1:efa:cq:rxr(): err: 5, prov_err: Unknown error -13 (13)", "security-group"),
        ("libfabric:1:efa:cq:rxr(): err: 5, prov_err: unknown error (8)", "peer-gone"),
        (
            "libfabric:1:tcp:cq: err: Connection refused (111), prov_err: Unknown error (13)",
            "peer-not-listening",
        ),
        # UCX src/uct/ib/base/ib_md.c, src/ucp/wireup/select.c
        ("UCX ERROR mlx5_0: Couldn't enable GPUDirect RDMA. Please make sure", "gdr-off"),
        ("UCX ERROR the TLs list is empty. Please specify the transports", "transport-unusable"),
        # prov/psm3: psm_error.c, hfp_verbs
        ("PSM3 can't open: Port state is not active for mlx5_0 port 1: 2", "port-down"),
        (
            "hfi_userinit: assign_context command failed: Device or resource busy",
            "too-many-contexts",
        ),
        # SPDK lib/nvmf/rdma.c
        ("rdma.c: *ERROR*: Returned RDMA device array was empty", "no-rdma-device"),
        (
            "rdma.c: *ERROR*: RDMA CQE requirement (99) exceeds device max_cqe limitation (9)",
            "cq-too-large",
        ),
        # DPDK drivers/common/mlx5/linux
        (
            "mlx5_common: no Verbs device matches PCI device, are kernel drivers loaded?",
            "no-rdma-device",
        ),
        # opensm/osm_vendor_ibumad.c, drivers/infiniband/hw/irdma/hw.c, qed_mcp.c
        ("opensm: No local ports detected!", "port-down"),
        (
            "osm_vendor_open_port: ERR 5422: Unable to find requested CA guid 0x248a0703009c2b11",
            "device-absent",
        ),
        ("infiniband irdma0: abnormal ae_id = 0x50a bool qp=1 qp_id = 4", "peer-gone"),
        # drivers/net/ethernet of mlx5, hns3 and qede; ipoib_main.c
        ("mlx5_core 0000:3b:00.0 ens1f0: TX timeout on queue: 5, SQ: 0x1a", "firmware-silent"),
        ("hns3 0000:7d:00.0 eth2: Tx timeout count: 1, queue_id: 3", "firmware-silent"),
        ("[qede_tx_timeout:530(ens4f0)]TX timeout!", "firmware-silent"),
        ("ib0: transmit timeout: latency 1544 msecs", "firmware-silent"),
        # ib_srp.c, ipoib_multicast.c, mvapich's ibv_channel_manager.c, NVSHMEM's transport.cpp
        ("scsi host9: ib_srp: REJ received: 0x7", "peer-refused"),
        ("ib0: failed to join broadcast group: -22", "multicast-refused"),
        ("[node1:mpi_rank_3][handle_cqe] Send desc error in msg to 1", "peer-gone"),
        ("WARN: init failed for remote transport: ibrc", "no-rdma-device"),
        ("qed 0000:01:00.0: The MFW failed to respond to command 0x7", "firmware-silent"),
    ],
)
def test_families_of_messages(line: str, label: str) -> None:
    assert label in labels(line)[:2]


# --- how much is looked around --------------------------------------------------------------------


def _storm(lines: int) -> str:
    return "".join(f"worker {chr(97 + n % 26) * (1 + n // 26)} failed\n" for n in range(lines))


def test_lines_are_looked_around_no_longer_than_that_helps() -> None:
    sieve, calls = Sieve(NEEDLES), list[int]()
    collect(sieve.segments(io.BytesIO(_storm(300).encode())), lambda: calls.append(1))
    assert calls == [1]


def test_what_is_understood_ends_the_looking_around() -> None:
    sieve, calls = Sieve(NEEDLES), list[int]()
    log = "ibv_modify_qp failed with error 110 Connection timed out, next state RTR\n"
    collect(sieve.segments(io.BytesIO(log.encode())), lambda: calls.append(1))
    assert calls == [1]


def test_a_storm_of_one_kind_hides_no_other_trouble() -> None:
    storm = "".join(f"worker {n} failed\n" for n in range(1000))
    log = f"{storm}peer 2 uses RDMA\nprimary_read failed on peer 2\n"
    account = explained(log)
    assert account.first or account.unknown


@pytest.mark.slow
@pytest.mark.parametrize("library", [COMPILED, None], ids=["compiled", "python"])
def test_the_narrow_words_find_what_names_rdma_alone(library: str | None) -> None:
    sieve = Sieve(NEEDLES, library)
    log = b"worker 7 failed\nrdma worker 8 failed\n"
    wide = [each.number for each in sieve.segments(io.BytesIO(log))]
    sieve.look_for(NARROW)
    assert (wide, [each.number for each in sieve.segments(io.BytesIO(log))]) == ([1, 2], [2])
