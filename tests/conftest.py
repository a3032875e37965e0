"""What many tests share: a healthy machine, hosts that answer from it, and deadlines."""

import gc
import os
import signal
import time
import tomllib
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from lab.linked import Devlink, Ethtool
from lab.machine import Machine
from lab.netdevs import NetDev
from lab.rdma_devices import Device, Port, roce_rows
from rdmadiag.facts import Identity, Missing, Why
from rdmadiag.facts.environment import kept
from rdmadiag.facts.ib import LinkLayer
from rdmadiag.host import READ_LIMIT
from rdmadiag.host.answers import NodeStat, Ran
from rdmadiag.host.in_turn import InTurn
from rdmadiag.host.layout import KERNEL, TRANSCRIPT, command_name
from rdmadiag.host.recorded import SnapshotHost, open_snapshot
from rdmadiag.host.recording import Recording, write_archive, write_folder
from tests.counter_samples import before, later  # noqa: F401  # fixtures

# CI repeats its examples, so that main is never red by chance; elsewhere each run has others.
_REPEATED = {"derandomize": True, "database": None} if "CI" in os.environ else {}
settings.register_profile("small", deadline=None, max_examples=10, **_REPEATED)
settings.register_profile("large", deadline=None, max_examples=100, **_REPEATED)
settings.register_profile("longest", deadline=None, max_examples=1500)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "small"))


_COVERED = "COVERAGE_PROCESS_CONFIG"
OF_CHILDREN = (_COVERED, os.environ.pop(_COVERED)) if _COVERED in os.environ else None
"""What has coverage look at a process that is started: it takes a tenth of a second of each."""


def pytest_configure() -> None:
    """Signals as in a shell: below nohup, or of a job in the background, they are ignored."""
    for number in (signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--part", metavar="K/N", default="1/1", help="each Nth file of tests, from the Kth on"
    )
    parser.addoption(
        "--cases", metavar="N", type=int, help="of a test with more cases, about N from end to end"
    )


