"""What a host should be: the file that says it, what of it is so, and writing one from a host."""

from collections.abc import Mapping
from dataclasses import field

from rdmadiag.frozen import dataclass
from rdmadiag.preflight.expectations.keys import Scope, Want
from rdmadiag.preflight.verdict import Severity


@dataclass(frozen=True, slots=True)
class Expected:
    """One line of a file, or one option."""

    scope: Scope
    key: str  # of keys.KEYS
    pattern: str | None  # DEVICE or DEVICE/PORT, with * and ?; None is the whole host
    want: Want
    severity: Severity  # where it is not so
    where: str  # "good.toml [host]", "--expect-devices"
    is_option: bool = False  # of the command line, not of a file


@dataclass(frozen=True, slots=True)
class Expectations:
    """All of them, in the order in which they stand."""

    expected: tuple[Expected, ...] = ()
    thresholds: Mapping[str, float] = field(default_factory=dict)
    """Of `counters` and `resources`, by name; preflight reads neither."""

    def __add__(self, other: "Expectations") -> "Expectations":
        return Expectations(
            self.expected + other.expected, dict(self.thresholds) | dict(other.thresholds)
        )
