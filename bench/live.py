"""A described machine as if it were this one: `python -m bench.live FOLDER COMMAND …`.

sysfs is read from plain files below FOLDER/root by the code that reads the real one; netlink
answers with the recorded replies, so that their decoding is measured and no socket's cost.
"""

import gc
import os
import sys
from collections.abc import Collection
from unittest.mock import patch

from rdmadiag.facts import Missing, Why
from rdmadiag.host import READ_LIMIT, Attributes
from rdmadiag.host.live import LiveHost


class RootedHost(LiveHost):
    """This machine with another root."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._root = f"{folder}/root"
        self._netlink = f"{folder}/netlink"

    def read(self, path: str, limit: int = READ_LIMIT) -> bytes | Missing:
        """Of a file below FOLDER/root."""
        return super().read(f"{self._root}{path}", limit)

    def list(self, path: str) -> tuple[str, ...] | Missing:
        """Of a folder below FOLDER/root."""
        return super().list(f"{self._root}{path}")

    def attributes(self, path: str, spared: Collection[str]) -> Attributes | Missing:
        """Of a folder below FOLDER/root."""
        return super().attributes(f"{self._root}{path}", spared)

    def readlink(self, path: str) -> str | Missing:
        """Of a link below FOLDER/root."""
        return super().readlink(f"{self._root}{path}")

    def netlink(self, name: str, protocol: int, request: bytes, deadline: float) -> bytes | Missing:
        """The reply in FOLDER/netlink."""
        try:
            handle = os.open(f"{self._netlink}/{name}.bin", os.O_RDONLY)
        except OSError:
            return Missing(Why.UNSUPPORTED, name)
        try:
            return os.read(handle, os.fstat(handle).st_size)
        finally:
            os.close(handle)


def main(folder: str, *arguments: str) -> int:
    """The exit code of `rdmadiag ARGUMENTS` on that machine."""
    from rdmadiag.cli import run

    gc.disable()  # as rdmadiag.__main__ does
    with patch("rdmadiag.cli.options.LiveHost", lambda: RootedHost(folder)):
        return run(arguments)


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    os.environ.pop("RDMADIAG_DEBUG", None)
    sys.exit(main(*sys.argv[1:]))
