"""What came of a pingpong: the answer first, then both ends, causes, next steps, latency."""

from typing import Any, Final

from rich.console import Console

from rdmadiag.explain.attempt import NOTHING, Advice, advice
from rdmadiag.explain.completions import completion
from rdmadiag.facts import Identity, Missing
from rdmadiag.facts.attempt import (
    Attempt,
    Bandwidth,
    Connection,
    EndFacts,
    Latency,
    Outcome,
    Teardown,
)
from rdmadiag.facts.errnos import errno_name
from rdmadiag.facts.ib import NO_LID, PKEY_BASE, PKEY_FULL, DataOp, LinkLayer, QpType
from rdmadiag.preflight.candidate import Candidate
from rdmadiag.preflight.safety import INSTEAD_OF_RTR, REASON_TEXT
from rdmadiag.quoting import shell_word
from rdmadiag.render.async_events import event_lines
from rdmadiag.render.console import Text, console, say, steps
from rdmadiag.render.grid import Grid
from rdmadiag.render.json import members
from rdmadiag.render.plain import counted, printable
from rdmadiag.verbs.attempt import Result

_WORD: Final = {
    Outcome.VERIFIED: ("VERIFIED", "bold green"),
    Outcome.WATCHDOG: ("KILLED", "bold red"),
    Outcome.NOT_ALLOWED: ("NOT ATTEMPTED", "bold yellow"),
    Outcome.NOT_SAFE: ("NOT ATTEMPTED", "bold yellow"),
    Outcome.INTERRUPTED: ("INTERRUPTED", "bold yellow"),
}
_TEARDOWN: Final = {
    Teardown.NOTHING_MADE: "nothing was made on the device",
    Teardown.CLEAN: "everything that was made is destroyed",
    Teardown.FAILED: "not everything that was made could be destroyed",
    Teardown.ABANDONED: "the process was ended; the kernel destroys what it had made",
}
_NOT_TIMED: Final = (
    "Half round trip: not measured. It takes the loop that a C compiler makes of "
    "rdmadiag/verbs/_loop.c when rdmadiag is installed, at both ends."
)
_NOT_TIMED_BY_CM: Final = (
    "Half round trip: not measured. Between two hosts --cm has no second connection, by which "
    "both ends could agree when to begin."
)
_NOT_TIMED_BY_UD: Final = (
    "Half round trip: not measured. Datagrams are looked at one by one, whom each is from and "
    "what it holds."
)
_BAR_WIDTH: Final = 40


def document(result: Result) -> dict[str, Any]:
    """The parts of the JSON document."""
    attempt = result.attempt
    advised = _advice(result)
    found: dict[str, Any] = members(attempt)
    for name in ("platform", "latency", "completion"):
        del found[name]
    return found | {
        "errno": _errno(attempt),
        "completion": _completion(attempt),
        "latency_us": attempt.latency,
        "causes": list(advised.causes),
        "next": list(advised.remedy),
        "reasons": [
            {"device": each.end.device, "port": each.end.port, "reason": str(reason)}
            for each in result.chosen
            for reason in each.blocking
        ],
        "host_reasons": list(result.of_host),
        "accepted_risks": [str(reason) for reason in result.accepted],
    }


def _errno(attempt: Attempt) -> dict[str, Any] | None:
    if not attempt.errno:
        return None
    return {
        "number": attempt.errno,
        "name": errno_name(attempt.errno, attempt.platform),
        "platform": attempt.platform,
    }


def _completion(attempt: Attempt) -> dict[str, Any] | None:
    bad = attempt.completion
    if bad is None:
        return None
    known = completion(bad.status)
    return {"name": known.name if known else None, **members(bad)}


def show(result: Result, host: Identity, to: Console | None = None) -> None:
    """Print it."""
    out = to or console()
    attempt = result.attempt
    say(out, _answer(attempt, host))
    _against(out, result)
    _of_peer(out, attempt)
    if attempt.local and attempt.outcome not in (Outcome.NO_PEER, Outcome.PEER_REFUSED):
        out.print()
        _ends(out, attempt)
    _partitions(out, result)
    if attempt.connection:
        _events(out, attempt.connection)
    for line in event_lines(attempt.events):
        say(out, line)
    _advise(out, _advice(result))
    if attempt.latency:
        _times(out, attempt.latency)
    elif _should_be_timed(attempt):
        out.print()
        say(out, _not_timed(attempt))
    if attempt.bandwidth:
        _bandwidth(out, attempt.bandwidth)
    if attempt.touched:
        out.print()
        say(out, f"Teardown: {_TEARDOWN[attempt.teardown]}.")
    if result.accepted:
        say(out, f"Accepted risks: {', '.join(result.accepted)}.")


