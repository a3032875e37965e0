"""The JSON document of `explain --log`, without what shows it in a terminal."""

from typing import Any

from rdmadiag.explain.log.account import Account
from rdmadiag.render.json import members


def log_document(account: Account, name: str) -> dict[str, Any]:
    """The parts of the JSON document."""
    found: dict[str, Any] = members(account)
    return {
        "log": {"name": name, "lines": found.pop("lines"), "bytes": found.pop("bytes")},
        "first": account.first,
        **found,
    }
