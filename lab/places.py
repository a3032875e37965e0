"""Where the lab keeps things."""

import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
OUT = CHECKOUT / "lab" / "out"  # results of the last run, one folder a lab


def cache() -> Path:
    """The folder for what is slow to make again: kernels, and images of the interpreter."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base).resolve() / "rdmadiag-lab"
