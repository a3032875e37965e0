"""The tables of faults."""

import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from faults import table
from faults.run import A_GUEST, batches
from rdmadiag.explain.causes import CAUSES
from rdmadiag.preflight.rules import CATALOGUE

pytestmark = pytest.mark.once

FAULT: dict[str, Any] = {
    "name": "one",
    "truth": "something is wrong",
    "host": "left",
    "object": "eth0",
    "stage": "rtr",
    "causes": ["no-route"],
    "tools": ["rping"],
    "check": {"left": ["true"]},
}


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty benchmark with the real tools."""
    (tmp_path / "cases").mkdir()
    (tmp_path / "tools.toml").write_text((table.HERE / "tools.toml").read_text())
    monkeypatch.setattr(table, "HERE", tmp_path)
    return tmp_path / "cases" / "some.toml"


def toml(row: dict[str, Any]) -> str:
    lines = ["[[fault]]"]
    for key, value in row.items():
        rows = value.items() if isinstance(value, dict) else [("", value)]
        lines += [f"{key}.{place} = {each!r}".replace(". =", " =") for place, each in rows]
    return "\n".join(lines) + "\n"


def test_each_family_has_as_many_faults_as_were_announced() -> None:
    plan = tomllib.loads((table.HERE / "families.toml").read_text())["family"]
    announced = {
        each["name"]: each["faults"]
        for each in plan
        if "unmade" not in each
        # Of the third round the drawn ones alone are written down.
        and (each.get("round", 1) != 3 or each["name"] in table.held_out(3))
    }
    assert Counter(each.family for each in table.faults()) == announced


def test_causes_and_rules_of_the_truth_are_ours() -> None:
    for fault in table.faults():
        assert set(fault.causes) <= set(CAUSES), fault.name
        assert set(fault.rules) <= set(CATALOGUE), fault.name
        assert fault.causes or fault.rules


DRAWN = {
    1: "cgroup iwarp kernel-log libraries mtu reverse-path",
    2: "container leftover memory naming options privileges source switch tagged third two-nets",
    3: "ephemeral hugepages ip-versions ipvlan pkey processes roles rootless setup shaping",
    4: (
        "freezer link-local loopback mac-addresses mounts odd-addresses rails resolver "
        "rewriting solicit"
    ),
    5: (
        "advertised data-limit dns lifetimes mac-changed mixed one-way queueing "
        "sysfs-path ttl wrappers"
    ),
    6: (
        "host-gone inspection local-routes mid-changes notation other-device port-numbers "
        "secrets switch-off tool-options xdp"
    ),
    7: (
        "earlier-run forwarded idle images pasted point-to-point renamed rsocket-config "
        "sessions switch-changes two-drivers unset"
    ),
    8: (
        "checksums ends-environment env-quotes modes netdev-names numbers paused pipes "
        "units uplinks vip"
    ),
    9: (
        "clones closed-streams launchers many-addresses outages protocols slow-ports "
        "stack-limit start-scripts tcp-buffers ucx-files vlan-protocols"
    ),
    10: (
        "balancers bond-monitors file-privileges passthru path-mtu rejects resets "
        "signal-masks small-frames syn-proxies thread-stacks"
    ),
}
"""By the seed of each round of which a part is held out."""


@pytest.mark.parametrize("number", DRAWN)
def test_the_same_families_are_drawn_by_the_seeds_that_were_committed(number: int) -> None:
    assert table.held_out(number) == set(DRAWN[number].split())


def test_from_the_eleventh_round_on_all_of_a_round_is_held_out() -> None:
    of = table.rounds()
    for number in range(max(DRAWN) + 1, max(of.values()) + 1):
        assert table.held_out(number) == {name for name in of if of[name] == number}


def test_a_round_draws_of_its_own_families_alone() -> None:
    by_round = table.rounds()
    for number in range(1, 11):
        assert {by_round[name] for name in table.held_out(number)} == {number}


@pytest.mark.parametrize("number", range(1, 11))
def test_a_round_has_at_least_twenty_faults_held_out(number: int) -> None:
    drawn = table.held_out(number)
    assert sum(each.family in drawn for each in table.faults()) >= 20


def test_sixty_faults_are_open_and_twenty_held_out() -> None:
    families = table.held_out()
    held = [each.family in families for each in table.faults()]
    assert (held.count(False) >= 60, held.count(True) >= 20) == (True, True)


def test_a_row_is_read_as_it_stands(write: Path) -> None:
    write.write_text(toml(FAULT))
    (found,) = table.faults()
    assert (found.family, found.setting, found.tools) == ("some", "rxe", ("rping",))
    assert found.twins == ("healthy-rxe-rping",)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"colour": "red"}, "no such key"),
        ({"host": "middle"}, "host is one of"),
        ({"tools": ["telnet"]}, "no such tool"),
        ({"check": {}}, "nothing shows"),
        ({"make": {"middle": ["true"]}}, "make is of"),
    ],
    ids=["an unknown key", "an unknown host", "an unknown tool", "no check", "an unknown place"],
)
def test_a_row_that_is_wrong_is_refused(write: Path, change: dict[str, Any], message: str) -> None:
    write.write_text(toml({**FAULT, **change}))
    with pytest.raises(table.Malformed, match=message):
        table.faults()


def test_two_faults_of_one_name_are_refused(write: Path) -> None:
    write.write_text(toml(FAULT) * 2)
    with pytest.raises(table.Malformed, match="two faults"):
        table.faults()


def test_what_is_written_to_the_kernels_log_has_a_kernel_of_its_own() -> None:
    names = [each.name for each in table.faults()]
    found = batches(names)
    assert sorted(name for some in found for name in some) == sorted(names)
    assert max(map(len, found)) <= A_GUEST
    assert all(len(some) == 1 for some in found if some[0].startswith("kernel-log"))


def test_lines_of_the_kernels_log_are_said_by_the_kernel() -> None:
    """What a process writes to /dev/kmsg is marked as its own, and not believed."""
    lines = [line for f in table.faults() for some in f.make.values() for line in some]
    assert not [line for line in lines if "/dev/kmsg" in line]
    for fault in (each for each in table.faults() if each.family == "kernel-log"):
        assert any("insmod" in line for line in fault.make["left"])
        assert all("--facility kern" in line for line in fault.check["left"])


def test_the_readme_counts_what_is_there() -> None:
    text = (table.HERE / "README.md").read_text()
    counts = re.search(r"(\d+) faults between two hosts, in (\d+) families", text)
    assert counts
    rows = table.faults()
    assert [int(each) for each in counts.groups()] == [len(rows), len({r.family for r in rows})]
