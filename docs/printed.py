"""What a command line prints, as a terminal of 80 columns would show it."""

import os
import subprocess
import sys


def printed(arguments: str) -> str:
    """stdout of `rdmadiag ARGUMENTS`, without spaces at the ends of lines."""
    output = subprocess.run(
        [sys.executable, "-m", "rdmadiag", *arguments.split()],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "COLUMNS": "80", "XDG_CONFIG_HOME": "/nonexistent"},
    ).stdout
    return "\n".join(line.rstrip() for line in output.splitlines())
