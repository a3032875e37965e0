"""Lines as launchers mark, wrap and group them: whose each is, and nothing of another's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.explain.job.part import last_stamp
from rdmadiag.explain.job.writers import Writer, introduction, named, writer_of
from rdmadiag.explain.log.line.launchers import marking
from rdmadiag.fleet.lines import Mark
from tests.explain.job.telling import part_of

FAILED = (
    "NCCL WARN NET/IB: Got completion from peer 10.0.0.9<7> with status=IBV_WC_RETRY_EXC_ERR(12) "
    "opcode=IBV_WC_SEND(0) vendor_err=129 hca mlx5_0"
)


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("0: a\n1: b\n12: c: d\n", Mark.TASK),
        ("node1: a\nnode2: b\nnode1: c\nnode2: d\nnode1: e\n", Mark.NODE),
        ("[pod/t-0/main] a\n[pod/t-1/main] b\n", Mark.POD),
        ("a\nb\n3: c\n", Mark.NONE),
        ("INFO: a\nWARNING: b\nINFO: c\n", Mark.NONE),
        ("one: a\ntwo: b\nthree: c\nfour: d\n", Mark.NONE),
        ("", Mark.NONE),
    ],
)
def test_how_a_launcher_has_marked_the_lines(text: str, mark: Mark) -> None:
    assert marking(text.encode()) is mark


@pytest.mark.parametrize(
    ("line", "writer"),
    [
        ("node2:811:902 [3] NCCL WARN x", Writer(None, "node2", 811)),
        ("[2026-03-13 12:00:00] node2:811:902 [3] NCCL x", Writer(None, "node2", 811)),
        ("[rank7]:[E313] x", Writer(7)),
        ("[1,5]<stderr>:node2:811:902 [0] NCCL x", Writer(5, "node2", 811)),
        ("[1650000000.123456] [node2:811  :0] ib.c UCX ERROR", Writer(None, "node2", 811)),
        ("[node2:00811] pml_ucx.c:1 Error", Writer(None, "node2", 811)),
        ("Mar 13 12:00:00 node2 kernel: x", Writer(None, "node2")),
        ("2026-03-13T12:00:00+00:00 node2 systemd[1]: x", Writer(None, "node2")),
        ("(Worker pid=811, ip=192.0.2.1) x", Writer(None, "192.0.2.1", 811)),
        ("node2.example.com:811:902 [3] NCCL WARN x", Writer(None, "node2", 811)),
        ("nothing", Writer()),
    ],
)
def test_who_wrote_a_line(line: str, writer: Writer) -> None:
    assert writer_of(line) == writer


@pytest.mark.parametrize(
    ("path", "writer"),
    [
        ("logs/job-rank12.log", Writer(12)),
        ("run/node2/rank_3/stderr", Writer(3, "node2")),
        ("slurm-77-node2-5.out", Writer(None, "node2")),
        ("inspector/node2-pid811.log", Writer(None, "node2", 811)),
        ("node20.log", Writer()),
    ],
)
def test_whose_a_file_is_by_its_name(path: str, writer: Writer) -> None:
    assert named(path, frozenset({"node2"})) == writer


def test_srun_breaks_a_long_line_and_another_rank_stands_between() -> None:
    text = f"node2:811:902 [0] {'x' * 1200} {FAILED}"
    first, rest = text[:1024], text[1024:]
    part = part_of("out", f"3: {first}\n5: other\n3: {rest}\n5: more\n".encode())
    (seen,) = part.occurrences
    assert seen.writer.rank == 3
    assert seen.peer == "10.0.0.9"


def test_what_stands_around_a_line_is_of_its_own_rank_alone() -> None:
    text = (
        "0: [1.0] [node1:1  :0] ib_mlx5_log.c:177 UCX ERROR Transport retry count exceeded on "
        "mlx5_0:1/RoCE (synd 0x15 vend 0x81 hw_synd 0/0)\n"
        "1: ib_mlx5_log.c:177 UCX ERROR RC QP 0x1 [dgid=::ffff:192.0.2.66 sgid_index=1 ]\n"
        "0: ib_mlx5_log.c:177 UCX ERROR RC QP 0x2 [rqpn 0x118 dgid ::ffff:192.0.2.9 x]\n"
    )
    seen = part_of("out", text.encode()).occurrences[0]
    assert (seen.writer.rank, seen.remote_gid) == (0, "::ffff:192.0.2.9")


PERFTEST = """\
 Completion with error at client
 Failed status 12: wr_id 0 syndrom 0x81
scnt=128, ccnt=0
---------------------------------------------------------------------------------------
                    Send BW Test
 Dual-port       : OFF\t\tDevice         : rxe0
 GID index       : 1
---------------------------------------------------------------------------------------
 local address: LID 0000 QPN 0x0011 PSN 0x8bb31a
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:192:00:02:02
 remote address: LID 0000 QPN 0x0011 PSN 0x2fd1c2
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:192:00:02:01
---------------------------------------------------------------------------------------
"""


def test_the_ends_that_perftest_prints_may_stand_below_its_error() -> None:
    seen = part_of("rank2.log", PERFTEST.encode()).occurrences[0]
    assert (seen.local_gid, seen.remote_gid) == ("::ffff:192.0.2.2", "::ffff:192.0.2.1")


def test_of_several_connections_in_one_file_no_end_is_taken() -> None:
    text = PERFTEST + PERFTEST.replace("02:01", "02:09")
    assert part_of("x", text.encode()).occurrences[0].remote_gid is None


def test_lines_below_a_header_are_of_its_node() -> None:
    dashes = "-" * 16
    text = f"{dashes}\nnode4\n{dashes}\nx\n{FAILED}\n{dashes}\nnode5\n{dashes}\n{FAILED}\n"
    part = part_of("out", text.encode())
    assert [each.writer.host for each in part.occurrences] == ["node4", "node5"]


def test_kubernetes_times_stand_before_the_line() -> None:
    lines = "".join(
        f"[pod/t-{number}/main] 2026-03-13T12:00:0{number}.123456789Z n{number}:1:2 [0] {FAILED}\n"
        for number in range(2)
    )
    seen = part_of("out", lines.encode()).occurrences
    assert [each.stamp is not None and each.stamp.clock for each in seen] == ["utc", "utc"]


def test_a_storm_is_kept_once_and_counted() -> None:
    text = "".join(f"n:1:2 [0] {FAILED} wr_id={number}\n" for number in range(3000))
    (seen,) = part_of("x", text.encode()).occurrences
    assert (seen.count, seen.line, seen.last_line) == (3000, 1, 3000)


def test_more_kinds_than_are_kept_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    from rdmadiag.explain.job import part as module

    monkeypatch.setattr(module, "MOST_SIGHTINGS", 5)
    text = "".join(f"n{number}:1:2 [0] {FAILED}\n" for number in range(9))
    part = part_of("x", text.encode())
    assert (len(part.occurrences), part.dropped) == (5, 4)


def test_the_last_time_of_a_log_is_found_behind_lines_without() -> None:
    found = last_stamp(b"2026-03-13T12:00:00Z a\n2026-03-13T12:00:09Z b\nbye\n\n")
    assert found is not None
    assert found.seconds % 60 == 9
    assert last_stamp(b"a\nb") is None


@given(st.text(max_size=300))
def test_any_line_has_a_speaker_and_perhaps_an_introduction(text: str) -> None:
    writer_of(text)
    introduction(text)
    named(text, frozenset({"a"}))
    marking(text.encode("utf-8", "replace"))
