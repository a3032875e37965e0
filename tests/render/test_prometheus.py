"""Prometheus' text format: by its page, by Prometheus' own library, and by promtool."""

import math
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client import generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.utils import floatToGoString

from lab.places import cache
from rdmadiag.host.recorded import open_snapshot
from rdmadiag.preflight.judge import judge
from rdmadiag.render import prometheus
from rdmadiag.render.plain import printable
from rdmadiag.render.prometheus import family, number
from rdmadiag.samples import folder, samples
from rdmadiag.sources.run import gather
from rdmadiag.view.reconcile import devices

WHEN = datetime(2026, 2, 3, 4, 5, 6, 789000, tzinfo=UTC)


@given(st.floats())
@example(999999.0)
@example(1000000.0)
@example(25e9)
@example(1e16)
@example(-1e9)
def test_a_number_is_written_as_prometheus_library_writes_it(value: float) -> None:
    assert number(value) == floatToGoString(value)
    assert float(number(value)) == value or math.isnan(value)


TEXT = st.text(st.characters(codec="utf-8"), max_size=8)


class Registry:
    def __init__(self, family: GaugeMetricFamily) -> None:
        self.family = family

    def collect(self) -> list[GaugeMetricFamily]:
        return [self.family]


@given(st.lists(st.tuples(TEXT, TEXT, st.none() | st.floats(allow_nan=False)), max_size=4))
@example([('a"b', "c\\d\ne", 1.0)])
def test_a_family_is_written_as_prometheus_library_writes_it(
    rows: list[tuple[str, str, float | None]],
) -> None:
    labels = ("port", "device")
    theirs = GaugeMetricFamily("rdmadiag_x", "What it is.", labels=labels)
    for first, second, value in rows:
        if value is not None:
            theirs.add_metric([printable(first), printable(second)], value)
    ours = family("x", "What it is.", labels, [(row[:2], row[2]) for row in rows])
    assert ours == generate_latest(Registry(theirs)).decode()


@given(TEXT)
def test_a_label_is_read_back_as_it_was_shown(value: str) -> None:
    text = family("x", "What it is.", ("device",), [((value,), 1)])
    (read,) = text_string_to_metric_families(text)
    (sample,) = read.samples
    assert sample.labels == {"device": printable(value)}


def promtool() -> str | None:
    """Installed, or in the lab's cache, which `make lab` fills."""
    cached = cache() / "promtool"
    return str(cached) if Path(cached).exists() else shutil.which("promtool")


@pytest.mark.skipif(promtool() is None, reason="no promtool: python -m lab fetches it")
@pytest.mark.parametrize("sample", samples())
def test_promtool_accepts_what_a_sample_gives(sample: str, soon: float) -> None:
    evidence = gather(open_snapshot(folder(sample)), soon)
    text = prometheus.text(judge(evidence), devices(evidence), WHEN)
    argv = [promtool() or "", "check", "metrics"]
    done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
