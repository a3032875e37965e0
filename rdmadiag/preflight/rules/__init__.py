"""The rules: one file a family; `CATALOGUE` holds every rule by its code."""

from collections.abc import Iterator
from typing import Final

from rdmadiag.preflight.rules import (
    access,
    discovery,
    environment,
    gids,
    gpu,
    kernel_log,
    kinds,
    mac_host,
    mac_log,
    netdevs,
    ports,
    provider,
    sources,
    speed,
    thunderbolt_address,
    thunderbolt_link,
    thunderbolt_resources,
    witnesses,
)
from rdmadiag.preflight.rules.rule import Case, Rule
from rdmadiag.preflight.verdict import Finding

_FAMILIES: Final = (
    *(discovery, mac_host, provider, access, mac_log, kernel_log),
    *(ports, thunderbolt_link, thunderbolt_address, thunderbolt_resources),
    *(gids, environment, netdevs, speed, gpu, kinds, witnesses, sources),
)
"""Lowest cause first: of findings that weigh the same, the first is the answer."""

CATALOGUE: Final[dict[str, Rule]] = {
    rule.code: rule for family in _FAMILIES for rule in family.RULES
}


def findings(case: Case) -> Iterator[Finding]:
    """Everything that the rules say of `case`."""
    for rule in CATALOGUE.values():
        yield from rule.check(case)
