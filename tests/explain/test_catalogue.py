"""Messages of known stacks: each row is found by what it prints."""

import io
import re
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.explain.causes import CAUSES
from rdmadiag.explain.log.groups import known_message
from rdmadiag.explain.log.kind import ENDED, MESSAGE, Kind
from rdmadiag.explain.log.ranking.combined import fits
from rdmadiag.explain.log.recognition.catalogue import (
    ANY,
    INDEX,
    Message,
    folded,
    has_needle,
    is_healthy,
    message_of,
    needles,
    rows,
)
from rdmadiag.explain.log.recognition.catalogue.alike import WORDS, votes_alike
from rdmadiag.explain.log.recognition.recognise import recognise
from rdmadiag.explain.log.recognition.vocabulary import NEEDLES, is_candidate
from rdmadiag.facts.attempt import Stage
from rdmadiag.sieve.lines import Sieve
from tests.explain.index_messages import index, keys, needle, words
from tests.explain.score import Excerpt, score

MESSAGES = tuple(Message(row) for row in rows())
LEAST_FIXED = 10
"""Letters of a message that are printed as they stand."""


def printed(message: Message) -> str:
    """A line that has it."""
    return "node1: " + message.template.replace(ANY, "7x") + " zap"


def test_each_row_has_its_columns() -> None:
    wrong = [row for row in rows() if len(row.split("\t")) != 7 or not all(row.split("\t"))]
    assert wrong == []


def test_every_cause_of_a_row_is_one_of_the_registry_and_only_healthy_ones_have_none() -> None:
    unknown = [
        (each.template, each.labels)
        for each in MESSAGES
        if not CAUSES.keys() >= set(each.labels)
        or (each.kind is not None) != bool(each.labels)
        or len(each.labels) != len(set(each.labels))
    ]
    assert unknown == []


def test_what_is_printed_on_macs_alone_names_causes_that_a_mac_has() -> None:
    of_macs = [each for each in MESSAGES if each.stack in ("mlx", "exo", "macos")]
    assert of_macs
    named = {label for each in of_macs for label in each.labels}
    assert [each for each in sorted(named) if not fits(each, "darwin")] == []


def test_no_message_stands_twice() -> None:
    several = Counter(each.template for each in MESSAGES)
    assert [each for each, count in several.items() if count > 1] == []


def test_a_message_has_enough_of_its_own_to_be_known_by() -> None:
    short = [
        each.template
        for each in MESSAGES
        if len(re.sub(r"[^a-z]", "", each.template)) < LEAST_FIXED or not keys(each)
    ]
    assert short == []


@pytest.mark.slow
def test_each_message_is_found_in_a_line_that_prints_it_and_in_a_log() -> None:
    lost = []
    for each in MESSAGES:
        line = printed(each)
        found = message_of(line)
        if found is None or len(found.template) < len(each.template):
            lost.append(each.template)
        elif not (each.is_last or each.is_healthy) and not is_candidate(line.encode()):
            lost.append(f"not looked at: {each.template}")
    assert lost == []


def test_the_sieve_gives_every_line_that_prints_a_message() -> None:
    lines = [printed(each) for each in MESSAGES if not (each.is_last or each.is_healthy)]
    given = {each.number for each in Sieve(NEEDLES).segments(io.BytesIO("\n".join(lines).encode()))}
    assert [line for number, line in enumerate(lines, 1) if number not in given] == []


def test_what_is_searched_for_is_lowercase_and_four_bytes_or_more() -> None:
    assert all(len(each) >= 4 and each == each.lower() for each in needles())


def test_the_index_is_that_of_the_tables() -> None:
    with open(INDEX, encoding="utf-8") as found:
        assert found.read() == index(), "python -m tests.explain.index_messages"


def test_the_words_are_those_of_the_tables() -> None:
    with open(WORDS, encoding="utf-8") as found:
        assert found.read() == words(), "python -m tests.explain.index_messages"


