"""What a shell offers after TAB, asked of the shell itself."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

SHELLS: Final = ("bash", "zsh", "fish")

_BASH: Final = """
eval "$(_RDMADIAG_COMPLETE=bash_source rdmadiag)"
complete -p rdmadiag >/dev/null || exit 1
COMP_WORDS=({words}); COMP_CWORD={at}
_rdmadiag_completion rdmadiag
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
# Outside of the line editor compadd cannot run: what it was to add is printed instead.
_ZSH: Final = """
compdef() {{ : }}
compadd() {{ print -rl -- "${{(@)completions}}" }}
_describe() {{ print -rl -- "${{(@)completions_with_descriptions}}" }}
_files() {{ print FILES }}
eval "$(_RDMADIAG_COMPLETE=zsh_source rdmadiag)"
words=({words}); CURRENT=$(({at} + 1))
_rdmadiag_completion
"""
_FISH: Final = """
_RDMADIAG_COMPLETE=fish_source rdmadiag | source
complete -C {line}
"""


def installed(shell: str) -> bool:
    """Whether this machine has it."""
    return shutil.which(shell) is not None


def offered(shell: str, words: Sequence[str], program: Path, timeout: float) -> list[str]:
    """What `shell` offers for the last of `words`, without descriptions; [] for nothing."""
    quoted = " ".join(shlex.quote(word) for word in words)
    script = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}[shell].format(
        words=quoted, at=len(words) - 1, line=shlex.quote(" ".join(words))
    )
    argv = {"bash": ["bash", "--norc"], "zsh": ["zsh", "-f"], "fish": ["fish", "--no-config"]}
    done = subprocess.run(
        [*argv[shell], "-c", script],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=True,
        env={**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"},
    )
    assert done.stderr == "", done.stderr
    lines = [line for line in done.stdout.splitlines() if line]
    return [line.partition("\t")[0].partition(":" if shell == "zsh" else "\t")[0] for line in lines]
