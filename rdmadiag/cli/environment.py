"""--env-from PID|FILE."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from rdmadiag.cli.exits import Refused
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.evidence import Evidence
from rdmadiag.host.live import LiveHost


def environment_from(text: str, deadline: float) -> Mapping[str, str]:
    """The variables of a process of this machine, or of a file. Refused with the reason.

    `deadline` is absolute on time.monotonic's clock.
    """
    from rdmadiag.host.isolation import in_one_child
    from rdmadiag.sources.environment import read_env_file, read_environment

    is_pid = text.isascii() and text.isdigit()
    read = read_environment if is_pid else read_env_file
    # Of a process that is stuck in the kernel, too, /proc may not answer.
    found = in_one_child(text, partial(read, LiveHost(), text), deadline)
    if not isinstance(found, Missing):
        return dict(found)
    if is_pid and found.why is Why.ABSENT:
        raise Refused(f"--env-from {text}: no such process (a file of that name is ./{text})")
    if is_pid and found.why is Why.DENIED:
        raise Refused(f"--env-from {text}: its environment may be read by its user or root alone")
    raise Refused(f"--env-from {text}: {found.detail or found.why}")


def with_environment(evidence: Evidence, text: str, deadline: float) -> Evidence:
    """The evidence as if the process that was looked at had those variables.

    Only those that a report carries anyway: others may hold secrets.
    """
    from rdmadiag.gid.variables import REPORTED

    found = environment_from(text, deadline)
    if isinstance(evidence.process, Missing):
        raise Refused(f"--env-from {text}: nothing is known of the process ({evidence.process})")
    kept = {name: value for name, value in sorted(found.items()) if name.startswith(REPORTED)}
    return replace(evidence, process=replace(evidence.process, environment=kept))
