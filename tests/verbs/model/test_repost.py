"""repost_loop: what it hands to its callback, what it posts again, and when it ends."""

import pytest

from tests.verbs.model.conftest import DEVICES, Model
from tests.verbs.model.test_context import PAIR

MET = f"""{PAIR}
import time
tx, rx = opened(), opened()
met(tx, rx)
tx.connect(tx.remote); rx.connect(rx.remote)
buffers = packets(8, 64)
recv_wrs, _, (mr,) = create_recv_wrs(rx, [buffers], 4, post=True)
out = packets(8, 8)
send_wrs, _, _ = create_send_wrs(tx, [out], 8)
def send(first, count):
    batch = send_wrs[first:first + count]
    link(batch); post_wrs(tx, batch)
    tx.wait(5, sends=True, count=count)
"""
END = "\ntx.close(); rx.close()\n"


def test_a_loop_without_an_end_is_refused(model: Model) -> None:
    found = model(
        f"{MET}say(refused(repost_loop, print, rx, recv_wrs, 10)[0], "
        f"refused(repost_loop, print, rx, [], 10, seconds=1)[0]){END}"
    )
    assert found.said == ["ValueError", "ValueError"]


def test_it_ends_after_its_seconds_with_a_call_for_each_timeout(model: Model) -> None:
    found = model(
        f"""{MET}
seen = []
began = time.monotonic()
done = repost_loop(lambda wcs, num, wrs: seen.append(num) or 0, rx, recv_wrs, 100, seconds=0.35)
say(done, sorted(set(seen)), 1 <= len(seen) <= 4, 0.3 < time.monotonic() - began < 20)
{END}"""
    )
    assert found.said == [0, [0], True, True]


def test_the_callback_gets_completions_requests_and_its_arguments(model: Model) -> None:
    found = model(
        f"""{MET}
send(0, 3)
def callback(wcs, num_wc, wrs, first, second):
    say([wc.wr_id for wc in wcs], num_wc, wrs is recv_wrs, first, second)
    return 0
say(repost_loop(callback, rx, recv_wrs, 1000, "a", 7, seconds=20, count=3))
{END}"""
    )
    assert found.said == [[[0, 1, 2], 3, True, "a", 7], 3]


def test_what_it_says_is_posted_again_the_first_ones_and_at_the_new_place(model: Model) -> None:
    found = model(
        f"""{MET}
out.cast("B")[:] = bytes(range(64))
send(0, 3)
def callback(wcs, num_wc, wrs):
    for at, wc in enumerate(wcs[:2]):
        wrs[wc.wr_id].sg_list = [mr.sge((4 + at) * 64, 64)]
    return 2
say(repost_loop(callback, rx, recv_wrs, 1000, seconds=20, count=3))
send(3, 3)
say([wc.wr_id for wc in rx.wait(5, count=3)])
say(buffers[4, 0], buffers[5, 0], buffers[3, 0])
{END}"""
    )
    # Receive 3 was still posted; 0 and 1 came after it.
    assert found.said == [3, [3, 0, 1], [32, 40, 24]]


def test_less_than_nothing_ends_it(model: Model) -> None:
    found = model(
        f"""{MET}
send(0, 2)
say(repost_loop(lambda *_: -1, rx, recv_wrs, 1000, seconds=20))
{END}"""
    )
    assert found.said == 2


def test_a_count_is_never_passed(model: Model) -> None:
    found = model(
        f"""{MET}
send(0, 4)
say(repost_loop(lambda wcs, num, wrs: num, rx, recv_wrs, 1000, count=3))
say(len(rx.recv_cq.poll()))
{END}"""
    )
    assert found.said == [3, 1]


def test_sends_are_posted_again_too(model: Model) -> None:
    found = model(
        f"""{MET}
link(send_wrs[:2]); post_wrs(tx, send_wrs)
sent = []
def callback(wcs, num_wc, wrs):
    sent.extend(wc.wr_id for wc in wcs)
    return num_wc if len(sent) < 4 else 0
say(repost_loop(callback, tx, send_wrs, 1000, count=4), sent)
{END}"""
    )
    assert found.said == [4, [0, 1, 0, 1]]


def test_a_callback_that_raises_ends_it(model: Model) -> None:
    found = model(
        f"""{MET}
send(0, 1)
def callback(*_):
    raise LookupError("mine")
say(refused(repost_loop, callback, rx, recv_wrs, 1000, seconds=20))
{END}"""
    )
    assert found.said == ["LookupError", "mine"]


def test_an_event_is_waited_for_and_acknowledged(model: Model) -> None:
    found = model(
        f"""{MET}
rx.recv_cq.poll()
def callback(wcs, num_wc, wrs):
    if not num_wc:
        send(0, 1)
        return 0
    return -1
say(repost_loop(callback, rx, recv_wrs, 50, seconds=20), rx.recv_cq.unacked)
{END}"""
    )
    assert found.said == [1, 0]


def test_a_completion_of_a_request_that_is_not_of_the_list_is_an_error(model: Model) -> None:
    found = model(
        f"""{MET}
send(0, 3)
say(refused(repost_loop, lambda wcs, num, wrs: num, rx, recv_wrs[:1], 1000, seconds=20)[0])
{END}"""
    )
    assert found.said == "ValueError"


@pytest.mark.parametrize("named", ["req_notify_recv=False", "solicited_only_recv=True"])
def test_as_it_was_made_so_it_waits(named: str, model: Model) -> None:
    found = model(
        MET.replace("rx = opened(), opened()", f"rx = opened(), opened({named})")
        + f"""
def callback(wcs, num_wc, wrs):
    if num_wc:
        return -1
    link(send_wrs[:1]); send_wrs[0].solicited = True; post_wrs(tx, send_wrs)
    return 0
say(repost_loop(callback, rx, recv_wrs, 50, seconds=20))
{END}"""
    )
    assert found.said == 1


def test_a_library_without_channels_is_polled(model: Model) -> None:
    found = model(
        f"""{MET}
say(rx.recv_comp_channel, rx.notifies(sends=False))
send(0, 3)
say(repost_loop(lambda wcs, num, wrs: num, rx, recv_wrs, 1000, seconds=20, count=3))
{END}""",
        devices=DEVICES.replace("port rxe0 1", "port rxe0 1 lid=1").replace("node_type=1", ""),
        layout="darwin",
    )
    assert found.said == [[None, False], 3]
    assert not any("channel" in each or "notify" in each for each in found.calls)
