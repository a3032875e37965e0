"""What is made by one call of a library and destroyed once, by another."""

from typing import Any, Protocol


class Caller(Protocol):
    """How a call is made: by name, on behalf of a device; raises CallFailed."""

    def __call__(self, name: str, device: str, *arguments: Any) -> Any: ...


class Made:
    """An object of the library that is destroyed once, by the call that the manual names."""

    def __init__(self, call: Caller, device: str, destroyer: str, handle: Any) -> None:
        self._call = call
        self.device = device
        self._destroyer = destroyer
        self.handle = handle
        self._open = True

    @property
    def is_open(self) -> bool:
        """Whether nobody has tried to destroy it."""
        return self._open

    def close(self) -> None:
        """Destroy it; raises CallFailed, and does not try again."""
        if self._open:
            self._open = False
            self._call(self._destroyer, self.device, self.handle)
