"""Which mount a path is of, and whether that one answers by itself; lines as proc(5) has them."""

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.host.mounts import on_local_disk, parse_mountinfo

TABLE = rb"""22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw
30 22 0:26 / /home rw,relatime shared:13 - autofs auto.home rw,fd=6,pgrp=900
41 30 0:51 / /home/ann rw,relatime shared:90 - nfs4 server:/export/ann rw,vers=4.2,hard
42 22 0:52 / /scratch\040new rw - lustre 10.0.0.1@tcp:/fs rw
43 22 0:53 / /work rw - nfs server:/work rw
44 43 0:54 / /work rw - xfs /dev/sda1 rw
45 22 0:55 / /opt rw shared:1 master:2 propagate_from:3 - fuse.sshfs host: rw
"""


@pytest.mark.parametrize(
    ("path", "local"),
    [
        ("/root/.config", True),
        ("/home/ann/.config/rdmadiag", False),
        ("/home/bob/.config", False),  # looking it up would mount it
        ("/homely", True),
        ("/scratch new/x", False),
        ("/work/x", True),
        ("/opt/x", False),
        ("/", True),
    ],
)
def test_a_path_is_of_the_deepest_and_last_mount_above_it(
    path: str, local: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("builtins.open", lambda *_: io.BytesIO(TABLE))
    assert on_local_disk(path) is local


def test_a_host_without_the_table_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: Any) -> Any:
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", absent)
    assert on_local_disk("/Users/ann/.config")


@given(st.binary())
def test_no_table_is_too_strange(raw: bytes) -> None:
    parse_mountinfo(raw)


def test_a_line_cut_short_is_left_out() -> None:
    assert parse_mountinfo(TABLE[:-40]).keys() == parse_mountinfo(TABLE).keys() - {b"/opt"}
