"""completion/: what click prints for bash, zsh and fish, for packages to install."""

from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from rdmadiag.cli import rdmadiag

FILES = {"rdmadiag": BashComplete, "_rdmadiag": ZshComplete, "rdmadiag.fish": FishComplete}
"""Named as each shell looks for it."""


def completion_files() -> dict[str, str]:
    """File name → text."""
    # Not BashComplete.source: it starts this machine's bash, to warn of an old one.
    return {
        name: ShellComplete.source(shell(rdmadiag, {}, "rdmadiag", "_RDMADIAG_COMPLETE")).strip()
        + "\n"
        for name, shell in FILES.items()
    }
