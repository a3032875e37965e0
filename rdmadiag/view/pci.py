"""Which function's registers say how an RDMA device sends, and what stands above it."""

from collections.abc import Iterator

from rdmadiag.facts import Missing, Why, present
from rdmadiag.facts.evidence import Evidence
from rdmadiag.facts.pci import PciConfig
from rdmadiag.view.reconcile import DeviceView


def function_of(device: DeviceView, evidence: Evidence) -> PciConfig | Missing | None:
    """Of a virtual function the physical one; None where the device is none of the bus."""
    facts = evidence.pci
    if isinstance(facts, Missing):
        return facts
    if isinstance(facts.functions, Missing):
        return facts.functions
    address = _address(device, evidence)
    if address is None:
        return None
    found = next((each for each in facts.functions if each.address == address), None)
    return found or Missing(Why.NOT_COLLECTED, f"{address}: its place on the bus is not known")


def _address(device: DeviceView, evidence: Evidence) -> str | None:
    topology = evidence.topology
    for each in () if isinstance(topology, Missing) else present(topology.adapters):
        if each.device == device.name:
            if isinstance(each.physical_function, str):
                return each.physical_function
            return None if isinstance(each.address, Missing) else each.address
    return None if isinstance(device.pci, Missing) else device.pci.address.lower()


def bridges_above(function: PciConfig, evidence: Evidence) -> Iterator[PciConfig]:
    """From the root; those that are in the evidence."""
    facts = evidence.pci
    functions = () if isinstance(facts, Missing) else present(facts.functions)
    known = {each.address: each for each in functions}
    for address in function.place.bridges:
        if address in known:
            yield known[address]
