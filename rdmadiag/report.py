"""The report: who was looked at, when, and the evidence. It judges nothing.

What `rdmadiag preflight --json` prints holds one. It can be read back and judged again,
elsewhere and by a newer version:

    >>> from rdmadiag.preflight.judge import judge
    >>> report = Report.model_validate_json(text)  # doctest: +SKIP
    >>> judge(report.evidence).status  # doctest: +SKIP
"""

import time
from datetime import datetime
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from rdmadiag.facts import Identity, kernel_log, macos, system, verbs
from rdmadiag.facts.evidence import Evidence
from rdmadiag.host.given_file import WAIT, read_given

MOST_BYTES: Final = 256 * 1024 * 1024  # of 64 adapters with full tables some 30 MiB


class ReportError(Exception):
    """A saved report that cannot be used; the message is one line for the user."""


class Report(BaseModel):
    """Facts grouped by source. Unknown fields of newer versions are passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    schema_version: str
    host: Identity
    generated_at: datetime
    evidence: Evidence


# Evidence names the facts of these without importing them.
Report.model_rebuild(_types_namespace=vars(macos) | vars(verbs) | vars(system) | vars(kernel_log))


def read_report(path: str) -> Report:
    """The report in a file that `preflight --json` printed; raises ReportError."""
    try:
        content = read_given(path, MOST_BYTES, time.monotonic() + WAIT)
        if len(content) > MOST_BYTES:
            raise ReportError(f"{path}: longer than {MOST_BYTES // 1024**2} MiB")
        report = Report.model_validate_json(content)
    except OSError as error:
        raise ReportError(f"{path}: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(step) for step in first["loc"])
        place = f" at {where}" if where else ""
        raise ReportError(
            f"{path}: not a report of preflight --json: {first['msg']}{place}"
        ) from error
    if report.schema_version.partition(".")[0] != "1":
        raise ReportError(f"{path}: schema version {report.schema_version} is not 1.x")
    return report
