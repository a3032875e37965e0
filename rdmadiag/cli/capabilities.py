"""rdmadiag capabilities."""

from typing import TYPE_CHECKING

import click

from rdmadiag.cli import exits, page
from rdmadiag.cli.exits import CannotTell, Refused
from rdmadiag.cli.options import Reading, reading, recorded
from rdmadiag.cli.output import note, printing
from rdmadiag.cli.page import Page
from rdmadiag.cli.selectors import selectors
from rdmadiag.nearest import instead

if TYPE_CHECKING:
    from rdmadiag.facts import Missing
    from rdmadiag.facts.evidence import Evidence
    from rdmadiag.view.capabilities import DeviceCapabilities


@click.command(
    "capabilities",
    cls=Page,
    examples=(
        ("what each device can do, and who needs it", "rdmadiag capabilities"),
        ("has it what a stack cannot do without?", "rdmadiag capabilities --stack nvshmem"),
        (
            "what differs from another host",
            "rdmadiag capabilities --all --peer other-host.json",
        ),
    ),
)
@reading
@page.option(
    "--stack",
    metavar="NAME",
    help="Only what this one needs or uses: nvshmem, ucx, dpdk, nvme_rdma.",
)
@page.option("--all", "everything", is_flag=True, help="Limits and single operations too.")
@page.option(
    "--peer",
    metavar="SNAPSHOT|REPORT.json",
    help="Another host: only what devices of the same name say differently.",
)
@page.option(
    "--exercised",
    metavar="FILE",
    help="What exercise --json printed on this host: which capabilities it has proven.",
)
def command(
    reading: Reading,
    stack: str | None,
    everything: bool,
    peer: str | None,
    exercised: str | None,
) -> int:
    """What each device says it can do, and which stack needs it.

    It is what the verbs library answers; nothing is tried, which is what exercise is for.

    Exits 0; 2 where a device lacks what --stack cannot do without; 3 where that is not known,
    there is no device, or one is silent.
    """
    from rdmadiag.view.capabilities import for_stack, lacking, required

    if stack is not None:
        _known(stack)
    chosen, silent, evidence = _look(reading)
    if exercised is not None:
        chosen = _proven(chosen, exercised, reading)
    if stack is not None:
        chosen = [for_stack(each, stack) for each in chosen]
    unread = False
    with printing():
        if peer is not None:
            unread = _compare(reading, evidence, chosen, silent, peer, stack)
        elif reading.form == "json":
            from rdmadiag.render.json import write

            write({"host": reading.identity, "devices": chosen, "unanswered": silent})
        else:
            from rdmadiag.render.capabilities import show

            show(
                chosen,
                silent,
                evidence,
                host=reading.identity,
                everything=everything,
                stack=stack,
                quiet=reading.quiet,
            )
    if stack is not None and any(lacking(each, stack) for each in chosen):
        return exits.CRITICAL
    if stack is not None and any(required(each, stack, there=None) for each in chosen):
        return exits.UNKNOWN
    return exits.UNKNOWN if silent or unread or not chosen else exits.OK


def _proven(
    chosen: "list[DeviceCapabilities]", path: str, reading: Reading
) -> "list[DeviceCapabilities]":
    """With what a saved run says of the device that it was made on."""
    from rdmadiag.render.saved_run import SavedRunError, read_exercise
    from rdmadiag.view.proven import with_proof

    try:
        saved = read_exercise(path, reading.deadline)
    except SavedRunError as error:
        raise Refused(f"--exercised {error}") from error
    if saved.hostname != reading.identity.hostname:
        raise Refused(f"--exercised {path} is of another host: {saved.hostname!r}")
    return [with_proof(each, saved.cells) if each.name == saved.device else each for each in chosen]


def _known(stack: str) -> None:
    from rdmadiag.view.capability_needs import STACKS

    if stack not in STACKS:
        raise click.UsageError(f"no stack {stack!r}; {instead(stack, STACKS)}")


def _look(
    reading: Reading,
) -> "tuple[list[DeviceCapabilities], dict[str, Missing], Evidence]":
    """Every selected device; those that did not answer, and why not; the evidence."""
    from rdmadiag.sources.run import device_sources
    from rdmadiag.view.capabilities import device_capabilities, unanswered
    from rdmadiag.view.reconcile import devices
    from rdmadiag.view.select import NoSuchDevice, select

    wanted = selectors(reading.devices)
    evidence = reading.evidence(device_sources(reading.identity.platform))
    try:
        names = [each.name for each in select(devices(evidence), wanted)]
    except NoSuchDevice as error:
        raise Refused(str(error)) from error
    answered, silent = [], {}
    for name in names:
        if (why := unanswered(evidence.verbs, name)) is not None:
            silent[name] = why
        else:
            answered.append(device_capabilities(evidence.verbs, name))
    return answered, silent, evidence


def _compare(
    reading: Reading,
    own: "Evidence",
    chosen: "list[DeviceCapabilities]",
    silent: "dict[str, Missing]",
    peer: str,
    stack: str | None,
) -> bool:
    """Print in what they differ; whether a device of the peer is not known."""
    from rdmadiag.view.capabilities import differences, for_stack, of_library
    from rdmadiag.view.unshown import why_unknown

    other = recorded(peer, reading.deadline)
    _, silent_there, evidence = _look(other)
    there = of_library(evidence.verbs)
    for side, seen, listed in ((reading, own, chosen), (other, evidence, there)):
        if not listed and (why := why_unknown(seen)):
            raise CannotTell(f"the devices of {side.identity.hostname} are not known: {why}")
    if stack is not None:
        there = [for_stack(each, stack) for each in there]
    unknown = silent | silent_there
    found = [each for each in differences(chosen, there) if each.device not in unknown]
    unread = [
        f"{name} of {side.identity.hostname} is not known: {why}"
        for side, every in ((reading, silent), (other, silent_there))
        for name, why in every.items()
    ]
    if unread and not found:
        raise CannotTell("; ".join(unread))
    for each in unread:
        note(each)
    if reading.form == "json":
        from rdmadiag.render.json import write

        write({"host": reading.identity, "peer": other.identity, "differences": found})
    else:
        from rdmadiag.render.capabilities import show_differences

        show_differences(found, reading.identity, other.identity)
    return bool(silent_there)
