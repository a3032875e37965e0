"""Devices: listed, opened, asked what they have, and what they say unasked."""

import json
import subprocess
import sys

import pytest

from rdmadiag import verbs
from rdmadiag.facts.capability import DeviceCap, RawPacketCap
from tests.verbs.model.conftest import CHECKOUT, DEVICES, Model

TWO = DEVICES + "device mlx5_0 node_type=4 transport=1 phys_port_cnt=1\n"


def test_the_list_is_plain_and_nothing_of_it_stays_open(model: Model) -> None:
    found = model(
        "say([(each.name, each.node_type, each.transport) for each in device_list()])",
        devices=TWO,
    )
    assert found.said == [["rxe0", 1, 0], ["mlx5_0", 4, 1]]
    assert found.calls[-1] == "ibv_free_device_list"
    assert not any(each.startswith("ibv_open_device") for each in found.calls)


def test_a_machine_without_devices_has_an_empty_list(model: Model) -> None:
    assert model("say(device_list())", devices="").said == []


@pytest.mark.parametrize("call", ["ibv_get_device_list", "ibv_open_device"])
def test_a_call_that_fails_is_named_with_its_errno(call: str, model: Model) -> None:
    found = model("say(refused(open_device, 'rxe0'))", f"on {call} errno=13\n")
    assert found.said == ["CallFailed", f"{call}: errno 13"]


def test_no_library_is_an_oserror(model: Model) -> None:
    assert model("say(refused(device_list, '/no/such/library.so')[0])").said == "OSError"


def test_device_port_gid_and_pkey_are_as_the_library_has_them(model: Model) -> None:
    found = model(
        """
with open_device("rxe0") as device:
    attributes, port = device.query_device(), device.query_port(1)
    say(attributes.max_qp, port.state, port.active_mtu, port.gid_tbl_len)
    say(str(device.query_gid(1, 1)), device.query_pkey(1, 0), refused(device.query_port, 2)[0])
"""
    )
    assert found.said == [[16, 4, 3, 4], ["::ffff:192.0.2.1", 0xFFFF, "CallFailed"]]


CLAIMS = DEVICES.replace("max_qp=16", f"max_qp=16 device_cap_flags={(1 << 20) | (1 << 29)}") + (
    f"extended rxe0 raw_packet_caps=5 device_cap_flags_ex={1 << 34}\n"
)


def test_has_is_every_flag_and_no_other(model: Model) -> None:
    found = model(
        """
with open_device("rxe0") as device:
    say([str(each) for each in Capability if device.has(each)])
(listed,) = device_list()
say(listed.has(Capability.XRC), listed.has(Capability.UD_IP_CSUM))
say(hascapability(listed, Capability.XRC))
""",
        devices=CLAIMS,
    )
    assert found.said == [
        ["xrc", "managed_flow_steering", "raw_scatter_fcs", "cvlan_stripping", "ip_csum"],
        [True, False],
        True,
    ]


def test_what_needs_the_extended_query_is_not_there_without_it(model: Model) -> None:
    found = model(
        "with open_device('rxe0') as device:\n"
        "    say(device.has(Capability.RAW_SCATTER_FCS), "
        "device.has(Capability.RAW_PACKET_CAP_IP_CSUM), device.query_device_ex())"
    )
    assert found.said == [False, False, {}]


def test_capabilities_have_the_names_of_both_tables() -> None:
    names = dir(verbs.Capability)
    assert len(names) == len(DeviceCap) + len(RawPacketCap)
    assert verbs.Capability.XRC is DeviceCap.XRC
    assert verbs.Capability.RAW_PACKET_CAP_DELAY_DROP is RawPacketCap.DELAY_DROP
    assert {getattr(verbs.Capability, name) for name in names} == set(verbs.Capability)
    with pytest.raises(AttributeError, match="DELAY_DROP"):
        _ = verbs.Capability.DELAY_DROP


EVENTS = """
import time
with open_device("rxe0") as device:
    one, other = pair(device)
    say(device.async_event(), device.async_event(0.1))
    one[-1].post_send(SendWR([one[3].sge(0, 8)]))
    event = device.async_event(5)
    say(str(event.type), event.port, event.element in (one[-1], other[-1]))
    say(device.async_event())
"""


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (9, ["port_active", 1, False]),
        (6, ["path_mig", None, True]),
        (77, ["77", None, False]),
    ],
    ids=["of a port", "of a queue pair", "of no table"],
)
def test_an_event_names_what_it_is_of_and_is_acknowledged(
    number: int, said: list[object], model: Model
) -> None:
    found = model(EVENTS, f"on post_send times=1 event={number}\n")
    assert found.said == [[None, None], said, None]
    assert found.calls.count("ibv_ack_async_event") == 1


def test_a_device_that_a_thread_waits_on_is_not_closed(model: Model) -> None:
    found = model(
        """
import threading, time
device = open_device("rxe0")
waits = threading.Thread(target=device.async_event, args=(1.0,))
waits.start()
while not device._waiting:
    time.sleep(0.01)
say(refused(device.close)[0], device.closed)
waits.join()
device.close()
""",
        "on post_send event=9\n",
    )
    assert found.said == ["InUse", False]


LIGHT = """
import json, sys
before = set(sys.modules)
from rdmadiag import verbs
names = dir(verbs)
light = set(sys.modules) - before
from rdmadiag.verbs import records
submodule = set(sys.modules) - before
verbs.Context
linux = sys.platform == "linux"
opened = [line for line in open("/proc/self/maps") if "ibverbs" in line] if linux else []
print(json.dumps([sorted(light), "ctypes" in submodule, opened, verbs.__all__, names]))
"""


def test_its_import_is_light_loads_no_library_and_knows_its_names() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True, cwd=CHECKOUT
    )
    light, has_ctypes, opened, public, names = json.loads(ran.stdout)
    assert [each for each in light if each.startswith("rdmadiag")] == ["rdmadiag", "rdmadiag.verbs"]
    assert not {"ctypes", "dataclasses", "importlib.util"} & set(light)
    assert (has_ctypes, opened) == (False, [])
    assert set(public) <= set(names)


def test_every_public_name_is_there_and_no_other() -> None:
    for name in verbs.__all__:
        assert getattr(verbs, name).__name__ == name or name == "EventType"
    with pytest.raises(AttributeError, match="no attribute 'Kontext'"):
        _ = verbs.Kontext
