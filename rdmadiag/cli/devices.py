"""rdmadiag devices."""

import click

from rdmadiag.cli import exits
from rdmadiag.cli.options import Reading, reading
from rdmadiag.cli.output import printing
from rdmadiag.cli.page import Page
from rdmadiag.cli.selectors import not_there, selectors


@click.command(
    "devices",
    cls=Page,
    examples=(
        ("devices and ports, and where each is seen", "rdmadiag devices"),
        ("one device, for a program", "rdmadiag devices --device mlx5_0 --json"),
        (
            "where a device is lost in a container",
            "rdmadiag devices --sample container-without-uverbs",
        ),
    ),
)
@reading
def command(reading: Reading) -> int:
    """Devices and ports, where each is seen, and why one is not.

    Exits 0, or 3 where there is no RDMA device, or what lists them could not be read.
    """
    from rdmadiag.sources.run import device_sources
    from rdmadiag.view.discovery_path import functions_without_device
    from rdmadiag.view.inventory import inventory
    from rdmadiag.view.reconcile import devices
    from rdmadiag.view.select import NoSuchDevice, select
    from rdmadiag.view.unshown import why_unknown

    wanted = selectors(reading.devices)
    evidence = reading.evidence(device_sources(reading.identity.platform))
    try:
        every = devices(evidence)
        chosen = select(every, wanted)
    except NoSuchDevice as error:
        raise not_there(error, evidence) from error
    listed = inventory(chosen, evidence)
    without = () if wanted else functions_without_device(every, evidence)
    if reading.form == "json":
        from rdmadiag.render.json import write
        from rdmadiag.view.unshown import unread_sources

        with printing():
            write(
                {
                    "host": reading.identity,
                    "devices": listed,
                    "functions_without_device": without,
                    "missing": unread_sources(evidence),
                }
            )
    else:
        from rdmadiag.render.devices import show

        with printing():
            show(listed, evidence, without, host=reading.identity, quiet=reading.quiet)
    return exits.OK if listed and why_unknown(evidence) is None else exits.UNKNOWN
