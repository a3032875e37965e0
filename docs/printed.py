"""What a command line prints, as a terminal of 80 columns would show it."""

import os
import shlex
import subprocess
import sys


def printed(arguments: str) -> str:
    """stdout of `rdmadiag ARGUMENTS`, without spaces at the ends of lines.

    Raises ValueError where it prints none: an example that fails must not become an empty block.
    """
    ran = subprocess.run(
        [sys.executable, "-m", "rdmadiag", *shlex.split(arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "COLUMNS": "80", "XDG_CONFIG_HOME": "/nonexistent"},
    )
    if not ran.stdout:
        raise ValueError(f"rdmadiag {arguments} prints nothing: {ran.stderr.strip()}")
    return "\n".join(line.rstrip() for line in ran.stdout.splitlines())
