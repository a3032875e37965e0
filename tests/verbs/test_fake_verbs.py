"""The fake verbs library keeps the contract of the real one, as far as other tests stand on it.

Many programs run in one process wherever nothing keeps them apart. What the real library and
kernel do is shown in tests/lab/guest; a rule of the script that does nothing, or another
thing, fails the tests that use it.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.once

DRIVER = Path(__file__).with_name("driver.py")
ROOT = Path(__file__).parents[2]
BASE = """
device a max_qp=99 max_pd=99 max_mr=99 max_cq=99 max_cqe=16 max_qp_wr=4 max_sge=2 max_mr_size=65536
port a 1 state=4 max_mtu=4 gid_tbl_len=4 pkey_tbl_len=2 lid=1
gid a 1 0 fe80::1
gid a 1 1 ::ffff:192.0.2.1
gid a 1 2 ::
device b
port b 1 state=4 gid_tbl_len=4 lid=2
gid b 1 1 ::ffff:192.0.2.2
"""
A = "a = End()"
"""On device a, with a queue pair in RESET."""
PAIR = "a, b = End(0, RC), End(1, RC); a.connect(b); b.connect(a)"
"""Connected, on two devices."""
CONTEXT = "c = opened()"

LAYOUTS = pytest.mark.parametrize("layout", ["linux", "darwin"])


def sent(status: int, vendor: int = 0) -> list[list[int]]:
    """The sender's completions of one message."""
    return [[1, status, vendor]]


DELIVERED = sent(0)
UNREACHED = sent(12, 129)


