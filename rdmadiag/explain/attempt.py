"""From a finished pingpong attempt to its likely causes and what to check next; pure.

A remedy is lines to paste, advice behind "#". They are templates, filled in with what is
known of the attempt; a line that asks for more than that is left out, so that one list
serves RoCE, InfiniBand and an attempt that ended before it knew its peer.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from rdmadiag.explain.causes import ANY, RTR, causes, hanging
from rdmadiag.explain.completions import completion, vendor
from rdmadiag.facts.errnos import Platform
from rdmadiag.facts.gid import Gid, Scope
from rdmadiag.facts.ib import NO_LID, LinkLayer, QpType
from rdmadiag.facts.pingpong import Attempt, EndFacts, Outcome, Stage, Teardown
from rdmadiag.quoting import shell_word

Lines = tuple[str, ...]

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
    found = tuple(dict.fromkeys(_causes(attempt)))[:CAUSES]
    lines = _with_leftovers(fill(_templates(attempt), _facts(attempt)), attempt)
    if not found and not lines:
        lines = (_PREFLIGHT,)
    return Advice(found, lines[:REMEDY])


# --- causes ------------------------------------------------------------------------------


def _causes(attempt: Attempt) -> Iterable[str]:
    outcome = attempt.outcome
    if attempt.stage in (RTR, Stage.DATA) and _reaches_itself(attempt):
        yield "perhaps a Thunderbolt port does not reach itself: name two with --device, or a peer"
    if outcome is Outcome.NO_PEER:
        yield from _NO_PEER[attempt.role or "connect"]
        return
    yield from _causes_by_outcome(attempt)


def _reaches_itself(attempt: Attempt) -> bool:
    """Nobody has told whether that works."""
    here, there = attempt.local, attempt.remote
    if here is None or there is None or not _is_loopback(attempt):
        return False
    return here.link_layer is LinkLayer.THUNDERBOLT and here.device == there.device


def _causes_by_outcome(attempt: Attempt) -> Iterable[str]:
    outcome, platform = attempt.outcome, attempt.platform
    if outcome is Outcome.CALL_FAILED:
        if attempt.call == "poll_cq":  # it promises no errno: man ibv_poll_cq
            return _UNREADABLE_QUEUE
        return causes(attempt.errno or 0, attempt.stage, platform)
    if outcome is Outcome.TEARDOWN_FAILED:
        return (*causes(attempt.errno or 0, Stage.TEARDOWN, platform), *_ONLY_TEARDOWN)
    if outcome is Outcome.COMPLETION_ERROR:
        return _causes_of_completion(attempt)
    if outcome is Outcome.MISMATCH:
        return (_MISMATCHES[each.code] for each in attempt.problems if each.code in _MISMATCHES)
    if outcome is Outcome.WATCHDOG:
        return hanging(platform)
    if outcome is Outcome.NO_DATA:
        unreliable = attempt.local is not None and attempt.local.qp_type is QpType.UC
        return (*(_NO_DATA_UC if unreliable else _NO_DATA_RC), *_NO_DATA.get(platform, ()))
    if outcome is Outcome.DIED:
        return _DIED.get((platform, attempt.stage), _DIED_ANYWHERE)
    return _BY_OUTCOME.get(outcome, ())


def _causes_of_completion(attempt: Attempt) -> Iterable[str]:
    bad = attempt.completion
    if bad is None:
        return
    if found := completion(bad.status):
        yield from found.causes
    if known := vendor(bad.status, bad.vendor_error):
        yield f"with {known.provider}, vendor error {bad.vendor_error} {known.meaning}"


_UNREADABLE_QUEUE: Final = (
    "perhaps more completions came than the queue holds",
    "perhaps the device was removed or reset",
)
_ONLY_TEARDOWN: Final = ("the data had arrived: only putting things back failed",)

# Codes of verbs.endpoint.mismatches.
_MISMATCHES: Final = {
    "link_layer_mismatch": "the devices are of two kinds: one of them is not the one meant",
    "port_not_active": "a port has no link, or waits for its subnet manager",
    "not_permitted": "a preflight found a reason against an attempt",
    "mtu_above_port": "a path MTU was asked for that a port does not have",
    "gid_type_mismatch": "one end uses a RoCE v1 row of its GID table, the other a v2 row",
    "address_family_mismatch": "one end uses an IPv4 GID, the other an IPv6 GID",
    "subnet_mismatch": "the two addresses are on different cables, rails or VLANs",
    "qp_type_mismatch": "the ends were started with different queue pair types",
    "payload_bytes_mismatch": "the ends were started with different payloads",
    "iterations_mismatch": "the ends were started with different numbers of iterations",
}

_NO_DATA_UC: Final = (
    "UC gives no error for a lost message: the path drops frames, or the peer has stopped",
)
_NO_DATA_RC: Final = (
    # rxe_comp.c of the kernel: 7 is never counted down
    "the peer posts no receive: this queue pair then retries without end (rnr_retry 7)",
    "the peer's program hangs or is stopped",
)
_NO_DATA: Final = {
    # ml-explore/mlx#3910, #4278; exo PR#2160; TN3205 and JACCL: the MTU must match
    "darwin": (
        "the link dropped, or the peer's driver is wedged",
        "each end named another of several cables",
        "the two ends use different path MTUs",
    ),
    "linux": ("perhaps frames of the path MTU do not get through",),
}
_DIED: Final = {
    # exo-explore/exo#2186, omlx#3037: a NULL protection domain
    ("darwin", Stage.REG_MR): ("the hardware is Thunderbolt 4, which has no RDMA",),
    # ml-explore/mlx#4192, #4319; exo#1847
    ("darwin", Stage.DATA): (
        "the link dropped while the provider used it",
        "the provider has crashed so with the link up, too",
    ),
}
_DIED_ANYWHERE: Final = (
    "the provider library crashed",
    "perhaps somebody else ended the process: the kernel, when memory ran out",
)
_NO_PEER: Final = {
    "connect": (
        "nobody listens there: the other end is not started yet, or has given up",
        "another address or TCP port than the one it listens on",
        "a firewall drops the TCP connection",
    ),
    "listen": (
        "the other end was not started, or its own preflight kept it from coming",
        "it went to another address or TCP port",
        "a firewall drops the TCP connection",
    ),
}
_BY_OUTCOME: Final[dict[Outcome, Lines]] = {
    Outcome.PEER_REFUSED: (
        "another program listens there, or another version of this one",
        "the two ends have different secrets, or only one has one",
        "perhaps the peer's preflight does not permit an attempt",
    ),
    Outcome.DATA_MISMATCH: (
        "perhaps a fault of memory, of the PCIe path or of the IOMMU",
        "perhaps another queue pair sent to this one",
    ),
    Outcome.LATE: (
        "the deadline was too short for so many round trips",
        "perhaps a slow path, or a busy host",
    ),
    Outcome.PEER_FAILED: ("what failed is at the peer; this end only heard of it",),
    Outcome.PEER_LOST: (
        "the peer's program was ended, or hangs",
        "the peer's host or its network went down",
    ),
    Outcome.INTERRUPTED: ("a signal, or the end of the command that had started it",),
}


# --- what is known -----------------------------------------------------------------------


def _facts(attempt: Attempt) -> dict[str, str]:
    """What the templates may ask for; what is not known is not in it.

    Names come from the library and from the peer: each is one word of the shell.
    """
    here, there = _ends(attempt)
    facts = {"on": ""}
    if not _is_loopback(attempt):
        facts["away"] = ""
    if attempt.pid is not None:
        facts["pid"] = str(attempt.pid)
    if here is None:
        return facts
    at = shell_word(f"{here.device}:{here.port}")
    facts |= {
        "on": f" --device {at}",
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


def fill(templates: Iterable[str], facts: dict[str, str]) -> Lines:
    """The lines with what is known in them, without those that ask for more."""
    lines = []
    for template in templates:
        try:
            lines.append(template.format_map(facts))
        except KeyError:
            continue
    return tuple(dict.fromkeys(lines))


def _with_leftovers(lines: Lines, attempt: Attempt) -> Lines:
    """With the line that shows what was not put back, where that is not what it is about."""
    if attempt.teardown not in (Teardown.FAILED, Teardown.ABANDONED):
        return lines
    if attempt.outcome is Outcome.WATCHDOG:
        return lines
    check = fill(_LEFTOVERS.get(attempt.platform, ()), _facts(attempt))
    if not check or check[0] in lines:
        return lines
    return (*lines[: REMEDY - 1], check[0])


# --- remedies ----------------------------------------------------------------------------


def _templates(attempt: Attempt) -> Lines:
    platform, outcome = attempt.platform, attempt.outcome
    if outcome is Outcome.COMPLETION_ERROR:
        return after_completion(attempt.completion.status if attempt.completion else 0, platform)
    if outcome is Outcome.CALL_FAILED:
        number = None if attempt.call == "poll_cq" else attempt.errno or 0
        return after_call(number, attempt.stage, platform)
    if outcome is Outcome.PEER_FAILED and attempt.peer_failure:
        way = _PATH.get(platform, ()) if attempt.peer_failure.stage == RTR else ()
        return (*_ASK_PEER, *way)
    if outcome is Outcome.MISMATCH:
        codes = [each.code for each in attempt.problems] or [""]
        return tuple(line for code in codes for line in _AFTER_MISMATCH.get(code, _CHOOSE))
    return _AFTER_OUTCOME.get((platform, outcome), ())


def after_completion(status: int, platform: Platform) -> Lines:
    """Templates of what to check after a completion with this status."""
    return _AFTER_COMPLETION.get((platform, status), _LOG.get(platform, ()))


def after_call(errno: int | None, stage: str, platform: Platform) -> Lines:
    """Templates by stage and errno, else by the errno, else by the stage."""
    for where, number in ((stage, errno), (ANY, errno), (stage, None)):
        if found := _AFTER_CALL.get((platform, where, number)):
            return found
    return (*_LOG.get(platform, ()), "rdmadiag preflight")


_GIDS: Final = "rdmadiag gids{on}"
_PREFLIGHT: Final = "rdmadiag preflight"
_DMESG: Final = "sudo dmesg | tail -50"
_MAC_LOG: Final = (
    "sudo log show --last 5m --info --debug --predicate "
    "'subsystem == \"com.apple.AppleThunderboltRDMA\"'"
)
_LOG: Final = {"linux": (_DMESG,), "darwin": (_MAC_LOG,)}

_LEFTOVERS: Final = {
    "linux": ("rdma res show qp link {device}   # was anything left behind?",),
    "darwin": ("ioreg -r -l -c AppleThunderboltRDMAInterface -n {device}   # anything left?",),
}
_ASK_PEER: Final = ("# look at what the peer printed: it names what failed{away}",)

_PATH: Final = {
    "linux": (
        "ip route get {target} from {source}",
        "ip neigh show {target}",
        "ping -c 1 -I {source} {target}",
        'ping -c 1 -I "$(cat {ndev})" {neighbour}',
        'ip neigh show {neighbour} dev "$(cat {ndev})"',
        "sudo ibtracert -C {hca} -P {port} {lid} {to_lid}",
        "sudo sminfo -C {hca} -P {port}   # does a subnet manager answer?",
    ),
    "darwin": (
        "route -n get {target}   # by the interface of this port?",
        "arp -an | grep -F '({target})'   # the address of the peer, not of this Mac",
        "ping -c 1 -S {source} {target}",
    ),
}
_NO_REPEAT: Final = "# no second RTR before something has changed: failed ones wedge the driver"
_REBOOT: Final = "sudo shutdown -r now   # what has no owner any more goes with a reboot alone"
_HOLDERS: Final = (
    "ioreg -r -l -c AppleThunderboltRDMAInterface -n {device}   # IOUserClientCreator: who holds it"
)
_MAC_ADDRESS: Final = (
    _GIDS,
    "ifconfig {netdev} | grep 'inet '",
    "ifconfig bridge0 | grep member   # a member has no address of its own",
)
_UNWEDGE: Final = (
    "# start no other RDMA program: it would hang too, and make it worse",
    "ifconfig bridge0 | grep member   # is this port among them?",
    "# if it is: no replug, which wedges the driver as well, but a reboot",
    "# else unplug the cable, wait ten seconds, plug it in, and look once: rdmadiag preflight",
    "sudo shutdown -r now   # if it still hangs; nothing less has helped",
)
_MEMLOCK: Final = (
    "ulimit -l",
    "echo '* - memlock unlimited' | sudo tee /etc/security/limits.d/rdma.conf   # log in again",
    "# raise it for a service (slurmd, kubelet, sshd): LimitMEMLOCK=infinity in its unit",
    "# in a container: docker run --ulimit memlock=-1 --cap-add=IPC_LOCK IMAGE",
    "rdma res show {device}   # or are its objects used up?",
)
_CGROUP: Final = (
    "grep -rs hca_ /sys/fs/cgroup --include=rdma.max | grep -v 'handle=max hca_object=max'",
    _DMESG,
)
_NAMESPACE: Final = (
    _GIDS,
    "cat {ndev}   # the interface of this GID",
    "ip -brief address   # is it here, and has it the GID?",
    "# a container needs host networking, or an interface of the NIC (SR-IOV, macvlan)",
)
_NODE: Final = (
    "ls -l /dev/infiniband/",
    "sudo modprobe ib_uverbs",
    "# in a container: docker run --device=/dev/infiniband --cap-add=IPC_LOCK IMAGE",
)
_KIND: Final = (
    "cat {sysfs}/node_type   # RNIC: iWARP, which rdma_cm alone connects",
    "ibv_devinfo -v -d {device}",
    _DMESG,
)
_PARTITION: Final = "grep -rv 0x0000 {pkeys}   # the partition keys of the port"
_GONE: Final = (_DMESG, "ls /sys/class/infiniband", "rdma link")

_AFTER_CALL: Final[dict[tuple[str, str, int | None], Lines]] = {
    ("linux", Stage.OPEN, 0): (
        "ibv_devices   # what it writes on stderr names the reason",
        "ls -l /dev/infiniband/",
        "dpkg -l ibverbs-providers || rpm -q libibverbs   # as new as the kernel?",
    ),
    ("linux", Stage.OPEN, 1): (
        "rdma system show   # exclusive: a device belongs to one network namespace",
        "ls -l /dev/infiniband/",
        "# in a container: docker run --device=/dev/infiniband --cap-add=IPC_LOCK IMAGE",
    ),
    ("linux", Stage.OPEN, 2): _NODE,
    ("linux", Stage.OPEN, 6): _NODE,
    ("linux", Stage.OPEN, 38): ("sudo modprobe ib_uverbs", "ibv_devices", _DMESG),
    ("linux", Stage.OPEN, 95): (
        "dpkg -l ibverbs-providers || rpm -q libibverbs   # of the same release as the driver?",
        "ofed_info -s   # is MLNX_OFED installed?",
        _DMESG,
    ),
    ("linux", Stage.OPEN, 13): (
        "ls -l /dev/infiniband/",
        "id   # is this user the owner, or in the group?",
        "# 0666 is the mode that the kernel asks udev for: sudo chmod 0666 NODE",
    ),
    ("linux", Stage.OPEN, 12): (_DMESG, "rdma res show ctx   # who has devices open", "free -m"),
    ("linux", Stage.ALLOC_PD, 12): ("rdma res show {device}", _DMESG, "free -m"),
    ("linux", Stage.REG_MR, 1): _MEMLOCK,
    ("linux", Stage.REG_MR, 12): _MEMLOCK,
    ("linux", Stage.CREATE_CQ, 12): _MEMLOCK,
    ("linux", Stage.CREATE_QP, 12): _MEMLOCK,
    ("linux", Stage.CREATE_CQ, 22): ("ibv_devinfo -v -d {device} | grep max_cqe", _DMESG),
    ("linux", Stage.CREATE_QP, 22): (
        "ibv_devinfo -v -d {device} | grep -E 'max_qp_wr|max_sge'",
        _DMESG,
    ),
    ("linux", Stage.CREATE_QP, 38): _KIND,
    ("linux", Stage.CREATE_QP, 95): _KIND,
    ("linux", Stage.INIT, 13): ("getenforce", "sudo ausearch -m avc -ts recent", _PARTITION),
    ("linux", Stage.INIT, 22): (_PARTITION, "ibv_devinfo -d {device}   # its ports", _DMESG),
    ("linux", RTR, 110): (*_PATH["linux"], _GIDS),
    ("linux", RTR, 101): (*_PATH["linux"], _GIDS, "ip -brief address"),
    ("linux", RTR, 113): (*_PATH["linux"], _GIDS, "ip route show table all type unreachable"),
    ("linux", RTR, 61): (
        _GIDS,
        "# choose a row that is not empty: --gid-index",
        "ip -brief address",
    ),
    ("linux", RTR, 19): _NAMESPACE,
    ("linux", RTR, 99): _NAMESPACE,
    ("linux", RTR, 22): (
        _GIDS,
        'ip address show dev "$(cat {ndev})"   # has it the GID?',
        "ibv_devinfo -d {device} -i {port} | grep active_mtu",
        _DMESG,
    ),
    ("linux", Stage.RTS, None): _KIND,
    ("linux", Stage.TEARDOWN, None): (*_LEFTOVERS["linux"], _DMESG),
    ("linux", ANY, 5): _GONE,
    ("linux", Stage.OPEN, 11): _CGROUP,
    ("linux", Stage.ALLOC_PD, 11): _CGROUP,
    ("linux", Stage.REG_MR, 11): _CGROUP,
    ("linux", Stage.CREATE_CQ, 11): _CGROUP,
    ("linux", Stage.CREATE_QP, 11): _CGROUP,
    ("linux", ANY, 19): _GONE,
    ("linux", ANY, 110): _GONE,
    ("darwin", Stage.OPEN, None): ("rdma_ctl status", "ibv_devices", _PREFLIGHT),
    ("darwin", Stage.ALLOC_PD, None): (
        _HOLDERS,
        "ibv_devinfo -d {device} | grep state   # PORT_DOWN?",
        _PREFLIGHT,
        _REBOOT,
    ),
    ("darwin", Stage.REG_MR, None): (
        _HOLDERS,
        "ibv_devinfo -v -d {device} | grep max_mr",
        _PREFLIGHT,
    ),
    ("darwin", Stage.CREATE_QP, 16): (_HOLDERS, _REBOOT),
    ("darwin", Stage.CREATE_QP, 102): ("# leave --qp rc out: Thunderbolt has UC alone",),
    ("darwin", RTR, 102): ("# leave --qp rc out: Thunderbolt has UC alone", _NO_REPEAT),
    ("darwin", RTR, 16): (_NO_REPEAT, _HOLDERS, _REBOOT),
    ("darwin", RTR, 60): (*_PATH["darwin"][:2], _NO_REPEAT, *_MAC_ADDRESS),
    ("darwin", RTR, None): (*_MAC_ADDRESS, _NO_REPEAT, *_PATH["darwin"][:2]),
    ("darwin", ANY, 60): _UNWEDGE,
    ("darwin", Stage.TEARDOWN, None): (*_LEFTOVERS["darwin"], _REBOOT),
}
"""None: whatever the errno."""

_INSTANT: Final = "# at once: GID or routing; after a while: loss, or a link that flaps"
_MTU: Final = "ping -M do -s {ping_bytes} -c 1 -I {source} {target}   # as long as its frames"
_AT_PEER: Final = "# the cause is at the peer: look at what it printed, and at its kernel log"
_REDIRECTED: Final = (
    _DMESG,
    "cat /proc/cmdline   # iommu=pt?",
    "sudo lspci -vvv | grep -i acsctl   # ReqRedir+ on a bridge: ACS redirects",
)

_AFTER_COMPLETION: Final[dict[tuple[str, int], Lines]] = {
    ("linux", 1): ("# compare payload and path MTU of both ends", _MTU),
    ("linux", 4): _REDIRECTED,
    ("linux", 5): (*_ASK_PEER, _DMESG, _INSTANT, *_PATH["linux"]),
    ("linux", 9): (_AT_PEER, _DMESG),
    ("linux", 10): (_AT_PEER, _DMESG),
    ("linux", 11): (_AT_PEER, _DMESG),
    ("linux", 12): (*_PATH["linux"], _MTU, _PARTITION, _INSTANT, _GIDS),
    ("linux", 13): (*_ASK_PEER, "# at the peer: is its program stopped, or its host overloaded?"),
    ("darwin", 5): (*_ASK_PEER, _MAC_LOG),
    ("darwin", 9): (_AT_PEER, _MAC_LOG),
    ("darwin", 10): (_AT_PEER, _MAC_LOG),
    ("darwin", 11): (_AT_PEER, _MAC_LOG),
    ("darwin", 12): (*_PATH["darwin"], _NO_REPEAT, _GIDS),
    ("darwin", 13): _ASK_PEER,
}

_SAME_SECRET: Final = "# give both ends the same --secret-file, or neither one"  # noqa: S105
_REFUSED: Final = (
    _SAME_SECRET,
    "rdmadiag --version   # on both hosts",
    "rdmadiag preflight   # at the peer",
)
_CHOOSE: Final = (
    _GIDS,
    "# at the peer as well: rdmadiag gids; then choose rows of one kind and one subnet",
)
_SAME_OPTIONS: Final = ("# start both ends with the same --qp, --bytes and --iterations",)
_PORTS: Final = ("rdmadiag preflight   # here and at the peer",)

_AFTER_MISMATCH: Final[dict[str, Lines]] = {
    "link_layer_mismatch": ("rdmadiag devices   # here and at the peer: which one is meant?",),
    "port_not_active": _PORTS,
    "not_permitted": _PORTS,
    "mtu_above_port": ("ibv_devinfo -d {device} -i {port} | grep active_mtu",),
    "qp_type_mismatch": _SAME_OPTIONS,
    "payload_bytes_mismatch": _SAME_OPTIONS,
    "iterations_mismatch": _SAME_OPTIONS,
}
_SHORTER: Final = "# another time: fewer --iterations, or a longer --deadline"

_AFTER_OUTCOME: Final[dict[tuple[str, Outcome], Lines]] = {
    ("linux", Outcome.NO_PEER): (
        "ss -tln   # at the listening end: is it there, and at which address and TCP port?",
        "sudo nft list ruleset   # does a firewall drop that TCP port?",
    ),
    ("darwin", Outcome.NO_PEER): (
        "netstat -an -p tcp | grep LISTEN   # at the listening end: which address and TCP port?",
        # errno 65 of connect(2): Apple's Local Network privacy
        "# No route to host? Settings > Privacy & Security > Local Network: allow the terminal",
    ),
    ("linux", Outcome.PEER_REFUSED): _REFUSED,
    ("darwin", Outcome.PEER_REFUSED): _REFUSED,
    ("linux", Outcome.DATA_MISMATCH): _REDIRECTED,
    ("darwin", Outcome.DATA_MISMATCH): (_MAC_LOG, _PREFLIGHT),
    ("linux", Outcome.NO_DATA): (*_ASK_PEER, *_PATH["linux"], _MTU),
    ("darwin", Outcome.NO_DATA): (
        *_ASK_PEER,
        "ifconfig {netdev} | grep status",
        *_PATH["darwin"],
        _NO_REPEAT,
    ),
    ("linux", Outcome.LATE): (_SHORTER,),
    ("darwin", Outcome.LATE): (_SHORTER, "rdmadiag preflight   # before any further RTR"),
    ("linux", Outcome.PEER_FAILED): _ASK_PEER,
    ("darwin", Outcome.PEER_FAILED): _ASK_PEER,
    ("linux", Outcome.PEER_LOST): (*_ASK_PEER, *_PATH["linux"]),
    ("darwin", Outcome.PEER_LOST): (
        *_ASK_PEER,
        "rdmadiag preflight   # at the peer: does its driver still answer?",
    ),
    ("linux", Outcome.TEARDOWN_FAILED): (*_LEFTOVERS["linux"], _DMESG),
    ("darwin", Outcome.TEARDOWN_FAILED): (*_LEFTOVERS["darwin"], _REBOOT),
    ("linux", Outcome.DIED): (
        "sudo dmesg | tail -50   # the segfault names the library",
        "ibv_devinfo -d {device}   # does it crash as well?",
        "dpkg -l ibverbs-providers || rpm -q libibverbs   # as new as the kernel?",
    ),
    ("darwin", Outcome.DIED): (
        "ls -t ~/Library/Logs/DiagnosticReports | head -3   # the newest names the call",
        "system_profiler SPThunderboltDataType | grep Speed   # 40 Gb/s: Thunderbolt 4",
        "ifconfig {netdev} | grep status",
        _MAC_LOG,
    ),
    ("linux", Outcome.WATCHDOG): (
        "sudo cat /proc/{pid}/stack   # where the kernel holds it, while it is still there",
        _DMESG,
        *_LEFTOVERS["linux"],
        "# process {pid} cannot be killed: what it holds comes back with the driver, or a reboot",
    ),
    ("darwin", Outcome.WATCHDOG): (
        *_UNWEDGE,
        "# process {pid} cannot be killed: a reboot alone ends it",
    ),
}
