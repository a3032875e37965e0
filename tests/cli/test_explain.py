"""rdmadiag explain: words, logs, exit codes, and one line for what is not understood."""

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rdmadiag import SCHEMA_VERSION
from rdmadiag.samples import samples

# Children that read what a user names: tests/host/test_given_file.py, test_isolation.py.
pytestmark = pytest.mark.usefixtures("in_this_process")

Rdmadiag = Callable[..., "Outcome"]  # type: ignore[name-defined]  # noqa: F821  # tests/cli/conftest.py

FAILED = (
    "n1:1:2 [0] ibvwrap.c:262 NCCL WARN Call to ibv_modify_qp failed with 110 Connection "
    "timed out, on dev mlx5_0:1, curr state INIT, next state RTR, local GID index 3, local GID "
    "::ffff:192.0.2.1, remote GID ::ffff:192.0.2.9\n"
)
ABORTED = "ncclRemoteError: A call failed possibly due to a network error\n"
ODD = "n1:1:2 [0] NCCL WARN NET/IB : mlx5_0:1 the frobnicator failed\n"


@pytest.fixture
def log(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        (tmp_path / "job.log").write_text(text)
        return str(tmp_path / "job.log")

    return write


@pytest.mark.parametrize(
    ("line", "what"),
    [
        # as lib/nvme/nvme.c of SPDK prints it
        ("nvme.c: 410: NVMe trtype 1 not available", "at open: SPDK was built without RDMA: "),
        # its condition only names where it is printed
        ("mlx5_net: port 0 failed to set defaults flows", "at init: raw packet privilege  ["),
    ],
    ids=["which is a sentence", "or by its likeliest cause"],
)
def test_a_message_of_a_stack_is_answered_by_what_is_known_of_it(
    line: str, what: str, rdmadiag: Rdmadiag, log: Callable[[str], str]
) -> None:
    assert rdmadiag("explain", "--log", log(f"{line}\n")).out.startswith(f"FAILED  {what}")


def test_another_failure_whose_words_name_its_cause_is_answered_with_it_and_what_to_do(
    log: Callable[[str], str], rdmadiag: Rdmadiag
) -> None:
    text = "Error! Your kernel headers for kernel 6.1.0-18-amd64 cannot be found at /lib/modules\n"
    found = rdmadiag("explain", "--log", log(text))
    assert found.code == 0
    assert found.out.startswith(
        "OTHER  no line here says that RDMA failed; likely no headers of the running kernel: "
        "the module is not built"
    )
    assert f"    1: {text}" in found.out
    assert "uname -r" in found.out.partition("Next:")[2]


def test_a_cause_that_is_likely_enough_is_in_the_first_line_and_no_other(
    rdmadiag: Rdmadiag, log: Callable[[str], str]
) -> None:
    answer = rdmadiag("explain", "-q", "--log", log("ibv_reg_mr failed: Cannot allocate memory\n"))
    assert "; likely the limit on locked memory (ulimit -l) is too low" in answer.out
    undecided = rdmadiag("explain", "--log", log("DeepEP error: CPU recv timeout\n")).out
    assert "[rank-missing]" in undecided
    assert ";" not in undecided.splitlines()[0]


@pytest.mark.parametrize(
    ("text", "code", "word"),
    [
        ("step 1 loss 2\n", 0, "OK"),
        ("", 3, "UNKNOWN"),
        ("MPI_ABORT was invoked on rank 3\n", 0, "OTHER"),
        (ABORTED, 3, "UNKNOWN"),
        (f"x\n{FAILED}{ABORTED}{ODD}", 2, "FAILED"),
        (ODD, 3, "UNKNOWN"),
    ],
)
def test_exit_codes_of_a_log(
    text: str, code: int, word: str, log: Callable[[str], str], rdmadiag: Rdmadiag
) -> None:
    outcome = rdmadiag("explain", "--log", log(text))
    assert (outcome.code, outcome.err) == (code, "")
    assert outcome.out.startswith(f"{word}  ")
    document = rdmadiag("explain", "--json", "--log", log(text))
    assert document.code == code
    assert document.document["schema_version"] == SCHEMA_VERSION


def test_the_text_of_a_failure(log: Callable[[str], str], rdmadiag: Rdmadiag) -> None:
    out = rdmadiag("explain", "--log", log(f"x\n{FAILED}{FAILED}{ABORTED}{ODD}")).out
    assert "at rtr on mlx5_0/1: ibv_modify_qp failed: errno 110 (ETIMEDOUT" in out
    assert "lines 2, 3; nccl; said by n1; GID index 3" in out
    assert "[peer-unreachable]" in out
    assert "ip route get 192.0.2.9 from 192.0.2.1" in out
    assert "1 line of aborts and watchdogs (line 4)" in out
    assert "5: n1:1:2 [0] NCCL WARN" in out


@pytest.mark.parametrize(
    ("line", "details"),
    [
        ("NCCL WARN Call to ibv_create_qp failed with 12 Cannot allocate memory", "line 1; nccl"),
        ("ibv_create_qp: Cannot allocate memory", "line 1"),
    ],
)
def test_a_line_that_names_no_program_is_not_said_to_be_of_one(
    line: str, details: str, log: Callable[[str], str], rdmadiag: Rdmadiag
) -> None:
    assert f"    {details}\n" in rdmadiag("explain", "--log", log(f"{line}\n")).out


def test_a_line_that_ends_a_program_and_stands_first_is_no_consequence_of_itself(
    log: Callable[[str], str], rdmadiag: Rdmadiag
) -> None:
    line = "insmod: ERROR: could not insert module ./zap.ko: Key was rejected by service"
    out = rdmadiag("explain", "--log", log(f"e1000e: NIC Link is Up\n{line}\n")).out
    assert out.count("zap.ko") == 1
    assert "Consequences" not in out


def test_the_names_of_the_document(log: Callable[[str], str], rdmadiag: Rdmadiag) -> None:
    document = rdmadiag("explain", "--json", "--log", log(FAILED)).document
    assert {*document} == {
        *("schema_version", "tool", "generated_at", "host", "log", "first", "failures"),
        *("consequences", "notes", "unknown", "unknown_next"),
        *("aftermath", "aftermath_lines", "dropped", "other", "similar"),
    }
    first = document["first"]
    assert first == document["failures"][0]
    assert first["errno"]["name"] == "ETIMEDOUT"
    assert first["stage"] == "rtr"
    assert first["causes"][0] == {
        "label": "peer-unreachable",
        "text": first["causes"][0]["text"],
        "standing": "possible",
        "evidence": [],
    }
    assert document["log"]["lines"] == 1
    assert document["host"] is None


def test_a_file_needs_no_option_and_a_pipe_no_dash(
    log: Callable[[str], str], rdmadiag: Rdmadiag
) -> None:
    assert rdmadiag("explain", log(FAILED)).code == 2
    for argv in ([], ["-"], ["--log", "-"]):
        ran = subprocess.run(
            [sys.executable, "-m", "rdmadiag", "explain", *argv],
            input=FAILED,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (ran.returncode, ran.stderr) == (2, "")


def test_a_line_may_be_pasted(rdmadiag: Rdmadiag) -> None:
    assert rdmadiag("explain", FAILED.strip()).code == 2
    assert rdmadiag("explain", *FAILED.split()).code == 2


@pytest.mark.parametrize(
    "argv",
    [
        ["frobnicate"],
        ["errno", "9999"],
        ["--log", "/nonexistent/job.log"],
        ["110", "--log", "x"],
        ["110", "--sample", "roce-healthy"],
        ["110", "--here"],
        ["--log", "x", "--here", "--sample", "roce-healthy"],
        ["12", "--vendor-err", "x"],
    ],
)
def test_what_cannot_be_had_is_one_line(argv: list[str], rdmadiag: Rdmadiag) -> None:
    outcome = rdmadiag("explain", *argv)
    assert (outcome.code, outcome.out) == (64, "")
    assert outcome.err.startswith("rdmadiag: ")
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    "argv",
    [
        ["110"],
        ["wc", "12", "--vendor-err", "0x81"],
        ["INIT"],
        ["NCCL_IB_TIMEOUT=22"],
        ["no-usable-gid"],
        ["gid-row-empty"],
        ["errno", "22", "--platform", "darwin", "--stage", "rtr"],
        ["wc", "5"],
        ["errno", "7"],
        ["no_route_gid"],
    ],
)
def test_words_in_both_forms(argv: list[str], rdmadiag: Rdmadiag) -> None:
    outcome = rdmadiag("explain", *argv)
    assert (outcome.code, outcome.err) == (0, "")
    document = rdmadiag("explain", "--json", *argv).document
    assert document["answers"]
    assert document["answers"][0]["subject"] in (
        "errno",
        "wc",
        "state",
        "env",
        "rule",
        "cause",
        "reason",
    )


@pytest.mark.parametrize("name", sorted(samples()))
def test_every_sample_can_rank_a_log(
    name: str, log: Callable[[str], str], rdmadiag: Rdmadiag
) -> None:
    outcome = rdmadiag("explain", "--json", "--sample", name, "--log", log(FAILED + ABORTED))
    assert (outcome.code, outcome.err) == (2, "")
    assert outcome.document["host"]["recorded"] is True


def test_a_report_ranks_as_its_host_does(
    tmp_path: Path, log: Callable[[str], str], rdmadiag: Rdmadiag
) -> None:
    report = tmp_path / "report.json"
    report.write_text(rdmadiag("preflight", "--json", "--sample", "roce-empty-gid-table").out)
    line = "ibv_modify_qp to RTR failed: errno 22\n"
    out = rdmadiag("explain", "--from", str(report), "--log", log(line)).out
    assert "confirmed: the row of the GID table at this index is empty" in out


def test_only_what_was_asked_for(log: Callable[[str], str], rdmadiag: Rdmadiag) -> None:
    path = log(FAILED)
    assert rdmadiag("explain", "--device", "mlx5_0:1", "--log", path).code == 2
    assert rdmadiag("explain", "--device", "mlx5_7", "--log", path).code == 0


def test_no_host_is_read_without_being_asked(
    log: Callable[[str], str], rdmadiag: Rdmadiag, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rdmadiag.cli.options import Reading

    def read(*_: object) -> None:
        raise AssertionError("the host was read")

    monkeypatch.setattr(Reading, "evidence", read)
    assert rdmadiag("explain", "--log", log(FAILED)).code == 2


def test_a_terminal_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, rdmadiag: Rdmadiag) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal())
    assert rdmadiag("explain").code == 64


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="/proc")
def test_memory_of_a_whole_run_with_one_endless_line(tmp_path: Path) -> None:
    """60 MB of one line that is full of candidates."""
    path = tmp_path / "endless"
    megabyte = b"ibv_modify_qp failed: errno 110 rdma error GID 12 " * 20000
    with open(path, "wb") as file:
        file.writelines(megabyte for _ in range(60))
    program = (
        "import sys\nfrom rdmadiag.cli import run\n"
        f"code = run(['explain', '--json', '--log', {str(path)!r}])\n"
        "kept = [l for l in open('/proc/self/status') if l.startswith('VmHWM')]\n"
        "print(kept[0].split()[1], code, file=sys.stderr)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    peak, code = map(int, ran.stderr.split())
    assert code == 2
    assert peak < 80_000


# --- similar cases, and how likely a cause is ----------------------------------------------


def test_similar_cases_stand_with_their_addresses(
    log: Callable[[str], str], rdmadiag: Rdmadiag
) -> None:
    path = log("NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory\n")
    plain = rdmadiag("explain", "--log", path)
    shown = rdmadiag("explain", "--log", path, "--similar")
    assert "https://" not in plain.out
    assert "Known cases with lines like these:" in shown.out
    assert "https://github.com/" in shown.out
    assert "the first: about" in plain.out
    assert rdmadiag("explain", "--json", "--log", path).document["similar"] is None
    found = rdmadiag("explain", "--json", "--log", path, "--similar").document["similar"]
    assert {*found[0]} == {"address", "causes", "found", "line", "likeness"}


def test_a_log_that_is_like_none(log: Callable[[str], str], rdmadiag: Rdmadiag) -> None:
    shown = rdmadiag("explain", "--log", log("all is well\n"), "--similar")
    assert "No known case has lines like these." in shown.out


@pytest.mark.parametrize("arguments", [("errno", "110"), ("--log", "a", "--log", "b")])
def test_similar_is_for_one_log(arguments: tuple[str, ...], rdmadiag: Rdmadiag) -> None:
    assert rdmadiag("explain", "--similar", *arguments).code == 64


STARTED = (
    "[    9.123456] mlx5_core 0000:08:00.0 ens1f0np0: Link down\n"
    "[   12.123456] mlx5_core 0000:08:00.0 ens1f0np0: Link up\n"
    "[   13.123456] mlx5_core 0000:08:00.1 ens1f1np1: Link down\n"
)


def test_a_kernel_that_starts_brings_its_links_up_and_what_it_says_of_them_is_noted(
    rdmadiag: Rdmadiag, log: Callable[[str], str]
) -> None:
    ran = rdmadiag("explain", "--log", log(STARTED))
    assert (ran.code, ran.out.split()[0]) == (0, "OK")
    assert "a link went down, and came up again before anything failed (line 1)" in ran.out
    assert "perhaps nobody uses it (line 3)" in ran.out
    again = "[  812.123456] mlx5_core 0000:08:00.0 ens1f0np0: Link down\n"
    lost = rdmadiag("explain", "--log", log(STARTED + again))
    assert (lost.code, lost.out.split()[0]) == (2, "FAILED")
    assert "line 4;" in lost.out


def test_several_logs_in_which_another_program_failed_are_not_ok(
    rdmadiag: Rdmadiag, tmp_path: Path
) -> None:
    (tmp_path / "r0.log").write_text("step 1\nRuntimeError: shape mismatch\n")
    (tmp_path / "r1.log").write_text("step 1\n")
    ran = rdmadiag("explain", "--log", str(tmp_path))
    assert ran.code == 0
    assert ran.out.startswith(
        "OTHER  something failed, and no line here says that RDMA did: "
        "RuntimeError: shape mismatch  [2 files, "
    )
    assert f"{tmp_path}/r0.log:2: RuntimeError: shape mismatch" in ran.out
    document = rdmadiag("explain", "--log", str(tmp_path), "--json").document
    assert document["other"]["line"] == 2


def test_of_a_line_that_names_nothing_how_the_log_ended_is_told_beside_it(
    rdmadiag: Rdmadiag, log: Callable[[str], str]
) -> None:
    ended = "slurmstepd: error: *** JOB 991 ON node3 CANCELLED AT 03:11:00 DUE TO TIME LIMIT ***"
    first = rdmadiag("explain", "--log", log(f"RDMA: frobnication failed\n{ended}\n"))
    said = first.out.splitlines()[0]
    assert said.startswith("UNKNOWN  something failed here that may be RDMA")
    assert f"it ended so: {ended}" in said


IBDEV = "{host}: mlx5_0 port 1 ==> ib0 ({state})\n{host}: mlx5_1 port 1 ==> ib1 ({state})\n"


def test_listings_of_several_hosts_are_read_host_by_host(
    log: Callable[[str], str], rdmadiag: Rdmadiag
) -> None:
    up = "".join(IBDEV.format(host=f"n{n}", state="Up") for n in range(4))
    assert rdmadiag("explain", "--log", log(up)).code == 0
    found = rdmadiag("explain", "--log", log(up + IBDEV.format(host="n4", state="Down")))
    assert (found.code, "n4" in found.out) == (2, True)


def test_a_second_port_without_a_cable_is_no_failure_on_any_of_several_hosts(
    log: Callable[[str], str], rdmadiag: Rdmadiag
) -> None:
    link = (
        "{0}: link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev ens1f0np0\n"
        "{0}: link mlx5_1/1 state DOWN physical_state DISABLED netdev ens1f1np1\n"
    )
    found = rdmadiag("explain", "--log", log("".join(map(link.format, ("n1", "n2", "n3")))))
    assert found.code == 0


def test_what_one_rank_does_without_is_no_failure_since_the_ranks_are_marked(
    log: Callable[[str], str], rdmadiag: Rdmadiag
) -> None:
    text = "".join(
        f"{rank}: n1:{rank}:{rank} [{rank}] NCCL INFO NET/IB : No device found.\n"
        for rank in "0123"
    )
    done = "0: # Out of bounds values : 0 OK\n0: # Avg bus bandwidth    : 9.2\n"
    assert rdmadiag("explain", "--log", log(text + done)).code == 0


def test_what_no_label_stands_before_stays_beside_what_hosts_list(
    log: Callable[[str], str], rdmadiag: Rdmadiag
) -> None:
    up = "".join(IBDEV.format(host=f"n{n}", state="Up") for n in range(4))
    found = rdmadiag("explain", "--log", log(up + "n_gids_found=0\n"))
    assert found.code == 2
