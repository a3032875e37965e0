"""A job's transport as text: the answer, why, and what it was read from."""

from collections.abc import Iterator, Sequence

from rich.console import Console

from rdmadiag.facts import Identity, Missing, present
from rdmadiag.facts.job import Extent, JobFacts
from rdmadiag.preflight.judge_job import Because, JobVerdict, bytes_text, percent
from rdmadiag.render.console import Text, console, in_view, say, steps, word
from rdmadiag.render.findings import whose
from rdmadiag.render.grid import Grid, Indented
from rdmadiag.render.plain import printable, shown
from rdmadiag.view.job import Bound, JobPort, JobView, Transport
from rdmadiag.view.job_peer import JobPeer
from rdmadiag.view.job_tcp import TcpPath

_PROCESSES = 8  # that are listed
_UNSEEN = (
    "GID indexes of queue pairs are not in RDMA netlink: below are those that they should have"
)
_BOUND = {Bound.COUNTED: "", Bound.ESTIMATE: "about ", Bound.AT_MOST: "at most "}


def show(
    facts: JobFacts,
    view: JobView,
    verdict: JobVerdict,
    causes: Sequence[Because],
    host: Identity,
    peer: tuple[Identity, JobVerdict, JobPeer] | None = None,
    to: Console | None = None,
    *,
    quiet: bool = False,
    verbose: bool = False,
) -> None:
    """Print it: the answer alone if `quiet`, every process if `verbose`."""
    out = to or console()
    line = word(verdict.status).append(f"  {verdict.answer}").append_text(whose(host))
    if quiet:
        say(out, line)
        return
    with in_view(out, line):
        say(out, line)
        for each in causes:
            sure = "" if each.certain else "perhaps "
            of = _of(each, facts)
            out.print(Indented(f"{sure}because {each.summary}{of}", 2))
            steps(out, each.remedy)
        steps(out, verdict.next)
        if peer:
            _section(out, f"at the peer {printable(peer[0].hostname)}", _peer(*peer[1:]))
        _section(out, "moved", _moved(view.transport))
        _section(out, "queue pairs", _ports(view.ports))
        for text in _notes(view):
            out.print(Indented(text, 2, "dim"))
        _section(out, "TCP connections", _tcp(view.tcp))
        _section(out, "processes", _processes(facts, verbose=verbose))
        _section(out, "libraries", _libraries(facts))
        _section(out, "variables", _variables(facts))


def _of(cause: Because, facts: JobFacts) -> str:
    if not cause.pids or len(facts.processes) == 1:
        return ""
    if len(cause.pids) == len(facts.processes):
        return ", in all its processes"
    return f", in {len(cause.pids)} of {len(facts.processes)} processes"


def _section(out: Console, title: str, table: Grid) -> None:
    if table.row_count:
        out.print()
        out.print(Text(title, "dim"))
        out.print(table)


def _rows() -> Grid:
    table = Grid(show_header=False)
    table.add_column("", no_wrap=True)
    table.add_column("", overflow="fold")
    return table


def _moved(transport: Transport) -> Grid:
    table = _rows()
    seconds = transport.seconds
    within = "" if isinstance(seconds, Missing) else f" in {seconds:.2g} s"
    for label, value, bound in (
        ("by RDMA", transport.rdma_bytes, _BOUND[transport.rdma_bound]),
        ("by TCP", transport.tcp_bytes, ""),
    ):
        text = _amount(value, bound)
        table.add_row(
            Text(label, "dim"), Text(text if isinstance(value, Missing) else text + within)
        )
    share, most = transport.share_rdma, transport.share_rdma_at_most
    if not isinstance(share, Missing):
        about = "about " if transport.rdma_bound is Bound.ESTIMATE else ""
        table.add_row(Text("share of RDMA", "dim"), Text(f"{about}{percent(share)}"))
    elif not isinstance(most, Missing):
        said = f"at most {percent(most)}: {share.detail}"
        table.add_row(Text("share of RDMA", "dim"), Text(said))
    return table


def _amount(value: int | Missing, bound: str = "") -> str:
    if isinstance(value, Missing):
        return f"not known: {value.detail or value.why}"
    return f"{bound if value else ''}{bytes_text(value)}"


def _peer(verdict: JobVerdict, peer: JobPeer) -> Grid:
    table = _rows()
    table.add_row(word(verdict.status), Text(verdict.answer))
    joined = peer.joined
    table.add_row(
        Text("queue pairs", "dim"),
        Text(
            f"not known which lead there: {joined.detail or joined.why}"
            if isinstance(joined, Missing)
            else f"{joined} of {shown(peer.connected, '?')} connected ones lead there and back"
        ),
    )
    for each in peer.halves:
        one, other = each.here, each.there
        table.add_row(
            Text("half broken", "dim"),
            Text(
                f"{one.device} QPN {one.number} is {one.state}; "
                f"there {other.device} QPN {other.number} is {other.state}"
            ),
        )
    for differing, none in ((peer.variables, "not set"), (peer.libraries, "not mapped")):
        for row in present(differing):
            here, there = (", ".join(each) or none for each in (row.here, row.there))
            table.add_row(Text(row.name, "dim"), Text(f"{here}; there {there}"))
    return table


