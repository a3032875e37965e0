"""promtool, out of Debian's prometheus package: unpacked into the cache, nothing installed.

The package itself would start a server, and bring 100 MB of it into every guest.
"""

import tempfile
from pathlib import Path

from lab.command import run
from lab.failure import LabFailure
from lab.places import cache

SECONDS = 300.0


def promtool() -> Path:
    """The program; LabFailure where it cannot be had."""
    program = cache() / "promtool"
    if program.exists():
        return program
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=program.parent) as scratch:
        for argv in (
            ["sh", "-c", 'cd "$0" && apt-get -qq download prometheus', scratch],
            ["sh", "-c", 'cd "$0" && dpkg-deb -x prometheus_*.deb .', scratch],
        ):
            done = run(argv, timeout=SECONDS)
            if done.returncode != 0:
                raise LabFailure(f"no promtool: {done.stderr.strip()}")
        Path(scratch, "usr", "bin", "promtool").rename(program)
    return program
