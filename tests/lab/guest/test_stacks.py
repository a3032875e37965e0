"""What `gids --explain` says of real programs, and what they do, on four tables of soft RoCE.

A small library is put before libibverbs (sgid_log.c) that writes down the sgid_index of each
address vector that a program hands over: perftest, UCX, librdmacm and libfabric are Debian's.
"""

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from lab.attempt import until
from lab.ports import listeners
from lab.resources import cm_listeners
from lab.rxe import PAIR, Rxe, add_pair, remove_pair

Call = Callable[..., tuple[int, Any]]
SECONDS: Final = 60.0
START_SECONDS: Final = 30.0  # until a server of these programs listens
READY_SECONDS: Final = 30.0
IPV4, IPV6 = PAIR[0].ipv4, PAIR[0].ipv6
PERFTEST: Final = "perftest@4.5"
UCX: Final = "ucx@1.13.1"


@dataclass(frozen=True)
class Table:
    """A GID table, how it comes about from the usual pair, and an address that it still has."""

    commands: tuple[str, ...]
    address: str
    holes: bool = False


TABLES: Final = {
    "IPv4 only": Table(("ip -6 address flush dev veth0 scope global",), IPV4),
    # The IPv4 row stood between the default one and this.
    "IPv6 only": Table(("ip -4 address flush dev veth0",), IPV6, holes=True),
    "several addresses": Table(
        (
            "ip address add 198.51.100.1/24 dev veth0",
            "ip address add 203.0.113.1/24 dev veth0",
            "ip address add 2001:db8:1::1/64 dev veth0 nodad",
        ),
        IPV4,
    ),
    "a hole where an address was": Table(
        (
            "ip address add 198.51.100.1/24 dev veth0",
            f"ip address del {IPV4}/24 dev veth0",
        ),
        "198.51.100.1",
        holes=True,
    ),
}


@dataclass(frozen=True)
class Said:
    """What rdmadiag says of a table."""

    table: Table
    gids: dict[int, str]
    picks: dict[str, Any]

    def index(self, stack: str) -> int:
        found = self.picks[stack]
        assert found["outcome"] == "entry", found
        index: int = found["index"]
        return index


def do(command: str) -> None:
    done = subprocess.run(
        command.split(), capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stderr}"


def mapped(address: str) -> str:
    return address if ":" in address else f"::ffff:{address}"


def ask(rdmadiag_json: Call) -> Any:
    stacks = ("perftest", "ucx", "rdmacm", "rc_pingpong", "libfabric-msg")
    options = [word for name in stacks for word in ("--stack", name)]
    code, document = rdmadiag_json("gids", *options, "--device", "rxe0:1")
    assert code == 0
    return document["ports"][0]


@pytest.fixture(scope="class", params=TABLES.values(), ids=TABLES.keys())
def said(request: pytest.FixtureRequest, rdmadiag_json: Call) -> Iterator[Said]:
    """The table, made, and what we say of it; new for each class and table."""
    table: Table = request.param
    try:
        add_pair()
        for command in table.commands:
            do(command)
        yield settled(table, rdmadiag_json)
    finally:
        remove_pair()


def settled(table: Table, rdmadiag_json: Call) -> Said:
    """Once the kernel has followed the addresses."""
    gone = {mapped(c.split()[3].partition("/")[0]) for c in table.commands if " del " in c}
    if any("-4 address flush" in command for command in table.commands):
        gone.add(mapped(IPV4))
    late = time.monotonic() + READY_SECONDS
    while True:
        port = ask(rdmadiag_json)
        gids = {row["index"]: row["gid"] for row in port["gids"]}
        here = set(gids.values())
        if mapped(table.address) in here and not gone & here:
            break
        assert time.monotonic() < late, gids
    versions = {"≤1.15": UCX, "<26.04.17": PERFTEST}
    picks = {versions.get(row["version"], row["stack"]): row for row in port["stacks"]}
    return Said(table, gids, picks)


# --- running two ends --------------------------------------------------------------------------


@dataclass(frozen=True)
class Ran:
    """Both ends of a program, and the address vectors that they made."""

    server: str
    client: str
    code: int
    vectors: tuple[tuple[str, bool, int, int], ...]  # call, is_global, index, result

    @property
    def connected(self) -> set[int]:
        """Indexes of queue pairs that came to RTR."""
        return {
            index for call, _, index, result in self.vectors if (call, result) == ("modify_qp", 0)
        }

    @property
    def tried(self) -> set[int]:
        return {index for call, _, index, _ in self.vectors if call == "modify_qp"}


