"""Programs of one host that the other host waits for."""

from collections.abc import Iterator

from rdmadiag.facts import known, present
from rdmadiag.facts.job import TcpState
from rdmadiag.facts.programs import Untaken
from rdmadiag.preflight.proofs import seen
from rdmadiag.preflight.rules.programs import STOPPED, held_back, proof_of
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity
from rdmadiag.view.ends import Towards, all_addresses
from rdmadiag.view.peer_route import is_loopback


@rule(
    "ends-connection-not-taken",
    Severity.WARN,
    "A connection of the peer waits, and no program takes it",
    "TCP of this host has made a connection that the peer asked for, and the program that listens "
    "there has not taken it (accept): it is stopped, frozen, or hangs, or does something else "
    "first. The peer waits, and sees no error. Critical where the peer has given up since "
    "(CLOSE_WAIT); else it may only just have been made.",
    (),
    remedy=(
        "ss -tlnp 'sport = :{tcp_port}'   # Recv-Q: connections that wait; the process",
        "ps -o pid,stat,wchan:20,args -p PID   # T: stopped",
        "cat /proc/PID/cgroup   # is that cgroup frozen?",
    ),
)
def connection_not_taken(this: Rule, case: Towards) -> Iterator[Finding]:
    """By /proc/net/tcp: of one host's connections those of the other's addresses."""
    programs = known(case.near.evidence.programs)
    theirs = all_addresses(case.far.evidence)
    given_up: dict[int, list[Untaken]] = {}
    for each in present(programs.untaken) if programs else ():
        if each.remote in theirs and not is_loopback(each.remote):
            given_up.setdefault(each.local_port, []).append(each)
    for port, several in given_up.items():
        late = [each for each in several if each.state is TcpState.CLOSE_WAIT]
        yield this.finding(
            f"nobody at {case.near.name} takes what {case.far.name} connects to TCP port {port}"
            + (": it has given up" if late else ""),
            severity=Severity.CRITICAL if late else None,
            evidence=[
                Proof("programs", f"TCP port {port}", f"{len(several)} not taken"),
                *(
                    Proof("programs", f"from {each.remote}:{each.remote_port}", seen(each.state))
                    for each in several[:2]
                ),
            ],
            fill={"tcp_port": port},
        )


@rule(
    "ends-program-stopped",
    Severity.WARN,
    "A program of this host that has the device open does not run",
    "A process that has opened the RDMA device of this end is stopped, or its cgroup is frozen. If "
    "it is the peer that is waited for, that is why nothing comes back.",
    (),
    remedy=STOPPED,
)
def program_stopped(this: Rule, case: Towards) -> Iterator[Finding]:
    """Of the device whose address it is."""
    programs = known(case.near.evidence.programs)
    for each in present(programs.holders) if programs else ():
        if each.device == case.mine.device and each.is_still:
            yield this.finding(
                f"process {each.pid} of {case.near.name} has {each.device} open, and "
                f"{held_back(each)}",
                device=each.device,
                evidence=[proof_of(each)],
                fill={"pid": each.pid},
            )
