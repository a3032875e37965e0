"""Context, lists of work requests, and how the queue pair is brought up for them."""

from tests.verbs.model.conftest import DEVICES, Model

PAIR = """
def opened(**named):
    named = {"qp_type": QPType.UC, "send_cqe": 8, "recv_cqe": 8} | named
    return Context("rxe0", max_send_wr=8, max_recv_wr=8, max_send_sge=2, max_recv_sge=2, **named)

def met(tx, rx):
    for one, other in ((tx, rx), (rx, tx)):
        gid = other.context.query_gid(1, 1)
        one.remote = RCConnParams(other.qp.qp_num, 7, 7, dest_gid=gid, sgid_index=1)
"""


def test_a_context_has_all_of_the_chain_and_its_queue_pair_is_in_init(model: Model) -> None:
    found = model(
        f"""{PAIR}
with opened(max_inline_data=32, send_cqe=3, recv_cqe=5) as ctx:
    say(ctx.qp.state.name, ctx.port_num, ctx.send_cq.cqe, ctx.recv_cq.cqe)
    say(ctx.send_cq.channel is ctx.send_comp_channel, ctx.recv_cq.channel is ctx.recv_comp_channel)
    say(ctx.send_comp_channel is not ctx.recv_comp_channel, ctx.qp.cap.max_inline_data)
    say(ctx.qp.send_cq is ctx.send_cq, ctx.qp.recv_cq is ctx.recv_cq, ctx.qp.pd is ctx.pd)
"""
    )
    assert found.said == [["INIT", 1, 3, 5], [True, True], [True, 32], [True, True, True]]
    assert found.calls.count("req_notify_cq rxe0") == 2


def test_its_defaults_are_those_of_infinibandverbs_jl() -> None:
    import inspect

    from rdmadiag.verbs import Context, QPType

    names = inspect.signature(Context).parameters
    wanted = {
        "force": False,
        "send_cqe": 1,
        "recv_cqe": 1,
        "max_send_wr": 1,
        "max_recv_wr": 1,
        "max_send_sge": 1,
        "max_recv_sge": 1,
        "req_notify_send": True,
        "req_notify_recv": True,
        "solicited_only_send": False,
        "solicited_only_recv": False,
        "comp_vector": 0,
        "max_inline_data": 0,
        "qp_type": QPType.RAW_PACKET,
    }
    assert {name: names[name].default for name in wanted} == wanted


def test_notifications_are_asked_for_only_where_they_are_wanted(model: Model) -> None:
    found = model(f"{PAIR}\nwith opened(req_notify_send=False, req_notify_recv=False): say(1)")
    assert "req_notify_cq rxe0" not in found.calls


def test_a_port_that_is_not_active_is_opened_by_force_alone(model: Model) -> None:
    found = model(
        f"""{PAIR}
say(refused(opened))
with opened(force=True) as ctx:
    say(ctx.qp.state.name)
""",
        devices=DEVICES.replace("state=4", "state=1"),
    )
    assert found.said == [
        ["PortNotActive", "rxe0 port 1 is DOWN; force=True opens it"],
        "INIT",
    ]
    first = found.calls.index("ibv_close_device rxe0")
    assert not any("alloc" in each or "create" in each for each in found.calls[:first])


def test_what_was_made_is_destroyed_where_a_later_step_fails(model: Model) -> None:
    found = model(f"{PAIR}\nsay(refused(opened))", "on modify_qp_to_init errno=22\n")
    assert found.said == ["CallFailed", "ibv_modify_qp: errno 22"]
    assert found.calls[-1] == "ibv_close_device rxe0"
    for each in ("qp", "cq", "comp_channel"):
        made = found.calls.count(f"ibv_create_{each} rxe0")
        assert made == found.calls.count(f"ibv_destroy_{each} rxe0") > 0


def test_a_device_that_there_is_not(model: Model) -> None:
    found = model("say(refused(Context, 'mlx5_7'))")
    assert found.said == ["NoDevice", "mlx5_7: not among rxe0"]


