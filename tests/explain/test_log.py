"""A log by structure: what is first, what is folded under it, what is kept, any bytes."""

import io
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.explain.completions import statuses
from rdmadiag.explain.log.account import Account
from rdmadiag.explain.log.collector import MOST_GROUPS, MOST_UNKNOWN
from rdmadiag.explain.log.groups import LINES_KEPT, NAMES_KEPT
from rdmadiag.explain.log.kind import Kind
from rdmadiag.explain.log.line.fields import fields
from rdmadiag.explain.log.recognition.catalogue import needles
from rdmadiag.explain.log.recognition.recognise import recognise
from rdmadiag.explain.log.recognition.vocabulary import (
    NEEDLES,
    is_candidate,
    is_near_candidate,
    is_taken_up,
)
from rdmadiag.explain.log.scan import collect
from rdmadiag.facts.errnos import ERRNOS
from rdmadiag.sieve.lines import Sieve
from tests.explain.score import CORPORA, FOLDER, read

SIEVE = Sieve(NEEDLES)
RTR = "n{}:1:2 [0] ibvwrap.c:262 NCCL WARN Call to ibv_modify_qp failed with {} , on dev mlx5_{}:1"
WC = (
    "n1:1:2 [0] net_ib.cc:9 NCCL WARN NET/IB : Got completion from peer 192.0.2.{}<7> with "
    "error {}, opcode 0, len 0, vendor err {} hca mlx5_{}"
)


def explained(*lines: str) -> Account:
    collector = collect(SIEVE.segments(io.BytesIO("\n".join(lines).encode())))
    return collector.account(SIEVE.lines, SIEVE.bytes)


def test_on_a_mac_every_cable_is_given_a_subnet_of_its_own() -> None:
    found = explained(
        "rank 0: rdma_en1 No IPv4-mapped GID found", "rank 1: rdma_en2 No IPv4-mapped GID found"
    )
    given = {
        line for failure in found.failures for line in failure.next if line.startswith("sudo ifc")
    }
    assert given == {
        "sudo ifconfig en1 inet 10.10.11.1 netmask 255.255.255.252 alias",
        "sudo ifconfig en2 inet 10.10.12.1 netmask 255.255.255.252 alias",
    }


# --- the fields of a line ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Call to ibv_modify_qp failed with error Connection timed out", ("rtr", 110)),
        ("ibv_modify_qp to RTR: ENETUNREACH", ("rtr", 101)),
        ("modify QP to RTS failed: -22", ("rts", 22)),
        ("UCX  ERROR modify QP to RTS failed: -22", ("rts", None)),
        ("ibv_reg_mr(addr=0x7f, len=4096) failed, errno=12", ("reg_mr", 12)),
        ("ibv_create_cq failed: Invalid argument (22)", ("create_cq", 22)),
        ("rdma_create_qp: Cannot allocate memory (12)", ("create_qp", 12)),
        ("rdma_resolve_addr: No such device", ("connect", 19)),
        ("ibv_alloc_pd returned NULL, errno 12", ("alloc_pd", 12)),
        ("open /dev/infiniband/uverbs0: Permission denied", ("open", 13)),
        ("ibv_destroy_qp failed: Device or resource busy", ("teardown", 16)),
        ("INIT→RTR failed (os error 110)", ("rtr", 110)),
    ],
)
def test_stage_and_errno(line: str, expected: tuple[str, int | None]) -> None:
    found = fields(line)
    assert (found.stage, found.errno) == expected


def test_a_status_is_known_by_its_number_and_its_symbol() -> None:
    for row in statuses()[1:]:
        line = f"completion failed: wc.status={row.number} vendor_err=7"
        assert fields(line).status == row.number
        assert fields(f"completion failed: IBV_WC_{row.name} vendor_err 0x7").status == row.number
    assert fields("completion failed: IBV_WC_SEND vendor err 0x81").vendor_error == 129