def _not_timed(attempt: Attempt) -> str:
    if attempt.local and attempt.local.qp_type is QpType.UD:
        return _NOT_TIMED_BY_UD
    by_cm = attempt.connection is not None and attempt.role is not None
    return _NOT_TIMED_BY_CM if by_cm else _NOT_TIMED


def _partitions(out: Console, result: Result) -> None:
    for each in result.chosen[: 2 if result.meeting is None else 1] if result.attempt.local else ():
        if not isinstance(each.pkey, Missing):
            say(out, f"P_Key   {_name(each)}: {_partition(each.pkey)} at index {each.pkey_index}")


def _partition(pkey: int) -> str:
    if not pkey & PKEY_BASE:
        return "none"
    return f"{pkey:#06x} ({'full' if pkey & PKEY_FULL else 'limited'})"


def _of_peer(out: Console, attempt: Attempt) -> None:
    """What is odd about the peer."""
    if attempt.peer_is_this_host and attempt.outcome is not Outcome.NO_PEER:
        say(out, "The address of the peer is one of this host: no cable was part of this path.")
    if attempt.outcome is Outcome.MISMATCH:
        for problem in attempt.problems:
            say(out, f"  {printable(problem.code)}: {printable(problem.text)}")


def _should_be_timed(attempt: Attempt) -> bool:
    """Whether it ended so that figures could have come; the end that connects takes them."""
    verified = attempt.outcome in (Outcome.VERIFIED, Outcome.TEARDOWN_FAILED)
    torn_down = attempt.teardown is not Teardown.ABANDONED
    return verified and torn_down and attempt.role != "listen"


def _advise(out: Console, found: Advice) -> None:
    if found.causes:
        out.print()
        say(out, "Causes that are known:" if len(found.causes) > 1 else "A cause that is known:")
        for cause in found.causes:
            say(out, f"  - {printable(cause)}")
    if found.remedy:
        out.print()
        say(out, "Next:")
        steps(out, found.remedy)


def _answer(attempt: Attempt, host: Identity) -> Text:
    name, style = _WORD.get(
        attempt.outcome,
        ("FAILED", "bold red") if _is_failure(attempt) else ("NOT ATTEMPTED", "bold yellow"),
    )
    line = Text(name, style=style)
    if attempt.outcome is Outcome.VERIFIED and attempt.local and attempt.remote:
        line.append(f"  {_path(attempt.local, attempt.remote)}", style="")
        line.append(f": data verified both ways, {attempt.local.qp_type.upper()}", style="")
        if attempt.connection and attempt.connection.group:
            line.append(f", multicast {printable(attempt.connection.group)}", style="")
        if attempt.latency:
            line.append(f", {attempt.latency.bytes} bytes", style="")
    elif _is_failure(attempt):
        where = "" if attempt.local is None else f" on {_port(attempt.local)}"
        line.append(f"  at {attempt.stage}{where}: {printable(attempt.summary)}", style="")
    else:
        line.append(f"  {printable(attempt.summary)}", style="")
    line.append(f"  [{printable(host.hostname)}]", style="dim")
    return line


def _is_failure(attempt: Attempt) -> bool:
    return attempt.touched or attempt.outcome in (
        Outcome.CALL_FAILED,
        Outcome.DIED,
        Outcome.WATCHDOG,
    )


def _port(end: EndFacts) -> str:
    return printable(f"{end.device}/{end.port}")


def _path(local: EndFacts, remote: EndFacts) -> str:
    there = remote.gid.ipv4 or str(remote.gid) if remote.gid else _address(remote)
    return f"{_port(local)} - {_port(remote)} ({there})"


def _against(out: Console, result: Result) -> None:
    """Why the preflight forbids it, and what the user may do about that."""
    attempt = result.attempt
    for reason in result.of_host:
        say(out, f"  {reason}: {REASON_TEXT[reason]}")
    if attempt.outcome is not Outcome.NOT_SAFE or not result.chosen:
        return
    best = result.chosen[0]
    for reason in best.blocking:
        say(out, f"  {reason}: {REASON_TEXT[reason]}")
    others = [each for each in result.chosen[1:] if each.blocking]
    if others:
        names = ", ".join(printable(_name(each)) for each in others[:4])
        more = f" and {len(others) - 4} more" if len(others) > 4 else ""
        say(out, f"  Nor is it permitted on {names}{more}.")


def _name(candidate: Candidate) -> str:
    return f"{candidate.end.device}/{candidate.end.port}"


