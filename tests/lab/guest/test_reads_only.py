"""Looking changes nothing: system calls of each reading command, watched by strace."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.rxe import Rxe

Rdmadiag = Callable[..., tuple[int, str, str]]
Run = Callable[..., Any]

CALLS = (
    "open,openat,openat2,creat,socket,send,sendto,sendmsg,sendmmsg,ioctl,unlink,unlinkat,rename,"
    "renameat,renameat2,mkdir,mkdirat,symlink,symlinkat,chmod,fchmod,fchmodat,chown,mount,"
    "init_module,finit_module,delete_module,bind,setns,unshare,truncate,ftruncate"
)
WRITES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND")
CHANGES = re.compile(
    r"\b(creat|unlink\w*|rename\w*|mkdir\w*|symlink\w*|f?chmod\w*|chown|mount|init_module|"
    r"finit_module|delete_module|setns|unshare|f?truncate)\("
)
NLDEV_READS = {(5 << 10) + op for op in (1, 5, 6, *range(9, 16), 17, 22, 23, 24)}
NETLINK_DONE = {"RTM_GETLINK", "RTM_GETADDR"}

READING = {
    "preflight": ["preflight", "--json", "--timeout", "30"],
    "gids": ["gids", "--json", "--timeout", "30"],
    "devices": ["devices", "--json", "--timeout", "30"],
    "snapshot": ["snapshot", "OUT", "--timeout", "30"],
}


@pytest.fixture(scope="class")
def traced(
    rxe_pair: tuple[Rxe, Rxe],
    rdmadiag: Rdmadiag,
    run: Run,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, tuple[Path, list[str]]]:
    """Command → its own output folder and strace's lines; once for all tests here."""
    folder = tmp_path_factory.mktemp("strace")
    before = run(["rdma", "-j", "res"], timeout=30).stdout
    traces = {}
    for name, arguments in READING.items():
        out = folder / f"{name}-out"
        argv = [str(out) if each == "OUT" else each for each in arguments]
        log = folder / f"{name}.strace"
        trace = ("-f", "--seccomp-bpf", "-qq", "-s", "64", "-e", f"trace={CALLS}")
        prefix = ("strace", *trace, "-o", str(log))
        code, _, err = rdmadiag(*argv, prefix=prefix, timeout=300)
        assert code == 0, err
        traces[name] = (out, log.read_text().splitlines())
    assert run(["rdma", "-j", "res"], timeout=30).stdout == before, "a resource was left"
    return traces


class TestSystemCalls:
    @pytest.mark.parametrize("command", list(READING))
    def test_opens_nothing_for_writing_but_its_own_output(
        self, command: str, traced: dict[str, tuple[Path, list[str]]]
    ) -> None:
        out, lines = traced[command]
        opened = [line for line in lines if "open" in line and WRITES.search(line)]
        foreign = [line for line in opened if f'"{out}/' not in line]
        assert any("/sys/class/infiniband" in line for line in lines), "strace saw nothing"
        assert foreign == []

    @pytest.mark.parametrize("command", list(READING))
    def test_makes_and_removes_no_file_loads_no_module_enters_no_namespace(
        self, command: str, traced: dict[str, tuple[Path, list[str]]]
    ) -> None:
        out, lines = traced[command]
        changed = [line for line in lines if CHANGES.search(line)]
        assert [line for line in changed if f'"{out}' not in line] == []

    @pytest.mark.parametrize("command", list(READING))
    def test_opens_no_device_node_so_it_can_create_no_queue_pair(
        self, command: str, traced: dict[str, tuple[Path, list[str]]]
    ) -> None:
        _, lines = traced[command]
        assert [line for line in lines if re.search(r'open\w*\(.*"/dev/infiniband/\w', line)] == []

    @pytest.mark.parametrize("command", list(READING))
    def test_sends_no_netlink_message_that_is_not_a_get(
        self, command: str, traced: dict[str, tuple[Path, list[str]]]
    ) -> None:
        _, lines = traced[command]
        sent = [kind for line in lines for kind in re.findall(r"nlmsg_type=([A-Za-z_0-9]+)", line)]
        foreign = [kind for kind in sent if not _is_read(kind)]
        assert foreign == []
        sends = [line for line in lines if re.search(r"\bsend\w*\(", line)]
        assert all("nlmsg_type" in line or "sun_path" in line for line in sends)
        if command != "gids":
            assert {kind for kind in sent if kind in NETLINK_DONE} == NETLINK_DONE
            assert any(kind not in NETLINK_DONE for kind in sent), "nldev was not asked"


def _is_read(kind: str) -> bool:
    if kind in NETLINK_DONE:
        return True
    try:
        return int(kind, 0) in NLDEV_READS
    except ValueError:
        return False


def test_a_queue_pair_made_meanwhile_would_have_been_seen(
    rxe_pair: tuple[Rxe, Rxe], run: Run
) -> None:
    """The comparison of `rdma res` above can fail: a program with a queue pair changes it."""
    before = json.loads(run(["rdma", "-j", "res"], timeout=30).stdout)
    script = (
        "timeout 20 ibv_rc_pingpong -d rxe0 -g 1 >/dev/null & sleep 3; rdma -j res; kill $!; wait"
    )
    during = json.loads(run(["bash", "-c", script], timeout=60).stdout)
    assert during[0]["qp"] == before[0]["qp"] + 1
