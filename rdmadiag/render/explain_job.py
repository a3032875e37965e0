"""The story of a job: what failed first, who collected of it, who is silent."""

from typing import Any, Final

from rich.console import Console

from rdmadiag.explain.job.story import (
    CommonEnd,
    FirstFailure,
    JobEnd,
    JobGroup,
    OfReports,
    Place,
    PlaceKind,
    Silence,
    Silent,
    Step,
    Story,
)
from rdmadiag.explain.log.account import Failure
from rdmadiag.explain.log.kind import MESSAGE, SHOWN, STOPPED, UNSURE
from rdmadiag.facts.attempt import Stage
from rdmadiag.render.console import Text, console, say, steps, verbatim
from rdmadiag.render.explain import about, other_failure, show_message
from rdmadiag.render.json import members
from rdmadiag.render.plain import counted, excerpt, printable

_MOST: Final = 6  # rows of each list that are shown in text
_NAMES: Final = 6


def job_document(story: Story) -> dict[str, Any]:
    """The parts of the JSON document."""
    return {"answer": answer(story), **members(story)}


def answer(story: Story) -> str:
    """The first line."""
    if story.first is None or (story.is_proven and story.first.failure.what in UNSURE):
        return _without_failure(story)
    parts = [_first(story.first)]
    after = []
    if story.failed_after:
        noun = "rank" if story.ranks and _has_ranks(story) else "process"
        after.append(f"{_many(story.failed_after, noun)} failed after it")
    hosts = {each.host for each in story.silent if each.host}
    if hosts:
        after.append(f"{_many(len(hosts), 'host')} {'is' if len(hosts) == 1 else 'are'} silent")
    elif ranks := sum(len(each.ranks) for each in story.silent):
        after.append(f"{_many(ranks, 'rank')} {'is' if ranks == 1 else 'are'} silent")
    if after:
        parts.append(", ".join(after))
    if story.other is not None:
        where = printable(story.other.host or story.other.where)
        parts.append(f"perhaps since a program at {where} ended: {printable(about(story.other))}")
    return "; ".join(parts)


def _has_ranks(story: Story) -> bool:
    first = story.first
    return story.world_size is not None or (first is not None and first.who.rank is not None)


def _many(count: int, noun: str) -> str:
    plural = "es" if noun.endswith("s") else "s"
    return f"{count:,} {noun}{'' if count == 1 else plural}"


def _first(first: FirstFailure) -> str:
    who, failure = end(first.who) or "a process", first.failure
    when = f" at {_short(first.at)}" if first.at else ""
    if first.whom is not None:
        whom = end(first.whom) or "its peer"
        verb = (
            "lost" if failure.stage == Stage.DATA and not failure.completion else "could not reach"
        )
        return f"{who} {verb} {whom}{when}"
    if failure.what == SHOWN and failure.causes:
        of = end(first.who) or printable(first.where)
        return f"{of}: a listing shows it: {failure.causes[0].text}"
    return f"{who} failed{_at_stage(failure.stage)}: {_what(first)}{when}"


def _at_stage(stage: str | None) -> str:
    return f" at {stage}" if stage else ""


def _short(at: str) -> str:
    """The time of the day; the date stands below."""
    return at[11:19] if len(at) > 19 and at[10] == "T" else at


def end(one: JobEnd) -> str:
    """ "rank 3 on node2 (mlx5_0, GID 3)"."""
    host = one.host or one.address or one.gid
    name = f"rank {one.rank}" if one.rank is not None else ""
    if host:
        name = f"{name} on {host}" if name else host
    inner = []
    if one.device:
        inner.append(one.device if one.port in (None, 1) else f"{one.device}/{one.port}")
    if one.gid_index is not None:
        inner.append(f"GID {one.gid_index}")
    if not (name and inner):
        return printable(name or ", ".join(inner))
    return printable(f"{name} ({', '.join(inner)})")