@contextmanager
def started(fake: Any, program: str) -> Iterator[subprocess.Popen[str]]:
    """The driver with this library, killed in the end."""
    process = subprocess.Popen(
        [sys.executable, DRIVER, fake.library, program],
        env=os.environ | fake.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def ran(fake: Any, program: str) -> tuple[int, list[Any], str]:
    """Return code, what was printed, and stderr."""
    with started(fake, program) as process:
        said, stderr = process.communicate(timeout=20)
        return process.returncode, [json.loads(line) for line in said.splitlines()], stderr


def wait_for(reached: Callable[[], bool], seconds: float = 10) -> None:
    """Fails where it does not come."""
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def said(fake: Any, program: str) -> list[Any]:
    """Of a program that ends well."""
    code, found, stderr = ran(fake, program)
    assert code == 0, stderr
    return found


def each(fake: Any, programs: Iterable[str], before: str = "") -> list[Any]:
    """What every program printed, one after the other in one process; `before` each anew."""
    return said(fake, "\n".join(f"{before}\n{program}" for program in programs))


# --- how a call fails -------------------------------------------------------------------

CREATORS = {
    "ibv_alloc_pd": "v.ibv_alloc_pd(a.context)",
    "ibv_reg_mr": "v.ibv_reg_mr(a.pd, a.address, 1, 1)",
    "ibv_create_cq": "v.ibv_create_cq(a.context, 1, None, None, 0)",
    "ibv_create_qp": "a.another_qp()",
}
"""Of which `End()` has made one call."""
RETURN_ERRNO = {
    "ibv_query_device": "v.ibv_query_device(a.context, buffer)",
    "ibv_query_port": "v.ibv_query_port(a.context, 1, buffer)",
    "ibv_dealloc_pd": "v.ibv_dealloc_pd(a.pd)",
    "ibv_dereg_mr": "v.ibv_dereg_mr(a.mr)",
    "ibv_destroy_cq": "v.ibv_destroy_cq(a.cq)",
    "ibv_destroy_qp": "v.ibv_destroy_qp(a.qp)",
    "ibv_modify_qp": "a.move(INIT)",
    "modify_qp_to_init": "a.move(INIT)",
    "ibv_query_qp": "v.ibv_query_qp(a.qp, IbvQpAttr(), 0, IbvQpInitAttr())",
    "post_send": "a.send(b'ping')",
    "post_recv": "a.receive(4)",
}
SET_ERRNO = {
    "ibv_get_device_name": ("v.ibv_get_device_name(devices[0])", None),
    "ibv_get_device_guid": ("v.ibv_get_device_guid(devices[0])", 0),
    "ibv_wc_status_str": ("v.ibv_wc_status_str(0)", None),
    "ibv_query_gid": ("v.ibv_query_gid(a.context, 1, 0, buffer)", -1),
    "ibv_query_pkey": ("v.ibv_query_pkey(a.context, 1, 0, buffer)", -1),
    "ibv_close_device": ("v.ibv_close_device(a.context)", -1),
}
NEGATIVE = {
    "_ibv_query_gid_table": "v._ibv_query_gid_table(a.context, buffer, 8, 0, 32)",
    "poll_cq": "a.poll()",
}


def test_a_call_fails_in_its_own_way(fake_verbs: Callable[..., Any]) -> None:
    named = {name: call for name, call in RETURN_ERRNO.items() if name != "modify_qp_to_init"}
    rules = [f"on {name} after=1 errno=5" for name in CREATORS]
    rules += [f"on {name} errno=5" for name in (*named, *SET_ERRNO, *NEGATIVE)]
    fake = fake_verbs(BASE + "\n".join(rules))
    wanted: list[Any] = []
    calls = list(CREATORS.values())
    wanted += [[None, 5]] * len(calls)
    calls += named.values()
    wanted += [[5, 0]] * len(named)
    for call, result in SET_ERRNO.values():
        calls.append(call)
        wanted.append([result, 5])
    calls += NEGATIVE.values()
    wanted += [[-5, 0]] * len(NEGATIVE)
    found = said(fake, f"{A}; errno()\n" + "\n".join(f"say([{each}, errno()])" for each in calls))
    assert dict(zip(calls, found, strict=True)) == dict(zip(calls, wanted, strict=True))


def test_a_creator_may_give_null_and_no_errno(fake_verbs: Callable[..., Any]) -> None:
    fake = fake_verbs(BASE + "\n".join(f"on {name} after=1 null" for name in CREATORS))
    program = "; ".join(f"say([{call}, errno()])" for call in CREATORS.values())
    assert said(fake, f"{A}; errno(); {program}") == [[None, 0]] * len(CREATORS)


@pytest.mark.parametrize("failure", ["errno=38", "null"])
def test_a_device_list_that_cannot_be_had_is_null(
    failure: str, fake_verbs: Callable[..., Any]
) -> None:
    fake = fake_verbs(f"{BASE}on ibv_get_device_list {failure}")
    program = "n = c_int(9); say(bool(v.ibv_get_device_list(n)), n.value, errno())"
    assert said(fake, program) == [False, 0, 38 if failure != "null" else 0]


def test_what_failed_has_done_nothing(fake_verbs: Callable[..., Any]) -> None:
    fake = fake_verbs(f"{BASE}on ibv_destroy_qp times=1 errno=5\non modify_qp_to_init errno=5")
    program = f"{A}; a.move(INIT); say(a.state, v.ibv_destroy_qp(a.qp), a.state, *a.close())"
    assert said(fake, program) == [0, 5, 0, 0, 0, 0, 0, 0]


def test_the_request_that_failed_is_named(fake_verbs: Callable[..., Any]) -> None:
    program = """
first, second = IbvSendWr(1, opcode=2), IbvSendWr(2, opcode=9)
first.next = ctypes.addressof(second)
bad = POINTER(IbvSendWr)()
a = End(0, RC).connect()
say(a.ops["post_send"](a.qp, first, bad), bad.contents.wr_id)
"""
    assert said(fake_verbs(BASE), program) == [22, 2]


# --- rules ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "results"),
    [
        (["b errno=5"], [0, 0, 0, 0]),
        (["a after=1 times=2 errno=5"], [0, 5, 5, 0]),
        (["times=1 errno=5", "after=1 times=1 errno=6"], [5, 6, 0, 0]),
    ],
    ids=str,
)
def test_a_rule_is_about_a_device_and_some_calls(
    rules: list[str], results: list[int], fake_verbs: Callable[..., Any]
) -> None:
    script = BASE + "\n".join(f"on ibv_query_port {rule}" for rule in rules)
    program = f"{CONTEXT}; say(*[v.ibv_query_port(c, 1, buffer) for _ in range(4)])"
    assert said(fake_verbs(script), program) == results


def test_a_rule_is_about_one_transition(fake_verbs: Callable[..., Any]) -> None:
    fake = fake_verbs(f"{BASE}on modify_qp_to_rtr errno=5")
    program = f"{A}; say(*[a.move(state) for state in (INIT, RTR, RTS, ERR, RESET)])"
    assert said(fake, program) == [0, 5, 22, 0, 0]


def test_rules_take_effect_in_their_order(fake_verbs: Callable[..., Any]) -> None:
    rules = ["warn=RLIMIT_is_8_kB", "slow=300", "errno=12", "warn=never"]
    fake = fake_verbs(BASE + "\n".join(f"on ibv_open_device {rule}" for rule in rules))
    began = time.monotonic()
    assert ran(fake, f"{CONTEXT}; say(c, errno())") == (
        0,
        [None, 12],
        "libibverbs: Warning: RLIMIT is 8 kB\n",
    )
    assert time.monotonic() - began > 0.3


