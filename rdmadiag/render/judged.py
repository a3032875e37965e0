"""The report with the verdict on it: what `preflight --json` prints."""

from pydantic import SerializeAsAny

from rdmadiag.preflight.verdict import Verdict
from rdmadiag.report import HostDocument, Report


class Judged(HostDocument):
    """A document with a verdict."""

    verdict: SerializeAsAny[Verdict]


class PreflightDocument(Report, Judged):  # in this order the verdict stands before the evidence
    """`rdmadiag preflight --json`: the evidence, and the verdict on it."""
