"""Programs that have an RDMA device open."""

from collections.abc import Iterator
from typing import Final

from rdmadiag.facts import known, present
from rdmadiag.facts.programs import RdmaProgram
from rdmadiag.preflight.case import Case
from rdmadiag.preflight.proofs import seen
from rdmadiag.preflight.rules.rule import Rule, rule
from rdmadiag.preflight.verdict import Finding, Proof, Severity

STOPPED: Final = (
    "ps -o pid,stat,wchan:20,args -p {pid}   # T: stopped",
    "cat /proc/{pid}/cgroup   # cgroup.freeze of that cgroup: docker pause, a scheduler",
    "kill -CONT {pid}   # where it was stopped by mistake",
)


def held_back(each: RdmaProgram) -> str:
    """ "is stopped"."""
    return "is frozen with its cgroup" if each.frozen is True else "is stopped"


def proof_of(each: RdmaProgram) -> Proof:
    """Its state."""
    if each.frozen is True:
        return Proof("programs", f"process {each.pid}: cgroup.events", "frozen 1")
    return Proof("programs", f"/proc/{each.pid}/status State", seen(each.state))


@rule(
    "rdma-program-stopped",
    Severity.WARN,
    "A program that has the device open does not run",
    "A process that has opened the RDMA device is stopped (SIGSTOP, SIGTSTP, a debugger), or its "
    "cgroup is frozen (docker pause, a scheduler that suspends jobs). Its ports still take "
    "connections, which the kernel makes, and nobody answers at them; its queue pairs still "
    "acknowledge, until no receive is left.",
    ("https://docs.kernel.org/admin-guide/cgroup-v2.html",),
    remedy=STOPPED,
    needs=("devices", "programs with a device open"),
)
def rdma_program_stopped(this: Rule, case: Case) -> Iterator[Finding]:
    """One of each process and device."""
    programs = known(case.evidence.programs)
    names = {device.name for device in case.devices}
    for each in present(programs.holders) if programs else ():
        if each.device in names and each.is_still:
            yield this.finding(
                f"process {each.pid} ({seen(each.command)}) has {each.device} open, and "
                f"{held_back(each)}",
                device=each.device,
                evidence=[proof_of(each)],
                fill={"pid": each.pid},
            )


RULES: Final[tuple[Rule, ...]] = (rdma_program_stopped,)
