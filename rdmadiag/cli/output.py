"""stdout: what happens when its reader has gone, or its disk is full."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rdmadiag.cli.exits import Refused

_UNWRITTEN: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


@contextmanager
def printing() -> Iterator[None]:
    """Around all printing of a command: a closed pipe ends quietly, with the command's code.

    Raises Refused where stdout cannot take what there is to say.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _leave()
    except OSError as error:
        if error.errno not in _UNWRITTEN:
            raise
        _leave()
        raise Refused(f"stdout: {error.strerror}") from error


def _leave() -> None:
    """What is still buffered, and the flush at exit, must not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
