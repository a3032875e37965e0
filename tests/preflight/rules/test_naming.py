"""A host's own names: one that fits, and one change of a file."""

import pytest

from lab.samples import roce_host
from rdmadiag.preflight.judge import judge
from tests.preflight.test_judge_route import host

OWN, SWITCH = "127.0.1.1 node1\n", "hosts: files dns\n"


def said(hosts: str, switch: str = SWITCH) -> list[tuple[str, str]]:
    files = {
        "/proc/sys/kernel/hostname": "node1\n",
        "/etc/hosts": f"127.0.0.1 localhost\n{hosts}",
        "/etc/nsswitch.conf": switch,
    }
    machine = host(("192.0.2.1/24",)).change(files=files)
    rules = ("own-name-elsewhere", "hosts-file-unused")
    found = judge(machine.evidence()).findings
    return [(each.rule, each.severity.value) for each in found if each.rule in rules]


CASES = {
    "of loopback": (OWN, []),
    "of an interface": ("192.0.2.1 node1\n", []),
    "of another host": ("192.0.2.66 node1\n", [("own-name-elsewhere", "warn")]),
    "of both": ("192.0.2.1 node1\n192.0.2.66 node1\n", [("own-name-elsewhere", "warn")]),
    "another host's name": ("192.0.2.66 node2\n", []),
}


@pytest.mark.parametrize("name", CASES)
def test_the_own_name_is_of_an_own_address(name: str) -> None:
    hosts, wanted = CASES[name]
    assert said(hosts) == wanted


@pytest.mark.parametrize(
    ("hosts", "switch", "wanted"),
    [
        ("192.0.2.2 node2\n", "hosts: dns\n", [("hosts-file-unused", "warn")]),
        ("192.0.2.2 node2\n", "hosts: resolve [!UNAVAIL=return] dns\n", []),
        ("192.0.2.2 node2\n", "hosts: dns files\n", []),
        ("", "hosts: dns\n", []),
        ("192.0.2.2 node2\n", "", []),
    ],
    ids=[
        "by DNS alone",
        "by systemd-resolved",
        "DNS first",
        "no other host in it",
        "without a row",
    ],
)
def test_a_file_with_hosts_in_it_is_looked_into(
    hosts: str, switch: str, wanted: list[tuple[str, str]]
) -> None:
    assert said(hosts, switch) == wanted


def test_a_record_from_before_has_no_such_rule() -> None:
    verdict = judge(roce_host().evidence())
    rules = {each.rule for each in (*verdict.findings, *verdict.skipped)}
    assert not rules & {"own-name-elsewhere", "hosts-file-unused", "rdma-program-stopped"}
