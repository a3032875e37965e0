"""rdmadiag topology."""

from typing import Final

import click

from rdmadiag.cli.exits import UNKNOWN
from rdmadiag.cli.options import Reading, reading
from rdmadiag.cli.output import printing
from rdmadiag.cli.page import Page
from rdmadiag.cli.selectors import selected
from rdmadiag.cli.verdicts import code_of, exit_zero_option, fail_on_option

_SOURCES: Final = ("sysfs", "nldev", "netdev", "process", "routing", "topology")


@click.command(
    "topology",
    cls=Page,
    examples=(
        ("which adapter is near which GPU, and the lines to export", "rdmadiag topology"),
        ("of a recorded host", "rdmadiag topology --from host.tar.gz"),
        ("of a recorded host, for a program", "rdmadiag topology --json --from HOST.tar.gz"),
    ),
)
@reading
@fail_on_option
@exit_zero_option
def command(reading: Reading, fail_on: str, exit_zero: bool) -> int:
    """Which adapter is near which GPU: NUMA nodes, PCIe switches, and the lines to export.

    GPUs and adapters as a tree of NUMA node, host bridge and switch; how far each GPU is from
    the adapters, in the words of `nvidia-smi topo -m`; then NCCL_IB_HCA for the host and
    UCX_NET_DEVICES for each GPU, or without GPUs for each NUMA node. Ports that are not active,
    carry the default route, are virtual functions, or are BlueField beside other adapters are
    shown, and not proposed. Nothing is woken or set.
    Exits 0 ok, 1 warn (a GPU without an adapter near it, a variable that names a far one), 3
    unknown, or no RDMA device.
    """
    from rdmadiag.preflight.case import Case
    from rdmadiag.preflight.judge_topology import judge
    from rdmadiag.view.topology import topology
    from rdmadiag.view.unshown import unread_sources

    evidence = reading.evidence(_SOURCES)
    devices = selected(reading.devices, evidence)
    found = topology(devices, evidence)
    verdict = judge(Case(evidence, devices, selected=bool(reading.devices)))
    missing = unread_sources(evidence) | dict(found.missing)
    with printing():
        if reading.form == "json":
            from rdmadiag.render.json import write

            parts = {
                "verdict": verdict,
                "gpus": found.gpus,
                "nics": found.nics,
                "exports": found.exports,
            }
            write({"host": reading.identity} | parts | {"missing": missing})
        else:
            from rdmadiag.render.topology import show

            show(
                found,
                verdict,
                reading.identity,
                missing,
                quiet=reading.quiet,
                verbose=reading.verbose,
            )
    if not found.nics or "topology" in missing:
        return UNKNOWN
    return code_of(verdict.status, fail_on, exit_zero)
