"""The report: who was looked at, when, and the evidence. It judges nothing.

A saved report can be read back and judged again, elsewhere and by a newer version:

    report = Report.model_validate_json(text)
"""

from datetime import datetime

from pydantic import BaseModel, ConfigDict

from rdmadiag.facts import Identity
from rdmadiag.preflight.evidence import Evidence


class Report(BaseModel):
    """Facts grouped by source. Unknown fields of newer versions are passed over."""

    # defer_build: a report that we made ourselves needs no validator.
    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    host: Identity
    generated_at: datetime
    evidence: Evidence
