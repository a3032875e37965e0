"""stdout: what happens when its reader has gone."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def printing() -> Iterator[None]:
    """Around all printing of a command: a closed pipe ends quietly, with the command's code."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # What is still buffered, and the flush at exit, must not find the pipe again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
