"""DEV[:PORT] on the command line."""

from collections.abc import Sequence

from rdmadiag.cli.exits import Refused
from rdmadiag.view.select import Selector


def selectors(texts: Sequence[str]) -> tuple[Selector, ...]:
    """What `--device` was given; a port that is no number is refused."""
    return tuple(_selector(text) for text in texts)


def _selector(text: str) -> Selector:
    # "mlx5_0:1", and "mlx5_0/1" as `rdma link` prints it.
    name, colon, port = text.replace("/", ":").partition(":")
    if not name or (colon and not (port.isascii() and port.isdigit() and len(port) <= 5)):
        raise Refused(f"--device {text!r} is not DEV or DEV:PORT")
    return Selector(name, int(port) if colon else None)
