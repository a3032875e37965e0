"""What the stacks that were asked for (`--stack`) need of a device, and the device has not."""

from collections.abc import Iterator
from typing import Final

from rdmadiag.gid.stack import Stack
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.capabilities import device_capabilities, lacking, unanswered
from rdmadiag.view.reconcile import DeviceView
from rdmadiag.view.stack_picks import BY_GID


def _used(case: Case) -> Iterator[DeviceView]:
    """Devices with an active port that a stack could take, and that answered."""
    for device in case.devices:
        taken = any(port.is_active and port.protocol in BY_GID for port in device.ports)
        if taken and unanswered(case.evidence.verbs, device.name) is None:
            yield device


def _stacks(case: Case) -> tuple[Stack, ...]:
    return tuple({stack.name: stack for stack, _ in case.stacks}.values())


@rule(
    "stack-lacks-capability",
    Severity.CRITICAL,
    "A device cannot do what the stack needs",
    "The stack uses something that the device, by its own word (ibv_query_device), does not have: "
    "remote atomics, a shared receive queue. Its calls or its work requests fail, with EINVAL, "
    "EOPNOTSUPP or a completion error. `rdmadiag capabilities --stack NAME` shows all that it "
    "needs or uses; what it merely uses, it can do without.",
    (
        "https://man7.org/linux/man-pages/man3/ibv_query_device.3.html",
        "https://github.com/linux-rdma/rdma-core/blob/master/libibverbs/man/ibv_query_device.3",
    ),
    remedy=(
        "rdmadiag capabilities --stack {stack} --device {device}",
        "# leave the device out of the stack's list, or run another stack or transport on it",
    ),
    needs=("ports", "port state", "what devices can do"),
)
def stack_lacks_capability(this: Rule, case: Case) -> Iterator[Finding]:
    """One finding a stack and device."""
    for device in _used(case):
        found = device_capabilities(case.evidence.verbs, device.name)
        for stack in _stacks(case):
            rows = lacking(found, stack.name)
            if not rows:
                continue
            names = ", ".join(row.name for row in rows)
            needs = [each for row in rows for each in row.needed_by if each.stack == stack.name]
            purposes = "; ".join(dict.fromkeys(each.purpose for each in needs))
            yield this.finding(
                f"{stack.title} needs {names} ({purposes}), and {device.name} has not got it",
                device=device.name,
                evidence=[
                    *(
                        Proof("verbs", f"ibv_query_device {device.name}: {row.source}", row.said)
                        for row in rows
                    ),
                    *(Proof("stack", stack.title, each.source) for each in needs[:2]),
                ],
                fill={"stack": stack.name},
            )


RULES: Final[tuple[Rule, ...]] = (stack_lacks_capability,)
