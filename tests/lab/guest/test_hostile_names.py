"""Names that a kernel takes for a device and an interface, and that a terminal or a shell obeys."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from campaign import shells
from lab.rxe import Rxe
from lab.shells import offered

NAMES = {
    "newline": "mlx\n$(touch ran)",
    "substitution": "mlx$(touch ran)",
    "semicolon": "mlx; touch ran #",
    "fish": "\\'\\'(touch ran)\\'\"",
    "escape": "mlx\x1b[2J\x1b]0;owned\x07",
    "bidirectional": "mlx\u202e\u2066\x9b2J",
    "markup": "mlx[bold]<x>%0A|{0}",
    "not UTF-8": "mlx\udcff\udc9b",
}
LONG = ("semicolon", "fish", "bidirectional", "markup")
NETDEV = "v$(touch\x1b)`a`"  # dev_valid_name of net/core/dev.c: at most 15 bytes, no / : or space
PROGRAM = Path(sys.executable).with_name("rdmadiag")

Rdmadiag = Callable[..., tuple[int, str, str]]


def do(*argv: str) -> None:
    subprocess.run(argv, check=True, timeout=30, capture_output=True)


def rename(netdev: str, name: str) -> None:
    """Kernels before 6.2 rename no interface that is up: dev_change_name gives EBUSY."""
    try:
        do("ip", "link", "set", "dev", netdev, "name", name)
    except subprocess.CalledProcessError:
        do("ip", "link", "set", "dev", netdev, "down")
        do("ip", "link", "set", "dev", netdev, "name", name)
        do("ip", "link", "set", "dev", name, "up")


@pytest.fixture(
    scope="class",
    params=[
        pytest.param(name, marks=pytest.mark.long if what in LONG else ())
        for what, name in NAMES.items()
    ],
    ids=list(NAMES),
)
def name(request: pytest.FixtureRequest, rxe_pair: tuple[Rxe, Rxe]) -> Iterator[str]:
    """rxe0 under another name, on an interface under another name."""
    do("rdma", "dev", "set", "rxe0", "name", request.param)
    try:
        rename("veth0", NETDEV)
        try:
            yield request.param
        finally:
            rename(NETDEV, "veth0")
    finally:
        do("rdma", "dev", "set", request.param, "name", "rxe0")


class TestNamed:
    def test_the_kernel_has_it(self, name: str) -> None:
        assert name in os.listdir("/sys/class/infiniband")
        assert NETDEV in os.listdir("/sys/class/net")

    @pytest.mark.sampled(6)
    @pytest.mark.paired(3)
    @pytest.mark.parametrize(
        "argv",
        [
            ("preflight", "--verbose", "--stack", "nccl"),
            ("preflight", "-o", "nagios"),
            ("preflight", "-o", "prometheus"),
            ("preflight", "-o", "github"),
            ("gids",),
            ("gids", "--explain"),
            ("devices",),
            ("counters", "--interval", "0", "--all"),
            ("resources",),
            ("gids", "--device", "nope"),
            ("preflight", "--json"),
            ("devices", "--json"),
        ],
        ids=" ".join,
    )
    def test_a_terminal_is_made_to_do_nothing(
        self, argv: tuple[str, ...], name: str, rdmadiag: Rdmadiag
    ) -> None:
        code, out, err = rdmadiag(*argv)
        assert code in (0, 1, 2, 3, 64)
        for line in (out + err).split("\n"):
            assert line.isprintable(), line

    def test_json_has_the_name_itself(
        self, name: str, rdmadiag_json: Callable[..., tuple[int, dict[str, list[dict[str, str]]]]]
    ) -> None:
        _, document = rdmadiag_json("devices")
        shown = os.fsencode(name).decode("utf-8", "backslashreplace")
        assert shown in [each["name"] for each in document["devices"]]

    def test_what_is_for_a_shell_runs_nothing(
        self,
        name: str,
        rdmadiag: Rdmadiag,
        rdmadiag_json: Callable[..., tuple[int, dict[str, dict]]],  # type: ignore[type-arg]
    ) -> None:
        _, document = rdmadiag_json("preflight", "--stack", "nccl", "--stack", "ucx")
        lines = [line for each in document["verdict"]["findings"] for line in each["remedy"]]
        lines += rdmadiag("gids", "--env", "nccl")[1].splitlines()
        lines += rdmadiag("gids", "--env", "mooncake")[1].splitlines()
        assert lines
        for shell in shells.installed():
            assert shells.wrong(shell, lines) == []

    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_completing_offers_no_name_that_a_shell_would_expand(
        self, shell: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        found = offered(shell, ["rdmadiag", "gids", "--device", ""], PROGRAM, timeout=120)
        assert "rxe1" in found
        assert not any("touch" in each for each in found)
        assert list(tmp_path.iterdir()) == []


def test_a_slash_hides_all_devices_from_sysfs_and_that_is_said(
    rxe_pair: tuple[Rxe, Rxe], rdmadiag: Rdmadiag
) -> None:
    """readdir(3) is EIO then: verify_dirent_name of fs/readdir.c."""
    do("rdma", "dev", "set", "rxe0", "name", "mlx/0")
    try:
        with pytest.raises(OSError, match="Input/output error"):
            os.listdir("/sys/class/infiniband")
        code, out, _ = rdmadiag("preflight")
        assert (code, "EIO" in out) == (3, True), out
        code, out, _ = rdmadiag("devices")
        assert "no RDMA device" not in out
        assert "mlx/0" in out, "RDMA netlink has it"
    finally:
        do("rdma", "dev", "set", "mlx/0", "name", "rxe0")
