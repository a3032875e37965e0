"""Messages of two ends over the queue pair that connects them, strictly in turns.

An end has one receive posted, and posts it again before it answers: so no message ever meets a
queue pair without one. Each message is one of rdmadiag.verbs.protocol, whole.
"""

import time
from collections.abc import Callable
from typing import Any, Final

from rdmadiag.verbs import cm_protocol, protocol
from rdmadiag.verbs.bounds import Bounds
from rdmadiag.verbs.cm_end import CONTROL_BYTES, CmEnd
from rdmadiag.verbs.cm_protocol import Hello
from rdmadiag.verbs.exchange import STALL_SECONDS, Stalled
from rdmadiag.verbs.protocol import Inbox, ProtocolError, Role, Seal

_SLICE_SECONDS: Final = 0.002  # between two looks at the queues


class Talk:
    """One end's part."""

    def __init__(
        self, end: CmEnd, bounds: Bounds, glance: Callable[[], None], fd: int, role: Role
    ) -> None:
        """`glance` raises for whatever ends it; `fd` wakes a wait, where `glance` should look."""
        self._end = end
        self._role: Role = role
        self._bounds = bounds
        self.glance = glance
        self._fd = fd
        self._seal: Seal | None = None
        self._inbox = Inbox()
        self.patience = STALL_SECONDS[end.facts.qp_type]
        """Seconds that a step may take."""
        self.taken: dict[str, Any] = {}
        """The last message that arrived."""

    def prove(self, secret: bytes | None, hello: Hello, nonce: bytes) -> None:
        """From here on each message has a MAC, where there is a secret."""
        if secret is not None:
            other: Role = "connect" if self._role == "listen" else "listen"
            key = cm_protocol.key(secret, hello, nonce)
            self._seal = Seal(key, self._role, hello.nonce, nonce)
            self._inbox.seal = Seal(key, other, hello.nonce, nonce)

    def send(self, step: str, **content: Any) -> None:
        """Raises Failed, BadCompletion, Stalled, and what `glance` raises."""
        message = protocol.frame({"step": step} | content, self._seal)
        if len(message) > CONTROL_BYTES:
            raise ValueError(f"a message of {len(message)} bytes")
        self._end.send_message(message)
        self._wait(self._is_sent)

    def _is_sent(self) -> bool:
        self._end.poll()
        return not self._end.sends

    def receive(self, step: str) -> dict[str, Any]:
        """The message of that step; raises ProtocolError too."""
        self._wait(lambda: self.take(step))
        return self.taken

    def barrier(self, step: str, **content: Any) -> dict[str, Any]:
        """The other end's message of the step, once both have come this far."""
        if self._role == "connect":
            self.send(step, **content)
            return self.receive(step)
        theirs = self.receive(step)
        self.send(step, **content)
        return theirs

    def take(self, step: str) -> bool:
        """Whether it has arrived, and is `taken`; never waits."""
        content = self._end.received_message()
        if content is None:
            return False
        self.read(content, step)
        return True

    def read(self, content: bytes, step: str) -> None:
        """Take a message that has arrived; raises ProtocolError."""
        self._inbox.add(content)
        message = self._inbox.take()
        if message is None or not self._inbox.is_empty:
            raise ProtocolError("a message that is not whole: no peer of ours")
        if message.get("step") != step:
            said = protocol.shown(message.get("step"))
            raise ProtocolError(f"the peer sent {said}, not {step!r}")
        self.taken = message

    def _wait(self, true: Callable[[], Any]) -> None:
        until = time.monotonic() + self.patience
        while not true():
            self.glance()
            now = time.monotonic()
            if now > until:
                raise Stalled
            self._bounds.ready([self._fd], now + _SLICE_SECONDS)
