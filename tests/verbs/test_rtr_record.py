"""What is remembered of failed RTRs: for this boot alone, and rather too much than too little."""

import json
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.host.answers import Ran
from rdmadiag.host.layout import command_name
from rdmadiag.host.recording import Recording
from rdmadiag.verbs import rtr_record

BOOT, OTHER = "5c4b6a32", "0d9ad6ef"
SYSCTL = ("/usr/sbin/sysctl", "-n", "kern.bootsessionuuid")


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the record will stand; neither it nor its folder is there yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "rdmadiag" / "failed_rtr.json"


def written(record: Path, content: str | bytes) -> None:
    record.parent.mkdir(exist_ok=True)
    record.write_bytes(content.encode() if isinstance(content, str) else content)


# --- where -------------------------------------------------------------------------------


def test_the_folder_is_that_of_the_xdg_specification(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/u")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    assert rtr_record.folder() == "/home/u/.local/state/rdmadiag"
    monkeypatch.setenv("XDG_STATE_HOME", "/var/state")
    assert rtr_record.folder() == "/var/state/rdmadiag"


@pytest.mark.parametrize("home", ["", "relative", "./x"])
def test_a_path_that_is_not_absolute_is_ignored_as_xdg_asks(
    monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    monkeypatch.setenv("HOME", "/home/u")
    monkeypatch.setenv("XDG_STATE_HOME", home)
    assert rtr_record.folder() == "/home/u/.local/state/rdmadiag"


def test_only_its_owner_may_read_it(record: Path) -> None:
    rtr_record.remember(BOOT, "rdma_en1", 1)
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    assert stat.S_IMODE(record.parent.stat().st_mode) == 0o700


# --- which boot --------------------------------------------------------------------------


def test_linux_says_which_boot_this_is(host_in_memory: Any) -> None:
    recording = Recording()
    host = host_in_memory(recording)
    assert rtr_record.boot_id(host, time.monotonic() + 5) is None
    recording.files["/proc/sys/kernel/random/boot_id"] = b"5c4b6a32\n"
    assert rtr_record.boot_id(host, time.monotonic() + 5) == BOOT


@pytest.mark.parametrize(
    ("answer", "boot"),
    [
        (Ran(0, b"5c4b6a32\n", b""), BOOT),
        (Ran(0, b"\n", b""), None),
        (Ran(1, b"5c4b6a32\n", b"sysctl: unknown oid"), None),
        (None, None),
    ],
    ids=["it answers", "with nothing", "unknown oid", "no sysctl"],
)
def test_a_mac_says_which_boot_this_is(
    host_in_memory: Any, answer: Ran | None, boot: str | None
) -> None:
    recording = Recording()
    if answer:
        recording.commands[command_name(SYSCTL)] = answer
    assert rtr_record.boot_id(host_in_memory(recording, "darwin"), time.monotonic() + 5) == boot


# --- what counts -------------------------------------------------------------------------


def test_without_a_record_nothing_has_failed(record: Path) -> None:
    assert rtr_record.failed_since_start(BOOT) is False
    assert rtr_record.failed_since_start(None) is False
    assert not record.parent.exists()


def test_what_is_remembered_counts_until_the_host_starts_again(record: Path) -> None:
    rtr_record.remember(BOOT, "rdma_en1", 1)
    assert rtr_record.failed_since_start(BOOT) is True
    assert rtr_record.failed_since_start(OTHER) is False


def test_where_the_boot_is_not_known_every_record_counts(record: Path) -> None:
    rtr_record.remember(BOOT, "rdma_en1", 1)
    assert rtr_record.failed_since_start(None) is True
    record.unlink()
    rtr_record.remember(None, "rdma_en1", 1)
    assert rtr_record.failed_since_start(BOOT) is True


def test_a_success_takes_its_own_record_back(record: Path) -> None:
    rtr_record.remember(BOOT, "rdma_en1", 1)
    rtr_record.forget(BOOT, "rdma_en1", 1)
    assert rtr_record.failed_since_start(BOOT) is False


def test_a_success_takes_back_all_that_was_recorded_of_that_port(record: Path) -> None:
    rtr_record.remember(BOOT, "rdma_en1", 1)
    rtr_record.remember(BOOT, "rdma_en1", 1)
    rtr_record.forget(BOOT, "rdma_en1", 1)
    assert rtr_record.failed_since_start(BOOT) is False


def test_a_success_on_one_device_says_nothing_of_another(record: Path) -> None:
    rtr_record.remember(BOOT, "rdma_en1", 1)
    rtr_record.remember(BOOT, "rdma_en2", 1)
    rtr_record.forget(BOOT, "rdma_en2", 1)
    assert [row["device"] for row in json.loads(record.read_text())] == ["rdma_en1"]


def test_records_of_another_boot_are_dropped_when_one_is_added(record: Path) -> None:
    rtr_record.remember(OTHER, "rdma_en1", 1)
    rtr_record.remember(BOOT, "rdma_en2", 1)
    assert [row["boot_id"] for row in json.loads(record.read_text())] == [BOOT]
    rtr_record.remember(None, "rdma_en3", 1)
    assert len(json.loads(record.read_text())) == 2


# --- a record that cannot be read --------------------------------------------------------

DAMAGED: list[str | bytes] = [
    "",
    "{",
    '[{"boot_id": "5c4b',
    b"\xff\xfe\x00",
    "{}",
    "null",
    "7",
    '["x"]',
    "[" * 100_000,
    "[" + " " * 65_536 + "]",
]


@pytest.mark.parametrize("content", DAMAGED, ids=[repr(each[:12]) for each in DAMAGED])
def test_a_damaged_record_counts_and_a_success_mends_it(record: Path, content: str | bytes) -> None:
    written(record, content)
    assert rtr_record.failed_since_start(BOOT) is True
    rtr_record.remember(BOOT, "rdma_en1", 1)
    assert rtr_record.failed_since_start(BOOT) is True
    rtr_record.forget(BOOT, "rdma_en1", 1)
    assert rtr_record.failed_since_start(BOOT) is False


def test_a_record_that_may_not_be_read_counts(record: Path) -> None:
    record.mkdir(parents=True)  # as good as EACCES, which root does not get
    assert rtr_record.failed_since_start(BOOT) is True


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_content_is_read_as_a_yes_or_a_no(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    home = tmp_path_factory.getbasetemp()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(home))
        written(home / "rdmadiag" / "failed_rtr.json", content)
        assert rtr_record.failed_since_start(BOOT) in (True, False)


# --- a folder that cannot be written -----------------------------------------------------


@pytest.mark.parametrize("change", [rtr_record.remember, rtr_record.forget])
def test_a_folder_that_cannot_be_made_is_an_error_of_the_system(
    record: Path, change: Callable[..., None]
) -> None:
    record.parent.symlink_to(record.parent.parent / "nowhere")
    assert rtr_record.failed_since_start(BOOT) is False
    with pytest.raises(OSError, match="rdmadiag"):
        change(BOOT, "rdma_en1", 1)


def test_a_record_is_replaced_whole_or_not_at_all(
    record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rtr_record.remember(BOOT, "rdma_en1", 1)
    before = record.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        rtr_record.remember(BOOT, "rdma_en2", 1)
    assert record.read_bytes() == before
    assert [each.name for each in record.parent.iterdir()] == [record.name]