def _what(first: FirstFailure) -> str:
    return printable(_named(first.failure))


def _named(group: Any) -> str:
    if group.completion:
        text = str(group.completion.text)
        known = f"completion status {group.completion.number}, {text}"
        return f"completion {text}" if group.completion.vendor_error else known
    if group.what == STOPPED:
        return "it stopped, with no result and no error"
    if group.what == SHOWN:
        return "shown by a listing"
    label = _label(group) if group.what == MESSAGE else None
    what = (label or group.what).replace("-", " ")
    if what in ("errno", "call"):
        what = getattr(group, "call", None) or "a call"
    return f"{what}: {group.errno.text}" if group.errno else what


def _label(group: Failure | JobGroup) -> str | None:
    """Of its likeliest cause."""
    if isinstance(group, Failure):
        return group.causes[0].label if group.causes else None
    return group.label


def _without_failure(story: Story) -> str:
    if story.is_proven and story.of_reports:
        found = story.of_reports
        said = found.findings[0].finding.summary if found.findings else ""
        if found.cause and (
            not said or (found.cause.evidence and said not in found.cause.evidence[0])
        ):
            said = found.cause.evidence[0]
        return printable(f"no line says what failed; the reports do: {said}")
    if story.behind:
        one = story.behind[0]
        ranks = ", ".join(map(str, one.ranks[:_NAMES])) or ", ".join(one.hosts[:_NAMES]) or "some"
        return printable(
            f"nothing of RDMA is said to have failed; {_many(one.waiting, 'rank')} "
            f"{'waits' if one.waiting == 1 else 'wait'} in {one.operation or 'an operation'} "
            f"{one.sequence}, which rank {ranks} did not enter"
        )
    if story.is_stuck or story.silent:
        return "nothing of RDMA is said to have failed; " + _silence(story)
    if story.not_understood:
        count = len(story.not_understood)
        what = "a line is" if count == 1 else f"{count} different lines are"
        return f"something failed here that may be RDMA: {what} not understood"
    if not any(each.bytes for each in story.sources):
        return "there is nothing in these files"
    if story.other is not None and story.is_other:
        if story.other.causes:
            return other_failure(story.other)
        text = excerpt(story.other.text)
        return f"something failed, and no line here says that RDMA did: {text}"
    if story.unread:
        count, name = len(story.unread), printable(story.unread[0].name)
        others = f" and {count - 1} more" if count > 1 else ""
        return f"nothing of RDMA failed in what was read; {name}{others} could not be read"
    return _NOTHING_FAILED


_NOTHING_FAILED: Final = "nothing of RDMA failed in these files"


def _silence(story: Story) -> str:
    hosts = sorted({each.host for each in story.silent if each.host})
    if hosts:
        shown = ", ".join(hosts[:_NAMES]) + (", …" if len(hosts) > _NAMES else "")
        verb = "is" if len(hosts) == 1 else "are"
        return printable(f"{_many(len(hosts), 'host')} {verb} silent: {shown}")
    ranks = sum(len(each.ranks) for each in story.silent)
    return f"{_many(ranks, 'rank')} {'is' if ranks == 1 else 'are'} silent"


# --- text -------------------------------------------------------------------------------------


def show_job(story: Story, to: Console | None = None, *, quiet: bool = False) -> None:
    """Print it, or the answer alone."""
    out = to or console()
    _head(out, story)
    if quiet:
        return
    if story.first is not None:
        _details(out, story.first)
    if story.at is not None:
        _place(out, story.at)
    if story.common_end is not None:
        _common(out, story.common_end)
    if story.of_reports is not None:
        unsure = story.first is None or story.first.failure.what in UNSURE
        _of_reports(out, story.of_reports, is_next=unsure)
    _wavefront(out, story.wavefront)
    _groups(out, "Failed:" if story.first is None else "All that failed:", story.failures)
    _groups(out, "Consequences, not causes:", story.consequences)
    if story.aftermath:
        say(out, f"  {counted(story.aftermath, 'line')} of aborts and watchdogs")
    _silent(out, story.silent)
    _behind(out, story)
    _ended(out, story)
    _other(out, story)
    _causes(out, story)
    _clocks(out, story)
    _not_understood(out, story)
    _rest(out, story)


