"""The `rdmadiag` command."""

import gc
import os
import sys


def main() -> None:
    """Run one command and exit with its code; every ending a user can cause is one line."""
    # One short run: collecting cycles, and tearing a heap down object by object at the
    # end, would cost a quarter of the time that `gids` takes.
    gc.disable()
    try:
        from rdmadiag.cli import run

        code = run(sys.argv[1:])
        sys.stderr.flush()
    except KeyboardInterrupt:  # while modules are loaded; click catches it afterwards
        code = 130
    os._exit(code)


if __name__ == "__main__":
    main()
