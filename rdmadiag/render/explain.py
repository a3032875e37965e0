"""What explain found: of a log the first failure first; of a word what it means."""

from typing import TYPE_CHECKING, Final

from rich.console import Console

from rdmadiag.explain.answers import (
    Answer,
    AtStage,
    CauseAnswer,
    CompletionAnswer,
    ConstantAnswer,
    ErrnoAnswer,
    RuleAnswer,
    StateAnswer,
    VariableAnswer,
)
from rdmadiag.explain.log.account import (
    LIKELY,
    Account,
    Failure,
    KnownMessage,
    LikelyCause,
    OtherFailure,
    Standing,
)
from rdmadiag.explain.log.kind import (
    ENDED,
    IN_WORDS,
    LISTED,
    MAY_BE,
    MESSAGE,
    NO_MADS,
    PROGRAM_ERROR,
    STOPPED,
    UNSURE,
    Kind,
)
from rdmadiag.explain.log.line.origin import NO_TOOL
from rdmadiag.explain.log.recognition.links import CAME_BACK, NEVER_UP
from rdmadiag.explain.log.recognition.settings import BY_SOCKETS
from rdmadiag.facts import Identity
from rdmadiag.late import late
from rdmadiag.render.console import Text, console, say, steps, verbatim
from rdmadiag.render.plain import counted, excerpt, printable
from rdmadiag.render.see import seen_at

if TYPE_CHECKING:
    from rdmadiag.explain.job.story import Ended  # rules of both ends come with it

_SENTENCE: Final = late(
    r"\b(?:is|are|was|were|has|does|did|ended|went|lost|took|hung|killed|use|uses|wants|gives|gave"
    r"|refuses|leaves)\b"
)
"""What is known of a message may only name the part that it is of: "memory of the host"."""
_ELSEWHERE: Final = late(r"\b(?:above|below|behind)\b")
_OTHERS: Final = 5  # further failures that are shown in text
_UNKNOWN: Final = 10


# --- a log -------------------------------------------------------------------------------


def show_log(
    account: Account,
    name: str,
    host: Identity | None = None,
    to: Console | None = None,
    *,
    quiet: bool = False,
) -> None:
    """Print it, or the answer alone."""
    out = to or console()
    first = account.first
    say(out, _answer(account, name))
    if quiet:
        return
    if first is not None:
        _details(out, first, host)
        _before(out, account)
    others = [each for each in account.failures if each is not first]
    if others:
        out.print()
        say(out, "Also failed, later:")
        for each in others[:_OTHERS]:
            say(out, f"  {_placed(each)} ({_lines(each)})")
            if each.causes:
                say(out, f"    {printable(each.causes[0].text)}  [{each.causes[0].label}]")
        if len(others) > _OTHERS:
            say(out, f"  and {len(others) - _OTHERS} more; --json has all of them")
    _followed(out, account, first)
    _noted(out, account)
    _not_understood(out, account)
    _other(out, account)
    _similar(out, account)
    if account.dropped:
        say(out, f"{counted(account.dropped, 'further line')} of other kinds left out.")


def _answer(account: Account, name: str) -> Text:
    first = account.first
    size = f"  [{printable(name)}, {counted(account.lines, 'line')}]"
    if first is not None:
        known = first.what not in UNSURE
        line = Text("FAILED", style="bold red") if known else Text("UNKNOWN", style="bold magenta")
        line.append(f"  {_said(account, first)}{_cause_of(first)}{_fault(account)}", style="")
        more = len(account.failures) - 1
        if more > 0:
            line.append(f" (and {more} more)", style="")
    elif account.unknown:
        line = Text("UNKNOWN", style="bold magenta")
        count = len(account.unknown)
        what = "a line is" if count == 1 else f"{count} different lines are"
        line.append(f"  something failed here that may be RDMA: {what} not understood", style="")
        if account.other:
            word = "it ended so" if account.other.is_end else "it says"
            line.append(f"; {word}: {excerpt(account.other.text)}", style="")
    elif not account.bytes:
        line = Text("UNKNOWN", style="bold magenta")
        line.append("  there is nothing in this log", style="")
    elif account.other:
        line = Text("OTHER", style="bold yellow")
        line.append(f"  {other_failure(account.other)}", style="")
    else:
        line = Text("OK", style="bold green")
        line.append("  nothing of RDMA failed in this log", style="")
        if any(each.what == BY_SOCKETS for each in account.notes):
            line.append("; nothing used it: NCCL goes by sockets", style="")
    line.append(size, style="dim")
    return line