def test_a_crash_is_a_segmentation_fault(fake_verbs: Callable[..., Any]) -> None:
    fake = fake_verbs(f"{BASE}on modify_qp_to_rtr crash")
    code, found, _ = ran(fake, f"{A}; say(a.move(INIT)); a.move(RTR)")
    assert (code, found) == (-signal.SIGSEGV, [0])


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("call", "action", "program"),
    [
        ("post_recv", "hang", "a.receive(4)"),
        ("poll_cq", "spin", "a.poll()"),
    ],
)
def test_a_call_that_does_not_end(
    call: str, action: str, program: str, fake_verbs: Callable[..., Any]
) -> None:
    def burnt() -> int:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    fake = fake_verbs(f"{BASE}on {call} {action}")
    with started(fake, f"{A}; {program}") as process:
        wait_for(lambda: f"{call} a" in fake.calls)
        time.sleep(0.1)
        before = burnt()
        if action == "spin":
            wait_for(lambda: burnt() > before + 5)
            process.terminate()
            assert process.wait(5) == -signal.SIGTERM
        else:
            process.terminate()
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.3)
            assert burnt() <= before + 1


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("device c max_qpp=1", "unknown key"),
        ("gid a 1 4 ::1", "no such slot"),
        ("on ibv_foo hang", "unknown call"),
        ("on ibv_open_device hang=1", "unknown action"),
        ("on poll_cq wc=12,", "not a number"),
        ("frob", "unknown directive"),
    ],
)
def test_a_line_that_makes_no_sense_aborts(
    line: str, why: str, fake_verbs: Callable[..., Any]
) -> None:
    code, _, stderr = ran(fake_verbs(f"{BASE}{line} # why\n"), "v.ibv_get_device_list(None)")
    assert (code, stderr.strip()) == (-signal.SIGABRT, f"fake_verbs: {why}: {line}")


def test_blanks_and_comments_are_nothing(fake_verbs: Callable[..., Any]) -> None:
    fake = fake_verbs("# one\n\n  device\ta  max_qp=-1 max_mr=0x10 # two\r\n")
    program = f"{CONTEXT}; v.ibv_query_device(c, buffer); say(buffer.raw[108:112].hex())"
    assert said(fake, program) == ["ffffffff"]


def test_no_script_is_no_device(fake_verbs: Callable[..., Any]) -> None:
    fake = fake_verbs(BASE)
    fake.environ.clear()
    program = "n = c_int(9); l = v.ibv_get_device_list(n); say(n.value, l[0])"
    assert said(fake, program) == [0, None]
    assert fake.calls == []


# --- what is traced, what is left, what is misused --------------------------------------


def test_every_call_leaves_a_line_and_polling_one(fake_verbs: Callable[..., Any]) -> None:
    fake = fake_verbs(BASE)
    program = """
a, b = End(0), End(1)
open(os.environ["FAKE_VERBS_TRACE"], "w")
a.move(INIT), a.poll(), b.poll(), a.poll(), a.receive(4), a.poll(), a.move(SQD)
v.ibv_wc_status_str(0), a.close()
"""
    said(fake, f"import os\n{program}")
    assert fake.calls == [
        "ibv_modify_qp a",
        "modify_qp_to_init a",
        "poll_cq a",
        "poll_cq b",
        "post_recv a",
        "poll_cq a",
        "ibv_modify_qp a",
        "ibv_wc_status_str",
        "ibv_destroy_qp a",
        "ibv_dereg_mr a",
        "ibv_destroy_cq a",
        "ibv_dealloc_pd a",
        "ibv_close_device a",
    ]


def test_what_is_left_open_is_reported_in_the_end(fake_verbs: Callable[..., Any]) -> None:
    program = f"{A}; a.another_qp(); v.ibv_dereg_mr(a.mr); opened(1)"
    assert ran(fake_verbs(BASE), program) == (
        0,
        [],
        "fake_verbs: 1 pds, 0 mrs, 1 cqs, 2 qps, 2 contexts open\n",
    )
    assert ran(fake_verbs(BASE), f"{A}; a.connect(); a.receive(4); a.close()") == (
        0,
        [],
        "",
    )


def test_what_others_stand_on_cannot_be_taken_away(fake_verbs: Callable[..., Any]) -> None:
    program = f"""
{A}
say(v.ibv_dealloc_pd(a.pd), v.ibv_destroy_cq(a.cq))
say(v.ibv_destroy_qp(a.qp), v.ibv_dealloc_pd(a.pd), v.ibv_destroy_cq(a.cq))
say(v.ibv_dereg_mr(a.mr), v.ibv_dealloc_pd(a.pd))
"""
    assert said(fake_verbs(BASE), program) == [16, 16, 0, 16, 0, 0, 0]