@pytest.mark.parametrize(
    ("line", "label"),
    [
        # Other words for what other stacks print of their own; none of them is in a table.
        ("zap_init: the limit of locked memory is too small, check ulimit -l", "memlock"),
        ("zap: module nvidia_peermem not loaded, GPU memory is not registered", "gdr-off"),
        ("zap: the subnet manager gave the port no LID", "no-subnet-manager"),
        ("zap: cannot map gdrdrv, is gdrcopy installed in this container?", "gdrdrv-missing"),
    ],
)
def test_a_line_that_is_no_message_has_the_causes_of_those_that_share_its_words(
    line: str, label: str
) -> None:
    assert message_of(line) is None
    assert label in [*votes_alike(line)[0]][:3]


def test_a_few_common_words_are_not_enough_to_stand_alone() -> None:
    assert votes_alike("mlx5_0: zap failed to fry")[1] is False
    assert votes_alike("zap zap zap") == ({}, False)


def test_what_the_vocabulary_takes_up_is_not_searched_for_as_well() -> None:
    assert needle(Message(row("cannot frobnicate ibv_qp * now"))) == ""
    assert needle(Message(row("the sprocket * of your zap was bent twice"))) == (
        "of your zap was bent twice"
    )


def test_what_healthy_hosts_print_is_no_trouble_whatever_errno_follows() -> None:
    seen = [
        each.template
        for each in MESSAGES
        for tail in ("", " Cannot allocate memory")
        if each.is_healthy
        and (found := recognise((printed(each) + tail).encode()))
        and found.setting is None
    ]
    assert seen == []


@pytest.mark.parametrize(
    "line",
    [
        # what drivers print at each start, as their sources have it
        (
            "mlx5_core 0000:3b:00.0: mlx5_pcie_event:296:(pid 8): PCIe slot power capability was "
            "not advertised."
        ),
        "mlx5_core 0000:3b:00.0: lag map active ports: 1, 2",
        "mlx5_core 0000:3b:00.0: FWTracer: Acquire tracer ownership failed 22",
        "mlx5_core 0000:3b:00.0: AER: Corrected error received: 0000:3b:00.0",
        "mlx5_core 0000:3b:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer",
        "mlx5_core 0000:3b:00.0:   device [15b3:101d] error status/mask=00000001/0000e000",
        "mlx4_core 0000:03:00.1: PF is not ready - Deferring probe",
        "mlx4_core 0000:03:00.0: Old device ETS support detected",
        (
            "bnxt_en 0000:19:00.0 (unnamed net_device) (uninitialized): Device requests max "
            "timeout of 100 seconds, may trigger hung task watchdog"
        ),
        "infiniband bnxt_re0: DBR pacing disabled with error : 95",
        "ice 0000:31:00.0: FW LLDP is disabled, DCBx/LLDP in SW mode.",
        "hns3 0000:7d:00.0: SFP is absent!",
        "pci 0000:3b:00.0: not enough MMIO resources for SR-IOV",
        "efa 0000:00:1d.0 rdmap0s29: IB device registered",
        # connections that came about, or that were ended on purpose
        'nvme nvme0: new ctrl: NQN "nqn.test", addr 192.0.2.1:4420',
        "rpcrdma: connection to 192.0.2.1:20049 on mlx5_0, memreg 5 slots 128 ird 16",
        "iser: iser_cma_handler: address resolved (0): status 0 conn 00000000 id 00000000",
        "smc: SMC-R lg 00000100 net 1 state changed: SINGLE, pnetid NET1",
        "rdma_client: end 0",
        # other transports of programs that have RDMA as well
        "nvme nvme0: failed to connect socket: -111",
        "nvmet: ctrl 1 keep-alive timer (15 seconds) expired!",
        "nvmet: ctrl 1 fatal error occurred!",
        "tcp.c: 9:nvmf_tcp_req_parse_sgl: *ERROR*: SGL length 0x40000 exceeds max io size 0x20000",
        "nvme_tcp.c: 9:nvme_tcp_ctrlr_construct: *ERROR*: failed to create admin qpair",
        (
            "LNet: 9:0:(acceptor.c:112:lnet_connect_console_error()) Connection to 192.0.2.1@tcp "
            "at host 192.0.2.1:988 was refused: check that Lustre is running on that node."
        ),
        "Connect failed on all available routes: beegfs-storage oss1 [ID: 1]",
    ],
)
def test_nothing_is_found_in_what_hosts_print_without_trouble_of_rdma(line: str) -> None:
    found = recognise(line.encode())
    assert found is None or found.is_other


