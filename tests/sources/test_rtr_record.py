"""The record of an RTR that did not succeed, as preflight on a Mac reads it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts import NOT_IN_RECORD, Missing, Why
from rdmadiag.host.answers import Ran
from rdmadiag.host.layout import command_name
from rdmadiag.host.recording import Recording
from rdmadiag.sources.rtr_record import parse_failed_rtr, read_rtr_failed

BOOT = "0D9AD6EF-58A7-4B3F-A4D1-3C9B8E7F6A50"
OTHER = "5C4B6A32-58A7-4B3F-A4D1-3C9B8E7F6A50"
HOME = "/Users/ann/.local/state/rdmadiag/failed_rtr.json"
SYSCTL = ("/usr/sbin/sysctl", "-n", "kern.bootsessionuuid")


def row(boot: str) -> bytes:
    return b'[{"boot_id": "%s", "device": "rdma_en1", "port": 1}]' % boot.encode()


@pytest.mark.parametrize(
    ("environment", "files", "found"),
    [
        ({"HOME": "/Users/ann"}, {HOME: row(BOOT)}, True),
        ({"HOME": "/Users/ann"}, {HOME: row(OTHER)}, False),
        ({"HOME": "/Users/ann"}, {HOME: b"[]"}, False),
        ({"HOME": "/Users/ann"}, {HOME: b'[{"boot_id": null}]'}, True),
        (
            {"HOME": "/Users/ann", "XDG_STATE_HOME": "/var/state"},
            {"/var/state/rdmadiag/failed_rtr.json": row(BOOT)},
            True,
        ),
        ({"HOME": "/Users/ann", "XDG_STATE_HOME": "relative"}, {HOME: row(BOOT)}, True),
    ],
    ids=[
        "an attempt of this boot",
        "one of another boot",
        "all were taken back",
        "one of a boot that was not known",
        "where XDG_STATE_HOME says",
        "a relative XDG_STATE_HOME is ignored",
    ],
)
def test_an_attempt_counts_until_the_mac_starts_again(
    environment: dict[str, str],
    files: dict[str, bytes],
    found: bool,
    host_in_memory: Any,
    soon: float,
) -> None:
    recording = Recording()
    recording.environ.update(environment)
    recording.files.update(files)
    recording.commands[command_name(SYSCTL)] = Ran(0, f"{BOOT}\n".encode(), b"")
    assert read_rtr_failed(host_in_memory(recording, "darwin"), soon) is found


def test_where_the_boot_is_not_known_every_attempt_counts(host_in_memory: Any, soon: float) -> None:
    recording = Recording()
    recording.environ["HOME"] = "/Users/ann"
    recording.files[HOME] = row(OTHER)
    assert read_rtr_failed(host_in_memory(recording, "darwin"), soon) is True


def test_without_a_home_nothing_is_known(host_in_memory: Any, soon: float) -> None:
    assert read_rtr_failed(host_in_memory(Recording(), "darwin"), soon) == NOT_IN_RECORD


def test_a_record_that_may_not_be_read_is_no_record_of_success(
    host_in_memory: Any, soon: float
) -> None:
    recording = Recording()
    recording.environ["HOME"] = "/Users/ann"
    recording.refuse("read", HOME, Missing(Why.DENIED, "EACCES"))
    found = read_rtr_failed(host_in_memory(recording, "darwin"), soon)
    assert isinstance(found, Missing)
    assert found.why is Why.DENIED


@pytest.mark.parametrize("raw", [b"", b"{}", b"[1]", b"null", b"[" * 100_000, b"\xff\xfe"])
def test_another_shape_is_malformed(raw: bytes) -> None:
    found = parse_failed_rtr(raw)
    assert isinstance(found, Missing)
    assert found.why is Why.MALFORMED


@given(st.binary())
def test_any_bytes_are_rows_or_malformed(raw: bytes) -> None:
    parse_failed_rtr(raw)