MISUSES = [
    (f"{CONTEXT}; v.ibv_query_gid(c + 8, 1, 0, buffer)", "ibv_query_gid: not a context"),
    (
        f"{CONTEXT}; v.ibv_free_device_list(devices); v.ibv_free_device_list(devices)",
        "ibv_free_device_list: used after its end: a device list",
    ),
    (f"{A}; a.wish.recv_cq = End(1).cq; a.another_qp()", "ibv_create_qp: of another context: a cq"),
    (f"{A}; a.close(); v.ibv_dereg_mr(a.mr)", "ibv_dereg_mr: used after its end: a mr"),
    (f"{A}; a.close(); a.send(b'x')", "post_send: used after its end: a qp"),
    (f"{A}; a.close(); a.poll()", "poll_cq: used after its end: a cq"),
    (
        "a = End(0, UC, room=1).connect(); a.send(b'x'), a.send(b'x')",
        "completion: no room left in the cq",
    ),
]


@pytest.mark.parametrize(("program", "complaint"), MISUSES, ids=[row[1] for row in MISUSES])
def test_a_misuse_aborts(program: str, complaint: str, fake_verbs: Callable[..., Any]) -> None:
    code, _, stderr = ran(fake_verbs(BASE), program)
    assert (code, stderr) == (-signal.SIGABRT, f"fake_verbs: {complaint}\n")


def test_the_memory_of_what_has_ended_cannot_be_read(fake_verbs: Callable[..., Any]) -> None:
    code, _, _ = ran(fake_verbs(BASE), f"{A}; a.close(); ctypes.string_at(a.qp, 8)")
    assert code == -signal.SIGSEGV


# --- creation ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "outcomes"), [("linux", [True, True, 95]), ("darwin", [102, True, 102])]
)
def test_the_types_of_queue_pairs(
    layout: str, outcomes: list[Any], fake_verbs: Callable[..., Any]
) -> None:
    found = each(
        fake_verbs(BASE, layout),
        [
            f"a.wish.qp_type = {kind}; errno(); say(bool(a.another_qp()) or errno())"
            for kind in ("RC", "UC", "4")
        ],
        A,
    )
    assert found == outcomes


MAKERS = {
    "max_pd": "v.ibv_alloc_pd(c)",
    "max_mr": "v.ibv_reg_mr(p, page, 1, 1)",
    "max_cq": "v.ibv_create_cq(c, 1, None, None, 0)",
    "max_qp": "v.ibv_create_qp(p, IbvQpInitAttr(send_cq=q, recv_cq=q, qp_type=UC))",
}
PARTS = """
c = opened()
memory = mmap.mmap(-1, PAGE)
page = ctypes.addressof(ctypes.c_char.from_buffer(memory))
p, q = v.ibv_alloc_pd(c), v.ibv_create_cq(c, 1, None, None, 0)
errno()
"""


@pytest.mark.parametrize(
    ("layout", "limit", "errno"),
    [
        ("linux", "max_mr", 12),
        ("linux", "max_cq", 12),
        ("darwin", "max_qp", 16),
    ],
)
def test_there_are_as_many_as_the_device_has(
    layout: str, limit: str, errno: int, fake_verbs: Callable[..., Any]
) -> None:
    made_before = limit in ("max_pd", "max_cq")
    fake = fake_verbs(f"device a {limit}={2 + made_before}\ndevice b", layout)
    program = f"{PARTS}say([bool({MAKERS[limit]}) for _ in range(3)], errno())"
    assert said(fake, program) == [[True, True, False], errno]
    other = (
        f"{PARTS.replace('opened()', 'opened(1)')}say([bool({MAKERS[limit]}) for _ in range(9)])"
    )
    assert said(fake, other) == [[True] * 9]


CANNOT = {
    "linux": {
        "v.ibv_create_cq(a.context, 17, None, None, 0)": 22,
        "v.ibv_create_cq(a.context, 0, None, None, 0)": 22,
        "v.ibv_create_cq(a.context, 1, None, None, 1)": 22,
        "v.ibv_reg_mr(a.pd, a.address, 65537, 1)": 22,
        "v.ibv_reg_mr(a.pd, a.address, 0, 1)": 22,
        "v.ibv_reg_mr(a.pd, a.address, 1, 2)": 22,
        "v.ibv_reg_mr(a.pd, a.address + 8, 1, 4)": 0,
        "a.another_qp(max_send_wr=5)": 22,
        "a.another_qp(max_recv_sge=3)": 22,
        "a.another_qp(max_inline_data=512)": 0,
        "a.another_qp(max_inline_data=513)": 22,
    },
    "darwin": {
        "v.ibv_reg_mr(a.pd, a.address + 8, 1, 4)": 22,
        "v.ibv_reg_mr(a.pd, a.address, 1, 7)": 0,
        "v.ibv_create_cq(a.context, 1, None, a.address, 0)": 22,
        "a.another_qp(max_inline_data=1)": 22,
    },
}


