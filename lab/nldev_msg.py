"""Messages of RDMA netlink as pyroute2 writes and reads them: apart from rdmadiag's own reading."""

from typing import Any, ClassVar

from pyroute2.netlink import nla, nlmsg

from rdmadiag.sources.nldev_messages import ATTRIBUTES


class nldev_nla(nla):  # type: ignore[misc]  # noqa: N801  # pyroute2 names message classes after the kernel's
    """An attribute that holds attributes of the same numbering."""

    prefix = "RDMA_NLDEV_"
    nla_map = ATTRIBUTES
    nest: ClassVar[type]


# pyroute2's own "nested" resolves to the enclosing nlmsg with its header, and yields raw bytes.
nldev_nla.nest = nldev_nla


class nldev_msg(nlmsg):  # type: ignore[misc]  # noqa: N801
    """An nldev message: attributes directly behind the netlink header."""

    prefix = "RDMA_NLDEV_"
    nla_map = ATTRIBUTES
    nest = nldev_nla


def decoded(reply: bytes) -> Any:
    """The first message of a reply."""
    message = nldev_msg(reply)
    message.decode()
    return message
