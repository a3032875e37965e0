"""Objects that are used wrongly: an exception of ours, and the library is not called.

The fake library aborts at a handle that is closed or of another kind: a program that went on
shows that it was not called with one.
"""

import pytest

from tests.verbs.model.conftest import Model

OPEN = "device = open_device('rxe0')\npd, channel, cq, mr, qp = chain(device)\n"
SRQ = "srq = refused(pd.create_srq, 4)\n"


@pytest.mark.parametrize(
    ("closed", "by"),
    [
        ("cq", "queue pair"),
        ("pd", "queue pair"),
        ("channel", "completion queue"),
    ],
)
def test_what_others_stand_on_is_not_closed_before_them(closed: str, by: str, model: Model) -> None:
    found = model(f"{OPEN}say(refused({closed}.close), {closed}.closed)\ndevice.close()")
    (name, text), is_closed = found.said
    assert (name, is_closed) == ("InUse", False)
    assert "is in use by" in text
    assert by in text
    assert "open" not in found.stderr


def test_in_the_right_order_everything_closes_and_once(model: Model) -> None:
    found = model(
        OPEN
        + """
for each in (qp, cq, channel, mr, pd, device, qp, cq, device):
    each.close()
say([each.closed for each in (qp, cq, channel, mr, pd, device)])
"""
    )
    assert found.said == [True] * 6
    destroyed = [each for each in found.calls if "destroy" in each or "de" in each.split("_")[1]]
    assert destroyed == [
        "ibv_destroy_qp rxe0",
        "ibv_destroy_cq rxe0",
        "ibv_destroy_comp_channel rxe0",
        "ibv_dereg_mr rxe0",
        "ibv_dealloc_pd rxe0",
    ]


def test_a_closed_device_closed_all_of_it_queue_pairs_first(model: Model) -> None:
    found = model(f"{OPEN}another = pd.reg_mr(bytearray(8))\ndevice.close()\nsay(mr.closed)")
    assert found.said is True
    made_last = found.calls[found.calls.index("ibv_destroy_qp rxe0") :]
    assert made_last == [
        "ibv_destroy_qp rxe0",
        "ibv_dereg_mr rxe0",
        "ibv_dereg_mr rxe0",
        "ibv_destroy_cq rxe0",
        "ibv_destroy_comp_channel rxe0",
        "ibv_dealloc_pd rxe0",
        "ibv_close_device rxe0",
    ]


USES = {
    "device": "device.alloc_pd",
    "pd": "lambda: pd.reg_mr(bytearray(8))",
    "mr": "lambda: mr.lkey",
    "cq": "cq.poll",
    "channel": "lambda: channel.get_event(0)",
    "qp": "lambda: qp.state",
}


def test_what_is_closed_raises_at_every_use(model: Model) -> None:
    uses = ", ".join(USES.values())
    found = model(f"{OPEN}device.close()\nsay([refused(each)[0] for each in ({uses})])")
    assert found.said == ["Closed"] * len(USES)


def test_a_request_of_memory_that_was_closed_is_not_posted(model: Model) -> None:
    found = model(
        """
with open_device("rxe0") as device:
    one, other = pair(device)
    sge = one[3].sge(0, 8)
    one[3].close()
    say(refused(one[-1].post_send, SendWR([sge]))[0], refused(one[-1].post_recv, RecvWR([sge]))[0])
"""
    )
    assert found.said == ["Closed", "Closed"]
    assert not any(each.startswith("post_") for each in found.calls)


def test_a_buffer_that_was_dropped_is_kept_until_its_region_closes(model: Model) -> None:
    found = model(
        """
import gc
with open_device("rxe0") as device:
    one, other = pair(device)
    def registered():
        buffer = bytearray(64)
        return one[0].reg_mr(buffer), other[0].reg_mr(bytearray(64), ALL)
    mine, theirs = registered()
    gc.collect()
    filler = [bytearray(b"x" * 64) for _ in range(1000)]
    mine.bytes[:5] = b"hello"
    write = SendWR([mine.sge(0, 5)], opcode=Opcode.WRITE, remote_addr=theirs.addr, rkey=theirs.rkey)
    one[-1].post_send(write)
    one[2].wait(5)[0].check()
    say(bytes(theirs.bytes[:5]).decode(), all(each == b"x" * 64 for each in filler))
"""
    )
    assert found.said == ["hello", True]


def test_a_registered_buffer_cannot_be_resized_and_can_be_once_it_is_closed(model: Model) -> None:
    found = model(
        f"""{OPEN}
import mmap
buffer, pages = bytearray(64), mmap.mmap(-1, 4096)
first, second = pd.reg_mr(buffer), pd.reg_mr(pages)
say(refused(buffer.extend, b"x")[0], refused(pages.close)[0])
first.close(); second.close()
buffer.extend(b"x"); pages.close()
say(len(buffer))
device.close()
"""
    )
    assert found.said == [["BufferError", "BufferError"], 65]


def test_bytes_of_a_region_can_be_read_after_it_closed(model: Model) -> None:
    found = model(f"{OPEN}view = mr.bytes\nview[0] = 7\ndevice.close()\nsay(view[0])")
    assert found.said == 7


def test_events_are_acknowledged_before_their_queue_goes(model: Model) -> None:
    found = model(
        """
with open_device("rxe0") as device:
    one, other = pair(device)
    one[2].req_notify()
    other[-1].post_recv(RecvWR([other[3].sge(0, 8)]))
    one[-1].post_send(SendWR([one[3].sge(0, 8)]))
    queue = one[1].get_event(5)
    say(queue is one[2], queue.unacked, refused(queue.ack, 2)[0])
    one[-1].close(); one[2].close()
"""
    )
    assert found.said == [True, 1, "ValueError"]
    acknowledged = found.calls.index("ibv_ack_cq_events rxe0")
    assert acknowledged < found.calls.index("ibv_destroy_cq rxe0")


