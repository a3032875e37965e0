"""How far a test came, by what it printed."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.explain.log.account import Account
from rdmadiag.explain.log.kind import STOPPED, Kind
from rdmadiag.explain.log.recognition.vocabulary import NEEDLES
from rdmadiag.explain.log.scan import collect
from rdmadiag.explain.log.text.benchmark import Benchmark, Reached
from rdmadiag.sieve.lines import Sieve
from tests.explain.score import Excerpt, score

LOCAL = "  local address:  LID 0x0000, QPN 0x000011, PSN 0xb56823, GID ::ffff:192.0.2.1\n"
REMOTE = "  remote address: LID 0x0000, QPN 0x000011, PSN 0xb31985, GID ::ffff:192.0.2.2\n"
RESULT = "8192000 bytes in 0.01 seconds = 5613.00 Mbit/sec\n1000 iters in 0.01 seconds = 11 usec\n"
PERFTEST = """\
                    Send BW Test
 Dual-port       : OFF\t\tDevice         : mlx5_0
 Connection type : {kind}\t\tUsing SRQ      : OFF
 Mtu             : 1024[B]
 Link type       : Ethernet
---------------------------------------------------------------------------------------
 local address: LID 0000 QPN 0x0011 PSN 0xb2650
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:192:00:02:01
 remote address: LID 0000 QPN 0x0011 PSN 0xd1139c
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:192:00:02:02
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
"""
ROW = " 65536      1000             92.50              92.50              0.001480\n"


def account(text: str) -> Account:
    sieve = Sieve(NEEDLES)
    collector = collect(sieve.segments(io.BytesIO(text.encode())))
    return collector.account(sieve.lines, sieve.bytes)


@pytest.mark.parametrize(
    ("text", "stage", "label"),
    [
        (LOCAL, "connect", "firewall"),
        (LOCAL + REMOTE, "data", "roce-port-dropped"),
        ((LOCAL + REMOTE).replace("LID 0x0000", "LID 0x0007"), "data", "no-path"),
        (PERFTEST.format(kind="RC"), "data", "roce-port-dropped"),
        (PERFTEST.format(kind="UC"), "data", "uc-reports-no-loss"),
        (LOCAL + REMOTE + RESULT + LOCAL + REMOTE, "data", "roce-port-dropped"),
    ],
    ids=[
        "only its own address: TCP is not answered",
        "both addresses: RDMA does not get through",
        "of InfiniBand no UDP port is dropped",
        "perftest's header without a row",
        "UC says nothing of what is lost",
        "the second run of two",
    ],
)
def test_a_test_that_said_no_more_has_stopped(text: str, stage: str, label: str) -> None:
    first = account(text).first
    assert first is not None
    assert (first.what, first.stage, first.causes[0].label) == (STOPPED, stage, label)
    assert any(line.startswith("sudo nft") for line in first.next)


@pytest.mark.parametrize(
    "text",
    [
        LOCAL + REMOTE + RESULT,
        PERFTEST.format(kind="RC") + ROW,
        PERFTEST.format(kind="RC") + "Conflicting CPU frequency values detected\n" + ROW,
        PERFTEST.partition(" remote address")[0],
        "************************************\n* Waiting for client to connect... *\n",
    ],
    ids=[
        "a result of a pingpong",
        "a row of perftest",
        "a row below a warning",
        "an excerpt of perftest's header",
        "a server that waits",
    ],
)
def test_one_that_has_its_result_or_only_waits_has_not(text: str) -> None:
    assert account(text).first is None


def test_an_error_says_more_than_that_it_stopped() -> None:
    first = account(LOCAL + "Couldn't connect to 192.0.2.2:18515\n").first
    assert first is not None
    assert first.what == "side-channel"


@pytest.mark.parametrize(
    ("text", "labels", "kind"),
    [
        (
            LOCAL.replace("::ffff:192.0.2.1", "::") + "Couldn't read/write remote address\n",
            {"no-gid-given", "gid-row-empty"},
            Kind.FAILURE,
        ),
        (LOCAL + REMOTE.replace("::ffff:192.0.2.2", "::"), {"gid-row-empty"}, Kind.FAILURE),
    ],
    ids=["its own end has no GID", "the peer's has none"],
)
def test_an_end_without_an_address_is_what_failed(text: str, labels: set[str], kind: Kind) -> None:
    first = account(text).first
    assert first is not None
    assert (first.what, first.kind) == ("empty-gid", kind)
    assert labels <= {each.label for each in first.causes[:3]}


def test_each_end_has_the_gid_of_its_own_line() -> None:
    first = account(LOCAL + REMOTE).first
    assert first is not None
    benchmark = Benchmark()
    benchmark.take(LOCAL.encode(), 1, REMOTE.encode())
    benchmark.take(REMOTE.encode(), 2)
    gids = [str(benchmark.ends[which].gid) for which in ("local", "remote")]
    assert gids == ["::ffff:192.0.2.1", "::ffff:192.0.2.2"]


def test_infiniband_needs_no_gid() -> None:
    text = (LOCAL + REMOTE + RESULT).replace("LID 0x0000", "LID 0x0007")
    for gid in ("::ffff:192.0.2.1", "::ffff:192.0.2.2"):
        text = text.replace(gid, "::")
    assert account(text).first is None


def test_what_perftest_was_started_with_is_kept() -> None:
    benchmark = Benchmark()
    lines = PERFTEST.format(kind="UC").encode().splitlines(keepends=True)
    for number, line in enumerate(lines):
        above, after = b"".join(lines[:number]), b"".join(lines[number + 1 :])
        benchmark.take(line, number + 1, after, above)
    assert benchmark.header["Connection type"] == "UC"
    assert benchmark.header["test"] == "Send BW Test"
    assert benchmark.reached is Reached.DATA


@given(st.lists(st.binary(max_size=80)))
def test_any_lines_are_taken(lines: list[bytes]) -> None:
    benchmark = Benchmark()
    for number, line in enumerate(lines):
        benchmark.take(line, number, b"", b"")
    assert benchmark.reached in Reached


def test_a_result_of_zeros_is_one_where_perftest_has_no_clock_to_count_with() -> None:
    row = " 4096       20               0.00               0.00   \t\t   0.000000\n"
    assert account(PERFTEST.format(kind="RC") + row).first is None


@pytest.mark.parametrize("prefix", ["", "[1,0]<stdout>: ", "2019-07-16 03:43:24 DEBUG| [stdout] "])
def test_a_result_is_one_whatever_a_logger_puts_before_it(prefix: str) -> None:
    log = PERFTEST.format(kind="RC") + ROW
    assert account("".join(prefix + line for line in log.splitlines(keepends=True))).first is None


STREAMS = "name      bytes   xfers   iters   total       time     Gb/sec    usec/xfer\n"


def test_rstream_that_prints_no_row_has_stopped() -> None:
    stopped = score(Excerpt("x", {}, STREAMS.encode())).account.first
    assert stopped
    assert (stopped.what, stopped.tool, stopped.stage) == ("stopped", "rstream", "connect")
    for row in (
        "custom    1k      10      1       20k         0.00s      0.16      49.70\n",
        "custom    1.4k    1000    1k      2.7g        1.80s     12.40       0.93\n",
        "0: 128_lat 128    1       2b      238g       36.10s      1.00       0.93\n",
    ):
        assert score(Excerpt("x", {}, (STREAMS + row).encode())).as_ok, row


def test_a_name_that_is_not_resolved_says_more_than_that_it_stopped() -> None:
    log = f"{STREAMS}getaddrinfo: Name or service not known\n"
    other = score(Excerpt("x", {}, log.encode())).account.other
    assert other
    assert other.causes[0].label == "name-not-resolved"


def test_the_time_limit_of_a_job_does_not_say_why_its_test_hung() -> None:
    ended = "slurmstepd: error: *** JOB 1 ON n1 CANCELLED AT 2024-01-11T03:22:48 DUE TO TIME LIMIT"
    first = score(Excerpt("x", {}, f"{STREAMS}{ended} ***\n".encode())).account.first
    assert first
    assert first.what == "stopped"


def test_what_stands_below_a_test_whose_ends_have_met_is_not_why_it_hung() -> None:
    met = f"{LOCAL}{REMOTE}#bytes #iterations BW peak[MB/sec] BW average[MB/sec] MsgRate[Mpps]\n"
    full = "cp: error writing '/results/out.txt': No space left on device\n"
    first = score(Excerpt("x", {}, (met + full).encode())).account.first
    assert first
    assert first.what == "stopped"
