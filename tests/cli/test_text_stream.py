"""Logs as logrotate compresses them and as Windows writes them."""

import bz2
import gzip
import io
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.cli.text_stream import HEAD, NotText, as_text, reason

pytestmark = pytest.mark.usefixtures("in_this_process")

Rdmadiag = Callable[..., "Outcome"]  # type: ignore[name-defined]  # noqa: F821  # tests/cli/conftest.py

FAILED = "node1:1:2 [0] transport/net_ib.cc:1 NCCL WARN NET/IB: Got completion with status=12\r\n"


def whole(content: bytes, size: int = 1000) -> bytes:
    stream, found = as_text(io.BytesIO(content)), b""
    buffer = bytearray(size)
    while got := stream.readinto(memoryview(buffer)):
        found += buffer[:got]
    return found


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_what_is_compressed_is_read_as_it_was(pack: Callable[[bytes], bytes]) -> None:
    text = FAILED.encode() * 2000
    assert whole(pack(text)) == text
    assert whole(pack(text) + pack(b"and more\n")) == text + b"and more\n"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8"])
def test_utf_16_is_read_with_a_mark_and_without(encoding: str) -> None:
    assert whole((FAILED * 500).encode(encoding)) == (FAILED * 500).encode()


@given(st.binary(max_size=3 * HEAD), st.integers(min_value=1, max_value=5000))
def test_bytes_of_no_encoding_that_is_known_stay_as_they_are(content: bytes, size: int) -> None:
    packed = content.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ"))
    try:
        found = whole(content, size)
    except OSError:
        return
    wide = content[:2] in (b"\xff\xfe", b"\xfe\xff") or 0 in content
    assert wide or packed or found == content


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\x28\xb5\x2f\xfd\x04", "zstd -dc 'a b' |"),
        (b"PK\x03\x04\x14", "unzip -p 'a b' |"),
        (b"\x7fELF\x02", "a program"),
        (bytes(range(1, 32)) * 20 + b"\xc3\x28" * 60, "no text"),
    ],
    ids=["zstd", "zip", "a program", "binary"],
)
def test_what_is_no_text_is_refused_with_what_to_do(content: bytes, says: str) -> None:
    with pytest.raises(NotText) as caught:
        as_text(io.BytesIO(content))
    assert says in reason(caught.value, "a b")


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_what_is_packed_and_ends_early_is_read_to_there(pack: Callable[[bytes], bytes]) -> None:
    text = "".join(f"{n} {FAILED}" for n in range(40_000)).encode()
    stream = as_text(io.BytesIO(pack(text)[:-20]))
    buffer, found = bytearray(1 << 16), b""
    while got := stream.readinto(memoryview(buffer)):
        found += buffer[:got]
    assert stream.damage
    assert text.startswith(found)


def test_what_is_packed_may_be_utf_16_and_no_archive() -> None:
    assert whole(gzip.compress((FAILED * 50).encode("utf-16"))) == (FAILED * 50).encode()
    archive = b"a.log".ljust(257, b"\0") + b"ustar" + bytes(250)
    for content in (archive, gzip.compress(archive)):
        with pytest.raises(NotText, match="archive"):
            as_text(io.BytesIO(content))


def test_a_stream_that_has_ended_is_not_asked_again() -> None:
    class Terminal:
        asked = 0

        def readinto(self, buffer: memoryview, /) -> int:
            self.asked += 1
            assert self.asked <= 2
            text = FAILED.encode() if self.asked == 1 else b""
            buffer[: len(text)] = text
            return len(text)

    stream, buffer = as_text(Terminal()), bytearray(1000)
    assert stream.readinto(memoryview(buffer)) == len(FAILED)
    assert stream.readinto(memoryview(buffer)) == 0


def test_a_compressed_log_is_explained_alone_and_among_others(
    tmp_path: Path, rdmadiag: Rdmadiag
) -> None:
    (tmp_path / "rank0.log.gz").write_bytes(gzip.compress(FAILED.encode()))
    (tmp_path / "rank1.log").write_bytes(b"step 1 loss 2.3\n")
    for path in (tmp_path / "rank0.log.gz", tmp_path):
        found = rdmadiag("explain", "--log", str(path))
        assert (found.code, "status 12" in found.out) == (2, True)


def test_what_cannot_be_read_is_refused_alone_and_named_among_others(
    tmp_path: Path, rdmadiag: Rdmadiag
) -> None:
    (tmp_path / "rank0.log.zst").write_bytes(b"\x28\xb5\x2f\xfd\x04\x00")
    (tmp_path / "rank1.log").write_bytes(b"step 1 loss 2.3\n")
    alone = rdmadiag("explain", "--log", str(tmp_path / "rank0.log.zst"))
    assert (alone.code, "zstd -dc" in alone.err) == (64, True)
    among = rdmadiag("explain", "--log", str(tmp_path))
    assert (among.code, "zstd" in among.out) == (3, True)
