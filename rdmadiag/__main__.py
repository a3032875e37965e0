"""The `rdmadiag` command."""

import gc
import os
import sys
from _thread import RLock
from contextlib import suppress
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any, Final


def main() -> None:
    """Run one command and exit with its code; every ending a user can cause is one line."""
    # One short run: collecting cycles, and tearing a heap down object by object at the
    # end, would cost a quarter of the time that `gids` takes.
    gc.disable()
    sys.unraisablehook = _unraisable
    code = _UNKNOWN
    try:
        if sys.version_info < (3, 12):  # from there on each dataclass needs it
            _defer("inspect")  # click and dataclasses import it, and a command needs nothing of it
        from rdmadiag.cli import run
        from rdmadiag.cli.failure import where_all_fails

        code = where_all_fails(sys.argv[1:])
        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # while modules are loaded; click catches it afterwards
        code = _INTERRUPTED
    except Exception as error:  # noqa: BLE001  # what is too little to load or to print the rest
        with suppress(OSError):
            os.write(_STDERR, f"rdmadiag: {error!r}\n".encode("ascii", "backslashreplace"))
    finally:
        # Whatever comes of this: 1, the interpreter's own code where it has no memory left for
        # an exception, would be a milder verdict.
        try:
            with suppress(OSError, ValueError):
                sys.stderr.flush()
        finally:
            os._exit(code)


class _Deferred(ModuleType):
    """A module that is executed when something of it is first looked up.

    Not importlib.util.LazyLoader: in Python 3.11 a second `import` of its module executes it.
    """

    def __getattr__(self, name: str) -> Any:
        with _EXECUTING:  # by one thread, which may come here again meanwhile
            if type(self) is _Deferred and not self.__dict__.get("_begun"):
                loader = self.__spec__.loader if self.__spec__ else None
                assert loader is not None
                self._begun = True
                try:
                    loader.exec_module(self)
                    self.__class__ = ModuleType  # type: ignore[assignment]
                finally:
                    del self._begun
            if name in self.__dict__:
                return self.__dict__[name]
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


_EXECUTING: Final = RLock()


def _defer(name: str) -> None:
    if name not in sys.modules and (spec := find_spec(name)):
        sys.modules[name] = module = module_from_spec(spec)
        module.__class__ = _Deferred


def _unraisable(found: "sys.UnraisableHookArgs") -> None:
    """A Ctrl-C in a callback of CPython's, as importlib's locks have, ends the command too.

    The interpreter would print "Exception ignored in" and go on.
    """
    if issubclass(found.exc_type, KeyboardInterrupt):
        os._exit(_INTERRUPTED)
    sys.__unraisablehook__(found)


_INTERRUPTED: Final = 130
_STDERR: Final = 2
_UNKNOWN: Final = 3  # rdmadiag.cli.exits.UNKNOWN, which may be what could not be loaded


if __name__ == "__main__":
    main()
