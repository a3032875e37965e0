"""From a finished pingpong attempt to its likely causes and what to check next; pure."""

from collections.abc import Iterable
from typing import Final

from rdmadiag.explain import connecting, lost_data, no_peer
from rdmadiag.explain.calls import after_call, causes, hanging
from rdmadiag.explain.causes import Known, Labels, all_stated, possible, remedy, stated
from rdmadiag.explain.causes.cause import Used
from rdmadiag.explain.completions import after_completion, completion, vendor
from rdmadiag.explain.mismatches import MISMATCHES
from rdmadiag.explain.remedies import (
    ACTIVE_MTU,
    ASK_PEER,
    CRASH_REPORTS,
    DEVICES_OF_BOTH,
    DMESG,
    GIDS,
    LEFTOVERS,
    MAC_LOG,
    NO_REPEAT,
    PATH,
    PING_OF_MTU,
    PREFLIGHT,
    PREFLIGHT_AT_PEER,
    PROVIDERS,
    SHORTER,
    THUNDERBOLT_SPEED,
    Lines,
    fill,
)
from rdmadiag.facts.attempt import Attempt, EndFacts, Outcome, Stage, Teardown
from rdmadiag.facts.gid import Gid, Scope
from rdmadiag.facts.ib import NO_LID, GidType, LinkLayer, PortState, QpType
from rdmadiag.frozen import dataclass
from rdmadiag.quoting import shell_word

CAUSES: Final = 5
REMEDY: Final = 6
"""At most so many are given."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What to think of, and what to look at: the first of each is the likeliest to help."""

    causes: Lines
    remedy: Lines


NOTHING: Final = Advice((), ())
"""Of outcomes that have words of their own, or need none."""


def advice(attempt: Attempt) -> Advice:
    """The likely causes of this outcome, and the next things to check on this host."""
    if attempt.outcome in (Outcome.NOT_ALLOWED, Outcome.NOT_SAFE, Outcome.VERIFIED):
        return NOTHING
    found = tuple(dict.fromkeys(_texts(attempt)))[:CAUSES]
    lines = _with_leftovers(fill(_templates(attempt), _facts(attempt)), attempt)
    if not found and not lines:
        lines = (PREFLIGHT,)
    return Advice(found, lines[:REMEDY])


# --- causes ------------------------------------------------------------------------------


def _texts(attempt: Attempt) -> Iterable[str]:
    if attempt.stage in (Stage.RTR, Stage.DATA) and _reaches_itself(attempt):
        yield stated("thunderbolt-loopback").text
    causes_of_it = _causes(attempt)
    if attempt.outcome is not Outcome.MISMATCH:  # which the facts have shown themselves
        causes_of_it = possible(causes_of_it, _used(attempt))
    for each in causes_of_it:
        yield each.text
    bad = attempt.completion
    if attempt.outcome is Outcome.COMPLETION_ERROR and bad:
        found = vendor(bad.status, bad.vendor_error)
        if found:
            yield f"with {found.provider}, vendor error {bad.vendor_error} {found.meaning}"


def _reaches_itself(attempt: Attempt) -> bool:
    """Whether that works is on no record."""
    here, there = attempt.local, attempt.remote
    if here is None or there is None or not _is_loopback(attempt):
        return False
    return here.link_layer is LinkLayer.THUNDERBOLT and here.device == there.device


def _used(attempt: Attempt) -> frozenset[Used]:
    """What the attempt itself shows: a cause that it excludes is not given."""
    here, there = _ends(attempt)
    if here is None:
        return frozenset()
    ends = [end for end in (here, there) if end is not None]
    gids = [end.gid for end in ends if end.gid is not None]
    on_infiniband = here.link_layer is LinkLayer.INFINIBAND
    loopback = _is_loopback(attempt)
    facts = {
        Used.GID: here.gid is not None and not here.gid.is_zero,
        Used.NO_GID: here.gid is not None and here.gid.is_zero,
        Used.INDEX_NOT_0: all(end.gid_index for end in ends),
        Used.IPV4_GID: here.gid is not None and here.gid.is_ipv4_mapped,
        Used.ONE_FAMILY: len(gids) == 2 and gids[0].family is gids[1].family,
        Used.ROUTABLE_GIDS: on_infiniband or (len(ends) == 2 and all(map(_routes, ends))),
        Used.NO_IWARP: on_infiniband or here.gid_type is GidType.ROCE_V2,
        Used.UC: here.qp_type is QpType.UC,
        Used.PORT_ACTIVE: here.state is PortState.ACTIVE,
        Used.ONE_HOST: loopback,
        Used.ONE_PORT: loopback
        and there is not None
        and (here.device, here.port) == (there.device, there.port),
    }
    return frozenset(each for each, shown in facts.items() if shown)


