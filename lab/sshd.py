"""A real sshd of Debian's openssh-server, which is unpacked into the cache and not installed.

The package itself would start a server for everybody. This one has keys of its own, lets in who
has the one that goes with them, and runs one script for every command: it finds the name of the
node in NODE, and the command in SSH_ORIGINAL_COMMAND.
"""

import os
import shutil
import socket
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lab.command import run
from lab.daemons import Daemons
from lab.failure import LabFailure
from lab.places import cache

VARIABLE: Final = "RDMADIAG_LAB_SSHD"
"""In a guest, which has no packages of its own: where the unpacked one is."""

SECONDS: Final = 300.0
START_SECONDS: Final = 20.0

_PACKAGES: Final = ("openssh-server", "libwrap0")
_LIBRARIES: Final = "usr/lib/x86_64-linux-gnu"

_CONFIG: Final = """\
Port {port}
ListenAddress {address}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
AcceptEnv NODE
ForceCommand {folder}/node.sh
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
StrictModes no
PidFile none
MaxStartups 500
"""

_CLIENT: Final = """\
Host *
    HostName {address}
    HostKeyAlias the-sshd-of-the-lab
    User root
    IdentityFile {folder}/key
    IdentitiesOnly yes
    UserKnownHostsFile {folder}/known_hosts
    StrictHostKeyChecking yes
    LogLevel ERROR
"""

# sshd wants a user and a folder of its own, which the package would make.
_ACCOUNTS: Final = "root:*:0:0:root:/root:/bin/sh\nsshd:*:101:65534::/run/sshd:/usr/sbin/nologin\n"
_START: Final = (
    'mount -t tmpfs none /run && mkdir -m 755 /run/sshd && mount --bind "$0" /etc/passwd && '
    'exec "$@"'
)


class Sshd(Daemons):
    """`names`: those it is reached by → None, or a port where something else is, or nothing.

    Use as a context manager; `config` is for `ssh -F`.
    """

    NAME = "sshd"

    def __init__(
        self, script: str, names: Mapping[str, int | None], address: str = "127.0.0.1"
    ) -> None:
        self._script, self._names, self._address = script, names, address

    def client(self, name: str) -> dict[str, str]:
        """For a client elsewhere: files, and its configuration, with "{folder}" for theirs."""
        files = {each: (self.folder / each).read_text() for each in ("key", "known_hosts")}
        stanza = f"Host {name}\n    Port {self._port}\n    SetEnv NODE={name}\n"
        rest = _CLIENT.partition("\n")[2].replace("{address}", self._address)
        return files | {"config": stanza + rest}

    def begin(self) -> None:
        """Until it greets."""
        root, folder, port = unpacked(), self.folder, free_port()
        self.config, self._port = folder / "config", port
        for name in ("host_key", "key"):
            _do("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name))
        public = (folder / "host_key.pub").read_text()
        (folder / "known_hosts").write_text(f"the-sshd-of-the-lab {public}")
        place = {"folder": str(folder), "address": self._address}
        (folder / "sshd_config").write_text(_CONFIG.format(port=port, **place))
        (folder / "passwd").write_text(_ACCOUNTS)
        (folder / "node.sh").write_text(self._script)
        (folder / "node.sh").chmod(0o755)
        hosts = (
            f"Host {name}\n    Port {other or port}\n    SetEnv NODE={name}\n"
            for name, other in self._names.items()
        )
        self.config.write_text("".join(hosts) + _CLIENT.format(**place))
        sshd = [str(root / "usr/sbin/sshd"), "-D", "-e", "-f", str(folder / "sshd_config")]
        self.start(
            ["unshare", "--mount", "sh", "-c", _START, str(folder / "passwd"), *sshd],
            env=dict(os.environ, LD_LIBRARY_PATH=str(root / _LIBRARIES)),
        )
        self.until(lambda: _greets(self._address, port), START_SECONDS, "sshd")


def _greets(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), timeout=1) as peer:
            return peer.recv(4) == b"SSH-"
    except OSError:
        return False


def free_port() -> int:
    """One that nothing listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        found: int = server.getsockname()[1]
        return found


def settings() -> dict[str, str]:
    """Of a guest's environment; without it, tests that need sshd are skipped there."""
    try:
        return {VARIABLE: str(unpacked())}
    except LabFailure as failure:
        print(f"no sshd for the guests: {failure}")
        return {}


def unpacked() -> Path:
    """The folder with usr/sbin/sshd in it; LabFailure where it cannot be had."""
    if given := os.environ.get(VARIABLE):
        return Path(given)
    folder = cache() / "openssh-server"
    if (folder / "usr/sbin/sshd").exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        _do("sh", "-c", 'cd "$0" && apt-get -qq download "$@"', str(scratch), *_PACKAGES)
        _do("sh", "-c", 'cd "$0" && for one in *.deb; do dpkg-deb -x "$one" .; done', str(scratch))
    except LabFailure:
        shutil.rmtree(scratch)
        raise
    scratch.rename(folder)
    return folder


def _do(*argv: str) -> None:
    done = run(argv, timeout=SECONDS)
    if done.returncode != 0:
        raise LabFailure(f"{argv[0]}: {done.stderr.strip()}")
