"""The emulated host is what it says: real devices, real verbs, an ordinary user beside root."""

import os
import subprocess
from collections.abc import Callable

import pytest

from lab.attempt import until
from lab.ports import wait_listening
from lab.rxe import Rxe

NOBODY = 65534
PORT = 18601

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.smoke
class TestPair:
    def test_sysfs_has_two_devices_with_active_ports(self, rxe_pair: tuple[Rxe, Rxe]) -> None:
        assert sorted(os.listdir("/sys/class/infiniband")) == ["rxe0", "rxe1"]
        for device in rxe_pair:
            port = f"/sys/class/infiniband/{device.name}/ports/1"
            with open(f"{port}/state") as state, open(f"{port}/gid_attrs/types/1") as kind:
                assert state.read() == "4: ACTIVE\n"
                assert kind.read() == "RoCE v2\n"

    def test_libibverbs_lists_both(self, rxe_pair: tuple[Rxe, Rxe], run: Run) -> None:
        listing = run(["ibv_devices"], timeout=30.0)
        assert listing.returncode == 0, listing.stderr
        for device in rxe_pair:
            assert device.name in listing.stdout

    def test_a_queue_pair_carries_data_on_one_device(
        self, rxe_pair: tuple[Rxe, Rxe], run: Run
    ) -> None:
        command = ["ibv_rc_pingpong", "-d", "rxe0", "-g", "1", "-n", "100", "-p", str(PORT)]
        server = subprocess.Popen(
            ["timeout", "60", *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            wait_listening(PORT, 30.0)
            client = run([*command, rxe_pair[0].ipv4], timeout=60.0)
            output, _ = server.communicate(timeout=60.0)
        finally:
            server.kill()
        assert (client.returncode, server.returncode) == (0, 0), client.stderr + output
        assert "100 iters" in client.stdout

    def test_an_ordinary_user_can_run_the_program(
        self, rxe_pair: tuple[Rxe, Rxe], rdmadiag: Callable[..., tuple[int, str, str]]
    ) -> None:
        code, stdout, stderr = rdmadiag("--help", user=NOBODY)
        assert code == 0, stderr
        assert "Usage" in stdout


def test_devices_go_away_with_their_pair(rxe_pair: tuple[Rxe, Rxe], run: Run) -> None:
    assert run(["ip", "link", "del", rxe_pair[0].netdev], timeout=30.0).returncode == 0
    assert until(lambda: not os.listdir("/sys/class/infiniband"), 30.0)  # by a worker of the kernel
