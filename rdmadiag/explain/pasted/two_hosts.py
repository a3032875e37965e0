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
    """The last value of each; of what stands above all prompts only where there is none."""
    found = {
        part.host: (row[1], line)
        for part in several
        for line in part.lines
        if (row := state.pattern.match(line.text))
    }
    return {host: each for host, each in found.items() if host or len(found) == 1}


_BRIEF: Final = late(r"(\w[\w.-]*)(?:@\S+)?\s+UP\s+(\S.*)$")
_IPV4: Final = late(r"(?<!\S)\d{1,3}(?:\.\d{1,3}){3}/\d")
_LINK_LOCAL: Final = late(r"(?:fe80::[0-9a-f:]+/64\s*)+$")
_NETDEV: Final = late(r"(?:\d+/\d+: )?link \S+/\d+ .*\bnetdev (\S+)")


def _of_addresses(several: Sequence[Part]) -> Iterator[Shown]:
    """The netdev of an RDMA device has an IPv4 address at one host and at the other none."""
    last: dict[tuple[str, str], tuple[bool, Line]] = {}
    for part in several:
        for line in part.lines:
            if found := _BRIEF.match(line.text):
                if _IPV4.search(found[2]):
                    last[part.host, found[1]] = True, line
                elif _LINK_LOCAL.match(found[2]):
                    last[part.host, found[1]] = False, line
    elsewhere = {(name, host) for (host, name), (has_ipv4, _) in last.items() if has_ipv4}
    for part in several:
        for line in part.lines:
            netdev = _NETDEV.match(line.text)
            own = last.get((part.host, netdev[1])) if netdev else None
            if netdev and own and not own[0] and any(name == netdev[1] for name, _ in elsewhere):
                yield Shown(("no-usable-gid", "no-ipv4-gid", "interface-down"), own[1])
                return
