"""What a pattern cannot match without is in all that it matches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.explain.log.line.literals import literals
from rdmadiag.explain.log.recognition.signs import SIGNS, sign_of
from rdmadiag.explain.log.recognition.words_around import ROWS


@given(st.data())
def test_what_a_row_matches_has_one_of_its_literals(data: st.DataObject) -> None:
    patterns = [*(row.pattern for row in SIGNS), *(pattern for pattern, _ in ROWS)]
    pattern = data.draw(st.sampled_from(patterns))
    found = pattern.search(data.draw(st.from_regex(pattern.pattern)))
    assert found is not None
    assert any(word in found[0] for word in literals(pattern.pattern))


@pytest.mark.parametrize(
    ("pattern", "needed"),
    [
        ("reg_mr failed", ("reg_mr failed",)),
        ("failed|refused", ("failed", "refused")),
        (r"errno\s+(?:110|timed out) at (\w+)", ("errno",)),
        (r"a(?:bcd|efgh)i", ("bcd", "efgh")),
        (r"(?P<name>gid) \d", ("gid",)),
        (r"qps? down", (" down",)),
        (r"colou?r", ("colo",)),
        (r"lo+p", ("lo",)),
        (r"a{0,3}bc", ("bc",)),
        (r"\(tx\) hang[ed]*", ("(tx) hang",)),
        (r"[]a]bc", ("bc",)),
        (r"[^]a]bc", ("bc",)),
    ],
)
def test_it_is_the_longest_that_must_be_there(pattern: str, needed: tuple[str, ...]) -> None:
    assert literals(pattern) == needed


@pytest.mark.parametrize(
    "pattern",
    ["", "a|", r"\d+", "(?:ab)?", "(?!ab)", "(?<=ab)c?", "[ab]", "(?:a|b*)", "a*", "a{2}"],
)
def test_nothing_is_known_of_what_may_be_empty_or_anything(pattern: str) -> None:
    assert literals(pattern) == ()


def test_the_row_that_is_found_is_the_first_that_fits() -> None:
    for text in (
        "ibv_open_device failed",
        "no hca found",
        "port is not active",
        "mlx5 cmd timeout",
    ):
        rows = [row for row in SIGNS if row.fits(text, "linux")]
        assert sign_of(text, "linux") is (rows[0] if rows else None)