def _before_all(account: Account) -> OtherFailure | None:
    """What stands before the first failure, where that is known for one."""
    other, first = account.other, account.first
    known = first is not None and first.what not in UNSURE
    return other if other and first and known and other.line < first.lines[0] else None


def _fault(account: Account) -> str:
    """What ended a program before: what failed may only have followed."""
    other = _before_all(account)
    if other is None:
        return ""
    return f"; perhaps since a program had ended (line {other.line}): {printable(about(other))}"


def _cause_of(first: Failure) -> str:
    """The first cause, where a report confirms it, or it is likely enough to be the answer."""
    if not first.causes:
        return ""
    cause = first.causes[0]
    text = printable(cause.text)
    if cause.standing == Standing.CONFIRMED:
        return f"; confirmed: {text}"
    if first.probability is None or first.probability < LIKELY:
        return ""
    return f"; {text}" if text.startswith("perhaps ") else f"; likely {text}"


def about(other: "OtherFailure | Ended") -> str:
    """What is known of its message, where that is a sentence; else its cause, or its line."""
    known = _sentence(other.message)
    return known or (other.causes[0].text if other.causes else excerpt(other.text))


def _sentence(message: KnownMessage | None) -> str:
    """What is known of it, where that says by itself what happened; else nothing."""
    known = message.about if message else ""
    says = _SENTENCE.search(known) is not None and _ELSEWHERE.search(known) is None
    return known if says else ""


def other_failure(other: "OtherFailure | Ended") -> str:
    """What failed that is none of RDMA, as far as its words say."""
    if other.causes and other.causes[0].label != PROGRAM_ERROR:
        text = printable(about(other))
        word = "" if text.startswith("perhaps ") else "likely "
        return f"no line here says that RDMA failed; {word}{text}"
    what = "something failed, and no line here says that RDMA did"
    if isinstance(other, OtherFailure) and not other.is_end:
        what = "no line here says that RDMA failed, and one may be of other trouble"
    return f"{what}: line {other.line}: {excerpt(other.text)}"


def _said(account: Account, first: Failure) -> str:
    """What failed first and where; of a line that says neither, how the log ended as well."""
    is_said = first.stage or first.device or first.call or first.errno or first.tool != NO_TOOL
    if first.what != IN_WORDS or is_said:
        return _placed(first)
    text = "something failed here that may be RDMA, in words that are not known"
    other = account.other
    if other is not None and other.line not in first.lines:
        text += f"; {'it ended so' if other.is_end else 'it says'}: {excerpt(other.text)}"
    return text


def _placed(failure: Failure) -> str:
    """What failed, and where if the line or its message says so."""
    what = printable(_what(failure))
    if failure.what in LISTED:
        names = (failure.device, *(f"at {host}" for host in failure.speakers[:1]))
        where = " ".join(printable(name) for name in names if name)
        return f"{what} ({where})" if where else what
    is_placed = failure.stage or failure.device or failure.tool != NO_TOOL
    return f"{_where(failure)}: {what}" if is_placed or failure.what != MESSAGE else what


def _where(failure: Failure) -> str:
    where = f"at {failure.stage or 'driver'}"
    if failure.what == IN_WORDS and failure.stage is None:
        where = f"in {printable(failure.tool)}"
    if failure.device is None:
        return where
    port = "" if failure.port is None else f"/{failure.port}"
    return f"{where} on {printable(failure.device)}{port}"


