"""Counters are named "error" and "exceeded" on a healthy host too."""

import pytest

from rdmadiag.explain.log.line.fields import fields
from rdmadiag.explain.log.line.identifiers import without_counters
from rdmadiag.explain.log.recognition.recognise import of_identifiers
from rdmadiag.facts import counter_catalogue
from tests.explain.score import Excerpt, score

NAMES = sorted(
    {name for names in counter_catalogue._DRIVERS.values() for name in names}
    | set(counter_catalogue._SATURATING)
    | set(counter_catalogue._WIDE)
)
FORMS = {
    "rdma statistic": "{name} {value}",
    "ethtool -S": "     {name}: {value}",
    "an exporter": 'node_infiniband_{name}{{device="mlx5_0",port="1"}} {value}',
    "a shell": "{name}={value}",
    "JSON": '"{name}": {value},',
    "a table": "| {name} | {value} |",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", [0, 7])
def test_counters_of_a_host_are_no_failure(form: str, value: int) -> None:
    for name in NAMES:
        line = FORMS[form].format(name=name, value=value)
        assert score(Excerpt("one", {}, line.encode())).as_ok, line
    lines = [FORMS[form].format(name=each, value=value) for each in NAMES]
    for first in range(0, len(lines), 50):
        text = "link mlx5_0/1\n" + "\n".join(lines[first : first + 50])
        assert score(Excerpt("listing", {}, text.encode())).as_ok


def test_all_counters_in_one_line_are_no_failure() -> None:
    line = "link rxe0/1 " + " ".join(f"{name} 0" for name in NAMES[:25])
    assert score(Excerpt("one", {}, line.encode())).as_ok


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("Transfer failed: retry_exceeded_error on channel 3", 12),
        ("ibv_wc_status: IBV_WC_RETRY_EXC_ERR (12)", 12),
        ("completion with RNR_RETRY_EXC_ERR 13", 13),
    ],
)
def test_a_status_that_is_no_counter_is_still_read(text: str, status: int) -> None:
    meaning = of_identifiers(fields(text))
    assert meaning is not None
    assert meaning.fields.status == status


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("retry_exceeded_err 0", " "),
        ("a retry_exceeded_err: 12 b", "a   b"),
        ("qp_num lost, status 12", "qp_num lost, status 12"),
        ("RETRY_EXC_ERR 12", "RETRY_EXC_ERR 12"),
    ],
)
def test_what_is_taken_out_is_a_name_in_small_letters_with_a_count(line: str, left: str) -> None:
    assert without_counters(line) == left