@LAYOUTS
def test_what_a_device_cannot_make(layout: str, fake_verbs: Callable[..., Any]) -> None:
    rows = CANNOT[layout]
    programs = [f"errno(); say([bool({maker}), errno()])" for maker in rows]
    found = each(fake_verbs(BASE, layout), programs, A)
    assert dict(zip(rows, found, strict=True)) == {
        maker: [not errno, errno] for maker, errno in rows.items()
    }


# --- transitions ------------------------------------------------------------------------

NEEDS = {
    "INIT": ("pkey_index", "port_num", "qp_access_flags"),
    "RTR": ("ah_attr", "path_mtu", "dest_qp_num", "rq_psn"),
    "RTS": ("sq_psn",),
}
RC_NEEDS = {
    "INIT": (),
    "RTR": ("max_dest_rd_atomic", "min_rnr_timer"),
    "RTS": ("timeout", "retry_cnt", "rnr_retry", "max_rd_atomic"),
}
BEFORE = {"INIT": "", "RTR": "a.move(INIT)", "RTS": "a.move(INIT), a.move(RTR)"}


@pytest.mark.parametrize("kind", ["RC", "UC"])
def test_a_transition_wants_its_attributes_and_no_others(
    kind: str, fake_verbs: Callable[..., Any]
) -> None:
    programs, wanted = [], []
    for state, common in NEEDS.items():
        needs = (*common, *(RC_NEEDS[state] if kind == "RC" else ()))
        others = ({"qkey"} | {name for row in RC_NEEDS.values() for name in row}) - {*needs}
        others -= {"min_rnr_timer"} if (state, kind) == ("RTS", "RC") else set()
        programs.append(
            f"{BEFORE[state]}\n"
            f"say([a.move({state}, without=name) for name in {needs}])\n"
            f"say([a.move({state}, **{{name: 1}}) for name in {sorted(others)}])\n"
            f"say(a.move({state}), a.state == {state})"
        )
        wanted += [[22] * len(needs), [22] * len(others), 0, True]
    assert each(fake_verbs(BASE), programs, f"a = End(0, {kind})") == wanted


WAYS = {
    "a.move(RTR), a.move(RTS), a.move(ERR), a.move(RESET)": [22, 22, 22, 0],
    "a.move(INIT), a.move(INIT), a.move(RTS), a.move(ERR)": [0, 0, 22, 0],
    "a.move(INIT), a.move(RTR), a.move(RTR), a.move(INIT)": [0, 0, 22, 22],
    "a.move(INIT), a.move(ERR), a.move(INIT), a.move(RESET), a.move(INIT)": [0, 0, 22, 0, 0],
    "a.connect().move(SQD), a.move(RTR), a.move(7), a.move(-1)": [22, 22, 22, 22],
    "a.connect().move(ERR), a.move(ERR), a.move(RESET), a.move(RESET)": [0, 0, 0, 0],
    "a.connect().modify(qp_access_flags=1), a.modify(cur_qp_state=2)": [0, 22],
    "a.move(INIT), a.move(RTR), a.move(RTS, qp_access_flags=1, cur_qp_state=2)": [0, 0, 0],
}


def test_the_way_of_states(fake_verbs: Callable[..., Any]) -> None:
    found = each(fake_verbs(BASE), [f"say([{way}])" for way in WAYS], A)
    assert dict(zip(WAYS, found, strict=True)) == WAYS


VALUES = {
    ("linux", ""): {
        "a.move(INIT, port_num=2)": 22,
        "a.move(INIT, pkey_index=1)": 0,
        "a.move(INIT, pkey_index=2)": 22,
        "a.to_rtr(path_mtu=0)": 22,
        "a.to_rtr(path_mtu=4)": 0,
        "a.to_rtr(path_mtu=5)": 22,
        "a.to_rtr(path={'port_num': 0})": 22,
        "a.to_rtr(path={'sgid_index': 0})": 0,
        "a.to_rtr(path={'sgid_index': 2})": 61,
        "a.to_rtr(path={'sgid_index': 3})": 61,
        "a.to_rtr(path={'sgid_index': 4})": 22,
        "a.to_rtr(path={'is_global': 0})": 0,
    },
    ("linux", "link_layer=2"): {
        "a.to_rtr(path={'is_global': 0})": 22,
        "a.to_rtr()": 0,
    },
    ("darwin", ""): {
        "a.to_rtr()": 0,
        "a.to_rtr(path={'sgid_index': 0})": 60,
        "a.to_rtr(path={'sgid_index': 2})": 96,
        "a.to_rtr(path={'sgid_index': 3})": 96,
        "a.to_rtr(path={'sgid_index': 4})": 22,
        "a.to_rtr(path={'is_global': 0})": 22,
    },
}