def _what(failure: Failure) -> str:
    if failure.completion:
        return (
            f"completion {failure.completion.text}"
            if failure.completion.vendor_error
            else (f"completion status {failure.completion.number}, {failure.completion.text}")
        )
    if failure.what == STOPPED:
        return "the log ends here, with no result and no error"
    if failure.what == ENDED:
        return "the job ended, and the log does not say by what"
    if failure.what in LISTED:
        says = "this may be what is wrong" if failure.what == MAY_BE else "a listing shows it"
        return f"{says}: {failure.causes[0].text.removeprefix('perhaps ')}"
    call = f"{failure.call} failed" if failure.call else "failed"
    if failure.what == IN_WORDS and not failure.errno:
        return f"{call}, in words that are not known"
    if failure.what == MESSAGE and failure.causes:
        known = _sentence(failure.message)
        call = known or failure.causes[0].label.replace("-", " ")
    elif failure.what not in ("errno", "call", MESSAGE, IN_WORDS):
        call = failure.what.replace("-", " ")
    if failure.errno:
        return f"{call}: {failure.errno.text}"
    return call


def _lines(failure: Failure) -> str:
    numbers = ", ".join(map(str, failure.lines))
    more = f" … {failure.last_line}" if failure.last_line > failure.lines[-1] else ""
    word = "line" if len(failure.lines) == 1 and not more else "lines"
    times = f", {failure.count} in all" if failure.count > len(failure.lines) else ""
    return f"{word} {numbers}{more}{times}"


def _details(out: Console, failure: Failure, host: Identity | None) -> None:
    out.print()
    verbatim(out, Text(f"    {printable(failure.text)}", style="dim"))
    details = [_lines(failure)]
    if failure.tool != NO_TOOL:
        details.append(failure.tool)
    if failure.speakers:
        details.append(f"said by {', '.join(failure.speakers)}")
    if failure.peers:
        details.append(f"peer {', '.join(failure.peers)}")
    if failure.gid_index is not None:
        details.append(f"GID index {failure.gid_index}")
    if failure.local_gid:
        details.append(f"local GID {failure.local_gid}")
    if failure.remote_gid:
        details.append(f"remote GID {failure.remote_gid}")
    say(out, f"    {printable('; '.join(details))}")
    show_message(out, failure.message)
    if failure.kind is Kind.CONSEQUENCE and failure.what != STOPPED:
        say(out, "    This follows from an earlier failure, which is not in this log.")
    _causes(out, failure, host)
    _steps(out, failure.next)


def show_message(out: Console, message: KnownMessage | None) -> None:
    """What is known of a line, below it."""
    if message:
        about = printable(message.about)
        say(out, f"    known message of {printable(message.stack)}: {about}")


def _causes(out: Console, failure: Failure, host: Identity | None) -> None:
    if failure.causes:
        out.print()
        say(out, _heading(failure))
        for cause in failure.causes:
            _cause(out, cause)
        if failure.tells_apart:
            say(out, "  To tell them apart:")
            steps(out, (failure.tells_apart,))
        if host is None:
            say(out, "  (--from REPORT.json or SNAPSHOT of that host, or --here on it, ranks them)")
    if failure.device_in_report is False:
        device = printable(str(failure.device))
        say(out, f"  (the report has no device {device}: is it of the host that failed?)")


def _heading(failure: Failure) -> str:
    """Of the causes, with how often the first of such a log is right."""
    if failure.what == IN_WORDS:
        return "This line does not say the cause. Its words, and similar logs, suggest:"
    if failure.what == STOPPED:
        return "This log alone does not say what it waited for. It may be:"
    if failure.what == ENDED:
        return "Such a line follows other failures, which are not in this log. It may be:"
    several = "causes" if len(failure.causes) > 1 else "cause"
    if failure.probability is None:
        return f"Likely {several}:"
    share = f"the first: about {100 * failure.probability:.0f} %"
    if failure.probability < LIKELY:
        return f"Possible {several}, which this log does not decide ({share}):"
    return f"Likely {several} ({share}):"


def _similar(out: Console, account: Account) -> None:
    if account.similar is None:
        return
    out.print()
    if not account.similar:
        say(out, "No known case has lines like these.")
        return
    say(out, "Known cases with lines like these:")
    for each in account.similar:
        cause = ", ".join(each.causes) or each.found or "its cause was not found"
        say(out, f"  - {cause}")
        verbatim(out, Text(f"      {each.address}"))
        verbatim(out, Text(f"      {printable(each.line)}", style="dim"))


