"""rdmadiag.host.trust: files that decide what is done, and who else decides it."""

import os
from pathlib import Path

import pytest

from rdmadiag.host.trust import not_roots, not_secret

ANOTHER = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file to another user")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "rdmadiag").mkdir(mode=0o755)
    found = tmp_path / "rdmadiag" / "file"
    found.write_text("x")
    return found


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        (0o600, None),
        (0o400, None),
        (0o640, None),
        (0o644, "can read it"),
        (0o604, "can read it"),
        (0o602, "can change it"),
        (0o660, "can change it"),
    ],
)
def test_a_secret_is_one_that_others_neither_read_nor_choose(
    mode: int, why: str | None, file: Path
) -> None:
    file.chmod(mode)
    found = not_secret(str(file))
    assert found is None if why is None else why in str(found)


@needs_root
def test_another_users_file_is_no_secret_of_ours(file: Path) -> None:
    file.chmod(0o600)
    os.chown(file, ANOTHER, ANOTHER)
    assert "belongs to uid 65534" in str(not_secret(str(file)))


def test_a_pipe_is_its_makers(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o666)
    assert not_secret(str(tmp_path / "pipe")) is None


@needs_root
@pytest.mark.parametrize(
    ("subject", "owner", "mode", "why"),
    [
        ("file", (0, 0), 0o644, None),
        ("file", (0, 0), 0o664, None),
        ("file", (ANOTHER, 0), 0o600, "file belongs to uid 65534"),
        ("file", (0, 0), 0o646, "file can be changed by others (mode 0646)"),
        ("file", (0, ANOTHER), 0o664, "file can be changed by others (mode 0664)"),
        ("folder", (ANOTHER, 0), 0o755, "rdmadiag belongs to uid 65534"),
        ("folder", (0, 0), 0o777, "rdmadiag can be changed by others (mode 0777)"),
        ("folder", (0, 0), 0o1777, None),
    ],
)
def test_who_decides_what_root_is_configured_to_do(
    subject: str, owner: tuple[int, int], mode: int, why: str | None, file: Path
) -> None:
    path = file if subject == "file" else file.parent
    os.chown(path, *owner)
    path.chmod(mode)
    found = not_roots(str(file))
    assert found is None if why is None else str(found).endswith(why)


@needs_root
def test_where_a_link_leads_counts(file: Path, tmp_path: Path) -> None:
    os.chown(file, ANOTHER, ANOTHER)
    (tmp_path / "link").symlink_to(file)
    assert "belongs to uid 65534" in str(not_roots(str(tmp_path / "link")))
