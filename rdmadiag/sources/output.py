"""What a command printed, parsed; or why there is nothing to parse."""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from rdmadiag.facts import Missing, Why
from rdmadiag.host import Host
from rdmadiag.host.answers import OUTPUT_LIMIT

T = TypeVar("T")

_SAID: Final = 200
_DENIALS: Final = ("not permitted", "permission denied", "must be admin", "requires admin")


def parsed(
    host: Host,
    argv: Sequence[str],
    deadline: float,
    name: str,
    parse: Callable[[bytes], T | Missing],
) -> T | Missing:
    """What `parse` makes of the command's output; a Missing names the command as `name`.

    `deadline` is absolute. An exit code other than 0, and output that was cut off, give
    nothing: half an answer may lack the half that matters.
    """
    ran = host.run(argv, deadline)
    if isinstance(ran, Missing):
        return ran
    if ran.returncode:
        said = ran.stderr.decode("utf-8", "replace").strip()[:_SAID]
        denied = any(words in said.lower() for words in _DENIALS)
        why = Why.DENIED if denied else Why.UNSUPPORTED
        return Missing(why, f"{name}: exit {ran.returncode}{f': {said}' if said else ''}")
    if len(ran.stdout) >= OUTPUT_LIMIT:
        return Missing(Why.UNSUPPORTED, f"{name}: more than {OUTPUT_LIMIT} bytes")
    found = parse(ran.stdout)
    return Missing(found.why, f"{name}: {found.detail}") if isinstance(found, Missing) else found