def test_a_call_that_failed_behind_what_healthy_hosts_print_counts() -> None:
    """The errno is that call's."""
    healthy = "rpma: ibv_advise_mr() is not supported by the system"
    assert recognise(f"{healthy}, errno 95".encode()) is None
    meaning = recognise(f"{healthy}; ibv_reg_mr failed, errno 12".encode())
    assert meaning is not None
    assert (meaning.fields.call, meaning.fields.errno) == ("ibv_reg_mr", 12)


def test_a_completion_that_failed_counts_on_a_line_that_healthy_hosts_print() -> None:
    line = "NET/IB : Using mlx5_0:1/RoCE; OOB eth0; status=IBV_WC_RETRY_EXC_ERR"
    found = recognise(line.encode())
    assert is_healthy(line)
    assert found is not None
    assert (found.kind, found.fields.status) == (Kind.FAILURE, 12)


def test_the_end_of_a_job_alone_says_nothing_of_rdma() -> None:
    text = b"=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES"
    found = recognise(text)
    assert found is not None
    assert found.kind is Kind.AFTERMATH


@pytest.mark.parametrize(
    "line",
    [
        "NCCL INFO GPU Direct RDMA Disabled for GPU 3 / HCA 0 (distance 9 > 5)",
        "NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.",
        "NCCL INFO Failed to open libmlx5.so[.1]",
        "NCCL INFO Failed to register memory with DMA-BUF, error=2. Trying a different method.",
        "NCCL INFO NET/OFI Support for DMA-BUF registrations: false",
        "core:mr:uffd_start():<warn> syscall/userfaultfd Operation not permitted",
        "Unable to register CUDA device buffer via dmabuf: -22. Fall back to ibv_reg_mr",
        "rc_iface.c:600 UCX  WARN  some eps were not destroyed",
        "mpool.c:55 UCX  WARN  object 0x55d was not returned to mpool ucp_requests",
        "[node1:01234] common_ucx.c:333 tcp/eth0: did not match transport list",
        "[node1:01234] mtl_ofi_component.c:362: select_ofi_provider: no provider found",
        "WARNING 11-01 10:00:01 [nixl_connector.py:72] NIXL is not available",
        "Prefill register attempt 1 failed: HTTPConnectionPool(host='10.0.0.1', port=8998)",
    ],
)
def test_the_start_of_a_healthy_job_is_no_trouble(line: str) -> None:
    assert recognise(line.encode()) is None


ROW = "zap\tzap.c\t{}\t{}\t{}\t{}\twhy"


def row(template: str, kind: str = "failure", stage: str = "rtr", labels: str = "memlock") -> str:
    return ROW.format(kind, stage, labels, template)


def test_a_row_says_who_prints_it_where_and_what_it_means() -> None:
    each = Message(row("Failed to  frobnicate QP * on *: *", labels="memlock,no-path"))
    assert (each.stack, each.source, each.kind, each.stage, each.labels) == (
        *("zap", "zap.c", Kind.FAILURE, Stage.RTR),
        ("memlock", "no-path"),
    )
    assert each.template == "failed to frobnicate qp * on *: *"


@pytest.mark.parametrize(
    ("line", "fits"),
    [
        ("zap: Failed to frobnicate QP 0x12 on mlx5_0: Success", True),
        ("zap: failed  to frobnicate\tqp 0x12 on mlx5_0:1: 22", True),
        ("zap: refailed to frobnicate qp 0x12 on mlx5_0: 22", False),
        ("zap: failed to frobnicate qp 0x12 at mlx5_0: 22", False),
        ("zap: failed to frobnicate qp " + "x" * 121 + " on mlx5_0: 22", False),
    ],
)
def test_a_star_is_what_is_printed_there(line: str, fits: bool) -> None:
    each = Message(row("failed to frobnicate qp * on *: *"))
    assert each.is_in(folded(line)) is fits