def _routes(end: EndFacts) -> bool:
    scopes = (Scope.GLOBAL, Scope.PRIVATE)
    return end.gid_type is GidType.ROCE_V2 and end.gid is not None and end.gid.scope in scopes


def _causes(attempt: Attempt) -> tuple[Known, ...]:
    if lost_data.is_lost_data(attempt):
        return lost_data.causes(attempt)
    return (*lost_data.port_causes(attempt), *_known(attempt))


def _known(attempt: Attempt) -> tuple[Known, ...]:
    outcome, platform = attempt.outcome, attempt.platform
    if outcome is Outcome.CALL_FAILED:
        if attempt.call == _POLL_CQ:  # it promises no errno: man ibv_poll_cq
            return all_stated(("cq-overrun", "device-removed"), _POLL_CQ)
        return causes(attempt.errno or 0, attempt.stage, platform)
    if outcome is Outcome.TEARDOWN_FAILED:
        found = causes(attempt.errno or 0, Stage.TEARDOWN, platform)
        return (*found, stated("only-teardown"))
    if outcome is Outcome.COMPLETION_ERROR:
        row = completion(attempt.completion.status) if attempt.completion else None
        return row.causes if row else ()
    if outcome is Outcome.MISMATCH:
        codes = (each.code for each in attempt.problems if each.code in MISMATCHES)
        return all_stated((MISMATCHES[code] for code in codes), outcome)
    if outcome is Outcome.WATCHDOG:
        return connecting.hanging(attempt) or hanging(platform)
    if outcome is Outcome.NO_PEER:
        return no_peer.causes(attempt)
    if outcome in (Outcome.CM_EVENT, Outcome.NO_EVENT):
        return connecting.causes(attempt)
    if outcome is Outcome.DIED and (platform, attempt.stage) in _CRASHES:
        return all_stated(_CRASHES[platform, attempt.stage], "provider-crash")
    return all_stated(_of_outcome(attempt), outcome)


def _of_outcome(attempt: Attempt) -> Labels:
    outcome = attempt.outcome
    if outcome is Outcome.NO_DATA:
        labels = lost_data.silent(attempt) or _NO_DATA_RC
        return (*labels, *_NO_DATA.get(attempt.platform, ()))
    if outcome is Outcome.PEER_FAILED and _is_late_at_peer(attempt):
        outcome = Outcome.LATE
    return _BY_OUTCOME.get(outcome, ())


def _is_late_at_peer(attempt: Attempt) -> bool:
    """One deadline comes first, and says nothing of that end."""
    return attempt.peer_failure is not None and attempt.peer_failure.outcome is Outcome.LATE


_POLL_CQ: Final = "poll_cq"

_NO_DATA_RC: Final = ("peer-posts-no-receives", "peer-gone")
_NO_DATA: Final[dict[str, Labels]] = {
    "darwin": ("link-lost", "cables-mixed-up", "mtu-mismatch"),
    "linux": ("mtu-too-large",),
}
_CRASHES: Final[dict[tuple[str, Stage], Labels]] = {
    ("darwin", Stage.REG_MR): ("thunderbolt-4",),  # exo#2186, omlx#3037: a NULL domain
    # ml-explore/mlx#4192, #4319; exo#1847
    ("darwin", Stage.DATA): ("link-lost", "provider-fault"),
}
_BY_OUTCOME: Final[dict[Outcome, Labels]] = {
    Outcome.PEER_REFUSED: ("other-program", "secrets-differ", "attempt-not-permitted"),
    Outcome.DATA_MISMATCH: ("memory-fault", "foreign-sender"),
    Outcome.LATE: ("deadline-short", "slow-path"),
    Outcome.PEER_FAILED: ("failed-at-peer",),
    Outcome.PEER_LOST: ("peer-gone", "peer-host-down"),
    Outcome.INTERRUPTED: ("interrupted",),
    Outcome.DIED: ("provider-fault", "no-memory"),
}


def stated_of_outcomes() -> Iterable[tuple[Known, Outcome]]:
    """Every cause that an outcome names by itself, without an errno or a status."""
    yield stated("thunderbolt-loopback"), Outcome.CALL_FAILED
    yield stated("only-teardown"), Outcome.TEARDOWN_FAILED
    yield from ((each, Outcome.NO_PEER) for each in no_peer.all_known())
    yield from ((each, Outcome.NO_DATA) for each in lost_data.all_known())
    yield from connecting.all_known()
    for labels, outcome, contexts in (
        (("cq-overrun", "device-removed"), Outcome.CALL_FAILED, (_POLL_CQ,)),
        (MISMATCHES.values(), Outcome.MISMATCH, ()),
        (_NO_DATA_RC, Outcome.NO_DATA, ()),
        *((labels, Outcome.NO_DATA, ()) for labels in _NO_DATA.values()),
        *((labels, Outcome.DIED, ("provider-crash",)) for labels in _CRASHES.values()),
        *((labels, outcome, ()) for outcome, labels in _BY_OUTCOME.items()),
    ):
        for label in labels:
            yield stated(label, *contexts, outcome), outcome


