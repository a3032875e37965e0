"""librdmacm, loaded where its node can be opened."""

import os

from rdmadiag.facts.attempt import Stage
from rdmadiag.verbs import records
from rdmadiag.verbs.cm_lib import Libraries
from rdmadiag.verbs.lib import CallFailed
from rdmadiag.verbs.records import EndName
from rdmadiag.verbs.transcript import Transcript


def loaded(verbs: str, cm: str, node: str, transcript: Transcript) -> Libraries:
    """Both libraries; raises CallFailed, by the loader's own error where there is one.

    librdmacm asks the kernel for its node in a way that loads rdma_ucm: never let it.
    """
    write = transcript.write
    stage = Stage.EVENT_CHANNEL
    call = f"open {node}"
    write(records.Step(call=call, stage=stage, end=EndName.LOCAL))
    try:
        os.close(os.open(node, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        number = error.errno or 0
        write(records.Failed(errno=number))
        raise CallFailed(call, number) from None
    write(records.Returned())
    write(records.Step(call="dlopen", stage=stage, end=EndName.LOCAL))
    try:
        library = Libraries(verbs, cm)
    except (OSError, AttributeError) as error:
        write(records.Failed(errno=0))
        raise CallFailed("dlopen", 0) from error
    write(records.Returned())
    return library