@pytest.mark.parametrize(
    ("line", "device", "port"),
    [
        ("on mlx5_0:1/RoCE", "mlx5_0", 1),
        ("hca rocep1s0f0 failed", "rocep1s0f0", None),
        ("on dev weird7:2, curr state", "weird7", 2),
        ("/sys/class/infiniband/bnxt_re1/ports", "bnxt_re1", None),
        ("mlx5_bond_0 port 1", "mlx5_bond_0", 1),
        ("mlx5_core 0000:3b:00.0: x", "0000:3b:00.0", None),
        ("nothing", None, None),
    ],
)
def test_devices(line: str, device: str | None, port: int | None) -> None:
    found = fields(line)
    assert (found.device, found.port) == (device, port)


def test_gids_peers_and_speakers() -> None:
    found = fields(
        "\x1b[31m[1,7]<stderr>:h:1:2 [3] NCCL WARN peer 192.0.2.9<7> local GID index 5, "
        "local GID ::ffff:192.0.2.1, remote GID fe80::1\x1b[0m"
    )
    assert found.gid_index == 5
    assert str(found.local_gid) == "::ffff:192.0.2.1"
    assert str(found.remote_gid) == "fe80::1"
    assert (found.peer, found.who) == ("192.0.2.9", "rank 7")
    assert "\x1b" not in found.text


def test_the_platform_is_that_of_the_tool() -> None:
    assert fields("[jaccl] RTR failed: Operation timed out").errno == 60
    assert fields("modify QP to RTR on rdma_en3: Operation timed out").platform == "darwin"


# --- the account -------------------------------------------------------------------------


def test_a_flush_before_it_is_a_consequence() -> None:
    found = explained(WC.format(1, 5, 249, 0), WC.format(2, 12, 129, 0))
    assert found.first
    assert found.first.completion
    assert found.first.completion.number == 12
    assert [each.completion.number for each in found.consequences if each.completion] == [5]


def test_lines_of_many_ranks_are_one_group() -> None:
    found = explained(*(RTR.format(rank, 110, 0) for rank in range(50)))
    (only,) = found.failures
    assert (only.count, len(only.lines), only.last_line) == (50, LINES_KEPT, 50)
    assert len(only.speakers) == NAMES_KEPT


def test_devices_stages_and_numbers_are_apart() -> None:
    found = explained(RTR.format(1, 110, 0), RTR.format(1, 110, 1), RTR.format(1, 101, 1))
    assert [(f.device, f.errno.number) for f in found.failures if f.errno] == [
        ("mlx5_0", 110),
        ("mlx5_1", 110),
        ("mlx5_1", 101),
    ]


def test_the_clock_decides_where_every_line_has_one() -> None:
    late, early = (
        f"[2026-05-02 01:05:30] {RTR.format(1, 110, 0)}",
        (f"[2026-05-02 01:05:01] {RTR.format(2, 101, 1)}"),
    )
    assert [f.device for f in explained(late, early).failures] == ["mlx5_1", "mlx5_0"]
    assert [f.device for f in explained(late, RTR.format(2, 101, 1)).failures] == [
        "mlx5_0",
        "mlx5_1",
    ]


def test_a_failure_without_a_number_is_told_by_the_one_that_has_it() -> None:
    found = explained("Failed to modify QP to RTR", "ibv_modify_qp to RTR failed: errno 110")
    (only,) = found.failures
    assert only.errno
    assert (only.errno.number, only.lines) == (110, (1, 2))


def test_aftermath_is_counted_and_is_no_failure_by_itself() -> None:
    found = explained("ncclRemoteError: A call failed possibly due to a network error")
    assert (found.first, found.aftermath, found.unknown) == (None, 1, ())


def test_what_is_not_understood_is_kept_raw() -> None:
    line = "n1:1:2 [0] x.cc:1 NCCL WARN NET/IB : mlx5_0:1 the frobnicator {} failed"
    found = explained(line.format(1), line.format(2))
    assert found.first is None
    assert [(each.line, each.text, each.count) for each in found.unknown] == [
        (1, line.format(1), 2)
    ]


