"""Differences as JUnit."""

from dataclasses import replace
from datetime import UTC, datetime
from xml.etree import ElementTree as ET

from rdmadiag.fleet.changed import Part
from rdmadiag.render.diff_junit import text
from tests.render.test_diff import HOST, fact, found

WHEN = datetime(2026, 11, 25, tzinfo=UTC)


def test_a_failure_has_a_line_for_each_key_and_each_item_that_differs() -> None:
    parts = (Part("max_qp", "1", "2"), Part("", "0: roce_v1", None), Part("", None, "\x1b]<&"))
    limits = replace(fact("adapter[0].limits", "a", "b", "mlx5_0"), parts=parts)
    root = ET.fromstring(text(found(limits), HOST, WHEN, only_worse=False))
    (failure,) = root.iter("failure")
    assert (failure.text or "").splitlines() == [
        "a → b",
        "max_qp: 1 → 2",
        "0: roce_v1 → none",
        "none → \\x1b]<&",
    ]
