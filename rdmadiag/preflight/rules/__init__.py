"""The rules: one file a family; `CATALOGUE` holds every rule by its code."""

from collections.abc import Iterator
from typing import Final

from rdmadiag.preflight.rules import access, discovery, gids, ports, sources, witnesses
from rdmadiag.preflight.rules.rule import Case, Rule
from rdmadiag.preflight.verdict import Finding

CATALOGUE: Final[dict[str, Rule]] = {
    rule.code: rule
    for family in (discovery, access, ports, gids, witnesses, sources)
    for rule in family.RULES
}


def findings(case: Case) -> Iterator[Finding]:
    """Everything that the rules say of `case`."""
    for rule in CATALOGUE.values():
        yield from rule.check(case)
