"""What the nodes of a round are handed: as it was made, or not at all."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts import Missing
from rdmadiag.fleet.pair_job import Job, JobPair, parse_addresses, parse_job

NAME = st.from_regex(r"[a-z][a-z0-9-]{0,10}[a-z0-9]", fullmatch=True)
PAIR = st.builds(
    JobPair, NAME, NAME, st.text(min_size=1, max_size=20), st.none() | NAME, st.none() | NAME
).filter(lambda pair: pair.sender != pair.receiver)
JOB = st.builds(
    Job,
    st.text(),
    st.lists(PAIR, max_size=5).map(tuple),
    st.integers(1, 1 << 20),
    st.integers(1, 10_000),
    st.floats(0, 60),
    st.floats(1, 3600),
    st.floats(1, 60),
    st.booleans(),
)
GOOD = Job("secret", (JobPair("a", "b", "b-ib", None, "mlx5_0"),), 64, 100, 0.0, 30.0, 15.0)


@given(JOB)
def test_a_round_is_read_as_it_was_written(job: Job) -> None:
    assert parse_job(job.line()) == job
    assert job.line().count(b"\n") == 1


def test_a_node_finds_its_own_pair() -> None:
    (pair,) = GOOD.pairs
    assert GOOD.of("a") == GOOD.of("b") == pair
    assert GOOD.of("c") is None
    assert (pair.device("a"), pair.device("b")) == (None, "mlx5_0")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("payload", 0),
        ("payload", 1 << 21),
        ("payload", True),
        ("iterations", "many"),
        ("deadline", 61),
        ("wait", -1),
        ("bandwidth", float("nan")),
        ("secret", None),
        ("busy", 1),
        ("pairs", {}),
        ("pairs", [["a", "b", "c", None]]),
        ("pairs", [["a", "a", "c", None, None]]),
        ("pairs", [["-o", "b", "c", None, None]]),
        ("pairs", [["a", "b", "x" * 300, None, None]]),
        ("pairs", [["a", "b", "", None, None]]),
    ],
)
def test_what_does_not_fit_makes_the_whole_of_it_missing(name: str, value: Any) -> None:
    changed = json.loads(GOOD.line()) | {name: value}
    assert isinstance(parse_job(json.dumps(changed).encode()), Missing)


@given(st.binary(max_size=200))
def test_any_bytes_are_read(content: bytes) -> None:
    assert isinstance(parse_job(content), Missing)


def test_addresses_are_lines_of_a_node_its_address_and_its_devices() -> None:
    text = b"# a table\nn1 192.0.2.1\n\nn2 n2-ib mlx5_0 mlx5_1 # rails\n"
    assert parse_addresses(text) == {"n1": ("192.0.2.1",), "n2": ("n2-ib", "mlx5_0", "mlx5_1")}


@pytest.mark.parametrize("line", [b"n1", b"-o 192.0.2.1"])
def test_a_line_without_a_node_and_an_address_is_named(line: bytes) -> None:
    found = parse_addresses(b"n0 192.0.2.9\n" + line)
    assert isinstance(found, Missing)
    assert found.detail == "line 2 is not NODE ADDRESS [DEVICE...]"


@given(st.binary(max_size=200))
def test_any_table_is_read(content: bytes) -> None:
    assert isinstance(parse_addresses(content), Missing | dict)
