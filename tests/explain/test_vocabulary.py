"""The words by which a line is taken up."""

import pytest

from rdmadiag.explain.log.recognition import vocabulary


@pytest.mark.parametrize("name", ["CONTEXT", "TROUBLE", "BOTH", "NEAR"])
def test_no_word_stands_in_another_one_of_its_list(name: str) -> None:
    words = getattr(vocabulary, name)
    assert len(words) == len({*words})
    assert [w for w in words if any(other in w for other in words if other != w)] == []
