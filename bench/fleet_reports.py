"""Reports of ten thousand hosts, made of recorded ones by planted changes."""

import json
import random
from collections.abc import Iterator
from typing import Any, Final

import rdmadiag
from rdmadiag.render.judged import PreflightDocument

BYTES: Final = 25_000
"""Of a report, at least."""

_SAMPLES: Final = ("roce-healthy", "gpu-four-rails", "infiniband-two-hca")
_SHARES: Final = (70, 10, 20)
_BAD: Final = "infiniband-no-subnet-manager"


def reports(number: int, seed: int = 19) -> Iterator[bytes]:
    """Documents on one line each: node00000 and on. Of a hundred hosts, one is critical, two have
    another kernel, two another firmware; each has its own name, addresses, GUIDs and times."""
    chosen = random.Random(seed)  # noqa: S311
    made = {name: _document(name) for name in (*_SAMPLES, _BAD)}
    for at in range(number):
        name = chosen.choices(_SAMPLES, _SHARES)[0]
        name = _BAD if chosen.random() < 0.01 else name
        text = made[name]
        text = text.replace('"@HOST@"', f'"node{at:05d}"')
        text = text.replace("@WHEN@", f"2026-11-{1 + at % 28:02d}T06:{at % 60:02d}:00Z")
        text = text.replace("198.18.0.", f"198.18.{at % 250}.")
        if chosen.random() < 0.02:
            text = text.replace('"kernel":"', '"kernel":"9.')
        if chosen.random() < 0.02:
            text = text.replace('"firmware":"', '"firmware":"9.')
        yield text.encode()


def _document(sample: str) -> str:
    """At least of BYTES: one that is shorter carries what readers pass over."""
    report = rdmadiag.collect(sample=sample)
    verdict = rdmadiag.judge(report)
    whole = PreflightDocument.of(host=report.host, evidence=report.evidence, verdict=verdict)
    made: dict[str, Any] = json.loads(whole.model_dump_json())
    made["host"]["hostname"] = "@HOST@"
    made["generated_at"] = "@WHEN@"
    short = BYTES - len(json.dumps(made, separators=(",", ":")))
    if short > 0:
        made["padding"] = [
            f"as long as a host of eight ports has it {n}" for n in range(short // 44 + 1)
        ]
    return json.dumps(made, separators=(",", ":"))
