"""One cause of a failure: a row of the registry."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Final

from rdmadiag.explain.remedies import Lines
from rdmadiag.facts.attempt import Stage
from rdmadiag.frozen import dataclass


class Shown(StrEnum):
    """What a host's report shows of the port, or the row of its GID table, that failed."""

    ROW_EMPTY = "row_empty"
    ROW_FILLED = "row_filled"
    NETDEV_ABSENT = "netdev_absent"
    NETDEV_DOWN = "netdev_down"
    GID_UNASSIGNED = "gid_unassigned"  # its netdev does not have it as an address
    GID_NOT_ROUTED = "gid_not_routed"  # link-local, or RoCE v1
    PORT_ACTIVE = "port_active"


class Used(StrEnum):
    """What an attempt, or a line of a log, itself says that was used."""

    GID = "gid"  # a row that is not empty
    NO_GID = "no_gid"  # an empty row
    INDEX_NOT_0 = "index_not_0"
    IPV4_GID = "ipv4_gid"  # IPv4-mapped: no default GID
    ONE_FAMILY = "one_family"  # both GIDs, IPv4 or IPv6
    ROUTABLE_GIDS = "routable_gids"  # both, RoCE v2 and not link-local; or InfiniBand
    NO_IWARP = "no_iwarp"
    UC = "uc"
    PORT_ACTIVE = "port_active"
    ONE_HOST = "one_host"  # has both ends, in one process
    ONE_PORT = "one_port"  # is both ends


class Of(StrEnum):
    """Where a cause is, that a line of one end names."""

    OWN = "own"  # the end that has the line
    PEER = "peer"
    WAY = "way"  # between the two, or that cannot be told from it
    BOTH = "both"  # the two do not fit each other


@dataclass(frozen=True, slots=True)
class Cause:
    """A label stays when its sentence is worded anew; a guess says "perhaps".

    `where` has the sentence for a narrower context, by its word: "errno 5", "wc 12", a stage,
    a platform, the word of a sign, a rule's code, the outcome of a pingpong.
    """

    label: str
    text: str
    where: Mapping[str, str] = field(default_factory=dict)
    linux: Lines = ()  # remedy: templates of explain.remedies
    darwin: Lines = ()
    confirmed_by: tuple[str | Shown, ...] = ()  # rules, and what the report shows
    contradicted_by: tuple[Shown, ...] = ()
    excluded_by: tuple[Used, ...] = ()  # it cannot be, where this was used
    named_by: tuple[str, ...] = ()  # rules that confirm it, and name it where no line did,
    stages: frozenset[Stage] = frozenset()  # at these stages
    of: Of = Of.OWN

    @property
    def proofs(self) -> tuple[str | Shown, ...]:
        """All that confirms it."""
        return (*self.confirmed_by, *self.named_by)


OPENING: Final = frozenset({Stage.OPEN})
MAKING: Final = frozenset({Stage.REG_MR, Stage.CREATE_CQ, Stage.CREATE_QP})
PATH: Final = frozenset({Stage.RTR, Stage.RTS, Stage.DATA, Stage.CONNECT})
