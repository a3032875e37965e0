"""Objects made in any order are destroyed in one: what hangs on another goes first."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rdmadiag.verbs import completion, objects
from rdmadiag.verbs.completion import CompletionChannel, CompletionQueue
from rdmadiag.verbs.made import Made
from rdmadiag.verbs.teardown import TEARDOWN_ORDER

CHECKOUT = Path(__file__).parents[2]

# Makes the objects of the letters, in that order, after a device; then closes them all.
PROGRAM = """
import json, sys
from ctypes import byref, c_int
from rdmadiag.facts.ib import QpType
from rdmadiag.verbs.lib import CallFailed, Library
from rdmadiag.verbs.objects import Context
from rdmadiag.verbs.teardown import Objects

library = Library(sys.argv[1])
called = []

def call(name, device, *arguments):
    called.append(name)
    return library.call(name, *arguments)

devices = library.call("ibv_get_device_list", byref(c_int(0)))
held = Objects()
context = held.add(Context(call, "any", devices[0]))
pd, cq = held.add(context.alloc_pd()), None
for letter in sys.argv[2]:
    if letter == "c":
        cq = held.add(context.create_cq(4))
    elif letter == "m":
        held.add(pd.reg_mr(4096))
    elif letter == "p":
        held.add(context.alloc_pd())
    else:
        held.add(pd.create_qp(cq, QpType.UC, 4))
called.clear()
refused = None
try:
    held.close()
except CallFailed as failed:
    refused = [failed.call, failed.errno]
held.close()
print(json.dumps([called, refused]))
"""
DARWIN = """
device rdma_en1 transport=100 max_qp=11 max_cq=11 max_pd=11 max_mr=100 phys_port_cnt=1
port rdma_en1 1 state=4 link_layer=100 active_mtu=5 max_mtu=5 gid_tbl_len=2
"""


def closed(fake: Any, made: str) -> tuple[list[str], list[Any] | None]:
    """What was called to destroy them, and what refused."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(fake.library), made],
        env={**fake.environ, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    called, refused = json.loads(ran.stdout)
    return called, refused


@pytest.mark.parametrize("made", ["cmq", "mcq", "cqm", "cqmcqm", "mmccqqp", "pcqm"])
def test_queue_pairs_go_before_memory_completion_queues_domains_and_the_device(
    fake_verbs: Any, made: str
) -> None:
    called, refused = closed(fake_verbs(DARWIN, "darwin"), made)
    assert refused is None
    assert called == [
        *["ibv_destroy_qp"] * made.count("q"),
        *["ibv_dereg_mr"] * made.count("m"),
        *["ibv_destroy_cq"] * made.count("c"),
        *["ibv_dealloc_pd"] * (1 + made.count("p")),
        "ibv_close_device",
    ]


def test_what_refuses_is_raised_once_everything_was_tried_and_nothing_is_tried_again(
    fake_verbs: Any,
) -> None:
    rules = "on ibv_dereg_mr times=1 errno=16\non ibv_destroy_cq errno=5\n"
    called, refused = closed(fake_verbs(DARWIN + rules, "darwin"), "cmmq")
    assert refused == ["ibv_dereg_mr", 16]
    assert called == [
        "ibv_destroy_qp",
        "ibv_dereg_mr",
        "ibv_dereg_mr",
        "ibv_destroy_cq",
        "ibv_dealloc_pd",
        "ibv_close_device",
    ]


STANDS_ON = {
    # What its ibv_create_, ibv_reg_, ibv_alloc_, ibv_attach_ names.
    objects.GroupMember: {objects.QueuePair},
    objects.FlowRule: {objects.QueuePair},
    objects.QueuePair: {
        CompletionQueue,
        objects.SharedReceiveQueue,
        objects.ProtectionDomain,
        objects.XrcDomain,
        objects.MemoryRegion,  # its requests name it
    },
    objects.MemoryWindow: {objects.MemoryRegion, objects.ProtectionDomain},
    objects.SharedReceiveQueue: {
        objects.MemoryRegion,
        CompletionQueue,
        objects.ProtectionDomain,
        objects.XrcDomain,
    },
    objects.AddressHandle: {objects.ProtectionDomain},
    objects.MemoryRegion: {
        CompletionQueue,
        objects.ProtectionDomain,
    },  # as on Thunderbolt
    CompletionQueue: {CompletionChannel},
    CompletionChannel: {objects.Context},
    objects.ProtectionDomain: {objects.Context},
    objects.XrcDomain: {objects.Context},
}


def kinds(of: type) -> set[type]:
    return {each for made in of.__subclasses__() for each in (made, *kinds(made))}


def test_every_kind_of_object_has_its_place_before_what_it_stands_on() -> None:
    order = TEARDOWN_ORDER
    of_verbs = (completion.__name__, objects.__name__)
    made = {each for each in kinds(Made) if each.__module__ in of_verbs}
    assert {each for each in made if not issubclass(each, order)} == set()
    assert set(order) == {*STANDS_ON, objects.Context}
    for kind, below in STANDS_ON.items():
        assert {each for each in below if order.index(each) < order.index(kind)} == set()