def test_notes_are_no_failures() -> None:
    found = explained("NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'")
    assert (found.first, found.unknown) == (None, ())
    assert [each.causes[0].label for each in found.notes] == ["gdr-off"]


def test_what_is_kept_is_bounded_and_the_rest_counted() -> None:
    many = MOST_GROUPS + 70
    found = explained(*(RTR.format(1, 110, number) for number in range(many)))
    assert (len(found.failures), found.dropped) == (MOST_GROUPS, 70)
    letters = [f"{a}{b}" for a in "abcdefghij" for b in "abcdefghij"]
    found = explained(*(f"ibverbs: the {word}gizmo failed" for word in letters))
    assert (len(found.unknown), found.dropped) == (MOST_UNKNOWN, len(letters) - MOST_UNKNOWN)


@pytest.mark.parametrize(
    "line",
    [
        '+    printf("ibv_modify_qp failed with errno 110");',
        "a1b2c3d4 ibv_modify_qp failed: errno 110",
        "docker run --ulimit memlock=-1 --device=/dev/infiniband x",
        'raise RuntimeError("ibv_modify_qp failed with errno 110")',
        '    fprintf(stderr, "Failed to modify QP to RTR: %s\\n", strerror(errno));',
    ],
)
def test_source_patches_and_commands_are_no_failures(line: str) -> None:
    assert recognise(line.encode()) is None


# --- properties --------------------------------------------------------------------------

CALLS = (
    *("ibv_modify_qp", "ibv_reg_mr_iova2", "ibv_create_cq", "ibv_create_qp", "ibv_alloc_pd"),
    *("ibv_open_device", "ibv_post_send", "rdma_resolve_addr", "rdma_create_qp", "ibv_create_ah"),
    *("modify QP to RTR", "QP state to RTR", "INIT->RTR", "create QP", "allocate PD", "create CQ"),
    *(
        "register memory",
        "Couldn't get context for mlx5_0",
        "fi_getinfo",
        "[jaccl] Couldn't connect",
    ),
)
C_NAMES = ("ibv_", "rdma_")
WORDS = (
    *("failed", "failed with error", "Failed to", "error", "returned", "could not", "ERROR"),
    *("mlx5_0:1", "on dev mlx5_1:1", "rdma_en1", "vendor err 129", "vendor_err=0x81", "NCCL WARN"),
    *("NET/IB", "UCX  ERROR", "completion", "status=12", "with error 5", "(synd 0x15 vend 0x81)"),
    *("local GID index 3", "GID", "port error", "async event", "Link down", "mlx5_core", "kernel:"),
    *("CREATE_QP(0x500) op_mod(0x0) failed, status limits exceeded(0x8), syndrome (0x1)",),
    *("memlock", "too low", "No device found", "IB", "not found", "device", "GID table change"),
    *("RDMA_CM_EVENT_REJECTED", "RDMA", "libibverbs.so.1", "cannot open", "is not active", "port"),
)
NUMBERS = tuple(
    chain.from_iterable(
        (f"errno {number}", f"{text} [{number}]", name, text)
        for platform, usual in (
            ("linux", (12, 16, 19, 22, 61, 101, 110, 113)),
            ("darwin", (16, 22, 60, 96, 102)),
        )
        for number, (name, text) in ERRNOS[platform].items()
        if number in usual
    )
)
TEXTS = tuple(row.text for row in statuses()) + tuple(f"IBV_WC_{row.name}" for row in statuses())
LINES = st.lists(st.sampled_from((*CALLS, *WORDS, *NUMBERS, *TEXTS)), min_size=1, max_size=6).map(
    " ".join
)


@given(line=LINES)
def test_the_sieve_drops_no_line_that_is_recognised(line: str) -> None:
    raw = line.encode()
    if recognise(raw) is not None:
        assert list(SIEVE.segments(io.BytesIO(raw)))


