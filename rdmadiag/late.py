"""Patterns that are compiled when they are first used: most logs need few of some 700."""

import re
from typing import Any, AnyStr, cast


def late(pattern: AnyStr, flags: int = 0) -> "re.Pattern[AnyStr]":
    """As re.compile gives it; what is wrong with it is raised at its first use.

    >>> late(r"errno (\\d+)").findall("errno 110, then errno 12")
    ['110', '12']
    """
    return cast("re.Pattern[AnyStr]", _Late(pattern, flags))


class _Late:
    def __init__(self, pattern: Any, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        """Called for what is not there yet: the next time it is."""
        found = getattr(re.compile(self.pattern, self._flags), name)
        setattr(self, name, found)
        return found