def _before(out: Console, account: Account) -> None:
    """What stands before the first failure may be what failed first."""
    if before := account.unknown_before:
        numbers = ", ".join(str(each.line) for each in before[:_OTHERS])
        more = "" if len(before) <= _OTHERS else ", …"
        what = (
            "Line {} came before it and is"
            if len(before) == 1
            else "Lines {} came before it and are"
        )
        out.print()
        say(out, f"{what.format(numbers + more)} not understood: see below.")


_STANDING: Final = {
    "confirmed": ("confirmed", "bold green"),
    "contradicted": ("not so", "dim"),
}


def _cause(out: Console, cause: LikelyCause) -> None:
    line = Text("  - ")
    if cause.standing in _STANDING:
        word, style = _STANDING[cause.standing]
        line.append(f"{word}: ", style=style)
    line.append(printable(cause.text))
    line.append(f"  [{cause.label}]", style="dim")
    say(out, line)
    for proof in cause.evidence:
        verbatim(out, Text(f"      {printable(proof)}", style="dim"))


def _steps(out: Console, lines: tuple[str, ...]) -> None:
    if not lines:
        return
    out.print()
    say(out, "Next:")
    steps(out, lines)


def _followed(out: Console, account: Account, first: Failure | None) -> None:
    if first is None:
        return
    followed = [each for each in account.consequences if each is not first]
    same = [each for each in account.aftermath_lines if each in first.lines]
    aftermath = account.aftermath - len(same)
    if not (followed or aftermath):
        return
    out.print()
    say(out, "Consequences, not causes:")
    for each in followed[:_OTHERS]:
        say(out, f"  {_placed(each)} ({_lines(each)})")
    if aftermath:
        numbers = ", ".join(str(each) for each in account.aftermath_lines if each not in same)
        at = "line" if aftermath == 1 else "lines"
        say(out, f"  {counted(aftermath, 'line')} of aborts and watchdogs ({at} {numbers})")


def _noted(out: Console, account: Account) -> None:
    if not account.notes:
        return
    out.print()
    say(out, "Noted, no failure by itself:")
    for each in account.notes[:_OTHERS]:
        text = _NOTED.get(each.what) or (each.causes[0].text if each.causes else each.what)
        if each.message and each.what not in _NOTED:
            text = each.message.about
        say(out, f"  {printable(text)} ({_lines(each)})")


_NOTED: Final = {
    CAME_BACK: "a link went down, and came up again before anything failed",
    NO_MADS: "tools of InfiniBand's management (sminfo, ibnetdiscover, perfquery) open no port of "
    "Ethernet: RoCE has no subnet manager, and its LIDs are 0",
    NEVER_UP: "a port has had no link since the start, and others have: perhaps nobody uses it",
}


def _other(out: Console, account: Account) -> None:
    """What ended a program, and is not said to be RDMA: it may have come first."""
    first, other = account.first, account.other
    if other is not None and _before_all(account) is other:
        out.print()
        say(out, "May have come first:")
        verbatim(out, f"    {other.line}: {printable(other.text)}")
        show_message(out, other.message)
        return
    if other is None or (first and (first.what not in UNSURE or other.line in first.lines)):
        return
    if first or account.unknown or other.causes or excerpt(other.text) != printable(other.text):
        out.print()
        say(out, "Not of RDMA, by its words:")
        verbatim(out, f"    {other.line}: {printable(other.text)}")
        show_message(out, other.message)
    if first is None and other.causes:
        out.print()
        say(out, "Likely causes of it:")
        for cause in other.causes:
            _cause(out, cause)
        _steps(out, other.next)


def _not_understood(out: Console, account: Account) -> None:
    if not account.unknown:
        return
    out.print()
    say(out, "Not understood:")
    for each in account.unknown[:_UNKNOWN]:
        times = f"  ({each.count} times)" if each.count > 1 else ""
        verbatim(out, f"    {each.line}: {printable(each.text)}{times}")
    if len(account.unknown) > _UNKNOWN:
        say(out, f"    and {len(account.unknown) - _UNKNOWN} more; --json has them")
    if account.first is None:
        _steps(out, account.unknown_next)


# --- a word ------------------------------------------------------------------------------


