"""Transceivers by ethtool netlink: what is requested, of what, and which bytes never are."""

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.machine import Machine
from lab.samples import roce_host
from lab.transceivers import (
    CREDO_OSFP_AEC,
    FLEXOPTIX_SFP,
    FS_QSFP28_IR4,
    JUNIPER_OSFP_DR4,
    MELLANOX_QSFP_DD_COPPER,
    SPANS,
    Fitted,
    Transceiver,
    power,
    reply,
)
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.modules import (
    Identifier,
    Module,
    ModuleFacts,
    NetdevModule,
    Power,
    PowerMode,
    PowerPolicy,
)
from rdmadiag.host import netlink
from rdmadiag.sources.module_memory import A0, A2, Memory, Span
from rdmadiag.sources.modules import (
    FORMS,
    HEAD,
    memory_request,
    parse_module_bytes,
    parse_power,
    read_modules,
)
from tests.conftest import MemoryHost

NETDEV = "ens1f0np0"
LATCHED = {
    "SFF-8636": [(A0, 0, at) for at in range(3, 22)],
    "CMIS": [(A0, 0, at) for at in range(8, 14)] + [(A0, 0x11, at) for at in range(132, 154)],
    "SFF-8472": [(A2, 0, at) for at in range(112, 120)],
}
SERIAL = {
    "SFF-8636": [(A0, 0, at) for at in range(196, 220)],
    "CMIS": [(A0, 0, at) for at in range(166, 190)],
    "SFF-8472": [(A0, 0, at) for at in range(68, 92)],
}
SPECIFICATION = {
    "sff8636": "SFF-8636",
    "cmis": "CMIS",
    "sff8472": "SFF-8472",
}


def with_module(fitted: Fitted) -> Machine:
    return roce_host().change(fitted={NETDEV: fitted})


def only(fitted: Fitted) -> NetdevModule:
    found = read_modules(with_module(fitted).host(), time.monotonic() + 5)
    assert isinstance(found, ModuleFacts)
    (netdev,) = found.netdevs
    return netdev


def bytes_of(span: Span) -> Iterator[tuple[int, int, int]]:
    for at in range(span.offset, span.offset + span.length):
        yield span.address, span.page, at


# --- what is never read -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(FORMS), ids=str)
def test_no_flag_that_reading_clears_is_read_and_no_serial_number(kind: Identifier) -> None:
    """SFF-8636 6.2.3, CMIS 8.2.8 and 8.9.3, SFF-8472 table 9-11."""
    form = FORMS[kind]
    name = SPECIFICATION[form.parse.__module__.rpartition(".")[2]]
    # Of every module of this form: whatever it claims of itself.
    for status in range(256):
        spans: dict[Span, bytes | Missing] = {HEAD: bytes((kind.number, status, status))}
        while more := [each for each in form.spans(Memory(spans)) if each not in spans]:
            spans |= {each: bytes([status]) * each.length for each in more}
        read = {at for span in spans for at in bytes_of(span)}
        # Bytes 1 and 2 of the head are no flags of any form.
        assert read.isdisjoint(LATCHED[name])
        assert read.isdisjoint(SERIAL[name])


def test_each_span_is_within_one_half_of_a_page_as_the_kernel_requires() -> None:
    """eeprom_parse_request of net/ethtool/eeprom.c."""
    for span in SPANS:
        end = span.offset + span.length
        assert 0 < span.length <= 128
        assert end <= 128 or 128 <= span.offset < end <= 256
        assert not span.page or span.offset >= 128


def test_a_request_names_the_span_and_nothing_else() -> None:
    raw = memory_request(21, 7, Span(0x11, 154, 48))
    (message,) = netlink.messages(raw)
    assert message.flags == netlink.NLM_F_REQUEST
    body = netlink.body(raw, message)
    assert body[0] == netlink.ETHTOOL_MSG_MODULE_EEPROM_GET
    found = dict(netlink.attributes(body[netlink.GENERIC_HEADER.size :]))
    assert netlink.number(dict(netlink.attributes(found.pop(1)))[1]) == 7
    numbers = {kind: (len(raw), netlink.number(raw)) for kind, raw in found.items()}
    assert numbers == {2: (4, 154), 3: (4, 48), 4: (1, 0x11), 5: (1, 0), 6: (1, 0x50)}