def _head(out: Console, story: Story) -> None:
    if story.has_failed or story.is_proven:
        line = Text("FAILED", style="bold red")
    elif answer(story) == _NOTHING_FAILED:
        line = Text("OK", style="bold green")
    elif story.is_other:
        line = Text("OTHER", style="bold yellow")
    else:
        line = Text("UNKNOWN", style="bold magenta")
    line.append(f"  {answer(story)}", style="")
    files = counted(len(story.sources), "file")
    lines = sum(each.lines for each in story.sources)
    size = sum(each.bytes for each in story.sources)
    line.append(f"  [{files}, {lines:,} lines, {size / 1e6:.1f} MB]", style="dim")
    say(out, line)


def _details(out: Console, first: FirstFailure) -> None:
    out.print()
    verbatim(out, Text(f"    {printable(first.failure.text)}", style="dim"))
    placed = [f"{first.where}, line {first.line}", _what(first)]
    if first.at:
        placed.append(first.at)
    if first.failure.local_gid:
        placed.append(f"local GID {first.failure.local_gid}")
    if first.failure.remote_gid:
        placed.append(f"remote GID {first.failure.remote_gid}")
    say(out, f"    {printable('; '.join(placed))}")
    show_message(out, first.failure.message)
    if not first.is_ordered:
        say(out, "    Not all lines have a clock that compares: others may have failed before it.")


def _place(out: Console, place: Place) -> None:
    names = " and ".join(map(printable, place.names))
    where = {
        PlaceKind.HOST: f"at {names or 'the other end'}",
        PlaceKind.BOTH: f"at both ends: {names} do not fit each other",
        PlaceKind.BETWEEN: "between the hosts, or at none that is known",
    }[place.kind]
    out.print()
    sure = "" if place.is_certain else ", as far as this shows"
    say(out, Text(f"To be mended {where}{sure}", style="bold"))
    verbatim(out, Text(f"      {printable(place.why)}", style="dim"))


def _common(out: Console, common: CommonEnd) -> None:
    out.print()
    devices = f" ({', '.join(common.devices)})" if common.devices else ""
    line = Text(f"Look at {printable(common.host + devices)} first", style="bold")
    if common.of > 1:
        line.append(
            f": it is an end of {common.pairs} of the {common.of} pairs that failed in the "
            "first minute",
            style="",
        )
    say(out, line)
    for proof in common.because[:_MOST]:
        verbatim(out, Text(f"      {printable(proof)}", style="dim"))
    for finding in common.findings:
        where = f"{finding.device}: " if finding.device else ""
        say(out, f"  - {finding.severity}: {printable(where + finding.summary)}  [{finding.rule}]")


def _of_reports(out: Console, found: OfReports, *, is_next: bool) -> None:
    out.print()
    names = "; ".join(f"{here} and {there}" for here, there in found.pairs[:_NAMES])
    said = "" if found.findings else _nothing(found)
    say(
        out,
        f"The reports of {printable(names)} beside each other{said}:"
        if found.findings
        else f"The reports of {printable(names)} beside each other{said}",
    )
    for each in found.findings[:_MOST]:
        hosts = " and ".join(each.hosts)
        text = f"{each.finding.severity}: at {hosts}: {each.finding.summary}"
        say(out, f"  - {printable(text)}  [{each.finding.rule}]")
    if found.cause is not None and not found.findings:
        where = f" at {' and '.join(found.hosts)}" if found.hosts else ""
        say(out, f"  - {printable(f'{found.cause.standing}{where}: {found.cause.text}')}")
        for line in found.cause.evidence:
            say(out, f"      {printable(line)}")
    for one in found.unknown[:_MOST]:
        say(out, f"  not looked at: {printable(one)}")
    if is_next and found.next:
        out.print()
        say(out, "Next:")
        steps(out, found.next)


