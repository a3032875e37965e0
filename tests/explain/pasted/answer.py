"""Prompts of two hosts and of a Mac, and the first of what a paste shows."""

from rdmadiag.explain.pasted import shown

ON_N1, ON_N2 = "[root@n1 ~]# ", "[root@n2 ~]# "
MAC = "user@mini ~ % "


def first(text: str) -> tuple[str, int, bool] | None:
    """The first cause of what is shown first, the number of its line, and whether it is certain."""
    return next(((e.causes[0], e.line.number, e.is_certain) for e in shown(text)), None)
