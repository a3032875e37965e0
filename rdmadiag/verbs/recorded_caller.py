"""Calls of the verbs library, each written down before and after."""

import os
import sys
from typing import Any

from rdmadiag.facts.attempt import Stage
from rdmadiag.verbs import records
from rdmadiag.verbs.lib import CallFailed, Library
from rdmadiag.verbs.node import try_node
from rdmadiag.verbs.records import EndName
from rdmadiag.verbs.transcript import Transcript


class RecordedCaller:
    """Of one end; `stage` goes with each."""

    def __init__(self, library: Library, transcript: Transcript, end: EndName) -> None:
        self.stage = Stage.OPEN
        self._library = library
        self._transcript = transcript
        self._end = end

    def address(self, name: str) -> int:
        """Of a call that is not made through this."""
        return self._library.address(name)

    def __call__(self, name: str, device: str, *arguments: Any) -> Any:
        write = self._transcript.write
        write(records.Step(call=name, stage=self.stage, end=self._end, device=device))
        try:
            if name == "ibv_open_device" and sys.platform == "linux":
                try_node(os.fsdecode(arguments[0].contents.dev_name))
            answer = self._library.call(name, *arguments)
        except CallFailed as failed:
            write(records.Failed(errno=failed.errno))
            raise
        write(records.Returned())
        return answer