def _nothing(found: OfReports) -> str:
    if found.is_clear:
        return (
            " show nothing that keeps them apart. In no report are rules of iptables-legacy, "
            "and what is between the hosts: a switch's port, VLAN or filter."
        )
    return " show nothing, but not all of both was read."


def _wavefront(out: Console, found: tuple[Step, ...]) -> None:
    if sum(each.ranks for each in found) < 2:
        return
    out.print()
    say(out, "Who failed, and when first:")
    for each in found:
        say(
            out,
            f"  {_span(each)}: {each.ranks:,}{_on_hosts(each)}: {printable(each.what)}",
        )


def _span(step: Step) -> str:
    if step.after_s is None:
        return "at a time that does not compare"
    if step.until_s is None:
        return f"after {step.after_s:g} s"
    return f"{step.after_s:g} to {step.until_s:g} s"


def _named_hosts(names: tuple[str, ...], count: int) -> str:
    if not names:
        return ""
    shown = ", ".join(map(printable, names[:_NAMES]))
    return f" ({shown}{', …' if count > len(names[:_NAMES]) else ''})"


def _on_hosts(each: Step | JobGroup) -> str:
    if not each.hosts:  # no line and no file says of which it is
        return ""
    return f" on {counted(each.hosts, 'host')}{_named_hosts(each.names, each.hosts)}"


def _groups(out: Console, title: str, groups: tuple[JobGroup, ...]) -> None:
    if not groups:
        return
    out.print()
    say(out, title)
    for each in groups[:_MOST]:
        stage = f"at {each.stage}: " if each.stage else ""
        say(
            out,
            f"  {stage}{printable(_named(each))}: {counted(each.count, 'line')} of "
            f"{each.ranks:,}{_on_hosts(each)}",
        )
    if len(groups) > _MOST:
        say(out, f"  and {len(groups) - _MOST} more kinds; --json has all of them")


_WHY: Final = {
    Silence.NO_LOG: "no log of it is here",
    Silence.SAYS_NOTHING: "no line of trouble is of it",
    Silence.ENDED_EARLY: "its log ends before anything failed",
    Silence.EMPTY: "its log is empty",
    Silence.DEAD: "RAS calls it dead",
    Silence.UNRESPONSIVE: "it did not answer RAS",
    Silence.NO_DUMP: "its flight recorder left no dump",
}


def _silent(out: Console, found: tuple[Silent, ...]) -> None:
    if not found:
        return
    out.print()
    say(out, "Silent:")
    for each in found[: 2 * _MOST]:
        ranks = _ranks(each.ranks)
        name = each.host or "host not known"
        say(out, f"  {printable(name)}{f' ({ranks})' if ranks else ''}: {_WHY[each.why]}")
    if len(found) > 2 * _MOST:
        say(out, f"  and {len(found) - 2 * _MOST} more; --json has all of them")


def _ranks(ranks: tuple[int, ...]) -> str:
    if not ranks:
        return ""
    runs: list[list[int]] = []
    for each in ranks:
        if runs and each == runs[-1][-1] + 1:
            runs[-1][1:] = [each]
        else:
            runs.append([each])
    shown = ", ".join("-".join(map(str, run)) for run in runs[:_NAMES])
    more = ", …" if len(runs) > _NAMES else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}{more}"


def _behind(out: Console, story: Story) -> None:
    if not story.behind:
        return
    out.print()
    say(out, "Not at the same operation:")
    for each in story.behind[:_MOST]:
        who = _ranks(each.ranks) or ", ".join(each.hosts[:_NAMES]) or "some"
        hosts = _named_hosts(each.hosts, len(each.hosts)) if each.ranks else ""
        say(
            out,
            f"  {printable(each.communicator)}: {printable(who)}{hosts} did not enter "
            f"{printable(each.operation or 'operation')} {each.sequence}, where {each.waiting:,} "
            f"{'is' if each.waiting == 1 else 'are'}  [{each.source}]",
        )


