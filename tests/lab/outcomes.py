"""What the tests of all parts came to, as they left it in lab/out."""

import json
import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from lab.places import CHECKOUT

OUT: Final = CHECKOUT / "lab" / "out"
FOUND: Final = "found.jsonl"
"""In the out folder of a guest: a line for each document with findings, its test and the rules."""


def note(rules: Iterable[str]) -> None:
    """Write down that these rules have findings in the test that runs."""
    folder = os.environ.get("RDMADIAG_LAB_OUT")
    if not folder or not (found := sorted(rules)):
        return
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    with (Path(folder) / FOUND).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"test": test, "rules": found}) + "\n")


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
