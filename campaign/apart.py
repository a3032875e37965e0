"""A campaign in a process and a session of its own: one that hangs or dies costs no other."""

import contextlib
import importlib
import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from campaign.result import Held, Result

Run = Callable[[bool, int, Path, float], Result]

_ITSELF: Final = "the campaign itself comes to its end"


def apart(name: str, short: bool, seed: int, folder: Path, seconds: float, grace: float) -> Result:
    """The campaign's result; it runs in a session of its own.

    It begins nothing after `seconds`, and is ended `grace` seconds later.
    """
    began = time.monotonic()
    context = multiprocessing.get_context("spawn")
    mine, its = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(its, name, short, seed, folder, seconds))
    process.start()
    its.close()
    found: Result | str = f"no end within {seconds + grace:g} s"
    try:
        if mine.poll(seconds + grace):
            found = mine.recv()
    except EOFError:
        process.join()
        found = f"ended without a result: exit code {process.exitcode}"
    finally:
        with contextlib.suppress(ProcessLookupError):  # whatever it has left behind, too
            os.killpg(process.pid or 0, signal.SIGKILL)
        process.kill()
        process.join()
    if isinstance(found, Result):
        return found
    return Result(name, 0, [Held(_ITSELF, 1, [found])], time.monotonic() - began)


def _child(
    pipe: Connection, name: str, short: bool, seed: int, folder: Path, seconds: float
) -> None:
    os.setsid()
    try:
        run: Run = importlib.import_module(f"campaign.{name}").run
        pipe.send(run(short, seed, folder, seconds))
    except Exception:  # noqa: BLE001  # the other campaigns still run
        pipe.send(traceback.format_exc())
