"""Modules that are executed when something of them is first looked up."""

import sys
from _thread import RLock
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any, Final


class Deferred(ModuleType):
    """A module that is executed when something of it is first looked up.

    Not importlib.util.LazyLoader: in Python 3.11 a second `import` of its module executes it.
    """

    def __getattr__(self, name: str) -> Any:
        with _EXECUTING:  # by one thread, which may come here again meanwhile
            if type(self) is Deferred and not self.__dict__.get("_begun"):
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


def defer(name: str) -> None:
    """Have an `import` of it execute nothing yet; one that is loaded, or absent, stays so."""
    if name not in sys.modules and (spec := find_spec(name)):
        sys.modules[name] = module = module_from_spec(spec)
        module.__class__ = Deferred
