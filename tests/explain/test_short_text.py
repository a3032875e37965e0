"""A short text of which no line is understood by the vocabulary is read whole."""

import io
from typing import Final

import pytest

from rdmadiag.explain.log.kind import Found
from rdmadiag.explain.log.ranking.learned.trouble import Weights, features, features_of
from rdmadiag.explain.log.recognition.vocabulary import NEEDLES
from rdmadiag.explain.log.scan import collect
from rdmadiag.explain.log.text.short_text import MOST_LINES, SHOWN, read_whole
from rdmadiag.sieve.lines import WHOLE, Sieve
from tests.explain.learn import FOLDER
from tests.explain.learn_trouble import Text, apart, source, taught, text_of
from tests.explain.learned import by_thread
from tests.explain.score import Excerpt, Score, score
from tests.explain.thread_files import read as read_threads

HEAVY: Final = Weights(0.0, {"TROUBLE": 9.0})
"""A line with a word of trouble is one of trouble."""
LIGHT: Final = Weights(-1.0, {})
"""No line is."""


def read(log: str, learned: Weights | None = None) -> Score:
    """As the command reads it."""
    return score(Excerpt("log", {}, log.encode()), None, learned)


def test_a_line_without_a_word_of_the_vocabulary_is_shown() -> None:
    """It would exit 3, with the line and its number."""
    found = read("all is said\nthe gizmo collapsed: wrecked by a fault\n", HEAVY)
    assert found.as_unknown
    assert [each.line for each in found.account.unknown] == [2]


def test_without_the_weights_it_would_pass() -> None:
    """The same, where nothing was learned of it."""
    assert read("all is said\nthe gizmo collapsed: wrecked by a fault\n", LIGHT).as_ok


def test_a_line_that_no_rule_understood_is_forgotten_where_the_text_weighs_nothing() -> None:
    """The words of the vocabulary alone had shown it."""
    log = "ERROR the rdma gizmo is in a fault: stuck\n"
    assert not read(log, HEAVY).as_ok
    assert read(log, LIGHT).as_ok


def test_a_failure_that_is_known_stays_whatever_the_text_weighs() -> None:
    """It rests on a rule."""
    assert not read("NCCL WARN Call to ibv_modify_qp failed with 110\n", LIGHT).as_ok


def test_names_of_a_stack_that_nobody_knows() -> None:
    """The call and the number in any wording."""
    found = read("frob0: verbs device opened\nfrob0: rnic_modifyQp(RTR): -110\n", Weights(0.0, {}))
    assert found.found is not None
    assert (found.found.stage, found.found.errno and found.found.errno.number) == ("rtr", 110)
    assert found.found.causes[0].label == "peer-unreachable"


def test_names_alone_say_nothing_where_nothing_is_of_rdma() -> None:
    """Another program has contexts and buffers, too."""
    assert read("openContext: rc = -13\n", LIGHT).as_ok


@pytest.mark.parametrize(
    "log",
    [
        "INFO the gizmo had a fault\n",
        "# the gizmo had a fault\n",
        "+ export GIZMO=fault\n",
        "should be set if the gizmo had a fault\n",
    ],
)
def test_what_is_no_output_or_only_information_is_passed_over(log: str) -> None:
    """Whatever it weighs."""
    assert read(log, HEAVY).as_ok


def test_a_result_is_evidence_of_health() -> None:
    """A test that came to its end."""
    done = "1000 iters in 0.01 seconds = 9.5 usec/iter\nthe gizmo had a fault\n"
    assert read(done, HEAVY).as_ok


def test_what_is_understood_is_left_as_it_is() -> None:
    """The other lines add nothing to a failure that is known."""
    log = "NCCL WARN Call to ibv_modify_qp failed with 110\n"
    assert (
        read(log + "the gizmo had a fault\n", HEAVY).account
        == read(log + "the gizmo had a fault\n", Weights(0.0, {})).account
    )


