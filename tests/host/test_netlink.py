"""Netlink framing, the list of requests that may be sent, and exchanges with this kernel."""

import errno
import logging
import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.host import netlink
from rdmadiag.host.netlink import (
    NETLINK_RDMA,
    NETLINK_ROUTE,
    NLM_F_DUMP,
    NLM_F_DUMP_INTR,
    NLM_F_MULTI,
    NLM_F_REQUEST,
    Message,
    NotARead,
)
from rdmadiag.sources.pyroute2_messages import decode, ifinfmsg

NLMSG_NOOP, NLMSG_ERROR, NLMSG_DONE = 1, 2, 3
RTM_NEWLINK, RTM_DELLINK, RTM_GETLINK, RTM_SETLINK = 16, 17, 18, 19
# facts/nldev.md, "rdmadiag should hard-allowlist"
READS = {1, 5, 6, 9, 10, 11, 12, 13, 14, 15, 17, 22, 23, 24}
NLDEV = 5 << 10


def message(kind, payload=b"", flags=0, sequence=0):
    """A netlink message as linux/netlink.h lays it out, padded to four bytes."""
    whole = struct.pack("=IHHII", 16 + len(payload), kind, flags, sequence, 0) + payload
    return whole + bytes(-len(whole) % 4)


LINK = struct.pack("=BxHiII", 0, 772, 1, 0x49, 0)  # struct ifinfomsg of lo


def link_request(kind=RTM_GETLINK, flags=NLM_F_REQUEST | NLM_F_DUMP):
    return message(kind, struct.pack("=BxHiII", 0, 0, 0, 0, 0), flags)


# --- framing ----------------------------------------------------------------------------


def test_messages_are_found_one_after_the_other():
    buffer = message(20, b"abcde", NLM_F_MULTI, 7) + message(NLMSG_DONE, bytes(4), NLM_F_MULTI, 7)
    assert list(netlink.messages(buffer)) == [
        Message(0, 21, 20, NLM_F_MULTI, 7),
        Message(24, 20, NLMSG_DONE, NLM_F_MULTI, 7),
    ]


def test_no_bytes_are_no_messages():
    assert list(netlink.messages(b"")) == []


@pytest.mark.parametrize(
    ("buffer", "reason"),
    [
        (message(20)[:15], "inside a header, at byte 0"),
        (message(20, b"1234")[:19], "inside a message, at byte 0"),
        (message(20) + message(20)[:3], "inside a header, at byte 16"),
        (struct.pack("=IHHII", 15, 20, 0, 0, 0), "inside a message, at byte 0"),
        (struct.pack("=IHHII", 0, 20, 0, 0, 0), "inside a message, at byte 0"),
        (struct.pack("=IHHII", 2**32 - 1, 20, 0, 0, 0), "inside a message, at byte 0"),
    ],
    ids=[
        "cut in a header",
        "cut in a message",
        "cut in the second header",
        "a length below that of a header",
        "a length of zero",
        "a length of four gigabytes",
    ],
)
def test_a_reply_that_is_cut_short_is_a_value_error_with_its_place(buffer, reason):
    with pytest.raises(ValueError, match=reason):
        list(netlink.messages(buffer))


@given(st.binary(max_size=200))
def test_any_bytes_are_messages_or_a_value_error(buffer):
    try:
        found = list(netlink.messages(buffer))
    except ValueError:
        return
    assert sum((each.length + 3) & ~3 for each in found) >= len(buffer)
    assert all(each.offset + each.length <= len(buffer) for each in found)


@given(st.binary(max_size=120))
def test_any_datagram_is_taken_or_refused(datagram):
    try:
        content, complete = netlink.take(datagram)
    except (ValueError, OSError):
        return
    assert isinstance(complete, bool)
    assert len(content) <= len(datagram) + 3


# --- what belongs to a reply ------------------------------------------------------------


def test_a_single_message_is_the_whole_reply():
    one = message(NLDEV + 1, b"abcd")
    assert netlink.take(one + message(NLDEV + 1)) == (one, True)


