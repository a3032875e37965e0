"""Lines to paste that a report of another host brings along: ours, or not shown.

Who runs that host writes its report, and whoever reads many of them may be root on all. So a
line is shown only where it is one of the rule's own, with one word of a shell for each name.
"""

import re
from collections.abc import Iterable
from functools import cache
from string import Formatter
from typing import Final

from rdmadiag.quoting import plain_comment

_WORDS: Final = r"[A-Za-z0-9 ,.:/_-]+"
"""In a comment, which some shells run, too."""

_WORD: Final = r"(?:[A-Za-z0-9_@%+:,./][A-Za-z0-9_@%+=:,./-]*|'[^'\\!\n]*')"


def trusted(code: str, lines: Iterable[str]) -> tuple[str, ...]:
    """Of `lines` those that the rule has; its own, with names in capitals, where it has none.

    () for a rule that is not known here.
    """
    from rdmadiag.preflight.rules import CATALOGUE

    rule = CATALOGUE.get(code)
    if rule is None:
        return ()
    patterns = _patterns(code)
    plain = map(plain_comment, lines)  # an older version's may have apostrophes
    kept = tuple(line for line in plain if any(each.fullmatch(line) for each in patterns))
    return kept or rule.remedy


@cache
def _patterns(code: str) -> tuple[re.Pattern[str], ...]:
    from rdmadiag.preflight.rules import CATALOGUE

    lines = (line for each in CATALOGUE[code].remedies.values() for line in each)
    templates = [plain_comment(line) for line in lines]
    return tuple(
        re.compile(
            "".join(
                re.escape(text)
                + ("" if name is None else _WORDS if template.startswith("#") else _WORD)
                for text, name, _, _ in Formatter().parse(template)
            )
        )
        for template in templates
    )
