"""Exit codes, and how commands end early."""

from typing import Final

import click

OK: Final = 0
WARN: Final = 1
CRITICAL: Final = 2
UNKNOWN: Final = 3
NOT_ATTEMPTED: Final = 3
USAGE: Final = 64
BUG: Final = 70
WATCHDOG: Final = 124

OF_STATUS: Final = {"ok": OK, "warn": WARN, "critical": CRITICAL, "unknown": UNKNOWN}
"""Status of a verdict → exit code."""


class Refused(click.ClickException):
    """Something the user asked for cannot be had: one line on stderr, exit 64."""

    exit_code = USAGE

    def show(self, file: object = None) -> None:
        """Print the line."""
        click.echo(f"rdmadiag: {self.message}", err=True)
