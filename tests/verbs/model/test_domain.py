"""Address handles: by hand and from the completion of a message."""

from tests.verbs.model.conftest import Model

ARRIVED = """
device = open_device("rxe0")
pd = device.alloc_pd()
mr = pd.reg_mr_buffer(4096, ALL)
source = Gid.parse("::ffff:192.0.2.77")
mr.bytes[8:24] = source.raw
mr.bytes[24:40] = device.query_gid(1, 1).raw
wc = WorkCompletion(1, 0, 0, 17, WCOpcode.RECV, 44, None, None, 99, WCFlags.GRH, slid=6, sl=2)
"""


def test_an_address_handle_is_made_by_hand_and_goes_before_its_domain(model: Model) -> None:
    found = model(
        """
with open_device("rxe0") as device:
    pd = device.alloc_pd()
    ah = pd.create_ah(AHAttr(dgid=Gid.parse("::ffff:192.0.2.2"), sgid_index=1))
    say(refused(pd.close)[0], refused(pd.create_ah, AHAttr(sgid_index=9))[1])
    ah.close(); pd.close()
    say(pd.closed)
"""
    )
    # RoCE without a GID: EINVAL.
    assert found.said == [["InUse", "ibv_create_ah: errno 22"], True]
    assert found.calls.index("ibv_destroy_ah rxe0") < found.calls.index("ibv_dealloc_pd rxe0")


def test_the_way_back_is_that_of_the_header_before_the_message(model: Model) -> None:
    found = model(
        f"""{ARRIVED}
back = pd.init_ah_from_wc(wc, mr.sge(0, 44))
say(back.dgid == source, back.sgid_index, back.dlid, back.sl, back.port_num)
ah = pd.create_ah_from_wc(wc, mr.sge(0, 44))
say(ah.closed, ah.pd is pd)
device.close()
"""
    )
    assert found.said == [[True, 1, 6, 2, 1], [False, True]]


def test_there_is_no_way_back_without_a_header_or_from_a_failure(model: Model) -> None:
    found = model(
        f"""{ARRIVED}
plain = WorkCompletion(1, 0, 0, 17, WCOpcode.RECV, 44, flags=WCFlags.NONE)
failed = WorkCompletion(1, 12, 0, 17)
say(refused(pd.create_ah_from_wc, plain, mr.sge(0, 44)))
say(refused(pd.create_ah_from_wc, failed, mr.sge(0, 44))[0])
say(refused(pd.init_ah_from_wc, wc, mr.sge(0, 39))[1])
device.close()
"""
    )
    assert found.said == [
        ["CallFailed", "ibv_create_ah_from_wc: errno 22"],
        "CompletionError",
        "39 bytes: a GRH has 40",
    ]


def test_an_address_handle_of_another_domain_or_a_closed_one_sends_nothing(model: Model) -> None:
    found = model(
        f"""{ARRIVED}
ah = device.alloc_pd().create_ah(AHAttr(dgid=source, sgid_index=1))
chained = chain(device)
qp, sge = chained[-1], chained[3].sge(0, 8)
qp.qp_type = QPType.UD  # what is checked before the library is called
say(refused(qp.post_send, SendWR([sge], ah=ah))[0])
ah.close()
say(refused(qp.post_send, SendWR([sge], ah=ah))[0], refused(qp.post_send, SendWR([sge]))[0])
device.close()
"""
    )
    assert found.said == ["Mismatch", ["Closed", "ValueError"]]
    assert not any(each.startswith("post") for each in found.calls)


def test_a_device_without_shared_receive_queues_refuses_one(model: Model) -> None:
    found = model(
        "with open_device('rxe0') as device:\n    say(refused(device.alloc_pd().create_srq, 4)[1])"
    )
    assert found.said == "ibv_create_srq: errno 0"
