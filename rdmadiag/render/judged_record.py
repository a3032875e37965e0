"""A record as `diff` and `fleet merge` compare it: its document, its facts, its verdict."""

import json

from rdmadiag.facts import Identity
from rdmadiag.facts.evidence import Evidence
from rdmadiag.fleet.record_diff import Judged
from rdmadiag.fleet.record_sides import Side
from rdmadiag.preflight.judge import judge
from rdmadiag.render.json import document


def judged(host: Identity, evidence: Evidence) -> Judged:
    """By this version's rules, whatever the record's own verdict was."""
    verdict = judge(evidence)
    printed = document({"host": host, "verdict": verdict, "evidence": evidence})
    return Judged(Side.of(json.loads(printed)), verdict)