def test_a_channel_that_a_thread_waits_on_is_not_closed(model: Model) -> None:
    found = model(
        f"""{OPEN}
import threading, time
waits = threading.Thread(target=channel.get_event, args=(1.0,))
waits.start()
while not channel._waiting:
    time.sleep(0.01)
say(refused(device.close)[0], qp.closed)
waits.join()
device.close()
"""
    )
    assert found.said == ["InUse", False]


def test_a_forked_child_cannot_use_its_parents_objects_nor_end_them(model: Model) -> None:
    found = model(
        f"""{OPEN}
import os
if not (child_pid := os.fork()):
    say(refused(cq.poll)[0], refused(qp.modify, QPState.ERR)[0])
    qp.close(); device.close()
    sys.stdout.flush(); os._exit(0)
os.waitpid(child_pid, 0)
say(qp.state.name)
device.close()
"""
    )
    assert found.said == [["Forked", "Forked"], "RESET"]
    assert found.calls.count("ibv_destroy_qp rxe0") == 1


def test_a_forked_child_does_not_wait_for_a_thread_that_it_has_not(model: Model) -> None:
    found = model(
        f"""{OPEN}
import os, threading
holds, ends = threading.Event(), threading.Event()
def busy():
    with device.session.lock:
        holds.set(); ends.wait(60)
thread = threading.Thread(target=busy)
thread.start(); holds.wait(60)
if not (child_pid := os.fork()):
    say(refused(cq.poll)[0], refused(device.query_device)[0])
    cq.close(); device.close()
    say(qp.closed)
    sys.stdout.flush(); os._exit(0)
os.waitpid(child_pid, 0)
ends.set(); thread.join()
device.close()
"""
    )
    assert found.said == [["Forked", "Forked"], True]


def test_a_device_that_was_forgotten_is_closed_with_a_warning(model: Model) -> None:
    found = model(f"{OPEN}import gc\ndel device, pd, channel, cq, mr, qp\ngc.collect()\nsay(1)")
    assert "ResourceWarning: <device rxe0> was never closed" in found.stderr
    assert found.calls[-1] == "ibv_close_device rxe0"


@pytest.mark.parametrize(
    "use",
    [
        "pd.create_qp(QPType.RC, cq2)",
        "device.create_cq(4, channel2)",
        "qp.post_send(SendWR([mr2.sge()]))",
        "qp.post_recv(RecvWR([mr2.sge()]))",
        "qp.post_recv(RecvWR([mr3.sge()]))",
    ],
)
def test_objects_of_another_device_or_domain_do_not_go_together(use: str, model: Model) -> None:
    found = model(
        f"""{OPEN}
other = open_device("rxe0")
pd2, channel2, cq2, mr2, qp2 = chain(other)
mr3 = device.alloc_pd().reg_mr(bytearray(8))
say(refused(lambda: {use})[0])
device.close(); other.close()
"""
    )
    assert found.said == "Mismatch"


def test_a_region_that_the_library_keeps_is_never_freed(model: Model) -> None:
    found = model(
        f"""{OPEN}
from rdmadiag.verbs.model import lifetime
say(refused(mr.close)[0], mr.closed, len(lifetime._NEVER_FREED))
refused(device.close)
""",
        "on ibv_dereg_mr errno=16\n",
    )
    assert found.said == ["CallFailed", True, 1]


def test_what_refuses_does_not_keep_the_rest(model: Model) -> None:
    found = model(f"{OPEN}say(refused(device.close), pd.closed)", "on ibv_dereg_mr errno=5\n")
    assert found.said == [["CallFailed", "ibv_dereg_mr: errno 5"], True]
    assert found.calls[-1] == "ibv_close_device rxe0"


def test_an_exception_within_a_context_is_the_one_that_is_raised(model: Model) -> None:
    found = model(
        """
def program():
    with open_device("rxe0") as device:
        chain(device)
        raise LookupError("mine")
say(refused(program)[0])
"""
    )
    assert found.said == "LookupError"
    assert found.calls[-1] == "ibv_close_device rxe0"


def test_threads_share_a_device_and_one_of_them_may_close_it(model: Model) -> None:
    found = model(
        f"""{OPEN}
import threading
seen = []
def polls():
    try:
        while True:
            cq.poll()
    except Exception as error:
        seen.append(type(error).__name__)
threads = [threading.Thread(target=polls) for _ in range(4)]
for each in threads: each.start()
for _ in range(50):
    pd.reg_mr(bytearray(8)).close()
device.close()
for each in threads: each.join()
say(seen)
"""
    )
    assert found.said == ["Closed"] * 4


def test_a_window_that_is_bound_closes_with_its_device_in_any_order(model: Model) -> None:
    found = model(
        """
from rdmadiag.verbs.model.window import MW
with open_device("rxe0") as device:
    one, other = pair(device)
    say(refused(alloc_mw, one[0])[0])
    window = MW(object(), one[0], MWType.TYPE_1)
    window.mr = one[3]
    one[3].used_by[id(window)] = window
    say(refused(one[3].close)[0])
    mr = one[3]
    made = mr.let_go()
    window.let_go()
    made.close()
    say(mr.users, window.mr)
"""
    )
    assert found.said == ["CallFailed", "InUse", [[], None]]