@pytest.mark.parametrize(("layout", "port"), VALUES)
def test_the_values_of_a_transition(layout: str, port: str, fake_verbs: Callable[..., Any]) -> None:
    rows = VALUES[layout, port]
    fake = fake_verbs(BASE.replace("lid=1", f"lid=1 {port}"), layout)
    steps = [each.replace("a.to_rtr(", "a.move(INIT) or a.move(RTR, ") for each in rows]
    found = each(fake, [f"say({step})" for step in steps], A)
    assert dict(zip(rows, found, strict=True)) == rows


def test_more_atomics_than_the_device_has(fake_verbs: Callable[..., Any]) -> None:
    fake = fake_verbs(BASE.replace("max_qp=99", "max_qp_rd_atom=2 max_qp_init_rd_atom=3"))
    program = """
a = End(0, RC)
say(a.move(INIT), a.move(RTR, max_dest_rd_atomic=3), a.move(RTR, max_dest_rd_atomic=2))
say(a.move(RTS, max_rd_atomic=4), a.move(RTS, max_rd_atomic=3))
"""
    assert said(fake, program) == [0, 22, 0, 22, 0]


# --- messages ---------------------------------------------------------------------------


@pytest.mark.parametrize(("layout", "kind"), [("linux", "RC"), ("linux", "UC"), ("darwin", "UC")])
def test_a_message_arrives(layout: str, kind: str, fake_verbs: Callable[..., Any]) -> None:
    program = f"""
{PAIR.replace("RC", kind)}
say(b.receive(3, 8, wr_id=11), a.send(b"ping", b"pong", wr_id=12))
say(b.poll_all(), a.poll_all(), b.received, a.poll(), a.close(), b.close())
"""
    assert said(fake_verbs(BASE, layout), program) == [
        0,
        0,
        [[11, 0, 0, 128, 8, True]],
        [[12, 0, 0, 0, 0, True]],
        "pingpong",
        [],
        [0] * 5,
        [0] * 5,
    ]


def test_each_of_the_two_queues_has_its_completion_queue(fake_verbs: Callable[..., Any]) -> None:
    program = """
a = End(0, RC)
a.wish.send_cq = sends = v.ibv_create_cq(a.context, 8, None, None, 0)
a.qp = a.another_qp()
a.connect(), a.receive(4), a.send(b"ping")
received = a.poll()
a.cq = sends
say(received, a.poll(), v.ibv_destroy_cq(sends))
a.receive(4), a.send(b"pong"), a.move(RESET)
say(a.poll())
"""
    assert said(fake_verbs(BASE), program) == [[[2, 0, 0]], DELIVERED, 16, []]


def test_messages_arrive_in_order_and_both_ways(fake_verbs: Callable[..., Any]) -> None:
    program = f"""
{PAIR}
b.receive(4, wr_id=1), b.receive(4, wr_id=2), a.receive(4, wr_id=3)
a.send(b"1st", wr_id=4), a.send(b"2nd", wr_id=5), b.send(b"back", wr_id=6)
say(a.poll(2), a.poll(2), b.poll(), a.received, b.received)
"""
    assert said(fake_verbs(BASE), program) == [
        [[4, 0, 0], [5, 0, 0]],
        [[3, 0, 0]],
        [[1, 0, 0], [2, 0, 0], [6, 0, 0]],
        "back",
        "2nd",
    ]


ADDRESSING = {
    "the GID of the receiver": ({}, "RC UC"),
    "the LID of the receiver": ({"path": "path={'is_global': 0, 'dlid': 2}"}, "RC UC"),
    "the LID of nobody": ({"path": "path={'is_global': 0, 'dlid': 3}"}, ""),
    "the GID of the sender": ({"path": "path={'dgid': a.gid()}"}, ""),
    "the number of another queue pair": ({"path": "dest_qp_num=a.number"}, ""),
    "a receiver of somebody else's": ({"back": "dest_qp_num=b.number"}, ""),
    "another type": ({"type": "UC"}, "UC"),
    "another path MTU": ({"path": "path_mtu=2"}, ""),
    "another packet number": ({"back": "rq_psn=8"}, "UC"),
    "from a port that is down": ({"script": ("state=4 max_mtu", "state=1 max_mtu")}, ""),
    "to a port that is down": ({"script": ("state=4 gid", "state=1 gid")}, ""),
    "to INIT": ({"then": "b.move(RESET), b.move(INIT), b.receive(4)"}, ""),
    "to ERR": ({"then": "b.move(ERR), b.poll()"}, ""),
    "to RTS": ({"then": "b.move(RTS)"}, "RC UC"),
}
"""What the ends have set, and the types of queue pairs that it gets through to."""


