"""What `counters` and `resources` read: each source in a child of its own, under one deadline.

Apart from `preflight.gather`: reading counters and dumping objects has a price, and no other
command pays it.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from rdmadiag.facts import Missing, Why
from rdmadiag.facts.counters import ALL, CounterFacts, Wanted
from rdmadiag.facts.resources import ResourceFacts
from rdmadiag.host import Host
from rdmadiag.in_turn import runner
from rdmadiag.preflight.evidence import LINUX_ONLY
from rdmadiag.preflight.gather import hand_over
from rdmadiag.sources.counters import NOTHING, Spared

COUNTERS: Final = "counters"
_NETDEVS: Final = "netdev_counters"
RESOURCES: Final = "resources"


def sample(
    host: Host, deadline: float, wanted: Wanted = ALL, spared: Spared = NOTHING
) -> CounterFacts:
    """The counters of `wanted`, but for what an earlier sample was refused.

    `deadline` is absolute on `time.monotonic`'s clock; what has given nothing by then is in
    `failed`.
    """
    answers = _answers(host, _counter_tasks(host, deadline, wanted, spared), deadline)
    facts: CounterFacts | Missing = answers.pop(COUNTERS)
    if isinstance(facts, Missing):
        facts = CounterFacts(facts, facts, facts, wanted.excluded, (), (), (facts,))
    for sets in answers.values():
        if isinstance(sets, Missing):
            facts = replace(facts, failed=(*facts.failed, sets))
        elif not facts.failed:  # without its devices a set is nobody's
            facts = replace(facts, sets=(*facts.sets, *sets))
    return facts


def timed_out(facts: CounterFacts) -> bool:
    """Whether a source was killed at the deadline: it is not asked again."""
    return any(each.why is Why.TIMEOUT for each in facts.failed)


def resources(host: Host, deadline: float) -> ResourceFacts | Missing:
    """Every tracked object; `deadline` as above."""
    if host.identity.platform != "linux":
        return LINUX_ONLY
    facts = _answers(host, {RESOURCES: _resources(host, hand_over(deadline))}, deadline)[RESOURCES]
    assert isinstance(facts, ResourceFacts | Missing)
    return facts


def recorded_tasks(host: Host, deadline: float, wanted: Wanted) -> dict[str, Callable[[Host], Any]]:
    """What a snapshot records for these two commands: name → a reader of a host."""
    if host.identity.platform == "darwin":
        return {COUNTERS: lambda recording: _mac(recording, deadline, wanted)}
    if host.identity.platform != "linux":
        return {}
    return {
        COUNTERS: lambda recording: _sysfs(recording, deadline, wanted, NOTHING),
        _NETDEVS: lambda recording: _netdevs(recording, deadline, wanted, NOTHING),
        RESOURCES: lambda recording: _resources(recording, deadline)(),
    }


def _answers(host: Host, tasks: dict[str, Callable[[], Any]], deadline: float) -> dict[str, Any]:
    lacking = {name: host.lacks[name] for name in tasks if name in host.lacks}
    running = runner(can_hang=host.can_hang)
    for name, task in tasks.items():
        if name not in lacking:
            running.start(name, task)
    return lacking | running.collect(deadline)


def _counter_tasks(
    host: Host, deadline: float, wanted: Wanted, spared: Spared
) -> dict[str, Callable[[], Any]]:
    limit = hand_over(deadline)
    if host.identity.platform == "darwin":
        return {COUNTERS: partial(_mac, host, limit, wanted)}
    if host.identity.platform != "linux":
        return {COUNTERS: lambda: LINUX_ONLY}
    # Imported here, not in each child.
    import rdmadiag.sources.netdev_counters  # noqa: F401

    return {
        COUNTERS: partial(_sysfs, host, limit, wanted, spared),
        _NETDEVS: partial(_netdevs, host, limit, wanted, spared),
    }


def _sysfs(host: Host, deadline: float, wanted: Wanted, spared: Spared) -> CounterFacts:
    from rdmadiag.sources.counters import read_counters

    return read_counters(host, deadline, wanted, spared)


def _netdevs(host: Host, deadline: float, wanted: Wanted, spared: Spared) -> Any:
    from rdmadiag.sources.netdev_counters import read_netdev_counters

    return read_netdev_counters(host, deadline, wanted, spared)


def _mac(host: Host, deadline: float, wanted: Wanted) -> CounterFacts:
    from rdmadiag.sources.mac_counters import read_mac_counters

    return read_mac_counters(host, deadline, wanted)


def _resources(host: Host, deadline: float) -> Callable[[], Any]:
    from rdmadiag.sources.resources import read_resources

    return partial(read_resources, host, deadline)
