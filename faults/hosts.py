"""Two hosts of one kernel (User Mode Linux 7.2), and the switch between them.

    host left:  eth0 192.0.2.1/24, 2001:db8::1/64, rxe0 ┐
    switch:     ports left and right of the bridge br0  ├ each in namespaces of its own
    host right: eth0 192.0.2.2/24, 2001:db8::2/64, rxe1 ┘

A host has network, mounts and name to itself; the kernel, its log and the list of RDMA devices
are of both, as in lab/fleet.py: each host is told its device by name.
"""

import os
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from lab.failure import EX_LATE, LabFailure

SECONDS: Final = 60.0
READY_SECONDS: Final = 60.0
ENDS: Final = ("left", "right")
NODES: Final = (*ENDS, "switch")
ADDRESS: Final = {"left": ("192.0.2.1", "2001:db8::1"), "right": ("192.0.2.2", "2001:db8::2")}

# As the one process that holds the namespaces; its line of output says that it is ready.
_HOLD: Final = "hostname {name}; {lines}; echo; exec sleep infinity"
_SWITCH: Final = (
    "ip link add br0 type bridge",
    "ip link set br0 up",
    "ip link add left type veth peer name eth0 netns left",
    "ip link add right type veth peer name eth0 netns right",
    "ip link set left master br0 up",
    "ip link set right master br0 up",
)
_HOST: Final = (
    "ip link set lo up",
    "ip address add {ipv4}/24 dev eth0",
    "ip address add {ipv6}/64 dev eth0 nodad",
    "echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad",
    "ip link set eth0 up",
)


@dataclass
class Node:
    """A host or the switch: where shell lines run."""

    name: str
    holder: "subprocess.Popen[bytes]"
    env: dict[str, str] = field(default_factory=dict)
    around: tuple[str, ...] = ()

    def argv(self, line: str, *, plain: bool = False) -> list[str]:
        """A shell line there; `plain` without the limits and the user of who works there."""
        enter = ["nsenter", "-t", str(self.holder.pid), "-m", "-u", "-n", "--wd=/tmp"]
        return [*enter, *(() if plain else self.around), "sh", "-c", line]

    def environ(self, *, plain: bool = False) -> dict[str, str]:
        """Its variables."""
        return dict(os.environ) | ({} if plain else self.env)

    def do(self, line: str) -> "subprocess.CompletedProcess[str]":
        """As root of that host, without limits. What it starts in the background stays."""
        # A file: a pipe would be waited for until the last process in the background closes it.
        with tempfile.TemporaryFile() as said:
            argv = self.argv(line, plain=True)
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                timeout=SECONDS,
                check=False,
            )
            said.seek(0)
            text = said.read().decode("utf-8", "replace")
        return subprocess.CompletedProcess(argv, done.returncode, text, "")

    def listens(self, port: int) -> bool:
        """Whether something there listens on this TCP port."""
        for table in ("tcp", "tcp6"):
            rows = Path(f"/proc/{self.holder.pid}/net/{table}").read_text().splitlines()[1:]
            columns = [row.split() for row in rows]
            if any(each[3] == "0A" and each[1].endswith(f":{port:04X}") for each in columns):
                return True
        return False


class Hosts:
    """The three nodes; use as a context manager. `setting` is rxe, siw or exclusive.

    In exclusive, rxe of which each device is of one network namespace alone: the first one.
    """

    def __init__(self, setting: str) -> None:
        self.exclusive = setting == "exclusive"
        self.kind = kind = "rxe" if self.exclusive else setting
        self.nodes: dict[str, Node] = {}
        self.device = {end: f"{kind}{n}" for n, end in enumerate(ENDS)}

    def __enter__(self) -> Self:
        try:
            if self.exclusive:  # while there is no other namespace: later it is refused
                _do("rdma system set netns exclusive")
            _do("; ".join(f"ip netns add {name}" for name in NODES))
            for name in ("switch", *ENDS):
                self._start(name)
            if not self.exclusive:
                self._wait_ready()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def variables(self, end: str) -> dict[str, str]:
        """Of a tool's line at that end."""
        own, other = ADDRESS[end][0], ADDRESS["right" if end == "left" else "left"][0]
        return {"DEV": self.device[end], "GID": "1", "IP": own, "PEER": other, "MORE": ""}

    def pids(self, name: str) -> set[int]:
        """The processes of that network namespace."""
        return {int(each) for each in _do(f"ip netns pids {name}").split()}

    def end(self, name: str, pids: set[int]) -> None:
        """Kill them, and wait until they are gone."""
        late = time.monotonic() + SECONDS
        while (left := pids & self.pids(name)) and time.monotonic() < late:
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)

    def _start(self, name: str) -> None:
        if name == "switch":
            lines = list(_SWITCH)
        else:
            ipv4, ipv6 = ADDRESS[name]
            lines = [line.format(ipv4=ipv4, ipv6=ipv6) for line in _HOST]
            add = f"rdma link add {self.device[name]} type {self.kind} netdev eth0"
            lines.append(f"({add} || true)" if self.exclusive else add)
        script = _HOLD.format(name=name, lines="; ".join(lines))
        holder = subprocess.Popen(
            ["ip", "netns", "exec", name, "unshare", "--uts", "sh", "-ec", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        self.nodes[name] = Node(name, holder)
        assert holder.stdout is not None
        with holder.stdout as said:
            is_up = bool(said.readline())
        if not is_up:
            raise LabFailure(f"{name} did not come up")

    def _wait_ready(self) -> None:
        late = time.monotonic() + READY_SECONDS
        while not all(self._ready(end) for end in ENDS):
            if time.monotonic() > late:
                raise LabFailure("the hosts were not ready", EX_LATE)
            time.sleep(0.05)

    def _ready(self, end: str) -> bool:
        port = Path("/sys/class/infiniband", self.device[end], "ports/1")
        with suppress(OSError):
            if "ACTIVE" not in (port / "state").read_text():
                return False
            return self.kind != "rxe" or "ffff:c000" in (port / "gids/1").read_text()
        return False

    def _close(self) -> None:
        devices = [f"rdma link del {each}" for each in os.listdir("/sys/class/infiniband")]
        for node in self.nodes.values():
            node.holder.kill()
            node.holder.wait()
        # What tools and faults left in the background; before the devices, whose removal waits for
        # who has them open: rxe and siw have no disassociate_ucontext.
        left = [f"for pid in $(ip netns pids {name}); do kill -9 $pid; done" for name in NODES]
        gone = [f"ip netns del {name}" for name in NODES]
        _do("; ".join([*left, *devices, *gone, "rdma system set netns shared"]), check=False)


def _do(line: str, *, check: bool = True) -> str:
    done = subprocess.run(
        ["sh", "-ec" if check else "-c", line],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    if check and done.returncode:
        raise LabFailure(f"{line}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout.decode(errors="replace")