def as_pattern(template: str) -> "re.Pattern[str]":
    """What a template says, as a regular expression: right, and slow where it fails."""
    begins = r"(?<![a-z0-9_])" if re.match(r"[a-z0-9_]", template) else ""
    return re.compile(begins + ".{0,120}".join(map(re.escape, template.split(ANY))))


@given(
    st.lists(st.sampled_from(["a", "ab", "b a", "/", ANY, ANY]), min_size=1, max_size=6),
    st.lists(st.sampled_from(["a", "b", "/", " ", "-" * 60]), max_size=12),
)
def test_a_message_is_in_what_its_pattern_is_in(template: list[str], text: list[str]) -> None:
    each, line = Message(row("".join(template))), folded("".join(text))
    assert each.is_in(line) is (as_pattern(each.template).search(line) is not None)


def test_a_line_that_was_made_for_many_stars_is_looked_at_once() -> None:
    """Each `*` of the message may end at each of the bars: 60 ** 4 ways, and none of them fits."""
    each = Message(row("lnet: added lni * [*/*/*/*]"))
    start = time.process_time()
    assert not each.is_in(("lnet: added lni " + "[/" * 60) * 29)
    assert time.process_time() - start < 1.0


def test_a_word_beside_a_star_is_none_to_look_it_up_by() -> None:
    each = Message(row("cannot open mlx*_dev now or* ever after"))
    assert keys(each) == ["cannot open", "ever after"]


@pytest.mark.parametrize(
    "wrong", ["zap\tzap.c\tfailure", row("x", kind="disaster"), row("x", stage="nowhere")]
)
def test_a_row_that_makes_no_sense_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"columns|not a valid"):
        Message(wrong)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("mlx5_ib: disagrees about version of symbol mlx5_core_create_mkey", Kind.FAILURE),
        ("mlx5_ib: Unknown symbol mlx5_core_create_mkey (err -2)", Kind.FAILURE),
        ("pcieport 0000:3a:00.0: PCIe Bus Error: severity=Correctable, type=Physical Layer", None),
        ("pcieport 0000:3a:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer", None),
    ],
)
def test_a_message_that_ends_within_a_word_is_found(line: str, kind: Kind | None) -> None:
    found = message_of(line)
    assert found is not None
    assert found.kind is kind


@given(st.text(max_size=300))
def test_any_text_is_looked_up(text: str) -> None:
    found = message_of(text)
    assert found is None or found.is_in(folded(text))
    assert isinstance(has_needle(text.encode()), bool)
    assert is_healthy(text) is (found is not None and found.kind is None)


def test_a_message_that_nothing_else_knows_is_named_with_its_stage_and_causes() -> None:
    line = b"hns3 0000:7d:00.0: roce engine init failed! ret = -12"
    found = recognise(line)
    assert found is not None
    assert (found.kind, found.what, found.fields.stage) == (Kind.FAILURE, MESSAGE, Stage.OPEN)
    assert found.causes[0].label == "firmware-failed"


def test_what_a_line_shows_of_gids_counts_more_than_its_message() -> None:
    line = b"NCCL WARN Call to ibv_modify_qp failed with 22 Invalid argument, local GID ::"
    found = recognise(line)
    assert found is not None
    assert found.causes[0].label == "gid-row-empty"


@pytest.mark.slow
def test_every_failure_of_the_tables_is_seen() -> None:
    lost = [
        each.template
        for each in MESSAGES
        if each.kind is Kind.FAILURE
        and not each.is_last
        and recognise(printed(each).encode()) is None
    ]
    assert lost == []


