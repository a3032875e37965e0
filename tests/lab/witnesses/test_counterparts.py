"""docs/counterparts.md names tests of the lab: of those that ran there, none was skipped always."""

from collections import defaultdict
from xml.etree import ElementTree as ET

import pytest

from docs.counterparts import Kind, kind, witnesses
from lab.places import CHECKOUT

OUT = CHECKOUT / "lab" / "out"


def ran() -> dict[tuple[str, str], list[bool]]:
    """Class and name of each test in the results of all parts → whether it ran, each time."""
    found = defaultdict(list)
    for path in OUT.rglob("junit.xml"):
        for case in ET.parse(path).iter("testcase"):
            name = case.get("name", "").partition("[")[0]
            found[case.get("classname", ""), name].append(case.find("skipped") is None)
    return found


@pytest.mark.parametrize("node", [each for each in witnesses().values() if kind(each) is Kind.LIVE])
def test_what_shows_a_row_was_not_skipped_in_every_part(node: str) -> None:
    path, *classes, name = node.split("::")
    module = path.removesuffix(".py").replace("/", ".")
    times = ran().get((".".join((module, *classes)), name), [])
    if not times:
        pytest.skip("its part did not run")
    assert any(times)
