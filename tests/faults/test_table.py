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


def test_the_same_families_are_drawn_by_the_seeds_that_were_committed() -> None:
    first, second = table.held_out(1), table.held_out(2)
    assert first == {
        *("cgroup", "iwarp", "kernel-log", "libraries", "mtu", "reverse-path"),
    }
    assert second == {
        *("container", "leftover", "memory", "naming", "options", "privileges", "source"),
        *("switch", "tagged", "third", "two-nets"),
    }
    third = table.held_out(3)
    assert third == {
        *("ephemeral", "hugepages", "ip-versions", "ipvlan", "pkey", "processes", "roles"),
        *("rootless", "setup", "shaping"),
    }
    fourth = table.held_out(4)
    assert fourth == {
        *("freezer", "link-local", "loopback", "mac-addresses", "mounts", "odd-addresses", "rails"),
        *("resolver", "rewriting", "solicit"),
    }
    fifth = table.held_out(5)
    assert fifth == {
        *("advertised", "data-limit", "dns", "lifetimes", "mac-changed", "mixed", "one-way"),
        *("queueing", "sysfs-path", "ttl", "wrappers"),
    }
    sixth = table.held_out(6)
    assert sixth == {
        *("host-gone", "inspection", "local-routes", "mid-changes", "notation", "other-device"),
        *("port-numbers", "secrets", "switch-off", "tool-options", "xdp"),
    }
    seventh = table.held_out(7)
    assert seventh == {
        *("earlier-run", "forwarded", "idle", "images", "pasted", "point-to-point", "renamed"),
        *("rsocket-config", "sessions", "switch-changes", "two-drivers", "unset"),
    }
    eighth = table.held_out(8)
    assert eighth == {
        *("checksums", "ends-environment", "env-quotes", "modes", "netdev-names", "numbers"),
        *("paused", "pipes", "units", "uplinks", "vip"),
    }
    ninth = table.held_out(9)
    assert ninth == {
        *("clones", "closed-streams", "launchers", "many-addresses", "outages", "protocols"),
        *("slow-ports", "stack-limit", "start-scripts", "tcp-buffers", "ucx-files"),
        "vlan-protocols",
    }
    tenth = table.held_out(10)
    assert tenth == {
        *("balancers", "bond-monitors", "file-privileges", "passthru", "path-mtu", "rejects"),
        *("resets", "signal-masks", "small-frames", "syn-proxies", "thread-stacks"),
    }
    eleventh = table.held_out(11)
    assert eleventh == {
        *("allowlists", "base-rules", "bridge-vlans", "dry-runs", "host-lists"),
        *("icmpv6-hardening", "marks", "not-nodes", "ofed-mix", "positional", "prefix-routes"),
        *("rule-order", "source-nat", "switch-acls", "ucx-modules", "untracked"),
    }
    before = first | second | third | fourth | fifth | sixth | seventh | eighth | ninth
    twelfth = table.held_out(12)
    assert twelfth == {
        *("accounts", "any-ip", "ban-lists", "dropped-capabilities", "errexit", "flood-limits"),
        *("hosts-format", "ld-cache", "port-authentication", "pre-checks", "shadowed", "shells"),
        *("socket-owners", "suppressed", "terminals", "time-windows", "unprivileged-ports"),
    }
    thirteenth = table.held_out(13)
    assert thirteenth == {
        *("ack-timeouts", "conntrack-table", "counts", "datagram-sizes", "endpoint-types"),
        *("entering", "host-names", "leading-zeros", "line-ends", "log-files", "mac-filters"),
        *("parsed", "pause-frames", "permits", "repeats", "search-domains"),
    }
    fourteenth = table.held_out(14)
    assert fourteenth == {
        "arp-flux",
        "background",
        "conntrack-timeouts",
        "double-address",
        "enslaved",
        "interface-names",
        "local-resolvers",
        "neighbour-limits",
        "no-index",
        "node-lists",
        "one-ended",
        "profiles",
        "reapers",
        "roce-tos",
        "search-path",
        "unmounted",
    }
    fifteenth = table.held_out(15)
    assert fifteenth == {
        "bogons",
        "chains",
        "dangling",
        "edge-addresses",
        "first-of-list",
        "folders",
        "lacp",
        "newcomers",
        "rail-tables",
        "switched-off",
        "templates",
        "zones",
    }
    sixteenth = table.held_out(16)
    assert sixteenth == {
        "already-running",
        "bounced",
        "environments",
        "flushed",
        "foreign-routes",
        "groups",
        "index-rules",
        "isolation",
        "read-only",
        "relative-paths",
        "remarking",
        "routing-daemons",
        "start-timeouts",
        "used-up",
    }
    seventeenth = table.held_out(17)
    assert seventeenth == {
        "address-selection",
        "ethertypes",
        "exchanged-fields",
        "here-documents",
        "name-patterns",
        "opcodes",
        "overwritten",
        "prompts",
        "redirects",
        "router-advertisements",
        "standard-nodes",
        "sticky-folders",
        "tcp-options",
        "text-busy",
        "time-zones",
        "ttl-filters",
    }
    earlier = before | tenth | eleventh | twelfth | thirteenth | fourteenth | fifteenth | sixteenth
    eighteenth = table.held_out(18)
    assert eighteenth == {
        "arp-suppression",
        "byte-order",
        "crontab",
        "entrypoints",
        "first-packets",
        "getopt",
        "log-rotation",
        "mirroring",
        "numeric-names",
        "realtime",
        "resolved-once",
        "rollbacks",
        "scrubbing",
        "shebangs",
        "storm-control",
        "xargs",
    }
    nineteenth = table.held_out(19)
    assert nineteenth == {
        "comments",
        "conditions",
        "default-routes",
        "fragments",
        "gai-conf",
        "ingress-shapers",
        "liveness",
        "loopback-tests",
        "merge-conflicts",
        "off-by-one",
        "process-groups",
        "python-modules",
        "quiet-hosts",
        "read-loops",
        "unequal-mtus",
        "v6-firewall",
    }
    twentieth = table.held_out(20)
    assert twentieth == {
        "dormant",
        "edited-scripts",
        "flow-volumes",
        "globs",
        "kill-patterns",
        "late-names",
        "leases",
        "lo-interface",
        "percent-signs",
        "port-lists",
        "sandboxes",
        "service-names",
        "socket-units",
        "sorting",
        "subnet-anycast",
        "tmp-cleaners",
    }
    twenty_first = table.held_out(21)
    assert twenty_first == {
        "field-separators",
        "file-mounts",
        "full-sets",
        "ibacm",
        "inherited-files",
        "inherited-timers",
        "job-cgroups",
        "json",
        "mark-bits",
        "negations",
        "parent-death",
        "python-two",
        "run-parts",
        "signatures",
        "variable-clashes",
        "verdicts",
    }
    twenty_second = table.held_out(22)
    assert twenty_second == {
        "altnames",
        "derived-ports",
        "encodings",
        "firewall-pairs",
        "mapped-addresses",
        "name-caches",
        "other-rdma",
        "own-path",
        "port-knocking",
        "recycled-pids",
        "rendezvous-files",
        "rule-files",
        "sdn-controller",
        "sensor-units",
        "swallowed-input",
        "wrapped-streams",
    }
    twenty_third = table.held_out(23)
    assert twenty_third == {
        "acl-direction",
        "assignments",
        "barriers",
        "bitmasks",
        "hexadecimal",
        "kernel-release",
        "kill-switches",
        "look-alikes",
        "nameless-users",
        "network-watchdogs",
        "nonlocal-bind",
        "port-forwards",
        "resolver-options",
        "rule-jumps",
        "running-limits",
        "time-units",
    }
    later = seventeenth | eighteenth | nineteenth | twentieth | twenty_first | twenty_second
    assert table.held_out() == earlier | later | twenty_third


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