SHARED = frozenset({"test_usual.py"})
"""Files of so many cases that each part of a run takes some of them."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A part of a run reads no file of another: each takes processor time to be collected."""
    number, parts = map(int, config.getoption("part").split("/"))
    if parts == 1 or not collection_path.match("test_*.py") or collection_path.name in SHARED:
        return None
    return _files().index(collection_path) % parts != number - 1 or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of files that are shared this part's cases; of each test no more than `--cases` wants:
    coverage sees no more by all.
    """
    number, parts = map(int, config.getoption("part").split("/"))
    shared = [each for each in items if each.path.name in SHARED]
    others = {id(e) for n, e in enumerate(shared) if n % parts != number - 1}
    config.hook.pytest_deselected(items=[each for each in items if id(each) in others])
    items[:] = [each for each in items if id(each) not in others]
    most = config.getoption("cases")
    if most is None:
        return
    by_test: dict[str, list[pytest.Item]] = {}
    for item in items:
        by_test.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = [each for cases in by_test.values() for each in cases[:: -(-len(cases) // most)]]
    chosen = set(map(id, kept))
    config.hook.pytest_deselected(items=[each for each in items if id(each) not in chosen])
    items[:] = [each for each in items if id(each) in chosen]


@cache
def _files() -> list[Path]:
    return sorted(Path(__file__).parent.rglob("test_*.py"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported and collected stays: the garbage collector frees nothing of it."""
    gc.disable()
    gc.set_threshold(20_000, 20, 20)  # 700 objects, CPython's own, take a twentieth of the time
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def shown(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A test that docs/shown.toml names for a rule fails where the rule has no finding in it."""
    wanted = _shown_by().get(request.node.nodeid)
    if wanted is None:
        yield
        return
    from rdmadiag.preflight.rules.rule import Rule

    found = set()
    finding = Rule.finding

    def noted(rule: Rule, *args: Any, **values: Any) -> Any:
        found.add(rule.code)
        return finding(rule, *args, **values)

    monkeypatch.setattr(Rule, "finding", noted)
    yield
    assert wanted <= found, f"docs/shown.toml: no finding of {sorted(wanted - found)}"


@cache
def _shown_by() -> dict[str, set[str]]:
    """Node id → the rules that it shows."""
    rows = tomllib.loads((Path(__file__).parents[1] / "docs" / "shown.toml").read_text())
    found: dict[str, set[str]] = {}
    for rule, node in rows["built"].items():
        found.setdefault(node, set()).add(rule)
    return found


MAC = "0c:42:a1:00:00:01"
ROCE = Machine(
    hostname="roce",
    devices=(
        Device(
            "mlx5_0",
            ports=(
                Port(
                    gids=roce_rows("eth0", MAC, "192.0.2.1", "2001:db8::1"),
                    netdev="eth0",
                ),
            ),
        ),
        Device(
            "mlx5_1",
            ports=(Port(layer=LinkLayer.INFINIBAND, lid=7, sm_lid=1, rate="200 Gb/sec (4X HDR)"),),
            pci_address="0000:09:00.0",
            node_guid="0c42:a103:0000:0002",
            protocol="ib",
            uverbs=1,
        ),
    ),
    netdevs=(NetDev("eth0", mac=MAC, addresses=("192.0.2.1/24", "2001:db8::1/64", "fe80::1/64")),),
    environ={"UCX_TLS": "rc", "HOME": "/root"},
    dcb={},
    ethtool={"eth0": Ethtool()},
    devlink={"0000:08:00.0": Devlink(), "0000:09:00.0": Devlink()},
)


class MemoryHost:
    """A Host that answers from a Recording; what is not in it is absent.

    A test changes one answer by changing the recording, and reads in `asked` what the
    sources wanted to know.
    """

    lacks: Mapping[str, Missing] = {}
    can_hang = False  # no children for what is in memory: `in_children` is of tests of those
    given = False

    def __init__(self, recording: Recording, platform: str = "linux") -> None:
        self.recording = recording
        self.identity = Identity("memory", platform, "6.1.0", "x86_64")
        self.asked: list[tuple[str, str]] = []

    def _answer(self, question: str, store: Mapping[str, object], subject: str) -> object:
        self.asked.append((question, subject))
        refused = self.recording.refused.get(question, {}).get(subject)
        if refused is not None:
            return refused
        return store.get(subject, Missing(Why.ABSENT, f"{subject}: ENOENT"))

    def read(self, path: str, limit: int = READ_LIMIT) -> bytes | Missing:
        return self._answer("read", self.recording.files, path)

    def list(self, path: str) -> tuple[str, ...] | Missing:
        return self._answer("list", self.recording.listings, path)

    def attributes(
        self, path: str, spared: Collection[str]
    ) -> dict[str, bytes | Missing] | Missing:
        names = self.list(path)
        if isinstance(names, Missing):
            return names
        return {name: self.read(f"{path}/{name}") for name in names if name not in spared}

    def pci_config(self, path: str) -> bytes | Missing:
        return self._answer("pci_config", self.recording.files, path)

    def readlink(self, path: str) -> str | Missing:
        return self._answer("readlink", self.recording.links, path)

    def stat(self, path: str) -> NodeStat | Missing:
        return self._answer("stat", self.recording.nodes, path)

    def can_open(self, path: str) -> bool | Missing:
        return self._answer("can_open", self.recording.openable, path)

    def environ(self, wanted: Sequence[str]) -> dict[str, str] | Missing:
        self.asked.append(("environ", " ".join(wanted)))
        refused = self.recording.refused.get("environ", {}).get("")
        return refused or kept(self.recording.environ, wanted)

    def netlink(self, name: str, protocol: int, request: bytes, deadline: float) -> bytes | Missing:
        return self._answer("netlink", self.recording.netlink, name)

    def run(self, argv: Sequence[str], deadline: float) -> Ran | Missing:
        return self._answer("run", self.recording.commands, command_name(argv))

    def verbs(self, gid_rows: int, deadline: float) -> bytes | Missing:
        return self._answer("verbs", self.recording.verbs, TRANSCRIPT)

    def kernel_log(self, seconds: float, words: Sequence[str], deadline: float) -> bytes | Missing:
        return self._answer("log", self.recording.logs, KERNEL)


@pytest.fixture(autouse=True, scope="session")
def no_configuration(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test reads the configuration of whoever runs it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        yield


@pytest.fixture(scope="session")
def roce() -> Machine:
    """A healthy machine: mlx5_0 is RoCE behind eth0, mlx5_1 is InfiniBand with LID 7."""
    return ROCE


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that a user names are read in this process, and not in a child.

    A fork of a process with all these tests in it costs more than most commands.
    """
    modules = ("host.recorded", "host.saved_sample", "host.toml_file", "report", "host.given_file")
    for module in modules:  # the last: for who imports it when it is needed
        monkeypatch.setattr(f"rdmadiag.{module}.understood", lambda _path, read, *_: read())
    monkeypatch.setattr("rdmadiag.sources.run._tasks", lambda _host: InTurn())


@pytest.fixture
def in_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host in memory is read as one that can hang: each source in a child of its own."""
    monkeypatch.setattr(MemoryHost, "can_hang", True)


@pytest.fixture
def memory_host(roce: Machine) -> MemoryHost:
    """The healthy machine as a host whose answers can be changed."""
    return MemoryHost(roce.recording())


@pytest.fixture(scope="session")
def host_in_memory() -> type[MemoryHost]:
    """A host that answers from a Recording."""
    return MemoryHost


@pytest.fixture(params=["folder", "archive"], ids=["as a folder", "as a .tar.gz"])
def save(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Callable[[Mapping[str, bytes], str], SnapshotHost]:
    """Writes the files of a snapshot in either form and opens it."""

    def saved(files: Mapping[str, bytes], name: str = "saved") -> SnapshotHost:
        if request.param == "folder":
            write_folder(files, str(tmp_path / name))
            return open_snapshot(str(tmp_path / name))
        write_archive(files, str(tmp_path / f"{name}.tar.gz"))
        return open_snapshot(str(tmp_path / f"{name}.tar.gz"))

    return saved


@pytest.fixture
def soon() -> float:
    """A deadline that no healthy test reaches."""
    return time.monotonic() + 20


@pytest.fixture
def past() -> float:
    """A deadline that has passed."""
    return time.monotonic() - 1


@pytest.fixture(scope="session")
def realworld() -> Path:
    """The folder of captures from real machines, or a skip with the reason."""
    checkout = Path(__file__).parents[1]
    place = Path(os.environ.get("RDMADIAG_REALWORLD", checkout.parent / "shared" / "realworld"))
    if not place.is_dir():
        pytest.skip(f"no captures of real machines at {place} (RDMADIAG_REALWORLD)")
    return place
