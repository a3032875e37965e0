"""A man in the middle of two ends of a pingpong: it reads, holds back, changes, drops, cuts."""

import json
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

from rdmadiag.verbs.protocol import Role, frame

Message = dict[str, Any]
Change = Callable[[Role, Message], Message | None]

LENGTH_BYTES = 4
MAC_BYTES = 32  # before the JSON of a message that is proven
ANSWERED = ("hello", "endpoint")
"""Steps that the end that listens takes when the other's message has come."""

REACH_SECONDS = 60.0  # for the listener to listen
SEND_SECONDS = 10.0

_OTHER: dict[Role, Role] = {"connect": "listen", "listen": "connect"}


class Between:
    """Listens at `port` for the end that connects, and goes to the one that listens.

    `change` gets who sent a message and the message, and gives what is passed on in its
    place, None for nothing; the MAC of a message that is proven is left as it was. Messages
    of the step `hold` are kept back: `held` is set when both ends wait for the other's.
    """

    def __init__(
        self,
        listener: int,
        *,
        address: str = "127.0.0.1",
        hold: str | None = None,
        change: Change | None = None,
    ) -> None:
        self.held = threading.Event()
        self._listener = listener
        self._hold = hold
        self._change = change
        self._kept: dict[Role, bytes] = {}
        self._held: dict[Role, bytes] = {"connect": b"", "listen": b""}
        self._closing = False
        self._releasing = False
        self._woken, self._waker = os.pipe()
        self._server = socket.create_server((address, 0))
        self.port: int = self._server.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def release(self) -> None:
        """What was kept is passed on, and nothing is kept from now on."""
        self._releasing = True
        os.write(self._waker, b".")

    def cut(self) -> None:
        """Both connections end, whatever was kept."""
        self._closing = True
        os.write(self._waker, b".")
        self._thread.join(REACH_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread.is_alive():
            self.cut()
        self._server.close()
        os.close(self._woken)
        os.close(self._waker)

    # --- its thread ----------------------------------------------------------------------

    def _run(self) -> None:
        with suppress(_Over):
            while not self._ready(self._server):
                pass
            connecting, _ = self._server.accept()
            with connecting, self._reach() as listening:
                self._pass({"connect": connecting, "listen": listening})

    def _ready(self, *sockets: socket.socket) -> list[socket.socket]:
        """Those of them that can be read."""
        ready = select.select([self._woken, *(each.fileno() for each in sockets)], [], [])[0]
        if self._woken in ready:
            os.read(self._woken, 64)
            if self._closing:
                raise _Over
        return [each for each in sockets if each.fileno() in ready]

    def _reach(self) -> socket.socket:
        late = time.monotonic() + REACH_SECONDS
        while True:
            try:
                return socket.create_connection(("127.0.0.1", self._listener))
            except ConnectionRefusedError:
                if self._closing or time.monotonic() > late:
                    raise _Over from None
                time.sleep(0.05)

    def _pass(self, ends: dict[Role, socket.socket]) -> None:
        for end in ends.values():
            end.settimeout(SEND_SECONDS)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            ready = self._ready(*ends.values())
            if self._releasing:
                self._hold = None
                while self._kept:
                    role, kept = self._kept.popitem()
                    ends[_OTHER[role]].sendall(kept)
            for role, end in ends.items():
                if end not in ready:
                    continue
                try:
                    chunk = end.recv(65536)
                except OSError:
                    return
                if not chunk:
                    return
                self._held[role] += chunk
                while (content := self._whole(role)) is not None:
                    self._one(role, content, ends[_OTHER[role]])

    def _whole(self, role: Role) -> bytes | None:
        """The next message of that end, length and all."""
        held = self._held[role]
        size = LENGTH_BYTES + int.from_bytes(held[:LENGTH_BYTES], "big")
        if len(held) < max(size, LENGTH_BYTES):
            return None
        self._held[role] = held[size:]
        return held[:size]

    def _one(self, role: Role, content: bytes, to: socket.socket) -> None:
        mac, message = _parts(content[LENGTH_BYTES:])
        if self._change:
            changed = self._change(role, message)
            if changed is None:
                return
            body = mac + frame(changed)[LENGTH_BYTES:]
            content = len(body).to_bytes(LENGTH_BYTES, "big") + body
        if message.get("step") == self._hold:
            self._kept[role] = content
            if len(self._kept) == (1 if self._hold in ANSWERED else len(_OTHER)):
                self.held.set()
            return
        with suppress(OSError):  # it has gone
            to.sendall(content)


def _parts(body: bytes) -> tuple[bytes, Message]:
    """The MAC, where there is one, and the message."""
    with suppress(ValueError):
        return b"", json.loads(body)
    return body[:MAC_BYTES], json.loads(body[MAC_BYTES:])


class _Over(Exception):
    """Its end was asked for."""