def reaching(kind: str, changes: dict[str, Any]) -> str:
    """One message between two new ends with these changes."""
    return f"""
a, b = End(0, {kind}), End(1, {changes.get("type", kind)})
say(a.move(INIT), a.move(RTR, b, {changes.get("path", "")}), a.move(RTS))
say(b.move(INIT), b.move(RTR, a, {changes.get("back", "")}), b.receive(4))
{changes.get("then", "")}
a.send(b"ping")
say(a.poll(), b.poll(), b.received)
"""


@pytest.mark.parametrize("kind", ["RC", "UC"])
def test_who_gets_a_message(kind: str, fake_verbs: Callable[..., Any]) -> None:
    for down in (None, *{row["script"] for row, _ in ADDRESSING.values() if "script" in row}):
        rows = {
            name: kind in heard
            for name, (changes, heard) in ADDRESSING.items()
            if changes.get("script") == down
        }
        fake = fake_verbs(BASE.replace(*down) if down else BASE)
        found = each(fake, [reaching(kind, ADDRESSING[name][0]) for name in rows])
        for at, (name, got_through) in enumerate(rows.items()):
            assert found[9 * at : 9 * at + 9] == [
                *[0] * 6,
                UNREACHED if kind == "RC" and not got_through else DELIVERED,
                [[2, 0, 0]] if got_through else [],
                "ping" if got_through else "",
            ], name


NOT_POSTED = "a.send(b'ping')"
TOO_SHORT = "b.receive(3), a.send(b'ping')"
ALIEN_SEND = "b.receive(4), a.send(b'ping', lkey=b.lkey)"
OTHER_PD = "b.receive(4), a.send(b'ping', lkey=other_pd)"
ALIEN_RECEIVE = "b.receive(4, lkey=a.lkey), a.send(b'ping')"
BEFORE_IT = "b.receive(4); a.address -= 1; a.send(b'ping')"
BEHIND_IT = "b.receive(4); a.address += PAGE - 3; a.send(b'ping')"
ENDED_MR = "b.receive(4), v.ibv_dereg_mr(b.mr), a.send(b'ping')"
READ_ONLY = "b.receive(4, lkey=read_only), a.send(b'ping')"


FAILING = (
    (NOT_POSTED, 13, 0, []),
    (TOO_SHORT, 9, 0, [[2, 1, 0]]),
    (ALIEN_SEND, 4, 4, []),
    (OTHER_PD, 4, 4, []),
    (BEFORE_IT, 4, 4, []),
    (BEHIND_IT, 4, 4, []),
    (ALIEN_RECEIVE, 11, 0, [[2, 4, 0]]),
    (ENDED_MR, 11, 0, [[2, 4, 0]]),
    (READ_ONLY, 11, 0, [[2, 4, 0]]),
)


@pytest.mark.parametrize("kind", ["RC", "UC"])
def test_a_message_that_fails(kind: str, fake_verbs: Callable[..., Any]) -> None:
    before = f"""
{PAIR.replace("RC", kind)}
read_only = IbvMr.from_address(v.ibv_reg_mr(b.pd, b.address, PAGE, 0)).lkey
pd = v.ibv_alloc_pd(a.context)
other_pd = IbvMr.from_address(v.ibv_reg_mr(pd, a.address, PAGE, 1)).lkey
"""
    after = "say([a.poll(), b.poll(), a.state == ERR, b.state == ERR])"
    found = each(fake_verbs(BASE), [f"{row[0]}\n{after}" for row in FAILING], before)
    for (program, reliable, unreliable, receiver), ended in zip(FAILING, found, strict=True):
        status = reliable if kind == "RC" else unreliable
        assert ended == [sent(status), receiver, bool(status), bool(receiver)], program


def test_of_a_failure_nothing_else_is_valid(fake_verbs: Callable[..., Any]) -> None:
    program = f"{PAIR}; a.send(b'ping'); say(a.poll_all())"
    poison = 0xA5A5A5A5
    (((*known, opcode, size, own),),) = said(fake_verbs(BASE), program)
    assert (known, own) == ([1, 13, 0], True)
    assert (opcode & 0xFFFFFFFF, size) == (poison, poison)


def test_a_queue_pair_in_error_flushes(fake_verbs: Callable[..., Any]) -> None:
    program = f"""
{PAIR}
a.receive(4, wr_id=3), a.receive(4, wr_id=4)
say(a.move(ERR), a.send(b"ping", wr_id=5, flags=0), a.receive(4, wr_id=6), a.poll())
say(a.move(RESET), a.move(INIT), a.poll())
"""
    flushed = [[wr_id, 5, 0] for wr_id in (3, 4, 5, 6)]
    assert said(fake_verbs(BASE), program) == [0, 0, 0, flushed, 0, 0, []]


