"""The chains of each port as text: the answer, then a table for each port, here and at the peer."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from rich.console import Console

from rdmadiag.facts import Identity, Missing
from rdmadiag.gid.traffic_class import BY_STACK
from rdmadiag.preflight.judge_lossless import LosslessVerdict
from rdmadiag.preflight.verdict import Status, worse
from rdmadiag.render.console import Text, console, in_view, say, steps, word
from rdmadiag.render.findings import answer, preflight, show_findings, whose
from rdmadiag.render.grid import Grid, Indented
from rdmadiag.render.plain import NO_DEVICE, counted, printable, shown
from rdmadiag.view.lossless import Cell, Chain, EndsDiffer, LosslessPort
from rdmadiag.view.unshown import is_without_devices

Peer = tuple[Identity, LosslessVerdict, tuple[LosslessPort, ...]]

_NONE: Final = "no active RoCE port"
_HEAD: Final = ("STACK", "CLASS", "DSCP", "PRIO", "PFC", "TC", "BUFFER", "LOSSLESS", "CLASS FROM")
_NUMBERS: Final = ("CLASS", "DSCP", "PRIO", "TC", "BUFFER")


def show(
    ports: Sequence[LosslessPort],
    verdict: LosslessVerdict,
    host: Identity,
    peer: Peer | None = None,
    differences: Sequence[EndsDiffer] = (),
    missing: Mapping[str, Missing] = MappingProxyType({}),
    to: Console | None = None,
    *,
    quiet: bool = False,
    verbose: bool = False,
) -> None:
    """Print them: the answer alone if `quiet`, evidence and remedy of notes too if `verbose`."""
    out = to or console()
    line = _line(ports, verdict, host, missing, peer)
    if quiet:
        say(out, line)
        return
    with in_view(out, line):
        say(out, line)
        if not ports:
            steps(out, [preflight(host, "what is missing")])
        _show_ports(out, ports)
        if peer:
            _show_peer(out, peer, differences)
        show_findings(out, verdict.findings, notes=verbose)
        if peer and peer[1].findings:
            out.print()
            say(out, Text(f"at the peer {printable(peer[0].hostname)}", "dim"))
            show_findings(out, peer[1].findings, notes=verbose)


def _line(
    ports: Sequence[LosslessPort],
    verdict: LosslessVerdict,
    host: Identity,
    missing: Mapping[str, Missing],
    peer: Peer | None,
) -> Text:
    if not ports:
        lost = (f"{name} could not be read: {why}" for name, why in missing.items())
        why = NO_DEVICE if is_without_devices(missing) else printable(next(lost, _NONE))
        return word(Status.UNKNOWN).append(f"  {why}").append_text(whose(host))
    if peer is not None:
        identity, theirs, their_ports = peer
        status = theirs.status if their_ports else Status.UNKNOWN
        if status is not verdict.status and worse(verdict.status, status) is status:
            if not their_ports:
                found = word(status).append(f"  the peer: {_NONE} is known")
                return found.append_text(whose(identity))
            return answer(status, theirs.findings, _answer(their_ports), identity)
    return answer(verdict.status, verdict.findings, _answer(ports), host)


def _answer(ports: Sequence[LosslessPort]) -> str:
    stacks = len({each.stack for port in ports for each in port.chains})
    where = ports[0].name if len(ports) == 1 else counted(len(ports), "port")
    return f"{counted(stacks, 'stack')} on {where}: every one in a priority with PFC"


def _show_ports(out: Console, ports: Sequence[LosslessPort]) -> None:
    for port in ports:
        out.print()
        say(out, Text(printable(f"{port.name} on {_known(port.netdev)}"), "bold"))
        out.print(Indented(printable(", ".join(_settings(port))), 2))
        if all(each.lossless is None and each.cell is Cell.PFC for each in port.chains):
            continue  # nothing of the NIC is known: one line has said why
        table = Grid()
        for name in _HEAD:
            table.add_column(
                name, justify="right" if name in _NUMBERS else "left", no_wrap=name != _HEAD[-1]
            )
        for each in port.chains:
            table.add_row(*_cells(each))
        out.print(table)
        if any("+" in _buffer(each) for each in port.chains):
            say(out, Text("  + priorities without PFC wait in the same buffer", "dim"))


def _settings(port: LosslessPort) -> Iterator[str]:
    if isinstance(port.pfc, Missing):
        yield f"PFC is not known: {port.pfc.detail or port.pfc.why}"
        return
    yield f"PFC {_priorities(port.pfc)}"
    if isinstance(port.trust, Missing):
        yield f"trust is not known: {port.trust.detail or port.trust.why}"
    else:
        yield f"trusts {str(port.trust).upper()} ({port.trust_from})"
    if not port.roce_v2:
        yield "RoCE v1: no DSCP"
    if not isinstance(port.dcbx, Missing) and port.dcbx:
        yield f"DCBX by {', '.join(port.dcbx)}"
    if not isinstance(port.peer_pfc, Missing):
        differs = "" if port.peer_pfc == port.pfc else ", which differs"
        yield f"the switch has PFC {_priorities(port.peer_pfc)}{differs}"


def _priorities(found: Sequence[int]) -> str:
    return f"on {' '.join(map(str, found))}" if found else "off"


def _cells(chain: Chain) -> Iterator[str]:
    yield BY_STACK[chain.stack].title
    yield shown(chain.traffic_class, "?")
    yield shown(chain.dscp)
    yield shown(chain.priority, "?")
    yield "?" if isinstance(chain.pfc, Missing) else "on" if chain.pfc else "off"
    yield shown(chain.class_of_port)
    yield _buffer(chain)
    yield _lossless(chain)
    yield printable(chain.class_from)


def _buffer(chain: Chain) -> str:
    shared = "+" if chain.shares_buffer and chain.pfc is True else ""
    return f"{shown(chain.buffer)}{shared}"


def _lossless(chain: Chain) -> str:
    if chain.lossless:
        return "yes"
    said = "no" if chain.lossless is False else "unknown"
    return f"{said}: {chain.cell}" if chain.cell else said


def _show_peer(out: Console, peer: Peer, differences: Sequence[EndsDiffer]) -> None:
    host, _, ports = peer
    out.print()
    say(out, Text(f"peer {printable(host.hostname)}", "dim"))
    if not ports:
        say(out, f"  {_NONE}")
    _show_ports(out, ports)
    out.print()
    if not differences:
        say(out, Text("nothing that is known differs between the two", "dim"))
        return
    say(out, Text("what differs", "dim"))
    table = Grid()
    for name in ("PORT", "PEER'S", "WHAT", "HERE", "THERE"):
        table.add_column(name, overflow="fold")
    for each in differences:
        row = (each.port, each.peer_port, each.what, each.here, each.there)
        table.add_row(*map(printable, row))
    out.print(table)


def _known(value: str | Missing) -> str:
    return f"a netdev that is not known ({value})" if isinstance(value, Missing) else value
