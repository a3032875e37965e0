"""Candidates of a log → an account of it."""

from collections.abc import Iterable
from typing import Protocol

from rdmadiag.explain.log.account import Account, Collector
from rdmadiag.explain.log.recognise import recognise


class Candidate(Protocol):
    """A line that has the words of explain.log.vocabulary."""

    @property
    def number(self) -> int:
        """Its place in the log, from 1."""

    @property
    def line(self) -> bytes:
        """The line, or the part of a long one that matters."""

    @property
    def after(self) -> bytes:
        """The beginning of what follows it."""


def collect(candidates: Iterable[Candidate]) -> Collector:
    """Everything that they say; `Collector.account` then sums it up."""
    collector = Collector()
    for each in candidates:
        if said := recognise(each.line, each.after):
            collector.add(each.number, said)
    return collector


def account(candidates: Iterable[Candidate]) -> Account:
    """The same, where there are so few lines that nobody counts them."""
    return collect(candidates).account(0, 0)