def test_what_a_reset_or_destroyed_queue_pair_had_is_forgotten(
    fake_verbs: Callable[..., Any],
) -> None:
    program = """
a = End(0, RC)
for a.qp, wr_id in ((a.qp, 3), (a.another_qp(), 4), (a.another_qp(), 5)):
    a.move(INIT), a.move(ERR), a.receive(4, wr_id=wr_id)
    if wr_id == 4:
        a.move(RESET)
v.ibv_destroy_qp(a.qp)
say(a.ops["poll_cq"](a.cq, 8, wcs := (IbvWc * 8)()), wcs[0].wr_id)
"""
    assert said(fake_verbs(BASE), program) == [1, 3]


REFUSED = {
    "a.send(b'x'), a.receive(1)": [22, 22],
    "a.move(INIT), a.send(b'x'), a.receive(1)": [0, 22, 0],
    "a.move(INIT), a.move(RTR), a.send(b'x'), a.receive(1)": [0, 0, 22, 0],
    "a.connect().send(b'x', opcode=9), a.send(b'x', flags=8)": [22, 22],
    "a.connect().send(b'x', b'y', b'z'), a.receive(1, 1, 1)": [22, 22],
    "a.move(INIT), [a.receive(1) for _ in range(5)]": [0, [0, 0, 0, 0, 12]],
}


def test_a_request_that_is_refused(fake_verbs: Callable[..., Any]) -> None:
    found = each(fake_verbs(BASE), [f"say([{row}])" for row in REFUSED], A)
    assert dict(zip(REFUSED, found, strict=True)) == REFUSED


def test_the_send_queue_is_full_until_a_completion_is_polled(
    fake_verbs: Callable[..., Any],
) -> None:
    program = """
a = End(0, UC).connect()
say([a.send(b"x", flags=0) for _ in range(3)], a.poll(), a.send(b"x"), a.send(b"x"))
say(a.poll(), a.send(b"x", flags=0), a.poll())
say(a.send(b"x"), a.poll(), [a.send(b"x", flags=0) for _ in range(5)])
b = End(1, UC, signal_all=True).connect()
say(b.send(b"x", flags=0), b.poll())
"""
    assert said(fake_verbs(BASE), program) == [
        *([0, 0, 0], [], 0, 12),
        *(DELIVERED, 0, []),
        *(0, DELIVERED, [0, 0, 0, 0, 12]),
        *(0, DELIVERED),
    ]


@pytest.mark.parametrize(
    ("rule", "kind", "results", "received"),
    [
        ("post_send drop", "RC", [UNREACHED, []], ""),
        ("post_send drop", "UC", [DELIVERED, []], ""),
        ("post_send a corrupt", "RC", [DELIVERED, [[2, 0, 0]]], "pin\x98"),
        ("poll_cq wc=12,129", "UC", [UNREACHED, [[2, 12, 129]]], "ping"),
        ("poll_cq after=1 wc=5", "UC", [DELIVERED, [[2, 5, 0]]], "ping"),
    ],
)
def test_a_message_is_changed_to_order(
    rule: str, kind: str, results: list[Any], received: str, fake_verbs: Callable[..., Any]
) -> None:
    program = f"""
{PAIR.replace("RC", kind)}
a.poll(), b.poll()  # finds nothing, and counts as nothing
b.receive(4), a.send(b"ping")
say(a.poll(), b.poll(), b.received)
"""
    assert said(fake_verbs(f"{BASE}on {rule}"), program) == [*results, received]


def test_a_message_can_go_to_its_sender(fake_verbs: Callable[..., Any]) -> None:
    program = "a = End(0, RC).connect(); a.receive(4); a.send(b'ping'); say(a.poll(), a.received)"
    assert said(fake_verbs(BASE), program) == [[[2, 0, 0], [1, 0, 0]], "ping"]


def test_a_queue_pair_has_what_it_was_set_to(fake_verbs: Callable[..., Any]) -> None:
    program = """
a = End(0, RC).connect()
attr, init = IbvQpAttr(), IbvQpInitAttr()
say(v.ibv_query_qp(a.qp, attr, 0, init), attr.qp_state, attr.rq_psn, attr.ah_attr.grh.sgid_index)
say(attr.cap.max_send_wr, init.cap.max_recv_sge, init.qp_type, init.send_cq == a.cq)
"""
    assert said(fake_verbs(BASE), program) == [0, 3, 7, 1, 4, 2, 2, True]


def test_a_status_has_the_text_of_libibverbs(fake_verbs: Callable[..., Any]) -> None:
    program = "say(*[v.ibv_wc_status_str(n).decode() for n in (0, 5, 12, 13, 23, 24, -1)])"
    assert said(fake_verbs(BASE), program) == [
        "success",
        "Work Request Flushed Error",
        "transport retry counter exceeded",
        "RNR retry counter exceeded",
        "TM software rendezvous",
        "unknown",
        "unknown",
    ]