def test_a_call_that_fails_with_an_errno_is_looked_at_and_understood() -> None:
    lines = [f"{call} failed: {number}".encode() for call in CALLS for number in NUMBERS]
    assert [line for line in lines if not is_candidate(line) or recognise(line) is None] == []
    bare = [f"{call}: {n}".encode() for call in CALLS for n in NUMBERS if call.startswith(C_NAMES)]
    assert [line for line in bare if not is_candidate(line)] == []


def test_a_status_in_words_is_looked_at_and_understood() -> None:
    texts = TEXTS[1:24] + TEXTS[25:]
    lines = [f"work completion failed: {text}, vendor err 1".encode() for text in texts]
    assert [line for line in lines if not is_candidate(line) or recognise(line) is None] == []


@pytest.mark.slow
def test_the_sieve_drops_no_line_of_the_corpus_that_is_recognised() -> None:
    for name in CORPORA:
        for excerpt in read(FOLDER / f"{name}.txt"):
            for line in excerpt.log.replace(b"\r", b"\n").split(b"\n"):
                if recognise(line) is not None:
                    assert is_candidate(line), line


@given(line=LINES.map(str.encode) | st.binary(max_size=200))
def test_the_sieve_agrees_with_its_definition(line: bytes) -> None:
    line = line.replace(b"\n", b" ").replace(b"\r", b" ")
    found = bool(list(SIEVE.segments(io.BytesIO(line))))
    has_word = is_taken_up(line) or is_near_candidate(line)
    assert found == (has_word or any(each in line.lower() for each in needles()))
    assert found or not is_candidate(line)


@given(
    pieces=st.lists(
        st.binary(max_size=40) | LINES.map(str.encode) | st.sampled_from([b"\n", b"\r", b"\x1b["]),
        max_size=12,
    )
)
def test_any_bytes_are_a_log(pieces: list[bytes]) -> None:
    collector = collect(SIEVE.segments(io.BytesIO(b"".join(pieces))))
    found = collector.account(SIEVE.lines, SIEVE.bytes)
    for each in (*found.failures, *found.consequences, *found.notes):
        assert each.text.isprintable()
        assert each.count >= len(each.lines) > 0
        assert each.kind in (Kind.FAILURE, Kind.CONSEQUENCE, Kind.NOTE)
    assert all(each.causes for each in found.failures)


@pytest.mark.parametrize("piece", ["ibv_modify_qp failed ", "GID " * 9, "( [ " * 40, "a" * 50])
def test_no_line_takes_long(piece: str) -> None:
    import time

    line = (f"ibv_modify_qp failed {piece * 5000}").encode()
    began = time.perf_counter()
    recognise(line)
    assert time.perf_counter() - began < 2


# --- what stands above a line ------------------------------------------------------------

PINGPONG = (
    "  local address:  LID 0x0000, QPN 0x000011, PSN 0x8bb31a, GID {}",
    "Failed to modify QP to RTR",
    "Couldn't connect to remote QP",
)


@pytest.mark.parametrize(("gid", "given"), [("::", False), ("::ffff:192.0.2.1", True)])
def test_a_pingpong_that_was_given_a_gid_is_not_told_to_give_one(gid: str, given: bool) -> None:
    found = explained(*(line.format(gid) for line in PINGPONG)).first
    assert found
    assert ("no-gid-given" in [each.label for each in found.causes]) is not given
    assert found.local_gid == gid


@pytest.mark.parametrize(
    ("command", "label"),
    [
        ("ibv_rc_pingpong -d mlx5_0 -g 5 10.1.0.7", "gid-row-empty"),
        ("ibv_rc_pingpong -d mlx5_0 --gid-idx=3 10.1.0.7", "gid-row-empty"),
        ("ibv_rc_pingpong -d mlx5_0 10.1.0.7", "no-gid-given"),
    ],
)
def test_a_gid_of_zeros_is_an_empty_row_where_the_command_names_one(
    command: str, label: str
) -> None:
    lines = [f"[user@n1 ~]$ {command}", *(line.format("::") for line in PINGPONG)]
    found = explained(*lines).first
    assert found
    labels = [each.label for each in found.causes]
    assert label in labels
    assert ("no-gid-given" in labels) is (label == "no-gid-given")


