"""This machine, read by system calls."""

import os
import stat
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from rdmadiag.facts import Identity, Missing, Why
from rdmadiag.facts.environment import kept
from rdmadiag.host import READ_LIMIT, Attributes
from rdmadiag.host.answers import NodeStat, Ran, refusal, utf8

_PAGE: Final = 4096


class LiveHost:
    """This machine; each method does what `Host` says of it."""

    lacks: Mapping[str, Missing] = {}
    can_hang = True
    given = False

    def __init__(self) -> None:
        system = os.uname()
        platform = system.sysname.lower()
        self.identity = Identity(
            hostname=utf8(system.nodename),
            platform="linux"
            if platform == "linux"
            else "darwin"
            if platform == "darwin"
            else "unknown",
            kernel=system.release,
            machine=system.machine,
        )

    def read(self, path: str, limit: int = READ_LIMIT) -> bytes | Missing:
        try:
            # O_NONBLOCK: a FIFO in the way must not hold us.
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (OSError, ValueError) as error:
            return refusal(error, path)
        try:
            return read_capped(handle, path, limit)
        finally:
            os.close(handle)

    def list(self, path: str) -> tuple[str, ...] | Missing:
        try:
            return tuple(sorted(map(utf8, os.listdir(path))))
        except (OSError, ValueError) as error:
            return refusal(error, path)

    def attributes(self, path: str, spared: Collection[str]) -> Attributes | Missing:
        """The path is walked once: a device's leads through a dozen folders."""
        try:
            folder = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
        except (OSError, ValueError) as error:
            return refusal(error, path)
        try:
            names = sorted(os.listdir(folder))
            return {
                utf8(name): _attribute(folder, path, name) for name in names if name not in spared
            }
        except OSError as error:
            return refusal(error, path)
        finally:
            os.close(folder)

    def pci_config(self, path: str) -> bytes | Missing:
        from rdmadiag.host import pci_config

        return pci_config.read(path)

    def readlink(self, path: str) -> str | Missing:
        try:
            return utf8(os.readlink(path))
        except (OSError, ValueError) as error:
            return refusal(error, path)

    def stat(self, path: str) -> NodeStat | Missing:
        try:
            found = os.stat(path)
        except (OSError, ValueError) as error:
            return refusal(error, path)
        is_node = stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode)
        dev = f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}" if is_node else None
        return NodeStat(found.st_mode, found.st_uid, found.st_gid, dev)

    def can_open(self, path: str) -> bool | Missing:
        try:
            return os.access(
                path, os.R_OK | os.W_OK, effective_ids=os.access in os.supports_effective_ids
            )
        except ValueError as error:
            return refusal(error, path)

    def environ(self, wanted: Sequence[str]) -> dict[str, str] | Missing:
        found = kept(os.environ, wanted)
        return {utf8(name): utf8(value) for name, value in found.items()}

    def netlink(self, name: str, protocol: int, request: bytes, deadline: float) -> bytes | Missing:
        from rdmadiag.host import netlink

        try:
            return netlink.exchange(protocol, request, deadline)
        except TimeoutError:
            return Missing(Why.TIMEOUT, f"netlink {name}: no complete reply before the deadline")
        except ValueError as error:
            return Missing(Why.MALFORMED, f"netlink {name}: {error}")
        except OSError as error:
            return refusal(error, f"netlink {name}")

    def run(self, argv: Sequence[str], deadline: float) -> Ran | Missing:
        from rdmadiag.host import command

        return command.run(argv, deadline)

    def verbs(self, gid_rows: int, deadline: float) -> bytes | Missing:
        from rdmadiag.verbs import child

        platform = self.identity.platform
        if platform not in child.LIBRARY:
            return Missing(Why.UNSUPPORTED, "no verbs library is known for this system")
        return child.ask(platform, child.LIBRARY[platform], gid_rows, deadline)

    def kernel_log(self, seconds: float, words: Sequence[str], deadline: float) -> bytes | Missing:
        from rdmadiag.host import kmsg

        return kmsg.read(kmsg.DEVICE, seconds, words, deadline)


def _attribute(folder: int, path: str, name: str) -> bytes | Missing:
    try:
        handle = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
    except OSError as error:
        return refusal(error, f"{path}/{utf8(name)}")
    try:
        content = os.read(handle, _PAGE + 1)
    except OSError as error:
        return refusal(error, f"{path}/{utf8(name)}")
    finally:
        os.close(handle)
    if len(content) > _PAGE:
        return Missing(Why.MALFORMED, f"{path}/{utf8(name)}: longer than {_PAGE} bytes")
    return content


def read_capped(handle: int, path: str, limit: int) -> bytes | Missing:
    """Up to `limit` bytes of an open regular file; Missing for more, or for another kind."""
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            return Missing(Why.MALFORMED, f"{path}: not a regular file")
        # One read for what fits a page: sysfs gives an attribute whole, or not at all.
        content = os.read(handle, limit + 1)
        # Files of /proc and sysfs are not as long as their size says.
        while content and len(content) <= limit and len(content) != found.st_size:
            more = os.read(handle, limit + 1 - len(content))
            if not more:
                break
            content += more
    except OSError as error:
        return refusal(error, path)
    if len(content) > limit:
        return Missing(Why.MALFORMED, f"{path}: longer than {limit} bytes")
    return content
