"""Use of resources as text: the answer, counts beside limits, then holders and queue pairs."""

from collections.abc import Sequence

from rich.console import Console

from rdmadiag.facts import Identity, Missing, present
from rdmadiag.facts.resources import KINDS
from rdmadiag.preflight.judge_resources import ResourceVerdict
from rdmadiag.render.console import Text, console, in_view, say
from rdmadiag.render.findings import answer, show_findings
from rdmadiag.render.grid import Grid
from rdmadiag.render.plain import counted, printable, shown
from rdmadiag.view.resource_usage import Holder, HolderKind, QueuePairs, Usage, Use

_HEAD = {
    "ctx": "CONTEXT",
    "pd": "PD",
    "cq": "CQ",
    "qp": "QP",
    "srq": "SRQ",
    "mr": "MR",
    "cm_id": "CM ID",
}
_NUMBERS = 3  # of queue pairs that a row shows
_UNITS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def show(
    usages: Sequence[Usage],
    verdict: ResourceVerdict,
    host: Identity,
    to: Console | None = None,
    *,
    quiet: bool = False,
    verbose: bool = False,
) -> None:
    """Print them: the answer alone if `quiet`, evidence and remedy of notes too if `verbose`."""
    out = to or console()
    line = answer(verdict.status, verdict.findings, _answer(usages), host)
    if quiet:
        say(out, line)
        return
    with in_view(out, line):
        say(out, line)
        show_findings(out, verdict.findings, notes=verbose)
        for title, table in (
            ("in use, and of how many", _uses(usages)),
            ("held by", _holders(usages)),
            ("queue pairs", _queue_pairs(usages)),
        ):
            if table.row_count:
                out.print()
                out.print(Text(title, "dim"))
                out.print(table)


def _answer(usages: Sequence[Usage]) -> str:
    pairs = sum(use.current for each in usages for use in present(each.uses) if use.kind == "qp")
    pids = {
        holder.pid
        for each in usages
        for holder in present(each.holders)
        if holder.kind is HolderKind.PROCESS
    }
    devices = counted(len(usages), "device")
    processes = f"{len(pids)} process{'' if len(pids) == 1 else 'es'}"
    return f"{devices}, {counted(pairs, 'queue pair')}, held by {processes}; no limit is near"


def _grid(*names: str, left: Sequence[str] = ()) -> Grid:
    table = Grid()
    for name in names:
        table.add_column(name, justify="left" if name in left else "right", overflow="fold")
    return table


def _uses(usages: Sequence[Usage]) -> Grid:
    kinds = [
        kind
        for kind in KINDS
        if any(use.kind == kind for each in usages for use in present(each.uses))
    ]
    table = _grid("DEVICE", *(_HEAD[kind] for kind in kinds), left=("DEVICE",))
    for each in usages:
        if isinstance(each.uses, Missing):
            continue
        by_kind = {use.kind: use for use in each.uses}
        table.add_row(printable(each.device), *(_use(by_kind.get(kind)) for kind in kinds))
    return table


def _use(use: Use | None) -> str:
    if use is None:
        return "-"
    return str(use.current) if isinstance(use.maximum, Missing) else f"{use.current}/{use.maximum}"


def _holders(usages: Sequence[Usage]) -> Grid:
    rows = [(usage.device, holder) for usage in usages for holder in present(usage.holders)]
    kinds = [kind for kind in KINDS if any(kind in holder.held for _, holder in rows)]
    memory = ["MEMORY"] if any(holder.memory_bytes for _, holder in rows) else []
    names = ("DEVICE", "PID", "COMMAND", *(_HEAD[kind] for kind in kinds), *memory)
    table = _grid(*names, left=("DEVICE", "COMMAND"))
    for device, holder in rows:
        cells = [str(holder.held.get(kind, "-")) for kind in kinds]
        if memory:
            cells.append(_bytes(holder.memory_bytes))
        table.add_row(printable(device), *_who(holder), *cells)
    return table


def _who(holder: Holder | QueuePairs) -> tuple[str, Text]:
    kind = holder.kind if isinstance(holder, Holder) else holder.holder
    command = holder.command
    if kind is HolderKind.KERNEL:
        return "-", Text(f"[{printable(str(command))}]")
    hidden = isinstance(command, Missing)
    text = Text("hidden", "yellow") if hidden else Text(printable(str(command)))
    return "-" if holder.pid is None else str(holder.pid), text


def _bytes(value: int | None) -> str:
    for factor, unit in _UNITS:
        if value and value >= factor:
            return f"{value / factor:.3g} {unit}"
    return "-" if value is None else f"{value} B"


def _queue_pairs(usages: Sequence[Usage]) -> Grid:
    table = _grid(
        "DEVICE", "TYPE", "STATE", "QPS", "PID", "COMMAND", "QPN",
        left=("DEVICE", "TYPE", "STATE", "COMMAND", "QPN"),
    )  # fmt: skip
    for usage in usages:
        for row in present(usage.queue_pairs):
            numbers = row.numbers[:_NUMBERS]
            more = ", …" if row.count > len(numbers) else ""
            table.add_row(
                printable(usage.device),
                shown(row.type, "?"),
                shown(row.state, "?"),
                str(row.count),
                *_who(row),
                Text(", ".join(map(str, numbers)) + more, "dim"),
            )
    return table