def test_the_gids_that_perftest_prints_in_decimal_are_read() -> None:
    found = explained(
        " local address: LID 0000 QPN 0x0117 PSN 0x32a1c2 RKey 0x1ff000 VAddr 0x007f5522a00000",
        " GID: 254:128:00:00:00:00:00:00:00:36:19:255:254:197:81:143",
        " remote address: LID 0000 QPN 0x010c PSN 0x91ab34 RKey 0x1ff0aa VAddr 0x007f01c0a00000",
        " GID: 00:00:00:00:00:00:00:00:00:00:255:255:198:51:100:60",
        "Failed to modify QP 279 to RTR",
    ).first
    assert found
    assert (found.local_gid, found.remote_gid) == (
        "fe80::24:13ff:fec5:518f",
        "::ffff:198.51.100.60",
    )
    assert found.causes[0].label == "gid-index-or-family"


# --- what comes first, and what is another's number --------------------------------------


@pytest.mark.parametrize(
    "status", ["status 8", "error 8", "(8) from CM event channel (status = 8)"]
)
def test_the_status_of_a_rejection_is_a_reason_and_no_errno(status: str) -> None:
    first = explained(f"cma event RDMA_CM_EVENT_REJECTED, {status}").first
    assert first
    assert (first.what, first.errno) == ("rejected", None)
    assert first.causes[0].label == "peer-not-listening"


def test_a_rejection_by_the_peers_program_is_not_that_nobody_listens() -> None:
    first = explained("nvme nvme0: Connect rejected: status 28 (consumer defined)").first
    assert first
    labels = [each.label for each in first.causes]
    assert (first.errno, labels) == (None, ["peer-refused", "peer-address-wrong"])


def test_a_rejection_of_iwarp_has_an_errno_below_0() -> None:
    first = explained("nvme nvme0: Connect rejected: status -104 (reset by remote host).").first
    assert first
    assert first.errno
    assert first.errno.number == 104


def test_a_connection_that_ended_is_no_failure() -> None:
    found = explained(
        "cma_event type RDMA_CM_EVENT_ESTABLISHED cma_id 0x1 (parent), status 0",
        "cma_event type RDMA_CM_EVENT_DISCONNECTED cma_id 0x1 (parent), status 0",
    )
    assert (found.first, found.unknown) == (None, ())
    found = explained("Expected RDMA_CM_EVENT_ESTABLISHED but received RDMA_CM_EVENT_DISCONNECTED")
    assert found.first


@pytest.mark.parametrize(
    "line",
    [
        "libfabric:4:1::efa:cq:efa_rdm_txe_handle_error():737<warn> err: 5, message: x failed (7)",
        "libfabric:35:1::efa:cq:rxr_cq_write_tx_error():243<warn> err: 20, prov_err: Not (20)",
        "NCCL WARN NET/OFI Request 0x7f completed with error. RC: 20. Error: unknown error.",
    ],
)
def test_numbers_of_efa_are_neither_errnos_nor_statuses(line: str) -> None:
    first = explained(line).first
    assert first
    assert (first.what, first.errno, first.completion) == ("words", None, None)


def test_the_errno_of_the_next_failure_is_not_this_ones() -> None:
    """And what failed later does not take the place of what failed first."""
    found = explained(
        "[jaccl] Couldn't allocate protection domain",
        "[jaccl] Changing queue pair to RTR failed with errno 22",
    )
    assert [(each.stage, each.lines) for each in found.failures] == [
        ("alloc_pd", (1,)),
        ("rtr", (2,)),
    ]
    assert found.failures[0].errno is None


def test_the_errno_on_a_line_of_its_own_is_that_of_the_line_above() -> None:
    first = explained("Failed to modify QP to RTR", "errno: 110").first
    assert first
    assert first.errno
    assert first.errno.number == 110