# --- what is known -----------------------------------------------------------------------


def _facts(attempt: Attempt) -> dict[str, str]:
    """What the templates may be filled with; what is not known is not in it.

    Names come from the library and from the peer: each is one word of the shell.
    """
    here, there = _ends(attempt)
    facts = {"on": "", "on_device": ""}
    if not _is_loopback(attempt):
        facts["away"] = ""
    if attempt.pid is not None:
        facts["pid"] = str(attempt.pid)
    if here is None:
        return facts
    at = shell_word(f"{here.device}:{here.port}")
    facts |= {
        "on": f" --device {at}",
        "on_device": f" -d {shell_word(here.device)}",
        "device": shell_word(here.device),
        "port": str(here.port),
        "sysfs": shell_word(f"/sys/class/infiniband/{here.device}"),
    }
    port = f"/sys/class/infiniband/{here.device}/ports/{here.port}"
    if here.link_layer is LinkLayer.THUNDERBOLT:
        facts["netdev"] = shell_word(here.device.removeprefix("rdma_"))
    if here.link_layer is LinkLayer.INFINIBAND:
        facts |= {"hca": facts["device"], "pkeys": shell_word(f"{port}/pkeys")}
    if here.link_layer is LinkLayer.ETHERNET and here.gid_index is not None:
        facts["ndev"] = shell_word(f"{port}/gid_attrs/ndevs/{here.gid_index}")
    return facts | (_path(here, there) if there else {})


def _ends(attempt: Attempt) -> tuple[EndFacts | None, EndFacts | None]:
    """The end that failed, and the other; both may be on this host."""
    where = "local"
    if attempt.completion:
        where = attempt.completion.end
    else:
        for step in attempt.steps:
            if step.stage is attempt.stage and (step.seconds is None or step.errno is not None):
                where = step.end
    if where == "remote" and attempt.remote:
        return attempt.remote, attempt.local
    return attempt.local, attempt.remote


def _is_loopback(attempt: Attempt) -> bool:
    """Whether this host held both ends."""
    return any(step.end == "remote" for step in attempt.steps)


def _path(here: EndFacts, there: EndFacts) -> dict[str, str]:
    """What leads from one end to the other: addresses, or LIDs; nothing from one to itself."""
    if here.link_layer is LinkLayer.INFINIBAND:
        if NO_LID & {here.lid, there.lid}:
            return {}
        return {"lid": str(here.lid), "to_lid": str(there.lid)}
    if here.gid is None or there.gid is None or here.gid.family is not there.gid.family:
        return {}
    source, target = _address(here.gid), _address(there.gid)
    if source == target:
        return {}
    if here.gid.is_ipv4_mapped:
        facts = {"source": source, "target": target}
    elif here.link_layer is LinkLayer.THUNDERBOLT:
        return {}  # a domain's UUID, or an address that no interface has
    elif there.gid.scope is Scope.LINK_LOCAL:
        facts = {"neighbour": target}  # of no use without its interface
    else:
        facts = {"source": source, "target": target}
    if here.mtu is not None and "target" in facts:
        facts["ping_bytes"] = str(here.mtu + _ROCE_HEADERS)
    return facts


def _address(gid: Gid) -> str:
    return gid.ipv4 or str(gid)


_ROCE_HEADERS: Final = 28
"""What a ping carries beyond the path MTU to be as long as a RoCE frame: GRH, BTH and ICRC are
56 bytes, of which IPv4 and ICMP have 28. An interface leaves 96 (iboe_get_mtu, ib_addr.h)."""


def _with_leftovers(lines: Lines, attempt: Attempt) -> Lines:
    """With the line that shows what was not put back, where that is not what it is about."""
    if attempt.teardown not in (Teardown.FAILED, Teardown.ABANDONED):
        return lines
    if attempt.outcome is Outcome.WATCHDOG:
        return lines
    template = LEFTOVERS.get(attempt.platform)
    check = fill((template,) if template else (), _facts(attempt))
    if not check or check[0] in lines:
        return lines
    return (*lines[: REMEDY - 1], check[0])


# --- remedies ----------------------------------------------------------------------------


def _templates(attempt: Attempt) -> Lines:
    return (*lost_data.port_remedy(attempt), *_usual(attempt))


