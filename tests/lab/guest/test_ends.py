"""Two hosts that cannot reach each other, by the reports of both: faults made by ip and tc."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from faults.hosts import Hosts, Node
from faults.inside import RDMADIAG
from tests.lab.outcomes import note

pytestmark = pytest.mark.needs("rxe in namespaces")

SECONDS = 120


def there(node: Node, line: str) -> str:
    done = node.do(line)
    assert done.returncode in (0, 1, 2), done.stdout
    return done.stdout


def snapshot(node: Node, folder: Path) -> str:
    where = folder / node.name
    there(node, f"{RDMADIAG} snapshot {where} --timeout 30 >/dev/null 2>&1; test -d {where}")
    return str(where)


def run(*arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [RDMADIAG, *arguments, "--json", "--timeout", "30"],
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    several = [*found.get("findings", ()), *found.get("verdict", {}).get("findings", ())]
    note({each.get("finding", each)["rule"] for each in several})
    return found


def compat(hosts: Hosts, folder: Path) -> tuple[str, list[tuple[str, str, list[str]]]]:
    folder.mkdir()
    found = run("compat", *(snapshot(hosts.nodes[end], folder) for end in ("left", "right")))
    said = [
        (each["finding"]["rule"], each["finding"]["severity"], each["hosts"])
        for each in found["findings"]
    ]
    assert found["not_looked_at"] == []
    return found["talks"], said


@pytest.mark.long
def test_a_wrong_neighbour_entry_and_a_filter_are_found_by_both_reports(tmp_path: Path) -> None:
    with Hosts("rxe") as hosts:
        left, right = hosts.nodes["left"], hosts.nodes["right"]
        assert compat(hosts, tmp_path / "healthy") == ("yes", [])
        there(
            left,
            "ip neigh replace 192.0.2.2 lladdr 02:00:00:00:00:99 dev eth0 nud permanent",
        )
        _, said = compat(hosts, tmp_path / "neighbour")
        assert said == [("ends-neighbour-wrong", "critical", ["left"])]
        logs = tmp_path / "left.log"
        logs.write_text("local address:  LID 0x0000, QPN 0x000011, GID ::ffff:192.0.2.1\n")
        reports = f"--from={tmp_path / 'neighbour'}"
        story = run("explain", "--log", str(logs), "--job", reports)
        assert story["of_reports"]["hosts"] == ["left"]
        assert story["of_reports"]["object"] == "neighbour entry of 192.0.2.2 on eth0"
        there(left, "ip neigh del 192.0.2.2 dev eth0")
        there(
            right,
            "tc qdisc add dev eth0 clsact && tc filter add dev eth0 ingress protocol ip flower "
            "ip_proto udp dst_port 4791 action drop",
        )
        talks, said = compat(hosts, tmp_path / "filter")
        assert said == [
            ("filter-drops-rdma", "critical", ["right"]),
            ("ends-traffic-dropped", "critical", ["right"]),
        ]
        assert talks == "unknown"  # by IPv6, which the filter leaves alone, nothing is against it
        found = run("preflight", f"--from={tmp_path / 'filter' / 'right'}", "--device", "rxe1")
        rules = {each["rule"]: each["severity"] for each in found["verdict"]["findings"]}
        assert rules["filter-drops-rdma"] == "critical"


def test_netem_of_a_host_itself_is_found_with_what_it_does(tmp_path: Path) -> None:
    with Hosts("rxe") as hosts:
        left = hosts.nodes["left"]
        there(left, "tc qdisc add dev eth0 root netem loss 25% delay 100ms")
        found = run("preflight", f"--from={snapshot(left, tmp_path)}", "--device", "rxe0")
        (said,) = [each for each in found["verdict"]["findings"] if each["rule"] == "netem-at-port"]
        assert said["severity"] == "warn"
        assert "loss 25 %, delay 100 ms" in said["summary"]


@pytest.mark.skipif(shutil.which("iptables-nft") is None, reason="no iptables-nft here")
def test_a_rule_of_nftables_that_drops_roce_is_found_by_one_report_and_by_both(
    tmp_path: Path,
) -> None:
    with Hosts("rxe") as hosts:
        right = hosts.nodes["right"]
        there(right, "iptables-nft -A INPUT -p udp --dport 4791 -j DROP")
        assert "4791" in there(right, "iptables-nft -S INPUT")
        _, said = compat(hosts, tmp_path / "nft")
        assert said == [
            ("firewall-drops-rdma", "critical", ["right"]),
            ("ends-traffic-dropped", "critical", ["right"]),
        ]
        found = run("preflight", f"--from={tmp_path / 'nft' / 'right'}", "--device", "rxe1")
        rules = {each["rule"]: each for each in found["verdict"]["findings"]}
        assert rules["firewall-drops-rdma"]["severity"] == "critical"
        assert "ip filter INPUT" in rules["firewall-drops-rdma"]["summary"]
