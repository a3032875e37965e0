"""What stands around a context, read from a library that has it, in part or not at all."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.verbs import VerbsFacts, VerbsFailure
from rdmadiag.sources.verbs import parse_verbs
from rdmadiag.verbs import child

ONE = "device fake0 phys_port_cnt=1 max_qp=7\n"
PORT = "port fake0 1 gid_tbl_len=0 port_cap_flags=0x2 port_cap_flags2=0x421\n"
UP_TO_QUERY_DEVICE_EX = (328 + 40 * 8) - 27 * 8
"""sizeof(struct verbs_context) before anything was added in front of query_device_ex."""

Facts = Callable[..., VerbsFacts]


@pytest.fixture
def facts(fake_verbs: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Facts:
    def found(text: str, seconds: float = 20.0) -> VerbsFacts:
        fake = fake_verbs(text)
        for name, value in fake.environ.items():
            monkeypatch.setenv(name, value)
        raw = child.ask("linux", str(fake.library), 8, time.monotonic() + seconds)
        assert not isinstance(raw, Missing)
        parsed = parse_verbs(raw)
        assert isinstance(parsed, VerbsFacts)
        return parsed

    return found


def test_both_words_of_flags_and_the_extended_attributes_are_read(facts: Facts) -> None:
    found = facts(
        f"{ONE}extended fake0 device_cap_flags_ex=0x1000000000 max_dm_size=131072\n{PORT}"
    )
    (device,) = found.devices
    assert isinstance(device.extended, dict)
    assert device.extended["device_cap_flags_ex"] == 1 << 36
    assert device.extended["max_dm_size"] == 131072
    port = device.port(1)
    assert port is not None
    assert isinstance(port.attributes, dict)
    assert (port.attributes["port_cap_flags"], port.attributes["port_cap_flags2"]) == (2, 0x421)


def test_a_context_with_nothing_around_it_has_neither(facts: Facts) -> None:
    found = facts(f"{ONE}{PORT}")
    (device,) = found.devices
    assert isinstance(device.extended, Missing)
    assert device.extended.why is Why.UNSUPPORTED
    port = device.port(1)
    assert port is not None
    assert isinstance(port.attributes, dict)
    assert "port_cap_flags2" not in port.attributes
    assert isinstance(device.operations, tuple)
    assert "query_device_ex" in {each.name for each in device.operations}
    assert (found.failures, found.unanswered) == ((), None)


@pytest.mark.parametrize(
    ("sz", "has_device_ex"),
    [(UP_TO_QUERY_DEVICE_EX, True), (UP_TO_QUERY_DEVICE_EX - 8, False), (0, False)],
    ids=["just up to it", "one function less", "nothing"],
)
def test_what_an_older_library_has_not_yet_is_not_read(
    sz: int, has_device_ex: bool, facts: Facts
) -> None:
    (device,) = facts(f"{ONE}extended fake0 sz={sz} max_dm_size=1\n{PORT}").devices
    assert isinstance(device.extended, dict) is has_device_ex
    port = device.port(1)
    assert port is not None
    assert isinstance(port.attributes, dict)
    assert "port_cap_flags2" not in port.attributes


@pytest.mark.parametrize("errno", [38, 95], ids=["ENOSYS", "EOPNOTSUPP"])
def test_a_provider_that_does_not_support_it_has_not_failed(errno: int, facts: Facts) -> None:
    found = facts(f"{ONE}extended fake0\n{PORT}on ibv_query_device_ex errno={errno}")
    assert isinstance(found.devices[0].extended, Missing)
    assert found.devices[0].extended.why is Why.UNSUPPORTED
    assert found.failures == ()


def test_another_errno_is_a_failure_of_this_call_alone(facts: Facts) -> None:
    found = facts(f"{ONE}extended fake0\n{PORT}on ibv_query_device_ex errno=5")
    assert found.failures == (VerbsFailure("ibv_query_device_ex", "fake0", None, 5, "EIO"),)
    assert isinstance(found.devices[0].extended, Missing)
    assert isinstance(found.devices[0].attributes, dict)
    assert found.devices[0].attributes["max_qp"] == 7


@pytest.mark.slow
def test_a_provider_that_hangs_in_it_is_named(facts: Facts) -> None:
    found = facts(f"{ONE}extended fake0\n{PORT}on ibv_query_device_ex hang", 2.5)
    assert found.unanswered is not None
    assert found.unanswered.call == "ibv_query_device_ex"
    assert found.devices[0].limits != found.devices[0].ports
