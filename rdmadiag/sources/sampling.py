"""What `counters`, `resources`, `route` and `job` read: its price is paid by no other command."""

from dataclasses import replace
from typing import Final

from rdmadiag.facts import Missing, NetDevFacts, Why
from rdmadiag.facts.counters import ALL, NOTHING, CounterFacts, Spared, Wanted
from rdmadiag.facts.evidence import LINUX_ONLY
from rdmadiag.facts.job import AskedJob, JobFacts, JobSample, WantedSample
from rdmadiag.facts.resources import ResourceFacts
from rdmadiag.facts.routing import Asked, TowardsFacts
from rdmadiag.host import Host
from rdmadiag.host.in_turn import Waiting
from rdmadiag.sources.run import run
from rdmadiag.sources.table import BY_NAME, Depth

_COUNTERS: Final = "counters"
_RESOURCES: Final = "resources"
SAMPLED: Final = (_COUNTERS, "netdev_counters", _RESOURCES)
"""The sources of these two commands; a Mac has the first alone."""


def sample(
    host: Host,
    deadline: float,
    wanted: Wanted = ALL,
    spared: Spared = NOTHING,
    waiting_for: Waiting | None = None,
) -> CounterFacts:
    """The counters of `wanted`, but for what an earlier sample was refused.

    `deadline` is absolute on `time.monotonic`'s clock; what has given nothing by then is in
    `failed`. `waiting_for` as `run` has it.
    """
    names = [name for name in sampled(host.identity.platform) if name != _RESOURCES]
    depth = Depth(wanted=wanted, spared=spared)
    answers = run(host, names or (_COUNTERS,), deadline, depth, waiting_for)
    facts: CounterFacts | Missing = answers.pop(_COUNTERS)
    if isinstance(facts, Missing):
        facts = CounterFacts(facts, facts, facts, wanted.excluded, (), (), (facts,))
    for sets in answers.values():
        if isinstance(sets, Missing):
            facts = replace(facts, failed=(*facts.failed, sets))
        elif not facts.failed:  # without its devices a set is nobody's
            facts = replace(facts, sets=(*facts.sets, *sets))
    return facts


def timed_out(facts: CounterFacts) -> bool:
    """Whether a source was killed at the deadline: it is not read again."""
    return any(each.why is Why.TIMEOUT for each in facts.failed)


def resources(
    host: Host, deadline: float, waiting_for: Waiting | None = None
) -> ResourceFacts | Missing:
    """Every tracked object; the others as above."""
    if _RESOURCES not in sampled(host.identity.platform):
        return LINUX_ONLY
    facts = run(host, (_RESOURCES,), deadline, waiting_for=waiting_for)[_RESOURCES]
    assert isinstance(facts, ResourceFacts | Missing)
    return facts


def sampled(platform: str) -> tuple[str, ...]:
    """Those of `SAMPLED` that a system has."""
    return tuple(name for name in SAMPLED if (platform, name) in BY_NAME)


_TOWARDS: Final = "towards"


def of_peers(platform: str) -> tuple[str, ...]:
    """The sources of `route`, that a system has."""
    return (_TOWARDS,) if (platform, _TOWARDS) in BY_NAME else ()


def towards(
    host: Host,
    deadline: float,
    asked: tuple[Asked, ...],
    waiting_for: Waiting | None = None,
) -> TowardsFacts | Missing:
    """The kernel's answers to what is asked, and the neighbours; the others as above."""
    if not of_peers(host.identity.platform):
        return LINUX_ONLY
    answers = run(host, (_TOWARDS,), deadline, Depth(asked=asked), waiting_for)
    facts = answers[_TOWARDS]
    assert isinstance(facts, TowardsFacts | Missing)
    return facts


_JOB: Final = ("job", "job_sample")


def job(
    host: Host, deadline: float, asked: AskedJob, waiting_for: Waiting | None = None
) -> JobFacts | Missing:
    """Its processes; the others as above."""
    if (host.identity.platform, _JOB[0]) not in BY_NAME:
        return LINUX_ONLY
    facts = run(host, _JOB[:1], deadline, Depth(job=asked), waiting_for)[_JOB[0]]
    assert isinstance(facts, JobFacts | Missing)
    return facts


def job_sample(host: Host, deadline: float, sampled: WantedSample) -> JobSample | Missing:
    """What they and the ports have moved by now; the others as above."""
    if (host.identity.platform, _JOB[1]) not in BY_NAME:
        return LINUX_ONLY
    facts = run(host, _JOB[1:], deadline, Depth(sampled=sampled))[_JOB[1]]
    assert isinstance(facts, JobSample | Missing)
    return facts


def netdevs(host: Host, deadline: float) -> NetDevFacts | Missing:
    """All of this network namespace, those that no RDMA device refers to among them."""
    if (host.identity.platform, "netdev") not in BY_NAME:
        return LINUX_ONLY
    facts = run(host, ("netdev",), deadline)["netdev"]
    assert isinstance(facts, NetDevFacts | Missing)
    return facts
