"""Whom the ends that send datagrams get theirs from: the peer, or the members of a group."""

from typing import Final

from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.cm import CmEvent
from rdmadiag.facts.gid import Gid
from rdmadiag.verbs import protocol, records
from rdmadiag.verbs.cm_events import RESOLVE_SECONDS
from rdmadiag.verbs.cm_objects import AddressInfo, Datagrams
from rdmadiag.verbs.cm_outcome import OtherGroup
from rdmadiag.verbs.cm_steps import Steps
from rdmadiag.verbs.cm_talk import Talk
from rdmadiag.verbs.cm_ud import Member, Sender, UdEnd
from rdmadiag.verbs.recorded_caller import RecordedCaller
from rdmadiag.verbs.records import EndName

JOIN_SECONDS: Final = 10.0
"""For a subnet manager to answer; RoCE asks nobody."""


def introduce(steps: Steps, local: UdEnd, remote: UdEnd, found: Datagrams) -> None:
    """The end that accepted learns by the first message whom it is to answer."""
    local.address(found)
    local.receive_from(found)
    parts = steps.bounds, steps.glance, steps.events.fd
    Talk(local, *parts, "connect").send("introduction")
    Talk(remote, *parts, "listen").receive("introduction")


def join_both(steps: Steps, group: str) -> None:
    """Both ends are members, and none connects to the other."""
    local = _join(steps, steps.local, EndName.LOCAL, group)
    remote = _join(steps, steps.remote, EndName.REMOTE, group)
    for one, other in ((local, remote), (remote, local)):
        peer = other.identifier
        addresses = one.identifier.own, peer.own
        _knows(steps, one, other.queue_pair.number, peer.gid, addresses)


def meet_in_group(steps: Steps, talk: Talk, theirs: object) -> None:
    """Where both ends want a group: join it, and say which queue pair is in it."""
    group = steps.request.group
    if theirs != group:
        raise OtherGroup(group, theirs)
    if group is None:
        return
    member = _join(steps, steps.local, EndName.LOCAL, group)
    content = {"queue_pair": member.queue_pair.number, "gid": str(member.identifier.gid)}
    talk.patience += RESOLVE_SECONDS + JOIN_SECONDS  # which the other end may take
    said = talk.barrier("joined", **content)
    met = steps.sides[0].identifier
    _knows(steps, member, *protocol.member(said), (met.own, met.peer))


def _join(steps: Steps, caller: RecordedCaller, name: EndName, group: str) -> Member:
    """A member of the group, on this end's device."""
    at = list(EndName).index(name)
    own, facts = steps.request.members[at], steps.request.ends[at]
    side = steps.resolve_address(caller, name, group, 0, own, steps.members)
    request = steps.request
    member = Member(caller, side.identifier, facts, request.sizes, events=request.events)
    side.end = member
    steps.begin(Stage.JOIN)
    info = steps.do(Stage.JOIN, lambda: AddressInfo(caller, group, 0, facts.qp_type))
    try:
        member.join(info)
    finally:
        info.close()
    came = steps.wait(side, Stage.JOIN, CmEvent.MULTICAST_JOIN, JOIN_SECONDS)
    member.address(came.datagrams)
    steps.transcript.write(records.GroupJoined(end=name, group=group))
    return member


def _knows(
    steps: Steps, member: Member, queue_pair: int, gid: Gid, addresses: tuple[str, str]
) -> None:
    """Whom a member gets its messages from: its own, and strangers', are left out.

    `addresses` are those of this end and of the other, as the connection shows them.
    """
    member.sender = Sender(queue_pair, gid)
    side = next(each for each in steps.members if each.end is member)
    attributes = steps.attributes(side)
    attributes.dest_qp_num = queue_pair
    steps.show(side, attributes, addresses)
