"""Whole documents of a few hosts of each kind, where ten thousand of them would be too much.

What a stack would pick is worked out on the first and the last host, by name, of those that are
alike in all that it depends on (rdmadiag.fleet.compatibility).
"""

from collections.abc import Hashable, Mapping
from typing import Final

from rdmadiag.fleet.compatibility import inputs_of
from rdmadiag.fleet.fact_table import Value
from rdmadiag.fleet.host_report import HostReport

MOST_KINDS: Final = 512
"""Of hosts; those that are met later are not kept."""

MOST_BYTES: Final = 64 << 20
"""Of all documents."""

_Kind = tuple[bool, Hashable]


class Wholes:
    """Takes each report as it is read."""

    def __init__(self) -> None:
        self._kinds: dict[_Kind, dict[str, bytes]] = {}  # by node: the first and the last
        self._bytes = 0

    def add(self, node: str, facts: Mapping[str, Value], content: bytes) -> None:
        """One report of a node; a later one replaces it."""
        for with_networks in (False, True):
            self._add((with_networks, inputs_of(facts, with_networks=with_networks)), node, content)

    def _add(self, kind: _Kind, node: str, content: bytes) -> None:
        held = self._kinds.get(kind)
        if held is None:
            if len(self._kinds) >= MOST_KINDS:
                return
            held = self._kinds[kind] = {}
        between = len(held) > 1 and min(held) < node < max(held)
        if between or self._bytes + len(content) > MOST_BYTES:
            return
        self._bytes += len(content) - len(held.pop(node, b""))
        held[node] = content
        if len(held) > 2:
            self._bytes -= len(held.pop(sorted(held)[1]))

    def get(self, report: HostReport) -> bytes | None:
        """The whole of a report; None where it was not kept."""
        for with_networks in (False, True):
            kind = with_networks, inputs_of(report.facts, with_networks=with_networks)
            found = self._kinds.get(kind, {}).get(report.node)
            if found is not None:
                return found
        return None
