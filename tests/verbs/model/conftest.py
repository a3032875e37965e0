"""Programs that use the object model on the fake library, each in a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).parents[3]

DEVICES = """
device rxe0 node_type=1 max_qp=16 max_cq=16 max_pd=16 max_mr=16 phys_port_cnt=1
port rxe0 1 state=4 link_layer=2 active_mtu=3 max_mtu=5 gid_tbl_len=4 pkey_tbl_len=1
gid rxe0 1 0 fe80::1 type=2
gid rxe0 1 1 ::ffff:192.0.2.1 type=2
"""

PRELUDE = """
import json, sys
from rdmadiag.verbs import child
child.LIBRARY[sys.platform] = sys.argv.pop(1)
"""

TOOLS = """
from rdmadiag import verbs
from rdmadiag.verbs import *

ALL = Access.LOCAL_WRITE | Access.REMOTE_WRITE | Access.REMOTE_READ | Access.REMOTE_ATOMIC

def say(*values):
    print(json.dumps(values if len(values) != 1 else values[0]), flush=True)

def refused(call, *arguments, **named):
    try:
        return call(*arguments, **named)
    except Exception as error:
        return [type(error).__name__, str(error)]

def chain(device, kind=QPType.RC, cap=None, **named):
    pd = device.alloc_pd()
    channel = device.create_comp_channel()
    cq = device.create_cq(16, channel)
    mr = pd.reg_mr_buffer(4096, ALL)
    qp = pd.create_qp(kind, cq, cap=cap or QPCapacity(8, 8, 2, 2, 64), **named)
    return pd, channel, cq, mr, qp

def connect(one, other, gid):
    for each, peer in ((one, other), (other, one)):
        each.modify_to_init(1, ALL)
    for each, peer in ((one, other), (other, one)):
        params = RCConnParams(peer.qp_num, 7, 7, dest_gid=gid, sgid_index=1)
        each.modify_to_rtr(params)
        each.modify_to_rts(params)

def pair(device):
    first, second = chain(device), chain(device)
    connect(first[-1], second[-1], device.query_gid(1, 1))
    return first, second
"""


@dataclass(frozen=True)
class Ran:
    """What a program printed, and what the library was called for."""

    said: Any
    calls: list[str]
    stderr: str


Model = Callable[..., Ran]


@pytest.fixture
def run_program(fake_verbs: Any) -> Callable[..., Any]:
    """`run_program(text, rules="", devices=DEVICES)`: the process, and the fake library."""

    def ran(text: str, rules: str = "", devices: str = DEVICES, layout: str = "linux") -> Any:
        fake = fake_verbs(devices + rules, layout)
        done = subprocess.run(
            [sys.executable, "-X", "dev", "-c", PRELUDE + text, str(fake.library)],
            env={**os.environ, **fake.environ, "PYTHONPATH": str(CHECKOUT)},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        return done, fake

    return ran


@pytest.fixture
def model(run_program: Callable[..., Any]) -> Model:
    """`model(program, rules="")`: what it said, one value or a list of them; it must not crash."""

    def ran(program: str, rules: str = "", devices: str = DEVICES, layout: str = "linux") -> Ran:
        done, fake = run_program(TOOLS + program, rules, devices, layout)
        assert done.returncode == 0, done.stderr
        values = [json.loads(line) for line in done.stdout.splitlines()]
        return Ran(values[0] if len(values) == 1 else values, fake.calls, done.stderr)

    return ran
