"""Pages of names: every exported name of another project, its counterpart, and its test."""

import ast
import doctest
import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from rdmadiag.preflight.x_rdma import (
    PEER_INTERFACE,
    XDOMAIN_SERVICE,
    LinkLayer,
    PortState,
    errno_name,
)
from rdmadiag.sources import ioreg

pytestmark = pytest.mark.once

CHECKOUT = Path(__file__).parents[2]
PAGE = CHECKOUT / "docs" / "x_rdma.md"
CHAIN = CHECKOUT / "docs" / "object_chain.md"

EXPORTED = """
SelectRouteGID SelectRouteGIDInfo IsZeroGID IsIPv4MappedGID RouteGIDScanLimit
PreflightGIDScanLimit DerivePreflightSafety FailedRTRLogLine RequireRTRAttemptAllowed
ErrRTRUnsafe ErrnoName ErrnoText PortActive LinkLayerThunderbolt MaxRouteGIDScan
ReasonNoSafeRouteGID ReasonRouteGIDIndexZero ReasonNoActiveTBDevice ReasonNoPeerInterface
ReasonNoXDomainService ReasonNoRecentLog ReasonRecentRTRFailure ReasonReadOnlyPreflight
IORegistryPeerInterface IORegistryXDomainService RTRAttemptWarning GID GIDInfo RouteGID
PreflightDevice PreflightReport
"""


def rows(page: Path = PAGE) -> list[list[str]]:
    table = [line for line in page.read_text().splitlines() if line.startswith("|")]
    lines = table[2:]  # below the names of the columns and their rule
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def resolved(path: str) -> Any:
    parts = path.split(".")
    for at in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:at]))
        except ImportError:
            continue
        for name in parts[at:]:
            found = getattr(found, name)
        return found
    raise AssertionError(f"{path} is nowhere")


def test_every_exported_name_of_x_rdma_has_a_row() -> None:
    named = {name for row in rows() for name in re.findall(r"`(\w+)`", row[0])}
    assert named == set(EXPORTED.split())


@pytest.mark.parametrize(
    ("here", "test"),
    [pytest.param(row[1], row[3], id=row[0]) for row in rows()]
    + [pytest.param(row[3], row[4], id=row[0]) for row in rows(CHAIN)],
)
def test_the_counterpart_and_its_test_are_there(here: str, test: str) -> None:
    for path in re.findall(r"`([\w.]+)`", here):
        assert resolved(path) is not None
    file, _, name = test.strip("`").partition("::")
    tree = ast.parse((CHECKOUT / file).read_text())
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_the_examples_hold() -> None:
    results = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert results.attempted > 8
    assert results.failed == 0


def test_the_constants_are_those_of_x_rdma() -> None:
    assert (PortState.ACTIVE.number, LinkLayer.THUNDERBOLT.number) == (4, 100)
    assert ioreg.PEER == PEER_INTERFACE == "AppleThunderboltRDMAPeerInterface"
    assert ioreg.XDOMAIN == XDOMAIN_SERVICE == "IOThunderboltXDomainService"


def test_errnos_that_x_rdma_names_wrongly_are_right_here() -> None:
    numbers = (38, 45, 95, 96)
    assert [errno_name(number, "darwin") for number in numbers] == [
        "ENOTSOCK",
        "ENOTSUP",
        "EMULTIHOP",
        "ENODATA",
    ]
    assert errno_name(102, "darwin") == "EOPNOTSUPP"