def test_a_note_keeps_its_cause() -> None:
    """It would exit 3 for the line, and what is noted stays what is named."""
    note = (
        "By default, for Open MPI 4.0 and later, infiniband ports on a device\n"
        "are not used by default.  The intent is to use UCX for these devices.\n"
    )
    found = read(note + "the gizmo had a fault\n", HEAVY)
    assert found.as_unknown
    assert found.found is not None
    assert found.found.causes[0].label == "openib-not-used"


def test_only_the_heaviest_lines_are_shown() -> None:
    """A text in which every line is one."""
    found = read("".join(f"{'ab' * n} had a fault\n" for n in range(1, 9)), HEAVY)
    account = found.account
    shown = [number for each in account.failures for number in each.lines]
    shown += [each.line for each in account.unknown]
    assert 0 < len(shown) <= SHOWN


def test_a_longer_text_is_not_read_whole() -> None:
    """By its lines, and by its bytes."""
    assert read("step\n" * MOST_LINES + "the gizmo had a fault\n", HEAVY).as_ok
    assert read("x" * WHOLE + "\nthe gizmo had a fault\n", HEAVY).as_ok


@pytest.mark.parametrize("library", [None, "compiled"])
@pytest.mark.parametrize("size", [0, 1, WHOLE, WHOLE + 1, 5000])
def test_the_sieve_keeps_a_short_stream(library: str | None, size: int) -> None:
    """And lets go of it with the next one."""
    sieve = Sieve(NEEDLES) if library else Sieve(NEEDLES, None)
    collect(sieve.segments(io.BytesIO(b"y" * size)))
    assert sieve.whole == (b"y" * size if size <= WHOLE else None)
    collect(sieve.segments(io.BytesIO(b"z" * 3 * WHOLE)))
    assert sieve.whole is None


def test_bytes_that_are_no_text() -> None:
    """Are read as they are."""
    collector = collect(iter(()))
    read_whole(collector, b"\xff\xfe\x00 fault \x1b[31m\n\n", HEAVY)
    assert collector.says_trouble


def test_features_are_of_what_is_said() -> None:
    """No address, time or number of a run is among them."""
    one = features("2026-01-02 03:04:05 10.0.0.1 nixlBackendError 0x7f00aa11 777", True, 1)
    other = features("2025-11-12 13:14:15 10.9.9.9 nixl_backend_error 0x7faaaa22 888", True, 1)
    assert one == other
    assert {"nixl", "backend", "error", "backend error", "NN", "RDMA", "TROUBLE & RDMA"} <= one


def test_what_the_rules_say_and_what_stands_elsewhere_are_features_too() -> None:
    """Of each line: those of the text are the same."""
    one, other = features_of(["gizmo melted", "# rdma: a fault"], Found.WORDS)
    assert {"FOUND words", "ANY gizmo", "ANY rdma"} <= one & other
    assert ("gizmo" in one, "gizmo" in other) == (True, False)
    assert ("OF OTHERS" in one, "OF OTHERS" in other) == (False, True)


def test_taught_weights_tell_what_they_were_taught() -> None:
    """And what has the same words."""
    some = [text_of(f"step {n} done\nwidget melted", True) for n in range(6)]
    some += [text_of(f"step {n} done\nwidget made", False) for n in range(6)]
    weights = taught(some)
    lines = ("the widget melted", "the widget made")
    both = [weights.weights([line], Found.NOTHING)[0] for line in lines]
    assert both[0] > 0 > both[1]
    assert taught([*some, Text(False, ())]).of.keys() == weights.of.keys()


def test_a_thread_is_weighed_by_what_others_taught() -> None:
    """Each text of a thread once, and none of the corpus."""
    threads = [each for each in read_threads() if not each.seen][:6]
    some = [text_of(row.lines, row.fails, each) for each in threads for row in each.rows]
    corpus = [text_of("step 1 done", False), text_of("widget melted", True)]
    found = apart([*some, *corpus], by_thread)
    assert sorted(id(text) for text, _ in found) == sorted(id(each) for each in some)