def test_what_many_programs_print_is_looked_for_in_short_texts_and_where_a_log_ends() -> None:
    taken = "EAL: No mounted hugetlbfs found"
    alone = score(Excerpt("x", {}, f"{taken}\n".encode())).account
    assert alone.first is None
    assert alone.other is not None
    assert alone.other.causes[0].label == "hugepages-missing"
    of_a_job = score(Excerpt("x", {}, f"torchrun: started\n{taken}\n".encode())).account
    assert of_a_job.first is not None
    assert of_a_job.first.causes[0].label == "hugepages-missing"
    steps = "step\n" * 4000
    far_above = score(Excerpt("x", {}, f"{taken}\n{steps}".encode())).account
    assert (far_above.first, far_above.other) == (None, None)


SIGNED = "insmod: ERROR: could not insert module ./zap.ko: Key was rejected by service"


@pytest.mark.parametrize(
    ("around", "counts"),
    [
        ("mlx5_core 0000:3b:00.0: firmware version: 28.39.1002", True),
        ("dkms: building nvidia/550.54.14", True),
        ("e1000e 0000:00:1f.6 eno1: NIC Link is Up", False),
    ],
)
def test_what_other_programs_print_as_well_counts_beside_lines_of_rdma_alone(
    around: str, counts: bool
) -> None:
    first = score(Excerpt("x", {}, f"{around}\n{SIGNED}\n".encode())).account.first
    known = first is not None and first.what == MESSAGE
    assert known is counts
    assert not known or first.causes[0].label == "secure-boot"


WAITED = "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=41)"
LATE = "ibvwrap.c:262 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out"


def test_what_waited_in_vain_is_told_where_the_log_has_no_failure() -> None:
    alone = score(Excerpt("x", {}, f"{WAITED}\n".encode())).account.first
    assert alone is not None
    assert (alone.what, alone.causes[0].label) == (ENDED, "rank-missing")


@pytest.mark.parametrize("lines", [(WAITED, LATE), (LATE, WAITED)])
def test_what_waited_in_vain_stands_behind_any_failure(lines: tuple[str, ...]) -> None:
    found = score(Excerpt("x", {}, "\n".join((*lines, "")).encode())).account
    assert [each.what for each in found.failures] == ["errno"]


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("RIP: 0010:ib_destroy_qp_user+0x1a/0x220 [ib_core]", True),
        ("RIP: 0010:mlx5_ib_post_send.part.0+0x31/0x6c0 [mlx5_ib]", True),
        ("RIP: 0010:ext4_writepages+0x1a/0x220 [ext4]", False),
        ("RIP: 0010:native_safe_halt+0xe/0x10", False),
    ],
)
def test_a_kernel_that_stopped_in_a_module_of_rdma_is_a_fault_of_it(line: str, seen: bool) -> None:
    found = recognise(line.encode())
    assert (found is not None and found.causes[0].label == "program-fault") is seen


def test_a_message_is_not_swallowed_by_what_follows_it_with_a_number() -> None:
    first = "[1.0] mlx4_core 0000:05:00.0: RUN_FW command failed, aborting"
    then = "[1.1] mlx4_core: probe of 0000:05:00.0 failed with error -16"
    found = score(Excerpt("", {}, f"{first}\n{then}\n".encode())).account
    assert found.first
    assert (found.first.text, found.first.count) == (first, 1)


def test_what_is_known_of_a_message_is_said_beside_its_causes() -> None:
    line = "mlx5_core 0000:41:00.0: Health issue observed, irisc not responding, severity(3) ERROR"
    found = known_message(line)
    assert found is not None
    assert (found.stack, found.about) == ("kernel-mlx5", "a processor of the device hangs")


@pytest.mark.parametrize(
    "line",
    [
        "mlx5_core 0000:41:00.0: frobnication failed",
        "NVRM: Xid (PCI:0000:1b:00): 145, NVLink",  # a row of one word
    ],
)
def test_nothing_is_said_of_a_line_that_is_no_message_or_of_which_a_row_only_names_the_part(
    line: str,
) -> None:
    assert known_message(line) is None
