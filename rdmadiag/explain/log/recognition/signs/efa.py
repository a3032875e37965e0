"""What libfabric's EFA provider says of a completion: enum efa_io_comp_status, in words.

The texts are those of EFA_IO_COMP_STATUSES, prov/efa/src/efa_errno.h of libfabric; NET/OFI and
MPI print them behind numbers of their own.
"""

from typing import Final

from rdmadiag.explain.log.kind import Kind
from rdmadiag.explain.log.recognition.signs.sign import Sign, sign
from rdmadiag.explain.remedies import AT_PEER, DMESG_OF_RDMA
from rdmadiag.facts.attempt import Stage


def _completed(
    word: str, pattern: str, *labels: str, numbers: str, kind: Kind = Kind.FAILURE
) -> Sign:
    """By its words; by one of its numbers where the provider had no words for it yet."""
    pattern += rf"|(?:\befa\b|\brxr_).{{0,200}}prov_err: unknown error (?:-\d+ )?\((?:{numbers})\)"
    return sign(word, kind, Stage.DATA, pattern, labels, (AT_PEER, DMESG_OF_RDMA))


def _of_provider(word: str, pattern: str, *labels: str) -> Sign:
    only = r"\befa\b|\befa[_ :]|libfabric|net/ofi|prov_err|\brxr_|\bofi\b"
    return sign(word, Kind.FAILURE, Stage.DATA, pattern, labels, (AT_PEER,), only=only)


SIGNS: Final = (
    # EFA_PROV_ERRNOS of the same file, whose numbers begin at 4096
    _of_provider("efa-remote-key", r"\brma address verification failed", "remote-key-wrong"),
    _of_provider(
        "efa-versions-differ",
        r"\b(?:deprecated|invalid|unknown) packet type (?:encountered|received)"
        r"|\brtm size mismatch",
        "versions-differ",
        "other-program",
    ),
    _of_provider(
        "efa-exhausted", r"\b[rt]x entries exhausted", "queue-full", "no-memory", "qp-too-large"
    ),
    _of_provider(
        "efa-shared-memory",
        r"\bshm internal error|\bwrite cq entry for shm",
        "shm-too-small",
        "process-memory-refused",
    ),
    _of_provider("efa-teardown", r"\bmr deregistration error", "only-teardown", "object-in-use"),
    _of_provider(
        "efa-queue-failed", r"\binternal queue pair error", "firmware-failed", "device-removed"
    ),
    # the peer's endpoint is no longer the one that was known
    _completed(
        "efa-peer-gone",
        r"invalid receiver queue pair",
        "peer-gone",
        "connection-stale",
        numbers="9|14",
    ),
    _completed(
        "efa-peer-gone",
        r"receiver connection aborted|peer closed its memory registration"
        r"|reset by remote peer \(8\)|bad queue pair \(qp\) number",
        "peer-gone",
        "connection-stale",
        numbers="8",
    ),
    _completed("efa-peer-gone", r"(?:no valid|invalid) address handle", "peer-gone", numbers="4"),
    _completed(
        "efa-unreachable",
        r"unresponsive (?:receiver|remote|peer)|unreachable remote|reachable by efa device"
        r"|unresp_remote|unreach_remote"
        r"|net/ofi .{0,80}no route to host",
        *("security-group", "peer-gone"),
        numbers="13|15",
    ),
    _completed(
        "efa-remote-key",
        r"remote memory registration is invalid|insufficient access permission",
        "remote-key-wrong",
        numbers="7",
    ),
    _completed(
        "efa-local-key",
        r"\(lkey\)|local memory registration is invalid",
        "local-key-wrong",
        numbers="5",
    ),
    _completed(
        "efa-lacks",
        r"unsupported operation type|remote feature mismatch",
        "device-lacks-capability",
        "provider-release",
        numbers="3|18",
    ),
    _completed(
        "efa-receiver-not-ready",
        r"receiver not ready\b(?! retry)|destination resource not ready",
        "peer-posts-no-receives",
        numbers="10",
    ),
    _completed(
        "efa-receive-short",
        r"scatter-gather list (?:\(sgl\) )?too short",
        "peer-buffer-small",
        numbers="11",
    ),
    _completed(
        "efa-peer-status",
        r"unexpected status (?:received from remote|returned by responder)",
        "peer-qp-error",
        numbers="12",
    ),
    _completed(
        "efa-flushed",
        r"flushed during queue pair destroy",
        "flushed",
        numbers="1",
        kind=Kind.CONSEQUENCE,
    ),
)