def _ended(out: Console, story: Story) -> None:
    if not story.ended:
        return
    out.print()
    say(out, "Ended, by something else than RDMA:")
    for each in story.ended[:_MOST]:
        before = "before it: " if each.is_before else ""
        verbatim(out, Text(f"    {before}{printable(each.text)}", style="dim"))


def _other(out: Console, story: Story) -> None:
    other = story.other
    if other is None or other in story.ended[:_MOST] or not (story.is_other or story.first):
        return
    out.print()
    say(out, "Not of RDMA, by its words:" if story.is_other else "May have come first:")
    verbatim(out, f"    {printable(f'{other.where}:{other.line}: {other.text}')}")
    show_message(out, other.message)
    if other.causes:
        out.print()
        say(out, "Likely causes of it:")
        for cause in other.causes:
            say(out, f"  - {printable(cause.text)}  [{cause.label}]")
    if story.next and story.is_other:
        out.print()
        say(out, "Next:")
        steps(out, story.next)


def _causes(out: Console, story: Story) -> None:
    first = story.first
    if first is None:
        return
    if first.failure.causes:
        out.print()
        say(out, "Likely causes:" if len(first.failure.causes) > 1 else "Likely cause:")
        for cause in first.failure.causes:
            line = Text("  - ")
            if cause.standing != "possible":
                line.append("confirmed: " if cause.standing == "confirmed" else "not so: ")
            line.append(f"{printable(cause.text)}")
            line.append(f"  [{cause.label}]", style="dim")
            say(out, line)
            for proof in cause.evidence:
                verbatim(out, Text(f"      {printable(proof)}", style="dim"))
    if story.next:
        out.print()
        say(out, "Next:")
        steps(out, story.next)


def _clocks(out: Console, story: Story) -> None:
    if not story.clocks:
        return
    out.print()
    say(out, "Clocks that were set, or could not be:")
    for each in story.clocks[:_MOST]:
        if each.offset_s is None:
            text = "nothing that it saw was seen by another: its lines are not ordered"
        else:
            how = {
                "meetings": f"by {counted(each.meetings, 'operation')} that others saw end, too",
                "two-clocks": "by lines that name both",
                "broken-connection": "roughly, by what both ends said of a broken connection",
            }.get(each.basis, each.basis)
            text = f"{each.offset_s:+.1f} s, {how}"
        say(out, f"  {printable(each.host)} ({each.clock}): {text}")
    if len(story.clocks) > _MOST:
        say(out, f"  and {len(story.clocks) - _MOST} more; --json has all of them")


def _not_understood(out: Console, story: Story) -> None:
    if not story.not_understood:
        return
    out.print()
    say(out, "Not understood:")
    for each in story.not_understood[:_MOST]:
        times = f"  ({each.count} times)" if each.count > 1 else ""
        verbatim(out, f"    {printable(f'{each.where}:{each.line}: {each.text}')}{times}")
    if len(story.not_understood) > _MOST:
        say(out, f"    and {len(story.not_understood) - _MOST} more; --json has them")


def _rest(out: Console, story: Story) -> None:
    problems = [f"{each.name}: {each.problem}" for each in story.sources if each.problem]
    problems += story.unused_reports
    if problems:
        out.print()
        say(out, "Not read, or not whole:")
        for each in problems[:_MOST]:
            verbatim(out, f"    {printable(each)}")
        if len(problems) > _MOST:
            say(out, f"    and {len(problems) - _MOST} more; --json has them")
    if story.dropped:
        say(out, f"{counted(story.dropped, 'further line')} left out.")
