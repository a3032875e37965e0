"""DEV[:PORT] on the command line."""

from collections.abc import Sequence

from rdmadiag.cli.exits import Refused
from rdmadiag.view.select import Selector


def selectors(texts: Sequence[str]) -> tuple[Selector, ...]:
    """What `--device` was given; a port that is no number is refused."""
    try:
        return tuple(Selector.parse(text) for text in texts)
    except ValueError as error:
        raise Refused(f"--device {error}") from error
