"""What the tests of all parts came to, as they left it in lab/out."""

import json
from collections import defaultdict
from typing import Final
from xml.etree import ElementTree as ET

from lab.places import CHECKOUT

OUT: Final = CHECKOUT / "lab" / "out"
FOUND: Final = "found.jsonl"
"""In the out folder of a guest: a line for each document with findings, its test and the rules."""


def ran() -> dict[tuple[str, str], list[bool]]:
    """Class and name of each test in the results → whether it ran, each time."""
    found = defaultdict(list)
    for path in OUT.rglob("junit.xml"):
        for case in ET.parse(path).iter("testcase"):
            name = case.get("name", "").partition("[")[0]
            found[case.get("classname", ""), name].append(case.find("skipped") is None)
    return found


def times(node: str) -> list[bool]:
    """The same of one test, by its node id; none where its part did not run."""
    path, *classes, name = node.split("::")
    module = path.removesuffix(".py").replace("/", ".")
    return ran().get((".".join((module, *classes)), name), [])


def rules_found() -> dict[str, set[str]]:
    """Node id without parameters → the rules that had findings in it."""
    found = defaultdict(set)
    for path in OUT.rglob(FOUND):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            found[row["test"].partition("[")[0]].update(row["rules"])
    return found