def test_a_dump_goes_on_until_done_which_is_dropped():
    first = message(RTM_NEWLINK, b"1234", NLM_F_MULTI)
    done = message(NLMSG_DONE, bytes(4), NLM_F_MULTI)
    assert netlink.take(first + first) == (first + first, False)
    assert netlink.take(first + done) == (first, True)
    assert netlink.take(done) == (b"", True)


def test_an_acknowledgement_ends_the_reply_and_is_dropped():
    assert netlink.take(message(NLMSG_ERROR, struct.pack("=i", 0) + bytes(16))) == (b"", True)


@pytest.mark.parametrize("kind", [NLMSG_ERROR, NLMSG_DONE], ids=["in an error", "at a dump's end"])
@pytest.mark.parametrize(
    "number", [errno.EPERM, errno.EINVAL, errno.ENODEV], ids=errno.errorcode.get
)
def test_the_kernels_refusal_is_an_os_error_with_its_number(kind, number):
    with pytest.raises(OSError) as caught:  # noqa: PT011  # the number is what matters
        netlink.take(message(kind, struct.pack("=i", -number) + bytes(16), NLM_F_MULTI))
    assert caught.value.errno == number


def test_a_done_without_a_status_and_a_positive_one_are_no_errors():
    short = message(NLMSG_DONE, b"", NLM_F_MULTI)
    assert netlink.take(short) == (b"", True)
    assert netlink.take(message(NLMSG_DONE, struct.pack("=i", 5), NLM_F_MULTI)) == (b"", True)


@pytest.mark.parametrize(
    "buffer",
    [
        message(RTM_NEWLINK, LINK, NLM_F_MULTI | NLM_F_DUMP_INTR),
        message(RTM_NEWLINK, LINK, NLM_F_MULTI)
        + message(NLMSG_DONE, bytes(4), NLM_F_MULTI | NLM_F_DUMP_INTR),
    ],
    ids=["on a message", "on the closing message alone"],
)
def test_an_interrupted_dump_is_recognised_by_its_mark(buffer):
    content, _ = netlink.take(buffer)
    assert netlink.interrupted(content)
    assert len(list(decode(content, ifinfmsg))) == 1


def test_a_dump_without_the_mark_was_not_interrupted():
    assert not netlink.interrupted(message(RTM_NEWLINK, b"1234", NLM_F_MULTI))


# --- decoding ---------------------------------------------------------------------------


def test_unknown_attributes_are_passed_over():
    attribute = struct.pack("=HH", 8, 0x3FF0) + b"what"
    name = struct.pack("=HH", 8, 3) + b"lo\0\0"
    (found,) = decode(message(RTM_NEWLINK, LINK + attribute + name), ifinfmsg)
    assert (found["index"], found.get_attr("IFLA_IFNAME")) == (1, "lo")


@pytest.mark.parametrize(
    "buffer",
    [message(RTM_NEWLINK, b"12"), message(RTM_NEWLINK)[:9], b"x"],
    ids=["a message shorter than its kind", "a cut header", "a byte"],
)
def test_what_cannot_be_decoded_is_a_value_error(buffer):
    with pytest.raises(ValueError, match="netlink"):
        list(decode(buffer, ifinfmsg))


def test_a_broken_attribute_leaves_nothing_on_stderr(capfd):
    from rdmadiag.sources.nldev import parse_device

    broken = struct.pack("=HH", 5, 1) + b"\1\0\0\0" + struct.pack("=HH", 5, 2) + b"\xff\0\0\0"
    parse_device(message(NLDEV + 1, broken + struct.pack("=HH", 4, 6)))
    assert logging.lastResort is not None
    assert capfd.readouterr() == ("", "")


# --- what may be sent -------------------------------------------------------------------


@pytest.mark.parametrize("op", range(64), ids=lambda op: f"op {op}")
def test_of_all_nldev_operations_only_the_reads_pass(op):
    request = message(NLDEV + op, b"", NLM_F_REQUEST)
    if op in READS:
        assert netlink.require_read_only(NETLINK_RDMA, request) is None
    else:
        with pytest.raises(NotARead, match=f"message type {NLDEV + op} is not a read"):
            netlink.require_read_only(NETLINK_RDMA, request)


