"""rdmadiag gids."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from rdmadiag.cli import exits, page
from rdmadiag.cli.exits import CannotTell, Refused
from rdmadiag.cli.options import Reading, Whole, gid_scan_option, reading, recorded
from rdmadiag.cli.output import note, printing
from rdmadiag.cli.page import Page
from rdmadiag.cli.selectors import not_there, selectors

if TYPE_CHECKING:
    from rdmadiag.facts import Identity, Missing
    from rdmadiag.facts.evidence import Evidence
    from rdmadiag.gid.pick import Pick
    from rdmadiag.gid.registry import Chosen
    from rdmadiag.view.gid_tables import PortPicks
    from rdmadiag.view.peer_picks import PortPair
    from rdmadiag.view.reconcile import DeviceView, PortView


@click.command(
    "gids",
    cls=Page,
    examples=(
        ("the table of each port, and the index to use", "rdmadiag gids"),
        (
            "what each stack would pick with the variables of a running job",
            "rdmadiag gids --explain --env-from 4711",
        ),
        ("set what fits every port", 'eval "$(rdmadiag gids --env nccl)"'),
        ("which stacks can talk to another host", "rdmadiag gids --explain --peer other-host.json"),
    ),
)
@reading
@page.option(
    "--gid-index",
    type=Whole(0, 65535),
    metavar="INDEX",
    help="Route by this entry instead of choosing one; it must not be empty.",
)
@page.option(
    "--explain",
    is_flag=True,
    help="What NCCL, UCX, perftest and the others would pick, by version, and why.",
)
@page.option(
    "--stack",
    "names",
    metavar="NAME[@VERSION]",
    multiple=True,
    help="Only this one: nccl, ucx@1.18, mooncake@0.3.10. Can be repeated; implies --explain.",
)
@page.option(
    "--env-from",
    metavar="PID|FILE",
    help="Its variables instead of this process's: a running job's, or NAME=VALUE lines.",
)
@page.option(
    "--env",
    "env_for",
    metavar="NAME[@VERSION]",
    help='Print what to set for a stack, as shell lines: eval "$(rdmadiag gids --env nccl)".',
)
@page.option(
    "--peer",
    metavar="SNAPSHOT|REPORT.json",
    help="The other host: pair what each stack would pick at both ends; implies --explain.",
)
@gid_scan_option
def command(
    reading: Reading,
    gid_index: int | None,
    explain: bool,
    names: tuple[str, ...],
    env_from: str | None,
    env_for: str | None,
    peer: str | None,
    gid_scan_limit: int | None,
) -> int:
    """GID tables, the route GID of each port, and why.

    Exits 0; 1 where --env finds no single value for all ports; 2 where --gid-index names no
    entry of a port, or a --stack cannot talk to the --peer; 3 where there is no RDMA device
    or a table could not be read, and where --env meets a device's name that no kernel gives.
    """
    from rdmadiag.sources.table import Depth
    from rdmadiag.view.gid_tables import openable, tables
    from rdmadiag.view.reconcile import devices
    from rdmadiag.view.select import NoSuchDevice, select
    from rdmadiag.view.unshown import without_ports

    explained = explain or bool(names) or bool(peer)
    _check(reading, explained, names, env_from, env_for, peer)
    stacks = None
    if explained:
        from rdmadiag.cli.stacks import chosen_stacks

        stacks = chosen_stacks(names)
    wanted = selectors(reading.devices)
    depth = Depth(gid_rows=gid_scan_limit)
    evidence = reading.evidence(_sources(reading.identity.platform, peer), depth)
    try:
        chosen = select(devices(evidence, gid_index), wanted)
    except NoSuchDevice as error:
        raise not_there(error, evidence) from error
    chosen = chosen if wanted else openable(chosen, evidence)
    environment = _environment(env_from, evidence, reading.deadline) if explained or env_for else {}
    if env_for:
        return _settings(env_for, chosen, environment)
    if stacks is None:
        listed = tables(chosen)
    else:
        listed = tables(chosen, _asking(stacks, environment, named=bool(names)))
    unread = without_ports(chosen, evidence)
    host, pairs = (
        _pairs(peer, reading, env_from, chosen, evidence, environment, stacks)
        if peer and stacks is not None
        else (None, ())
    )
    with printing():
        if peer:
            _print_pairs(reading, host, pairs)
        else:
            _print(reading, listed, unread, evidence, explained=explained)
    if not listed or unread or any(table.missing for table in listed):
        return exits.UNKNOWN
    wrong = gid_index is not None and any(table.route is None for table in listed)
    apart = bool(peer and names) and (not pairs or _some_cannot(pairs))
    return exits.CRITICAL if wrong or apart else exits.OK


def _check(
    reading: Reading,
    explained: bool,
    names: Sequence[str],
    env_from: str | None,
    env_for: str | None,
    peer: str | None,
) -> None:
    """Refuses options that do not go together."""
    if env_for and (reading.form == "json" or peer or names):
        raise click.UsageError("--env prints shell lines: without --json, --stack and --peer")
    if env_from and not (explained or env_for):
        raise click.UsageError("--env-from goes with --explain, --stack, --peer or --env")


def _print(
    reading: Reading,
    listed: "Sequence[PortPicks]",
    unread: Mapping[str, str],
    evidence: "Evidence",
    *,
    explained: bool,
) -> None:
    if reading.form == "json":
        from rdmadiag.render.gid_documents import tables
        from rdmadiag.render.json import write
        from rdmadiag.view.unshown import unread_sources

        missing = unread_sources(evidence)
        parts = {"ports": tables(listed), "unread": unread, "missing": missing}
        write({"host": reading.identity} | parts)
    elif explained:
        from rdmadiag.render.stacks import show_stacks

        host, quiet, verbose = reading.identity, reading.quiet, reading.verbose
        show_stacks(listed, unread, evidence, host=host, quiet=quiet, verbose=verbose)
    else:
        from rdmadiag.render.gids import show

        show(listed, unread, evidence, host=reading.identity, quiet=reading.quiet)


def _print_pairs(reading: Reading, host: "Identity | None", pairs: "Sequence[PortPair]") -> None:
    if reading.form == "json":
        from rdmadiag.render.json import write
        from rdmadiag.render.peer_documents import pairs as rows

        write({"host": reading.identity, "peer": host, "pairs": rows(pairs)})
    elif host is not None:
        from rdmadiag.render.peer_picks import show_pairs

        show_pairs(pairs, reading.identity, host)


def _sources(platform: str, peer: str | None) -> Collection[str]:
    """For a pair, prefix lengths and VLANs too."""
    from rdmadiag.sources.run import cheap_sources

    addresses = ("mac_network",) if platform == "darwin" else ("netdev",)
    return (*cheap_sources(platform), *(addresses if peer else ()))


def _environment(
    env_from: str | None, evidence: "Evidence", deadline: float
) -> "Mapping[str, str] | Missing":
    if env_from:
        from rdmadiag.cli.environment import environment_from

        return environment_from(env_from, deadline)
    from rdmadiag.facts.evidence import LINUX_ONLY
    from rdmadiag.view.stack_picks import variables

    # No stack of a Mac reads a variable for its GID.
    found = variables(evidence)
    return {} if found == LINUX_ONLY else found


def _asking(
    stacks: "Sequence[Chosen]", environment: "Mapping[str, str] | Missing", *, named: bool
) -> "Callable[[PortView], tuple[Pick, ...]]":
    from rdmadiag.view.stack_picks import made_for, picks

    return lambda port: picks(port, stacks if named else made_for(stacks, port), environment)


def _no_index(port: "PortView") -> str:
    """Why there is no index to set for an active port."""
    from rdmadiag.view.reconcile import Protocol

    by_gid = port.protocol in (Protocol.ROCE, Protocol.INFINIBAND)
    return port.route.reason if by_gid else f"no stack sets one over {port.protocol}"


def _settings(
    env_for: str, views: "Sequence[DeviceView]", environment: "Mapping[str, str] | Missing"
) -> int:
    from rdmadiag.cli.stacks import chosen_stacks
    from rdmadiag.facts import Missing
    from rdmadiag.view.reconcile import ports
    from rdmadiag.view.stack_environment import NoDeviceName, NoVariable, routed, setting

    fitting = routed(tuple(ports(views)))
    if not fitting:
        active = next((each for each in ports(views) if each.is_active), None)
        why = f"; {active.name}: {_no_index(active)}" if active else ""
        note(f"no active RoCE port with a route GID{why}")
        return exits.UNKNOWN
    known = {} if isinstance(environment, Missing) else environment
    try:
        found = setting(chosen_stacks([env_for])[0], fitting, known)
    except NoVariable as error:
        raise Refused(str(error)) from error
    except NoDeviceName as error:
        note(f"{error}: no line is printed for a shell; name the devices to use with --device")
        return exits.UNKNOWN
    with printing():
        for line in found.lines:
            click.echo(line)
    if found.conflict is None:
        return exits.OK
    note(str(found.conflict))
    return exits.WARN


def _pairs(
    peer: str,
    reading: Reading,
    env_from: str | None,
    chosen: "Sequence[DeviceView]",
    evidence: "Evidence",
    environment: "Mapping[str, str] | Missing",
    stacks: "Sequence[Chosen]",
) -> "tuple[Identity, tuple[PortPair, ...]]":
    from rdmadiag.view.peer_picks import Side, pairs
    from rdmadiag.view.reconcile import devices, ports
    from rdmadiag.view.unshown import why_unknown

    other = recorded(peer, reading.deadline)
    there = other.evidence(_sources(other.identity.platform, peer))
    theirs = environment if env_from else _environment(None, there, reading.deadline)
    found = pairs(
        Side(tuple(ports(chosen)), evidence, environment),
        Side(tuple(ports(devices(there))), there, theirs),
        stacks,
    )
    for side, seen in ((reading, evidence), (other, there)):
        if not found and (why := why_unknown(seen)):
            raise CannotTell(f"the ports of {side.identity.hostname} are not known: {why}")
    return other.identity, found


def _some_cannot(pairs: "Sequence[PortPair]") -> bool:
    return any(each.talks == "no" for pair in pairs for each in pair.stacks)
