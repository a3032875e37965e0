"""What is kept of one host's report where there are ten thousand of them."""

from collections.abc import Mapping

from rdmadiag.facts import Missing
from rdmadiag.frozen import dataclass
from rdmadiag.preflight.verdict import Finding, Status


@dataclass(frozen=True, slots=True)
class HostReport:
    """One `preflight --json`, without the evidence that no comparison reads."""

    node: str  # as the launcher named it, else as the report names itself
    where: str  # the file, or the stream and its line, that it was read from
    generated_at: str  # UTC, as in the document
    version: str  # of the rdmadiag that wrote it
    status: Status
    safe_to_attempt_rtr: bool
    findings: tuple[Finding, ...]
    facts: Mapping[str, str | Missing]  # by name in rdmadiag.fleet.fact_table; as short texts
