"""The least numbers for which `counters` and `resources` have findings; set by their names."""

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any, Final, Self

from rdmadiag.frozen import dataclass
from rdmadiag.nearest import instead


class NoThreshold(ValueError):
    """A name or a value that no threshold has; the message is one line for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """A finding needs at least this much. Counts are rises between two samples."""

    link_downed: float = 1  # times that a link went down
    link_flaps: float = 3  # of those, from which on it is critical: gpud calls 3 a flap
    link_recoveries: float = 1  # link_error_recovery
    physical_errors: float = 10  # damaged symbols and packets; ibqueryerrors' own limit is 10
    uncorrectable_blocks: float = 1  # that forward error correction could not mend
    bit_error_rate: float = 1e-5  # before FEC; RS(528,514) is made for up to some 5e-5
    discards: float = 1  # packets that a NIC or a port dropped
    receiver_not_ready: float = 10  # messages for which no receive was posted
    retransmissions: float = 10  # packets that were lost, and sent anew
    retransmissions_per_second: float = 1  # and this often, so that a week's few do not count
    retries_exceeded: float = 1  # connections that broke
    refused_requests: float = 1  # requests that the other end refused
    congestion_ignored: float = 1  # congestion notifications that were not acted on
    pause_frames: float = 1
    pause_frames_per_second: float = 100
    error_queue_pairs: float = 4  # queue pairs of one holder in ERR
    rtr_queue_pairs: float = 16  # queue pairs of one holder in RTR
    ended_connections: float = 64  # CM ids of one holder whose connection has ended
    limit_share: float = 0.9  # of a device's limit: how much may be in use

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Every name, in order."""
        return tuple(each.name for each in fields(cls))

    def change(self, values: Iterable[tuple[str, Any]]) -> Self:
        """The same but for `values`; raises NoThreshold, of which the message names the name."""
        changes = {}
        for name, value in values:
            if name not in self.names():
                raise NoThreshold(f"no threshold {name!r}; {instead(name, self.names())}")
            if type(value) not in (int, float) or not 0 <= value < MOST:
                raise NoThreshold(f"threshold {name}: {value!r} is no number from 0 to {MOST:.0e}")
            changes[name] = float(value)
        return replace(self, **changes)


MOST: Final = 1e15

DEFAULT: Final = Thresholds()
