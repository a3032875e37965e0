"""A .tar.gz held in memory: what is read of it, and every archive that is refused."""

import gzip
import io
import os
import struct
import tarfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rdmadiag.facts import Missing, Why
from rdmadiag.host.archive import ArchiveTree
from rdmadiag.host.layout import MAX_BYTES, MAX_ENTRIES
from rdmadiag.host.recorded import SnapshotHost, open_snapshot
from rdmadiag.host.tree import SnapshotError

MIB = 1024 * 1024


def entry(name, content=b"", kind=tarfile.REGTYPE, target=""):
    member = tarfile.TarInfo(name)
    member.type = kind
    member.linkname = target
    member.size = len(content)
    return member, content


def packed(*entries):
    """The bytes of a .tar.gz of these entries."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=1) as archive:
        for member, content in entries:
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


@pytest.fixture
def tree(tmp_path):
    """An archive's tree, from its entries or its bytes."""

    def made(*entries):
        path = tmp_path / "snapshot.tar.gz"
        raw = entries[0] if isinstance(entries[0], bytes) else packed(*entries)
        path.write_bytes(raw)
        return ArchiveTree(str(path))

    return made


@pytest.fixture
def refusal(tree, tmp_path):
    """The one line that an archive is refused with, without its path."""

    def line(*entries):
        with pytest.raises(SnapshotError) as caught:
            tree(*entries)
        text = str(caught.value)
        assert text.startswith(f"{tmp_path}/snapshot.tar.gz: ")
        assert "\n" not in text
        assert os.listdir(tmp_path) == ["snapshot.tar.gz"]
        return text.removeprefix(f"{tmp_path}/snapshot.tar.gz: ")

    return line


# --- what is read -------------------------------------------------------------------------


def test_files_folders_and_links_are_held(tree):
    held = tree(
        entry("sys/class", kind=tarfile.DIRTYPE),
        entry("sys/class/state", b"4: ACTIVE\n"),
        entry("sys/link", kind=tarfile.SYMTYPE, target="class/state"),
    )
    assert [held.kind(name) for name in ("", "sys", "sys/class", "sys/class/state")] == [
        "folder",
        "folder",
        "folder",
        "file",
    ]
    assert held.names("sys") == ("class", "link")
    assert held.names("sys/class") == ("state",)
    assert held.kinds("sys") == {"class": "folder", "link": "link"}
    assert held.kinds("sys/class/state") == held.kinds("nothing") == {}
    assert held.read("sys/class/state", 100) == b"4: ACTIVE\n"
    assert (held.kind("sys/link"), held.target("sys/link")) == ("link", "class/state")
    assert (held.kind("nothing"), held.target("nothing")) == (None, "")


def test_names_with_a_dot_in_front_are_the_same_names(tree):
    held = tree(entry("./", kind=tarfile.DIRTYPE), entry("./sys//class/./state", b"x"))
    assert held.read("sys/class/state", 10) == b"x"


def test_what_is_no_file_is_not_read_and_what_is_no_folder_not_listed(tree):
    held = tree(entry("sys/file", b"four"))
    assert held.read("sys", 10) == Missing(Why.ABSENT, "/sys: ENOENT")
    assert held.read("none", 10) == Missing(Why.ABSENT, "/none: ENOENT")
    assert held.names("sys/file") == Missing(Why.ABSENT, "/sys/file: ENOENT")
    assert held.read("sys/file", 3) == Missing(Why.MALFORMED, "/sys/file: longer than 3 bytes")


def test_a_name_that_is_not_utf8_can_be_printed(tree):
    member = tarfile.TarInfo("sys/uverbs\udcff")
    held = tree((member, b""))
    assert held.names("sys") == (r"uverbs\xff",)


# --- what is refused ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (entry("/etc/passwd"), "refused: entry '/etc/passwd' is absolute"),
        (entry("../x"), "refused: entry '../x' climbs out of the archive"),
        (entry("a/../../x"), "refused: entry 'a/../../x' climbs out of the archive"),
        (entry("a/../b"), "refused: entry 'a/../b' climbs out of the archive"),
    ],
    ids=["an absolute one", "one that climbs", "one that climbs later", "one that could climb"],
)
def test_an_entry_that_leads_out_is_refused(refusal, bad, reason):
    assert refusal(entry("sys/state", b"x"), bad) == reason


