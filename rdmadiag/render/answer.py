"""The verdict in one line, for every form that has a line for it."""

from rdmadiag.preflight.safety import WITHOUT_RTR
from rdmadiag.preflight.verdict import Verdict
from rdmadiag.render.plain import counted, printable


def answer(verdict: Verdict) -> str:
    """Without the status: the worst finding and how many more, or what there is."""
    if verdict.findings and verdict.status != "ok":
        more = sum(each.severity != "info" for each in verdict.findings) - 1
        text = printable(verdict.findings[0].summary)
        return f"{text} (and {more} more)" if more else text
    active = [port for port in verdict.ports if port.state == "active"]
    text = f"{counted(len(verdict.ports), 'port')}, {len(active)} active"
    # Of EFA and iWARP none ever is: that is no lack.
    if not active or any(set(port.reasons) - WITHOUT_RTR or not port.reasons for port in active):
        safe = sum(port.safe_to_attempt_rtr for port in verdict.ports)
        text += f", {safe} ready for RTR"
    if verdict.expectations:
        text += f", {counted(verdict.expectations.compared, 'expectation')} met"
    return text
