"""What the real tools and the real kernel write is read as it is: fine where all went well, and
never as fine where it did not."""

import logging
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from lab.ports import wait_listening
from lab.rxe import Rxe

SECONDS = 120.0
PORT = 18701

Run = Callable[..., subprocess.CompletedProcess[str]]
Explained = Callable[[str], int]


@pytest.fixture
def explained(rdmadiag: Callable[..., tuple[int, str, str]], tmp_path: Path) -> Explained:
    """Text → the exit code of `explain --log` on it."""

    def call(text: str) -> int:
        log = tmp_path / "job.log"
        log.write_text(text)
        code, answer, error = rdmadiag("explain", "--log", str(log))
        logging.getLogger(__name__).warning("%s%s\nof:\n%s", answer, error, text)
        return code

    return call


@pytest.fixture
def server() -> Iterator[Callable[[Sequence[str]], "subprocess.Popen[str]"]]:
    """Starts what listens at PORT; ended afterwards."""
    started: list[subprocess.Popen[str]] = []

    def call(argv: Sequence[str]) -> "subprocess.Popen[str]":
        started.append(
            subprocess.Popen(
                ["stdbuf", "-oL", "timeout", f"{SECONDS:.0f}", *argv],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
        wait_listening(PORT, 30.0)
        return started[-1]

    yield call
    for each in started:
        each.kill()
        each.communicate()


class TestPair:
    @pytest.mark.other_kernels(4)
    @pytest.mark.parametrize(
        "argv",
        [
            ["dmesg"],  # first: what ucx_info tries in vain stands in it
            ["ibv_devinfo", "-v"],
            ["ibv_devices"],
            ["ucx_info", "-d"],
            ["ucx_info", "-c"],
            ["fi_info", "-e"],
            ["rdma", "statistic"],
            ["rdma", "link"],
            ["ib_send_bw", "--help"],
        ],
        ids=" ".join,
    )
    def test_what_a_healthy_host_prints_is_fine(
        self, argv: list[str], rxe_pair: tuple[Rxe, Rxe], run: Run, explained: Explained
    ) -> None:
        done = run(argv, timeout=SECONDS)
        assert done.stdout + done.stderr
        assert explained(done.stdout + done.stderr) == 0

    def test_a_pingpong_that_works_is_fine_at_both_ends(
        self,
        rxe_pair: tuple[Rxe, Rxe],
        run: Run,
        server: Callable[[Sequence[str]], "subprocess.Popen[str]"],
        explained: Explained,
    ) -> None:
        argv = ["ibv_rc_pingpong", "-d", "rxe0", "-g", "1", "-n", "100", "-p", str(PORT)]
        listening = server(argv)
        client = run([*argv, rxe_pair[0].ipv4], timeout=SECONDS)
        output, _ = listening.communicate(timeout=SECONDS)
        assert (client.returncode, listening.returncode) == (0, 0), client.stderr + output
        assert explained(output) == 0
        assert explained(client.stdout + client.stderr) == 0

    @pytest.mark.other_kernels(4)
    @pytest.mark.parametrize(
        "argv",
        [
            ["rping", "-c", "-a", "192.0.2.1", "-p", "18799", "-v"],
            ["ucmatose", "-s", "192.0.2.1", "-p", "18799"],
            ["udaddy", "-s", "203.0.113.9"],
            ["mckey", "-m", "224.0.0.77", "-b", "203.0.113.9"],
            ["ib_send_bw", "-d", "mlx5_9"],
            ["ibv_rc_pingpong", "-d", "mlx5_9"],
            ["ibv_rc_pingpong", "-d", "rxe0", "-g", "1", "-p", "18799", "192.0.2.1"],
            ["sminfo", "-C", "rxe0"],
        ],
        ids=" ".join,
    )
    def test_what_failed_is_never_fine(
        self, argv: list[str], rxe_pair: tuple[Rxe, Rxe], run: Run, explained: Explained
    ) -> None:
        done = run(["timeout", "30", *argv], timeout=SECONDS)
        assert done.returncode != 0
        assert explained(done.stdout + done.stderr) in (2, 3)

    def test_a_queue_pair_without_a_gid_is_a_failure_at_rtr(
        self,
        rxe_pair: tuple[Rxe, Rxe],
        run: Run,
        server: Callable[[Sequence[str]], "subprocess.Popen[str]"],
        explained: Explained,
    ) -> None:
        argv = ["ibv_rc_pingpong", "-d", "rxe0", "-n", "5", "-p", str(PORT)]
        listening = server(argv)
        client = run([*argv, rxe_pair[0].ipv4], timeout=SECONDS)
        output, _ = listening.communicate(timeout=SECONDS)
        assert (client.returncode, listening.returncode) != (0, 0)
        assert explained(output + client.stdout + client.stderr) == 2
        assert explained(client.stdout + client.stderr) in (2, 3)

    def test_a_misspelt_variable_is_warned_of(
        self, rxe_pair: tuple[Rxe, Rxe], run: Run, rdmadiag: Callable[..., tuple[int, str, str]]
    ) -> None:
        set_in = ["env", "NCCL_IB_GID_INDX=1", "UCX_NET_DEVICE=rxe0:1"]
        _, out, _ = rdmadiag("preflight", prefix=set_in)
        assert "did you mean NCCL_IB_GID_INDEX?" in out
        assert "did you mean UCX_NET_DEVICES?" in out