def test_receives_are_posted_before_rtr_and_sends_after_rts(model: Model) -> None:
    found = model(
        f"""{PAIR}
with opened() as tx, opened() as rx:
    met(tx, rx)
    recv_wrs, sges, mrs = create_recv_wrs(rx, [packets(3, 64)], 3, post=True)
    say(rx.qp.state.name, [wr.wr_id for wr in recv_wrs], len(sges), len(mrs))
    out = packets(3, 60)
    out[1, 0] = 77
    send_wrs, _, _ = create_send_wrs(tx, [out], 3, post=True)
    say(tx.qp.state.name, [wr.send_flags.name for wr in send_wrs])
    say([(wc.check().wr_id, wc.byte_len) for wc in rx.wait(5, count=3)])
    say(len(tx.wait(5, sends=True, count=3)), mrs[0].bytes[64])
"""
    )
    assert found.said == [
        ["RTR", [0, 1, 2], 3, 1],
        ["RTS", ["SIGNALED"] * 3],
        [[0, 60], [1, 60], [2, 60]],
        [3, 77],
    ]
    calls = [each.split()[0] for each in found.calls]
    posts = [each for each in calls if each.startswith(("post", "modify_qp_to_rt"))]
    rts = ["modify_qp_to_rtr", "modify_qp_to_rts", "post_send"]
    assert posts == ["post_recv", "modify_qp_to_rtr", *rts]


def test_only_the_list_from_idx_on_is_posted(model: Model) -> None:
    found = model(
        f"""{PAIR}
with opened() as tx, opened() as rx:
    met(tx, rx)
    tx.connect(tx.remote); rx.connect(rx.remote)
    recv_wrs, _, mrs = create_recv_wrs(rx, [packets(6, 64)], 6)
    recv_wrs[3].next = recv_wrs[0]; recv_wrs[0].next = None   # 2, 3, 0
    post_wrs(rx, recv_wrs, 2)
    post_wrs(rx.qp, recv_wrs[5])
    send_wrs, _, _ = create_send_wrs(tx, [packets(4, 8)], 4)
    post_wrs(tx, send_wrs)
    say([wc.wr_id for wc in rx.wait(5, count=4)])
    say(refused(post_wrs, rx, recv_wrs, 6)[0])
"""
    )
    assert found.said == [[2, 3, 0, 5], "IndexError"]


def test_offload_sets_the_checksum_flag(model: Model) -> None:
    found = model(
        f"""{PAIR}
with opened() as ctx:
    wrs, _, _ = create_send_wrs(ctx, [packets(2, 8)], 2, offload=True)
    say([int(wr.send_flags) for wr in wrs])
"""
    )
    assert found.said == [0b10010, 0b10010]


def test_lists_can_be_made_of_memory_regions_and_then_are_not_posted(model: Model) -> None:
    found = model(
        f"""{PAIR}
with opened() as ctx:
    one, other = packets(4, 16), packets(4, 32)
    mrs = [ctx.pd.reg_mr(one), ctx.pd.reg_mr(other)]
    wrs, sges, same = create_recv_wrs(mrs, [one, other], 4, 2)
    say([(sge.offset, sge.length) for sge in wrs[3].sg_list], same == mrs, wrs[1].next is wrs[2])
    say(refused(create_send_wrs, mrs, [one, other], 4, post=True)[0])
    say(refused(create_send_wrs, mrs, [one, other], 5)[0])
"""
    )
    assert found.said == [[[[48, 14], [96, 30]], True, True], "TypeError", "ValueError"]


def test_buffers_that_do_not_fit_are_not_left_registered(model: Model) -> None:
    found = model(
        f"{PAIR}\nwith opened() as ctx:\n"
        "    say(refused(create_recv_wrs, ctx, [packets(3, 8), packets(4, 8)], 3)[0])\n"
        "    say(len(ctx.pd.users))"
    )
    assert found.said == ["ValueError", 1]
    assert found.calls.count("ibv_dereg_mr rxe0") == 2


def test_a_connected_queue_pair_without_a_peer_is_not_brought_up(model: Model) -> None:
    found = model(
        f"{PAIR}\nwith opened() as ctx:\n"
        "    say(refused(create_send_wrs, ctx, [packets(1, 8)], 1, post=True)[0])"
    )
    assert found.said == "WrongAttributes"