def _advice(result: Result) -> Advice:
    """The next step where nothing was attempted is the preflight; else what explain knows."""
    attempt = result.attempt
    if attempt.outcome is Outcome.NOT_ALLOWED:
        return Advice((), ("rdmadiag preflight", f"{_command(result)}{result.asked}"))
    if attempt.outcome is Outcome.NOT_SAFE:
        best = result.chosen[0] if result.chosen else None
        if best is None:
            return Advice((), ("rdmadiag devices",))
        if not best.blocking:
            return NOTHING
        device = shell_word(f"{best.end.device}:{best.end.port}")
        preflight = f"rdmadiag preflight --device {device}"
        instead = [INSTEAD_OF_RTR[each] for each in best.blocking if each in INSTEAD_OF_RTR]
        if instead:
            return Advice((), (preflight, *instead))
        risks = " ".join(f"--accept-risk {reason}" for reason in best.blocking)
        return Advice(
            (),
            (
                preflight,
                "# to attempt it all the same, naming what you take on:",
                f"{_command(result)} --device {device} {risks}{_whom(result)}",
            ),
        )
    return advice(attempt)


def _command(result: Result) -> str:
    return f"rdmadiag pingpong {'--cm ' if result.by_cm else ''}--allow-rtr"


def _whom(result: Result) -> str:
    if result.meeting is None:
        return ""
    address = shell_word(f"[{result.meeting.host}]:{result.meeting.port}")
    return f" --listen {address}" if result.meeting.role == "listen" else f" {address}"


def _events(out: Console, connection: Connection) -> None:
    """A line for each event of the connection manager."""
    if not connection.steps:
        return
    out.print()
    table = Grid()
    for name in ("Step", "End", "Event", "Status", "After"):
        table.add_column(name, no_wrap=True)
    for each in connection.steps:
        event = each.event.name if each.event else "another"
        if each.seconds is None:
            event = f"no {each.awaited.name}"
        after = "" if each.seconds is None else f"{each.seconds * 1000:.3g} ms"
        table.add_row(each.stage, each.end, event, str(each.status), after)
    out.print(table)


def _ends(out: Console, attempt: Attempt) -> None:
    """Two lines an end: one table of all this is wider than a terminal."""
    local, remote, connection = attempt.local, attempt.remote, attempt.connection
    addresses = (connection.address, connection.peer) if connection else (None, None)
    # Of a connection's queue pair the state is not known where it is another host's.
    unknown = "" if connection and connection.peer else " not made"
    table = Grid(show_header=False)
    for _ in range(4):
        table.add_column(no_wrap=True)
    for name, end in (("local", local), ("remote", remote)):
        if end is None:
            continue
        table.add_row(
            name,
            _port(end),
            f"{end.link_layer}, {end.state}",
            f"{end.qp_type.upper()}{f' {end.qp_state}' if end.qp_state else unknown}",
        )
    out.print(table)
    for (name, end), address in zip((("local", local), ("remote", remote)), addresses, strict=True):
        if end is not None:
            numbers = "" if end.mtu is None else f", MTU {end.mtu}"
            if end.queue_pair is not None:
                numbers += f", QPN {end.queue_pair}"
            if end.psn is not None:
                numbers += f", PSN {end.psn}"
            at = f"{printable(address)}, " if address else ""
            say(out, f"{name:<6}  {at}{_address(end)}{numbers}")


def _address(end: EndFacts) -> str:
    """What the other end's address vector names."""
    if end.gid is None or end.gid_index is None:
        is_iwarp = end.link_layer is LinkLayer.ETHERNET and end.lid in NO_LID
        return "iWARP" if is_iwarp else f"LID {end.lid}"
    kind = f", {end.gid_type}" if end.gid_type else ""
    lid = "" if end.link_layer is LinkLayer.ETHERNET else f", LID {end.lid}"
    return f"GID {end.gid_index}: {end.gid}{kind}{lid}"


def _bandwidth(out: Console, found: Bandwidth) -> None:
    link = "unknown" if found.link_gbps is None else f"{found.link_gbps:g} Gb/s"
    say(
        out,
        f"Bandwidth: {found.gbps:g} Gb/s by {found.op.upper()} of "
        f"{counted(found.bytes, 'byte')} (port: {link}; "
        f"{counted(found.messages, 'message')} in {found.seconds:.2f} s; "
        "the last buffer compared; not a benchmark)",
    )


_TIMED: Final = {
    DataOp.SEND: "Half round trip",
    DataOp.WRITE: "Half round trip of WRITEs",
    DataOp.READ: "READ",
}


def _times(out: Console, latency: Latency) -> None:
    out.print()
    say(
        out,
        f"{_TIMED[latency.op]}: min {latency.min:g}, median {latency.median:g}, "
        f"p99 {latency.p99:g}, max {latency.max:g} µs ({counted(latency.iterations, 'iteration')}; "
        f"{latency.loop} loop, {latency.overhead:g} µs of it its own; not a benchmark)",
    )
    most = max((count for _, count in latency.histogram), default=0)
    for bound, count in latency.histogram:
        bar = "#" * max(bool(count), round(_BAR_WIDTH * count / most)) if most else ""
        out.print(f"  <= {bound:>9g} µs {count:>6} {bar}".rstrip())
