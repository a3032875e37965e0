"""Write the golden schemas of this version: `python -m tests.schema.golden`.

One that is there is never overwritten: what was published stays. A change of a model needs
the next SCHEMA_VERSION in rdmadiag/__init__.py; only where that version was never
released may its folder be deleted first.
"""

import json
import sys
from pathlib import Path
from typing import Any

from rdmadiag import SCHEMA_VERSION
from rdmadiag.render.documents import DOCUMENTS
from rdmadiag.render.schema import schema

FOLDER = Path(__file__).parent / "golden"


def written(of: Any) -> str:
    """As `rdmadiag schema` prints it."""
    return json.dumps(of, indent=2, ensure_ascii=False) + "\n"


def main() -> int:
    """1 if one that is there differs."""
    differ = []
    for name in DOCUMENTS:
        path = FOLDER / SCHEMA_VERSION / f"{name}.json"
        if path.exists():
            if path.read_text(encoding="utf-8") != written(schema(name)):
                differ.append(str(path))
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(written(schema(name)), encoding="utf-8")
    for each in differ:
        print(f"{each}: changed; SCHEMA_VERSION {SCHEMA_VERSION} needs a step", file=sys.stderr)
    return int(bool(differ))


if __name__ == "__main__":
    sys.exit(main())
