"""Lines that are meant for a shell, given to shells in a folder where nothing else may happen."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

RAN: Final = "ran"
"""The file that a payload makes where a shell runs it: `touch ran`."""

_NOBODY: Final = 65534
_SECONDS: Final = 60.0
_AFTER: Final = "line-{}-is-over"

# No line may reach a process or end the shell: the pids in a record are other processes here.
_POSIX: Final = "kill() { :; }; exec() { :; }; exit() { :; }; ulimit() { :; }\n"
_FISH: Final = "function kill; end; function exit; end; function ulimit; end\n"
SHELLS: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "sh": (("sh",), "kill() { :; }; ulimit() { :; }\n"),
    "bash": (("bash", "--norc", "--noprofile", "-i"), _POSIX),
    "zsh": (("zsh", "-f", "-i"), f"setopt interactive_comments\n{_POSIX}"),
    "zsh without comments": (
        ("zsh", "-f", "-i"),
        _POSIX,
    ),  # as a terminal has it that is not set up
    "fish": (("fish", "--no-config"), _FISH),
}
_UNREAD: Final = "zsh without comments"
"""There `#` is a word: a comment's question mark ends the line, and nothing more."""


def installed() -> list[str]:
    """The shells that this machine has."""
    return [name for name, (argv, _) in SHELLS.items() if shutil.which(argv[0])]


def wrong(shell: str, lines: Sequence[str]) -> list[str]:
    """What the lines did beside looking for programs that are not there, pasted one by one."""
    with tempfile.TemporaryDirectory(prefix="rdmadiag-shell-", ignore_cleanup_errors=True) as name:
        top = Path(name)
        home = _sandbox(top)
        argv, before = SHELLS[shell]
        script = before + "".join(
            f"{line}\necho {_AFTER.format(number)}\n" for number, line in enumerate(lines)
        )
        ended = subprocess.run(
            [shutil.which(argv[0]) or argv[0], *argv[1:]],
            input=script.encode("utf-8", "surrogateescape"),
            capture_output=True,
            timeout=_SECONDS,
            check=False,
            cwd=home,
            env={"PATH": str(top / "bin"), "HOME": str(home), "LC_ALL": "C.UTF-8"},
            user=None if os.geteuid() else _NOBODY,
            group=None if os.geteuid() else _NOBODY,
            extra_groups=None if os.geteuid() else (),
        )
        # A shell may keep its history; nothing else is to be there.
        made = [each.name for each in home.iterdir() if not each.name.startswith(".")]
    found = [f"{shell} made {each!r}" for each in sorted(made)]
    done = ended.stdout.decode("utf-8", "replace").splitlines()
    for number, line in enumerate(lines):
        if shell != _UNREAD and _AFTER.format(number) not in done:
            found.append(f"{shell} does not come to the end of {line!r}")
    return found


def _sandbox(top: Path) -> Path:
    """Its only program is touch; its folder is the shell's user's."""
    (top / "bin").mkdir()
    (top / "bin" / "touch").symlink_to(shutil.which("touch") or "/usr/bin/touch")
    home = top / "home"
    home.mkdir()
    top.chmod(0o755)
    if not os.geteuid():
        os.chown(home, _NOBODY, _NOBODY)
    return home
