"""What answers when a host is looked at: a live machine, a recorded one, one that records.

Everything that sources learn comes through a Host, and a Host offers nothing that
writes. What cannot be had is a `Missing`, never an exception.

A snapshot, the form in which a host is recorded, is a folder, or its .tar.gz:

    meta.json     what is not a file: identity, refusals, listings, links, device nodes
    root/         files as on the host
    netlink/      raw replies, one file a request
    cmd/          what commands printed

A bare folder with sys/class/infiniband in it is a snapshot without the rest.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol

from rdmadiag.facts import Identity, Missing
from rdmadiag.host.answers import NodeStat, Ran

READ_LIMIT: Final = 64 * 1024
"""Bytes; no attribute of sysfs exceeds one page, and /proc/modules stays below this."""

Attributes = dict[str, bytes | Missing]


class Host(Protocol):
    """What a source can read. Paths are absolute, as on the host itself."""

    @property
    def identity(self) -> Identity:
        """Which host this is."""

    @property
    def lacks(self) -> Mapping[str, Missing]:
        """Sources, by name, that this host cannot answer at all, and why."""

    @property
    def can_hang(self) -> bool:
        """Whether a question to it can hang in the kernel, where no signal ends it."""

    @property
    def given(self) -> bool:
        """Whether it is read from files that the user named: they may cost time and memory."""

    def read(self, path: str, limit: int = READ_LIMIT) -> bytes | Missing:
        """The content of a regular file; longer than `limit` bytes is malformed."""

    def list(self, path: str) -> tuple[str, ...] | Missing:
        """The names in a folder, sorted."""

    def attributes(self, path: str, spared: Collection[str]) -> "Attributes | Missing":
        """Every file of a folder in sysfs, by name, but for the `spared`, which are not opened.

        Content up to a page, in one read: as sysfs gives it.
        """

    def pci_config(self, path: str) -> bytes | Missing:
        """Configuration space of a PCI function: see rdmadiag.host.pci_config.

        What is read stands at its own offset, with zeros between; a record may hold all of it.
        """

    def readlink(self, path: str) -> str | Missing:
        """The target of a symbolic link, as written."""

    def stat(self, path: str) -> NodeStat | Missing:
        """Mode, owner and device number; links are followed."""

    def can_open(self, path: str) -> bool | Missing:
        """Whether this user may read and write it, by access(2): nothing is opened."""

    def environ(self, wanted: Sequence[str]) -> dict[str, str] | Missing:
        """Environment variables by name and family: rdmadiag.facts.environment.kept."""

    def netlink(self, name: str, protocol: int, request: bytes, deadline: float) -> bytes | Missing:
        """All reply messages to one read-only request.

        `name` identifies the request in a snapshot; `deadline` is absolute, on
        `time.monotonic`'s clock. Raises netlink.NotARead for a request that is not a GET.
        """

    def run(self, argv: Sequence[str], deadline: float) -> Ran | Missing:
        """A command's output, with LC_ALL=C; past `deadline` it is killed and abandoned."""

    def verbs(self, gid_rows: int, deadline: float) -> bytes | Missing:
        """The transcript of the verbs library's answers: see rdmadiag.verbs.query.

        Where the library has no call for a whole table, `gid_rows` of each port's are
        queried. Past `deadline` the child is killed and abandoned, and what it had
        written is the answer.
        """

    def kernel_log(self, seconds: float, words: Sequence[str], deadline: float) -> bytes | Missing:
        """The kernel's messages of the last `seconds` that hold one of `words`.

        As /dev/kmsg gives them, the oldest first; capital letters count as small ones.
        """
