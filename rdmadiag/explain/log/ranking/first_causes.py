"""Which cause of a failure is the first by what else the same log shows.

Each function changes the causes of the groups that it is of; the collector calls them in order,
after the causes have been ranked.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rdmadiag.explain.causes import remedy, stated
from rdmadiag.explain.log.groups import Group
from rdmadiag.explain.log.kind import CRASH, Kind
from rdmadiag.explain.log.meaning import MOST_CAUSES
from rdmadiag.explain.log.recognition.links import CAME_BACK, LINK_DOWN
from rdmadiag.explain.log.recognition.settings import (
    LISTED_DOWN,
    ON_INFINIBAND,
    ON_ROCE,
    RETRIES_EXCEEDED,
)
from rdmadiag.explain.log.recognition.signs.listings import LISTED_INITIALIZING
from rdmadiag.explain.log.text.observed import HAS_WORKED, RECOVERS, RESOLVED
from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.gid import Gid, Scope
from rdmadiag.late import late

if TYPE_CHECKING:
    from rdmadiag.explain.log.meaning import Meaning

LENGTH_ERROR: Final = 1
"""IBV_WC_LOC_LEN_ERR."""
INVALID_REQUEST: Final = 9
"""IBV_WC_REM_INV_REQ_ERR."""


def promote(group: Group, labels: Sequence[str], without: Collection[str] = ()) -> None:
    """These causes first, with the remedy of the first of them; those that are `without`, not."""
    meaning = group.meaning
    first = [stated(label) for label in labels]
    rest = [e for e in meaning.causes if e.label not in labels and e.label not in without]
    look = (*remedy(labels[0], meaning.fields.platform), *meaning.next)
    group.meaning = replace(
        meaning, causes=(*first, *rest)[:MOST_CAUSES], next=tuple(dict.fromkeys(look))
    )


def _fails(group: Group, status: int) -> bool:
    return group.meaning.kind is Kind.FAILURE and group.meaning.fields.status == status


def labels_of(meaning: "Meaning") -> set[str]:
    """Of all of its causes."""
    return {each.label for each in meaning.causes}


def of_lengths(groups: Iterable[Group]) -> None:
    """More was sent than a receive has room for: the sender gets a remote invalid request error."""
    several = list(groups)
    shorts = [each for each in several if _fails(each, LENGTH_ERROR)]
    invalid = [each for each in several if _fails(each, INVALID_REQUEST)]
    for each in invalid if shorts else ():
        promote(each, ("peer-buffer-small",))
        each.is_decided = True


OTHER_LAYER: Final = {
    ON_INFINIBAND: frozenset(
        {
            *("gid-does-not-route", "gid-types-differ", "no-gid-given", "roce-port-dropped"),
            *("roce-udp-port-taken", "traffic-not-lossless", "gid-not-an-address"),
        }
    ),
    ON_ROCE: frozenset({"duplicate-guid", "fabric-changed", "no-subnet-manager"}),
}
"""By the link layer of all devices: causes that the other one alone has."""


def of_layer(groups: Sequence[Group], settings: Collection[str]) -> None:
    """Where all devices are of one link layer, causes of the other are none."""
    layers = [each for each in OTHER_LAYER if each in settings]
    for group in groups if len(layers) == 1 else ():
        meaning = group.meaning
        several = tuple(e for e in meaning.causes if e.label not in OTHER_LAYER[layers[0]])
        if several and several != meaning.causes:
            look = meaning.next
            if several[0] != meaning.causes[0]:
                look = remedy(several[0].label, meaning.fields.platform)
            group.meaning = replace(meaning, causes=several, next=look)


def of_own_gids(groups: Iterable[Group], seen: Collection[str]) -> None:
    """Link-local GIDs that MACs give, in the line of a transfer without an answer: before all else.

    In one segment they carry, but NCCL takes them where a port has no better ones.
    """
    for group in groups if {ON_INFINIBAND, HAS_WORKED}.isdisjoint(seen) else ():
        found = group.meaning.fields
        both = _has_eui64(found.local_gid) and _has_eui64(found.remote_gid)
        if both and _fails(group, RETRIES_EXCEEDED) and not group.is_decided:
            promote(group, ("gid-does-not-route",))


def _has_eui64(gid: Gid | None) -> bool:
    """Whether its interface identifier is made of a MAC (EUI-64, RFC 4291), but not of Hyper-V,
    whose virtual functions of InfiniBand have such GUIDs, too.
    """
    if gid is None or gid.scope is not Scope.LINK_LOCAL or gid.raw[11:13] != b"\xff\xfe":
        return False
    return gid.raw[8:11] != b"\x02\x15\x5d" and gid.raw[8:11] != b"\x00\x15\x5d"


NOT_AFTER_STEPS: Final = frozenset(
    {
        *("gid-does-not-route", "gid-index-0", "gid-index-or-family", "gid-families-differ"),
        *("gid-types-differ", "no-gid-given", "mtu-too-large", "subnets-differ", "no-path"),
        *("roce-port-dropped", "firewall", "ack-timeout-short", "arguments-differ"),
    }
)
"""Of how hosts and network are set up: what has worked for a while had none of it."""


def of_steps(groups: Iterable[Group], seen: Collection[str]) -> None:
    """Of a job that has done steps of its work, what ends is behind a transfer that fails."""
    for group in groups if HAS_WORKED in seen else ():
        meaning = group.meaning
        in_data = meaning.kind is Kind.FAILURE and meaning.fields.stage is Stage.DATA
        first = [each.label for each in meaning.causes if each.label not in NOT_AFTER_STEPS]
        was_first = bool(meaning.causes) and meaning.causes[0].label in NOT_AFTER_STEPS
        if in_data and first and was_first and not group.is_decided:
            promote(group, first)


def of_losses(groups: Iterable[Group], seen: Collection[str]) -> None:
    """A connection that is lost again and again, and recovers: a link that flaps, or loses."""
    for group in groups if RECOVERS in seen else ():
        if _fails(group, RETRIES_EXCEEDED):
            lossy = ("traffic-not-lossless",) if ON_ROCE in seen else ()
            promote(group, (*lossy, "link-flaps"))


def of_the_way(groups: Iterable[Group], shown: Sequence[Sequence[str]]) -> None:
    """What a listing shows of the way, the likeliest first, is why a transfer has no answer."""
    first = tuple(dict.fromkeys(label for labels in shown for label in labels))
    for group in groups if first else ():
        if _fails(group, RETRIES_EXCEEDED) and not group.is_decided:
            promote(group, first)


def of_requests(groups: Iterable[Group], seen: Collection[str]) -> None:
    """Of an address that was resolved the kernel knows the neighbour: requests are lost behind."""
    for group in groups if RESOLVED in seen else ():
        if "RDMA_CM_EVENT_UNREACHABLE" in group.text and not group.is_decided:
            roce = ("roce-port-dropped",) if ON_ROCE in seen else ()
            promote(group, (*roce, "firewall", "cm-datagrams-lost"), ("peer-unreachable",))


def of_flaps(groups: Sequence[Group], *, is_short: bool) -> None:
    """Of a few lines in which a link went and came back, that is why a transfer failed."""
    if is_short and any(each.meaning.what == CAME_BACK for each in groups):
        for group in groups:
            if _fails(group, RETRIES_EXCEEDED):
                promote(group, ("link-flaps",))


def of_listings(groups: Sequence[Group], *, is_active: bool) -> None:
    """Where the same log lists a port there is a device, and if it is not up why it is not used.

    `is_active`: one that is active is listed.
    """
    ports = [each.meaning for each in groups if each.meaning.what in _LISTINGS]
    if not ports and not is_active:
        return
    why = ports[0].causes[:1] if ports else ()
    for group in groups:
        meaning = group.meaning
        if meaning.what in _LISTINGS or _NO_DEVICE not in labels_of(meaning):
            continue
        rest = [each for each in meaning.causes if each not in why and each.label != _NO_DEVICE]
        last = [each for each in meaning.causes if each.label == _NO_DEVICE]
        group.meaning = replace(meaning, causes=(*why, *rest, *last)[:MOST_CAUSES])


_LISTINGS: Final = frozenset({LISTED_DOWN, LISTED_INITIALIZING})
_NO_DEVICE: Final = "no-rdma-device"


def of_lost_links(groups: Sequence[Group]) -> None:
    """Where the same log says that a link was lost, what stopped at the way stopped by that."""
    links = [e.meaning.causes for e in groups if e.meaning.what == LINK_DOWN and e.meaning.causes]
    flap = all(causes[0].label == "link-flaps" for causes in links)
    for group in groups if links else ():
        if _fails(group, RETRIES_EXCEEDED):
            promote(group, ("link-flaps" if flap else "link-lost",))


def of_crashes(groups: Sequence[Group]) -> None:
    """Where code of RDMA crashed in the same log, what failed beside may be its fault, too."""
    crashes = [each for each in groups if each.meaning.what == CRASH]
    if all(each.count == 1 and _ENDS_ITSELF.search(each.text) for each in crashes):
        return
    fault = stated("program-fault")
    for group in groups:
        meaning = group.meaning
        is_free = meaning.kind is Kind.FAILURE and fault.label not in labels_of(meaning)
        if is_free and meaning.causes:
            first, *rest = meaning.causes
            group.meaning = replace(meaning, causes=(first, fault, *rest)[:MOST_CAUSES])


_ENDS_ITSELF: Final = late(r"\buct_\w+_(?:completion_with_err|ep_handle_failure)\b")
"""A frame of UCX where it gives up, since a transfer has failed."""
