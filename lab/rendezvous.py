"""Two ends of a test that wait for each other, over one TCP connection.

Each end sends lines like {"test": "…", "name": "ready", "value": 1}. An end that leaves a test,
passed or failed, says so: the other one fails at once instead of waiting for its deadline.
"""

import contextlib
import json
import socket
import time
from typing import Any, Self

PORT = 7471


class Parted(Exception):
    """The other end is gone, late, or has left the test."""


class Rendezvous:
    """One end of the connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._buffer = b""
        self._seen: dict[tuple[str, str], Any] = {}

    @classmethod
    def listen(cls, address: str, timeout: float) -> Self:
        """Wait at most `timeout` seconds for the other end to come."""
        with socket.create_server((address, PORT)) as server:
            server.settimeout(timeout)
            try:
                return cls(server.accept()[0])
            except TimeoutError:
                raise Parted(f"the other end did not come within {timeout:g} s") from None

    @classmethod
    def connect(cls, address: str, timeout: float) -> Self:
        """Go to the other end, which may take `timeout` seconds to be there."""
        late = time.monotonic() + timeout
        while True:
            try:
                return cls(socket.create_connection((address, PORT), timeout=2.0))
            except OSError as error:
                if time.monotonic() > late:
                    raise Parted(f"no other end within {timeout:g} s: {error}") from None
                time.sleep(0.2)

    def exchange(self, test: str, name: str, value: Any, timeout: float) -> Any:
        """Give the value (anything JSON has) and take the other end's of the same name."""
        self._send(test, name, value)
        late = time.monotonic() + timeout
        while (test, name) not in self._seen:
            if (test, "") in self._seen:
                raise Parted(f"the other end left {test} before {name!r}")
            line = self._line(late, name)
            self._seen[line["test"], line["name"]] = line["value"]
        return self._seen.pop((test, name))

    def leave(self, test: str) -> None:
        """Say that this end is through with the test; the other one may be gone already."""
        with contextlib.suppress(Parted):
            self._send(test, "", None)

    def close(self) -> None:
        self._socket.close()

    def _send(self, test: str, name: str, value: Any) -> None:
        line = json.dumps({"test": test, "name": name, "value": value}) + "\n"
        self._socket.settimeout(10.0)
        try:
            self._socket.sendall(line.encode())
        except OSError as error:
            raise Parted(f"the other end is gone: {error}") from None

    def _line(self, late: float, name: str) -> Any:
        while b"\n" not in self._buffer:
            left = late - time.monotonic()
            if left <= 0:
                raise Parted(f"the other end did not reach {name!r} in time")
            self._socket.settimeout(left)
            try:
                data = self._socket.recv(65536)
            except TimeoutError:
                continue
            except OSError as error:
                raise Parted(f"the other end is gone: {error}") from None
            if not data:
                raise Parted(f"the other end closed the connection before {name!r}")
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        return json.loads(line)
