"""Addresses of pages of the documentation, where this host knows of them."""

import os
from typing import Final

from rdmadiag.documentation import address
from rdmadiag.render.plain import printable

DOCS: Final = "RDMADIAG_DOCS"
"""The variable with the address of the site, or its folder: the project has no public one."""


def seen_at(page: str) -> str | None:
    """The page's address, to be printed; None where the variable is not set."""
    base = os.environ.get(DOCS, "").strip()
    return printable(address(page, base)) if base and page else None