def _ports(ports: Sequence[JobPort]) -> Grid:
    table = Grid()
    names = ("PORT", "STATE", "QUEUE PAIRS", "OF OTHERS", "MOVED", "GID TO USE", "STACKS TAKE")
    for name in names:
        table.add_column(name, overflow="fold")
    for each in ports:
        kinds = ", ".join(f"{row.count} {row.type} {row.state}" for row in each.queue_pairs)
        row = "-" if each.route_gid_index is None else f"{each.route_gid_index} ({each.route_gid})"
        picks = ", ".join(
            dict.fromkeys(
                f"{pick.stack} {'-' if pick.index is None else pick.index}" for pick in each.picks
            )
        )
        table.add_row(
            Text(f"{each.device}/{each.port}"),
            shown(each.state, "?"),
            Text(kinds),
            shown(each.others, "?"),
            "-"
            if isinstance(each.bytes, Missing)
            else f"{_BOUND[each.bound]}{bytes_text(each.bytes)}",
            Text(row),
            Text(picks or "-"),
        )
    return table


def _notes(view: JobView) -> Iterator[str]:
    if view.ports:
        yield _UNSEEN
    if any(port.bound is Bound.ESTIMATE for port in view.ports):
        yield "A port that counts packets alone: each is taken as full, so that it is an estimate."
    if view.unused and view.ports:
        yield f"Active ports without a queue pair of its own: {', '.join(view.unused)}."


def _tcp(tcp: tuple[TcpPath, ...] | Missing) -> Grid:
    if isinstance(tcp, Missing):
        table = _rows()
        table.add_row(Text("not known", "dim"), Text(tcp.detail or str(tcp.why)))
        return table
    table = Grid()
    table.add_column("NETDEV", overflow="fold")
    for name in ("CONNECTIONS", "MOVED", "SINCE OPENED"):
        table.add_column(name, justify="right", overflow="fold")
    table.add_column("", overflow="fold")
    for each in tcp:
        moved, total = each.interval_bytes, each.total_bytes
        table.add_row(
            Text(shown(each.netdev, "?")),
            str(each.connections),
            "?" if isinstance(moved, Missing) else bytes_text(moved),
            "?" if isinstance(total, Missing) else bytes_text(total),
            Text("within this host: not in the share" if each.within_host else "", "dim"),
        )
    return table


def _processes(facts: JobFacts, *, verbose: bool) -> Grid:
    table = _rows()
    few = facts.processes if verbose else facts.processes[:_PROCESSES]
    for each in few:
        table.add_row(Text(str(each.pid), "dim"), Text(shown(each.command, "?")))
    if more := len(facts.processes) - len(few):
        table.add_row(Text("", "dim"), Text(f"and {more} more (--verbose lists them)"))
    if facts.asked.extent is Extent.CGROUP and facts.cgroup is not None:
        table.add_row(Text("cgroup", "dim"), Text(shown(facts.cgroup, "?")))
    return table


def _libraries(facts: JobFacts) -> Grid:
    table = _rows()
    found: dict[tuple[str, str], str] = {}
    for process in facts.processes:
        if isinstance(process.libraries, Missing):
            reason = process.libraries
            table.add_row(Text(f"of {process.pid}", "dim"), Text(reason.detail or str(reason.why)))
            break
        for each in present(process.libraries):
            version = each.version if isinstance(each.version, str) else "version not in its name"
            found.setdefault((each.name, each.path), version)
    for (name, path), version in sorted(found.items()):
        table.add_row(Text(name, "dim"), Text(f"{version}  {printable(path)}"))
    return table


def _variables(facts: JobFacts) -> Grid:
    table = _rows()
    values: dict[str, dict[str, int]] = {}
    for process in facts.processes:
        if isinstance(process.environment, Missing):
            reason = process.environment
            table.add_row(Text(f"of {process.pid}", "dim"), Text(reason.detail or str(reason.why)))
            break
        for name, value in process.environment.items():
            of = values.setdefault(name, {})
            of[value] = of.get(value, 0) + 1
    for name, of in sorted(values.items()):
        each = ", ".join(
            value if count == len(facts.processes) else f"{value} ({count} of them)"
            for value, count in of.items()
        )
        table.add_row(Text(name, "dim"), Text(each))
    return table
