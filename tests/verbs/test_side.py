"""What a side never hands to a provider, whatever the peer that drives it asks for."""

from dataclasses import replace
from typing import Any
from unittest.mock import MagicMock

import pytest

from rdmadiag.facts.exercise import Operation, Via, Wanted
from rdmadiag.verbs.bringup import RemoteQueuePair
from rdmadiag.verbs.objects import MemoryWindow
from rdmadiag.verbs.side import Side
from rdmadiag.verbs.work import Target, Work
from tests.verbs.attempts import HERE, THERE

UD = Wanted(Operation.SEND, "ud", Via.POLL)
WINDOW = Wanted(Operation.MW_TYPE_2, "rc", Via.POLL)
XRC = Wanted(Operation.SEND, "xrc", Via.SRQ)
HANDLE = 0x5000


@pytest.fixture
def context() -> Any:
    """An open device whose objects are no more than addresses."""
    made = MagicMock()
    pd = made.alloc_pd.return_value
    pd.reg_mr.return_value.configure_mock(address=0x10000, lkey=1, rkey=2)
    pd.create_ah.return_value.handle = HANDLE
    pd.alloc_mw.side_effect = lambda kind: MemoryWindow(MagicMock(), MagicMock(), kind)
    return made


def opened(cell: Wanted, context: Any) -> Side:
    side = Side(cell, context, HERE, MagicMock(), MagicMock(), MagicMock(), acts=False)
    side.open()
    return side


def connected(context: Any) -> Side:
    side = opened(UD, context)
    side.to_rtr(RemoteQueuePair(33, 9, 0, THERE.gid, 1024))
    return side


def test_a_ud_message_goes_to_the_address_handle_of_this_end(context: Any) -> None:
    connected(context).post(Work())
    ((_, request), _) = context.post_send.call_args
    assert (request.wr.ud.ah, request.wr.ud.remote_qpn) == (HANDLE, 33)


def test_a_peer_does_not_choose_the_pointer_to_an_address_handle(context: Any) -> None:
    side = connected(context)
    with pytest.raises(AssertionError):
        side.post(Work(), replace(Work(), target=Target(0x4141414141414141, 7)))
    assert not context.post_send.called


def test_a_ud_message_without_an_address_handle_is_not_posted(context: Any) -> None:
    with pytest.raises(AssertionError):
        opened(UD, context).post(Work())
    assert not context.post_send.called


def test_nothing_is_posted_to_a_send_queue_that_is_not_there(context: Any) -> None:
    side = opened(XRC, context)
    for tried in (lambda: side.post(Work()), lambda: side.bind(0, 8)):
        with pytest.raises(AssertionError):
            tried()
    assert not context.post_send.called


def test_a_window_that_was_destroyed_is_not_bound(context: Any) -> None:
    side = opened(WINDOW, context)
    side.window(2)
    side.close_window()
    with pytest.raises(AssertionError):
        side.bind(0, 8)
    assert not context.post_send.called
