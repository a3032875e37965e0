"""What `rdmadiag pingpong` and `exercise` print themselves, as their user pipes it to `explain`.

The line of the answer stands first (render/pingpong.py), what the listening end says of whom it
turned away before it (cli/meeting.py); what do not fit are codes of verbs/protocol.py.
"""

from collections.abc import Iterator
from typing import Final

from rdmadiag.explain.causes import Labels
from rdmadiag.explain.log.kind import Kind
from rdmadiag.explain.log.recognition.signs.sign import Errno, Sign, sign
from rdmadiag.explain.mismatches import MISMATCHES
from rdmadiag.explain.no_peer import CONNECTING, LISTENING, SILENCE
from rdmadiag.explain.remedies import ADDRESSES, AT_PEER, DEVICES, PREFLIGHT, SHORTER
from rdmadiag.facts.attempt import Stage
from rdmadiag.facts.errnos import ERRNOS

_NOT: Final = r"^not attempted {2}"
_REFUSED: Final = rf"(?:{_NOT}|\bturned away ).{{0,160}}"
_ERRNO_BY_NAME: Final = dict(ERRNOS["linux"].values())


def _not_connected() -> Iterator[Sign]:
    """One of each errno of the call that ended it (verbs/meeting.py)."""
    for name, labels in CONNECTING.items():
        text = "no answer" if name == SILENCE else _ERRNO_BY_NAME[name]
        pattern = rf"{_NOT}cannot connect to [^ ]{{1,80}}: {text}"
        yield _of_tcp("own-not-connected", Kind.FAILURE, pattern, labels)
    for name, labels in LISTENING.items():
        if name == SILENCE:
            yield _of_tcp("own-nobody-came", Kind.CONSEQUENCE, rf"{_NOT}nobody came to ", labels)
            continue
        pattern = rf"{_NOT}cannot listen on [^ ]{{1,80}}: {_ERRNO_BY_NAME[name]}"
        yield _of_tcp("own-not-listening", Kind.FAILURE, pattern, labels)


def _of_tcp(word: str, kind: Kind, pattern: str, labels: Labels) -> Sign:
    return sign(word, kind, Stage.CONNECT, pattern, labels, errno=Errno.LAST)


def _mismatches() -> Iterator[Sign]:
    for code, label in MISMATCHES.items():
        yield sign(code.replace("_", "-"), Kind.FAILURE, Stage.AGREE, rf"^{code}: ", (label,))


SIGNS: Final = (
    sign(
        "secrets-differ",
        Kind.FAILURE,
        Stage.AGREE,
        rf"{_REFUSED}\b(?:the peer|the end that listens) "
        r"(?:wants a secret|has no secret|knows another secret)",
        ("secrets-differ",),
        ("# give both ends the same --secret-file, or neither one",),
    ),
    sign(
        "own-version-differs",
        Kind.FAILURE,
        Stage.AGREE,
        rf"{_REFUSED}(?:\bthe peer's rdmadiag has version|\bdifferent versions of rdmadiag)",
        ("other-program",),
        ("rdmadiag --version   # on both hosts",),
    ),
    sign(
        "own-other-program",
        Kind.FAILURE,
        Stage.AGREE,
        rf"{_REFUSED}\b(?:the peer is no rdmadiag|no peer of ours)\b",
        ("other-program", "peer-address-wrong"),
        (AT_PEER,),
    ),
    sign(
        "own-name-unknown",
        Kind.FAILURE,
        Stage.RESOLVE_ADDRESS,
        rf"{_NOT}(?:no address for [^ ]{{1,255}}:|the lookup of [^ ]{{1,255}} did not end)",
        ("name-not-resolved", "peer-address-wrong"),
        ("getent ahosts PEER", "cat /etc/hosts /etc/resolv.conf"),
    ),
    sign(
        "own-device-absent",
        Kind.FAILURE,
        Stage.OPEN,
        r"^rdmadiag: no rdma device '",
        ("device-absent",),
        (DEVICES,),
    ),
    sign(
        "own-preflight",
        Kind.FAILURE,
        Stage.OPEN,
        rf"{_NOT}the preflight forbids ",
        ("attempt-not-permitted",),
        (PREFLIGHT,),
    ),
    *_not_connected(),
    *_mismatches(),
    sign(
        "own-peer-failed",
        Kind.CONSEQUENCE,
        Stage.DATA,
        r"^failed {2}at [a-z_]{3,20}.{0,80}: the peer failed at ",
        ("failed-at-peer",),
        (AT_PEER,),
    ),
    sign(
        "own-peer-lost",
        Kind.CONSEQUENCE,
        Stage.DATA,
        r"^(?:failed|not attempted) {2}.{0,120}\b(?:the peer (?:closed the connection"
        r"|fell silent|said nothing for)|the connection ended: )",
        ("peer-gone", "peer-host-down"),
        (AT_PEER,),
    ),
    sign(
        "own-no-data",
        Kind.FAILURE,
        Stage.DATA,
        r"^failed {2}at data.{0,80}: (?:nothing arrived|data did not pass between the hosts)",
        ("no-path", "roce-port-dropped", "peer-gone", "mtu-too-large"),
        (AT_PEER, ADDRESSES),
    ),
    sign(
        "own-late",
        Kind.FAILURE,
        Stage.DATA,
        r"^failed {2}at [a-z_]{3,20}.{0,80}: the deadline came",
        ("deadline-short", "slow-path"),
        (SHORTER,),
    ),
)
