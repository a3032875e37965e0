"""jq reads every schema: here and not in the guest, where the models take a minute to load."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rdmadiag import SCHEMA_VERSION


def test_jq_reads_every_schema(run: Callable[..., Any]) -> None:
    program = Path(sys.executable).with_name("rdmadiag")
    script = f"{program} schema | while read -r name id; do {program} schema $name; done"
    said = run(["bash", "-o", "pipefail", "-c", f"{script} | jq -r '.\"$id\"'"], timeout=120)
    assert said.returncode == 0, said.stderr
    ids = said.stdout.split()
    assert len(ids) == len(set(ids)) > 10
    version = re.escape(SCHEMA_VERSION)
    assert all(re.fullmatch(rf"urn:rdmadiag:schema:[a-z-]+:{version}", each) for each in ids)
