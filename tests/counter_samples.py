"""Two samples of a host at rest, and one change."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from rdmadiag.facts import Missing
from rdmadiag.facts.counters import (
    CountedDevice,
    CountedPort,
    CounterFacts,
    CounterSet,
    CounterSource,
)
from rdmadiag.facts.ib import LinkLayer

AT_REST: Mapping[CounterSource, dict[str, int]] = {
    CounterSource.PORT: {"link_downed": 1, "symbol_error": 4, "port_xmit_data": 1000},
    CounterSource.HW: {"out_of_sequence": 10, "np_cnp_sent": 3, "rx_write_requests": 50},
    CounterSource.NLDEV: {"out_of_sequence": 10, "np_cnp_sent": 3, "rx_write_requests": 50},
    CounterSource.NETDEV: {"rx_bytes": 10**6, "carrier_changes": 2, "rx_missed_errors": 0},
    CounterSource.PAUSE: {"rx_pause_frames": 0, "tx_pause_frames": 0},
    CounterSource.FEC: {
        "corrected_blocks": 10**9,
        "uncorrectable_blocks": 3,
        "corrected_bits": 10**9,
        "corrected_bits/lane0": 10**8,
        "corrected_bits/lane1": 9 * 10**8,
    },
    CounterSource.PHY: {"SymbolErrorDuringCarrier": 0},
}

OF_NETDEVS = (CounterSource.NETDEV, CounterSource.PAUSE, CounterSource.FEC, CounterSource.PHY)


def at_rest(seconds: float = 100.0) -> CounterFacts:
    """mlx5_0 with one port behind eth0."""
    sets = tuple(
        CounterSet(
            source,
            "mlx5_0",
            1,
            "eth0" if source in OF_NETDEVS else None,
            3,
            seconds,
            dict(values),
            {},
            speed_mbps=100_000 if source is CounterSource.FEC else None,
        )
        for source, values in AT_REST.items()
    )
    port = CountedPort(1, LinkLayer.ETHERNET, "eth0")
    device = CountedDevice("mlx5_0", 3, "mlx5_core", (port,))
    return CounterFacts("boot", seconds, ("mlx5_0",), (), (device,), sets, ())


def with_set(
    facts: CounterFacts, source: CounterSource, values: dict[str, int] | Missing, **more: object
) -> CounterFacts:
    """The same sample with other values of one set."""
    sets = (
        replace(
            each,
            values=values if isinstance(values, Missing) else {**AT_REST[source], **values},
            **more,
        )
        if each.source is source
        else each
        for each in facts.sets
    )
    return replace(facts, sets=tuple(sets))


@pytest.fixture
def before() -> CounterFacts:
    """The first sample."""
    return at_rest()


@pytest.fixture
def later() -> Callable[..., CounterFacts]:
    """The second sample, 10 seconds later, with a change."""

    def sample(
        source: CounterSource = CounterSource.HW,
        values: dict[str, int] | Missing | None = None,
        *,
        agreed: bool = True,
        **more: object,
    ) -> CounterFacts:
        facts = with_set(at_rest(110.0), source, {} if values is None else values, **more)
        if source is CounterSource.HW and isinstance(values, dict) and agreed:
            known = {name: value for name, value in values.items() if name in AT_REST[source]}
            facts = with_set(facts, CounterSource.NLDEV, known)
        return facts

    return sample