def test_a_failure_that_is_told_twice_stays_where_it_was_told_first() -> None:
    """The line with the number says more, and came later than another failure."""
    found = explained(
        "Failed to modify QP to RTR",
        "ibv_reg_mr failed: errno 12",
        "Call to ibv_modify_qp failed with 110 Connection timed out, next state RTR",
    )
    assert [(each.stage, each.lines) for each in found.failures] == [
        ("rtr", (1, 3)),
        ("reg_mr", (2,)),
    ]
    assert found.failures[0].errno


def test_a_failure_of_another_device_is_not_taken_for_the_same() -> None:
    found = explained(
        "mlx5_3: failed to modify QP to RTR",
        RTR.format(1, 110, 7),
    )
    assert [each.device for each in found.failures] == ["mlx5_3", "mlx5_7"]


def test_what_is_not_understood_and_came_before_the_failure_is_named() -> None:
    found = explained("rdma_rxe: invalid mask or state for qp", RTR.format(1, 110, 0))
    assert found.first
    assert [each.line for each in found.unknown_before] == [1]
    later = explained(RTR.format(1, 110, 0), "rdma_rxe: invalid mask or state for qp")
    assert later.unknown_before == ()


def test_what_follows_a_failure_of_rdma_that_is_not_in_the_log_is_shown() -> None:
    alone = explained("nixl._bindings.nixlBackendError: NIXL_ERR_BACKEND")
    assert [each.line for each in alone.unknown] == [1]
    assert alone.unknown_next
    beside = explained(RTR.format(1, 110, 0), "nixl._bindings.nixlBackendError: NIXL_ERR_BACKEND")
    assert (beside.unknown, beside.unknown_next, beside.aftermath) == ((), (), 1)


def test_a_command_that_the_firmware_did_not_answer_is_no_refused_register() -> None:
    first = explained(
        "mlx5_core 0000:56:00.0: wait_func:1189:(pid 7): ACCESS_REG(0x805) timeout. Will cause a "
        "leak of a command resource"
    ).first
    assert first
    assert first.what == "firmware-silent"


def test_a_register_that_the_firmware_refuses_breaks_nothing() -> None:
    line = (
        "[91230.114811] mlx5_core 0000:00:05.0: mlx5_cmd_out_err:838:(pid 7): {}(0x805) op_mod(0x1)"
        " failed, status bad resource(0x5), syndrome (0x305684), err(-22)"
    )
    account = explained(line.format("ACCESS_REG"))
    assert account.first is None
    assert [each.what for each in account.notes] == ["access-register"]
    assert explained(line.format("CREATE_QP")).first


@pytest.mark.parametrize("which", ["rank", "GPU", "queue", "port", "QP"])
def test_a_number_0_before_failed_is_no_count(which: str) -> None:
    account = explained(
        "12:00:00 rdma: using mlx5_0 port 1", f"12:00:02 rdma: {which} 0 create failed", "bye"
    )
    assert account.first or account.unknown


def test_an_errno_of_a_call_before_the_peer_ended_is_no_cause() -> None:
    first = explained(
        "  local address:  LID 0x0000, QPN 0x000011, PSN 0xbfdeee, GID ::ffff:192.0.2.1",
        "client read/write: No space left on device",
        "Couldn't read/write remote address",
    ).first
    assert first
    assert "disk-full" not in [each.label for each in first.causes]


def test_a_message_that_says_why_is_not_lost_among_those_of_the_same_stage() -> None:
    first = explained(
        "mount.lustre: mount 10.149.2.1@o2ib:/scratch at /scratch failed: Input/output error",
        "Is the MGS running?",
        "[  341.829021] LNetError: 4214:0:(o2iblnd.c:2606:kiblnd_create_dev()) Can't query IPoIB "
        "interface ib0: it's down",
    ).first
    assert first
    assert first.causes[0].label == "interface-down"


def test_what_the_line_itself_excludes_is_no_cause() -> None:
    plain = "ibv_modify_qp failed with 22, next state RTR, local GID index 3, local GID {}"
    labels = [each.label for each in explained(plain.format("fe80::1")).failures[0].causes]
    assert "gid-not-an-address" in labels
    labels = [each.label for each in explained(plain.format("::ffff:192.0.2.1")).failures[0].causes]
    assert "gid-not-an-address" not in labels


