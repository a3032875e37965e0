"""What one line of a log holds, by its structure: tool, call, stage, numbers, device, GIDs.

>>> found = fields("h1:7:9 [5] ibvwrap.c:262 NCCL WARN Call to ibv_modify_qp failed with 110 "
...     "Connection timed out, on dev mlx5_2:1, curr state INIT, next state RTR, local GID "
...     "index 3, local GID ::ffff:192.0.2.1, remote GID ::ffff:192.0.2.9")
>>> found.tool, found.call, found.stage, found.errno, found.device, found.port, found.gid_index
('nccl', 'ibv_modify_qp', 'rtr', 110, 'mlx5_2', 1, 3)
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from rdmadiag.explain.log.line import names
from rdmadiag.explain.log.line.numbers import errno_of
from rdmadiag.explain.log.line.origin import clock_of, platform_of, tool_of, who_of
from rdmadiag.explain.log.line.stages import call_of, stage_of
from rdmadiag.explain.log.line.statuses import status_of, vendor_error_of
from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.errnos import Platform, errno_name
from rdmadiag.facts.gid import Gid
from rdmadiag.late import late


@dataclass(frozen=True)
class Fields:
    """One line, taken apart."""

    text: str  # without colours, on one line
    after: str  # what follows it, for what a tool says on several lines
    above: str  # what stands before it
    tool: str
    platform: Platform
    call: str | None  # "ibv_modify_qp"
    stage: Stage | None
    errno: int | None
    status: int | None  # enum ibv_wc_status
    vendor_error: int | None
    device: str | None
    port: int | None
    who: str | None  # the rank or host that wrote it
    clock: tuple[str, float] | None  # (kind, seconds): only the same kind compares

    @cached_property
    def errno_symbol(self) -> str | None:
        """The name of its errno on the host that printed it."""
        return None if self.errno is None else errno_name(self.errno, self.platform)

    @cached_property
    def gid_index(self) -> int | None:
        """The row of the GID table that was used."""
        return names.gid_index_of(self.text)

    @cached_property
    def asks_for_row(self) -> bool:
        """Whether a command above was given a row of the GID table."""
        return names.asks_for_row(self.above)

    @cached_property
    def local_gid(self) -> Gid | None:
        """The GID that was sent from."""
        below = self.after.partition("\n")[0]  # where a page or a terminal wrapped it
        found = names.local_gid_of(self.text) or names.local_gid_of(below)
        return found or self._printed_above("local")

    @cached_property
    def remote_gid(self) -> Gid | None:
        """The GID that was sent to."""
        below = self.after.partition("\n")[0]  # where UCX prints the path
        found = names.remote_gid_of(self.text) or names.remote_gid_of(below)
        return found or self._printed_above("remote")

    @cached_property
    def peer(self) -> str | None:
        """The other end's address or name, as the tool gives it."""
        return names.peer_of(self.text)

    @cached_property
    def link_layer(self) -> str | None:
        """ib or roce, where the line shows it."""
        return names.link_layer_of(self.text)

    def _printed_above(self, end: str) -> Gid | None:
        if self.stage not in (Stage.RTR, Stage.RTS, Stage.DATA):
            return None
        return names.printed_gid(self.above, end)


def fields(text: str, after: str = "", above: str = "") -> Fields:
    """The line's fields; what it does not say is None."""
    text = cleaned(text)
    tool = tool_of(text)
    platform = platform_of(text, tool)
    call = call_of(text)
    status = status_of(text)
    device, port = names.device_of(text, after)
    return Fields(
        text=text,
        after=after,
        above=above,
        tool=tool,
        platform=platform,
        call=call,
        stage=stage_of(text, call) if status is None else Stage.DATA,
        errno=errno_of(text, after, platform, call) if status is None else None,
        status=status,
        vendor_error=vendor_error_of(text),
        device=device,
        port=port,
        who=who_of(text),
        clock=clock_of(text),
    )


_COLOURS: Final = late(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


def cleaned(text: str) -> str:
    """Without terminal codes and control characters."""
    if "\x1b" in text:
        text = _COLOURS.sub("", text)
    if not text.isprintable():
        text = "".join(each if each.isprintable() else " " for each in text)
    return text.strip()
