"""What `redact` and `snapshot --redact` have in common: the key, and what is said afterwards."""

import os
import stat
import time
from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import Any, Final

from rdmadiag.cli import page
from rdmadiag.cli.exits import NotWritten, Refused
from rdmadiag.cli.options import Given
from rdmadiag.quoting import printable

_KEY_TEXT: Final = 65  # bytes: 64 hexadecimal digits and a line end

_WIDTH: Final = 68  # with "rdmadiag: " before it still within 80 columns

key_option: Final = page.option(
    "--key-file",
    type=Given(),
    metavar="FILE",
    help="Take the key of the pseudonyms from there, so that records of one site have the same "
    "ones; made there, of mode 0600, where it is not. Who has it can find the names again: do "
    "not share it. Without it the key is random, and dropped.",
)


def key_of(path: str | None) -> bytes | None:
    """The key in a file, which is made where there is none; None without a file.

    Raises Refused, NotWritten.
    """
    if path is None:
        return None
    if not path:
        raise Refused("--key-file: names no file")
    from rdmadiag.cli.writing import write
    from rdmadiag.host.given_file import WAIT, understood
    from rdmadiag.host.target import create_file
    from rdmadiag.redact.pseudonyms import new_key

    key = new_key()

    def create() -> None:
        try:
            create_file(path, lambda file: _write(file, key))
        except FileExistsError:
            return
        except OSError as error:
            raise NotWritten(f"--key-file {path}: {error.strerror}") from error

    write(f"--key-file {path}", create)
    return understood(path, lambda: _read(path), Refused, time.monotonic() + WAIT)


def _write(file: Any, key: bytes) -> None:
    file.write(f"{key.hex()}\n".encode())


def _read(path: str) -> bytes:
    from rdmadiag.host.given_file import open_given
    from rdmadiag.redact.pseudonyms import KEY_BYTES

    try:
        handle = open_given(path)
        try:
            mode = os.fstat(handle).st_mode
            content = os.read(handle, _KEY_TEXT + 1)
        finally:
            os.close(handle)
    except OSError as error:
        raise Refused(f"--key-file {path}: {error.strerror}") from error
    if not stat.S_ISREG(mode) or mode & 0o077:
        raise Refused(
            f"--key-file {path}: others than its owner may read it; chmod 600 it, if it is a key"
        )
    try:
        key = bytes.fromhex(content.decode("ascii").strip())
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise Refused(f"--key-file {path}: not {2 * KEY_BYTES} hexadecimal digits, which a key is")
    return key


def said(manifest: Mapping[str, Any]) -> Iterator[str]:
    """What a person is to know before it is shared."""
    yield "Names are pseudonyms now. Left in:"
    for line in manifest["left_in"]:
        yield from _wrapped(printable(line))
    if manifest["left_out"]:
        yield "Left out, since it could not be understood:"
        for line in manifest["left_out"]:
            yield from _wrapped(printable(line))
    if manifest["by_chance"]:
        yield f"{manifest['by_chance']} pseudonyms are, by chance, addresses of the same record."
    yield "Look at it before you share it: free text may name what has no form of a name."


def _wrapped(line: str) -> list[str]:
    return wrap(line, _WIDTH, initial_indent="- ", subsequent_indent="  ")
