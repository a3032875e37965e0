"""What a port's state says, and what to do about it: logical and physical.

The words are those of rdmadiag.facts.ib, with what ibstat, ibv_devinfo and `rdma link` print.
"""

from dataclasses import dataclass
from typing import Final

from rdmadiag.facts.ib import PhysState, PortState


@dataclass(frozen=True, slots=True)
class StateMeaning:
    """One row."""

    state: PortState | PhysState
    meaning: str
    next: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """port or physical."""
        return "port" if isinstance(self.state, PortState) else "physical"


_LINK: Final = (
    "rdma link show",
    "# check cable, transceiver and the far port",
    "sudo dmesg -T | grep -iE 'link|mlx|bnxt|irdma' | tail -20",
)
_SM: Final = (
    "sudo sminfo   # does a subnet manager answer?",
    "sudo systemctl enable --now opensm   # on one host of this fabric, if none does",
)

MEANINGS: Final = (
    StateMeaning(PortState.NOP, "No state: the device does not say, or is a switch's port."),
    StateMeaning(
        PortState.DOWN,
        "The port has no link: no cable, no peer, a port that is switched off, or, on RoCE, a "
        "network interface that is down. Nothing above it can work.",
        _LINK,
    ),
    StateMeaning(
        PortState.INIT,
        "The link is up, and nobody has configured the port. On InfiniBand it waits for a subnet "
        "manager: no LID, no routes, no traffic. RoCE passes through it in an instant.",
        _SM,
    ),
    StateMeaning(
        PortState.ARMED,
        "The subnet manager has given the port its LID and has not finished: for more than a "
        "moment, a subnet manager that is stuck or has lost the fabric.",
        _SM,
    ),
    StateMeaning(
        PortState.ACTIVE,
        "The port carries traffic. It says nothing of GIDs, routes and the peer: RTR may still "
        "fail.",
        ("rdmadiag gids", "rdmadiag preflight"),
    ),
    StateMeaning(
        PortState.ACTIVE_DEFER,
        "The port was ACTIVE, the link has just failed, and it may come back by itself.",
        _LINK,
    ),
    StateMeaning(PhysState.SLEEP, "The physical link sleeps.", _LINK),
    StateMeaning(
        PhysState.POLLING,
        "The port looks for a partner and finds none: no cable, a cable that is not seated, or a "
        "far port that is off or of another speed.",
        _LINK,
    ),
    StateMeaning(
        PhysState.DISABLED,
        "The port is switched off: by the administrator, by the driver (an interface that is "
        "down), or by the subnet manager.",
        (
            "ip link set dev INTERFACE up   # RoCE",
            "sudo ibportstate -D 0 PORT enable   # InfiniBand",
        ),
    ),
    StateMeaning(
        PhysState.TRAINING,
        "Both ends negotiate speed and width. For more than seconds: a cable, a transceiver or "
        "settings (FEC, speed) that do not fit.",
        _LINK,
    ),
    StateMeaning(
        PhysState.LINK_UP,
        "The physical link is up. Whether the port is ACTIVE is another matter.",
        ("rdma link show",),
    ),
    StateMeaning(
        PhysState.LINK_ERROR_RECOVERY,
        "The link had errors and is trained anew: a cable, a transceiver or a port that goes bad.",
        _LINK,
    ),
    StateMeaning(PhysState.PHY_TEST, "The port runs a test pattern.", _LINK),
)

_ALIASES: Final = {
    "initializing": "init",
    "initialize": "init",
    "initialized": "init",
    "inactive": "down",
    "up": "active",
    "linkup": "link_up",
    "phy_link_up": "link_up",
    "linkerrorrecovery": "link_error_recovery",
    "recovery": "link_error_recovery",
    "activedefer": "active_defer",
    "actdefer": "active_defer",
    "portconfigurationtraining": "training",
    "sleeping": "sleep",
    "poll": "polling",
}


def state_meanings(word: str) -> tuple[StateMeaning, ...]:
    """Those of a word ("PORT_INIT", "LinkUp", "2: INIT") or of a number, which both kinds have."""
    text = word.strip().lower().replace("-", "_").replace(" ", "")
    number, _, rest = text.partition(":")
    text = (rest or number).removeprefix("port_").removeprefix("ibv_port_")
    if text.isascii() and text.isdigit():
        number = text.lstrip("0") or "0"
        return tuple(row for row in MEANINGS if str(row.state.number) == number)
    text = _ALIASES.get(text.replace("_", ""), text)
    return tuple(row for row in MEANINGS if row.state.value == text)
