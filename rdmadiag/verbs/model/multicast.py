"""Multicast: a UD queue pair that gets what is sent to a group."""

from rdmadiag.facts.gid import Gid
from rdmadiag.verbs.model.constants import QPType
from rdmadiag.verbs.model.lifetime import Held
from rdmadiag.verbs.model.queue_pair import QP
from rdmadiag.verbs.objects import GroupMember


class Membership(Held[GroupMember]):
    """ibv_attach_mcast; closing it is ibv_detach_mcast."""

    kind = "multicast membership"


def attach_mcast(qp: QP, group: Gid) -> Membership:
    """Have what is sent to `group` come to a UD queue pair.

    On RoCE the group is an address that the host joins, on InfiniBand one that a subnet
    manager has made before. Raises CallFailed and ValueError.
    """
    if qp.qp_type is not QPType.UD:
        raise ValueError(f"{qp.qp_type.name} has no multicast")
    with qp.session.lock:
        made = GroupMember(qp.session.call, qp.made, group.raw)
        return Membership(qp.session, made, qp)
