"""What one line means for RDMA, and the order of its causes."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from rdmadiag.explain.causes import Known, possible
from rdmadiag.explain.causes.cause import Used
from rdmadiag.explain.log.kind import IN_WORDS, Kind
from rdmadiag.explain.log.line.fields import Fields
from rdmadiag.explain.log.recognition.in_words import in_words
from rdmadiag.explain.log.recognition.settings import Setting
from rdmadiag.explain.remedies import Lines
from rdmadiag.facts.attempt import Stage
from rdmadiag.late import late

MOST_CAUSES: Final = 5


@dataclass(frozen=True)
class Meaning:
    """What a line means for RDMA; its kind may be UNKNOWN."""

    kind: Kind
    what: str  # "errno", "completion", or the word of a sign
    fields: Fields
    causes: tuple[Known, ...]
    next: Lines  # templates
    setting: Setting | None = None  # it is one, and shown nowhere
    is_beside: bool = False  # of RDMA only where the lines around it are
    is_other: bool = False  # of something else, wherever it stands

    @property
    def word(self) -> str:
        """That of the setting, or of the sign."""
        return self.setting.word if self.setting else self.what


def meaning_of(what: str, found: Fields, several: tuple[Known, ...], look: Lines) -> Meaning:
    """Of a failure with these causes; without any, of what its words say."""
    if not several:  # its number is not known: the call and the words are
        return Meaning(Kind.UNKNOWN, IN_WORDS, found, in_words(found, MOST_CAUSES), look)
    return Meaning(Kind.FAILURE, what, found, unique(possible(several, used(found))), look)


def used(found: Fields) -> frozenset[Used]:
    """What the line itself says was used."""
    here, there = found.local_gid, found.remote_gid
    facts = {
        Used.GID: here is not None and not here.is_zero and not (there and there.is_zero),
        Used.NO_GID: here is not None and here.is_zero,
        Used.INDEX_NOT_0: bool(found.gid_index) or (here is not None and found.asks_for_row),
        Used.IPV4_GID: here is not None and here.is_ipv4_mapped,
        Used.ONE_FAMILY: here is not None and there is not None and here.family is there.family,
        Used.NO_IWARP: _OF_MLX.search(found.text) is not None,
    }
    return frozenset(each for each, said in facts.items() if said)


_OF_MLX: Final = late(r"\bmlx[45]_")


def staged(found: Fields, stage: Stage | None) -> Fields:
    """The same at this stage, where it is given."""
    return found if stage is None or found.stage is stage else replace(found, stage=stage)


def unique(several: Iterable[Known]) -> tuple[Known, ...]:
    """Each label once, the first sentence of it."""
    seen: dict[str, Known] = {}
    for cause in several:
        seen.setdefault(cause.label, cause)
    return tuple(seen.values())[:MOST_CAUSES]


def last(several: tuple[Known, ...], label: str) -> tuple[Known, ...]:
    """The same causes, that of the label behind all others."""
    return tuple(sorted(several, key=lambda each: each.label == label))


def first(several: tuple[Known, ...], label: str) -> tuple[Known, ...]:
    """The same causes, that of the label before all others."""
    return tuple(sorted(several, key=lambda each: each.label != label))


OF_GPUS: Final = frozenset(
    {"nccl", "rccl", "nvshmem", "mooncake", "nixl", "mori", "uccl", "deepep", "mscclpp"}
)
"""Tools that register memory of GPUs, mostly."""