@pytest.mark.parametrize("client", [c for c in range(64) if c != 5], ids=lambda c: f"client {c}")
def test_of_all_rdma_netlink_clients_only_nldev_is_asked(client):
    for op in range(64):
        with pytest.raises(NotARead):
            netlink.require_read_only(NETLINK_RDMA, message((client << 10) + op))


def test_of_all_rtnetlink_messages_only_reads_are_sent():
    passed = set()
    for kind in range(128):
        try:
            netlink.require_read_only(NETLINK_ROUTE, message(kind))
        except NotARead:
            continue
        passed.add(kind)
    # RTM_GETLINK, RTM_GETADDR, RTM_GETROUTE, RTM_GETNEIGH, RTM_GETRULE, RTM_GETQDISC,
    # RTM_GETTCLASS, RTM_GETTFILTER, RTM_GETNEIGHTBL and RTM_GETADDRLABEL of linux/rtnetlink.h
    assert passed == {18, 22, 26, 30, 34, 38, 42, 46, 66, 74}


@pytest.mark.parametrize("family", [1, 2, 10, 16, 17, 40])
@pytest.mark.parametrize("protocol", [0, 6, 17, 132, 255])
def test_of_sockets_those_of_tcp_alone_are_listed(family, protocol):
    asked = bytes((family, protocol)) + bytes(54)
    request = message(20, asked, NLM_F_REQUEST)
    if family in (2, 10) and protocol == 6:
        assert netlink.require_read_only(netlink.NETLINK_SOCK_DIAG, request) is None
    else:
        with pytest.raises(NotARead):
            netlink.require_read_only(netlink.NETLINK_SOCK_DIAG, request)


def test_no_socket_is_destroyed():
    asked = bytes((2, 6)) + bytes(54)
    with pytest.raises(NotARead):  # SOCK_DESTROY of linux/sock_diag.h
        netlink.require_read_only(netlink.NETLINK_SOCK_DIAG, message(21, asked, NLM_F_REQUEST))
    with pytest.raises(NotARead):
        netlink.require_read_only(netlink.NETLINK_SOCK_DIAG, message(20, b"", NLM_F_REQUEST))


def test_no_other_protocol_is_spoken():
    for protocol in range(1, 32):
        if protocol != NETLINK_RDMA:
            with pytest.raises(NotARead):
                netlink.require_read_only(protocol, message(RTM_GETLINK))


def test_a_change_behind_a_read_is_refused():
    with pytest.raises(NotARead):
        netlink.require_read_only(NETLINK_ROUTE, message(RTM_GETLINK) + message(RTM_SETLINK))


# --- exchanges with this kernel ---------------------------------------------------------


def test_a_dump_of_links_is_complete(soon):
    reply = netlink.exchange(NETLINK_ROUTE, link_request(), soon)
    names = {link.get_attr("IFLA_IFNAME") for link in decode(reply, ifinfmsg)}
    assert "lo" in names
    assert all(each.type == RTM_NEWLINK for each in netlink.messages(reply))


def test_a_single_answer_is_complete(soon):
    one = message(RTM_GETLINK, struct.pack("=BxHiII", 0, 0, 1, 0, 0), NLM_F_REQUEST)
    (link,) = decode(netlink.exchange(NETLINK_ROUTE, one, soon), ifinfmsg)
    assert link.get_attr("IFLA_IFNAME") == "lo"


def test_a_refusal_of_this_kernel_is_its_errno(soon):
    none = message(RTM_GETLINK, struct.pack("=BxHiII", 0, 0, 2**31 - 1, 0, 0), NLM_F_REQUEST)
    with pytest.raises(OSError, match="No such device") as caught:
        netlink.exchange(NETLINK_ROUTE, none, soon)
    assert caught.value.errno == errno.ENODEV


def test_a_deadline_that_has_passed_is_a_timeout_before_anything_is_sent(past):
    with pytest.raises(TimeoutError):
        netlink.exchange(NETLINK_ROUTE, link_request(), past)