def _usual(attempt: Attempt) -> Lines:
    platform, outcome = attempt.platform, attempt.outcome
    if lost_data.is_lost_data(attempt):
        return lost_data.remedy(attempt)
    if outcome is Outcome.NO_PEER:
        return no_peer.remedy(attempt)
    if outcome in (Outcome.CM_EVENT, Outcome.NO_EVENT):
        return connecting.after(attempt)
    if outcome is Outcome.COMPLETION_ERROR:
        return after_completion(attempt.completion.status if attempt.completion else 0, platform)
    if outcome is Outcome.CALL_FAILED:
        number = None if attempt.call == _POLL_CQ else attempt.errno or 0
        return after_call(number, attempt.stage, platform)
    if outcome is Outcome.PEER_FAILED and _is_late_at_peer(attempt):
        return _AFTER_OUTCOME[platform, Outcome.LATE]
    if outcome is Outcome.PEER_FAILED and attempt.peer_failure:
        way = PATH.get(platform, ()) if attempt.peer_failure.stage == Stage.RTR else ()
        return (ASK_PEER, *way)
    if outcome is Outcome.MISMATCH:
        codes = [each.code for each in attempt.problems] or [""]
        return tuple(line for code in codes for line in _AFTER_MISMATCH.get(code, _CHOOSE))
    return _AFTER_OUTCOME.get((platform, outcome), ())


_REFUSED: Final = (
    "# give both ends the same --secret-file, or neither one",
    "rdmadiag --version   # on both hosts",
    PREFLIGHT_AT_PEER,
)
_CHOOSE: Final = (
    GIDS,
    "# at the peer as well: rdmadiag gids; then choose rows of one kind and one subnet",
)
_SAME_OPTIONS: Final = ("# start both ends with the same --qp, --bytes and --iterations",)
_PORTS: Final = ("rdmadiag preflight   # here and at the peer",)

_AFTER_MISMATCH: Final[dict[str, Lines]] = {
    "link_layer_mismatch": (DEVICES_OF_BOTH,),
    "port_not_active": _PORTS,
    "not_permitted": _PORTS,
    "mtu_above_port": (ACTIVE_MTU,),
    "qp_type_mismatch": _SAME_OPTIONS,
    "payload_bytes_mismatch": _SAME_OPTIONS,
    "iterations_mismatch": _SAME_OPTIONS,
}

_AFTER_OUTCOME: Final[dict[tuple[str, Outcome], Lines]] = {
    ("linux", Outcome.PEER_REFUSED): _REFUSED,
    ("darwin", Outcome.PEER_REFUSED): _REFUSED,
    ("linux", Outcome.DATA_MISMATCH): remedy("acs-or-iommu", "linux"),
    ("darwin", Outcome.DATA_MISMATCH): (MAC_LOG, PREFLIGHT),
    ("linux", Outcome.NO_DATA): (ASK_PEER, *PATH["linux"], PING_OF_MTU),
    ("darwin", Outcome.NO_DATA): (
        ASK_PEER,
        "ifconfig {netdev} | grep status",
        *PATH["darwin"],
        NO_REPEAT,
    ),
    ("linux", Outcome.LATE): (SHORTER,),
    ("darwin", Outcome.LATE): (SHORTER, "rdmadiag preflight   # before any further RTR"),
    ("linux", Outcome.PEER_FAILED): (ASK_PEER,),
    ("darwin", Outcome.PEER_FAILED): (ASK_PEER,),
    ("linux", Outcome.PEER_LOST): (ASK_PEER, *PATH["linux"]),
    ("darwin", Outcome.PEER_LOST): (
        ASK_PEER,
        "rdmadiag preflight   # at the peer: does its driver still answer?",
    ),
    ("linux", Outcome.TEARDOWN_FAILED): remedy("object-in-use", "linux"),
    ("darwin", Outcome.TEARDOWN_FAILED): remedy("object-in-use", "darwin"),
    ("linux", Outcome.DIED): (
        "sudo dmesg | tail -50   # the segfault names the library",
        "ibv_devinfo -d {device}   # does it crash as well?",
        PROVIDERS,
    ),
    ("darwin", Outcome.DIED): (
        CRASH_REPORTS,
        THUNDERBOLT_SPEED,
        "ifconfig {netdev} | grep status",
        MAC_LOG,
    ),
    ("linux", Outcome.WATCHDOG): (
        "sudo cat /proc/{pid}/stack   # where the kernel holds it, while it is still there",
        DMESG,
        LEFTOVERS["linux"],
        "# process {pid} cannot be killed: what it holds comes back with the driver, or a reboot",
    ),
    ("darwin", Outcome.WATCHDOG): (
        *remedy("driver-wedged", "darwin"),
        "# process {pid} cannot be killed: a reboot alone ends it",
    ),
}