def test_the_table_is_made_of_the_threads_that_there_are() -> None:
    """Else `python -m tests.explain.learn_trouble` writes it anew."""
    assert source() in (FOLDER / "trouble.tsv").read_text("utf-8").partition("\n")[0]


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("IBV_WC_REM_ACCESS_ERR\n", "remote-key-wrong"),
        ("\nRDMA_CM_EVENT_ROUTE_ERROR\n", "no-path"),
        ("ibv_reg_mr: 12\n", "memlock"),
    ],
)
def test_a_constant_or_a_call_with_a_number_is_a_failure_where_it_is_the_whole_text(
    text: str, label: str
) -> None:
    assert score(Excerpt("a", {}, text.encode())).labels[:1] == (label,)


@pytest.mark.parametrize(
    "text", ["IBV_WC_SUCCESS\n", "ibv_reg_mr: 0\n", "IBV_WC_REM_ACCESS_ERR\nIBV_WC_REM_OP_ERR\n"]
)
def test_a_list_of_constants_and_a_success_are_none(text: str) -> None:
    assert score(Excerpt("a", {}, text.encode())).as_ok


SOURCE = """\
let qp = context.create_qp(&pd, &attr);
if qp.is_err() {
    frob.fail("rdma queue pair: fault");
}
"""


def test_source_that_is_pasted_is_no_log() -> None:
    """No program has printed what it names."""
    assert read(SOURCE, HEAVY).as_ok
    assert not read(SOURCE + "12:00:01 ERROR rdma queue pair: fault\n", HEAVY).as_ok


HELP = """\
--------------------------------------------------------------------------
WARNING: There are more than one active ports on host 'node1', but the
default subnet GID prefix was detected on more than one of these
ports.  If these ports are connected to different physical IB
networks, this configuration will fail in Open MPI.

NOTE: You can turn off this warning by setting the MCA parameter
      btl_openib_warn_default_gid_prefix to 0.
--------------------------------------------------------------------------
"""


def test_a_help_text_is_read_as_a_whole() -> None:
    """Its other lines belong to the warning that healthy hosts print, too."""
    assert read(HELP, HEAVY).as_ok


def test_what_follows_a_help_text_is_read() -> None:
    """It ends at the dashes."""
    assert not read(f"{HELP}the gizmo collapsed: wrecked by a fault\n", HEAVY).as_ok


OUT_OF_MEMORY = """\
node1:9:9 [3] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'
node1:9:9 [3] proxy.cc:1519 NCCL WARN [Proxy Service 3] Failed to execute operation Setup from \
rank 3, retcode 1
"""


def test_what_follows_a_failure_of_another_kind_is_none_of_rdma() -> None:
    """The GPU has no memory left; the consequence alone would be one of a peer."""
    found = read(OUT_OF_MEMORY).account
    assert found.first is None
    assert found.other is not None
    assert [each.label for each in found.other.causes] == ["gpu-memory-full", "gpu-not-usable"]
    assert read(OUT_OF_MEMORY.split("\n", 1)[1]).account.first is not None


def test_the_reason_below_a_summary_of_nccl_is_that_of_its_end() -> None:
    """Two ranks on one GPU are no failure of RDMA."""
    summary = (
        "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:275, invalid usage"
        " (run with NCCL_DEBUG=WARN for details), NCCL version 2.20.5\n"
        "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\n"
    )
    reason = "Last error:\nDuplicate GPU detected : rank 1 and rank 0 both on CUDA device 10\n"
    assert not read(summary).as_ok
    found = read(summary + reason)
    assert found.as_ok
    assert found.account.other is not None


def test_what_a_transport_of_rdma_calls_trouble_is_not_weighed_against_the_lines_around() -> None:
    around = (
        "slurmstepd: error: *** JOB 9 ON n3 CANCELLED AT 03:11:00 DUE TO TIME LIMIT ***\n"
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"
    )
    failed = "n3:7:9 [5] NCCL WARN NET/IB: frobnication of queue 7 failed\n"
    assert not score(Excerpt("a", {}, (around + failed).encode())).as_ok
    info = "n3:7:9 [5] NCCL INFO NET/IB: frobnication of queue 7\n"
    assert score(Excerpt("a", {}, (around + info).encode())).as_ok