def test_a_kernel_that_never_answers_is_a_timeout():
    began = time.monotonic()
    unanswered = link_request(flags=0)  # without NLM_F_REQUEST the kernel passes it over
    with pytest.raises(TimeoutError):
        netlink.exchange(NETLINK_ROUTE, unanswered, began + 0.2)
    assert 0.1 < time.monotonic() - began < 20


def test_a_change_is_never_sent(soon):
    with pytest.raises(NotARead):
        netlink.exchange(NETLINK_ROUTE, link_request(RTM_DELLINK), soon)


# --- generic netlink ----------------------------------------------------------------------

NETLINK_GENERIC, GENL_ID_CTRL = 16, 16
PAUSE_GET = 21  # linux/ethtool_netlink.h


def generic(kind, command):
    return message(kind, struct.pack("=BBH", command, 1, 0), NLM_F_REQUEST)


@pytest.fixture
def no_family(monkeypatch):
    """A process to which the kernel has named no family yet."""
    families = {}
    monkeypatch.setattr(netlink, "_families", families)
    return families


def test_families_may_be_listed_and_not_made(no_family):
    netlink.require_read_only(NETLINK_GENERIC, generic(GENL_ID_CTRL, 3))
    for command in (1, 2, 4, 5, 6, 7, 8, 9):  # NEWFAMILY, DELFAMILY, NEWOPS, …
        with pytest.raises(NotARead):
            netlink.require_read_only(NETLINK_GENERIC, generic(GENL_ID_CTRL, command))


# LINKMODES, LINKSTATE, RINGS, PAUSE, FEC, MODULE_EEPROM, STATS, MODULE
ETHTOOL_READS = (4, 6, 15, PAUSE_GET, 29, 31, 32, 34)

DEVLINK_READS = (29, 38, 51, 52)  # ESWITCH, PARAM, INFO, HEALTH_REPORTER


@pytest.mark.parametrize(
    ("name", "reads"), [("ethtool", ETHTOOL_READS), ("devlink", DEVLINK_READS)]
)
def test_a_family_that_the_kernel_has_named_is_sent_its_gets_alone(no_family, name, reads):
    for command in range(256):
        with pytest.raises(NotARead):
            netlink.require_read_only(NETLINK_GENERIC, generic(21, command))
    no_family[21] = name
    for command in reads:
        netlink.require_read_only(NETLINK_GENERIC, generic(21, command))
        with pytest.raises(NotARead):
            netlink.require_read_only(NETLINK_GENERIC, generic(22, command))
    for command in set(range(256)) - set(reads):
        with pytest.raises(NotARead):
            netlink.require_read_only(NETLINK_GENERIC, generic(21, command))
    with pytest.raises(NotARead):
        netlink.require_read_only(NETLINK_GENERIC, message(21, b"", NLM_F_REQUEST))


def test_this_kernel_names_its_families(no_family):
    request = message(GENL_ID_CTRL, struct.pack("=BBH", 3, 1, 0), NLM_F_REQUEST | NLM_F_DUMP)
    try:
        reply = netlink.exchange(NETLINK_GENERIC, request, time.monotonic() + 5)
    except OSError as error:
        pytest.skip(f"no generic netlink here: {error}")
    families = netlink.families(reply)
    assert families["nlctrl"] == GENL_ID_CTRL
    assert no_family == {
        kind: name for name, kind in families.items() if name in netlink.GENERIC_READS
    }


@given(st.binary(max_size=80))
def test_any_bytes_are_attributes_or_none(raw):
    for kind, content in netlink.attributes(raw):
        assert 0 <= kind <= 0x3FFF
        assert len(content) <= len(raw)
        number = netlink.number(content)
        assert number is None or 0 <= number < 2**64
        text = netlink.text(content)
        assert text is None or text.isprintable()


@pytest.mark.parametrize(
    ("content", "value"),
    [(b"\x07", 7), (struct.pack("=Q", 2**63), 2**63), (b"abc", None), (b"", None), (None, None)],
)
def test_a_number_has_one_two_four_or_eight_bytes(content, value):
    assert netlink.number(content) == value
