"""Thresholds by name."""

import pytest

from rdmadiag.preflight.thresholds import NoThreshold, Thresholds


def test_every_threshold_can_be_set_by_its_name():
    for name in Thresholds.names():
        assert getattr(Thresholds().change([(name, 7)]), name) == 7


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("link_dwn", 1, "no threshold 'link_dwn'; did you mean link_downed?"),
        ("link_downed", -1, "threshold link_downed: -1 is no number"),
        ("link_downed", "1", "threshold link_downed: '1' is no number"),
        ("link_downed", True, "threshold link_downed: True is no number"),
        ("link_downed", float("nan"), "threshold link_downed: nan is no number"),
        ("link_downed", float("inf"), "threshold link_downed: inf is no number"),
    ],
)
def test_what_is_no_threshold_is_said_in_one_line(name, value, said):
    with pytest.raises(NoThreshold) as caught:
        Thresholds().change([(name, value)])
    assert str(caught.value).startswith(said)
