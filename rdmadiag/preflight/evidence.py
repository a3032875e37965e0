"""What was found, by source. Nothing here is derived."""

from dataclasses import dataclass
from typing import Final

from rdmadiag.facts import (
    Missing,
    NetDevFacts,
    NldevFacts,
    ProcessFacts,
    SysfsFacts,
    VerbsFacts,
    Why,
)

NOT_COLLECTED: Final = Missing(Why.NOT_COLLECTED, "not asked for")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One field a source; a source that gave nothing is a Missing with the reason."""

    sysfs: SysfsFacts | Missing = NOT_COLLECTED
    nldev: NldevFacts | Missing = NOT_COLLECTED
    netdev: NetDevFacts | Missing = NOT_COLLECTED
    process: ProcessFacts | Missing = NOT_COLLECTED
    verbs: VerbsFacts | Missing = NOT_COLLECTED
