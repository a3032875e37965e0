"""Needs of what stands between a process and a device."""

from collections.abc import Iterator
from typing import Final

from rdmadiag.facts import Missing, Why
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.needs.need import Where, host_wide, part
from rdmadiag.view.access import Provider, library_need, node_access, node_number, provider

_WITHOUT_ANSWER: Final = (Provider.UNKNOWN, Provider.LATE, Provider.WEDGED, Provider.DIED)


def device_nodes(case: Case) -> Iterator[Where]:
    """The node of each device."""
    for device in case.devices:
        access = node_access(device, case.evidence)
        if isinstance(access, Missing):
            yield access, device.name, None


def node_open(case: Case) -> Iterator[Where]:
    """Whether each device's node can be opened."""
    for device in case.devices:
        access = node_access(device, case.evidence)
        node = None if isinstance(access, Missing) else access.node
        if node and isinstance(node.openable, Missing):
            yield node.openable, device.name, None


def number_of_node(case: Case) -> Iterator[Where]:
    """The number of each device's node, and that of the device."""
    for device in case.devices:
        access = node_access(device, case.evidence)
        if isinstance(access, Missing) or access.node is None:
            continue
        for value in (access.node.dev, node_number(device, case.evidence)):
            if isinstance(value, Missing):
                yield value, device.name, None
                break


def process_capabilities(case: Case) -> Iterator[Where]:
    """Those of this process, and whether they count for the kernel."""
    yield from part("process.capabilities")(case)
    process = case.evidence.process
    if not isinstance(process, Missing):
        yield from host_wide(process.initial_userns)


def libraries(case: Case) -> Iterator[Where]:
    """The verbs library and the provider of each device."""
    for device in case.devices:
        unread = library_need(device, case.evidence)
        if unread:
            yield unread, device.name, None


def answers_of_provider(case: Case) -> Iterator[Where]:
    """What the verbs library answers of each device, up to the call that did not return."""
    verbs = case.evidence.verbs
    if isinstance(verbs, Missing):
        yield verbs, None, None
        return
    stopped = verbs.unanswered
    if stopped is None:
        return
    missing = Missing(
        Why.TIMEOUT if stopped.was_killed else Why.MALFORMED, f"{stopped.call}: {stopped.end}"
    )
    if not case.devices:
        yield missing, None, None
    for device in case.devices:
        if provider(device, case.evidence) in _WITHOUT_ANSWER:
            yield missing, device.name, None


def device_abilities(case: Case) -> Iterator[Where]:
    """What the stacks that were asked for cannot do without, of each device."""
    if not case.stacks:
        return
    from rdmadiag.view.capabilities import device_capabilities, required, unanswered

    for device in case.devices:
        if missing := unanswered(case.evidence.verbs, device.name):
            yield missing, device.name, None
            continue
        found = device_capabilities(case.evidence.verbs, device.name)
        for name in {stack.name for stack, _ in case.stacks}:
            for row in required(found, name, there=None):
                if isinstance(row.claimed, Missing):
                    yield row.claimed, device.name, None


def mapped_libraries(case: Case) -> Iterator[Where]:
    """Those of the process that was asked for."""
    found = case.evidence.libraries
    if isinstance(found, Missing) and found.why is not Why.NOT_COLLECTED:
        yield found, None, None


def versions_of_libraries(case: Case) -> Iterator[Where]:
    """Those of the libraries that the process has mapped: files, which not root alone may read."""
    found = case.evidence.libraries
    for each in () if isinstance(found, Missing) else found.mapped:
        if isinstance(each.version, Missing):
            yield each.version, None, None