# --- reading ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("transceiver", "identifier", "part"),
    [
        (FLEXOPTIX_SFP, Identifier.SFP, "P.B1696.10.DA"),
        (FS_QSFP28_IR4, Identifier.QSFP28, "QSFP28-IR4-100G"),
        (MELLANOX_QSFP_DD_COPPER, Identifier.QSFP_DD, "MCP1660-W00AE30"),
        (JUNIPER_OSFP_DR4, Identifier.OSFP, "740-174932"),
        (CREDO_OSFP_AEC, Identifier.OSFP, "CAC845301A2NC2XA"),
    ],
    ids=["SFP", "QSFP28", "QSFP-DD", "OSFP optic", "OSFP cable"],
)
def test_the_form_is_chosen_by_the_identifier(
    transceiver: Transceiver, identifier: Identifier, part: str
) -> None:
    module = only(Fitted(transceiver)).module
    assert isinstance(module, Module)
    assert (module.identifier, module.part) == (identifier, part)


def test_a_port_without_a_module_says_so_and_is_read_once() -> None:
    gone = Missing(Why.ABSENT, "netlink x: ENODEV")
    recording = with_module(Fitted(gone)).recording()
    host = MemoryHost(recording)
    found = read_modules(host, time.monotonic() + 5)
    assert isinstance(found, ModuleFacts)
    assert found.netdevs[0].module == gone
    asked = [subject for question, subject in host.asked if "module-eeprom" in subject]
    assert len(asked) == 1


def test_a_form_that_is_not_known_is_unsupported() -> None:
    microqsfp = FS_QSFP28_IR4.change(A0, 0, 0, b"\x17")
    module = only(Fitted(microqsfp)).module
    assert module == Missing(Why.UNSUPPORTED, "identifier 0x17 is not known here")


def test_a_page_that_cannot_be_read_leaves_the_rest() -> None:
    recording = with_module(Fitted(FS_QSFP28_IR4)).recording()
    name = next(each for each in recording.netlink if "-50-03-" in each)
    del recording.netlink[name]
    late = Missing(Why.TIMEOUT, "netlink x: no complete reply before the deadline")
    recording.refuse("netlink", name, late)
    found = read_modules(MemoryHost(recording), time.monotonic() + 5)
    assert isinstance(found, ModuleFacts)
    module = found.netdevs[0].module
    assert isinstance(module, Module)
    assert module.vendor == "FS"
    assert not isinstance(module.ranges, Missing)
    assert module.ranges.rx_power_mw == late


def test_a_function_that_is_suspended_is_not_woken() -> None:
    recording = with_module(Fitted(FS_QSFP28_IR4)).recording()
    path = f"/sys/class/net/{NETDEV}/device/power/runtime_status"
    recording.files[path] = b"suspended\n"
    host = MemoryHost(recording)
    found = read_modules(host, time.monotonic() + 5)
    assert isinstance(found, ModuleFacts)
    assert getattr(found.netdevs[0].module, "why", None) is Why.NOT_COLLECTED
    asked = {subject for question, subject in host.asked if question == "netlink"}
    assert not any(each.startswith("ethtool-") for each in asked)


def test_blocks_that_fec_could_not_correct_stand_beside_it() -> None:
    machine = with_module(Fitted(FS_QSFP28_IR4))
    (netdev,) = machine.netdevs
    counts = {"corrected_blocks": (9,), "uncorrectable_blocks": (3,)}
    host = machine.change(netdevs=(replace(netdev, fec=counts),)).host()
    found = read_modules(host, time.monotonic() + 5)
    assert isinstance(found, ModuleFacts)
    assert found.netdevs[0].uncorrectable_blocks == 3
    assert getattr(only(Fitted(FS_QSFP28_IR4)).uncorrectable_blocks, "why", None) is not None


# --- power mode -------------------------------------------------------------------------------


def test_the_power_mode_is_the_drivers() -> None:
    found = only(Fitted(FS_QSFP28_IR4, policy=2, mode=1)).power
    assert found == Power(PowerPolicy.AUTO, PowerMode.LOW)
    nothing = only(Fitted(FS_QSFP28_IR4)).power
    assert nothing == Missing(Why.UNSUPPORTED, "the driver gives no power mode")
    newer = parse_power(power(2, 1, 9))
    assert isinstance(newer, Power)
    assert newer.policy is PowerPolicy.HIGH
    assert isinstance(newer.mode, Missing)


# --- any bytes --------------------------------------------------------------------------------


@given(st.binary(max_size=200) | st.binary(max_size=64).map(lambda raw: reply(2, HEAD, raw)[:-4]))
def test_any_reply_gives_a_value_or_a_reason(raw: bytes) -> None:
    found = parse_module_bytes(raw)
    assert isinstance(found, bytes | Missing)
    assert found
    assert isinstance(parse_power(raw), Power | Missing)


def test_what_was_asked_for_is_read_back() -> None:
    raw = bytes(range(48))
    assert parse_module_bytes(reply(2, Span(0x11, 154, 48), raw)) == raw
