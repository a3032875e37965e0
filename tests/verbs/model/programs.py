"""The programs of docs/verbs.md."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "verbs.md"


def programs() -> dict[str, str]:
    """By their first line: every block of the page that has a docstring."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return {
        block.splitlines()[0].strip('"'): block for block in blocks if block.startswith('"""')
    }