@pytest.fixture
def both(preload: str, tmp_path: Path) -> Callable[..., Ran]:
    """Runs a server and a client on this host; both are killed at the end."""

    def run(server: list[str], client: list[str], **variables: str) -> Ran:
        log = tmp_path / "vectors"
        log.write_text("")
        env = {**os.environ, "LD_PRELOAD": preload, "SGID_LOG": str(log), **variables}
        buffered = ["stdbuf", "-oL", "timeout", f"{SECONDS:.0f}"]
        ends: list[subprocess.Popen[bytes]] = []
        here = listening()
        outputs = [tmp_path / "server", tmp_path / "client"]
        for argv, output in zip((server, client), outputs, strict=True):
            with output.open("w") as file:
                ends.append(
                    subprocess.Popen(
                        [*buffered, *argv],
                        stdin=subprocess.DEVNULL,
                        stdout=file,
                        stderr=subprocess.STDOUT,
                        env=env,
                        start_new_session=True,
                    )
                )
            if len(ends) == 1:
                # One that fails to start is told by its output.
                until(lambda: listening() != here or ends[0].poll() is not None, START_SECONDS)
        try:
            code = ends[1].wait(timeout=SECONDS + 30)
        finally:
            for end in ends:
                if end.poll() is None:
                    os.killpg(end.pid, 9)
                end.wait(timeout=SECONDS)
        return Ran(
            outputs[0].read_text(errors="replace"),
            outputs[1].read_text(errors="replace"),
            code,
            vectors(log),
        )

    return run


def listening() -> tuple[int, set[int]]:
    """Through the connection manager, and on TCP ports."""
    return cm_listeners(), listeners()


def vectors(log: Path) -> tuple[tuple[str, bool, int, int], ...]:
    rows = (line.split() for line in log.read_text().splitlines())
    return tuple((call, way == "1", int(index), int(result)) for call, way, index, result in rows)


# --- the programs ------------------------------------------------------------------------------


class TestTables:
    @pytest.mark.other_kernels(4)
    def test_the_table_is_what_it_is_called(self, said: Said) -> None:
        used = sorted(said.gids)
        assert mapped(said.table.address) in said.gids.values()
        assert (used != list(range(len(used)))) is said.table.holes, said.gids
        families = {"." in gid for gid in said.gids.values()}
        assert True in families or said.table is TABLES["IPv6 only"]

    def test_perftest_prints_and_uses_the_index(self, said: Said, both: Callable[..., Ran]) -> None:
        argv = ["ib_send_lat", "-d", "rxe0", "-n", "5", "-s", "2"]
        ran = both(argv, [*argv, "127.0.0.1"])
        printed = re.findall(r"GID index\s*:\s*(\d+)", ran.server + ran.client)
        assert printed, ran.server + ran.client
        assert set(map(int, printed)) == {said.index(PERFTEST)}
        assert ran.tried == {said.index(PERFTEST)}, ran

    def test_ucx_uses_the_index(self, said: Said, preload: str, tmp_path: Path) -> None:
        done = ucx_info(preload, tmp_path / "vectors")
        found = re.findall(r"rxe0:1 using gid_index[= ](\d+)", done)
        assert found, done[-2000:]
        assert set(map(int, found)) == {said.index(UCX)}
        probes = [row for row in vectors(tmp_path / "vectors") if row[0] == "create_ah"]
        assert said.index(UCX) in {index for _, _, index, result in probes if result == 0}

    def test_rc_pingpong_without_an_index_fails_as_was_said(
        self, said: Said, both: Callable[..., Ran]
    ) -> None:
        assert said.picks["rc-pingpong"]["outcome"] == "fails"
        argv = ["ibv_rc_pingpong", "-d", "rxe0", "-n", "5"]
        ran = both(argv, [*argv, "127.0.0.1"])
        assert ran.code != 0
        assert "Failed to modify QP to RTR" in ran.server + ran.client
        assert ran.vectors
        assert not any(way for _, way, _, _ in ran.vectors), "a GRH"
        assert ran.connected == set()

    def test_with_the_index_that_was_said_it_connects(
        self, said: Said, both: Callable[..., Ran]
    ) -> None:
        index = next(i for i, gid in said.gids.items() if gid == mapped(said.table.address))
        argv = ["ibv_rc_pingpong", "-d", "rxe0", "-n", "5", "-g", str(index)]
        ran = both(argv, [*argv, "127.0.0.1"])
        assert ran.code == 0, ran.server + ran.client
        assert ran.connected == {index}

    def test_rping_uses_the_row_of_its_address(self, said: Said, both: Callable[..., Ran]) -> None:
        address = said.table.address
        ran = both(
            ["rping", "-s", "-a", address, "-C", "2", "-v"],
            ["rping", "-c", "-a", address, "-C", "2", "-v"],
        )
        self._of_address(said, ran)

    def test_ucmatose_uses_the_row_of_its_address(
        self, said: Said, both: Callable[..., Ran]
    ) -> None:
        address = said.table.address
        ran = both(
            ["ucmatose", "-b", address, "-C", "2", "-c", "1"],
            ["ucmatose", "-s", address, "-b", address, "-C", "2", "-c", "1"],
        )
        self._of_address(said, ran)

    def test_fi_pingpong_uses_the_row_of_its_address(
        self, said: Said, both: Callable[..., Ran]
    ) -> None:
        argv = ["fi_pingpong", "-p", "verbs", "-e", "msg", "-I", "5", "-S", "64", "-d", "rxe0"]
        six = ["-6"] if ":" in said.table.address else []
        server, client = [*argv, *six], [*argv, *six, said.table.address]
        ran = both(server, client, FI_VERBS_IFACE="veth0")
        assert ran.code == 0, ran.server + ran.client
        assert ran.connected, ran
        for index in ran.connected:
            assert index == min(i for i, gid in said.gids.items() if gid == said.gids[index])
        if said.table is not TABLES["several addresses"]:  # its server takes one of them
            assert ran.connected == {said.index("libfabric-msg")}
        assert said.index("libfabric-msg") == said.index("rdmacm")

    def _of_address(self, said: Said, ran: Ran) -> None:
        assert ran.code == 0, ran.server + ran.client
        wanted = said.index("rdmacm")
        assert said.gids[wanted] == mapped(said.table.address), "the address that was assumed"
        assert ran.connected == {wanted}, ran


