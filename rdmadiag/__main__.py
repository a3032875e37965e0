"""The `rdmadiag` command."""

import sys


def main() -> None:
    """Run one command and exit with its code; every ending a user can cause is one line."""
    from rdmadiag.cli import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
