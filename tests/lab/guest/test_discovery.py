"""What makes libibverbs list a device, and keep it: beside what the library itself does."""

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.rxe import Rxe

Pair = tuple[Rxe, Rxe]
Call = Callable[..., tuple[int, Any]]
Rdmadiag = Callable[..., tuple[int, str, str]]
Run = Callable[..., Any]
SECONDS = 60.0


@pytest.fixture
def listed(run: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """`listed(NAME=VALUE, …)`: what ibv_devices lists with these variables."""

    def call(**environ: str) -> list[str]:
        with monkeypatch.context() as patch:
            for name, value in environ.items():
                patch.setenv(name, value)
            lines = run(["ibv_devices"], timeout=SECONDS).stdout.splitlines()
        return [line.split()[0] for line in lines[2:]]

    return call


@pytest.fixture
def nothing_named(run: Run) -> Iterator[None]:
    """An empty /etc/libibverbs.d, as in an image into which the libraries alone were copied."""
    assert (
        run(["mount", "-t", "tmpfs", "none", "/etc/libibverbs.d"], timeout=SECONDS).returncode == 0
    )
    yield
    run(["umount", "/etc/libibverbs.d"], timeout=SECONDS)


def path_of(call: Call, name: str) -> Any:
    _, document = call("devices")
    (row,) = [each for each in document["devices"] if each["name"] == name]
    return row["discovery"]


class TestNamed:
    """What /etc/libibverbs.d and the variables name is loaded; nothing else is."""

    @pytest.mark.usefixtures("nothing_named", "rxe_pair")
    def test_a_provider_that_nothing_names_is_not_loaded_and_we_say_so(
        self, rdmadiag_json: Call, listed: Callable[..., list[str]]
    ) -> None:
        assert listed() == []
        code, document = rdmadiag_json("preflight")
        found = document["verdict"]["findings"]
        rules = {each["rule"] for each in found if each["device"] == "rxe0"}
        assert "provider-not-named" in rules
        assert "device-not-in-verbs" not in rules
        assert code == 2

    @pytest.mark.usefixtures("nothing_named", "rxe_pair")
    @pytest.mark.parametrize(
        ("environ", "lists"),
        [
            ({"RDMAV_DRIVERS": "rxe"}, True),
            ({"IBV_DRIVERS": "siw;rxe"}, True),
            ({"RDMAV_DRIVERS": "siw", "IBV_DRIVERS": "rxe"}, False),
            ({"RDMAV_DRIVERS": "librxe"}, False),
        ],
        ids=["RDMAV_DRIVERS", "IBV_DRIVERS", "RDMAV_DRIVERS first", "a file's name"],
    )
    def test_variables_name_providers_as_the_library_reads_them(
        self,
        environ: dict[str, str],
        lists: bool,
        rdmadiag_json: Call,
        listed: Callable[..., list[str]],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        assert ("rxe0" in listed(**environ)) is lists
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        failed_at = None if lists else "provider_library"
        assert path_of(rdmadiag_json, "rxe0")["fails_at"] == failed_at

    @pytest.mark.usefixtures("rxe_pair")
    def test_with_netlink_sysfs_path_hides_no_device(
        self,
        rdmadiag_json: Call,
        listed: Callable[..., list[str]],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        assert {"rxe0", "rxe1"} <= set(listed(SYSFS_PATH="/nowhere"))
        monkeypatch.setenv("SYSFS_PATH", "/nowhere")
        found = path_of(rdmadiag_json, "rxe0")
        assert found["fails_at"] is None
        (named,) = [step for step in found["steps"] if step["stage"] == "provider_library"]
        assert named["passed"] is True

    @pytest.mark.usefixtures("rxe_pair")
    def test_a_log_file_is_opened_where_a_level_is_set(
        self, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        log = tmp_path / "verbs.log"
        monkeypatch.setenv("VERBS_LOG_FILE", str(log))
        for level, written in ((None, False), ("0", False), ("4", True)):
            if level is not None:
                monkeypatch.setenv("VERBS_LOG_LEVEL", level)
            assert run(["ibv_devices"], timeout=SECONDS).returncode == 0
            assert log.exists() is written


# --- what the library keeps between two looks --------------------------------------------------


class Verbs:
    """ibv_get_device_list of this process, which keeps its devices from call to call."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libibverbs.so.1", use_errno=True)
        self._library.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
        self._library.ibv_get_device_name.restype = ctypes.c_char_p
        self._library.ibv_get_device_name.argtypes = [ctypes.c_void_p]

    def devices(self) -> dict[int, str]:
        """Each struct ibv_device, and its name."""
        count = ctypes.c_int()
        handles = self._library.ibv_get_device_list(ctypes.byref(count))
        found = [handles[at] for at in range(count.value)]
        return {each: self._library.ibv_get_device_name(each).decode() for each in found if each}


def identity(call: Call, name: str) -> tuple[str, int]:
    _, document = call("devices")
    (row,) = [each for each in document["devices"] if each["name"] == name]
    return row["uverbs"], row["index"]


def test_the_identity_is_what_the_library_goes_by(
    rxe_pair: Pair, rdmadiag_json: Call, run: Run
) -> None:
    verbs = Verbs()
    (before,) = [each for each, name in verbs.devices().items() if name == "rxe0"]
    first = identity(rdmadiag_json, "rxe0")

    renamed = run(["rdma", "dev", "set", "rxe0", "name", "other"], timeout=SECONDS)
    assert renamed.returncode == 0, renamed.stderr
    assert identity(rdmadiag_json, "other") == first
    assert verbs.devices()[before] == "rxe0"  # kept, by its old name
    run(["rdma", "dev", "set", "other", "name", "rxe0"], timeout=SECONDS)

    run(["rdma", "link", "delete", "rxe0"], timeout=SECONDS)
    made = run(
        ["rdma", "link", "add", "rxe0", "type", "rxe", "netdev", rxe_pair[0].netdev],
        timeout=SECONDS,
    )
    assert made.returncode == 0, made.stderr
    assert identity(rdmadiag_json, "rxe0") != first
    assert before not in verbs.devices()


# --- messages of the connection manager ----------------------------------------------------------


def test_refused_connections_are_counted_as_they_are(
    rxe_pair: Pair, rdmadiag_json: Call, run: Run
) -> None:
    def counted() -> dict[str, int]:
        _, document = rdmadiag_json("counters", "--all")
        (one,) = [
            each
            for each in document["sample"]["sets"]
            if (each["source"], each["device"]) == ("cm", "rxe1")
        ]
        return dict(one["values"])

    before = counted()
    # Nobody listens: REQ, and REJ with reason 8.
    run(["ucmatose", "-s", "192.0.2.2", "-C", "1", "-c", "1"], timeout=SECONDS)
    after = counted()
    folder = Path("/sys/class/infiniband/rxe1/ports/1")
    assert after == {
        f"{kind.name}/{each.name}": int(each.read_text())
        for kind in folder.glob("cm_*")
        for each in kind.iterdir()
    }
    assert after["cm_tx_msgs/req"] - before["cm_tx_msgs/req"] == 1
    assert after["cm_rx_msgs/rej"] - before["cm_rx_msgs/rej"] == 1
