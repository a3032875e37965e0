"""The rules of `rdmadiag counters`."""

from typing import Final

from rdmadiag.preflight.rules.counters import bit_errors, rises, witnesses
from rdmadiag.preflight.rules.rule import Rule

RULES: Final[tuple[Rule, ...]] = (*bit_errors.RULES, *rises.RULES, *witnesses.RULES)
"""Of findings that weigh the same, the first is the answer."""
