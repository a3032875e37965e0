"""Queue pairs: sizes, states, and requests that they have not."""

import pytest

from tests.verbs.model.conftest import Model

ONE = "device = open_device('rxe0')\npd, channel, cq, mr, qp = chain(device)\n"


def test_sizes_and_queues_are_those_that_were_asked_for(model: Model) -> None:
    found = model(
        """
with open_device("rxe0") as device:
    pd = device.alloc_pd()
    sends, receives = device.create_cq(4), device.create_cq(8)
    cap = QPCapacity(3, 7, 2, 5, 33)
    qp = pd.create_qp(QPType.UC, sends, receives, cap=cap, sq_sig_all=True)
    _, initial = qp.query()
    say(initial.cap.numbers(), initial.sq_sig_all, initial.qp_type, qp.cap == cap)
    say(initial.send_cq == sends.address, initial.recv_cq == receives.address)
"""
    )
    sizes, queues = found.said
    assert sizes == [
        {
            "max_send_wr": 3,
            "max_recv_wr": 7,
            "max_send_sge": 2,
            "max_recv_sge": 5,
            "max_inline_data": 33,
        },
        1,
        3,
        True,
    ]
    assert queues == [True, True]


def test_defaults_are_gordmas(model: Model) -> None:
    found = model("from dataclasses import astuple\nsay(astuple(QPCapacity()))")
    assert found.said == [256, 256, 1, 1, 64]


def test_each_step_takes_exactly_its_attributes(model: Model) -> None:
    found = model(
        f"""{ONE}
say(refused(qp.modify, QPState.INIT, port_num=1)[1])
say(refused(qp.modify, QPState.INIT, port_num=1, pkey_index=0, qp_access_flags=0, qkey=1)[1])
say(refused(qp.modify, QPState.RTR, port_num=1)[0])
say(refused(qp.modify, QPState.INIT, colour=1)[0])
say(any(each.startswith("modify") for each in open(__import__("os").environ["FAKE_VERBS_TRACE"])))
qp.modify(QPState.INIT, port_num=1, pkey_index=0, qp_access_flags=0)
say(qp.state.name)
path = AHAttr(dgid=device.query_gid(1, 1), sgid_index=1)
qp.modify(QPState.RTR, ah_attr=path, path_mtu=1024, dest_qp_num=qp.qp_num, rq_psn=5,
          max_dest_rd_atomic=1, min_rnr_timer=12)
qp.modify(QPState.RTS, sq_psn=5, timeout=14, retry_cnt=7, rnr_retry=7, max_rd_atomic=1)
attributes, _ = qp.query()
say(qp.state.name, attributes.rq_psn, attributes.path_mtu, attributes.ah_attr.grh.sgid_index)
qp.modify(QPState.RTS, min_rnr_timer=5)
say(refused(qp.modify, QPState.RTS, rq_psn=5)[0])
qp.modify(QPState.ERR); qp.modify(QPState.RESET)
say(qp.state.name)
device.close()
"""
    )
    assert found.said == [
        "RESET → INIT, needs qp_access_flags, pkey_index",
        "RESET → INIT, does not take qkey",
        "WrongAttributes",
        "TypeError",
        False,
        "INIT",
        ["RTS", 5, 3, 1],
        "WrongAttributes",
        "RESET",
    ]


def test_an_mtu_is_in_bytes(model: Model) -> None:
    said = model(
        f"{ONE}params = RCConnParams(1, 2, 3, mtu=1500)\nqp.modify_to_init()\n"
        "say(refused(qp.modify_to_rtr, params))\ndevice.close()"
    ).said
    assert said == ["ValueError", "an MTU of 1500 bytes: one of 256, 512, 1024, 2048, 4096"]


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ("SendWR([mr.sge(0, 8)] * 3)", "3 elements in a work request, at most 2"),
        ("SendWR([mr.sge(0, 65)], inline=True)", "65 bytes inline, at most 64"),
        ("SendWR([mr.sge(0, 4)], opcode=Opcode.ATOMIC_FETCH_AND_ADD)", "of 8 bytes, not of 4"),
        ("SendWR([mr.sge(0, 8)], ah=ah)", "a send of UD, and no other"),
        ("ring", "the list of work requests has no end"),
    ],
)
def test_a_send_that_cannot_be_is_not_posted(request_: str, said: str, model: Model) -> None:
    found = model(
        f"""{ONE}
class ah: pass
ring = SendWR([mr.sge(0, 8)]); ring.next = SendWR([mr.sge(0, 8)], next=ring)
say(refused(qp.post_send, {request_}))
device.close()
"""
    )
    name, text = found.said
    assert name == "ValueError"
    assert said in text
    assert not any(each.startswith("post_send") for each in found.calls)