@pytest.mark.parametrize(
    "kind",
    [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.LNKTYPE, b"Z"],
    ids=["a character device", "a block device", "a FIFO", "a hard link", "an unknown kind"],
)
def test_an_entry_that_is_no_file_folder_or_link_is_refused(refusal, kind):
    bad = entry("dev/x", kind=kind, target="sys/state")
    assert refusal(entry("sys/state", b"x"), bad) == (
        "refused: entry 'dev/x' is neither a file, a folder nor a symbolic link"
    )


def test_a_name_with_a_newline_makes_no_second_line(refusal):
    assert refusal(entry("/a\nb")) == r"refused: entry '/a\nb' is absolute"


@pytest.mark.slow
def test_sixty_four_mebibytes_are_read_and_a_byte_more_is_refused(tree, refusal):
    half = bytes(32 * MIB)
    assert tree(entry("a", half), entry("b", half)).read("b", MAX_BYTES) == half
    assert refusal(entry("a", half), entry("b", half), entry("c", b"x")) == (
        "refused: more than 64 MiB unpacked"
    )


@pytest.mark.slow
def test_fifty_thousand_entries_are_read_and_one_more_is_refused(tree, refusal):
    header = tarfile.TarInfo("gids/0").tobuf(tarfile.GNU_FORMAT)
    assert tree(gzip.compress(header * MAX_ENTRIES + bytes(1024), 1)).names("gids") == ("0",)
    assert refusal(gzip.compress(header * (MAX_ENTRIES + 1) + bytes(1024), 1)) == (
        "refused: more than 50000 entries"
    )


def test_a_bomb_of_one_entry_is_refused_by_its_size(refusal):
    member = tarfile.TarInfo("bomb")
    member.size = 1 << 40
    header = member.tobuf(tarfile.GNU_FORMAT)
    assert refusal(gzip.compress(header)) == "refused: more than 64 MiB unpacked"


def test_an_entry_of_less_than_no_bytes_is_refused(refusal):
    member = tarfile.TarInfo("debt")
    header = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    header[124:136] = b"\xff" * 12  # base-256: -1
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header[:512])
    assert refusal(gzip.compress(bytes(header))) == "refused: more than 64 MiB unpacked"


def test_a_bomb_of_padding_is_refused_by_what_it_unpacks_to(refusal):
    """A header that hides: its length is not that of a file."""
    member = tarfile.TarInfo("././@LongLink")
    member.type = tarfile.GNUTYPE_LONGNAME
    member.size = 1 << 30
    raw = io.BytesIO()
    with gzip.open(raw, "wb", compresslevel=1) as out:
        out.write(member.tobuf(tarfile.GNU_FORMAT))
        for _ in range(160):
            out.write(bytes(MIB))
    assert refusal(raw.getvalue()) == "refused: more than 64 MiB unpacked"


def test_a_long_run_of_zeros_is_an_archive_without_entries(tree):
    assert tree(gzip.compress(bytes(100 * MIB), 1)).names("") == ()


def test_a_name_longer_than_any_path_is_refused(refusal):
    assert refusal(entry("a/" * 3000)) == "refused: an entry's name is longer than 4096 bytes"


@pytest.mark.slow
def test_more_folders_than_entries_could_need_are_refused(refusal):
    deep = [entry(f"{number}/" + "a/" * 1500) for number in range(100)]
    assert refusal(*deep) == "refused: more than 50000 folders"


def longname(target):
    member = tarfile.TarInfo("././@LongLink")
    member.type = tarfile.GNUTYPE_LONGNAME
    member.size = len(target)
    return member.tobuf(tarfile.GNU_FORMAT) + target + bytes(-len(target) % 512)