def test_a_pingpong_that_reaches_nobody_is_a_failure_and_another_programs_words_are_none() -> None:
    words = "Couldn't connect to 192.0.2.1:18515"
    assert (explained(words).first, explained(words).unknown) == (None, ())
    ends = "  local address:  LID 0x0000, QPN 0x00002d, PSN 0x63fb53, GID ::ffff:192.0.2.1"
    first = explained(ends, words).first
    assert first
    assert first.what == "side-channel"


@pytest.mark.parametrize(
    ("line", "label"),
    [
        # ib_umem_get of GPU memory; sync_devices_list of librdmacm; ib_uverbs_run_method
        ("zap: ibv_reg_mr failed: Bad address", "gdr-off"),
        ("zap: rdma_create_event_channel: No such device", "no-rdma-device"),
        ("zap: rdma_create_event_channel failed: No such file or directory", "rdma-ucm-not-loaded"),
        ("mlx5_0: create_mkey_callback: async reg mr failed. status -12", "mr-exhausted"),
        ("zap: ibv_reg_mr failed: Cannot allocate memory", "memlock"),
        ("rdma_endpoint.cpp:70] Failed to create QP: Cannot allocate memory [12]", "qp-exhausted"),
        ("NCCL WARN Call to ibv_create_qp failed with error Cannot allocate memory", "memlock"),
        ("list InfiniBand devices: open /sys/class/infiniband: no such file or directory",
         "no-rdma-device"),
        ("zap: No IB devices found", "no-rdma-device"),
        ("zap: Failed to open device", "uverbs-node-not-openable"),
        ("ibv_modify_qp to RTR failed: errno 110, gid index 1", "gid-does-not-route"),
        ("ibv_modify_qp to RTR failed: errno 110, gid index 3", "peer-unreachable"),
        ("ibv_modify_qp failed: Invalid argument, local GID fe80::1, remote GID fe80::2, RTR",
         "gid-not-an-address"),
        ("ibv_modify_qp failed with 110, local GID ::ffff:192.0.2.1, remote GID ::ffff:169.254.1.7",
         "gid-does-not-route"),
        ("ibv_modify_qp failed with 110 Connection timed out, remote GID ::ffff:169.254.1.178",
         "peer-unreachable"),
        ("[  124.298598] isert: isert_create_qp: rdma_create_qp failed for cma_id -12",
         "qp-too-large"),
        ("kfi_cxi - kcxi_dev_ready:93: kCXI Device Index (0) Fabric (1): Retry handler not running",
         "helper-service-down"),
    ],
)  # fmt: skip
def test_what_the_line_says_of_the_object_decides_which_cause_is_first(
    line: str, label: str
) -> None:
    first = explained(line).first
    assert first
    assert first.causes[0].label == label


@pytest.mark.parametrize(
    "line",
    [
        "Max locked memory         unlimited            unlimited            bytes",
        "max locked memory           (kbytes, -l) unlimited",
    ],
    ids=["/proc/PID/limits", "ulimit -a"],
)
def test_locked_memory_without_a_limit_is_no_failure(line: str) -> None:
    account = explained(line)
    assert (account.first, account.other, account.notes) == (None, None, ())


def test_a_rank_that_ended_with_0_has_not_failed() -> None:
    ended = "[INFO] Node with rank {} exited with code {}"
    assert explained(ended.format(1, 0), ended.format(0, 0)).first is None
    assert explained(ended.format(1, 1), ended.format(0, 0)).first


def test_a_limit_that_the_log_prints_decides() -> None:
    failed = "rdma_endpoint.cpp:70] Failed to create QP: Cannot allocate memory [12]"
    limit = "Max locked memory         65536                65536                bytes"
    for lines, label in (((failed,), "qp-exhausted"), ((limit, failed), "memlock")):
        first = explained(*lines).first
        assert first
        assert first.causes[0].label == label
