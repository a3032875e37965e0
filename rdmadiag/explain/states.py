"""What a state says, and what to do about it: of a port, logical and physical, and of a queue pair.

The words are those of rdmadiag.facts.ib, with what ibstat, ibv_devinfo and `rdma link` print.
"""

from typing import Final

from rdmadiag.facts.ib import PhysState, PortState, QpState
from rdmadiag.frozen import dataclass


@dataclass(frozen=True, slots=True)
class StateMeaning:
    """What a state means, and the commands to run next."""

    state: PortState | PhysState | QpState
    meaning: str
    next: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """port, physical or queue pair."""
        return _KINDS[type(self.state)]


_KINDS: Final = {PortState: "port", PhysState: "physical", QpState: "queue pair"}
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
    StateMeaning(QpState.RESET, "The queue pair is new, or was reset: it takes no work requests."),
    StateMeaning(
        QpState.INIT,
        "The queue pair has its port, partition key and rights. Receives may be posted; nothing is "
        "received or sent yet.",
    ),
    StateMeaning(
        QpState.RTR,
        "Ready to receive: the queue pair knows its peer, by GID or LID, number and path MTU. The "
        "step from INIT to RTR is where a GID, a route or a neighbour that is missing shows.",
        ("rdmadiag gids", "rdmadiag preflight"),
    ),
    StateMeaning(QpState.RTS, "Ready to send: the queue pair sends and receives."),
    StateMeaning(QpState.SQD, "The send queue drains, as was asked for; receiving goes on."),
    StateMeaning(
        QpState.SQE,
        "A send failed on a queue pair of another kind than RC: the send queue has stopped.",
    ),
    StateMeaning(
        QpState.ERR,
        "The queue pair has failed, or its program ended it: all that is posted is flushed (wc 5). "
        "The first completion that is not a flush says why.",
    ),
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
    text = rest or number
    if text.startswith("ibv_qps_"):
        word = text.removeprefix("ibv_qps_")
        return tuple(
            row for row in MEANINGS if row.kind == "queue pair" and row.state.value == word
        )
    text = text.removeprefix("ibv_").removeprefix("port_")
    if text.isascii() and text.isdigit():  # a queue pair's is printed by name
        number = text.lstrip("0") or "0"
        found = (row for row in MEANINGS if row.kind != "queue pair")
        return tuple(row for row in found if str(row.state.number) == number)
    text = _ALIASES.get(text.replace("_", ""), text)
    return tuple(row for row in MEANINGS if row.state.value == text)
