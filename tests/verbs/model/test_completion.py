"""Completion queues and channels: what completed, events with an end to the waiting."""

from socket import htonl

import pytest

from rdmadiag.verbs.abi import IbvWc
from rdmadiag.verbs.model.completion import CompletionError, WorkCompletion
from rdmadiag.verbs.model.constants import WCFlags, WCOpcode
from tests.verbs.model.conftest import Model

WHOLE = {
    "wr_id": 1 << 63,
    "qp_num": 17,
    "src_qp": 0xABCDE,
    "pkey_index": 3,
    "slid": 9,
    "sl": 5,
    "dlid_path_bits": 1,
}


def test_every_field_of_a_completion_is_there() -> None:
    entry = IbvWc(opcode=128, byte_len=99, wc_flags=3, imm_data=htonl(0xFEEDBEEF), **WHOLE)
    found = WorkCompletion.of(entry)
    assert {name: getattr(found, name) for name in WHOLE} == WHOLE
    assert (found.opcode, found.byte_len, found.imm_data) == (WCOpcode.RECV, 99, 0xFEEDBEEF)
    assert found.flags == WCFlags.GRH | WCFlags.WITH_IMM
    assert found.ok
    assert found.check() is found


def test_of_one_that_failed_nothing_is_given_that_the_manual_calls_undefined() -> None:
    entry = IbvWc(status=12, vendor_err=129, opcode=77, byte_len=1, imm_data=1, **WHOLE)
    found = WorkCompletion.of(entry)
    assert (found.wr_id, found.status, found.vendor_err, found.qp_num) == (1 << 63, 12, 129, 17)
    rest = ("opcode", "byte_len", "imm_data", "src_qp", "flags", "slid", "sl", "pkey_index")
    assert {getattr(found, name) for name in rest} == {None}
    assert found.status_name == "RETRY_EXC_ERR"
    with pytest.raises(CompletionError, match=r"IBV_WC_RETRY_EXC_ERR.*vendor error 129"):
        found.check()


def test_an_immediate_is_there_only_with_its_flag_and_an_invalidated_key_with_its_own() -> None:
    assert WorkCompletion.of(IbvWc(opcode=128, imm_data=5)).imm_data is None
    invalidated = WorkCompletion.of(IbvWc(opcode=128, imm_data=5, wc_flags=8))
    assert (invalidated.invalidated_rkey, invalidated.imm_data) == (5, None)


def test_an_opcode_or_status_of_no_table_stays_a_number() -> None:
    assert WorkCompletion.of(IbvWc(opcode=200)).opcode == 200
    assert WorkCompletion.of(IbvWc(status=99)).status_name == "99"


def test_a_wait_ends_with_what_there_is(model: Model) -> None:
    found = model(
        """
import time
with open_device("rxe0") as device:
    one, other = pair(device)
    polled = device.create_cq(4)
    began = time.monotonic()
    say(one[2].wait(0.2), polled.wait(0.2), one[1].get_event(0.2), one[1].get_event(-1))
    say(0.6 <= time.monotonic() - began < 30)
    say(refused(polled.req_notify)[0])
"""
    )
    assert found.said == [[[], [], None, None], True, "Mismatch"]


def test_solicited_only_wakes_for_solicited_sends_alone(model: Model) -> None:
    found = model(
        """
with open_device("rxe0") as device:
    one, other = pair(device)
    receives = [RecvWR([other[3].sge(0, 8)], wr_id=at) for at in range(2)]
    link(receives)
    other[-1].post_recv(receives[0])
    other[2].req_notify(solicited_only=True)
    one[-1].post_send(SendWR([one[3].sge(0, 8)]))
    say(other[1].get_event(0))
    one[-1].post_send(SendWR([one[3].sge(0, 8)], solicited=True))
    say(other[1].get_event(5) is other[2], len(other[2].poll(1)), len(other[2].poll()))
"""
    )
    assert found.said == [None, [True, 1, 1]]


def test_queues_share_a_channel_and_the_event_names_its_queue(model: Model) -> None:
    found = model(
        """
with open_device("rxe0") as device:
    pd, channel = device.alloc_pd(), device.create_comp_channel()
    mr = pd.reg_mr_buffer(64, ALL)
    sends, receives = device.create_cq(4, channel), device.create_cq(4, channel, comp_vector=0)
    qps = [pd.create_qp(QPType.RC, sends, receives) for _ in range(2)]
    connect(*qps, device.query_gid(1, 1))
    sends.req_notify(); receives.req_notify()
    qps[1].post_recv(RecvWR([mr.sge(0, 8)]))
    qps[0].post_send(SendWR([mr.sge(8, 8)]))
    events = [channel.get_event(5) for _ in range(2)]
    say({each.address for each in events} == {sends.address, receives.address})
    say(channel.get_event(0), [each.unacked for each in events])
    say(device.num_comp_vectors, refused(device.create_cq, 4, channel, comp_vector=1))
"""
    )
    assert found.said == [
        True,
        [None, [1, 1]],
        [1, ["CallFailed", "ibv_create_cq: errno 22"]],
    ]


def test_a_queue_is_resized(model: Model) -> None:
    found = model(
        "with open_device('rxe0') as device:\n    cq = device.create_cq(4)\n    cq.resize(32)\n"
        "    say(cq.cqe, refused(cq.resize, 0)[0], cq.cqe)"
    )
    assert found.said == [32, "ValueError", 32]
    assert found.calls.count("ibv_resize_cq rxe0") == 1
