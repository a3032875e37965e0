"""XRC on a fake device that has it; soft RoCE has none."""

from tests.verbs.model.conftest import DEVICES, Model

XRC = DEVICES.replace("max_qp=16", f"max_qp=16 device_cap_flags={1 << 20}") + "extended rxe0\n"

ENDS = """
device = open_device("rxe0")
pd, cq = device.alloc_pd(), device.create_cq(16)
mr = pd.reg_mr_buffer(4096, ALL)
xrcd = open_xrcd(device)
srq = xrcd.create_srq(pd, cq, 4)
receiver = xrcd.create_recv_qp()
sender = pd.create_qp(QPType.XRC_SEND, cq)
gid = device.query_gid(1, 1)
for one, other in ((sender, receiver), (receiver, sender)):
    one.modify_to_init(1, ALL)
    params = RCConnParams(other.qp_num, 3, 3, dest_gid=gid, sgid_index=1)
    one.modify_to_rtr(params)
    one.modify_to_rts(params)
"""


def test_a_message_reaches_the_receive_queue_that_its_request_names(model: Model) -> None:
    found = model(
        f"""{ENDS}
say(device.has(Capability.XRC), receiver.state.name)
srq.post_recv(RecvWR([mr.sge(0, 64)], wr_id=5))
mr.bytes[1000:1005] = b"hello"
sender.post_send(SendWR([mr.sge(1000, 5)], wr_id=6, remote_srqn=srq.srq_num))
both = sorted((wc.check().wr_id, wc.opcode.name) for wc in cq.wait(5, 2))
say(both, bytes(mr.bytes[:5]).decode())
sender.post_send(SendWR([mr.sge(1000, 5)], wr_id=7, opcode=Opcode.WRITE, remote_srqn=srq.srq_num,
                        remote_addr=mr.addr + 100, rkey=mr.rkey))
say([wc.check().opcode.name for wc in cq.wait(5)], bytes(mr.bytes[100:105]).decode())
device.close()
""",
        devices=XRC,
    )
    assert found.said == [
        [True, "RTS"],
        [[[5, "RECV"], [6, "SEND"]], "hello"],
        [["RDMA_WRITE"], "hello"],
    ]
    made = found.calls[found.calls.index("ibv_destroy_qp rxe0") :]
    closed = [each.split()[0] for each in made]
    assert closed[:3] == ["ibv_destroy_qp", "ibv_destroy_qp", "ibv_destroy_srq"]
    assert closed.index("ibv_close_xrcd") > 2
    assert closed[-1] == "ibv_close_device"


def test_a_domain_goes_after_its_receivers_and_queues(model: Model) -> None:
    found = model(
        f"{ENDS}say([refused(each.close)[0] for each in (xrcd, cq, pd)])\n"
        "receiver.close(); sender.close(); srq.close(); xrcd.close(); cq.close()\n"
        "say(xrcd.closed)\ndevice.close()",
        devices=XRC,
    )
    assert found.said == [["InUse"] * 3, True]


def test_a_receiver_sends_nothing_and_a_device_without_xrc_has_no_domain(model: Model) -> None:
    found = model(
        "with open_device('rxe0') as device:\n"
        "    say(hasattr(XRCRecvQP, 'post_send'), refused(open_xrcd, device))"
    )
    assert found.said == [False, ["CallFailed", "ibv_open_xrcd: errno 95"]]


def test_a_number_that_the_library_does_not_tell_leaves_no_queue(model: Model) -> None:
    found = model(
        ENDS.replace(
            "srq = xrcd.create_srq(pd, cq, 4)", "say(refused(xrcd.create_srq, pd, cq, 4))"
        ).partition("receiver =")[0]
        + "device.close()",
        "on ibv_get_srq_num errno=22\n",
        XRC,
    )
    assert found.said == ["CallFailed", "ibv_get_srq_num: errno 22"]
    assert found.calls.count("ibv_destroy_srq rxe0") == 1