def ucx_info(preload: str, log: Path, **variables: str) -> str:
    """What `ucx_info -d` says while it opens the transports of rxe0."""
    log.write_text("")
    env = {
        **os.environ,
        "LD_PRELOAD": preload,
        "SGID_LOG": str(log),
        "UCX_LOG_LEVEL": "debug",
        "UCX_NET_DEVICES": "rxe0:1",
        **variables,
    }
    done = subprocess.run(
        ["ucx_info", "-d"], env=env, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    return done.stdout + done.stderr


# --- variables, on the usual table -------------------------------------------------------------


class TestVariables:
    def test_ucx_leaves_out_a_port_whose_pinned_row_is_empty(
        self,
        rxe_pair: tuple[Rxe, Rxe],
        preload: str,
        tmp_path: Path,
        rdmadiag_json: Call,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        assert "rxe0:1" in devices_of(ucx_info(preload, tmp_path / "without"))
        text = ucx_info(preload, tmp_path / "with", UCX_IB_GID_INDEX="9")
        assert "rxe0:1" not in devices_of(text)
        monkeypatch.setenv("UCX_IB_GID_INDEX", "9")
        _, document = rdmadiag_json("gids", "--stack", "ucx@1.13", "--device", "rxe0:1")
        (row,) = document["ports"][0]["stacks"]
        assert (row["outcome"], row["pinned_by"]) == ("drops_port", "UCX_IB_GID_INDEX")

    def test_ucx_uses_a_pinned_row(
        self, rxe_pair: tuple[Rxe, Rxe], preload: str, tmp_path: Path
    ) -> None:
        text = ucx_info(preload, tmp_path / "with", UCX_IB_GID_INDEX="2")
        assert "rxe0:1" in devices_of(text)
        assert "using gid_index" not in text, "nothing is chosen"

    def test_the_variables_of_a_running_process_are_read(
        self, rxe_pair: tuple[Rxe, Rxe], rdmadiag_json: Call
    ) -> None:
        env = {**os.environ, "NCCL_IB_GID_INDEX": "2"}
        job = subprocess.Popen(["sleep", "300"], env=env)
        try:
            options = ("--stack", "nccl@2.27", "--stack", "mooncake@0.3.12")
            _, document = rdmadiag_json("gids", *options, "--env-from", str(job.pid))
        finally:
            job.kill()
            job.wait(timeout=SECONDS)
        for port in document["ports"]:
            for row in port["stacks"]:
                assert (row["index"], row["pinned_by"]) == (2, "NCCL_IB_GID_INDEX")

    def test_what_env_prints_is_one_line_for_a_shell(
        self,
        rxe_pair: tuple[Rxe, Rxe],
        rdmadiag: Callable[..., tuple[int, str, str]],
    ) -> None:
        code, out, err = rdmadiag("gids", "--env", "libfabric-dgram")
        assert (code, err) == (0, "")
        assert out.startswith("export FI_VERBS_GID_IDX=1")
        code, out, _ = rdmadiag("gids", "--env", "ucx@1.13")
        assert (code, out.split()[:2]) == (0, ["unset", "UCX_IB_GID_INDEX"])


def devices_of(text: str) -> set[str]:
    """The devices that `ucx_info -d` lists with a transport."""
    return set(re.findall(r"Device:\s+(\S+)", text))
