"""A state that two hosts list, of which one has it as it should be and the other has not."""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from rdmadiag.explain.pasted.session import Line, Part, Shown
from rdmadiag.late import late


class _State(NamedTuple):
    pattern: "re.Pattern[str]"  # its first group is the value
    good: str
    causes: tuple[str, ...]
    is_certain: bool
    alone: bool = False  # it may be wrong where only one is listed, too


STATES: Final = (
    _State(
        late(r"\s*VERBS RDMA status: (\w+)\s*$"),  # mmfsadm of GPFS
        "started",
        ("rdma-off-by-variable", "feature-not-built"),
        True,
        alone=True,
    ),
    _State(
        late(r"\s*EnableStreamMemOPs: (\d)\s*$"),  # /proc/driver/nvidia/params
        "1",
        ("gpu-peer-mapping-off", "gdr-off"),
        True,
    ),
    _State(
        late(r"\s*Priority trust state: (\w+)\s*$"),  # mlnx_qos
        "dscp",
        ("traffic-not-lossless", "slow-path"),
        False,
    ),
)


def of_two_hosts(several: Sequence[Part]) -> Iterator[Shown]:
    """What they show, the surest first."""
    for state in STATES:
        values = _by_host(several, state)
        bad = [line for value, line in values.values() if value != state.good]
        if bad and len(bad) < len(values):
            yield Shown(state.causes, bad[0], state.is_certain)
        elif bad and state.alone:
            yield Shown(state.causes, bad[0], False)
    yield from _of_addresses(several)


def _by_host(several: Sequence[Part], state: _State) -> dict[str, tuple[str, Line]]:
    """The last value of each."""
    return {
        part.host: (found[1], line)
        for part in several
        for line in part.lines
        if (found := state.pattern.match(line.text))
    }


_BRIEF: Final = late(r"(\w[\w.-]*)(?:@\S+)?\s+UP\s+(\S.*)$")
_IPV4: Final = late(r"(?<!\S)\d{1,3}(?:\.\d{1,3}){3}/\d")
_LINK_LOCAL: Final = late(r"(?:fe80::[0-9a-f:]+/64\s*)+$")
_NETDEV: Final = late(r"(?:\d+/\d+: )?link \S+/\d+ .*\bnetdev (\S+)")


def _of_addresses(several: Sequence[Part]) -> Iterator[Shown]:
    """The netdev of an RDMA device has an IPv4 address at one host and at the other none."""
    with_ipv4 = set[str]()
    without: dict[str, Line] = {}
    below = set[tuple[str, str]]()
    for part in several:
        for line in part.lines:
            if found := _BRIEF.match(line.text):
                if _IPV4.search(found[2]):
                    with_ipv4.add(found[1])
                elif _LINK_LOCAL.match(found[2]):
                    without.setdefault(found[1], line)
                    below.add((part.host, found[1]))
    for part in several:
        for line in part.lines:
            found = _NETDEV.match(line.text)
            if found and found[1] in with_ipv4 and (part.host, found[1]) in below:
                yield Shown(("no-usable-gid", "no-ipv4-gid", "interface-down"), without[found[1]])
                return
