"""Known causes of an errno, by platform and stage: the same number means other things elsewhere.

Several causes of one number compete; all are given, the most reported first.
"""

from typing import Final

from rdmadiag.errnos import Platform

RTR: Final = "rtr"

_CAUSES: Final[dict[tuple[str, str, int], tuple[str, ...]]] = {
    # exo-explore/exo#1390, ml-explore/mlx#3468, #3207; TN3205
    ("darwin", RTR, 22): (
        "the port has no IPv4 GID, or the index names another entry",
        "the port is a member of a bridge on this host or on the peer",
    ),
    ("darwin", RTR, 60): (
        "GID index 0 was used",
        "no route to the peer by that interface: several cables share a subnet",
    ),
    ("darwin", RTR, 96): (
        "there is no entry at the GID index that was used",
        "the port is a member of a bridge on this host",
        "protection domains are exhausted",
    ),
    ("darwin", RTR, 16): ("queue pairs of programs that ended are still held: reboot",),
    ("darwin", RTR, 102): ("an RC queue pair: Thunderbolt has UC alone",),
}


def causes(errno: int, stage: str, platform: Platform) -> tuple[str, ...]:
    """What this number at this stage has been traced to; empty where nothing is known."""
    return _CAUSES.get((platform, stage, errno), ())


def known(stage: str, platform: Platform) -> dict[int, tuple[str, ...]]:
    """Every number with known causes at this stage."""
    return {
        number: found
        for (system, where, number), found in _CAUSES.items()
        if (system, where) == (platform, stage)
    }