def test_unreliable_queue_pairs_have_no_read_and_no_atomics(model: Model) -> None:
    found = model(
        """
with open_device("rxe0") as device:
    pd, channel, cq, mr, qp = chain(device, QPType.UC)
    sge = [mr.sge(0, 8)]
    for opcode in Opcode:
        say(refused(qp.post_send, SendWR(sge, opcode=opcode))[0])
"""
    )
    # In RESET the library refuses what the type has.
    assert found.said == ["PostFailed"] * 4 + ["ValueError"] * 3


def test_of_a_list_it_is_said_how_many_were_taken(model: Model) -> None:
    found = model(
        """
with open_device("rxe0") as device:
    one, other = pair(device)
    wrs = [RecvWR([other[3].sge(8 * at, 8)], wr_id=at) for at in range(10)]
    link(wrs)
    try:
        other[-1].post_recv(wrs[0])
    except PostFailed as failed:
        say(failed.posted, failed.refused.wr_id, failed.errno)
"""
    )
    assert found.said == [8, 8, 12]


def test_a_list_of_sends_goes_with_one_call_and_completes_in_order(model: Model) -> None:
    found = model(
        """
with open_device("rxe0") as device:
    one, other = pair(device)
    receives = [RecvWR([other[3].sge(100 * at, 100)], wr_id=at) for at in range(3)]
    link(receives)
    other[-1].post_recv(receives[0])
    sends = [
        SendWR([one[3].sge(10 * at, 10), one[3].sge(1000, 1)], wr_id=at, signaled=at == 2)
        for at in range(3)
    ]
    link(sends)
    one[3].bytes[:30] = bytes(range(30)); one[3].bytes[1000] = 99
    one[-1].post_send(sends[0])
    say([wc.check().wr_id for wc in one[2].wait(1)])
    say([(wc.wr_id, wc.byte_len) for wc in other[2].wait(1, 3)])
    say(list(other[3].bytes[200:212]))
"""
    )
    assert found.said == [[2], [[0, 11], [1, 11], [2, 11]], [*range(20, 30), 99, 0]]
    assert found.calls.count("post_send rxe0") == 1


def test_write_read_atomics_and_immediates_do_what_they_say(model: Model) -> None:
    found = model(
        """
with open_device("rxe0") as device:
    one, other = pair(device)
    mr, theirs = one[3], other[3]
    def done(opcode, sge, **named):
        named = {"remote_addr": theirs.addr, "rkey": theirs.rkey} | named
        one[-1].post_send(SendWR([sge], opcode=opcode, **named))
        wc = one[2].wait(5)[0].check()
        return wc.opcode.name, wc.byte_len
    mr.bytes[:4] = b"ping"
    say(done(Opcode.WRITE, mr.sge(0, 4)), bytes(theirs.bytes[:4]).decode())
    theirs.bytes[:4] = b"pong"
    say(done(Opcode.READ, mr.sge(8, 4)), bytes(mr.bytes[8:12]).decode())
    theirs.bytes[:8] = (40).to_bytes(8, "little")
    say(done(Opcode.ATOMIC_FETCH_AND_ADD, mr.sge(16, 8), compare_add=2), mr.bytes[16])
    say(done(Opcode.ATOMIC_CMP_AND_SWP, mr.sge(16, 8), compare_add=42, swap=7), mr.bytes[16])
    say(theirs.bytes[0])
    other[-1].post_recv(RecvWR([theirs.sge(64, 64)], wr_id=5))
    done(Opcode.SEND_WITH_IMM, mr.sge(0, 4), imm_data=0x12345678)
    wc = other[2].wait(5)[0].check()
    say(hex(wc.imm_data), wc.opcode.name, wc.flags.name, wc.byte_len)
    other[-1].post_recv(RecvWR(wr_id=6))
    done(Opcode.WRITE_WITH_IMM, mr.sge(0, 4), imm_data=1)
    wc = other[2].wait(5)[0].check()
    say(wc.imm_data, wc.opcode.name)
    one[-1].post_send(SendWR([mr.sge(0, 4)], 9, Opcode.WRITE, remote_addr=1, rkey=theirs.rkey))
    wc = one[2].wait(5)[0]
    say(wc.ok, wc.status_name, wc.opcode, refused(wc.check)[0], one[-1].state.name)
"""
    )
    assert found.said == [
        [["RDMA_WRITE", None], "ping"],
        [["RDMA_READ", 4], "pong"],
        [["FETCH_ADD", 8], 40],
        [["COMP_SWAP", 8], 42],
        7,
        ["0x12345678", "RECV", "WITH_IMM", 4],
        [1, "RECV_RDMA_WITH_IMM"],
        [False, "REM_ACCESS_ERR", None, "CompletionError", "ERR"],
    ]
