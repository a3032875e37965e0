"""The object model of verbs on soft RoCE: the examples of docs/verbs.md, UD, SRQ, and pitfalls."""

import gc
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from lab.attempt import until
from lab.ports import wait_listening
from lab.resources import unchanged
from rdmadiag import verbs
from rdmadiag.verbs import (
    Access,
    AHAttr,
    CallFailed,
    Capability,
    Context,
    EventType,
    Opcode,
    QPState,
    QPType,
    RCConnParams,
    RecvWR,
    SendWR,
)
from rdmadiag.verbs.multicast import Interest, drawn
from tests.verbs.model.programs import CHAIN, MANUAL, PACKETS, PRINTED, programs

SECONDS = 60
QKEY = 0x11111111
GRH = 40
ALL = Access.LOCAL_WRITE | Access.REMOTE_WRITE | Access.REMOTE_READ | Access.REMOTE_ATOMIC

FORK = """
import os
from rdmadiag import verbs
from rdmadiag.verbs import Access, Opcode, QPType, RCConnParams, SendWR

verbs.fork_init()
with verbs.Context("rxe0", qp_type=QPType.RC, access=Access.REMOTE_READ) as ctx:
    gid = ctx.context.query_gid(1, 1)
    ctx.connect(RCConnParams(ctx.qp.qp_num, 1, 1, dest_gid=gid, sgid_index=1))
    mr = ctx.pd.reg_mr_buffer(4096, Access.LOCAL_WRITE | Access.REMOTE_READ)
    if not (child := os.fork()):
        try:
            ctx.send_cq.poll()
        except verbs.Forked:
            print("Forked", flush=True)
        mr, ctx = None, None
        os._exit(0)
    os.waitpid(child, 0)
    mr.bytes[:6] = b"parent"
    read = SendWR([mr.sge(100, 6)], opcode=Opcode.READ, remote_addr=mr.addr, rkey=mr.rkey)
    ctx.qp.post_send(read)
    ctx.wait(30, sends=True)[0].check()
    print(bytes(mr.bytes[100:106]))
"""