def paxed(**headers):
    """An entry with these extended headers, whatever they say."""
    records = b""
    for key, value in headers.items():
        record = f" {key.replace('__', '.')}={value}\n"
        length = len(record) + len(str(len(record) + 2))
        records += f"{length}{record}".encode()
    head = tarfile.TarInfo("pax")
    head.type = tarfile.XHDTYPE
    head.size = len(records)
    return gzip.compress(
        head.tobuf(tarfile.GNU_FORMAT)
        + records
        + bytes(-len(records) % 512)
        + tarfile.TarInfo("file").tobuf(tarfile.GNU_FORMAT)
        + bytes(1024)
    )


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"not an archive",
        b"PK\x03\x04" + bytes(100),
        gzip.compress(b"not a tar" * 200),
        gzip.compress(b""),
        packed(entry("sys/state", os.urandom(5000)))[:2000],
        packed(entry("sys/state", b"x"))[:12],
        gzip.compress(entry("x", b"x" * 600)[0].tobuf(tarfile.GNU_FORMAT) + b"short"),
        gzip.compress(b"".join(longname(b"x") for _ in range(3000))),
        paxed(GNU__sparse__map="a,b"),
        b"\x1f\x8b\x08\0" + bytes(6) + b"\xff" * 40,
    ],
    ids=[
        "an empty file",
        "text",
        "a zip",
        "gzip of text",
        "gzip of nothing",
        "one that is cut short",
        "one that is cut in its first header",
        "an entry that ends early",
        "thousands of names for one entry",
        "a map of holes in words",
        "a stream that does not unpack",
    ],
)
def test_what_is_no_archive_is_refused_in_one_line(refusal, raw):
    said = refusal(raw)
    assert said.startswith("not a readable .tar.gz snapshot (")
    assert "b'" not in said  # nothing of the file as Python writes it


def test_an_archive_that_cannot_be_opened_names_the_reason(tmp_path):
    with pytest.raises(SnapshotError, match="Is a directory"):
        ArchiveTree(str(tmp_path))


# --- any archive ------------------------------------------------------------------------------

NAMES = st.lists(
    st.sampled_from(["sys", "class", "infiniband", "root", "meta.json", "..", ".", "", "a", "\n"]),
    max_size=5,
).map("/".join)
ENTRIES = st.lists(
    st.builds(
        entry,
        NAMES.filter(bool),
        st.binary(max_size=40),
        st.sampled_from(
            [tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE]
        ),
        NAMES,
    ).map(lambda pair: pair if pair[0].isreg() else (pair[0], b"")),
    max_size=8,
)


def asked_for_everything(tree, path):
    """Every question of a Host; none may raise."""
    host = SnapshotHost(tree, path)
    for where in ("/sys/class/infiniband", "/sys", "/class/a", "/sys/class/../../..", "/"):
        yield host.read(where)
        yield host.list(where)
        yield host.readlink(where)
        yield host.stat(where)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(entries=ENTRIES, cut=st.none() | st.integers(0, 400))
def test_any_entries_are_a_host_or_one_line(tmp_path, entries, cut):
    for member, content in entries:
        member.size = len(content)
    path = tmp_path / "any.tar.gz"
    path.write_bytes(packed(*entries)[:cut])
    try:
        open_snapshot(str(path))
    except SnapshotError:
        return
    answers = list(asked_for_everything(ArchiveTree(str(path)), str(path)))
    assert all(isinstance(answer, bytes | str | tuple | Missing) for answer in answers)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(damage=st.lists(st.tuples(st.integers(0, 2047), st.integers(0, 255)), min_size=1))
def test_an_archive_with_damaged_headers_is_read_or_refused(tmp_path, damage):
    raw = bytearray(gzip.decompress(packed(entry("sys/class/infiniband/x/state", b"4: ACTIVE"))))
    for place, value in damage:
        raw[place] = value
    for start in (0, 1024):  # checksums that agree with the damage
        header = raw[start : start + 512]
        header[148:156] = b" " * 8
        raw[start + 148 : start + 156] = b"%06o\0 " % sum(header)
    path = tmp_path / "damaged.tar.gz"
    path.write_bytes(gzip.compress(bytes(raw), 1))
    try:
        tree = ArchiveTree(str(path))
    except SnapshotError:
        return
    assert isinstance(tree.names(""), tuple | Missing)


def test_the_trailer_of_gzip_is_checked_only_as_far_as_the_archive_reaches(tree):
    raw = packed(entry("sys/state", b"x"))
    assert tree(raw + b"garbage").kind("sys/state") == "file"
    assert struct.unpack("<I", raw[-4:])[0] % 512 == 0