def show_answers(answers: tuple[Answer, ...], to: Console | None = None) -> None:
    """Print them."""
    out = to or console()
    for place, answer in enumerate(answers):
        if place:
            out.print()
        _one(out, answer)


def _one(out: Console, answer: Answer) -> None:
    if isinstance(answer, ErrnoAnswer):
        _errno(out, answer)
    elif isinstance(answer, CompletionAnswer):
        _completion(out, answer)
    elif isinstance(answer, ConstantAnswer):
        _constant(out, answer)
    elif isinstance(answer, StateAnswer):
        _head(out, f"{answer.kind} state {answer.number}", answer.state)
        say(out, answer.meaning)
        _steps(out, answer.next)
    elif isinstance(answer, VariableAnswer):
        _variable(out, answer)
    elif isinstance(answer, RuleAnswer):
        _rule(out, answer)
    else:
        _label(out, answer)


def _head(out: Console, what: str, text: str) -> None:
    line = Text(printable(what), style="bold")
    line.append(f"  {printable(text)}", style="")
    say(out, line)


def _errno(out: Console, answer: ErrnoAnswer) -> None:
    _head(out, f"errno {answer.number}", f"{answer.name}: {answer.text} ({answer.platform})")
    if answer.elsewhere:
        say(out, f"The same number elsewhere: {answer.elsewhere}.")
    if not answer.stages:
        say(out, "No RDMA call is known to have failed with it.")
    for each in answer.stages:
        _stage(out, each)
    _see(out, answer.see)


def _stage(out: Console, at: AtStage) -> None:
    out.print()
    say(out, Text("at any stage" if at.stage == "any" else f"at {at.stage}", style="bold"))
    for cause in at.causes:
        say(out, f"  - {cause.text}  [{cause.label}]")
    for line in at.next:
        verbatim(out, f"    {line}")


def _completion(out: Console, answer: CompletionAnswer) -> None:
    _head(out, f"wc {answer.number}", f"IBV_WC_{answer.name}: {answer.text}")
    say(out, answer.meaning)
    if answer.is_consequence:
        say(out, "A consequence: look for what failed before it.")
    if answer.vendor_error is not None:
        known = answer.vendor or f"vendor error {answer.vendor_error}: nothing is known of it"
        say(out, f"{known[0].upper()}{known[1:]}.")
    _known_causes(out, answer)


def _constant(out: Console, answer: ConstantAnswer) -> None:
    number = "" if answer.number is None else f" {answer.number}"
    _head(out, answer.name, f"({answer.of}{number})")
    say(out, answer.meaning)
    if answer.effect:
        say(out, answer.effect)
    _known_causes(out, answer)


def _known_causes(out: Console, answer: CompletionAnswer | ConstantAnswer) -> None:
    if answer.causes:
        out.print()
        say(out, "Likely causes:")
        for cause in answer.causes:
            say(out, f"  - {cause.text}  [{cause.label}]")
    _steps(out, answer.next)


def _variable(out: Console, answer: VariableAnswer) -> None:
    shown = answer.name if answer.value is None else f"{answer.name}={answer.value}"
    _head(out, shown, f"({answer.stack})")
    say(out, answer.meaning)
    if answer.value_means:
        say(out, f"This value: {printable(answer.value_means)}.")
    for pitfall in answer.pitfalls:
        say(out, f"  - {pitfall}")
    _steps(out, answer.next)


def _rule(out: Console, answer: RuleAnswer) -> None:
    _head(out, answer.code, f"{answer.title} ({answer.severity})")
    say(out, answer.meaning)
    if answer.remedy:
        out.print()
        steps(out, answer.remedy)
        out.print()
    for each in answer.references:
        verbatim(out, f"    {each}")
    _see(out, answer.see)


def _see(out: Console, page: str | None) -> None:
    if page and (where := seen_at(page)):
        verbatim(out, Text(f"see {where}", "dim"))


def _label(out: Console, answer: CauseAnswer) -> None:
    _head(out, answer.label, "a cause")
    for text in answer.texts:
        say(out, f"  {text}")
    _steps(out, answer.next)
    out.print()
    say(out, "Known from:")
    for each in answer.known_from:
        say(out, f"  {each}")
