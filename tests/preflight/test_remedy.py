"""Lines to paste: documented with names in capitals, filled in with a host's own."""

import shlex
from string import Formatter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.preflight.remedy import Verbatim, documented, filled
from rdmadiag.preflight.rules import CATALOGUE


@pytest.mark.parametrize(
    ("template", "shown"),
    [
        ("sudo ip link set dev {netdev} up", "sudo ip link set dev NETDEV up"),
        ("cat {node:uverbsN}/dev", "cat uverbsN/dev"),
        ("#   {cause:ERRNO: its causes}", "#   ERRNO: its causes"),
        ("rdma link", "rdma link"),
    ],
)
def test_documentation_shows_capitals_or_the_words_behind_the_colon(
    template: str, shown: str
) -> None:
    assert documented(template) == shown


@given(st.text(), st.text())
def test_a_filled_line_has_the_words_of_its_template(one: str, other: str) -> None:
    (line,) = filled(["ls {one} -l {other}"], {"one": one, "other": other})
    assert len(shlex.split(line, comments=True)) == 4
    assert "\n" not in line


@pytest.mark.parametrize(
    ("values", "lines"),
    [
        pytest.param({"pid": 1, "name": "a"}, ["kill 1  # a"], id="one value"),
        pytest.param({"pid": (1, 2), "name": "a"}, ["kill 1  # a", "kill 2  # a"], id="a list"),
        pytest.param(
            {"pid": (1, 2), "name": ("a", "b c")},
            ["kill 1  # a", "kill 2  # 'b c'"],
            id="two lists side by side",
        ),
        pytest.param({"pid": (), "name": "a"}, [], id="an empty list leaves the line out"),
        pytest.param({"pid": 1, "name": Verbatim("b c")}, ["kill 1  # b c"], id="text of our own"),
    ],
)
def test_a_line_is_given_once_for_each_value(values: dict[str, object], lines: list[str]) -> None:
    assert list(filled(["kill {pid}  # {name}"], values)) == lines


def test_a_name_without_a_value_is_a_mistake_of_the_rule() -> None:
    with pytest.raises(KeyError, match="netdev"):
        list(filled(["ifconfig {netdev}"], {}))


def test_every_template_of_the_catalogue_can_be_read() -> None:
    for rule in CATALOGUE.values():
        for when, templates in rule.remedies.items():
            assert when == when.strip().removesuffix(":"), rule.code
            for template in templates:
                names = [name for _, name, _, _ in Formatter().parse(template) if name is not None]
                assert all(name.isidentifier() for name in names), (rule.code, template)
