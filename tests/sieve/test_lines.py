"""The sieve: both implementations give the same, whatever the bytes and however they arrive."""

import io
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdmadiag.sieve.lines import (
    ABOVE,
    BEFORE,
    BEHIND,
    CARRIED,
    COMPILED,
    PASTE,
    WHOLE,
    Segment,
    Sieve,
)

WORDS = {b"rdma": 1, b"ibv_": 1, b" qp ": 1, b"fail": 2, b"error": 2, b"both words": 3}
SOURCE = Path(__file__).parents[2] / "rdmadiag" / "sieve" / "_sieve.c"


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The compiled one; a skip where there is no compiler."""
    if not shutil.which("cc"):
        pytest.skip("no C compiler: cc")
    made = tmp_path_factory.mktemp("sieve") / "_sieve.so"
    argv = ["cc", "-O3", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", made, SOURCE]
    subprocess.run(argv, check=True)
    return str(made)


class Trickle(io.RawIOBase):
    """A pipe that gives a few bytes at a time."""

    def __init__(self, text: bytes, step: int) -> None:
        self._text, self._step = io.BytesIO(text), step

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        some = self._text.read(min(self._step, len(buffer)))
        buffer[: len(some)] = some
        return len(some)


def sifted(text: bytes, library: str | None, size: int = 1 << 16) -> tuple[list[Segment], int, int]:
    sieve = Sieve(WORDS, library)
    assert sieve.kind == ("compiled" if library else "python")
    found = list(sieve.segments(io.BytesIO(text), size))
    return found, sieve.lines, sieve.bytes


PIECES = st.sampled_from(
    [
        *(b"rdma", b"RDMA", b"ibv_", b" qp ", b"fail", b"Error", b"both words", b"\n", b"\r\n"),
        *(b"\r", b"x", b"ibv", b"erro", b"\xff\x00", b"a line of nothing ", b"\x1b[31m", b"\n\n"),
    ]
)
TEXTS = st.lists(PIECES | st.binary(max_size=12), max_size=60).map(b"".join)


@settings(max_examples=400, deadline=None)
@given(text=TEXTS)
def test_both_give_the_same(library: str, text: bytes) -> None:
    assert sifted(text, library) == sifted(text, None)


@settings(max_examples=200, deadline=None)
@given(text=TEXTS)
@pytest.mark.parametrize("compiled", [True, False])
def test_every_line_with_both_kinds_and_no_other_is_found(
    library: str, compiled: bool, text: bytes
) -> None:
    found, lines, size = sifted(text, library if compiled else None)
    expected = []
    for number, line in enumerate(text.split(b"\n"), 1):
        for segment in line.split(b"\r"):
            folded = segment.lower()
            bits = [bits for word, bits in WORDS.items() if word in folded]
            if 3 in bits or {1, 2} <= set(bits):
                expected.append((number, segment))
    assert [(each.number, each.line) for each in found] == expected
    assert size == len(text)
    assert lines == len(text.split(b"\n")) - (text.endswith(b"\n") or not text)


@settings(max_examples=60, deadline=None)
@given(lines=st.lists(PIECES | st.binary(max_size=30), max_size=40), step=st.integers(1, 5000))
@pytest.mark.parametrize("compiled", [True, False])
def test_how_the_bytes_arrive_makes_no_difference(
    library: str, compiled: bool, lines: list[bytes], step: int
) -> None:
    text = b"\n".join((*lines, b"rdma " + b"." * 600 + b" error", b"y" * 900) * 30)
    sieve = Sieve(WORDS, library if compiled else None)
    whole = list(sieve.segments(io.BytesIO(text), 1 << 22))
    assert list(sieve.segments(Trickle(text, step), 4 * CARRIED)) == whole
    assert sieve.end == text[-WHOLE:]


@pytest.mark.parametrize("size", [0, PASTE - 1, PASTE])
def test_a_text_that_may_be_pasted_is_kept(size: int) -> None:
    sieve = Sieve({b"error": 3})
    assert list(sieve.segments(io.BytesIO(b"x" * size))) == []
    assert len(sieve.paste) == size


def test_one_that_is_longer_is_not_nor_is_the_one_before() -> None:
    sieve = Sieve({b"error": 3})
    for size in (3, PASTE + 1):
        assert list(sieve.segments(io.BytesIO(b"x" * size))) == []
    assert sieve.paste == b""


@pytest.mark.parametrize("compiled", [True, False])
def test_of_a_long_line_the_part_around_its_first_word_is_given(
    library: str, compiled: bool
) -> None:
    text = b"-" * 300_000 + b"rdma error" + b"-" * 300_000 + b"ibv_ fail" + b"\nrdma fail\n"
    found, lines, _ = sifted(text, library if compiled else None)
    assert [each.number for each in found] == [1, 1, 2]
    assert b"rdma error" in found[0].line
    assert b"ibv_ fail" in found[1].line
    assert all(len(each.line) <= BEFORE + BEHIND for each in found)
    assert lines == 2


@pytest.mark.parametrize("kinds", [(1, 2), (3, 3)], ids=["one of each kind", "each of both"])
def test_the_first_word_is_the_one_that_begins_first(library: str, kinds: tuple[int, int]) -> None:
    """Not the one whose rarest four bytes stand first, by which they are found."""
    words = dict(zip((b"aaaa zqxj", b"aa z"), kinds, strict=True))
    text = b" " * 5000 + b"aaaa zqxj" + b" " * 5000
    first, second = (
        [(each.number, each.line) for each in sieve.segments(io.BytesIO(text))]
        for sieve in (Sieve(words, library), Sieve(words, library=None))
    )
    assert first == second
    assert len(first) == 1


@pytest.mark.parametrize("compiled", [True, False])
def test_words_far_apart_in_a_long_line_are_no_candidate(library: str, compiled: bool) -> None:
    text = b"rdma" + b"-" * 100_000 + b"error"
    assert sifted(text, library if compiled else None)[0] == []


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(("room", "hits"), [(5, 1), (4, 0), (1, 0)])
def test_a_word_that_the_end_of_a_long_line_cuts_in_two_does_not_count(
    library: str, compiled: bool, room: int, hits: int
) -> None:
    text = b"rdma" + b"-" * (BEHIND - 4 - room) + b"error" + b"-" * 1000
    assert len(sifted(text, library if compiled else None)[0]) == hits


def test_what_follows_comes_with_it(library: str) -> None:
    found, _, _ = sifted(b"rdma fail\nerrno: 110\nmore\n", library)
    assert found == [Segment(1, b"rdma fail", b"errno: 110\nmore\n", b"", b"errno: 110\nmore\n")]


@pytest.mark.parametrize("before", [0, 10, 100_000])
def test_what_stands_above_comes_with_it_across_blocks(library: str, before: int) -> None:
    text = b"." * 79 + b"\n"
    above = text * (before // 80) + b"local address: GID ::\n" + text * 5
    found = list(Sieve(WORDS, library).segments(io.BytesIO(above + b"rdma fail\n"), 1))
    assert [each.above for each in found] == [above[-ABOVE:]]


def test_more_hits_than_one_call_can_hold(library: str) -> None:
    text = b"rdma fail\n" * 5000
    found, lines, _ = sifted(text, library)
    assert [each.number for each in found] == list(range(1, 5001))
    assert lines == 5000


@pytest.mark.parametrize("word", [b"abc", b"Word"])
def test_words_are_lowercase_and_long_enough(word: bytes) -> None:
    with pytest.raises(ValueError, match="lowercase"):
        Sieve({word: 3})


def test_without_the_library_python_does_it(tmp_path: Path) -> None:
    assert Sieve(WORDS, str(tmp_path / "none.so")).kind == "python"
    (tmp_path / "other.so").write_text("no library")
    assert Sieve(WORDS, str(tmp_path / "other.so")).kind == "python"


def test_a_library_of_another_version_is_not_used(tmp_path: Path, library: str) -> None:
    source = tmp_path / "old.c"
    source.write_text("unsigned rdmadiag_sieve_layout(void) { return 0; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "old.so", source], check=True)
    assert Sieve(WORDS, str(tmp_path / "old.so")).kind == "python"


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
@pytest.mark.parametrize("line", [b"x" * 997, b"rdma error " * 90], ids=["nothing", "candidates"])
@pytest.mark.parametrize("newline", [b"\n", b""], ids=["lines", "one line"])
def test_memory_does_not_grow_with_the_stream(line: bytes, newline: bytes) -> None:
    """200 MB, of lines or of one line, in a process that says its peak."""
    program = (
        "import sys\n"
        "from rdmadiag.sieve.lines import WHOLE, Sieve\n"
        "class Endless:\n"
        "    left = 200_000_000\n"
        f"    text = {line + newline!r}\n"
        "    def readinto(self, view):\n"
        "        size = min(len(view), self.left, 1 << 16)\n"
        "        view[:size] = (self.text * (size // len(self.text) + 1))[:size]\n"
        "        self.left -= size\n"
        "        return size\n"
        f"sieve = Sieve({WORDS!r}) if {os_has_compiled()!r} else None\n"
        "if sieve is None: sys.exit(77)\n"
        "for each in sieve.segments(Endless()): pass\n"
        "kept = [l for l in open('/proc/self/status') if l.startswith('VmHWM')]\n"
        "print(sieve.bytes, kept[0].split()[1])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    if ran.returncode == 77:
        pytest.skip("not compiled in this checkout")
    assert ran.returncode == 0, ran.stderr
    size, peak = map(int, ran.stdout.split())
    assert size == 200_000_000
    assert peak < 50_000  # KiB


def os_has_compiled() -> bool:
    return Path(COMPILED).exists()
