"""--stack NAME[@VERSION]."""

from collections.abc import Sequence

from rdmadiag.cli.exits import Refused
from rdmadiag.gid.registry import Chosen, NoSuchStack, chosen


def chosen_stacks(names: Sequence[str]) -> tuple[Chosen, ...]:
    """What the names mean; all stacks without any. Refused for one that is not known."""
    try:
        return chosen(names)
    except NoSuchStack as error:
        raise Refused(str(error)) from error
