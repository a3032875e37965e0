"""One line as the Monitoring Plugins' guidelines have it: status, text, performance data.

RDMA WARNING - mlx5_0: firmware … expected, is … | ports=2;;;0 active_ports=2;;;0;2 …
"""

from typing import Final

from rdmadiag.facts import Identity, Missing
from rdmadiag.preflight.checks import counted
from rdmadiag.preflight.verdict import Verdict
from rdmadiag.render.answer import answer
from rdmadiag.render.plain import printable

_NOT_KNOWN: Final = "U"  # "the actual value couldn't be determined"
_WORD: Final = {"ok": "OK", "warn": "WARNING", "critical": "CRITICAL", "unknown": "UNKNOWN"}


def line(verdict: Verdict, host: Identity) -> str:
    """The line, with its end."""
    findings = counted(verdict)
    ports = len(verdict.ports)
    active = sum(port.state == "active" for port in verdict.ports)
    safe = sum(port.safe_to_attempt_rtr for port in verdict.ports)
    unseen = not ports and verdict.status == "unknown"
    unread = unseen or any(isinstance(port.state, Missing) for port in verdict.ports)
    most = "" if unseen else ports
    performance = [
        f"ports={_NOT_KNOWN if unseen else ports};;;0",
        f"active_ports={_NOT_KNOWN if unread else active};;;0;{most}",
        f"rtr_ports={_NOT_KNOWN if unseen else safe};;;0;{most}",
        *(f"{word}={number};;;0" for word, number in findings.items() if word != "info"),
        f"skipped={len({each.rule for each in verdict.skipped})};;;0",
    ]
    if count := verdict.expectations:
        performance.append(f"expectations_met={count.met};;;0;{count.compared}")
    text = f"{_text(answer(verdict))} [{_text(host.hostname)}]"
    return f"RDMA {_WORD[verdict.status]} - {text} | {' '.join(performance)}\n"


def failure(message: str) -> str:
    """The line where there is no verdict."""
    return f"RDMA UNKNOWN - {_text(message)}\n"


def _text(text: str) -> str:
    """A bar begins the performance data."""
    return printable(text).replace("|", "/")
