"""The `rdmadiag` command.

What is loaded here is built in, or the interpreter has it: until main() runs, a Ctrl-C ends in a
traceback of Python's.
"""

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


def main() -> None:
    """Run one command and exit with its code; every ending a user can cause is one line."""
    # One short run: collecting cycles, and tearing a heap down object by object at the
    # end, would cost a quarter of the time that `gids` takes.
    gc.disable()
    sys.unraisablehook = _unraisable
    code = _UNKNOWN
    try:
        if sys.version_info < (3, 12):  # from there on each dataclass needs it
            from rdmadiag.deferred import defer

            defer("inspect")  # click and dataclasses import it, and a command needs nothing of it
        from rdmadiag.cli import run
        from rdmadiag.cli.failure import where_all_fails

        code = where_all_fails(sys.argv[1:])
        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # while modules are loaded; click catches it afterwards
        code = _INTERRUPTED
    except Exception as error:  # noqa: BLE001  # what is too little to load or to print the rest
        try:  # noqa: SIM105  # contextlib is not loaded here
            os.write(_STDERR, f"rdmadiag: {error!r}\n".encode("ascii", "backslashreplace"))
        except OSError:
            pass
    finally:
        # Whatever comes of this: 1, the interpreter's own code where it has no memory left for
        # an exception, would be a milder verdict.
        try:
            sys.stderr.flush()
        except (OSError, ValueError):
            pass
        finally:
            os._exit(code)


def _unraisable(found: "sys.UnraisableHookArgs") -> None:
    """A Ctrl-C in a callback of CPython's, as importlib's locks have, ends the command too.

    The interpreter would print "Exception ignored in" and go on.
    """
    if issubclass(found.exc_type, KeyboardInterrupt):
        os._exit(_INTERRUPTED)
    sys.__unraisablehook__(found)


_INTERRUPTED: "Final" = 130
_STDERR: "Final" = 2
_UNKNOWN: "Final" = 3  # rdmadiag.cli.exits.UNKNOWN, which may be what could not be loaded


if __name__ == "__main__":
    main()