def started(program: str, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-X", "dev", "-c", program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def printed(process: "subprocess.Popen[str]") -> list[str]:
    out, error = process.communicate(timeout=SECONDS)
    assert (process.returncode, error) == (0, "")
    return out.splitlines()


def opened(qp_type: QPType, **named: int) -> Context:
    sizes = {"send_cqe": 16, "recv_cqe": 16, "max_send_wr": 8, "max_recv_wr": 8, "max_send_sge": 2}
    access = Access.NONE if qp_type is QPType.UD else ALL & ~Access.LOCAL_WRITE
    return Context("rxe0", 1, qp_type=qp_type, access=access, **sizes, **named)


def connect(one: Context, other: Context) -> None:
    for end, peer in ((one, other), (other, one)):
        gid = peer.context.query_gid(1, 1)
        end.connect(RCConnParams(peer.qp.qp_num, 5, 5, dest_gid=gid, sgid_index=1))


@pytest.fixture(scope="class")
def nothing_left(rxe_pair: object) -> Iterator[None]:
    """After all of them the kernel counts what it counted before."""
    with unchanged():
        yield


@pytest.mark.usefixtures("rxe_pair", "nothing_left")
class TestRxe:
    @pytest.mark.parametrize("title", [CHAIN, PACKETS, MANUAL])
    def test_an_example_prints_what_it_should(self, title: str) -> None:
        assert sorted(printed(started(programs()[title]))) == sorted(PRINTED[title])

    def test_the_manuals_example_as_two_processes(self) -> None:
        server = started(programs()[MANUAL], "rxe0")
        wait_listening(19875, SECONDS)
        client = started(programs()[MANUAL], "rxe0", "127.0.0.1")
        assert sorted(printed(client) + printed(server)) == sorted(PRINTED[MANUAL])

    def test_ud_goes_by_address_handles_and_back_by_the_completion(self) -> None:
        with opened(QPType.UD, qkey=QKEY) as one, opened(QPType.UD, qkey=QKEY) as other:
            for end in (one, other):
                end.qp.modify_to_rtr()
                end.qp.modify_to_rts()
            mine, theirs = one.pd.reg_mr_buffer(4096), other.pd.reg_mr_buffer(4096)
            gid = other.context.query_gid(1, 1)
            ah = one.pd.create_ah(AHAttr(dgid=gid, sgid_index=1))
            other.qp.post_recv(RecvWR([theirs.sge(0, 200)]))
            one.qp.post_recv(RecvWR([mine.sge(0, 200)]))
            mine.bytes[1000:1004] = b"ping"
            to = {"ah": ah, "remote_qpn": other.qp.qp_num, "remote_qkey": QKEY}
            send = SendWR(
                [mine.sge(1000, 4)], opcode=Opcode.SEND_WITH_IMM, imm_data=0xABCD1234, **to
            )
            verbs.post_wrs(one, send)
            (wc,) = other.wait(SECONDS)
            assert (wc.check().src_qp, wc.imm_data) == (one.qp.qp_num, 0xABCD1234)
            assert (wc.byte_len, bytes(theirs.bytes[GRH : GRH + 4])) == (GRH + 4, b"ping")
            back = other.pd.init_ah_from_wc(wc, theirs.sge(0, GRH))
            assert back.dgid == gid
            back_ah = other.pd.create_ah_from_wc(wc, theirs.sge(0, GRH))
            answer = SendWR([theirs.sge(GRH, 4)], ah=back_ah, remote_qpn=wc.src_qp)
            answer.remote_qkey = QKEY
            other.qp.post_send(answer)
            (wc,) = one.wait(SECONDS)
            assert bytes(mine.bytes[GRH : GRH + 4]) == b"ping"
            with pytest.raises(ValueError, match="address handle"):
                one.qp.post_send(SendWR([mine.sge(0, 4)]))

    def test_an_srq_serves_two_queue_pairs_and_says_when_it_runs_low(self) -> None:
        with verbs.open_device("rxe0") as device:
            pd = device.alloc_pd()
            cq = device.create_cq(32)
            srq = pd.create_srq(8)
            mr = pd.reg_mr_buffer(4096, ALL)
            gid = device.query_gid(1, 1)
            while device.async_event():
                pass
            wrs = [RecvWR([mr.sge(at * 64, 64)], wr_id=at) for at in range(3)]
            verbs.link(wrs)
            srq.post_recv(wrs[0])
            srq.modify(srq_limit=2)
            assert (srq.query().max_wr >= 8, srq.query().srq_limit) == (True, 2)
            senders = []
            for _ in range(2):
                receiver = pd.create_qp(QPType.RC, cq, srq=srq)
                sender = pd.create_qp(QPType.RC, cq)
                for end, peer in ((receiver, sender), (sender, receiver)):
                    end.modify_to_init()
                    params = RCConnParams(peer.qp_num, 1, 1, dest_gid=gid, sgid_index=1)
                    end.modify_to_rtr(params)
                    end.modify_to_rts(params)
                senders.append(sender)
                with pytest.raises(verbs.Mismatch):
                    receiver.post_recv(RecvWR([mr.sge(0, 8)]))
            for at, sender in enumerate(senders):
                mr.bytes[2048] = 50 + at
                sender.post_send(SendWR([mr.sge(2048, 1)], wr_id=100))
                found = [wc.check().wr_id for wc in cq.wait(SECONDS, 2)]
                assert sorted(found) == [at, 100]
                assert mr.bytes[at * 64] == 50 + at
            event = device.async_event(SECONDS)
            assert event
            assert (event.type, event.element) == (EventType.SRQ_LIMIT_REACHED, srq)
            with pytest.raises(verbs.InUse):
                srq.close()

    def test_every_opcode_of_rc_and_a_failure_with_its_status(self) -> None:
        with opened(QPType.RC) as one, opened(QPType.RC) as other:
            connect(one, other)
            mine, theirs = one.pd.reg_mr(bytearray(256)), other.pd.reg_mr(bytearray(256), ALL)

            def done(opcode: Opcode, length: int = 8, **named: int) -> verbs.WorkCompletion:
                there = {"remote_addr": theirs.addr, "rkey": theirs.rkey} | named
                one.qp.post_send(SendWR([mine.sge(0, length)], opcode=opcode, **there))
                (wc,) = one.wait(SECONDS, sends=True)
                return wc

            mine.bytes[:8] = b"written!"
            assert done(Opcode.WRITE).ok
            assert bytes(theirs.bytes[:8]) == b"written!"
            theirs.bytes[:8] = (40).to_bytes(8, "little")
            assert done(Opcode.ATOMIC_FETCH_AND_ADD, compare_add=2).ok
            assert done(Opcode.ATOMIC_CMP_AND_SWP, compare_add=42, swap=7).ok
            assert (mine.bytes[0], theirs.bytes[0]) == (42, 7)
            wc = done(Opcode.READ)
            assert (wc.opcode, mine.bytes[0]) == (verbs.WCOpcode.RDMA_READ, 7)
            other.qp.post_recv(RecvWR(wr_id=3))
            assert done(Opcode.WRITE_WITH_IMM, imm_data=77).ok
            (wc,) = other.wait(SECONDS)
            assert (wc.wr_id, wc.imm_data) == (3, 77)
            assert done(Opcode.WRITE, rkey=1).status_name == "REM_ACCESS_ERR"
            # rxe_completer, rxe_comp.c: the completion is there before the state is.
            assert until(lambda: one.qp.state is QPState.ERR, SECONDS)

    def test_states_take_exactly_their_attributes(self) -> None:
        with opened(QPType.RC) as one, opened(QPType.RC) as other:
            connect(one, other)
            one.qp.modify(QPState.SQD, en_sqd_async_notify=1)
            assert one.qp.state is QPState.SQD
            # rxe_qp_chk_attr, rxe_qp.c: EINVAL until its task has seen the empty queue.
            assert until(lambda: not one.qp.query()[0].sq_draining, SECONDS)
            one.qp.modify(QPState.RTS)
            one.qp.modify(QPState.RTS, min_rnr_timer=5)
            assert (one.qp.state, one.qp.query()[0].min_rnr_timer) == (QPState.RTS, 5)
            with pytest.raises(verbs.WrongAttributes):
                one.qp.modify(QPState.RTS, rq_psn=1)
            one.qp.modify(QPState.ERR)
            one.qp.modify(QPState.RESET)
            one.qp.modify_to_init()
            assert one.qp.state is QPState.INIT

    def test_a_list_that_does_not_fit_says_how_much_of_it_was_taken(self) -> None:
        with opened(QPType.RC) as one:
            mr = one.pd.reg_mr(bytearray(64))
            room = one.qp.cap.max_recv_wr
            wrs = [RecvWR([mr.sge()], wr_id=at) for at in range(64 * room)]
            verbs.link(wrs)
            with pytest.raises(verbs.PostFailed) as refused:
                one.qp.post_recv(wrs[0])
            assert room <= refused.value.posted < 64 * room
            assert refused.value.refused.wr_id == refused.value.posted

    @pytest.mark.parametrize("mw_type", verbs.MWType)
    def test_a_memory_window_opens_part_of_a_region(self, mw_type: verbs.MWType) -> None:
        with opened(QPType.RC) as one, opened(QPType.RC) as other:
            connect(one, other)
            mine = one.pd.reg_mr(bytearray(64))
            theirs = other.pd.reg_mr(bytearray(4096), ALL | Access.MW_BIND)
            window = verbs.alloc_mw(other.pd, mw_type)
            rkey = window.bind(other.qp, theirs, 1024, 64, wr_id=9)
            (wc,) = other.wait(SECONDS, sends=True)
            assert (wc.check().wr_id, window.rkey) == (9, rkey)
            with pytest.raises(verbs.InUse):
                theirs.close()
            mine.bytes[:] = b"w" * 64

            def written(address: int) -> str:
                write = SendWR([mine.sge()], opcode=Opcode.WRITE, remote_addr=address, rkey=rkey)
                one.qp.post_send(write)
                return one.wait(SECONDS, sends=True)[0].status_name

            assert written(theirs.addr + 1024) == "SUCCESS"
            assert bytes(theirs.bytes[1020:1092]) == bytes(4) + b"w" * 64 + bytes(4)
            window.close()
            theirs.bytes[:] = bytes(4096)
            assert written(theirs.addr + 1024) == "REM_ACCESS_ERR"
            assert not any(theirs.bytes)
            theirs.close()

    def test_a_multicast_message_comes_to_a_member(self) -> None:
        with opened(QPType.UD, qkey=QKEY) as one, opened(QPType.UD, qkey=QKEY) as other:
            for end in (one, other):
                end.qp.modify_to_rtr()
                end.qp.modify_to_rts()
            group = drawn(one.context.query_gid(1, 1), random.Random(5))
            interest = Interest("veth0", group)
            membership = verbs.attach_mcast(other.qp, verbs.Gid(group))
            mine, theirs = one.pd.reg_mr_buffer(4096), other.pd.reg_mr_buffer(4096)
            other.qp.post_recv(RecvWR([theirs.sge(0, 200)]))
            ah = one.pd.create_ah(AHAttr(dgid=verbs.Gid(group), sgid_index=1))
            mine.bytes[:4] = b"many"
            send = SendWR([mine.sge(0, 4)], ah=ah, remote_qpn=0xFFFFFF, remote_qkey=QKEY)
            one.qp.post_send(send)
            (wc,) = other.wait(SECONDS)
            assert wc.check().src_qp == one.qp.qp_num
            assert bytes(theirs.bytes[GRH : GRH + 4]) == b"many"
            with pytest.raises(verbs.InUse):
                other.qp.close()
            membership.close()
            interest.close()

    def test_a_dropped_buffer_is_written_to_where_it_was(self) -> None:
        with opened(QPType.RC) as one, opened(QPType.RC) as other:
            connect(one, other)
            mine = one.pd.reg_mr(bytearray(b"kept" * 16))
            other.qp.post_recv(RecvWR([other.pd.reg_mr(bytearray(64)).sge()]))
            gc.collect()
            others = [bytearray(b"x" * 64) for _ in range(1000)]
            one.qp.post_send(SendWR([mine.sge()]))
            (wc,) = other.wait(SECONDS)
            assert wc.check().byte_len == 64
            assert all(each == b"x" * 64 for each in others)

    def test_what_stands_on_others_goes_first_and_all_goes_with_the_device(self) -> None:
        with ExitStack() as stack:
            one, other = (stack.enter_context(opened(QPType.RC)) for _ in range(2))
            connect(one, other)
            for each in (one.send_cq, one.pd, one.send_comp_channel):
                with pytest.raises(verbs.InUse):
                    each.close()
            other.qp.post_recv(RecvWR([other.pd.reg_mr(bytearray(64)).sge()]))
            one.qp.post_send(SendWR([one.pd.reg_mr(bytearray(8)).sge()]))
            assert other.recv_comp_channel.get_event(SECONDS) is other.recv_cq
            # Not acknowledged: ibv_destroy_cq would wait for it.

    def test_a_fork_takes_no_pages_away_and_the_child_cannot_use_the_device(self) -> None:
        assert printed(started(FORK)) == ["Forked", "b'parent'"]

    def test_what_rxe_has_not_is_refused_by_name(self) -> None:
        with verbs.open_device("rxe0") as device:
            claimed = {str(each) for each in Capability if device.has(each)}
            assert {"mem_mgt_extensions", "srq_resize"} <= claimed
            assert not {"xrc", "raw_ip_csum", "managed_flow_steering", "ip_csum"} & claimed
        with pytest.raises(CallFailed, match="ibv_create_qp"):
            Context("rxe0")  # RAW_PACKET
        with opened(QPType.UD) as context, pytest.raises(CallFailed, match="ibv_create_flow"):
            verbs.create_flow(context, ethtype=0x88B5, dmac=bytes.fromhex("020000000001"))
