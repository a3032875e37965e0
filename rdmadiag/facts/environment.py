"""Variables that a report and a snapshot carry: what is known to matter, and no secret."""

from collections.abc import Mapping, Sequence
from typing import Final

WITHHELD: Final = "(not recorded)"
"""The value of a variable of which the name alone is kept: UCX_SECRET_TOKEN."""


def kept(environment: Mapping[str, str], wanted: Sequence[str]) -> dict[str, str]:
    """The variables of `wanted` with their values; of a family, "UCX_*", the names of all others.

    A name of a family may be a variable of a newer release, or a misspelt one.

    >>> kept({"UCX_TLS": "rc", "UCX_TOKEN": "s3cret", "HOME": "/"}, ["UCX_TLS", "UCX_*"])
    {'UCX_TLS': 'rc', 'UCX_TOKEN': '(not recorded)'}
    """
    families = tuple(name[:-1] for name in wanted if name.endswith("*"))
    return {
        name: value if name in wanted else WITHHELD
        for name, value in sorted(environment.items())
        if name in wanted or name.startswith(families)
    }
