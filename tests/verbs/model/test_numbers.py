"""Numbers that would be cut to their field are refused."""

from ctypes import c_uint8, c_uint16, c_uint64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts.gid import Gid
from rdmadiag.verbs.abi import Struct
from rdmadiag.verbs.model.address import AHAttr
from rdmadiag.verbs.model.numbers import fits
from rdmadiag.verbs.model.states import QPCapacity
from tests.verbs.model.conftest import Model


class Fields(Struct):
    _fields_ = (("small", c_uint8), ("middle", c_uint16), ("large", c_uint64))


@given(st.sampled_from(["small", "middle", "large"]), st.integers(-(1 << 65), 1 << 65))
def test_what_fits_is_what_the_field_would_hold(name: str, value: int) -> None:
    made = Fields()
    setattr(made, name, value)
    if getattr(made, name) == value:
        assert fits(Fields, name, value) == value
    else:
        with pytest.raises(ValueError, match=name):
            fits(Fields, name, value)


def test_sizes_and_addresses_are_held_to_it() -> None:
    with pytest.raises(ValueError, match="max_send_wr"):
        QPCapacity(max_send_wr=1 << 32)
    with pytest.raises(ValueError, match="hop_limit"):
        AHAttr(hop_limit=256)
    with pytest.raises(ValueError, match="dlid"):
        AHAttr(dlid=-1)


@given(st.binary(min_size=16, max_size=16), st.integers(0, 255), st.integers(0, (1 << 32) - 1))
def test_an_address_is_read_back_as_it_was_written(raw: bytes, hops: int, label: int) -> None:
    made = AHAttr(dgid=Gid(raw), hop_limit=hops, flow_label=label, dlid=5, sl=3, sgid_index=9)
    assert AHAttr.of(made.struct()) == made


def test_requests_queues_and_attributes_are_held_to_it(model: Model) -> None:
    found = model(
        """
with open_device("rxe0") as device:
    one, other = pair(device)
    qp, sge = one[-1], [one[3].sge(0, 8)]
    bad = (
        SendWR(sge, wr_id=1 << 64), SendWR(sge, wr_id=-1),
        SendWR(sge, opcode=Opcode.WRITE, rkey=1 << 32),
        SendWR(sge, opcode=Opcode.WRITE, remote_addr=-1),
        SendWR(sge, opcode=Opcode.SEND_WITH_IMM, imm_data=1 << 32),
        SendWR(sge, opcode=Opcode.ATOMIC_CMP_AND_SWP, swap=1 << 64),
    )
    say({refused(qp.post_send, each)[0] for each in bad} == {"ValueError"})
    say(refused(qp.post_recv, RecvWR(sge, wr_id=1 << 64))[0])
    say([refused(device.create_cq, cqe)[0] for cqe in (0, -1, 1 << 31, (1 << 32) + 1)])
    say(refused(qp.modify, QPState.RTS, min_rnr_timer=256)[0])
"""
    )
    assert found.said == [True, "ValueError", ["ValueError"] * 4, "ValueError"]
    assert not any(each.startswith("post") for each in found.calls)
