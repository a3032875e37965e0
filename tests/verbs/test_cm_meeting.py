"""The end that listens: whoever is none of ours leaves nothing unseen."""

import os
import time
from types import SimpleNamespace
from typing import Any

import pytest

from rdmadiag.verbs.cm_meeting import Listening, _Visitor
from rdmadiag.verbs.lib import CallFailed
from rdmadiag.verbs.records import Failed
from rdmadiag.verbs.transcript import Transcript


@pytest.mark.parametrize(
    ("error", "is_seen"),
    [
        pytest.param(None, False, id="destroyed"),
        pytest.param(CallFailed("rdma_destroy_id", 16), True, id="left on the device"),
    ],
)
def test_what_is_left_of_a_visitor_beyond_the_named_ones_is_in_the_transcript(
    error: Exception | None, is_seen: bool
) -> None:
    reader, writer = os.pipe()
    held = Transcript(writer, time.monotonic()).held()
    held.write(Failed(errno=16))

    def close() -> None:
        if error:
            raise error

    side: Any = SimpleNamespace(identifier=SimpleNamespace(peer="192.0.2.2"), close=close)
    listening: Any = SimpleNamespace(visitors=[], events=SimpleNamespace(forget=lambda each: None))
    Listening._turn_away(listening, _Visitor(side, held, None, b"", 0.0), "others came meanwhile")
    os.close(writer)
    written = os.read(reader, 4096)
    os.close(reader)
    assert bool(written) is is_seen
